"""A sweep: the shapes of a model in one session, each a configuration, and what it costs that shapes change."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from ortbench.analysis.items import differing_dims, dim_sizes
from ortbench.analysis.noise import join_noise
from ortbench.analysis.outputs import joined_outputs
from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError
from ortbench.core.files import ModelFiles
from ortbench.features.sweep.analysis import ITEMS, WAYS, best_by_mode, best_of, how_known, summarise_switching
from ortbench.features.sweep.model import KIND, OpenedSweep, SwitchTimes
from ortbench.features.sweep.plan import Shape
from ortbench.measure.configuration import Configuration
from ortbench.measure.describe import describe
from ortbench.measure.process import Client, WorkerLost, request_of, worker_for
from ortbench.measure.progress import Progress
from ortbench.measure.schedule import BLOCK_NS
from ortbench.model.metric_names import Slo
from ortbench.model.modes import CPU, LATENCY, SWITCHING_COST, is_rate
from ortbench.model.protocol import Opened, Timeline
from ortbench.model.result import FAILED, Case, Point, Result
from ortbench.model.schema import Axis, Machine, Tensor
from ortbench.plan.plan import Plan


def open_session(plan: Plan) -> Client:
    """A fresh worker that has been sent the model and the EP of a sweep, whose shapes it will be asked to run."""
    client = worker_for(plan)
    client.send("open_sweep", model=plan.model, target=plan.worker_request()["target"])
    return client


class SharedWorker:
    """The worker of all shapes, whose plans have the same model and EP; another one after one was lost."""

    def __init__(self, plan: Plan, client: Client) -> None:
        self._plan = plan
        self.client = client
        self.model_files = ModelFiles([plan.model])
        self.times_lost = 0
        self.released = False
        self._opened: OpenedSweep | OrtbenchError | None = None

    def session(self) -> OpenedSweep:
        """Wait for the session; `BadInput` or `BenchmarkFailed` where there is none."""
        if self._opened is None:
            try:
                self._opened = self.client.receive()
            except OrtbenchError as error:
                self._opened = error
        if isinstance(self._opened, OrtbenchError):
            raise self._opened
        assert self._opened is not None
        return self._opened

    def restart(self) -> None:
        """Start another worker; `session` says where none can be started."""
        self.client.close()
        self.times_lost += 1
        self.released = False
        self._opened = None
        try:
            self.client = open_session(self._plan)
        except OrtbenchError as error:
            self._opened = error


class PointConfiguration(Configuration):
    """A shape of a sweep, which the worker knows by its number."""

    per = "shape and mode"
    _not_again = "the shape could not be run again"

    def __init__(self, plan: Plan, number: int, sweep: Sweep, name: str, timeline: Timeline | None = None) -> None:
        super().__init__(plan, sweep.worker.client, name=name, timeline=timeline)
        self._number, self._sweep, self._shared = number, sweep, sweep.worker
        self.model_files = self._shared.model_files
        self._lost_before = 0

    def after_blocks(self, progress: Progress) -> None:
        """Measure what it costs that shapes change; the first shape does it for all."""
        if not self._number:
            self._sweep.measure_switching(progress)

    @property
    def worker(self) -> Client:
        self._shared.client.while_waiting = self.while_waiting
        return self._shared.client

    def open(self, machine: Machine, run_id: str) -> None:
        """Wait until the shape has run once, and describe it; `BenchmarkFailed` where it cannot be run; what is wrong with
        its input too, since others may have none such."""
        try:
            opened = self._receive_opened("loading")
            describe(self.result, self.plan, machine, self.model_files, run_id, opened)
        except BadInput as error:
            raise BenchmarkFailed(str(error)) from error

    def _receive_opened(self, stage: str) -> Opened:
        first = self._number == 0 and not self._shared.times_lost
        try:
            with self.stage(stage, self.worker.started_ns if first else None) as parts:
                self._lost_before = self._shared.times_lost
                with self.same_model():
                    of_session = self._shared.session()
                if first:
                    started, begun = self.worker.started_ns, of_session["stages"][0][1]
                    parts.append(("starting the worker with ONNX Runtime", started, begun - started))
                    parts += of_session["stages"]
                inputs = request_of(self.plan)["inputs"]
                answer: Opened = self.worker.ask("open_point", point=self._number, inputs=inputs)
                parts += answer["stages"]
        except WorkerLost:
            self._shared.restart()
            self._lost_before = self._shared.times_lost
            raise
        return answer

    def ensure_worker(self) -> bool:
        """Have a worker that was started since know of this shape; whether there was one."""
        if self._lost_before == self._shared.times_lost:
            return False
        self._set_up_again(f"after the worker was lost {self._not_again}")
        return True

    def ask(self, do: str, **arguments: Any) -> Any:
        """Ask the worker about this shape; one that was started since is told of it first."""
        if self.ensure_worker():
            mode = arguments.get("mode")
            if do != "prepare" and mode is not None and mode not in self._prepared:
                raise BenchmarkFailed(str(self.cases[mode].reason))
        return self.worker.ask(do, **({} if do == "release" else {"of_point": self._number}), **arguments)

    def _start_again(self) -> None:
        if self._lost_before == self._shared.times_lost:  # else another shape has done it
            self._shared.restart()

    def pause(self) -> None:
        """Nothing: the other shapes are in the same worker, which does nothing unasked."""

    def resume(self) -> None:
        """Nothing, as `pause`."""

    def close(self) -> None:
        """Nothing: who made the worker ends it."""

    def release(self) -> None:
        """End the session in order where its EP keeps something for the next one; the first shape does it for all."""
        if not self._shared.released:
            self._shared.released = True
            super().release()


Switched = tuple[str, int, dict[str, dict[str, list[int]]]]  # a mode, calls of a round, samples by shape and way
FEWEST, MOST = 6, 40  # rounds of switching: as many as an interval needs, and more than its width gains from
CALLS = 2, 50  # of each shape in a round of it, at least and at most


class Sweep:
    """At least two shapes, each a configuration (`points`), in one worker."""

    def __init__(self, shapes: Sequence[Shape], worker: SharedWorker, slo: Slo | None, timelines: bool) -> None:
        self._shapes, self.worker, self._slo = list(shapes), worker, slo
        self._switching: list[Switched] = []
        self._not_switched: list[str] = []
        self.points = [
            PointConfiguration(shape.plan, number, self, shape.name, Timeline() if timelines else None)
            for number, shape in enumerate(shapes)
        ]
        self.points[0].steps_after_blocks = len(self.switched_modes)

    def result(self, not_opened: Sequence[tuple[Configuration, OrtbenchError]]) -> Result:
        """What is known by now; there is a shape that opened."""
        reasons = {id(point): str(error) for point, error in not_opened}
        results = [None if id(it) in reasons or not it.is_open else it.result for it in self.points]
        why = [reasons.get(id(it), "the sweep ended before it was run") for it in self.points]
        result = merge(self._shapes, results, why, self._slo, self._switching)
        for reason in self._not_switched:
            result.warn("switching-not-measured", reason)
        return result

    @property
    def switched_modes(self) -> list[str]:
        """Of which one call is one inference, so that each can have another shape."""
        return [mode for mode in self.points[0].plan.modes if not is_rate(mode, LATENCY)]

    def measure_switching(self, progress: Progress) -> None:
        """Time calls that change shapes against calls of one shape at a time, mode by mode."""
        for mode in self.switched_modes:
            for point in [point for point in self.points if point.modes]:
                point.ensure_worker()
            measured = [(number, point) for number, point in enumerate(self.points) if mode in point.modes]
            if len(measured) > 1:
                progress.begin("switch", f"switching shapes with {mode}")
                self._switch(mode, measured, progress)

    def _switch(self, mode: str, measured: Sequence[tuple[int, PointConfiguration]], progress: Progress) -> None:
        plan = self.points[0].plan
        turn_ns = sum(point.cases[mode].samples[LATENCY][-1] for _, point in measured)
        calls = max(CALLS[0], min(CALLS[1], round(BLOCK_NS / max(turn_ns, 1))))
        fewest, most = FEWEST, MOST
        if plan.loop.iterations is not None:
            calls = min(calls, plan.loop.iterations)
            fewest = most = -(-plan.loop.iterations // calls)
        numbers = [number for number, _ in measured]
        taken: dict[str, dict[str, list[int]]] = {self._shapes[it].name: {way: [] for way in WAYS} for it in numbers}
        chance, begun = random.Random(plan.inputs.seed), time.monotonic()
        for number in range(most):
            if number >= fewest and time.monotonic() - begun > plan.loop.duration_s:
                break
            order = chance.sample(numbers, len(numbers))
            try:
                answer: SwitchTimes = self.worker.client.ask(
                    "time_turns", mode=mode, points=order, calls=calls, first=number % 2 == 0
                )
            except BenchmarkFailed as error:
                self._not_switched.append(
                    f"what switching shapes costs with {mode} was not measured to its end: {error}"
                )
                if isinstance(error, WorkerLost):
                    self.worker.restart()
                return
            for point, alone, turns in zip(order, answer["alone"], answer["turns"], strict=True):
                taken[self._shapes[point].name]["alone"] += alone
                taken[self._shapes[point].name]["turns"] += turns
            if number == 0:
                self._switching.append((mode, calls, taken))
            progress.tell_left()


# The result


def merge(
    shapes: Sequence[Shape],
    results: Sequence[Result | None],
    reasons: Sequence[str | None],
    slo: Slo | None,
    switching: Sequence[Switched],
) -> Result:
    """The result of a sweep: of shapes that were asked for, with results or the reasons why they did not open; one did."""
    opened = [(shape.name, result) for shape, result in zip(shapes, results, strict=True) if result is not None]
    first = opened[0][1]
    made = replace(first, kind=KIND.key, items=None, warnings=[], cases=[])
    described = [_describe_shape(shape, result) for shape, result in zip(shapes, results, strict=True)]
    made.own = {KIND.key: {"slo": None if slo is None else {slo.statistic: slo.limit_ns}}, "shapes": described}
    made.axes = _axes(made.shapes)
    for asked, shape, result, reason in zip(shapes, made.shapes, results, reasons, strict=True):
        shape.point = {axis["name"]: shape.shape[axis["name"]] if axis["unit"] else shape.name for axis in made.axes}
        cases = [Case(mode, FAILED, reason) for mode in asked.plan.modes] if result is None else result.cases
        made.cases += [replace(case, point=shape.point) for case in cases]
    made.model = {
        **first.model,
        "inputs": _common([it.inputs for it in made.shapes if it.inputs]),
        "outputs": _common([it.outputs for it in made.shapes if it.outputs]),
    }
    made.outputs = joined_outputs(opened)
    made.noise = join_noise(result.noise for _, result in opened)
    _collect_warnings(made, opened)
    made.own["switching"] = [summarise_switching(*it) for it in switching]
    for shape in made.shapes:
        if (cpu := made.case(CPU, shape.point)) is not None and shape.first_inference_ns:
            later = cpu.median(LATENCY)
            cpu.set_metric("first_inference", shape.first_inference_ns)
            cpu.set_metric("first_ratio", round(shape.first_inference_ns / later, 4) if later else None, derived=True)
    points = {it.name: it.point for it in made.shapes}
    for found in made.own["switching"]:
        for switched in found["shapes"]:
            if (case := made.case(found["mode"], points[switched["shape"]])) is not None:
                case.set_metric("same_shape", switched["alone_ns"])
                case.set_metric("other_shape", switched["turns_ns"])
                case.set_metric("switching_ratio", switched["ratio"], switched["ci95"])
                case.set_metric(SWITCHING_COST, switched["turns_ns"] - switched["alone_ns"], derived=True)
    made.own["best"] = best_of(made, slo)
    for mode, best in best_by_mode(made).items():
        if best is not None and best["by"] == ITEMS:
            best["verdict"] = how_known(made, mode)
    return made


def _describe_shape(shape: Shape, result: Result | None) -> Point:
    """A shape, not yet on the axes; one that did not open with what was asked for."""
    asked = {name: size for name, size in shape.plan.inputs.dims.items() if isinstance(size, int)}
    if result is None:
        return Point(shape.name, {}, asked, shape.data)
    inputs, outputs = result.model["inputs"], result.model["outputs"]
    sizes = {name: found.pop() for name, found in dim_sizes(inputs).items() if len(found) == 1}
    first_ns = result.setup["first_inference_ns"]
    return Point(shape.name, {}, {**asked, **sizes}, shape.data, inputs, outputs, result.items, first_ns)


def _axes(shapes: Sequence[Point]) -> list[Axis]:
    """The dimensions whose sizes differ, or the names of shapes where sizes do not tell them apart or inputs are real."""
    dims = [name for name in differing_dims(shapes) if all(name in it.shape for it in shapes)]
    if shapes[0].data is None and len({tuple(it.shape[name] for name in dims) for it in shapes}) == len(shapes):
        return [
            {"name": name, "unit": "elements", "values": list(dict.fromkeys(it.shape[name] for it in shapes))}
            for name in dims
        ]
    return [{"name": "shape" if shapes[0].data is None else "data", "unit": "", "values": [it.name for it in shapes]}]


def _common(several: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Tensors as the model has them, with what is the same in all shapes."""
    found = []
    for tensors in zip(*several, strict=True):
        tensor = copy(tensors[0])
        if any(it["shape"] != tensor["shape"] for it in tensors):
            tensor["shape"] = tensor["bytes"] = None
        found.append(tensor)
    return found


def _collect_warnings(made: Result, opened: Sequence[tuple[str, Result]]) -> None:
    """What the shapes warn of, once where all of them do."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, result in opened:
        for warning in result.warnings:
            found.setdefault((warning["code"], warning["message"]), []).append(name)
    for (code, message), names in found.items():
        made.warn(code, message if len(names) == len(opened) else f"{', '.join(names)}: {message}")
