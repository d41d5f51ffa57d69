"""Copy bandwidth over sizes: what a sweep found, and the file it is kept in. Pure.

Schema 1 of ``bandwidth.json``. Keys change only with `SCHEMA_VERSION`; readers may meet keys they do not know.

Top level: ``schema_version``, ``tool`` (name, version), ``created`` (UTC, ISO 8601), ``command``, ``environment`` and
``target`` (ep, device, memory, …) as in a run's result, ``target.fence`` (by host memory and direction: what ends a
sample; kind, cost_ns, how), ``setup`` (seed), ``stopped``, ``took_ns`` (from the first copy to the last; null where none was
timed, absent from older files), ``warnings`` (code, message), ``points``, and ``peak``: by direction the fastest point
(gbps, bytes, memory), null where none was measured.

A point is one size, direction and host memory: see `Point`; in the file its statistics stand beside its other keys
(``n``, ``median_ns``, ``ci95_ns``, …, null where nothing was measured). Durations are integer nanoseconds, sizes bytes,
rates GB/s of 1e9 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict

from ortbench.analysis.comparable import machine
from ortbench.analysis.pairs import shared
from ortbench.errors import BadInput
from ortbench.files import write_atomically
from ortbench.result import OK, empty, json_text, read_json
from ortbench.schema import Direction, Environment, Fence, Peak, Peaks, Provider, Tool, Warned
from ortbench.stats import Ratio, Stats, paired_ratio

if TYPE_CHECKING:  # not in Python 3.10, with which a worker may run
    from typing import NotRequired

SCHEMA_VERSION = 1
FILE_NAME = "bandwidth.json"

UPLOAD: Final = "upload"
DOWNLOAD: Final = "download"
DIRECTIONS: tuple[Direction, ...] = (UPLOAD, DOWNLOAD)
ORDINARY, HOST_ACCESSIBLE = MEMORIES = ("ordinary", "host-accessible")
TITLES = {ORDINARY: "ordinary memory", HOST_ACCESSIBLE: "HOST_ACCESSIBLE memory"}


@dataclass
class Point:
    """Copies of one size.

    Attributes:
        direction: ``upload`` (host to device) or ``download``.
        memory: the host's side: ``ordinary`` memory, as numpy has it, or the EP's ``host-accessible`` memory.
        bytes: of one copy.
        status: ``ok`` or ``failed``.
        reason: why it failed, else None. What was measured before is kept.
        stats: of the durations of single copies; None where nothing was measured.
        blocks: ``[round, n, start_ns, median_ns]`` of the blocks the samples came in, start on the worker's clock.
        samples_ns: raw samples in the order taken; None where there are more than `KEPT_SAMPLES`.
    """

    direction: Direction
    memory: str
    bytes: int
    status: str = OK
    reason: str | None = None
    stats: Stats | None = None
    blocks: list[list[int]] = field(default_factory=list)
    samples_ns: list[int] | None = None

    @property
    def gbps(self) -> float:
        """The median rate in GB/s; 0 where nothing was measured."""
        return self.bytes / max(self.stats.median_ns, 1) if self.stats else 0.0


KEPT_SAMPLES = 1000  # of a point; small copies have many thousands, of which the blocks' medians say enough


class CopyTarget(Provider):
    """The EP; ``fence``, by host memory and direction: what ends a sample; ``python``: as in a result's target."""

    fence: dict[str, dict[Direction, Fence]]
    python: NotRequired[str | None]


class CopySetup(TypedDict):
    """How the sweep began."""

    seed: int


@dataclass
class CopySweep:
    """One sweep: see the module's text for the meaning of each key."""

    tool: Tool
    created: str
    command: list[str]
    environment: Environment = field(default_factory=empty)
    target: CopyTarget = field(default_factory=empty)
    setup: CopySetup = field(default_factory=empty)
    stopped: str | None = None
    took_ns: int | None = None
    warnings: list[Warned] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    schema_version: int = SCHEMA_VERSION

    def measured(self, direction: str | None = None, memory: str | None = None) -> list[Point]:
        """The points that are ok and have figures, by size; of one direction and memory where they are named."""
        found = [
            point
            for point in self.points
            if point.status == OK and point.stats and direction in (None, point.direction)
            if memory in (None, point.memory)
        ]
        return sorted(found, key=lambda point: point.bytes)

    def curve(self, direction: str, memory: str) -> list[tuple[int, int]]:
        """Size and median duration of each measured point, ascending."""
        return [(point.bytes, point.stats.median_ns) for point in self.measured(direction, memory) if point.stats]

    def peak(self, direction: str) -> Point | None:
        """The point with the highest rate, from any memory: as much as the link was seen to carry."""
        return max(self.measured(direction), key=lambda point: point.gbps, default=None)

    def warn(self, code: str, message: str) -> None:
        """Add a warning."""
        self.warnings.append({"code": code, "message": message})


