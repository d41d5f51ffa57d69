"""ortbench with a bare loop beside its own, for tests of its times; and builds of it that are wrong on purpose.

``python -m tests.bare BUILD FILE ARGUMENT…`` is ``ortbench ARGUMENT…`` on the reference device, but for its worker. That
one is followed, block by block, by calls of ONNX Runtime that owe nothing to ortbench: the same work in the same process,
on values of their own, with the wait that is right by the device's definition. FILE gets a line of JSON for each such
block. What such a call takes beyond what the device's trace has of it is the host's own time, to begin and to come back,
after the same work and with caches as cold; it is what no benchmark can do without, and all that it may add.

BUILD is ``right``, or one of `WRONG`.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as native

from ortbench.worker import bandwidth, blocks, opening
from ortbench.worker.__main__ import main as work
from ortbench.worker.modes.base import TimedCall
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.state import State
from tests.own_worker import be_ortbench
from tests.refdevice import EP_NAME

RIGHT = "right"
_WORKER = "worker"

Call = Callable[[], object]


class Bare:
    """Calls of ONNX Runtime on the reference device, each of which returns when the device is done.

    Attributes:
        honesty: of the device, which says what waits for it.
    """

    def __init__(self) -> None:
        self.honesty = os.environ.get("REFDEVICE_HONESTY", "sync")
        self._device = next(device for device in ort.get_ep_devices() if device.ep_name == EP_NAME)
        self._default = self._device.memory_info(ort.OrtDeviceMemoryType.DEFAULT)
        self._accessible = self._device.memory_info(ort.OrtDeviceMemoryType.HOST_ACCESSIBLE)
        self._token = self.copy(self._on_device(4), _in_host(4))

    def _on_device(self, size: int, accessible: bool = False) -> Any:
        info = self._accessible if accessible else self._default
        return ort.OrtValue.ortvalue_from_shape_and_type([size // 4], np.float32, memory_info=info)

    def copy(self, source: Any, target: Any) -> Call:
        """A copy of one value into another."""
        values = [source._get_c_value()], [target._get_c_value()]

        def copy(_owners: Any = (source, target)) -> None:
            native.copy_tensors(*values, None)

        return copy

    def copies(self, size: int, accessible: bool) -> dict[str, Call]:
        """An upload and a download of so many bytes, from and to ordinary or HOST_ACCESSIBLE memory."""
        device = self._on_device(size)
        sides = [self._on_device(size, True) if accessible else _in_host(size) for _ in range(2)]
        return {"upload": self.copy(sides[0], device), "download": self.copy(device, sides[1])}

    def phases(self, path: str) -> dict[tuple[str, str], Call]:
        """What ortbench times of a model with one input ``x`` and one output ``y`` of one size, by mode and phase."""
        options = ort.SessionOptions()
        options.add_provider_for_devices([self._device], {})
        session = ort.InferenceSession(path, options, enable_fallback=0)
        size = 4 * session.get_inputs()[0].shape[0]
        array = np.ones(size // 4, np.float32)
        x, y = self._on_device(size), self._on_device(size)
        upload, download = self.copy(_in_host(size), x), self.copy(y, _in_host(size))
        on_device = self._launch(session, x, y)
        in_place = self._launch(session, self._on_device(size, True), self._on_device(size, True))
        upload()

        def whole() -> None:
            upload()
            on_device[0]()
            download()

        return {
            ("cpu", "total"): lambda: session._sess.run(["y"], {"x": array}, None),
            ("device", "total"): whole,
            ("device", "upload"): upload,
            ("device", "inference"): self._waited_for(*on_device),
            ("device", "download"): download,
            ("device-resident", "total"): self._waited_for(*on_device),
            ("host-accessible", "total"): self._waited_for(*in_place),
        }

    def _launch(self, session: Any, x: Any, y: Any) -> tuple[Call, Call]:
        """A run with two values, and ONNX Runtime's wait for it."""
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_ortvalue_output("y", y)
        bound = binding._iobinding
        return lambda _owners=(x, y): session._sess.run_with_iobinding(bound, None), bound.synchronize_outputs

    def _waited_for(self, run: Call, synchronize: Call) -> Call:
        wait = {"sync": None, "async-wait": None, "async": synchronize, "async-old-api": self._token}[self.honesty]
        if wait is None:
            return run

        def waited_for() -> None:
            run()
            wait()

        return waited_for


