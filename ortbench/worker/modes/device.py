"""Modes with device tensors: `device-tensors` and `device-tensors-pinned`, whose inputs come from the host and whose outputs go
back to it in every run, `device-resident`, whose tensors stay, and `device-resident-async`, whose runs nobody waits for one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnxruntime as ort

from ortbench.model.modes import ASYNC, DEVICE, DEVICE_PINNED, LATENCY, PHASE_NAMES, RESIDENT
from ortbench.worker.modes.base import Step, fence_step, then, timed
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.slots import apart, copied_bytes, download, shared_memory
from ortbench.worker.session.memory import Copy, EpDeviceMemory, lacks_pinned_memory
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.tensor_memory import Place
from ortbench.worker.session.tensors import Array, TensorSpec
from ortbench.worker.timing import Split, TimedCall, took

_BURST_NS = 20_000_000
_LEAST_BURST, _MOST_BURST = 4, 100


class DeviceMode(BoundMode):
    """Device tensors: CopyTensors in, run through IO binding, CopyTensors out, every run."""

    name = DEVICE

    def _prepare(self) -> None:
        super()._prepare()
        self.bytes_in, self.bytes_out = copied_bytes(self._ins), copied_bytes(self._outs)

    def phases(self) -> dict[str, TimedCall]:
        upload, run, download = self._upload, self._run, self._download

        def whole(binding: Any, options: Any) -> None:
            upload()
            run(binding, options)
            download()  # the outputs are in host memory when it returns, which the check of outputs proves

        found = {LATENCY: (whole, self._native_binding, self._options), "inference": self._fenced_run()}
        if self.bytes_in:
            found["h2d"] = timed(self._fenced_upload())
        if self.bytes_out:
            found["d2h"] = timed(download)
        return {phase: found[phase] for phase in PHASE_NAMES if phase in found}  # as one follows the other

    def steps(self) -> list[Step]:
        upload: list[Step] = [("h2d", self._upload), *fence_step(self.upload_fence)] if self.bytes_in else []
        download: list[Step] = [("d2h", self._download)] if self.bytes_out else []
        return [*upload, *super().steps(), *download]

    def outputs(self) -> list[Array]:
        return self._left()  # every run leaves them in host memory; another copy would hide one that was late


class DevicePinnedMode(DeviceMode):
    """As `DeviceMode`, with the host's side of both copies in the EP's pinned memory."""

    name = DEVICE_PINNED

    @classmethod
    def lacks(cls, provider: Provider) -> str | None:
        return lacks_pinned_memory(provider) or super().lacks(provider)

    def _pinned_for(self, spec: TensorSpec, place: Place) -> EpDeviceMemory | None:
        return shared_memory(spec, place)

    def _prepare(self) -> None:
        super()._prepare()
        if not self.bytes_out:
            return
        # To ordinary memory a copy is done when it returns; to pinned memory a device may copy on its own time.
        assert self._token is not None
        back = self._token if self._dynamic is not None else download(apart(self._outs))  # to ordinary memory
        fences = self._model.fences
        self.download_fence = fences.prove("d2h", self._download, self._waits(), back, self._token)
        self._download = then(self._download, self.download_fence.wait)


class ResidentMode(BoundMode):
    """Device tensors, copied in once before and out once after all runs."""

    name = RESIDENT
    bytes_in = bytes_out = 0

    def _prepare(self) -> None:
        super()._prepare()
        self.once_bytes = copied_bytes(self._ins), copied_bytes(self._outs)

    def once(self) -> tuple[Copy, Copy]:
        return self._fenced_upload(), self._download


class AsyncMode(BoundMode):
    """Device tensors resident, and runs that ORT does not wait for: many are started, and one fence ends them all.

    A call of ``latency`` is a burst of `per_call` runs and the fence.
    """

    name = ASYNC
    bytes_in = bytes_out = 0

    @classmethod
    def lacks(cls, provider: Provider) -> str | None:
        return "no runs that return before they are done" if provider.computes_on_host else super().lacks(provider)

    def _prepare(self) -> None:
        if self._options is None:
            self._options = ort.RunOptions()
        # ORT's own wait at the end of a run; onnxruntime_run_options_config_keys.h. What an EP waits for by itself stays.
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self.per_call = 1
        super()._prepare()
        # As many runs as fill a block, so that the fence weighs little, and not so many that a queue overflows.
        shortest = min(took(*self._fenced_run()) for _ in range(3))
        self.per_call = max(_LEAST_BURST, min(_MOST_BURST, _BURST_NS // shortest))

    def phases(self) -> dict[str, TimedCall]:
        launch, wait = self._launches(), self.fence.wait

        def burst(binding: Any, options: Any) -> None:
            launch(binding, options)
            if wait is not None:
                wait()

        return {LATENCY: (burst, self._native_binding, self._options)}

    def submits(self) -> dict[str, Split]:
        """Of a burst: all of its runs and the one wait."""
        call, wait = (self._launches(), self._native_binding, self._options), self.fence.wait
        return {} if wait is None else {LATENCY: (call, wait)}

    def _launches(self) -> Callable[[Any, Any], None]:
        run, count = self._run, self.per_call

        def launch(binding: Any, options: Any) -> None:
            for _ in range(count):
                run(binding, options)

        return launch
