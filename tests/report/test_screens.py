"""Default screens, 80 × 24: of results in every state, and of every command in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from ortbench.analysis.series import Selection
from ortbench.core.errors import BadInput
from ortbench.facts import sentences
from ortbench.facts.sentences import Check
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import Verdict
from ortbench.features.gate.plan import Limits
from ortbench.features.gate.report import gate_screen
from ortbench.model.metric_names import parse_metric
from ortbench.model.modes import LATENCY
from ortbench.model.result import FAILED, Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import LoadBlock
from ortbench.report import comparison
from ortbench.report.brief import HEIGHT, WIDTH, brief
from ortbench.report.model import Findings, Report, Table
from ortbench.report.run import screen
from tests import results
from tests.benchmarks.same import SUITE
from tests.conftest import MODELS, ROOT, SCREEN, ortbench
from tests.facts.test_kinds import soak_result
from tests.report.test_terminal import shown

LONG = "encoder.layers.11.attention.self.query_key_value.projectio_"
MODEL_PATH = "models/sentence-transformers-all-MiniLM-L6-v2-optimized-O3.onnx"
WRONG = "after the timed runs: 1 of 2 values of output y differ from those of cpu-tensors by up to 0.3 where 0.001 is allowed"
WARNING = "a warning of an ordinary length, which says what is not as it was asked for, and what to do about it now"
STORED = sorted((ROOT / "reports").rglob("result.json"))
SCRIPTED: dict[str, Callable[[], Result]] = {
    "run": results.published, "loop": results.decoding, "generation": results.generating, "chain": results.chain,
    "sweep": lambda: results.stored("sweep"), "clients": results.serving, "rates": results.paced, "start": lambda: load(ROOT / "reports" / "gpu-h100-2" / "start" / "result.json"),
    "soak": lambda: soak_result([100_000_000 + 50_000 * number for number in range(100)]),
}  # fmt: skip


def fits(lines: Sequence[str]) -> list[str]:
    """The lines of a screen, above the prompt."""
    assert len(lines) < HEIGHT, "\n".join(lines)
    assert max(map(len, lines), default=0) <= WIDTH, "\n".join(lines)
    return list(lines)


def lines_of(report: Report) -> list[str]:
    return fits(shown(lambda: report, width=WIDTH))


# States of a result


def all_failed(result: Result) -> None:
    for number, case in enumerate(result.cases):
        empty = None if case.load_blocks is None else list[LoadBlock]()
        result.cases[number] = Case(case.mode, FAILED, "ended by SIGSEGV", case.point, load_blocks=empty)


def failed_with_figures(result: Result) -> None:
    for case in result.cases:
        case.status, case.reason = FAILED, WRONG


def without_cases(result: Result) -> None:
    result.cases = []


def full(result: Result) -> None:
    """What takes room, each in as many lines as it can be."""
    for number in range(5):
        result.warn(f"w{number}", WARNING)
    result.noise = results.noise_of(2, 1.2, [0.5] * 12)
    result.stopped = {"reason": "interrupted"}


def long_names(result: Result) -> None:
    full(result)
    for number, it in enumerate([*result.model["inputs"], *result.model["outputs"]]):
        it["name"] = f"{LONG}{number}"
    result.model["path"] = MODEL_PATH
    result.cases[-1].status, result.cases[-1].reason = FAILED, WRONG


STATES: dict[str, Callable[[Result], None]] = {
    "ok": lambda _: None, "all-failed": all_failed, "failed-with-figures": failed_with_figures, "without-cases": without_cases,
    "full": full, "long-names": long_names,
}  # fmt: skip


def check(result: Result, state: str) -> None:
    STATES[state](result)
    lines = lines_of(screen(result, "reports/20261128-150558-some-folder"))
    text = " ".join(" ".join(lines).split())
    is_measured = any(case.median(LATENCY) is not None for case in result.cases)
    assert ("Busy machine" in text) == (state in ("full", "long-names") and is_measured)
    assert ("SIGSEGV" in text) == (state == "all-failed")
    assert sum(line.startswith("  Next: ") for line in lines) <= 1
    for names in (("one", "two", "three"), (LONG, f"{LONG}2")):
        lines_of(brief(comparison.build([result] * len(names), names, 0.02, False)))
    try:
        checks = check_stored(result, result, Limits(max_regression=0.05))
    except BadInput:  # of some kinds no metric is gated by itself
        return
    assert any(line.startswith("gate: ") for line in lines_of(gate_screen(Verdict([result] * 2, checks)))[-2:])


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", SCRIPTED)
def test_results_of_each_kind_in_each_state(name: str, state: str) -> None:
    check(SCRIPTED[name](), state)


@pytest.mark.wide
@pytest.mark.parametrize("path", STORED, ids=lambda path: str(path.parent.relative_to(ROOT / "reports")))
def test_stored_results_with_what_takes_room(path: Path) -> None:
    result = load(path)
    full(result)
    assert lines_of(screen(result, "reports/20261128-150558-some-folder"))


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (partial(load, ROOT / "reports" / "gpu-h200" / "vit" / "result.json"), [("pipelined", "batch=64")]),
        (SCRIPTED["sweep"], None),
        (results.paced, None),
    ],
    ids=["vit", "sweep", "rates"],
)
def test_rows_that_are_left_out_are_those_that_no_finding_is_about(make: Callable[[], Result], rows: object) -> None:
    blocks = [block for part in screen(make(), None).parts for block in part]
    shown_rows = [row for block in blocks if isinstance(block, Table) for row in block.rows]
    found = [it.row for block in blocks if isinstance(block, Findings) for it in block.findings if it.row]
    assert found
    assert rows is None or found == rows
    for names in found:
        assert any({*names} <= {cell.partition(" (")[0] for cell in row} for row in shown_rows)


HELD, RATES = ("host_held", "latency.p99"), ("latency", "latency.p99")
SIDE_BY_SIDE: list[tuple[str, int, tuple[str, ...], list[str]]] = [
    ("soak", 2, HELD, ["private memory, second half", "104 MB", "latency p99", "ratio", "95% CI", "verdict"]),
    ("soak", 4, HELD[:1], ["private memory, second half", "104", "vs first", "verdict"]),
    ("rates", 4, RATES, ["latency ", "latency p99", "vs first", "95% CI", "verdict", "SLO"]),
    ("run", 4, ("h2d", "latency.p99"), ["H2D", "latency p99", "vs first", "95% CI", "verdict"]),
    ("clients", 2, ("throughput", "latency"), ["throughput", "inf/s", "latency", "ratio", "verdict"]),
    ("rates", 2, (), ["latency p99", "ratio", "SLO", "violated"]),
    ("sweep", 2, (), ["latency", "ratio"]),
    ("soak", 4, (), ["CPU time", "private memory, second half", "vs first", "verdict"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "count", "metrics", "words"), SIDE_BY_SIDE)
def test_metrics_of_results_side_by_side(name: str, count: int, metrics: tuple[str, ...], words: list[str]) -> None:
    only = Selection(metrics=tuple(map(parse_metric, metrics)))
    compared, names = [SCRIPTED[name]() for _ in range(count)], list("abcd")[:count]
    for result in compared:
        full(result)
        for case in result.cases if name == "soak" else ():
            case.metrics["cpu_time"] = case.metrics["latency"]
    for report in (
        comparison.build(compared, names, 0.02, True, only),
        comparison.build_configurations(compared, names, 0.02, "reports/some", only),
    ):
        text = "\n".join(lines_of(brief(report)))
        assert [word for word in words if word not in text] == [], text


@pytest.mark.parametrize("verdict", [sentences.PASSED, sentences.UNCLEAR, sentences.FAILED])
@pytest.mark.parametrize("metric", [None, "latency.median"], ids=["notes", "rows"])
def test_no_check_of_a_gate_is_dropped(verdict: str, metric: str | None) -> None:
    result = results.published()
    mode = None if metric is None else result.cases[0].mode
    found = [
        Check(f"check-{it}", verdict, f"check-{it}: " + 30 * "word ", 1.0, limit=1.05, metric=metric, mode=mode)
        for it in range(9)
    ]
    full(result)
    text = "\n".join(lines_of(gate_screen(Verdict([result] * 2, found))))
    assert [it.name for it in found if it.name not in text] == []


FEW = ("--iterations", 9, "--warmup", 1)
SUITE_LINE = ("suite", "suite.toml", "--out")
H100 = "copy_bound-cuda-h100"  # a stored result
LINES: dict[str, list[tuple[object, ...]]] = {
    "side-by-side": [("run", "models/tiny.onnx", "DEVICE", *FEW, "--opt-level", "basic,all", "--intra-op-threads", "1,2")],
    "gate-live": [("gate", "--model", "models/tiny.onnx", "DEVICE", "--duration", 1, "--no-why", "--baseline-model", "models/tiny.onnx")],
    "gate-stored": [("gate", H100, "--baseline", H100, "--max-cpu-nodes", 0, "--min-speedup", "device-resident=100")],
    "compare-many": [("compare", *[H100] * 6)],
    "tune": [("tune", "models/tiny.onnx", "--ep", "cpu", "--max-time", "3s", "--duration", "0.05")],
    "suite-merge": [(*SUITE_LINE, "s/1", "--shard", "1/2"), (*SUITE_LINE, "s/2", "--shard", "2/2"), ("suite", "merge", "s/1", "s/2", "--out", "all")],
    "profile": [("profile", "models/tiny.onnx", "DEVICE", "--attach-only", "--iterations", 3, "--warmup", 1)],
    "inspect": [("inspect", "models/cpu_island.onnx", "DEVICE")],
    "devices": [("devices", "DEVICE")],
    "doctor": [("doctor", "--no-noise")],
    "explain": [("explain", "speedup")],
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("name", LINES)
def test_what_each_command_prints(name: str, library: Path, tmp_path: Path) -> None:
    (tmp_path / "models").symlink_to(MODELS)
    (tmp_path / H100).symlink_to(ROOT / "reports" / H100)
    (tmp_path / "suite.toml").write_text(SUITE.replace("DEVICE", str(library)))
    for line in LINES[name]:
        words = [word for it in line for word in (("--ep-library", library) if it == "DEVICE" else (it,))]
        ran = ortbench(*words, cwd=tmp_path, COLUMNS=str(WIDTH), **{SCREEN: "1"})
    assert ran.code == (3 if name == "gate-stored" else 0), ran.err
    assert fits(ran.out.splitlines())
