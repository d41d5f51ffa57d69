"""Mode `device-tensors`: new inputs from the host for every run, and its outputs back to it."""

from __future__ import annotations

from typing import Any

from ortbench.model.modes import DEVICE, LATENCY, PHASE_NAMES
from ortbench.worker.modes.base import Step, TimedCall, fence_step, timed
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.slots import copied_bytes
from ortbench.worker.session.tensors import Array


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
