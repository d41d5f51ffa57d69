"""Results of many days: which are one series, and what their steps are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ortbench.analysis.comparing.history import FEWEST, Series, groups, run_of, series
from ortbench.analysis.comparing.series import EVERYTHING, Selection, point_text
from ortbench.core.errors import BadInput
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import Result
from ortbench.model.schema import SloRate
from tests.results import (
    MS,
    NEW,
    OLD,
    level,
    load_result,
    loop_of,
    loop_result,
    measured,
    night,
    nights,
    noise,
    opened,
    result_of,
    runs,
    serving,
    slo_rate,
    steady,
    stepped,
    sweep_result,
    tensor,
)

B = "b" * 64


def found(results: list[Result], same: float = 0.02, only: Selection = EVERYTHING, force: bool = False) -> list[Series]:
    return [one for group in groups(runs(results), force) for one in series(group, only, same)]


def sizes(results: list[Result], force: bool = False) -> list[int]:
    return [len(group) for group in groups(runs(results), force)]


def test_what_is_one_series() -> None:
    cases: list[tuple[dict[str, Any], bool, bool]] = [
        ({"environment__onnxruntime": "9"}, True, True),
        ({"environment__os": "other"}, True, True),
        ({"target__ep_version": "9"}, True, True),
        ({"model__sha256": B}, True, True),  # the same file, changed
        ({"model__path": "moved/m.onnx"}, True, True),
        ({"model__path": "moved/m.onnx", "model__sha256": B}, False, False),
        ({"target__ep": "OtherExecutionProvider"}, False, False),
        ({"target__intra_op_threads": 4}, False, False),
        ({"target__ep_options": {"a": "1"}}, False, False),
        ({"model__inputs": [tensor("x", [8, 3]), tensor("y", [])]}, False, False),
        ({"environment__cpu__model": "Other CPU"}, False, True),
        ({"environment__gpus": [{"name": "Other GPU"}]}, False, True),
        ({"target__device__device_id": 9}, False, True),
    ]
    for changed, together, forced in cases:
        results = [night(0, 1), night(1, 1, **changed)]
        assert (sizes(results), sizes(results, force=True)) == (
            [2] if together else [1, 1],
            [2] if forced else [1, 1],
        )
    a, moved, anew = night(0, 1), night(1, 1, model__path="new.onnx"), night(2, 1, model__path="new.onnx")
    anew.model["sha256"] = B
    for order in ([a, moved, anew], [anew, moved, a], [moved, anew, a], [a, anew, moved]):
        assert sizes(order) == [3]
    assert sizes([a, anew]) == [1, 1]
    one, other = (
        result_of(measured("cpu-tensors", latency=steady([MS])), run_id="7", target__intra_op_threads=it)
        for it in (1, 4)
    )
    assert sizes([one, other, one, other]) == [2, 2]
    loops = [loop_result(level("cpu-tensors"), loop=loop_of(steps)) for steps in (4, 8)]
    assert sizes([*loops, *loops]) == [2, 2]
    late, early, middle = night(2, 1), night(0, 1), night(1, 1)
    middle.created, early.created = "2026-10-01T23:00:00-05:00", "2026-10-01T02:00:00Z"
    (group,) = groups(runs([late, early, middle]))
    assert [run.place for run in group] == [f"reports/{number:02}/result.json" for number in (1, 2, 0)]


def test_a_step_with_its_size_and_what_changed() -> None:
    cpu, device = found(nights(stepped(30, 18, 1.12), noise(30, seed=5), upgraded=18))
    (step,) = cpu.steps
    assert (step.at, step.runs) == (18, (18, 12))
    assert step.size.ci95 is not None
    assert step.size.ci95[0] < 1.12 < step.size.ci95[1]
    assert step.before == pytest.approx(4 * MS, rel=0.01)
    assert step.after == pytest.approx(4.48 * MS, rel=0.01)
    assert step.changed == (f"ONNX Runtime: {OLD} → {NEW}", "checkout: 0000011 → 0000012")
    assert (device.key.mode, device.is_searched, device.steps) == ("device-tensors", True, ())
    assert [len(it) for it in cpu.levels] == [18, 12]
    assert cpu.scatter == pytest.approx(0.01, rel=0.5)  # of each level by itself


def test_what_changed_names_machine_model_driver_governor_and_ortbench() -> None:
    results = nights(stepped(24, 12, 0.8))
    for result in results[:12]:
        result.environment["gpus"] = [{"name": "Some GPU", "driver": "580.1"}]
        result.environment["governors"] = {"performance": 8}
    for result in results[12:]:
        result.environment["gpus"] = [{"name": "Other GPU", "driver": "590.2"}]
        result.environment["governors"] = {"performance": 2, "powersave": 6}
        result.environment["git_commit"] = None
        result.model["sha256"], result.tool["version"] = B, "2"
    (one,) = found(results, force=True)
    assert one.steps[0].changed == (
        f"model: m.onnx ({'a' * 12}) → m.onnx ({'b' * 12})",
        "GPUs: Some GPU → Other GPU",
        "GPU driver: 580.1 → 590.2",
        "frequency governor: performance → performance, powersave",
        "ortbench: 0 → 2",
    )


def test_a_step_that_does_not_matter_and_few_results() -> None:
    results = nights(stepped(60, 30, 1.03, seed=4))
    assert [len(found(results, same)[0].steps) for same in (0.0, 0.02, 0.05)] == [1, 1, 0]
    almost, enough = (found(nights(stepped(count, 6, 2)))[0] for count in (FEWEST - 1, FEWEST))
    assert (almost.is_searched, almost.steps) == (False, ())
    assert (enough.is_searched, [step.at for step in enough.steps]) == (True, [6])
    assert found(nights([1.0]))[0].scatter is None
    assert found(nights([0.0] * FEWEST))[0].scatter == 0  # less than the clock's step


def test_only_what_is_asked_for_and_was_measured_has_figures() -> None:
    results = nights([1.0] * 3, [1.0] * 3)
    assert [it.key.mode for it in found(results)] == ["cpu-tensors", "device-tensors"]
    assert [it.key.mode for it in found(results, only=Selection(("device-tensors",)))] == ["device-tensors"]
    assert found(results, only=Selection(metrics=(parse_metric("h2d"),))) == []
    (loop, step) = found(
        [loop_result(level("cpu-tensors"))], only=Selection(metrics=(parse_metric("loop"), parse_metric("step")))
    )
    assert (loop.key.figure.metric, step.key.figure.metric) == ("loop", "step")
    results = nights([1.0] * 3)
    results[1].cases[0].status = "failed"
    assert [it.run.at.day for it in found(results)[0].figures] == [1, 3]
    result = sweep_result()
    shapes = [it.name for it in result.shapes]
    assert len(shapes) > 1
    assert list(dict.fromkeys(point_text(it.key.point) for it in found([result, result]))) == shapes
    assert all(len(it.figures) == 2 for it in found([result, result]))


def test_of_a_search_for_the_highest_rate_its_answer_is_a_series_and_its_tries_are_none() -> None:
    mode = "device-tensors"

    def searched(highest: float, *tries: float) -> Result:
        answer: dict[str, SloRate | None] = {mode: slo_rate(highest, highest + 4)}
        return load_result(*(opened(mode, it, 5.0, 15.0) for it in tries), slo={"p99": 20 * MS}, found=answer)

    results = [searched(70.0, 40, 64, 70, 90), searched(80.0, 41, 80, 99)]
    (one,) = found(results)
    assert (one.key.mode, one.key.point, one.key.figure.text) == (mode, (), "slo_rate")
    assert [it.value for it in one.figures] == [70.0, 80.0]
    assert found(results, only=Selection(("cpu-tensors",))) == []
    named = found(results, only=Selection(metrics=(parse_metric("latency.p99@rate=40"),)))
    assert [point_text(it.key.point) for it in named] == ["rate=40"]
    given = load_result(opened(mode, 40, 5.0, 15.0), slo={"p99": 20 * MS}, found={})
    assert [point_text(it.key.point) for it in found([given])] == ["rate=40"]


def test_what_a_run_of_a_history_keeps() -> None:
    result = night(0, 1)
    run = run_of(result, "here")
    assert run.result.cases[0].samples == {}
    assert result.cases[0].samples != {}
    assert all(case.samples == {} for case in run_of(sweep_result(), "").result.cases)
    loads = found([serving(), serving()])
    assert [(it.key.mode, it.key.figure.text, len(it.figures)) for it in loads] == [
        (mode, "throughput", 2) for mode in ("cpu-tensors", "device-tensors") for _ in range(4)
    ]
    with pytest.raises(BadInput, match=r"^x does not say when it was measured: 'yesterday'$"):
        run_of(replace(night(0, 1), created="yesterday"), "x")
