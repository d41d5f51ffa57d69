"""A sweep: the shapes of a model in one session, each a configuration, and what it costs that shapes change."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError
from ortbench.core.files import ModelFiles
from ortbench.features.sweep.analysis import merge, new_switching
from ortbench.features.sweep.model import OpenedSweep, Switching, SwitchTimes
from ortbench.features.sweep.plan import Shape
from ortbench.measure.configuration import Configuration
from ortbench.measure.describe import describe
from ortbench.measure.process import Client, WorkerLost, request_of, worker_for
from ortbench.measure.progress import Progress
from ortbench.measure.schedule import BLOCK_NS
from ortbench.model.metric_names import Slo
from ortbench.model.modes import LATENCY, is_rate
from ortbench.model.protocol import Opened, Timeline
from ortbench.model.result import Result
from ortbench.model.schema import Machine
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


FEWEST, MOST = 6, 40  # rounds of switching: as many as an interval needs, and more than its width gains from
CALLS = 2, 50  # of each shape in a round of it, at least and at most


class Sweep:
    """At least two shapes, each a configuration, in one worker; `save` is given the result so far.

    Attributes:
        points: its configurations, in the order of the shapes.
    """

    def __init__(
        self,
        shapes: Sequence[Shape],
        worker: SharedWorker,
        slo: Slo | None,
        save: Callable[[Result], None],
        timelines: bool = False,
    ) -> None:
        self._shapes, self.worker, self._slo, self._save = list(shapes), worker, slo, save
        self._switching: list[Switching] = []
        self._not_switched: list[str] = []
        self.points = [
            PointConfiguration(shape.plan, number, self, shape.name, Timeline() if timelines else None)
            for number, shape in enumerate(shapes)
        ]
        self.points[0].steps_after_blocks = len(self.switched_modes)

    def result(self, not_opened: Sequence[tuple[Configuration, OrtbenchError]] = ()) -> Result:
        """What is known by now; there is a shape that opened."""
        reasons = {id(point): str(error) for point, error in not_opened}
        results = [None if id(it) in reasons or not it.is_open else it.result for it in self.points]
        why = [reasons.get(id(it), "the sweep ended before it was run") for it in self.points]
        result = merge(self._shapes, results, why, self._slo, self._switching)
        for reason in self._not_switched:
            result.warn("switching-not-measured", reason)
        return result

    def save(self, not_opened: Sequence[tuple[Configuration, OrtbenchError]]) -> None:
        self._save(self.result(not_opened))

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
        switching = new_switching(mode, [self._shapes[number].name for number, _ in measured], calls)
        chance, begun = random.Random(plan.inputs.seed), time.monotonic()
        for number in range(most):
            if number >= fewest and time.monotonic() - begun > plan.loop.duration_s:
                break
            order = chance.sample(range(len(measured)), len(measured))
            points = [measured[at][0] for at in order]
            try:
                answer: SwitchTimes = self.worker.client.ask(
                    "time_turns", mode=mode, points=points, calls=calls, first=number % 2 == 0
                )
            except BenchmarkFailed as error:
                self._not_switched.append(
                    f"what switching shapes costs with {mode} was not measured to its end: {error}"
                )
                if isinstance(error, WorkerLost):
                    self.worker.restart()
                return
            for way in ("alone", "turns"):
                for at, samples in zip(order, answer[way], strict=True):
                    switching["shapes"][at]["samples"][way] += samples
            if number == 0:
                self._switching.append(switching)
            progress.tell_left()
