"""A sweep: the shapes of a model in one session, each a configuration, and what it costs that shapes change."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from ortbench.analysis.sweep import merge, switched
from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError
from ortbench.core.files import ModelFiles
from ortbench.measure.bench import Bench
from ortbench.measure.configuration import Configuration
from ortbench.measure.describe import describe
from ortbench.measure.process import Client, WorkerLost, open_session, request_of
from ortbench.measure.schedule import BLOCK_NS
from ortbench.model.modes import LATENCY, is_rate
from ortbench.model.protocol import Opened, OpenedSweep, Switched
from ortbench.model.result import Result
from ortbench.model.schema import Machine, Switching
from ortbench.model.slo import Slo
from ortbench.model.timeline import Timeline
from ortbench.plan.plan import Observer, Plan
from ortbench.plan.sweep_plan import Shape


class SharedWorker:
    """The worker of all shapes, whose plans have the same model and EP; another one after one was lost."""

    def __init__(self, plan: Plan, client: Client) -> None:
        self._plan = plan
        self.client = client
        self.model_files = ModelFiles([plan.model])
        self.times_lost = 0
        self.released = False
        self._opened: OpenedSweep | OrtbenchError | None = None

    def opened(self) -> OpenedSweep:
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
        """Start another worker; `opened` says where none can be started."""
        self.client.close()
        self.times_lost += 1
        self.released = False
        self._opened = None
        try:
            self.client = open_session(self._plan)
        except OrtbenchError as error:
            self._opened = error


class PointSide(Configuration):
    """A shape of a sweep, which the worker knows by its number."""

    _not_again = "the shape could not be run again"

    def __init__(
        self, plan: Plan, number: int, shared: SharedWorker, name: str, timeline: Timeline | None = None
    ) -> None:
        super().__init__(plan, shared.client, name=name, timeline=timeline)
        self._number, self._shared = number, shared
        self.model_files = shared.model_files
        self._lost_before = 0

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
                    of_session = self._shared.opened()
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

    def be_there(self) -> bool:
        """Have a worker that was started since know of this shape; whether there was one."""
        if self._lost_before == self._shared.times_lost:
            return False
        self._set_up_again(f"after the worker was lost {self._not_again}")
        return True

    def ask(self, do: str, **arguments: Any) -> Any:
        """Ask the worker about this shape; one that was started since is told of it first."""
        if self.be_there():
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


class SweepBench(Bench):
    """One sweep of at least two shapes, each a configuration; `save` is called with the result so far."""

    per = "shape and mode"

    def __init__(
        self,
        shapes: Sequence[Shape],
        sides: Sequence[PointSide],
        worker: SharedWorker,
        slo: Slo | None,
        save: Callable[[Result], None],
        observer: Observer | None = None,
        after_open: Callable[[Sequence[Result]], None] | None = None,
    ) -> None:
        super().__init__(sides, observer, after_open=after_open)
        self._shapes, self._points, self._worker = list(shapes), list(sides), worker
        self._slo, self._save = slo, save
        self._switching: list[Switching] = []
        self._not_switched: list[str] = []
        self._forecast.expect("switch", sum(map(_is_switched, self._points[0].plan.modes)))

    def result(self) -> Result:
        """What is known by now; there is a shape that opened."""
        reasons = {id(side): str(error) for side, error in self.not_opened}
        results = [None if id(side) in reasons or not side.is_open else side.result for side in self._points]
        why = [reasons.get(id(side), "the sweep ended before it was run") for side in self._points]
        made = merge(self._shapes, results, why, self._slo, self._switching)
        for reason in self._not_switched:
            made.warn("switching-not-measured", reason)
        return made

    def _save_all(self) -> None:
        super()._save_all()
        self._save(self.result())

    def _after_blocks(self) -> None:
        """Time calls that change shapes against calls of one shape at a time, mode by mode."""
        for mode in filter(_is_switched, self._points[0].plan.modes):
            for side in [side for side in self._points if side.modes]:
                side.be_there()
            there = [(number, side) for number, side in enumerate(self._points) if mode in side.modes]
            if len(there) > 1:
                self._step("switch", f"switching shapes with {mode}")
                self._switch(mode, there)
        self._keep()

    def _switch(self, mode: str, there: Sequence[tuple[int, PointSide]]) -> None:
        loop = self._points[0].plan.loop
        turn_ns = sum(side.cases[mode].samples[LATENCY][-1] for _, side in there)
        calls = max(CALLS[0], min(CALLS[1], round(BLOCK_NS / max(turn_ns, 1))))
        fewest, most = FEWEST, MOST
        if loop.iterations is not None:
            calls = min(calls, loop.iterations)
            fewest = most = -(-loop.iterations // calls)
        found = switched(mode, [self._shapes[number].name for number, _ in there], calls)
        chance, begun = random.Random(self._points[0].plan.inputs.seed), time.monotonic()
        for number in range(most):
            if number >= fewest and time.monotonic() - begun > loop.duration_s:
                break
            order = chance.sample(range(len(there)), len(there))
            try:
                answer: Switched = self._worker.client.ask(
                    "switching", mode=mode, points=[there[at][0] for at in order], calls=calls, first=number % 2 == 0
                )
            except BenchmarkFailed as error:
                self._not_switched.append(
                    f"what switching shapes costs with {mode} was not measured to its end: {error}"
                )
                if isinstance(error, WorkerLost):
                    self._worker.restart()
                return
            for way in ("alone", "turns"):
                for at, samples in zip(order, answer[way], strict=True):
                    found["shapes"][at]["samples"][way] += samples
            if number == 0:
                self._switching.append(found)
            self._tell_left()


def _is_switched(mode: str) -> bool:
    """Whether one of its calls is one inference, so that each can have another shape."""
    return not is_rate(mode, LATENCY)
