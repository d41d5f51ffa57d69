"""Results side by side: which may be compared, what differs between them, which rows there are, and which variables are recorded."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from ortbench.analysis.comparable import are_alike, changes, mismatches
from ortbench.analysis.comparison import in_both, rows
from ortbench.analysis.series import Selection, point_text
from ortbench.core.errors import NotComparable
from ortbench.facts.comparison import alone_facts, ratio_facts, remark_facts
from ortbench.features.load.analysis import load_cases
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import UNSUPPORTED, Case, Result
from ortbench.model.settings import recorded_variables, variables_line
from tests.analysis.test_sweep import without
from tests.results import (
    CROSSING,
    MS,
    OVERHEAD,
    STAYING,
    chain,
    level,
    load_result,
    loop_of,
    loop_result,
    measured,
    paced,
    result_of,
    serving,
    stage,
    steady,
    stored,
)

CPU, DEVICE, RESIDENT = "cpu-tensors", "device-tensors", "device-resident"
A, B = (f"m.onnx ({it * 12})" for it in "ab")
GPU = "device: type GPU, vendor_id 0x0001, device_id 0x0002"

# What of the second result is another: the mismatch or, behind an arrow, the change that is told of it, if any.
OTHERS: list[tuple[str, Any, str]] = [
    ("model__sha256", "b" * 64, f"model: {A} and {B}"),
    ("model__inputs", [{"name": "x", "shape": [8, 3]}], "shapes: x 1x3, y none and x 8x3"),
    ("target__ep", "CPUExecutionProvider", "EP: SomeExecutionProvider and CPUExecutionProvider"),
    ("target__device__device_id", 9, f"{GPU} and type GPU, vendor_id 0x0001, device_id 0x0009"),
    ("environment__cpu__model", "Other CPU", "CPU: Some CPU and Other CPU"),
    ("environment__cpu__usable_cores", 2, "cores: 4 and 2"),
    ("environment__gpus", [], "GPUs: Some GPU and none"),
    ("environment__onnxruntime", "1.29.0", "ONNX Runtime: 1.28.0 → 1.29.0"),
    ("environment__onnxruntime_build", "another", ""),
    ("environment__python", "3.13.0", "Python: 3.12.0 → 3.13.0"),
    ("environment__os", "Windows", "OS: Linux → Windows"),
    ("target__ep_version", "1.1", "EP version: 1.0 → 1.1"),
    ("target__ep_options", {"a": "1", "b": "2"}, "EP options: none → a 1, b 2"),
    ("target__intra_op_threads", 4, "intra-op threads: default → 4"),
    ("target__opt_level", "basic", "optimisation: all → basic"),
    ("target__ep_library", "a/ep.so", ""),  # of a result that does not say which it had
]


@pytest.mark.parametrize(("path", "value", "told"), OTHERS)
def test_one_thing_differs(path: str, value: Any, told: str) -> None:
    one, other = result_of(), result_of(**{path: value})
    found = [*mismatches(one, other), *changes(one, other)]
    assert [it for it in found if "GPU driver" not in it] == ([told] if told else [])
    assert bool(mismatches(one, other)) == (" and " in told)
    two_runs = result_of(run_id="1"), result_of(run_id="2", **{path: value})
    assert mismatches(*two_runs) == mismatches(one, other)
    assert mismatches(two_runs[0], result_of(run_id="1", **{path: value})) == []
    assert not are_alike(one, other)


def test_nothing_differs_that_matters() -> None:
    again = result_of(target__ep_requested="some", target__policy="PREFER_GPU", target__sync={"cost_ns": 5})
    assert are_alike(result_of(target__ep_requested="auto"), again)
    harmless: dict[str, Any] = {
        "model__path": "elsewhere/m.onnx",
        "target__device__index": 1,
        "environment__cpu__cores": 16,
    }
    assert mismatches(result_of(), result_of(**harmless)) == []
    elsewhere = result_of(target__ep="B", environment__cpu__usable_cores=1)
    assert mismatches(result_of(), elsewhere) == ["EP: SomeExecutionProvider and B", "cores: 4 and 1"]
    for one, other, told in (
        ("a/ep.so", "b/ep.so", ["EP library: a/ep.so → b/ep.so"]),
        (None, "b/ep.so", ["EP library: ONNX Runtime's own → b/ep.so"]),
        ("a/ep.so", "a/ep.so", []),
    ):
        sides = result_of(target__ep_library=one), result_of(target__ep_library=other)
        assert (changes(*sides), are_alike(*sides)) == (told, one == other)


def single(**changed: Any) -> Result:
    return result_of(measured(CPU, latency=steady([1_000_000] * 24)), **changed)


def looped(**changed: Any) -> Result:
    return loop_result(level(CPU), loop=loop_of(**changed))


def changed(**stage_of_text: Any) -> Result:
    """The chain with another first stage, and so with another digest."""
    made = deepcopy(chain(STAYING))
    made.part["stages"][0].update(stage_of_text)
    made.model["sha256"] = "c" * 64
    return made


def variables(**values: str) -> Result:
    made = result_of()
    made.environment["record_env"] = ["SIM_*"]
    made.environment["variables"] = values
    return made


# Two results of a kind: what makes them incomparable or, behind arrows, what else differs.
KINDS: list[tuple[Result, Result, list[str]]] = [
    (chain(STAYING), chain(STAYING, stages=(stage("text"), stage("image", 5))), ["stages: text, image ×4 and text, image ×5"]),
    (chain(STAYING), changed(sha256="d" * 64, model="new.onnx"), [f"model of text: text.onnx ({'b' * 12}) and new.onnx ({'d' * 12})"]),
    (chain(STAYING), chain(STAYING, CROSSING), ["links that the other has not: none and text.mask → image.mask"]),
    (chain(STAYING), changed(ep="CPUExecutionProvider"), ["EP of text: SomeExecutionProvider and CPUExecutionProvider"]),
    (chain(STAYING), changed(settings={"intra_op_threads": 2, "opt_level": "basic"}, keep=["y"], ep_version="1.1"),
     ["text: EP version: 1.0 → 1.1", "text: intra-op threads: default → 2", "text: optimisation: all → basic", "text: kept on the device: none → y"]),
    (chain(STAYING), chain({**STAYING, "d2h_ns": 1}, resident_ms=(3, 3)), []),  # times are no difference
    (looped(), loop_result(level(CPU), model__sha256="b" * 64), [f"model: {A} and {B}"]),
    (looped(), single(model__sha256="b" * 64), [f"model: {A} and {B}", "kind: a loop of 4 steps and single inferences"]),
    (looped(), looped(fill={"mask": "1"}), ["values: none → mask 1"]),
    (paced(), paced(sessions="own"), ["sessions: shared and own"]),
    (paced(), paced(workers=2), ["workers: 1 and 2"]),
    (paced(), paced(arrivals="file", file="a.txt"), ["arrivals: poisson and file"]),
    (paced(), paced(slo={"p95": MS}), ["SLO: p99 ≤ 20 ms → p95 ≤ 1 ms"]),
    (serving(), serving(duration_s=5.0), ["time per load point: 2 s → 5 s"]),
    (serving(), load_result(*load_cases(serving()), *load_cases(paced())), []),
    (single(), serving(), ["kind: single inferences and a load"]),
    (variables(SIM_A="1"), variables(SIM_A="2"), ["environment variable SIM_A: 1 → 2"]),
    (variables(), variables(SIM_A=""), ["environment variable SIM_A: not set → empty"]),
    (variables(SIM_KEY="1"), variables(), ["environment variable SIM_KEY: 1 → not recorded"]),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "told"), KINDS)
def test_results_of_a_kind_differ(one: Result, other: Result, told: list[str]) -> None:
    found = mismatches(one, other)
    assert bool(found) == any(" and " in it for it in told)
    assert found or changes(one, other) == told
    assert not (told and are_alike(one, other))


def test_comparability_is_refused_or_forced() -> None:
    results = [result_of(), result_of(target__opt_level="basic"), result_of(target__ep="B")]
    with pytest.raises(NotComparable, match=r"^a and c are not comparable: EP: SomeExecutionProvider and B .*--force"):
        remark_facts(results, "abc", force=False)
    assert [(it.verdict, *it.values.values()) for it in remark_facts(results, "abc", force=True)] == [
        ("changed", "a", "b", ["optimisation: all → basic"]),
        ("forced", "a", "c", ["EP: SomeExecutionProvider and B"]),
    ]
    assert remark_facts(results[:1], "a", force=False) == []


# Rows


def of(mode: str, ns: int = 1) -> Case:
    return measured(mode, latency=steady([ns] * 8))


def of_device() -> Case:
    return measured(DEVICE, **{phase: steady([1] * 8) for phase in ("latency", "d2h", "inference", "h2d")})


def shown(*results: Result, modes: tuple[str, ...] = (), metrics: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    found = rows(results, Selection(modes, tuple(map(parse_metric, metrics))))
    return [(row.key.mode, point_text(row.key.point), row.key.figure.text, row.values) for row in found]


RUNS = [result_of(of(RESIDENT), of_device(), of(CPU)), result_of(of(RESIDENT), of_device(), of("host-accessible"))]
LOOPS = [loop_result(level("shared"), level(CPU)), loop_result(level(CPU, 1.5), level("shared", 0.5))]


def test_rows_are_what_a_kind_compares_in_the_usual_order() -> None:
    of_device = [(DEVICE, f"{it}.median") for it in ("latency", "h2d", "inference", "d2h")]
    residents = [(RESIDENT, "latency.median"), ("host-accessible", "latency.median")]
    for modes, metrics, wanted in (
        ((), (), [(CPU, "latency.median"), *of_device, *residents]),
        ((DEVICE,), (), of_device),
        ((RESIDENT,), ("latency",), residents[:1]),
        ((CPU,), ("h2d",), []),
    ):
        assert [(mode, figure) for mode, _, figure, _ in shown(*RUNS, modes=modes, metrics=metrics)] == wanted
    assert shown(*LOOPS)[:2] == [
        (CPU, "", "loop.median", (4_001_000 + OVERHEAD, 6_001_500 + OVERHEAD)), (CPU, "", "step.median", (1_000_250, 1_500_375))
    ]  # fmt: skip
    assert {it[2] for it in shown(LOOPS[0], single())} == {"latency.median"}  # of several kinds, single inferences
    # At a rate throughput is what was asked for, unless that very rate is named.
    both = load_result(*load_cases(serving()), *load_cases(paced()))
    assert [len(shown(both, both, metrics=(it,))) for it in ("throughput", "throughput@rate=30")] == [8, 1]


def alone_in(results: list[Result], names: str, modes: list[str] | None = None) -> list[list[Any]]:
    return [[*it.values.values()] for it in alone_facts(results, names, modes or [])]


def test_modes_that_one_of_two_results_was_not_asked_for_are_named_and_have_no_row() -> None:
    pair = [result_of(of(CPU, 100), of(DEVICE, 200), of("pipelined", 300)), result_of(of(CPU, 212))]
    assert [it.key.mode for it in in_both(pair, rows(pair))] == [CPU]
    assert alone_in(pair, "ab") == [["a", [DEVICE, "pipelined"]]]
    assert alone_in(pair[::-1], "ba", ["pipelined"]) == [["a", ["pipelined"]]]
    assert [(it.verdict, it.mode) for it in ratio_facts(pair, "ab", rows(pair), 0.02)] == [("slower", CPU)]
    tried = result_of(of(CPU, 100), Case(DEVICE, UNSUPPORTED, "no copies"))
    assert alone_in([pair[0], tried], "ab") == [["a", ["pipelined"]]]
    apart = [pair[0], result_of(of(RESIDENT, 100))]
    assert in_both(apart, found := rows(apart)) == found
    assert (alone_in(apart, "ab"), ratio_facts(apart, "ab", found, 0.02)) == ([], [])


def test_points_that_not_all_results_have_are_named() -> None:
    whole = stored("sweep")
    assert alone_in([without(whole, 4), whole, without(whole, 1)], "abc") == [
        ["a", ["batch=1"]], ["b", ["batch=1", "batch=4"]], ["c", ["batch=4"]],
    ]  # fmt: skip


def test_which_variables_are_recorded() -> None:
    for patterns, names in (
        (["SIM_*"], ["SIM_DELAY", "SIM_MODE"]),
        (["SIM_API_KEY", "SIM_*"], ["SIM_API_KEY", "SIM_DELAY", "SIM_MODE"]),
        (["*"], ["HOME", "SIM_DELAY", "SIM_MODE", "sim_low"]),
    ):
        environ = dict.fromkeys(("SIM_DELAY", "SIM_MODE", "SIM_API_KEY", "SIM_Token", "sim_low", "HOME"), "1")
        found, _ = recorded_variables(patterns, environ)
        assert found == dict.fromkeys(names, "1")
        _, remarks = recorded_variables(["SIM_*", "NOWHERE", "NO_*"], environ)
        assert remarks == [
            "--record-env: not recorded, because the name or the value looks like a secret: SIM_API_KEY, SIM_Token; "
            "one that is named without a wildcard is",
            "--record-env: no variable is set that is called NOWHERE or NO_*",
        ]
        assert variables_line(variables().environment) is None
        assert variables_line(variables(A="1", B="").environment) == "A=1, B="
