"""The clients of a load: a thread each, with inputs, bindings and buffers of their own, in one session or in one each;
and where they wait for the GIL, as the Linux kernel sees it.

A thread that waits for the lock sleeps in a futex at an address inside the interpreter's own state. That address is found
out by having a thread want the lock while this one has it and looks where the other sleeps: calls by `ctypes.PyDLL` keep
the lock. From then on anybody who may look at the process can see which of its threads wait for the lock, at any moment,
without needing the lock themselves: `ortbench.features.load.measure.client_pool` does.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.model.modes import LATENCY, mode_of
from ortbench.plan.target import Inputs
from ortbench.worker import first_run, proofs, session
from ortbench.worker.session import Model
from ortbench.worker.timing import Ranges, TimedCall

if TYPE_CHECKING:
    from ortbench.worker.mode_base import Mode
    from ortbench.worker.modes import Opened

WHOLE = "load"  # what ranges call a run of a client
_WARMING_RUNS = 3  # in the client's own thread: EPs keep handles and workspaces by thread


@dataclass
class Seat:
    number: int  # of the client among all
    thread: ThreadPoolExecutor
    modes: list[Mode]  # its own, one a shape, set up and checked, with their outputs poisoned
    model: Model
    ranges: Ranges  # for the runs of its thread
    kept: Any = field(default=None, repr=False)  # what its last run returned, in modes whose runs return their outputs
    last: int = 0  # the shape of that run

    @property
    def calls(self) -> list[TimedCall]:
        return [mode.phases()[LATENCY] for mode in self.modes]

    def differs(self, rtol: float | None, atol: float | None) -> str | None:
        """What is wrong with the outputs that its last run left, in words, or None; after that they are poisoned again.

        Runs with CPU tensors return new arrays: there it is what the last one returned.
        """
        mode = self.modes[self.last]
        if mode_of(mode.name).of_cpu_tensors:
            if self.kept is None:
                return None
            arrays, self.kept = first_run.to_arrays(self.model, self.kept), None
            pairs = zip(arrays, mode.expected_outputs(), strict=True)
            wrongs = (
                proofs.difference(name, got, reference, rtol, atol, mode.source) for got, (name, reference) in pairs
            )
            return next(filter(None, wrongs), None)
        wrong = proofs.find_difference(mode, rtol, atol)
        mode.poison()
        return wrong


class Client(NamedTuple):
    """What a client has whatever the mode: a thread with the system's number of it, and models with their session and arrays."""

    thread: ThreadPoolExecutor
    native: int
    opened: list[Opened]  # one a shape


class Clients:
    def __init__(self, opened: Opened, own: bool, first: int, requests: Sequence[Inputs]) -> None:
        self._first = first
        self._opened, self._own, self._requests = opened, own, requests
        self._clients: list[Client] = []
        self.seats: dict[str, list[Seat]] = {}  # by mode

    def add(self, mode: str, count: int) -> None:
        """Have so many clients of a mode, each checked by itself. Raises `Unsupported`: the mode cannot be;
        `WrongOutputs`: a client's outputs are wrong although no other one runs; `Exception`: whatever ORT raises."""
        request = self._opened.request
        seats = self.seats.setdefault(mode, [])
        while len(seats) < count:
            number = len(seats)
            if number == len(self._clients):
                self._clients.append(self._another(number))
            client = self._clients[number]
            modes = [it.make(mode, depth=1) for it in client.opened]
            for made in modes:
                proofs.check_outputs(made, request.rtol, request.atol)
                made.call_name = WHOLE
            ranges = Ranges(modes[0])
            for made in modes:
                made.set_ranges(ranges)
            seat = Seat(self._first + number, client.thread, modes, client.opened[0].model, ranges)
            client.thread.submit(_warm_up, seat).result()
            for made in modes:
                made.poison()
            seats.append(seat)

    @property
    def natives(self) -> list[int]:
        return [client.native for client in self._clients]

    def _another(self, number: int) -> Client:
        opened, client_number = self._opened, self._first + number
        model = opened.model
        if self._own and number:
            model = session.open_model(opened.path, opened.target, opened.model.provider)
            model.syncs = opened.model.syncs  # what was proved of this EP need only be confirmed
        # Inputs that were given are the same for all; those that are made up differ, so that mixed-up buffers show.
        if client_number or self._own or self._requests[0] is not opened.request:
            own = [opened.reopen(model, replace(it, seed=opened.request.seed + client_number)) for it in self._requests]
        else:
            own = [opened]
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"client-{client_number}")
        return Client(thread, thread.submit(threading.get_native_id).result(), own)


def _warm_up(seat: Seat) -> None:
    for call, a, b in seat.calls:
        for _ in range(_WARMING_RUNS):
            call(a, b)


_LOOKS = 40  # at most
_ENOUGH = 5  # of them at the same place
_APART_US = 2000
_LEAST_ADDRESS = 1 << 16
_FORM = re.compile(rb"(\d+) 0x([0-9a-f]+) ")


def gil_wait_point() -> list[int] | None:
    """The number of the system call and the address at which threads wait for the GIL; None where that cannot be seen."""
    if not sys.platform.startswith("linux"):
        return None
    native: list[int] = []
    done = threading.Event()

    def want() -> None:
        native.append(threading.get_native_id())
        while not done.is_set():
            time.sleep(0)  # lets go of the lock, and wants it back

    thread = threading.Thread(target=want, daemon=True)
    thread.start()
    try:
        while not native:
            time.sleep(0.001)
        return _find_wait_point(native[0])
    except (OSError, AttributeError):
        return None
    finally:
        done.set()
        thread.join()


def _find_wait_point(native: int) -> list[int] | None:
    """The same, by looks at a thread that wants the lock while the client has it."""
    keeping = ctypes.PyDLL(None)
    buffer = ctypes.create_string_buffer(256)
    seen: Counter[tuple[int, int]] = Counter()
    file = os.open(f"/proc/self/task/{native}/syscall", os.O_RDONLY)
    try:
        for _ in range(_LOOKS):
            keeping.usleep(_APART_US)
            read = keeping.pread(file, buffer, 256, 0)
            found = _FORM.match(buffer.raw[: max(0, read)])
            # Else it runs, has no core to do so, or sleeps where the first argument is no address.
            if found is not None and int(found[2], 16) >= _LEAST_ADDRESS:
                seen[int(found[1]), int(found[2], 16)] += 1
            for point, times in seen.most_common(1):
                if times == _ENOUGH:
                    return list(point)
    finally:
        os.close(file)
    return None
