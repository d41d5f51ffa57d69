"""What the modes of a loop share. A call of ``latency`` is a whole loop; the time of each of its steps is taken inside it."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, WrongOutputs, ort_text
from ortbench.core.units import duration
from ortbench.model.modes import LATENCY, WHOLE_LOOP
from ortbench.worker.loops.data import LoopData, by_step, lockstep
from ortbench.worker.modes.base import Mode, OneAtATime, Proof, Step, TimedCall
from ortbench.worker.proofs.outputs import difference
from ortbench.worker.session.memory import Copy
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Array, Value
from ortbench.worker.timing import Ranges

if TYPE_CHECKING:
    from ortbench.model.schema import LoopBytes


class LoopMode(OneAtATime):
    """A loop in one mode.

    Attributes:
        state_in, state_out: by step, bytes that are copied to and from the device because of the state; None where that is
            not known.
        step_in, step_out: by step, all bytes that are.

    Args:
        model: open.
        loop: the arrays.
    """

    whole = WHOLE_LOOP
    bytes_in: int | None = None
    bytes_out: int | None = None
    state_in: list[int] | None = None
    state_out: list[int] | None = None
    step_in: list[int] | None = None
    step_out: list[int] | None = None

    def __init__(self, model: Model, loop: LoopData) -> None:
        self._model, self._loop = model, loop
        self._held = {pair.out for pair in loop.pairs}
        self._free = [place for place in range(len(model.outputs)) if place not in self._held]
        self._times: list[int] = []
        self._starts: list[int] = []
        self._ranges: Ranges | None = None
        self._calls: list[Copy] = []

    @abstractmethod
    def begin(self) -> None:
        """Bring the first state to where the first step reads it."""

    @abstractmethod
    def state(self, number: int) -> list[Array]:
        """The state after a step, which must be the last one that was made, in host memory."""

    @abstractmethod
    def left_by(self, number: int) -> list[Array | None]:
        """What a step left of the outputs that are no state, in host memory; None where it is not read there."""

    def listen(self, ranges: Ranges) -> Ranges:
        """Put an NVTX range around every step, if a tool listens."""
        self._ranges = ranges
        return ranges

    def phases(self) -> dict[str, TimedCall]:
        return {LATENCY: (self._whole, None, None)}

    def _whole(self, _a: object, _b: object) -> None:
        done = len(self._times)
        begun = False
        try:
            self.begin()
            begun = True
            if self._ranges is not None and (self._ranges.shows_steps or self.notes_starts):
                self._run_watched(self._ranges)
            else:
                self._run_steps()
        except Exception as error:
            raise self._broke(self._times[done:], begun, error) from None

    def _run_steps(self) -> None:
        clock, add = time.perf_counter_ns, self._times.append
        for call in self._calls:
            start = clock()
            call()
            add(clock() - start)

    def _run_watched(self, ranges: Ranges) -> None:
        """The same with a range around each step, and a note of when it began."""
        clock, add = time.perf_counter_ns, self._times.append
        for number, call in enumerate(self._calls):
            with ranges.step(number):
                start = clock()
                call()
                add(clock() - start)
            if self.notes_starts:
                self._starts.append(start)

    def _broke(self, done: list[int], begun: bool, error: Exception) -> BenchmarkFailed:
        """What ended a loop, with what was measured of it until then."""
        why = str(error) if isinstance(error, OrtbenchError) else ort_text(error)
        if not begun:
            return BenchmarkFailed(f"bringing the first state there failed: {why}")
        which = f"step {len(done) + 1} of {self._loop.count}" if self._loop.count > 1 else "the run"
        said = f"{which} failed: {why}"
        if done:
            ends = f"from {duration(done[0])} (the first) to {duration(done[-1])} (the last)"
            said += (
                f"; the {len(done)} before it took {ends}"
                if len(done) > 1
                else f"; the one before it took {duration(done[0])}"
            )
        return BenchmarkFailed(said)

    def take_times(self, calls: int) -> list[int]:
        """The times of the steps of the last loops."""
        times = self._times[len(self._times) - calls * self._loop.count :]
        self._times.clear()
        return times

    def take_starts(self, calls: int) -> list[int]:
        """When the steps of the last loops began."""
        starts = self._starts[-calls * self._loop.count :]
        self._starts.clear()
        return starts

    def steps(self) -> list[Step]:
        return [
            ("the first state", self.begin),
            *((f"step {number}", call) for number, call in enumerate(self._calls)),
        ]

    def outputs(self) -> list[Value]:
        found = [array for number in range(self._loop.count) for array in self.left_by(number) if array is not None]
        return [*found, *self.state(self._loop.count - 1)]

    def expected(self) -> list[tuple[str, Value]]:
        """The outputs of every step that are read, and the state after the last one."""
        loop, specs = self._loop, self._model.outputs
        found: list[tuple[str, Value]] = []
        for number, wanted in enumerate(loop.outputs):
            for place, array, got in zip(self._free, wanted, self.left_by(number), strict=True):
                if got is not None:
                    found.append((self._called(specs[place].name, number), array))
        last = (f"{specs[pair.out].name} after the last step" for pair in loop.pairs)
        return [*found, *zip(last, loop.last, strict=True)]

    def _called(self, name: str, number: int) -> str:
        """An output of a step, for messages."""
        return f"{name} of step {number}" if self._loop.count > 1 else name

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        return [Proof("", "comparing every step", partial(self.compare_steps, rtol, atol))]

    def compare_steps(self, rtol: float | None, atol: float | None) -> None:
        """Go through the loop once more beside the plain one, and hold every output of every step against it.

        Raises:
            WrongOutputs: they differ.
        """
        self.poison()
        self.begin()
        names = self._model.output_names
        for number, (call, reference) in enumerate(zip(self._calls, lockstep(self._model, self._loop), strict=True)):
            call()
            places = [*self._free, *(pair.out for pair in self._loop.pairs)]
            for place, got in zip(places, [*self.left_by(number), *self.state(number)], strict=True):
                if got is None:
                    continue
                wrong = difference(self._called(names[place], number), got, reference[place], rtol, atol)
                if wrong is not None:
                    raise WrongOutputs(wrong)

    def _count_bytes(
        self,
        state: tuple[list[int], list[int]],
        others: tuple[list[int], list[int]],
        first: int = 0,
    ) -> None:
        """Keep what is copied, by step, in and out: because of the state, and besides; and in before the first step."""
        self.state_in, self.state_out = state
        self.step_in, self.step_out = (
            [a + b for a, b in zip(*side, strict=True)] for side in zip(state, others, strict=True)
        )
        self.bytes_in, self.bytes_out = first + sum(self.step_in), sum(self.step_out)

    def bytes_by_step(self) -> LoopBytes:
        """For the result: a number where it is the same in all steps."""
        sides = (self.state_in, self.state_out, self.step_in, self.step_out)
        found = [None if it is None else by_step(it) for it in sides]
        return {"state_h2d": found[0], "state_d2h": found[1], "step_h2d": found[2], "step_d2h": found[3]}