def _in_host(size: int) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(np.ones(size // 4, np.float32))


def time_calls(call: Call, n: int, drop: int) -> list[tuple[int, int]]:
    """When each of n calls began and ended, in ns, after `drop` that are not recorded."""
    clock, times = time.perf_counter_ns, []
    gc.disable()
    for _ in range(drop + n):
        start = clock()
        kept = call()
        end = clock()
        del kept
        times.append((start, end))
    gc.enable()
    return times[drop:]


class Beside:
    """Bare calls behind each block that a worker times.

    Args:
        file: gets their times.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._calls: dict[Any, Call] = {}

    def follow(self) -> None:
        """From now on the worker's own requests are followed by bare calls."""
        open_, block, add, copies = opening.open, blocks.block, bandwidth.bandwidth_add, bandwidth.bandwidth_block

        def opened(state: State, model: str, *given: Any, **named: Any) -> Any:
            answer = open_(state, model, *given, **named)
            self._calls = dict(Bare().phases(model))
            return answer

        def timed(state: State, mode: str, phase: str, n: int, drop: int, timeline: bool = False) -> Any:
            answer = block(state, mode, phase, n, drop, timeline)
            self._time((mode, phase), n, drop)
            return answer

        def added(state: State, memory: str, size: int, free: int) -> Any:
            answer = add(state, memory, size, free)
            made = Bare().copies(size, memory == "host-accessible")
            self._calls.update({(direction, memory, size): call for direction, call in made.items()})
            return answer

        def copied(state: State, direction: str, memory: str, size: int, n: int, drop: int) -> Any:
            answer = copies(state, direction, memory, size, n, drop)
            self._time((direction, memory, size), n, drop)
            return answer

        opening.open, blocks.block, bandwidth.bandwidth_add, bandwidth.bandwidth_block = opened, timed, added, copied

    def _time(self, what: tuple[str | int, ...], n: int, drop: int) -> None:
        calls = time_calls(self._calls[what], n, drop)
        with self._file.open("a") as file:
            file.write(json.dumps({"what": what, "calls": calls}) + "\n")


# Builds that are wrong


def _forget_fences() -> None:
    """Runs are taken for done when they return."""

    def unfenced(mode: Any) -> TimedCall:
        return mode._run, mode._native_binding, mode._options

    BoundMode._fenced_run = unfenced  # type: ignore[assignment, method-assign]
    BoundMode.submits = lambda _: {}  # type: ignore[assignment, method-assign]


def _copy_twice() -> None:
    """A sample of the upload holds two of them."""
    once = BoundMode._fenced_upload

    def twice(mode: Any) -> Call:
        copy = once(mode)
        return lambda: (copy(), copy())

    BoundMode._fenced_upload = twice  # type: ignore[assignment, method-assign]


def _count_twice() -> None:
    """Whole inferences of `device` have the time of an upload added, which they hold already."""
    right = blocks.block

    def block(state: State, mode: str, phase: str, *given: Any, **named: Any) -> Any:
        answer = right(state, mode, phase, *given, **named)
        if (mode, phase) == ("device", "total"):
            upload, a, b = state.modes[mode].phases()["upload"]
            start = time.perf_counter_ns()
            upload(a, b)
            took = time.perf_counter_ns() - start
            answer["samples"] = [ns + took for ns in answer["samples"]]
        return answer

    blocks.block = block


def _add(share: float, ns: int) -> None:
    """Every sample is too long by a share of itself and some ns."""
    right = blocks.block

    def block(*given: Any, **named: Any) -> Any:
        answer = right(*given, **named)
        answer["samples"] = [round(taken * (1 + share)) + ns for taken in answer["samples"]]
        return answer

    blocks.block = block


WRONG: dict[str, Callable[[], None]] = {
    "forgets-fences": _forget_fences,
    "copies-twice": _copy_twice,
    "counts-twice": _count_twice,
    "adds-a-little": lambda: _add(0.01, 20_000),
}


def main(build: str, file: str, *arguments: str) -> None:
    """Be ortbench, or the worker of such an ortbench."""
    if arguments == (_WORKER,):
        WRONG.get(build, lambda: None)()
        Beside(Path(file)).follow()
        work()
        return
    be_ortbench(["-m", "tests.bare", build, file, _WORKER], list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
