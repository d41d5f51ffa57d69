"""What a sweep comes to: the best shape, ties, limits, and what switching costs. Scripted."""

from __future__ import annotations

import pytest

from ortbench.analysis.comparable import mismatches
from ortbench.analysis.comparison import rows
from ortbench.analysis.items import failures, point_as_result
from ortbench.facts.findings import facts_of
from ortbench.features.sweep.analysis import best_of, has_a_cost, merge, summarise_switching
from ortbench.features.sweep.plan import Shape
from ortbench.model.metric_names import Slo
from ortbench.model.modes import CPU
from ortbench.model.result import FAILED, OK, RUN, Case, Result
from ortbench.plan.plan import Plan
from ortbench.plan.target import Inputs
from tests.expect import there
from tests.results import (
    MS,
    US,
    USUAL,
    fact,
    keys,
    measured,
    noise_of,
    of_batch,
    passed,
    steady,
    sweep_result,
    turns,
    values,
    with_bytes,
    without,
)  # fmt: skip


def best(result: Result, mode: str) -> tuple[str, list[str]] | None:
    """The best shape of a mode and those that are as good, by their names."""
    assert result.own["best"] is not None
    found = result.own["best"]["modes"][mode]
    return None if found is None else (found["shape"], found["ties"])


def test_the_best_shape_gets_most_items_done() -> None:
    result = sweep_result()
    assert result.own["best"] is not None
    assert result.own["best"]["mode"] == "device-resident"
    assert (best(result, "cpu-tensors"), best(result, "device-resident")) == (("batch=4", []), ("batch=2", []))
    found = result.own["best"]["modes"]["cpu-tensors"]
    assert found == {
        "shape": "batch=4",
        "by": "items_per_s",
        "items_per_s": 2500.0,
        "ci95": [2500.0, 2500.0],
        "ties": [],
    }
    result = sweep_result({"cpu-tensors": {1: 1000, 2: 2000, 4: 4000, 8: 9000}})
    assert best(result, "cpu-tensors") == ("batch=1", ["batch=2", "batch=4"])
    told = fact(result, "best-shape", "cpu-tensors")
    assert (told.verdict, told.values["shape"], told.values["ties"]) == ("tied", "batch=1", ["batch=2", "batch=4"])


@pytest.mark.parametrize(
    ("rounds", "slower", "ties", "verdict"),
    [
        (4, [6000, 5900, 6200, 5800], [], "known"),  # three times as long an item: four rounds of one inference tell
        (4, [2010, 2050, 1990, 2000], ["batch=2"], "tied"),
        (4, [2000, 2900, 1700, 2300], ["batch=2"], "open"),
        (2, [2010, 2040], ["batch=2"], "open"),
    ],
)
def test_a_few_rounds_tell_what_is_far_apart_and_no_more(
    rounds: int, slower: list[int], ties: list[str], verdict: str
) -> None:
    times = {1: [1000, 1020, 990, 1010][:rounds], 2: slower}
    shapes = [
        Shape(f"batch={batch}", Plan("m.onnx", inputs=Inputs(dims={"batch": batch}), modes=(CPU,))) for batch in times
    ]
    made = [
        of_batch(batch, passed(with_bytes(measured(CPU, latency=steady([us * US for us in of])), 8, 8)))
        for batch, of in times.items()
    ]
    result = merge(shapes, made, [None, None], None, [])
    assert best(result, CPU) == ("batch=1", ties)
    found = fact(result, "best-shape")
    assert (found.verdict, found.values["shape"], list(values(found).get("ties", []))) == (verdict, "batch=1", ties)


def test_a_limit_leaves_out_what_does_not_keep_it() -> None:
    result = sweep_result(slo=Slo("p99", 1_300 * US))
    assert (best(result, "cpu-tensors"), best(result, "device-resident")) == (("batch=2", []), ("batch=2", []))
    result = sweep_result(slo=Slo("latency", 700 * US))
    assert (best(result, "cpu-tensors"), best(result, "device-resident")) == (None, ("batch=2", []))
    assert {*keys(result)} >= {("slo-shape", "none", "cpu-tensors"), ("best-shape", "known", "device-resident")}
    result = sweep_result(slo=Slo("p99", 10 * MS), rounds=10)
    assert best(result, "cpu-tensors") is None
    assert ("slo-shape", "open", "cpu-tensors") in keys(result)


def test_without_items_nothing_is_best_and_the_largest_keeps_a_limit() -> None:
    plain, limited = sweep_result(), sweep_result(slo=Slo("p99", 1_300 * US))
    for result in (plain, limited):
        for shape in result.shapes:
            shape.items = None
    assert best_of(plain, None) is None
    found = there(best_of(limited, Slo("p99", 1_300 * US)))
    assert found["mode"] is None
    assert [(mode, it and (it["shape"], it["by"])) for mode, it in found["modes"].items()] == [
        ("cpu-tensors", ("batch=2", "bytes_in")),
        ("device-resident", ("batch=2", "bytes_in")),
    ]


