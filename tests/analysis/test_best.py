"""Which of several configurations is called the best, and where none may be; and the code that sets it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ortbench.analysis.comparison import rows, word
from ortbench.facts.comparison import best_of_models, bests, ep_facts, lacking_facts
from ortbench.facts.sentences import sentence
from ortbench.model.modes import CPU, RESIDENT
from ortbench.model.result import Result
from ortbench.model.settings import OF_SESSION
from ortbench.plan.next_command import session_lines
from ortbench.report.comparison import ratio_cells
from tests.results import US, measured, result_of, steady

NAMES = ["default", "one", "two"]


def configurations(*medians: Sequence[int], run_id: str = "one run", **more: Sequence[Sequence[int]]) -> list[Result]:
    """Results of one run by the medians of their blocks, µs; of more modes too."""
    found = []
    for number, own in enumerate(medians):
        cases = [measured(CPU, latency=steady([us * US for us in own]))]
        cases += [measured(RESIDENT, latency=steady([us * US for us in it[number]])) for it in more.values()]
        result = result_of(*cases)
        result.setup["run_id"] = run_id
        found.append(result)
    return found


def said(results: Sequence[Result]) -> list[str]:
    return [sentence(it.fact) for it in bests(results, NAMES[: len(results)])]


STEADY, FAST, SAME, NOISY = [100] * 12, [80] * 12, [99, 101] * 6, [60, 140, 95, 180, 40, 120, 75, 160, 90, 50, 130, 110]


@pytest.mark.parametrize(
    ("medians", "best", "sentence"),
    [
        ((STEADY, FAST), 1, "one has the lowest latency with cpu-tensors, 80.0 µs: default takes 1.25× as much."),
        ((FAST, STEADY), 0, "default has the lowest latency with cpu-tensors, 80.0 µs: one takes 1.25× as much."),
        (
            (STEADY, FAST, [79, 81] * 6),
            1,
            "one has a lower latency than default with cpu-tensors, 80.0 µs: default takes 1.25× as much; the same: two.",
        ),
        ((STEADY, [80, 90, 100] * 4), None, "Cannot tell whether one has a lower latency than default with cpu-tensors: 1.11× (1.00–1.25)."),
        ((STEADY, SAME), None, "The latency with cpu-tensors is the same within 2% in all configurations, 100 µs."),
        ((SAME, [99, 100] * 6, [99, 100] * 6), None, "The latency with cpu-tensors is the same within 2% in all configurations, 100 µs."),
        (([101, 103, 102] * 4, [100] * 12), None, "Cannot tell whether one has a lower latency than default with cpu-tensors: 1.02× (1.01–1.03)."),
        ((STEADY, [100, 120, 110] * 4), None, "No configuration has a lower latency than default with cpu-tensors: default takes at most 1.00× as much."),
        ((STEADY, NOISY), None, "Cannot tell whether one has a lower latency than default with cpu-tensors: 0.976× (0.714–1.67)."),
        (([110] * 12, NOISY), None, "Cannot tell whether one has a lower latency than default with cpu-tensors: 1.07× (0.786–1.83)."),
    ],
)  # fmt: skip
def test_the_best_for_latency(medians: Sequence[Sequence[int]], best: int | None, sentence: str) -> None:
    results = configurations(*medians)
    assert said(results) == [sentence]
    assert [it.number for it in bests(results, NAMES)] == [best]


def test_of_what_is_as_good_as_the_best_that_is_named_which_sets_least() -> None:
    results = configurations(STEADY, FAST, [79, 82] * 6)
    results[1].target |= {"intra_op_threads": 1, "mem_pattern": False}
    results[2].target |= {"intra_op_threads": 1}
    assert [it.number for it in bests(results, NAMES)] == [2]
    results[2].target |= {"opt_level": "basic", "cpu_mem_arena": False}
    assert [it.number for it in bests(results, NAMES)] == [1]


def test_costs_are_said_of_one_mode_alone_and_memory_by_what_workers_differ() -> None:
    results = configurations(FAST, STEADY)
    for result, cpu, memory in zip(results, (400, 100), (100e6, 101e6), strict=True):
        (case,) = result.cases
        for key, value in (("cpu_time", cpu * US),):
            blocks = measured(CPU, **{key: steady([value] * 12)})
            case.samples |= blocks.samples
            case.blocks |= blocks.blocks
            case.metrics |= {key: blocks.metrics[key]}
        case.set_metric("host_memory", memory)
    assert [(it.what, it.number) for it in bests(results, NAMES)] == [
        ("latency", 0),
        ("CPU time", 1),
        ("host memory", None),
    ]
    assert bests(results, NAMES)[-1].fact.verdict == "same"
    results[1].cases[0].set_metric("host_memory", 60e6)
    assert bests(results, NAMES)[-1].number == 1
    for result, memory, ends in zip(results, (100e6, 90e6), ((98e6, 102e6), (80e6, 101e6)), strict=True):
        result.cases[0].set_metric("host_memory", memory, ends)  # of several workers
    assert bests(results, NAMES)[-1].fact.verdict == "open"
    results[1].cases[0].set_metric("host_memory", 90e6, (89e6, 91e6))
    assert (
        said(results)[-1]
        == "one has the lowest host memory with cpu-tensors, 90.0 MB: default takes 1.11× (1.09–1.14) as much."
    )


def test_nothing_is_best_of_what_did_other_work_or_did_not_take_turns() -> None:
    results = configurations(STEADY, FAST)
    assert bests(results[:1], NAMES) == []
    results[1].setup["run_id"] = "another"
    assert bests(results, NAMES) == []
    results = configurations(STEADY, FAST)
    results[1].model["sha256"] = "another"
    assert bests(results, NAMES) == []
    results = configurations(STEADY, FAST)
    results[1].model["inputs"] = [{**it, "shape": [7]} for it in results[1].model["inputs"]]
    assert bests(results, NAMES) == []


def test_settings_as_lines_of_code() -> None:
    assert session_lines({it.key: it.default for it in OF_SESSION}) == ([], [])
    python, cpp = session_lines(
        {
            "intra_op_threads": 2, "inter_op_threads": 4, "execution_mode": "parallel", "cpu_mem_arena": False, "mem_pattern": False,
            "opt_level": "basic", "session_config": {"session.intra_op.allow_spinning": "0"}, "run_config": {"a": 'b"'},
            "ep_options": {"k": "v"},
        }
    )  # fmt: skip
    assert python == [
        'provider_options = {"k": "v"}',
        'options.add_session_config_entry("session.intra_op.allow_spinning", "0")',
        "options.intra_op_num_threads = 2",
        "options.inter_op_num_threads = 4",
        "options.execution_mode = ort.ExecutionMode.ORT_PARALLEL",
        "options.enable_cpu_mem_arena = False",
        "options.enable_mem_pattern = False",
        "options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC",
        'run_options.add_run_config_entry("a", "b\\"")',
    ]
    assert cpp == [
        'std::unordered_map<std::string, std::string> provider_options{{"k", "v"}};',
        'options.AddConfigEntry("session.intra_op.allow_spinning", "0");',
        "options.SetIntraOpNumThreads(2);",
        "options.SetInterOpNumThreads(4);",
        "options.SetExecutionMode(ORT_PARALLEL);",
        "options.DisableCpuMemArena();",
        "options.DisableMemPattern();",
        "options.SetGraphOptimizationLevel(ORT_ENABLE_BASIC);",
        'run_options.AddConfigEntry("a", "b\\"");',
    ]


def on_eps(*medians: Sequence[int], path: str = "m.onnx", resident: int = 50) -> list[Result]:
    """Results of runs one after the other on EPs of their own, by the medians of the blocks of `cpu-tensors`, µs."""
    found = configurations(*medians, also=[[resident] * 12] * len(medians))
    for number, result in enumerate(found):
        result.setup["run_id"] = f"run {path} {number}"
        result.target["ep"] = f"{'ABC'[number]}ExecutionProvider"
        result.model["path"] = path
        result.model["sha256"] = path * 9
    return found


@pytest.mark.parametrize(
    ("medians", "sentences"),
    [
        ((STEADY, FAST), ["m.onnx: B with cpu-tensors is 1.25× (1.21–1.29) as fast as A with cpu-tensors."]),
        ((STEADY, SAME), ["m.onnx: cannot tell whether A is faster than B: 1.00× (0.966–1.04)."]),
        (([100] * 2, [80] * 2), ["m.onnx: too few blocks to tell whether B is faster than A."]),
        (([40_000] * 3, [80, 120, 90, 80]), ["m.onnx: B with cpu-tensors is 471× as fast as A with cpu-tensors, each inference at least 10×."]),
        (([1100] * 3, [80, 120, 90, 80]), ["m.onnx: too few blocks to tell whether B is faster than A."]),
        (
            (STEADY, FAST, [79, 81] * 6),
            ["m.onnx: cannot tell whether B is faster than C: 1.00× (0.964–1.04).", "m.onnx: B with cpu-tensors is 1.25× (1.21–1.29) as fast as A with cpu-tensors."],
        ),
    ],
)  # fmt: skip
def test_which_ep_is_faster(medians: Sequence[Sequence[int]], sentences: list[str]) -> None:
    assert [sentence(it) for it in ep_facts(on_eps(*medians))] == sentences


def test_which_ep_is_faster_of_several_models_and_not_of_one_run() -> None:
    results = [*on_eps(STEADY, FAST), *on_eps(FAST, STEADY, path="n.onnx")]
    assert [(it.values["model"], it.values["ep"]) for it in ep_facts(results)] == [("m.onnx", "B"), ("n.onnx", "A")]
    assert ep_facts(configurations(STEADY, FAST)) == []
    one_ep = on_eps(STEADY, FAST)
    one_ep[1].target["ep"] = one_ep[0].target["ep"]
    assert ep_facts(one_ep) == []
    turns = on_eps(STEADY, FAST)
    turns[1].setup["run_id"] = turns[0].setup["run_id"]
    assert ep_facts(turns) == []
    assert len(ep_facts([*turns, *on_eps(FAST, STEADY, path="n.onnx")])) == 2  # "best" is said of one model alone


@pytest.mark.parametrize(("slow", "said"), [(40_000, "faster"), (1100, "cannot tell")])
def test_the_table_calls_faster_what_the_sentence_does(slow: int, said: str) -> None:
    """Each inference takes ten times as long or more: that needs no interval; what has none for another reason is named."""
    results = on_eps([slow] * 3, [80, 120, 90, 80])
    found = rows(results)
    latency = found[0].since_first[1]
    assert latency is not None
    assert (word(latency, 0.02), latency.low) == (said, None)
    assert ratio_cells(found[0], latency, 0.02)[1:] == ["each ≥10×" if said == "faster" else "–", said]
    few = [(["default"], 3), (["one"], 4)]
    lacking = [(it.values["configurations"], it.values["blocks"]) for it in lacking_facts(results, NAMES, found[:1])]
    assert lacking == ([] if said == "faster" else few)


def test_the_best_of_each_of_several_models() -> None:
    results = configurations(STEADY, FAST)
    more = configurations(SAME, STEADY, run_id="another run")
    for result in more:
        result.model |= {"path": "n.onnx", "sha256": "n" * 64}
    names = ["one", "two", "three", "four"]
    assert [(it.verdict, it.values["configuration"]) for it in best_of_models([*results, *more], names)] == [
        ("better", "two"),
        ("same", "three"),
    ]
    assert best_of_models([results[0], more[0]], names) == []
    eps = [*on_eps(STEADY, FAST), *on_eps(FAST, STEADY, path="n.onnx")]
    assert best_of_models(eps, names) == []  # which `ep_findings` tells