def advantage(sweep: CopySweep, direction: str) -> tuple[int, Ratio] | None:
    """How many times as fast HOST_ACCESSIBLE memory is as ordinary memory, over paired blocks, and at which size.

    At the largest size that both were measured at; None where there is none.
    """
    by_size = [{point.bytes: point for point in sweep.measured(direction, memory)} for memory in MEMORIES]
    sizes = by_size[0].keys() & by_size[1].keys()
    if not sizes:
        return None
    medians = [{number: median for number, _, _, median in points[max(sizes)].blocks} for points in by_size]
    ordinary, accessible = shared(*medians)
    return (max(sizes), paired_ratio(ordinary, accessible)) if ordinary else None


# The file


def bandwidth_json(sweep: CopySweep) -> str:
    """The file's text."""
    points = [_flat(point) for point in sweep.points]
    peaks = peaks_of(sweep)
    return json_text({"schema_version": sweep.schema_version, **vars(sweep), "points": points, "peak": peaks})


def peaks_of(sweep: CopySweep) -> Peaks:
    """The fastest points as files have them."""
    return {"upload": _peak(sweep.peak(UPLOAD)), "download": _peak(sweep.peak(DOWNLOAD))}


def _peak(point: Point | None) -> Peak | None:
    if point is None:
        return None
    return {"gbps": round(point.gbps, 6), "bytes": point.bytes, "memory": point.memory}


def _flat(point: Point) -> dict[str, object]:
    statistics = {item.name: getattr(point.stats, item.name, None) for item in fields(Stats)}
    own = vars(point)
    head = {key: own[key] for key in ("direction", "memory", "bytes", "status", "reason")}
    return {**head, **statistics, "blocks": point.blocks, "samples_ns": point.samples_ns}


def save(sweep: CopySweep, folder: Path) -> None:
    """Write a sweep into its folder so that a reader never sees half of it.

    Raises:
        OSError: the folder cannot be written.
    """
    write_atomically(folder / FILE_NAME, bandwidth_json(sweep))


def load(path: Path) -> CopySweep:
    """Read a sweep.

    Raises:
        BadInput: it cannot be read, is not JSON, has another schema, or is not a whole sweep.
    """
    data = read_json(path, "bandwidth sweep")
    if not isinstance(data, dict) or "points" not in data or "schema_version" not in data:
        raise BadInput(f"{path} is not a bandwidth sweep of ortbench: it has no points")
    if data["schema_version"] != SCHEMA_VERSION:
        raise BadInput(f"{path} has schema {data['schema_version']}; this ortbench reads schema {SCHEMA_VERSION}")
    try:
        return from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{path} is not a whole bandwidth sweep: {error!r}") from None


def from_dict(data: Mapping[str, Any]) -> CopySweep:
    """The inverse of `bandwidth_json`; unknown keys are ignored.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: a required key is missing or has the wrong form.
    """
    target, environment = data["target"], data["environment"]
    machine(target, environment)  # what reports and `ortbench run` rely on must be there
    target["memory"]["kind"], target["fence"].keys(), environment["onnxruntime"]
    known = {item.name: data[item.name] for item in fields(CopySweep) if item.name in data}
    return CopySweep(**{**known, "points": [_point_from(point) for point in data["points"]]})


def _point_from(data: Mapping[str, Any]) -> Point:
    known = {item.name: data[item.name] for item in fields(Point) if item.name in data}
    if data["n"] is None:
        return Point(**known)
    low, high = data["ci95_ns"]
    statistics = {item.name: data[item.name] for item in fields(Stats)}
    return Point(**{**known, "stats": Stats(**{**statistics, "ci95_ns": (low, high)})})