def test_what_switching_costs_is_by_turn_and_by_shape() -> None:
    found = summarise_switching(turns("cpu-tensors", {1: 1000, 2: 3000}, {1: 2000, 2: 3400}))
    assert (found["rounds"], found["calls"], found["ratio"], found["ci95"]) == (6, 2, 1.35, [1.35, 1.35])
    assert (found["cost_ns"], found["cost_ci95_ns"]) == (700 * US, [700 * US, 700 * US])
    assert [(it["shape"], it["alone_ns"], it["turns_ns"], it["ratio"]) for it in found["shapes"]] == [
        ("batch=1", 1000 * US, 2000 * US, 2.0),
        ("batch=2", 3000 * US, 3400 * US, 1.1333),
    ]
    assert has_a_cost(found) is True
    assert has_a_cost(summarise_switching(turns("cpu-tensors", {1: 1000, 2: 3000}, {1: 1000, 2: 3000}))) is False
    few = summarise_switching(turns("cpu-tensors", {1: 1000, 2: 3000}, {1: 2000, 2: 3000}, rounds=5))
    assert (few["ci95"], few["cost_ci95_ns"], has_a_cost(few)) == (None, None, None)
    wide, narrow = ({**found, "ci95": ends} for ends in ([0.74, 1.25], [0.98, 1.05]))
    assert (has_a_cost(wide), has_a_cost(narrow)) == (None, False)  # type: ignore[arg-type]


def test_the_facts_of_a_sweep() -> None:
    result = sweep_result()
    assert keys(result) == [
        ("best-shape", "largest", "cpu-tensors"), ("best-shape", "known", "device-resident"), ("switching", "dear", "cpu-tensors"),
        ("first-of-shape", "slow", "cpu-tensors"),
    ]  # fmt: skip
    assert fact(result, "best-shape", "cpu-tensors").next == "ortbench sweep m.onnx --dim batch=4,8,16"
    assert values(fact(result, "first-of-shape"))["ratio"] == 12.5
    busy = sweep_result()
    busy.noise = noise_of(2, 1.0, [0.5] * 12)
    assert "first-of-shape" not in [code for code, *_ in keys(busy)]
    assert keys(sweep_result(failed={1: "no", 2: "no"}, switching=[])) == []


def test_a_shape_that_fails_is_said_and_the_others_go_on() -> None:
    result = sweep_result(failed={2: "out of memory"})
    assert failures(result) == ["batch=2 failed: out of memory"]
    assert [(it.name, it.shape, [case.status for case in result.at_point(it.point)]) for it in result.shapes] == [
        ("batch=1", {"batch": 1}, [OK, OK]),
        ("batch=2", {"batch": 2}, ["failed", "failed"]),
        ("batch=4", {"batch": 4}, [OK, OK]),
    ]
    assert best(result, "device-resident") == ("batch=4", [])
    result = sweep_result()
    for mode, batch, reason in (
        ("device-resident", 1, "no memory"),
        ("device-resident", 4, "no memory"),
        ("cpu-tensors", 2, "wrong outputs"),
    ):
        case = there(result.case(mode, {"batch": batch}))
        case.status, case.reason = FAILED, reason
    assert failures(result) == [
        "device-resident at batch=1, batch=4 failed: no memory",
        "cpu-tensors at batch=2 failed: wrong outputs",
    ]


def test_a_shape_by_itself_is_what_a_run_of_it_would_give() -> None:
    result = sweep_result()
    found = [point_as_result(result, it) for it in result.shapes]
    assert [it.model["inputs"][0]["shape"] for it in found] == [[1, 1000], [2, 1000], [4, 1000]]
    assert [(it.kind, it.axes, it.shapes, it.items and it.items["count"]) for it in found] == [
        (RUN, [], [], n) for n in (1, 2, 4)
    ]
    assert [[(case.mode, case.point, case.median("latency")) for case in it.cases] for it in found] == [
        [(mode, {}, of[batch] * US) for mode, of in USUAL.items()] for batch in (1, 2, 4)
    ]
    assert result.model["inputs"][0]["shape"] is None
    assert result.part == {"slo": None}


# Axes


