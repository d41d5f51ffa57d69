"""A profiled session: what ortbench measured in it beside what Nsight Systems recorded of the very same calls. Pure.

Its times are for reading a timeline, never for a comparison: a profiler slows what it watches. So it is saved as
``profile.json``, which no command takes for a result.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from ortbench.model.modes import COSTS, LATENCY, STAGE, stage_in, stage_phase
from ortbench.model.result import Case, Result
from ortbench.model.result_file import result_json

SCHEMA_VERSION = 1
KIND = "profile"

UP, DOWN = "Host-to-Device", "Device-to-Host"  # Nsight's own words
APART = 0.05  # a range holds the reading of the clock too; beyond this something else was in it


@dataclass(frozen=True)
class Copies:
    kind: str  # such as ``Host-to-Device``
    memory: str | None  # the host's side of it: ``Pageable``, ``Pinned``, …; None where neither side is the host's
    count: int  # how many
    size: int  # bytes of all
    time_ns: int  # of all on the GPU


@dataclass(frozen=True)
class Range:
    """All ranges of one name, and the GPU work that was launched inside them."""

    name: str  # see `phases`
    durations_ns: tuple[int, ...]  # of each range, in order
    copies: tuple[Copies, ...]  # by kind
    kernels: int  # how many
    kernels_ns: int  # their time on the GPU

    def copies_of(self, kind: str) -> Copies | None:
        """All copies of a kind, whatever the host's memory; None if there are none."""
        found = [copies for copies in self.copies if copies.kind == kind]
        if not found:
            return None
        memory = ", ".join(dict.fromkeys(copies.memory for copies in found if copies.memory)) or None
        count, size, time_ns = (sum(getattr(it, key) for it in found) for key in ("count", "size", "time_ns"))
        return Copies(kind, memory, count, size, time_ns)


@dataclass(frozen=True)
class Recording:
    version: str  # of Nsight Systems
    report: str  # the file for the GUI
    gpu: str | None  # its name; None where no CUDA work was recorded
    ranges: dict[str, Range]  # of domain ``ortbench``, by name
    copies: tuple[Copies, ...]  # of the whole capture, by kind
    kernels: int  # how many
    kernels_ns: int  # their time on the GPU


@dataclass(frozen=True)
class Profile:
    """A session, and what was recorded of it; None where nothing recorded it, or the user has the recording."""

    session: Result
    recording: Recording | None


def profile_json(profile: Profile) -> str:
    """The text of ``profile.json``: ``schema_version``, ``kind``, ``session`` (keys as in a result) and ``nsight``."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "session": json.loads(result_json(profile.session)),
        "nsight": None if profile.recording is None else asdict(profile.recording),
    }
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def phases(result: Result) -> Iterator[tuple[str, Case, str]]:
    """What was measured, in the order of the timeline: what its ranges are called, ``<mode>/<phase>``, ``<mode>/<stage>``, ``<mode>/loop``
    or ``<mode>/chain``, its case and its phase."""
    for case in result.cases:
        for phase in case.samples:
            each = map(stage_phase, case.stages) if phase == STAGE else () if phase in COSTS else (phase,)
            for own in each:
                yield f"{case.mode}/{case.whole if own == LATENCY else stage_in(own) or own}", case, own
