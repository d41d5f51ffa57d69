"""What a sweep comes to: the best shape, ties, limits, and what switching costs. Scripted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from ortbench.analysis.derive import derive
from ortbench.analysis.items import failures, point_as_result
from ortbench.facts.run import facts_of
from ortbench.features.sweep.analysis import best_of, has_a_cost, summarise_switching
from ortbench.features.sweep.measure import Switched, merge
from ortbench.features.sweep.plan import Shape
from ortbench.features.sweep.report import mode_table
from ortbench.model.metric_names import Slo
from ortbench.model.modes import CPU, RESIDENT
from ortbench.model.result import FAILED, OK, RUN, Case, Result
from ortbench.plan.plan import Plan
from ortbench.plan.target import Inputs
from tests.expect import there
from tests.results import (
    MS,
    US,
    fact,
    keys,
    measured,
    noise_of,
    nvidia_result,
    passed,
    steady,
    tensor,
    values,
    with_bytes,
)


def of_batch(batch: int, *cases: Case, first_inference_ns: int = 1_000 * US) -> Result:
    """The result of a shape, as it is when it has been measured."""
    made = nvidia_result(*cases)
    for part, name, width in (("inputs", "x", 1000), ("outputs", "y", 10)):
        value = tensor(name, [batch, width], batch * width * 4)
        cast(dict[str, Any], made.model)[part] = [{**value, "model_shape": ["batch", width]}]
    made.command = ["ortbench", "sweep", "m.onnx", "--dim", "batch=1,2,4"]
    made.items = {"count": batch, "dim": "batch"}
    made.setup["run_id"] = "0" * 32
    made.setup["first_inference_ns"] = first_inference_ns
    derive(made)
    return made


def turns(mode: str, alone: Mapping[int, int], turned: Mapping[int, int], rounds: int = 6) -> Switched:
    """What switching shapes takes: µs of each shape by its batch, one at a time and in turns, in rounds of two calls."""
    both = {batch: {"alone": us, "turns": turned[batch]} for batch, us in alone.items()}
    return (
        mode,
        2,
        {f"batch={it}": {way: [us * US] * 2 * rounds for way, us in own.items()} for it, own in both.items()},
    )


# µs of a run by batch: a batch of 4 costs little more than one of 2 with cpu-tensors, and much more with device-resident.
USUAL = {"cpu-tensors": {1: 1000, 2: 1200, 4: 1600}, "device-resident": {1: 500, 2: 600, 4: 1500}}


def sweep_result(
    times: Mapping[str, Mapping[int, int]] = USUAL,
    slo: Slo | None = None,
    failed: Mapping[int, str] | None = None,
    switching: Sequence[Switched] | None = None,
    rounds: int = 100,
) -> Result:
    """A sweep over batches with times in µs; by batch, why a shape `failed` to open; `switching` else of two modes, of which one takes
    twice as long when shapes change."""
    lost, cpu = failed or {}, times[CPU]
    shapes, results = [], []
    for batch in next(iter(times.values())):
        shapes.append(Shape(f"batch={batch}", Plan("m.onnx", inputs=Inputs(dims={"batch": batch}), modes=(*times,))))
        cases = [measured(mode, latency=steady([of[batch] * US] * rounds)) for mode, of in times.items()]
        made = of_batch(batch, *(passed(with_bytes(it, 1000, 1000)) for it in cases), first_inference_ns=batch * 5 * MS)
        results.append(None if batch in lost else made)
    if switching is None:
        alone = {batch: us for batch, us in cpu.items() if batch not in lost}
        switching = [turns(CPU, alone, {it: 2 * us for it, us in alone.items()}), turns(RESIDENT, alone, alone)]
    return merge(shapes, results, [lost.get(batch) for batch in cpu], slo, switching)


def without(result: Result, batch: int) -> Result:
    """The same sweep without a shape."""
    found = replace(
        result,
        axes=[{**axis, "values": [it for it in axis["values"] if it != batch]} for axis in result.axes],
        cases=[it for it in result.cases if it.point != {"batch": batch}],
        own={**result.own, "shapes": [it for it in result.shapes if it.point != {"batch": batch}], "switching": []},
    )
    found.own["best"] = best_of(found, None)
    return found


def best(result: Result, mode: str) -> tuple[str, list[str]] | None:
    """The best shape of a mode and those that are as good, by their names."""
    found = there(result.own["best"])["modes"][mode]
    return None if found is None else (found["shape"], found["ties"])


def test_the_best_shape_gets_most_items_done() -> None:
    result = sweep_result()
    assert (best(result, CPU), best(result, RESIDENT)) == (("batch=4", []), ("batch=2", []))
    assert there(result.own["best"])["mode"] == RESIDENT
    found = there(result.own["best"])["modes"][CPU]
    assert (found["by"], found["items_per_s"], found["ci95"]) == ("items_per_s", 2500.0, [2500.0, 2500.0])
    assert best(sweep_result({CPU: {1: 1000, 2: 2000, 4: 4000, 8: 9000}}), CPU) == ("batch=1", ["batch=2", "batch=4"])


def merged(shapes: Mapping[str, Result | None], data: Sequence[str | None] | None = None) -> Result:
    """A sweep of shapes by their names, maybe with sets of real inputs; None of one that did not open."""
    named = zip(shapes, data or [None] * len(shapes), strict=True)
    plans = [Shape(name, Plan("m.onnx", modes=(CPU,)), inputs) for name, inputs in named]
    return merge(plans, [*shapes.values()], ["no memory"] * len(plans), None, [])


def test_a_few_rounds_tell_what_is_far_apart_and_no_more() -> None:
    for slower, ties, verdict in (
        ([6000, 5900, 6200, 5800], [], "known"),  # three times as long an item: four rounds of one inference tell
        ([2010, 2050, 1990, 2000], ["batch=2"], "tied"),
    ):
        made = {
            f"batch={batch}": of_batch(
                batch, passed(with_bytes(measured(CPU, latency=steady([us * US for us in of])), 8, 8))
            )
            for batch, of in ((1, [1000, 1020, 990, 1010][: len(slower)]), (2, slower))
        }
        result = merged(made)
        found = fact(result, "best-shape")
        assert best(result, CPU) == ("batch=1", ties)
        assert there(result.own["best"])["modes"][CPU]["verdict"] == verdict
        assert (found.verdict, found.values["shape"], list(values(found).get("ties", []))) == (verdict, "batch=1", ties)


def test_the_best_shape_of_a_grid_is_told_for_each_size_of_the_other_dimension() -> None:
    """Items are of the batch: short sequences always have most a second, and long ones a best batch of their own."""
    times = {(1, 16): 100, (4, 16): 200, (1, 128): 1000, (2, 128): 2000, (4, 128): 9000}  # in µs
    made = {
        f"batch={batch} sequence={length}": of_batch(
            batch, passed(with_bytes(measured(CPU, latency=steady([us * US] * 100)), 8, 8))
        )
        for (batch, length), us in times.items()
    }
    result = merged(made)
    for shape, (batch, length) in zip(result.shapes, times, strict=True):
        shape.shape = {"batch": batch, "sequence": length}
    assert best(result, CPU) == ("batch=4 sequence=16", [])
    (found,) = (it for it in facts_of(result) if it.key == ("best-shape", "by-size"))
    assert found.values["sizes"] == ["batch=4 at sequence=16", "batch=1 or batch=2 at sequence=128"]
    table = mode_table(result)
    (column,) = (at for at, it in enumerate(table.columns) if it.name == "best")
    assert [row[column] for row in table.rows] == ["worse", "best", "as good", "as good", "worse"]


def test_a_limit_leaves_out_what_does_not_keep_it() -> None:
    result = sweep_result(slo=Slo("p99", 1_300 * US))
    assert (best(result, CPU), best(result, RESIDENT)) == (("batch=2", []), ("batch=2", []))
    result = sweep_result(slo=Slo("latency", 700 * US))
    assert (best(result, CPU), best(result, RESIDENT)) == (None, ("batch=2", []))
    assert {*keys(result)} >= {("slo-shape", "none", CPU), ("best-shape", "known", RESIDENT)}
    result = sweep_result(slo=Slo("p99", 10 * MS), rounds=10)
    assert best(result, CPU) is None
    why = "a p99 takes 299 samples, more where neighbours are alike or it is close to the limit"
    assert (fact(result, "slo-shape", CPU).verdict, fact(result, "slo-shape", CPU).values["why"]) == ("open", why)


def test_without_items_nothing_is_best_and_the_largest_keeps_a_limit() -> None:
    result, limit = sweep_result(), Slo("p99", 1_300 * US)
    for shape in result.shapes:
        shape.items = None
    assert best_of(result, None) is None
    found = there(best_of(result, limit))
    shapes = {mode: there(it)["shape"] for mode, it in found["modes"].items()}
    assert (found["mode"], shapes) == (None, {CPU: "batch=2", RESIDENT: "batch=2"})
    assert {there(it)["by"] for it in found["modes"].values()} == {"bytes_in"}


def test_what_switching_costs_is_by_turn_and_by_shape() -> None:
    found: Any = summarise_switching(*turns(CPU, {1: 1000, 2: 3000}, {1: 2000, 2: 3400}))
    assert (found["rounds"], found["calls"], found["ratio"], found["ci95"]) == (6, 2, 1.35, [1.35, 1.35])
    assert (found["cost_ns"], found["cost_ci95_ns"]) == (700 * US, [700 * US, 700 * US])
    assert [(it["shape"], it["alone_ns"], it["turns_ns"], it["ratio"]) for it in found["shapes"]] == [
        ("batch=1", 1000 * US, 2000 * US, 2.0),
        ("batch=2", 3000 * US, 3400 * US, 1.1333),
    ]
    few: Any = summarise_switching(*turns(CPU, {1: 1000}, {1: 2000}, rounds=5))
    assert (few["ci95"], few["cost_ci95_ns"]) == (None, None)
    none = summarise_switching(*turns(CPU, {1: 1000}, {1: 1000}))
    wide, narrow = ({**found, "ci95": ends} for ends in ([0.74, 1.25], [0.98, 1.05]))
    switched: list[Any] = [found, none, few, wide, narrow]
    assert [has_a_cost(it) for it in switched] == [True, False, False, False, False]


def test_the_facts_of_a_sweep() -> None:
    result = sweep_result()
    assert keys(result) == [
        ("best-shape", "largest", CPU), ("best-shape", "known", RESIDENT), ("switching", "dear", CPU), ("first-of-shape", "slow", CPU),
    ]  # fmt: skip
    assert fact(result, "best-shape", CPU).next == "ortbench sweep m.onnx --dim batch=4,8,16"
    assert values(fact(result, "first-of-shape"))["ratio"] == 12.5
    result.noise = noise_of(2, 1.0, [0.5] * 12)
    assert "first-of-shape" not in [code for code, *_ in keys(result)]
    assert keys(sweep_result(failed={1: "no", 2: "no"}, switching=[])) == []
    close = sweep_result({CPU: {1: 100, 8: 780}})
    close.noise = noise_of(2, 1.0, [0.5] * 16)
    assert ("best-shape", "noise", CPU) in keys(close)


def test_a_shape_that_fails_is_said_and_the_others_go_on() -> None:
    result = sweep_result(failed={2: "out of memory"})
    assert failures(result) == ["batch=2 failed: out of memory"]
    statuses = [{case.status for case in result.at_point(it.point)} for it in result.shapes]
    assert statuses == [{OK}, {FAILED}, {OK}]
    assert best(result, RESIDENT) == ("batch=4", [])
    result = sweep_result()
    for mode, batch, reason in ((RESIDENT, 1, "no memory"), (RESIDENT, 4, "no memory"), (CPU, 2, "wrong outputs")):
        case = there(result.case(mode, {"batch": batch}))
        case.status, case.reason = FAILED, reason
    assert failures(result) == [
        "device-resident at batch=1, batch=4 failed: no memory",
        "cpu-tensors at batch=2 failed: wrong outputs",
    ]


def test_a_shape_by_itself_is_what_a_run_of_it_would_give() -> None:
    result = sweep_result()
    for shape, batch in zip(result.shapes, (1, 2, 4), strict=True):
        found = point_as_result(result, shape)
        assert (found.kind, found.axes, found.shapes, there(found.items)["count"]) == (RUN, [], [], batch)
        assert found.model["inputs"][0]["shape"] == [batch, 1000]
        times = [(case.mode, case.point, case.median("latency")) for case in found.cases]
        assert times == [(mode, {}, of[batch] * US) for mode, of in USUAL.items()]
    assert (result.model["inputs"][0]["shape"], result.part) == (None, {"slo": None})


def of_sizes(sizes: dict[str, int] | None) -> Result | None:
    if sizes is None:
        return None
    made = of_batch(1, Case(CPU))
    made.model["inputs"][0] |= {"model_shape": [*sizes], "shape": [*sizes.values()]}
    return made


def test_every_shape_has_a_point_of_its_own() -> None:
    for named, axes in (
        ([("one", None, {"a": 1, "b": 2, "c": 3}), ("two", None, {"a": 1, "b": 4, "c": 6})], [("b", "elements", [2, 4]), ("c", "elements", [3, 6])]),
        ([("1", None, {"a": 1, "b": 2}), ("2", None, {"a": 2, "b": 2}), ("3", None, {"a": 1, "b": 3})],
         [("a", "elements", [1, 2]), ("b", "elements", [2, 3])]),
        # Real inputs, whatever their sizes.
        ([("short", "short", {"a": 1}), ("long", "long", {"a": 9})], [("data", "", ["short", "long"])]),
        # Shapes that sizes do not tell apart: of other ranges, or of dimensions without a name.
        # Sizes that nobody knows of a shape that did not open.
        ([("1", None, {"a": 1}), ("2", None, {"a": 2}), ("3", None, None)], [("shape", "", ["1", "2", "3"])]),
    ):  # fmt: skip
        result = merged({name: of_sizes(sizes) for name, _, sizes in named}, [data for _, data, _ in named])
        points = [it.point for it in result.shapes]
        assert [(it["name"], it["unit"], it["values"]) for it in result.axes] == axes
        assert all(point not in points[:at] for at, point in enumerate(points))
        assert [case.point for case in result.cases] == points
        assert all([*point] == [name for name, _, _ in axes] for point in points)
        assert all(point[name] in known for point in points for name, _, known in axes)
