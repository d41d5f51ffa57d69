"""Default screens, 80 × 24: of results in every state, and of every command in virtual time."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path

import pytest

from ortbench.core.errors import BadInput
from ortbench.facts import checks
from ortbench.facts.checks import Check
from ortbench.features.bandwidth import report as bandwidth
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import Verdict
from ortbench.features.gate.plan import Limits
from ortbench.features.gate.report import gate_screen
from ortbench.model.modes import LATENCY
from ortbench.model.result import FAILED, Case, Result
from ortbench.model.result_file import load
from ortbench.report import comparison, run
from ortbench.report.brief import HEIGHT, WIDTH, brief
from ortbench.report.model import Findings, Report, Table
from ortbench.report.run import screen
from tests import results
from tests.benchmarks.same import SUITE
from tests.conftest import MODELS, ROOT, SCREEN, ortbench
from tests.report.test_terminal import shown

LONG = "encoder.layers.11.attention.self.query_key_value.projectio_"
MODEL_PATH = "models/sentence-transformers-all-MiniLM-L6-v2-optimized-O3.onnx"
WRONG = "after the timed runs: 1 of 2 values of output y differ from those of cpu-tensors by up to 0.3 where 0.001 is allowed"
WARNING = "a warning of an ordinary length, which says what is not as it was asked for, and what to do about it now"
STORED = sorted((ROOT / "reports").rglob("result.json"))
CURVES = sorted((ROOT / "reports").rglob("bandwidth.json"))
SCRIPTED: dict[str, Callable[[], Result]] = {
    "run": results.published, "loop": results.decoding, "generation": results.generating, "chain": results.chain,
    "sweep": results.sweep_result, "clients": results.serving, "rates": results.paced, "start": lambda: results.start_result(40, 300, 0, 20, 500, 90),
    "soak": lambda: results.soak_result([100_000_000 + 50_000 * number for number in range(100)]),
}  # fmt: skip


def fits(lines: Sequence[str]) -> list[str]:
    """The lines of a screen, above the prompt."""
    assert len(lines) < HEIGHT, "\n".join(lines)
    assert max(map(len, lines), default=0) <= WIDTH, "\n".join(lines)
    return list(lines)


def lines_of(report: Report) -> list[str]:
    return fits(shown(lambda: report, width=WIDTH))


# States of a result


def lost(case: Case, reason: str = "the worker was ended by SIGSEGV") -> Case:
    return Case(case.mode, FAILED, reason, case.point, load_blocks=None if case.load_blocks is None else [])


def all_failed(result: Result) -> None:
    result.cases = list(map(lost, result.cases))


def failed_with_figures(result: Result) -> None:
    for case in result.cases:
        case.status, case.reason = FAILED, WRONG


def last_failed(result: Result) -> None:
    result.cases[-1] = lost(result.cases[-1], WRONG)


def without_cases(result: Result) -> None:
    result.cases = []


def interrupted(result: Result) -> None:
    result.stopped = {"reason": "interrupted"}


def busy(result: Result) -> None:
    result.noise = results.noise_of(2, 1.2, [0.5] * 12)


def long_names(result: Result) -> None:
    for number, it in enumerate([*result.model["inputs"], *result.model["outputs"]]):
        it["name"] = f"{LONG}{number}"
    result.model["path"] = MODEL_PATH


def warned(result: Result) -> None:
    for number in range(5):
        result.warn(f"w{number}", WARNING)


STATES: dict[str, tuple[Callable[[Result], None], ...]] = {
    "ok": (), "all-failed": (all_failed,), "failed-with-figures": (failed_with_figures,), "last-failed": (last_failed,),
    "without-cases": (without_cases,), "interrupted": (interrupted,), "busy": (busy,), "long-names": (long_names,), "warned": (warned,),
    "full": (warned, busy, interrupted), "everything": (warned, busy, long_names, interrupted, last_failed),
}  # fmt: skip


def in_state(result: Result, state: str) -> Result:
    """A copy of a result in a state."""
    made = deepcopy(result)
    for change in STATES[state]:
        change(made)
    return made


def check(result: Result, state: str) -> None:
    made = in_state(result, state)
    lines = lines_of(screen(made, "reports/20261128-150558-some-folder"))
    shown(lambda: run.build(made, "reports/some"), width=WIDTH)
    text = " ".join(" ".join(lines).split())
    is_measured = any(case.median(LATENCY) is not None for case in made.cases)
    assert ("Busy machine" in text) == (busy in STATES[state] and is_measured)
    assert ("SIGSEGV" in text) == (state == "all-failed")
    assert ("Interrupted" in text) <= (interrupted in STATES[state])
    assert sum(line.startswith("  Next: ") for line in lines) <= 1
    for names in (("before", "after"), ("one", "two", "three"), (LONG, f"{LONG}2")):
        lines_of(brief(comparison.build([made] * len(names), names, 0.02, False)))
    try:
        checks = check_stored(made, made, Limits(max_regression=0.05))
    except BadInput:  # of some kinds no metric is gated by itself
        return
    assert any(line.startswith("gate: ") for line in lines_of(gate_screen(Verdict([made] * 2, checks)))[-2:])


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", SCRIPTED)
def test_results_of_each_kind_in_each_state(name: str, state: str) -> None:
    check(SCRIPTED[name](), state)


@pytest.mark.wide
@pytest.mark.parametrize("path", STORED, ids=lambda path: str(path.parent.relative_to(ROOT / "reports")))
def test_stored_results_with_what_takes_room(path: Path) -> None:
    check(load(path), "full")


def rows_of_findings(result: Result) -> list[tuple[str, ...]]:
    """What names the rows that the findings of a screen are about, each of which has to be on it."""
    blocks = [block for part in screen(result, None).parts for block in part]
    rows = [row for block in blocks if isinstance(block, Table) for row in block.rows]
    found = [it.row for block in blocks if isinstance(block, Findings) for it in block.findings if it.row]
    assert all(any({*names} <= {cell.partition(" (")[0] for cell in row} for row in rows) for names in found), found
    return found


def test_rows_that_are_left_out_are_those_that_no_finding_is_about() -> None:
    h200 = {it: load(ROOT / "reports" / "gpu-h200" / it / "result.json") for it in ("vit", "resnet50_batch")}
    assert rows_of_findings(h200["vit"]) == [("pipelined", "batch=64")]
    assert rows_of_findings(h200["resnet50_batch"])
    assert all(rows_of_findings(SCRIPTED[name]()) for name in ("clients", "rates", "sweep"))


# Bandwidth curves, and the checks of a gate


@pytest.mark.parametrize("path", CURVES, ids=lambda path: path.parent.name)
def test_bandwidth_curves(path: Path) -> None:
    assert "H2D GB/s" in "\n".join(lines_of(brief(bandwidth.build(load(path, kind="bandwidth"), "reports/some"))))


def test_what_failed_comes_first() -> None:
    found = [Check(verdict, verdict, "of something") for verdict in (checks.PASSED, checks.UNCLEAR, checks.FAILED)]
    lines = lines_of(gate_screen(Verdict([results.published()] * 2, found)))
    assert [line[0] for line in lines if line[:2] in ("✗ ", "? ", "✓ ")] == ["✗", "?", "✓"]
    assert lines[-1].startswith("gate: ")


# Commands

FEW = ("--iterations", 9, "--warmup", 1)
SUITE_LINE = ("suite", "suite.toml", "--out")
RUN = ("run", "models/tiny.onnx", "DEVICE")
GATE = ("gate", "--model", "models/tiny.onnx", "DEVICE", "--duration", 1, "--no-why")
H100, DEVICE = "copy_bound-cuda-h100", "copy_bound-refdevice"  # stored results
LINES: dict[str, list[tuple[object, ...]]] = {
    "run": [(*RUN, *FEW)],
    "run-all": [(*RUN, *FEW, "--mode", "all", "--depth", 2)],
    "run-failing": [(*RUN, *FEW, "--ep-option", "wrong_run=3+:default")],
    "side-by-side": [(*RUN, *FEW, "--opt-level", "basic,all", "--intra-op-threads", "1,2")],
    "loop": [("loop", "models/recurrent_cell.onnx", "DEVICE", "--feedback", "hidden_out=hidden", "--steps", 6, *FEW)],
    "generate": [("loop", "models/decoder.onnx", "DEVICE", "--generate", 4, "--prompt-length", 4, *FEW)],
    "chain": [("chain", "chain.toml", "--iterations", 5)],
    "sweep": [("sweep", "models/multi_output.onnx", "DEVICE", "--dim", "batch=1,4,16", *FEW)],
    "load": [("load", "models/tiny.onnx", "DEVICE", "--concurrency", 1, "--duration", "0.05")],
    "start": [("start", "models/tiny.onnx", "--ep", "cpu", "--iterations", 2)],
    "soak": [("soak", "models/tiny.onnx", "DEVICE", "--iterations", 40)],
    "bandwidth": [("bandwidth", "DEVICE", "--max-size", "64kB", "--iterations", 5)],
    "gate": [(*GATE, "--baseline-model", "models/tiny.onnx")],
    "gate-slower": [(*GATE, "--ep-option", "compute_us=900", "--baseline-set", "ep-option=compute_us=500")],
    "gate-stored": [("gate", H100, "--baseline", H100, "--max-cpu-nodes", 0, "--min-speedup", "device-resident=100")],
    "report": [("report", H100)],
    "compare": [("compare", H100, DEVICE, "--force")],
    "compare-many": [("compare", *[H100] * 12)],
    "tune": [("tune", "models/tiny.onnx", "--ep", "cpu", "--max-time", "3s", "--duration", "0.05")],
    "suite": [(*SUITE_LINE, "s")],
    "suite-merge": [(*SUITE_LINE, "s/1", "--shard", "1/2"), (*SUITE_LINE, "s/2", "--shard", "2/2"), ("suite", "merge", "s/1", "s/2", "--out", "all")],
    "code": [("code", "models/tiny.onnx", "--ep", "cpu", "--mode", "cpu-tensors", "--out", "program.py")],
    "profile": [("profile", "models/tiny.onnx", "DEVICE", "--attach-only", "--iterations", 3, "--warmup", 1)],
    "inspect": [("inspect", "models/cpu_island.onnx", "DEVICE")],
    "devices": [("devices", "DEVICE")],
    "doctor": [("doctor", "--no-noise")],
    "explain": [("explain", "speedup")],
}  # fmt: skip
_CODES = {"run-failing": 1, "gate-slower": 3, "gate-stored": 3}


@pytest.mark.process
@pytest.mark.parametrize("name", LINES)
def test_what_each_command_prints(name: str, library: Path, tmp_path: Path) -> None:
    shutil.copytree(MODELS, tmp_path / "models", ignore=shutil.ignore_patterns("*.py", "*.md"))
    for stored in (H100, DEVICE):
        shutil.copytree(ROOT / "reports" / stored, tmp_path / stored)
    chain = re.sub(
        '^((?:model|input) = ")', r"\1models/", (MODELS / "text_to_image.toml").read_text(), flags=re.MULTILINE
    )
    for file, text in (("suite.toml", SUITE), ("chain.toml", f'[defaults]\nep = "DEVICE"\n{chain}')):
        (tmp_path / file).write_text(text.replace("DEVICE", str(library)))
    for line in LINES[name]:
        words = [word for it in line for word in (("--ep-library", library) if it == "DEVICE" else (it,))]
        ran = ortbench(*words, cwd=tmp_path, COLUMNS=str(WIDTH), **{SCREEN: "1"})
    assert ran.code == _CODES.get(name, 0), ran.err
    assert fits(ran.out.splitlines())
