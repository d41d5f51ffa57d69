"""A sweep: the shapes of a model in one session, each a configuration, and what it costs that shapes change."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from ortbench.analysis.sweep import merge, switched
from ortbench.core.errors import BenchmarkFailed
from ortbench.measure.bench import Bench
from ortbench.measure.points import PointSide, SharedWorker
from ortbench.measure.process import WorkerLost
from ortbench.measure.schedule import BLOCK_NS
from ortbench.model.modes import LATENCY, is_rate
from ortbench.model.protocol import Switched
from ortbench.model.result import Result
from ortbench.model.schema import Switching
from ortbench.model.slo import Slo
from ortbench.plan.plan import Observer
from ortbench.plan.sweep_plan import Shape

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
        meanwhile: Callable[[], None] | None = None,
        after_open: Callable[[Sequence[Result]], None] | None = None,
    ) -> None:
        super().__init__(sides, observer, meanwhile, after_open=after_open)
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
            for side in self._sides_there():
                side.be_there()
            there = [(number, side) for number, side in enumerate(self._points) if mode in side.modes]
            if len(there) > 1:
                self._step("switch", f"switching shapes with {mode}")
                self._switch(mode, there)
        self._keep()

    def _sides_there(self) -> list[PointSide]:
        return [side for side in self._points if side.modes]

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
