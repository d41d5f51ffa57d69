"""The callers of a load: a thread each, with inputs, bindings and buffers of their own, in one session or in one each."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ortbench.model.modes import LATENCY, MODES
from ortbench.worker.modes.make import make_mode
from ortbench.worker.proofs import outputs
from ortbench.worker.session import first_run, session
from ortbench.worker.timing import Ranges

if TYPE_CHECKING:
    from ortbench.worker.modes.base import Mode, TimedCall
    from ortbench.worker.session.first_run import Data
    from ortbench.worker.session.session import Model
    from ortbench.worker.state import Opened

WHOLE = "load"  # what ranges call a run of a caller
_WARMING_RUNS = 3  # in the caller's own thread: EPs keep handles and workspaces by thread


@dataclass
class Seat:
    """What a caller has of one mode.

    Attributes:
        mode: its own, set up and checked, with its outputs poisoned.
        model: its session.
        ranges: for the runs of its thread.
        kept: what its last run returned, in modes whose runs return their outputs.
    """

    mode: Mode
    model: Model
    ranges: Ranges
    kept: Any = field(default=None, repr=False)

    @property
    def call(self) -> TimedCall:
        """One inference, fenced."""
        return self.mode.phases()[LATENCY]

    def differs(self, rtol: float | None, atol: float | None) -> str | None:
        """What is wrong with the outputs that its last run left, in words, or None; after that they are poisoned again.

        Runs with CPU tensors return new arrays: there it is what the last one returned.
        """
        if MODES[self.mode.name].of_cpu_tensors:
            if self.kept is None:
                return None
            arrays, self.kept = first_run.cpu_arrays(self.model, self.kept), None
            pairs = zip(arrays, self.mode.expected(), strict=True)
            wrongs = (outputs.difference(name, got, reference, rtol, atol) for got, (name, reference) in pairs)
            return next(filter(None, wrongs), None)
        wrong = outputs.differences(self.mode, rtol, atol)
        self.mode.poison()
        return wrong


class Callers:
    """Callers and what they have, by mode.

    Args:
        opened: the model, in whose session the first caller is, and all where they share it.
        own: whether each has a session of its own.
        first: the number of the first one among all callers, also those of other processes.
    """

    def __init__(self, opened: Opened, own: bool, first: int) -> None:
        self.first = first
        self._opened, self._own = opened, own
        self._threads: list[ThreadPoolExecutor] = []
        self._natives: list[int] = []
        self._models: list[Model] = []
        self._data: list[Data] = []
        self._seats: dict[str, list[Seat]] = {}

    def add(self, mode: str, count: int) -> None:
        """Have so many callers of a mode, each checked by itself.

        Raises:
            Unsupported: the mode cannot be.
            WrongOutputs: a caller's outputs are wrong although no other one runs.
            Exception: whatever ORT raises.
        """
        request = self._opened.request
        seats = self._seats.setdefault(mode, [])
        while len(seats) < count:
            number = len(seats)
            self._have(number)
            model, data = self._models[number], self._data[number]
            made = make_mode(mode, model, data)
            outputs.check_outputs(made, request.rtol, request.atol)
            made.whole = WHOLE
            seat = Seat(made, model, made.listen(Ranges(made)))
            self._threads[number].submit(_warm_up, seat).result()
            seat.mode.poison()
            seats.append(seat)

    def seats(self, mode: str, count: int) -> list[Seat]:
        """What the first callers have of a mode."""
        return self._seats[mode][:count]

    def thread(self, number: int) -> ThreadPoolExecutor:
        """The thread of a caller."""
        return self._threads[number]

    @property
    def natives(self) -> list[int]:
        """The system's numbers of the threads."""
        return list(self._natives)

    def close(self) -> None:
        """End the threads."""
        for thread in self._threads:
            thread.shutdown()

    def _have(self, number: int) -> None:
        """Have a caller's thread, session and arrays."""
        if number < len(self._models):
            return
        opened, place = self._opened, self.first + number
        model = opened.model
        if self._own and number:
            model = session.open_model(opened.path, opened.target, opened.model.provider)
            model.fences = opened.model.fences  # what was proved of this EP need only be confirmed
        request = replace(opened.request, seed=opened.request.seed + place, expect=None)
        # Inputs that were given are the same for all; those that are made up differ, so that mixed-up buffers show.
        self._data.append(first_run.make_data(opened.path, model, request) if place or self._own else opened.data)
        self._models.append(model)
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"caller-{place}")
        self._threads.append(thread)
        self._natives.append(thread.submit(threading.get_native_id).result())


def _warm_up(seat: Seat) -> None:
    call, a, b = seat.call
    for _ in range(_WARMING_RUNS):
        call(a, b)
