"""Which of several configurations or EPs is called the best, and where none may be; and the code that sets it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ortbench.facts.comparison import bests, ep_facts
from ortbench.model.modes import CPU, RESIDENT
from ortbench.model.result import Result
from ortbench.model.settings import OF_SESSION
from ortbench.plan.next_command import session_lines
from tests.results import US, measured, result_of, steady, values

NAMES = ["default", "one", "two"]


def configurations(*medians: Sequence[int], run_id: str = "one run", **more: Sequence[Sequence[int]]) -> list[Result]:
    """Results of one run by the medians of their blocks, µs; of more modes too."""
    found = []
    for number, own in enumerate(medians):
        cases = [measured(CPU, latency=steady([us * US for us in own]))]
        cases += [measured(RESIDENT, latency=steady([us * US for us in it[number]])) for it in more.values()]
        found.append(result_of(*cases, run_id=run_id))
    return found


STEADY, FAST, SAME, NOISY = [100] * 12, [80] * 12, [99, 101] * 6, [60, 140, 95, 180, 40, 120, 75, 160, 90, 50, 130, 110]


@pytest.mark.parametrize(
    ("medians", "best", "verdict", "figures"),
    [
        ((STEADY, FAST), 1, "better", {"configuration": "one", "other": "default", "value": 80_000, "ratio": 1.25, "ties": []}),
        ((STEADY, FAST, [79, 81] * 6), 1, "better-tied", {"configuration": "one", "other": "default", "ties": ["two"]}),
        ((STEADY, [80, 90, 100] * 4), None, "open", {"configuration": "default", "other": "one", "ratio": 10 / 9}),
        ((STEADY, SAME), None, "same", {"value": 100_000, "margin": 2}),
        ((SAME, [99, 100] * 6, [99, 100] * 6), None, "same", {"value": 100_000}),
        (([101, 103, 102] * 4, [100] * 12), None, "open", {"other": "one", "ratio": 1.02}),
        ((STEADY, [100, 120, 110] * 4), None, "none", {"configuration": "default", "most": 1}),
        ((STEADY, NOISY), None, "open", {"other": "one", "ratio": 100 / 102.5}),
    ],
)  # fmt: skip
def test_the_best_for_latency(
    medians: Sequence[Sequence[int]], best: int | None, verdict: str, figures: dict[str, Any]
) -> None:
    (found,) = bests(configurations(*medians), NAMES)
    assert (found.what, found.number, found.fact.verdict, found.fact.mode) == ("latency", best, verdict, CPU)
    told = values(found.fact)
    assert {name: told[name] for name in figures} == figures


def test_of_what_is_as_good_as_the_best_that_is_named_which_sets_least() -> None:
    results = configurations(STEADY, FAST, [79, 82] * 6)
    results[1].target |= {"intra_op_threads": 1, "mem_pattern": False}
    results[2].target |= {"intra_op_threads": 1}
    assert [it.number for it in bests(results, NAMES)] == [2]
    results[2].target |= {"opt_level": "basic", "cpu_mem_arena": False}
    assert [it.number for it in bests(results, NAMES)] == [1]


def test_costs_are_said_of_one_mode_alone_and_memory_by_what_workers_differ() -> None:
    results = [
        result_of(measured(CPU, latency=steady([us * US] * 12), cpu_time=steady([cpu_us * US] * 12)), run_id="one run")
        for us, cpu_us in ((80, 400), (100, 100))
    ]
    for memory, ends, number, verdict in (
        ((100e6, 101e6), (None, None), None, "same"),
        ((100e6, 60e6), (None, None), 1, "better"),
        ((100e6, 90e6), ((98e6, 102e6), (80e6, 101e6)), None, "open"),  # of several workers
        ((100e6, 90e6), ((98e6, 102e6), (89e6, 91e6)), 1, "better"),
    ):
        for result, size, ci95 in zip(results, memory, ends, strict=True):
            result.cases[0].set_metric("host_memory", size, ci95)
        found = bests(results, NAMES)
        assert [(it.what, it.number) for it in found] == [("latency", 0), ("CPU time", 1), ("host memory", number)]
        assert found[-1].fact.verdict == verdict


def test_nothing_is_best_of_what_did_other_work_or_did_not_take_turns() -> None:
    one, other = configurations(STEADY, FAST)
    shape = [{**it, "shape": [7]} for it in other.model["inputs"]]
    assert bests([one], NAMES) == []
    for changed in ({"run_id": "another"}, {"model__sha256": "another"}, {"model__inputs": shape}):
        given: dict[str, Any] = {"run_id": "one run", **changed}
        assert bests([one, result_of(*other.cases, **given)], NAMES) == []


# A setting, and the line that sets it in Python and in C++.
SETTINGS: list[tuple[str, Any, str, str]] = [
    ("ep_options", {"k": "v"}, 'provider_options = {"k": "v"}', 'std::unordered_map<std::string, std::string> provider_options{{"k", "v"}};'),
    ("session_config", {"a": "0"}, 'options.add_session_config_entry("a", "0")', 'options.AddConfigEntry("a", "0");'),
    ("intra_op_threads", 2, "options.intra_op_num_threads = 2", "options.SetIntraOpNumThreads(2);"),
    ("inter_op_threads", 4, "options.inter_op_num_threads = 4", "options.SetInterOpNumThreads(4);"),
    ("execution_mode", "parallel", "options.execution_mode = ort.ExecutionMode.ORT_PARALLEL", "options.SetExecutionMode(ORT_PARALLEL);"),
    ("cpu_mem_arena", False, "options.enable_cpu_mem_arena = False", "options.DisableCpuMemArena();"),
    ("mem_pattern", False, "options.enable_mem_pattern = False", "options.DisableMemPattern();"),
    ("opt_level", "basic", "options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC", "options.SetGraphOptimizationLevel(ORT_ENABLE_BASIC);"),
    ("run_config", {"a": 'b"'}, 'run_options.add_run_config_entry("a", "b\\"")', 'run_options.AddConfigEntry("a", "b\\"");'),
]  # fmt: skip


def test_settings_as_lines_of_code() -> None:
    assert session_lines({it.key: it.default for it in OF_SESSION}) == ([], [])
    lines = [python for *_, python, _ in SETTINGS], [cpp for *_, cpp in SETTINGS]
    assert session_lines({key: value for key, value, *_ in SETTINGS}) == lines


# EPs, of runs one after the other


def on_eps(*medians: Sequence[int], path: str = "m.onnx") -> list[Result]:
    """By the medians of the blocks of `cpu-tensors`, µs."""
    found = configurations(*medians, also=[[50] * 12] * len(medians))
    for number, result in enumerate(found):
        result.setup["run_id"] = f"run {path} {number}"
        result.target["ep"] = f"{'ABC'[number]}ExecutionProvider"
        result.model |= {"path": path, "sha256": path * 9}
    return found


EIGHTY = [80, 120, 90, 80]


def test_which_ep_is_faster() -> None:
    for medians, facts in (
        ((STEADY, FAST), [("faster", "B", "A", 1.25, (1.2136, 1.2875))]),
        (([100] * 2, [80] * 2), [("few-samples", "B", "A", 1.25, None)]),
        (([40_000] * 3, EIGHTY), [("far", "B", "A", 470.588, None)]),
        ((STEADY, FAST, [79, 81] * 6), [("open", "B", "C", 1.0, (0.9636, 1.0377)), ("faster", "B", "A", 1.25, (1.2136, 1.2875))]),
    ):  # fmt: skip
        for found, (verdict, ep, other, ratio, ends) in zip(ep_facts(on_eps(*medians)), facts, strict=True):
            told: Any = found.values
            assert (found.verdict, told["model"], told["ep"], told["other"]) == (verdict, "m.onnx", ep, other)
            assert told["ratio"].value == pytest.approx(ratio, rel=1e-4)
            assert told["ratio"].ci95 == (ends and pytest.approx(ends, rel=1e-4))


def test_which_ep_is_faster_of_several_models_and_not_of_one_run() -> None:
    several = on_eps(FAST, STEADY, path="n.onnx")
    found = ep_facts([*on_eps(STEADY, FAST), *several])
    assert [(it.values["model"], it.values["ep"]) for it in found] == [("m.onnx", "B"), ("n.onnx", "A")]
    one_ep, turns = on_eps(STEADY, FAST), on_eps(STEADY, FAST)
    one_ep[1].target["ep"] = one_ep[0].target["ep"]
    turns[1].setup["run_id"] = turns[0].setup["run_id"]
    assert ep_facts(one_ep) == ep_facts(turns) == ep_facts(configurations(STEADY, FAST)) == []
    assert len(ep_facts([*turns, *several])) == 2  # "best" is said of one model alone
