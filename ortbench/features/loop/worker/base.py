"""What the modes of loops and chains share: a call of ``latency`` is a whole one, and inside it the time of each part is taken."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, WrongOutputs, ort_text
from ortbench.features.loop.model import COPIED_BY_STEPS
from ortbench.features.loop.worker.data import LoopData, lockstep
from ortbench.features.loop.worker.generation import last_position
from ortbench.model.modes import LATENCY, WHOLE_LOOP
from ortbench.worker.memory import Copy
from ortbench.worker.mode_base import Mode, Proof, Step, call_and_wait
from ortbench.worker.proofs import PLAIN, difference
from ortbench.worker.session import Model
from ortbench.worker.tensors import Array, Value
from ortbench.worker.timing import Ranges, Stream, TimedCall, time_call

_COMPARED = 16  # steps whose state is compared, before it becomes rarer


class PartsMode(Mode):
    """A mode whose call of ``latency`` makes calls of its own, steps or stages, one after the other."""

    _calls: list[Copy]

    def __init__(self) -> None:
        self._times: list[int] = []
        self._starts: list[int] = []
        self._ranges: Ranges | None = None

    def set_ranges(self, ranges: Ranges) -> Ranges:
        self._ranges = ranges
        return ranges

    def phases(self) -> dict[str, TimedCall]:
        return {LATENCY: (self.run_whole, None, None)}

    @abstractmethod
    def run_whole(self, _a: object = None, _b: object = None) -> None:
        """All parts, in order."""

    def _run_parts(self) -> None:
        if self._ranges is not None and (self._ranges.is_in_block or self.records_starts):
            self._run_watched(self._ranges)
            return
        clock, add = time.perf_counter_ns, self._times.append
        for call in self._calls:
            start = clock()
            call()
            add(clock() - start)

    def _run_watched(self, ranges: Ranges) -> None:
        """The same with a range around each part, and a note of when it began."""
        clock, add = time.perf_counter_ns, self._times.append
        for number, call in enumerate(self._calls):
            with ranges.part(number):
                start = clock()
                call()
                add(clock() - start)
            if self.records_starts:
                self._starts.append(start)

    def take_times(self, calls: int) -> list[int]:
        return _take_last(self._times, calls * len(self._calls))

    def take_starts(self, calls: int) -> list[int]:
        return _take_last(self._starts, calls * len(self._calls))


def _take_last(noted: list[int], count: int) -> list[int]:
    """So many of what was noted last; nothing stays noted."""
    last = noted[len(noted) - count :]
    noted.clear()
    return last


class LoopMode(PartsMode):
    call_name = WHOLE_LOOP
    bytes_in: int | None = None
    bytes_out: int | None = None

    def __init__(self, model: Model, loop: LoopData) -> None:
        super().__init__()
        self._model, self._loop = model, loop
        self._state_outputs = {pair.out for pair in loop.pairs}
        self._free = [index for index in range(len(model.outputs)) if index not in self._state_outputs]
        self._calls = []
        # Of a loop that generates: its own tokens, and whether it goes on with those of the plain loop.
        self._chosen = None if loop.generated is None else np.zeros_like(loop.generated.tokens)
        self._is_following = False
        # What is copied in each step: because of the state, and in all.
        self._by_step: dict[str, Any] = dict.fromkeys(COPIED_BY_STEPS)

    @abstractmethod
    def begin(self) -> None:
        """Bring the first state to where the first step reads it."""

    @abstractmethod
    def state(self, number: int) -> list[Array]:
        """The state after a step, which must be the last one that was made, in host memory."""

    @abstractmethod
    def step_outputs(self, number: int) -> list[Array | None]:
        """What a step left of the outputs that are no state, in host memory; None where it is not read there."""

    @abstractmethod
    def logits(self, number: int) -> Array:
        """Of a loop that generates, the logits of a step, the last one that was made, in host memory."""

    @abstractmethod
    def read_logits(self) -> Copy | None:
        """Copies the logits of a step that is no first one to the host; None where the run itself brings them."""

    def _add_choices(self, calls: Sequence[Copy]) -> list[Copy]:
        """The steps, each of which ends with the choice of its token where the loop generates."""
        if self._loop.generated is None:
            return list(calls)
        return [call_and_wait(call, partial(self._choose, number)) for number, call in enumerate(calls)]

    def _choose(self, number: int) -> None:
        generated, chosen = self._loop.generated, self._chosen
        assert generated is not None
        assert chosen is not None
        chosen[:, number] = last_position(self.logits(number), generated.batch).argmax(-1)
        if number + 1 < self._loop.count:
            own = not self._is_following and number >= generated.forced_count
            generated.next_ids[:, 0] = chosen[:, number] if own else generated.fed_tokens(number)

    def time_separately(self, repeats: int) -> dict[str, Any]:
        """What the choice of a token takes, with the copy of its logits, where the loop generates."""
        if self._loop.generated is None:
            return {}
        copy, choose = self.read_logits(), partial(self._choose, self._loop.count - 1)
        choice = choose if copy is None else call_and_wait(copy, choose)
        return {"next_token_ns": sorted(time_call(choice) for _ in range(repeats))[repeats // 2]}

    def run_whole(self, _a: object = None, _b: object = None) -> None:
        done, has_begun = len(self._times), False
        try:
            self.begin()
            has_begun = True
            self._run_parts()
        except Exception as error:
            reason, count = str(error) if isinstance(error, OrtbenchError) else ort_text(error), self._loop.count
            which = f"step {len(self._times) - done + 1} of {count}" if count > 1 else "the run"
            raise BenchmarkFailed(
                f"{which if has_begun else 'bringing the first state there'} failed: {reason}"
            ) from None

    def streams(self, count: int) -> list[Stream]:
        """The steps of whole loops, whose first one comes before where it is a prompt's."""
        behind = int(self._loop.is_first_apart)
        begin = call_and_wait(self.begin, self._calls[0]) if behind else self.begin
        return [(begin, self._calls[behind:])] * -(-count // (len(self._calls) - behind))

    def steps(self) -> list[Step]:
        return [("the first state", self.begin), *((f"step {number}", call) for number, call in enumerate(self._calls))]

    def outputs(self) -> list[Value]:
        return [got for _, got, _ in self._pair_outputs()]

    def expected_outputs(self) -> list[tuple[str, Value]]:
        return [(name, wanted) for name, _, wanted in self._pair_outputs()]

    def _pair_outputs(self) -> list[tuple[str, Value, Value]]:
        """What is compared when it is over, and what it must be: outputs of all steps and the state behind the last one; of a loop that
        generates its tokens, and what the last step left."""
        loop, specs, last = self._loop, self._model.outputs, self._loop.count - 1
        found: list[tuple[str, Value, Value]] = []
        steps = list(enumerate(loop.outputs))
        if loop.generated is not None:
            generated, chosen = loop.generated, self._chosen
            assert chosen is not None
            # All tokens must be those of the plain loop, but behind one of two that are as good as each other.
            differs = (chosen != generated.tokens).any(0)
            first = int(differs.argmax())
            rows = chosen[:, first] != generated.tokens[:, first]
            count = first if differs.any() and generated.near[rows, first].all() else loop.count
            found = [("tokens after the last step", chosen[:, :count], generated.tokens[:, :count])]
            if count < loop.count:
                return found
            steps = [(last, [loop.single.reference[index] for index in self._free])]
        for number, wanted in steps:
            for index, array, got in zip(self._free, wanted, self.step_outputs(number), strict=True):
                if got is not None:
                    name = specs[index].name
                    label = self._step_label(name, number) if loop.generated is None else f"{name} after the last step"
                    found.append((label, got, array))
        states = zip(loop.pairs, self.state(last), loop.last, strict=True)
        return [*found, *((f"{specs[pair.out].name} after the last step", got, wanted) for pair, got, wanted in states)]

    @property
    def source(self) -> str:
        return self._loop.single.source

    def _step_label(self, name: str, number: int) -> str:
        return f"{name} of step {number}" if self._loop.count > 1 else name

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        return [Proof("", "comparing every step", partial(self.compare_steps, rtol, atol))]

    def compare_steps(self, rtol: float | None, atol: float | None) -> None:
        """Go through the loop once more beside the plain one, and compare the outputs of every step with it, and the state
        behind some. Raises `WrongOutputs`: they differ."""
        self.poison()
        self._is_following = True
        try:
            self.begin()
            names = self._model.output_names
            for number, (call, reference) in enumerate(
                zip(self._calls, lockstep(self._model, self._loop), strict=True)
            ):
                call()
                found = [*zip(self._free, self.step_outputs(number), strict=True)]
                # In the first steps, the last, and behind each power of two: what goes wrong in a state stays in it, or shows in what is
                # computed from it, and a decoder's would be gigabytes to compare, a minute for 200 tokens.
                if number < _COMPARED or number & (number - 1) == 0 or number == self._loop.count - 1:
                    found += zip((pair.out for pair in self._loop.pairs), self.state(number), strict=True)
                for index, got in found:
                    if got is None:
                        continue
                    wrong = difference(self._step_label(names[index], number), got, reference[index], rtol, atol, PLAIN)
                    if wrong is not None:
                        raise WrongOutputs(wrong)
        finally:
            self._is_following = False

    def _count_bytes(
        self, state: tuple[list[int], list[int]], others: tuple[list[int], list[int]], first: int = 0, last: int = 0
    ) -> None:
        """Keep what is copied, by step, in and out: because of the state, and besides; in before the first step, out behind the last."""
        step_in, step_out = (
            [a + b for a, b in zip(*counts, strict=True)] for counts in zip(state, others, strict=True)
        )
        self.bytes_in, self.bytes_out = first + sum(step_in), sum(step_out) + last
        found = zip(COPIED_BY_STEPS, (*state, step_in, step_out), strict=True)
        # A number where it is the same in all.
        self._by_step = {key: values[0] if len(set(values)) == 1 else values for key, values in found}

    def details(self) -> dict[str, Any]:
        return {"step_bytes": self._by_step}
