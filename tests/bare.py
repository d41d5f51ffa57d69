"""Calls of ONNX Runtime that owe nothing to ortbench, for tests of ortbench's times in real time.

`follow` has a worker followed, block by block, by bare calls: the same work in the same process, on values of their own,
with the wait that is right by the reference device's definition. What such a call takes beyond what the device's trace has
of it is the host's own time, to begin and to come back, after the same work and with caches as cold; it is what no
benchmark can do without, and all that it may add.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime.capi import _pybind_state as native

from ortbench.worker import measuring, opening
from tests.forks import WORKER
from tests.refdevice import EP_NAME

_FILE = "ORTBENCH_TESTS_BARE"

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
            ("cpu-tensors", "latency"): lambda: session._sess.run(["y"], {"x": array}, None),
            ("device-tensors", "latency"): whole,
            ("device-tensors", "h2d"): upload,
            ("device-tensors", "inference"): self._waited_for(*on_device),
            ("device-tensors", "d2h"): download,
            ("device-resident", "latency"): self._waited_for(*on_device),
            ("host-accessible", "latency"): self._waited_for(*in_place),
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


def beside(file: Path) -> dict[str, str]:
    """The environment of a command whose worker is followed; the file gets a line of JSON for each block."""
    return {WORKER: f"{__name__}:follow", _FILE: str(file)}


def follow() -> None:
    """From now on the blocks that this worker times are followed by bare calls."""
    open_, block, calls = opening.open, measuring.block, {}

    def opened(state: Any, model: str, *given: Any, **named: Any) -> Any:
        answer = open_(state, model, *given, **named)
        calls.update(Bare().phases(model))
        return answer

    def timed(
        state: Any, mode: str, phase: str, n: int, drop: int, timeline: bool = False, every_ns: int | None = None
    ) -> Any:
        answer = block(state, mode, phase, n, drop, timeline, every_ns)
        times = time_calls(calls[mode, phase], n, drop)
        with Path(os.environ[_FILE]).open("a") as file:
            file.write(json.dumps({"what": (mode, phase), "calls": times}) + "\n")
        return answer

    opening.open, measuring.block = opened, timed
