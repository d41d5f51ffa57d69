"""Mode `device-resident`: tensors that are on the device before and stay there after a run."""

from __future__ import annotations

from ortbench.model.modes import RESIDENT
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.slots import copied_bytes
from ortbench.worker.session.memory import Copy


class ResidentMode(BoundMode):
    """Device tensors, copied in once before and out once after all runs."""

    name = RESIDENT
    bytes_in = bytes_out = 0

    def _prepare(self) -> None:
        super()._prepare()
        self.once_bytes = copied_bytes(self._ins), copied_bytes(self._outs)

    def once(self) -> tuple[Copy, Copy]:
        """The upload before, fenced, and the download after all runs."""
        return self._fenced_upload(), self._download
