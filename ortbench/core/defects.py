"""Defects of versions of ONNX Runtime that change what is measured. A further one is a `Defect` here, and a line each of `defect_notes`
(worker/opening.py), which says what sessions it is in, and of `providers` (features/doctor/facts.py), for what EPs."""

from __future__ import annotations

import re
from typing import NamedTuple


class Defect(NamedTuple):
    first: tuple[int, ...]  # the release that has it first
    mended: tuple[int, ...]  # the first one without it
    issue: int  # of microsoft/onnxruntime
    what: str

    def describe(self, version: str) -> str | None:
        """What a version does wrong, with issue and mended release; None where it has not the defect."""
        if not self.first <= tuple(map(int, re.findall(r"\d+", version)[:3])) < self.mended:
            return None
        return f"ONNX Runtime {version} {self.what} (issue {self.issue}, mended in {self.release})"

    @property
    def release(self) -> str:
        return ".".join(map(str, self.mended))


# Tried with 1.27.0 to 1.32.0 (1.30.1 is on no index: 1.30.0 has it, 1.31.0 has not): of plugin EPs alone, where a host array is bound as an
# input, and in runs with tensors on several devices.
LOST_STREAM = Defect(
    (1, 23), (1, 30, 1), 32643, "copies tensors of plugin EPs without their stream where it copies one at a time"
)
