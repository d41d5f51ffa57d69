"""The facts of starts, soaks, paced inferences and searches under load, of synthetic results whose figures are known."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ortbench.analysis.comparable import mismatches
from ortbench.analysis.derive import put_pace
from ortbench.analysis.intervals import by_round
from ortbench.core.eps import CPU_EP
from ortbench.core.stats import Value
from ortbench.facts.run import facts_of
from ortbench.facts.sentences import sentence
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.plan import Limits
from ortbench.features.load.analysis import load_cases
from ortbench.features.soak.analysis import put_figures as put_growth
from ortbench.features.soak.facts import several_facts
from ortbench.features.soak.model import Soak, SoakedShape, SoakReading
from ortbench.features.start.analysis import put_figures as put_parts
from ortbench.features.tune.facts import load_answers, serving_lines
from ortbench.model.modes import CPU, LATENCY, SECOND_INFERENCE, START_PARTS
from ortbench.model.result import Case, Result
from ortbench.model.result_file import check_result
from ortbench.report.comparison import records
from ortbench.report.run import mode_table
from tests.expect import there
from tests.results import (
    MS,
    US,
    data,
    described,
    fact,
    keys,
    latency,
    level_blocks,
    load_result,
    measured,
    noise_of,
    nvidia_result,
    on_host,
    opened,
    result_of,
    series_of,
    stats,
    steady,
    values,
)

# Starts


USUAL = (30, 500, 0.01, 1420, 1, 48.99)
LEVELS = "ortbench start m.onnx --opt-level all,basic,disable"


def start_result(*parts_ms: float, second_ms: float = 1, launch_ms: float = 1, **changed: Any) -> Result:
    """Ten starts whose parts took so long each, in the order of `START_PARTS`, with the CPU EP."""
    case = Case(CPU)
    samples = {**dict(zip(START_PARTS, parts_ms, strict=True)), SECOND_INFERENCE: second_ms, LATENCY: sum(parts_ms)}
    for phase, ms in samples.items():
        case.samples[phase] = [round(ms * MS)] * 10
        case.blocks[phase] = [[number, 1, 0] for number in range(10)]
    case.metrics[LATENCY] = described(case.samples[LATENCY])
    put_parts(case, None)
    made = on_host(result_of(case, **changed))
    made.kind, made.own = "start", {"start": data("start") | {"launch_ns": round(launch_ms * MS)}}
    return made


def test_the_longest_part_and_a_slow_first_inference() -> None:
    for parts, more, part, after, others in (
        (USUAL, {"second_ms": 40}, "session", LEVELS, []),
        (USUAL, {"second_ms": 20}, "session", LEVELS, ["first-inference"]),
        ((30, 600, 0.01, 10, 1, 1), {"launch_ms": 0}, "import", "", []),
    ):
        result = start_result(*parts, **more, target__opt_level="all")
        result.command = ["ortbench", "start", "m.onnx"]
        assert [code for code, *_ in keys(result)] == ["start-part", *others]
        longest = fact(result, "start-part")
        assert (longest.values["part"], longest.next) == (part, after)


def test_a_start_has_its_parts_and_their_sum() -> None:
    result = start_result(*USUAL)
    assert values(fact(result, "start-part"))["whole"] == pytest.approx(2_000_000_000)
    (case,) = result.cases
    assert (case.whole, case.median("start.ready")) == ("start.ready", 2_000_000_000)
    assert series_of(case, "start.ready").blocks == series_of(case).blocks
    assert len(series_of(case, "start.session").blocks) == 10


@pytest.mark.parametrize(("rest", "verdict"), [(0, "used"), (3, "partly")])
def test_a_model_that_was_compiled_ahead_says_what_that_took_and_whether_the_ep_opens_it(
    rest: int, verdict: str
) -> None:
    result = start_result(*USUAL)
    result.part["compiled"] = {"compile_ns": 120_000_000, "bytes": 214_000, "context_nodes": 2, "other_nodes": rest}
    said = fact(result, "compiled-ahead")
    found = {"time": 120_000_000, "size": 214_000, "ep": result.target["ep"], "nodes": 2, "rest": rest}
    assert (said.verdict, values(said)) == (verdict, found)


KEPT = {"files": 1, "bytes": 6728, "starts": 10}


@pytest.mark.parametrize(
    ("cache", "reading", "changing", "verdict"),
    [
        ("warm", 10, 0, "used"), ("warm", 9, 0, "not-read"), ("warm", 10, 1, "changed"), ("warm", None, 10, "changed"),
        ("warm", None, 0, None), ("cold", 0, 10, None),
    ],
)  # fmt: skip
def test_a_warm_compile_cache_says_whether_it_was_used(
    cache: str, reading: int | None, changing: int, verdict: str | None
) -> None:
    result = start_result(*USUAL)
    result.part.update(compile_cache=cache, kept={**KEPT, "reading": reading, "changing": changing})
    said = [it for it in facts_of(result) if it.code == "compile-cache"]
    assert [it.verdict for it in said] == ([] if verdict is None else [verdict])
    counts = {"changing": changing} if verdict == "changed" else {"reading": reading}
    assert all(values(it) == {"starts": 10, "ep": result.target["ep"], "size": 6728, **counts} for it in said)


# Soaks


MB = 1_000_000
LEAK = [100 * MB + 50_000 * number for number in range(100)]
FLAT = [100 * MB] * 100
LITTLE = [min(100 * MB + 48_000 * number, 100 * MB + 480_000) for number in range(100)]
ARENA = [min(100 * MB + 2 * MB * number, 140 * MB) for number in range(100)]
LATE = [100 * MB + 9 * MB * (number > 90) for number in range(100)]
# Memory that goes up and down by more than it grew in the end: nobody knows yet.
END = [*[100 * MB + 12 * MB * (number % 3) for number in range(96)], *[114 * MB] * 4]
_UP_AND_DOWN = random.Random(3)
# 12.9 kB more after each inference of 100, and ten times as much up and down; the last four held as much.
NOISY = [
    60 * MB,
    *[60 * MB + 12_900 * number + _UP_AND_DOWN.randrange(13 * MB) for number in range(1, 96)],
    *[74_300_000] * 4,
]


def soak_result(private: Sequence[int]) -> Result:
    """A soak whose process held so much after every 100 inferences, with the CPU EP."""
    case = Case("cpu-tensors", samples={LATENCY: [MS] * len(private)}, blocks={LATENCY: [[0, len(private), 0]]})
    case.metrics[LATENCY] = described(case.samples[LATENCY])
    readings: list[SoakReading] = [
        {"inferences": 100 * number, "at_ns": MS * number, "resident": 2 * held, "private": held, "device": None, "handles": 9,
         "threads": 4, "median_ns": MS}
        for number, held in enumerate(private, 1)
    ]  # fmt: skip
    made = on_host(result_of(case))
    made.kind, made.own = "soak", {"soak": Soak(order=None, reopened=None, shapes=[], readings=readings)}
    put_growth(case, made.part)
    return made


def test_verdicts() -> None:
    for private, verdict in (
        (LEAK, "grows"),
        (LITTLE, "none"),
        (ARENA, "steady"),
        (LATE, "open"),
        (LEAK[:17], "open"),
        (END, "open"),
        (NOISY, "open"),
    ):
        found = fact(soak_result(private), "growth")
        assert (found.verdict, values(found)["start"], values(found)["end"]) == (verdict, private[0], private[-1])
        assert verdict != "grows" or values(found)["each"] == 500_000  # per 1,000 inferences
        beside = [values(it)["each"] for it in several_facts(soak_result(private), "default")]
        assert beside == [500_000] * (verdict == "grows")


def test_what_to_do() -> None:
    for private, words, has_shapes, after in (
        (ARENA, "--dim s=1,2", False, ""),
        (ARENA, "--dim s=1,2", True, "ortbench soak m.onnx --dim s=1,2 --try arena"),  # shapes make an arena grow
        (LATE, "--duration 15", False, "ortbench soak m.onnx --duration 60"),  # which cannot tell
    ):
        made = soaked(*["s=1"] * has_shapes, private=private)
        made.command = ["ortbench", "soak", "m.onnx", *words.split()]
        made.stopped = {"reason": "duration", "value": 15.0, "per": "mode"}
        assert fact(made, "growth").next == after


# An allocator keeps pages for a while and gives them back: what the last reading says is chance.
WANDERS = [100 * MB - 3 * MB + (number * 7 % 10 + number // 12 % 4) * MB for number in range(280)]
SHRINKS = [at + 40 * MB for at in WANDERS]


@pytest.mark.parametrize(
    ("private", "other", "verdict"),
    [
        ([100 * MB] * 280, [*WANDERS, 92 * MB], "cannot tell"),
        ([100 * MB] * 280, SHRINKS, "more"),
        (SHRINKS, [100 * MB] * 280, "less"),
        (FLAT, [*FLAT, 92 * MB], "same"),
        (FLAT[:1], ARENA[-1:], "more"),
    ],
)
@pytest.mark.parametrize("run_ids", ["ab", "aa"])
def test_memory_at_the_end_is_compared_by_the_spread_of_its_readings(
    private: list[int], other: list[int], verdict: str, run_ids: str
) -> None:
    results = [soak_result(private), soak_result(other)]
    for result, run_id in zip(results, run_ids, strict=True):
        result.setup["run_id"] = run_id
    found = {it["metric"]: it["vs_first"] for it in records(results, ["a", "b"], 0.02)}
    assert found["host_held"]["verdict"] == verdict


def soaked(*shapes: str, n: int = 20, private: list[int] = FLAT) -> Result:
    made = soak_result(private)
    made.part["shapes"] = [SoakedShape(name=name, n=n, median_ns=1, p99_ns=1) for name in shapes]
    return made


def test_a_soak_whose_system_tells_no_memory_has_a_table_of_times() -> None:
    made = soak_result(FLAT)
    columns = {it.name for it in mode_table(made).columns}
    made.part["readings"] = []
    assert columns - {it.name for it in mode_table(made).columns} >= {"at end", "inferences", "verdict"}


def test_soaks_of_other_shapes_are_not_comparable() -> None:
    assert mismatches(soaked("s=1", "s=2"), soaked("s=2", "s=1")) == []
    assert mismatches(soaked("s=1"), soaked()) != []
    assert mismatches(soaked("s=1", "s=2"), soaked("s=1", "s=3")) == ["shapes: s=1, s=2 and s=1, s=3"]
    assert mismatches(soaked("s=1", "s=2"), soaked("s=1", n=3)) == []  # the other one may not have come


def test_growth_that_may_be_below_zero_can_be_read_again() -> None:
    made = soak_result([100 * MB + 4096 * (number * 37 % 11) for number in range(100)])
    growth = made.cases[0].metrics["host_growth"]
    assert isinstance(growth, Value)
    assert there(growth.ci95)[0] < 0
    check_result(made)


def test_a_gate_limits_growth() -> None:
    for private, most, verdict in (
        (LEAK, 400_000, "failed"),
        (LEAK, 600_000, "passed"),
        (FLAT, 10_000, "cannot tell"),
        (LATE, 100 * MB, "cannot tell"),
    ):
        (check,) = check_alone(soak_result(private), Limits(own={"max-growth": most}))
        assert (check.verdict, check.metric) == (verdict, "host_growth")


@pytest.mark.parametrize(("private", "growth"), [(LEAK, "500 kB/1,000 inf"), (FLAT, None)])
def test_the_table_says_which_memory_it_is_of_and_tells_growth_only_where_there_is_some(
    private: list[int], growth: str | None
) -> None:
    made = soak_result(private)
    table = mode_table(made)
    cells = dict(zip((column.name for column in table.columns), table.rows[0], strict=True))
    assert (cells.get("host growth"), cells["private memory at start"]) == (growth, "100 MB")
    for it in made.part["readings"]:
        it["private"] = None  # which is not known: the resident set decides
    assert "resident memory at start" in [column.name for column in mode_table(made).columns]
    assert (fact(made, "growth").verdict == "grows") is (growth is not None)


# Inferences that begin at set moments


EVERY = 32 * MS
OPEN = [MS, 2 * MS, MS // 2, MS, 2 * MS, MS // 2, MS, 2 * MS, MS // 2, MS, 2 * MS, MS // 2]
WAIT = "ortbench run m.onnx --ep some --duration 18s"


def paced(us: list[int], cpu_us: int = 0, missed: float = 0.0, **target: Any) -> Result:
    """A result of inferences of 1 ms and 1.1 ms of CPU time, which take so many ns, in each round, where one begins each 32 ms."""
    rounds = range(len(us))
    blocks: dict[str, dict[int, list[Any]]] = {
        "paced_cpu_time": {it: [cpu_us * US] for it in rounds},
        "missed_starts": {it: [missed] for it in rounds},
    }
    case = measured(CPU, latency=steady([MS] * len(us)), paced=steady(us), **blocks)
    case.set_metric("cpu_user", 1100 * US)
    case.set_metric("cpu_system", 0)
    put_pace(case, by_round(case, "latency"))
    result = nvidia_result(case, ep=CPU_EP, **target)
    result.placement["nodes"] = {CPU_EP: 3}
    result.setup["every_ns"] = EVERY
    return result


def verdicts(result: Result, code: str) -> list[str]:
    return [it.verdict for it in facts_of(result) if it.code == code]


def test_how_long_paced_inferences_take() -> None:
    for us, verdict, after in (
        ([5 * MS] * 12, "slower", ""),
        ([MS // 2] * 12, "faster", ""),
        ([MS] * 12, "same", ""),
        (OPEN, "open", WAIT),
        ([5 * MS] * 2, "few-samples", WAIT),
    ):
        found = fact(paced(us), "pace")
        assert (found.verdict, found.next) == (verdict, after)
        told = values(found)
        assert (told["every"], told["back_to_back"], told["paced"]) == (EVERY, MS, sorted(us)[len(us) // 2])
        assert (found.values["stat"], found.values["what"]) == ("p95" if len(us) > 2 else "max", "inference")


def test_on_a_busy_machine_it_is_told_where_each_round_shows_it() -> None:
    found = []
    for us in ([5 * MS] * 12, [MS + MS // 20] * 11 + [MS // 2]):
        result = paced(us)
        result.noise = noise_of(2, 1.0, [0.4] * 8)
        found += verdicts(result, "pace")
    assert found == ["slower", "noise"]


def test_starts_that_wait_for_the_one_before() -> None:
    assert verdicts(paced([5 * MS] * 12), "missed-starts") == []
    assert verdicts(paced([30 * MS] * 12, missed=0.05), "missed-starts") == ["some"]
    late = fact(paced([40 * MS] * 12, missed=0.75), "missed-starts")
    assert (
        sentence(late)
        == "cpu-tensors cannot keep up with one inference each 32.0 ms: 75% of the starts waited for the one before."
    )


def test_threads_that_spin_until_the_next_one() -> None:
    for cpu_us, target, found in (
        (31_000, {}, ["burns"]),
        (7_800, {}, []),  # 1.1 ms back to back, 5 ms in which it runs now, and 5 % of a core
        (31_000, {"intra_op_threads": 1}, []),  # no thread spins
        (31_000, {"session_config": {"session.intra_op.allow_spinning": "0"}}, []),
    ):
        result = paced([5 * MS] * 12, cpu_us, **target)
        assert verdicts(result, "paced-cpu") == found
        if found:
            told = values(fact(result, "paced-cpu"))
            assert (told["cpu"], told["cores"], told["back_to_back"]) == (31 * MS, 31 / 32, 1100 * US)


# Searches under load


def at_rate(p99_ms: float, cpu_ms: float, slo: Mapping[str, int] | None, **setup: Any) -> Result:
    """A configuration at 30 requests/s, of one run with others."""
    blocks = level_blocks(30, latency(2, p99_ms))
    for block in blocks:
        block["cpu_time"] = round(cpu_ms * MS)
    met = None if slo is None else p99_ms * MS <= slo["p99"]
    case = opened(CPU, 30, 2, p99_ms, blocks=blocks, slo=met)
    case.metrics["cpu_time"] = stats(round(cpu_ms * MS))
    return load_result(case, slo=None if slo is None else dict(slo), run_id="one", **setup)


FIGURES = {"default": (10.0, 5.0), "frugal": (11.0, 0.5), "quick": (8.0, 6.0)}


def test_the_lowest_p99_and_the_least_cpu_time_within_an_slo() -> None:
    for figures, limit_ms, of_p99, of_cpu in (
        (FIGURES, None, ("better", "quick", "default"), ("saves", "frugal", (0.5, 0.9, 11, 1.375))),
        (FIGURES, 20, ("better", "quick", "default"), ("saves", "frugal", (0.5, 0.9, 11, 1.375))),
        (FIGURES, 10.5, ("better", "quick", "default"), ("better", "default", None)),
        (FIGURES, 9, ("better", "quick", "default"), ("meets", "quick", (6, -0.2, 8, None))),
        (FIGURES, 5, ("better", "quick", "default"), ("none-within", None, None)),
        ({"default": (10, 5), "frugal": (9, 0.5)}, 20, ("better", "frugal", "default"), ("lowest", "frugal", (0.5, 0.9, 9, None))),
        ({"default": (10, 5), "other": (10, 5)}, None, ("same", "default", None), ("same", "default", None)),
    ):  # fmt: skip
        slo = {} if limit_ms is None else {"p99": round(limit_ms * MS)}
        results = [at_rate(p99, cpu, slo or None) for p99, cpu in figures.values()]
        first, second = load_answers(results, [*figures], slo)
        found = values(first.fact)
        assert (first.fact.verdict, found["configuration"], found.get("other")) == of_p99
        found = values(second.fact)
        verdict, configuration, price = of_cpu
        assert (second.fact.verdict, found.get("configuration")) == (verdict, configuration)
        if price is not None:
            cpu_ms, saved, p99_ms, ratio = price
            assert (found["cpu_time"], found["p99"]) == (cpu_ms * MS, p99_ms * MS)
            assert (found["saved"], found.get("ratio")) == (pytest.approx(saved), ratio)
            assert second.number == [*figures].index(configuration or "")


@pytest.mark.parametrize(("verdict", "does"), [("passed", "meets"), ("unclear", "may meet")])
def test_an_slo_that_is_open_may_be_met(verdict: Any, does: str) -> None:
    results = [at_rate(*it, {"p99": 20 * MS}) for it in FIGURES.values()]
    for case in (case for result in results for case in load_cases(result)):
        case.checks["slo"] = {"verdict": verdict, "how": ""}
    *_, least = load_answers(results, [*FIGURES], {"p99": 20 * MS})
    assert least.fact.values["slo"] == f" that {does} p99 ≤ 20 ms"


def test_the_lines_that_set_a_configuration_have_its_workers() -> None:
    for setup, lines in (
        ({"workers": 1, "sessions": "shared"}, []),
        ({"workers": 2, "sessions": "shared"}, ["session = ort.InferenceSession(model, options)", "workers = concurrent.futures.ThreadPoolExecutor(2)"]),
        ({"workers": 2, "sessions": "own"}, ["sessions = [ort.InferenceSession(model, options) for _ in range(2)]  # one a worker", "workers = concurrent.futures.ThreadPoolExecutor(2)"]),
        ({"workers": 3, "sessions": "process"}, ["workers = concurrent.futures.ProcessPoolExecutor(3, initializer=open_session)  # a session each"]),
    ):  # fmt: skip
        assert serving_lines(at_rate(1, 1, None, **setup)) == lines