def merged(*named: tuple[str, str | None, dict[str, int] | None]) -> Result:
    """A sweep of shapes: the name of each, its set of real inputs, and its sizes by dimension, None where it did not open."""
    shapes = [Shape(name, Plan("m.onnx", modes=("cpu-tensors",)), data) for name, data, _ in named]
    results: list[Result | None] = []
    for _, _, sizes in named:
        made = None if sizes is None else of_batch(1, Case("cpu-tensors"))
        if made is not None and sizes is not None:
            (tensor,) = made.model["inputs"]
            tensor["model_shape"], tensor["shape"] = [*sizes], [*sizes.values()]
        results.append(made)
    return merge(shapes, results, ["no memory"] * len(named), None, [])


@pytest.mark.parametrize(
    ("named", "axes"),
    [
        (
            [("one", None, {"a": 1, "b": 2, "c": 3}), ("two", None, {"a": 1, "b": 4, "c": 6})],
            [("b", "elements", [2, 4]), ("c", "elements", [3, 6])],
        ),
        (
            [("1", None, {"a": 1, "b": 2}), ("2", None, {"a": 2, "b": 2}), ("3", None, {"a": 1, "b": 3})],
            [("a", "elements", [1, 2]), ("b", "elements", [2, 3])],
        ),
        # Real inputs, whatever their sizes.
        ([("short", "short", {"a": 1}), ("long", "long", {"a": 9})], [("data", "", ["short", "long"])]),
        # Shapes that sizes do not tell apart: of other ranges, or of dimensions without a name.
        ([("low", None, {"a": 1}), ("high", None, {"a": 1})], [("shape", "", ["low", "high"])]),
        (
            [("1 low", None, {"a": 1}), ("1 high", None, {"a": 1}), ("2 low", None, {"a": 2})],
            [("shape", "", ["1 low", "1 high", "2 low"])],
        ),
        # Sizes that nobody knows of a shape that did not open.
        ([("1", None, {"a": 1}), ("2", None, {"a": 2}), ("3", None, None)], [("shape", "", ["1", "2", "3"])]),
    ],
    ids=["dimensions", "grid", "data", "ranges", "grid of ranges", "not opened"],
)
def test_every_shape_has_a_point_of_its_own(
    named: list[tuple[str, str | None, dict[str, int] | None]], axes: list[tuple[str, str, list[object]]]
) -> None:
    result = merged(*named)
    assert [(it["name"], it["unit"], it["values"]) for it in result.axes] == axes
    points = [it.point for it in result.shapes]
    assert all(point not in points[:at] for at, point in enumerate(points))
    assert [case.point for case in result.cases] == points
    assert all([*point] == [name for name, _, _ in axes] for point in points)
    assert all(point[name] in values for point in points for name, _, values in axes)


# Side by side


def test_sweeps_are_compared_shape_by_shape() -> None:
    one = sweep_result()
    other = without(sweep_result({**USUAL, "cpu-tensors": {1: 1000, 2: 1800, 4: 1600}}), 4)
    other.setup = {**other.setup, "run_id": "1" * 32}
    assert mismatches(one, other) == []
    found = [it for it in rows([one, other]) if it.key.figure == ("latency", "median")]
    assert [(it.key.mode, dict(it.key.point), it.values) for it in found] == [
        ("cpu-tensors", {"batch": 1}, (1000 * US, 1000 * US)),
        ("cpu-tensors", {"batch": 2}, (1200 * US, 1800 * US)),
        ("cpu-tensors", {"batch": 4}, (1600 * US, None)),
        ("device-resident", {"batch": 1}, (500 * US, 500 * US)),
        ("device-resident", {"batch": 2}, (600 * US, 600 * US)),
        ("device-resident", {"batch": 4}, (1500 * US, None)),
    ]
    spread = there(found[1].since_first[1])
    assert spread.low is not None
    assert [spread.ratio, spread.low] == pytest.approx([1.5, 1.5 / 1.03])
    one, other = sweep_result(), point_as_result(sweep_result(), sweep_result().shapes[0])
    other.setup = {**other.setup, "run_id": "1" * 32}
    assert mismatches(one, other) == ["kind: a sweep of 3 shapes and single inferences"]


@pytest.mark.parametrize("busy", [False, True])
def test_a_best_shape_whose_case_is_lost_is_no_error(busy: bool) -> None:
    """As in a file that somebody changed."""
    result = sweep_result({CPU: {1: 1000, 2: 2000, 4: 4000}}, rounds=9, switching=[])
    assert result.own["best"] is not None
    best = there(result.own["best"]["modes"][CPU])
    best["ties"] = [it.name for it in result.shapes if it.name != best["shape"]]
    result.cases = [it for it in result.cases if f"batch={it.point['batch']}" != best["shape"]]
    result.noise = noise_of(2, 1.2, [0.5] * 12) if busy else None
    assert "best-shape" in [it.code for it in facts_of(result)]
