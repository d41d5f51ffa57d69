"""The result file: what one run found, as other programs read it.

Schema 2. Keys change only with `SCHEMA_VERSION`; readers may meet keys they do not know.

Top level: ``schema_version``, ``tool``, ``created`` (UTC, ISO 8601), ``command``, ``environment``, ``model``, ``target``,
``placement``, ``setup``, ``stopped`` (why the measurement ended), ``took_ns`` (from its first block to its last, of all modes
and sides; null where nothing was timed, absent from older files), ``warnings``, ``cases`` (one a mode and point, see `Case`),
``nodes`` (null without ``--measure-nodes``), ``link``, null where no bandwidth sweep of the same device was found, ``note``
(null without ``--note``), ``name`` (that of ``--name`` or of a suite's case, else null), ``items``, null where nobody
says how many a run has, ``throttled``, null where the GPU was not throttled, and ``noise``, what else the machine did, absent
where that is not known; ``outputs``, how far they are from those of others, absent where they were compared with none; ``findings``, what the figures say
(docs/actions.md), absent from older files;
``axes`` are what its cases differ in besides the mode.

Those of features also have ``kind``, the name of their folder, and what its module ``model`` says. The keys of each part are in `ortbench.model.schema`. Durations are integer nanoseconds, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from ortbench.core.features import part_of
from ortbench.core.parts import INLINE, SOMETIMES
from ortbench.core.stats import Metric, Stats, Value
from ortbench.model import schema
from ortbench.model.modes import BYTES_D2H, BYTES_H2D, INFERENCE, LATENCY, READBACK, WHOLES, Work, stage_in

SCHEMA_VERSION = 2

Status = Literal["ok", "unsupported", "failed", "not_measured"]
OK: Final = "ok"
UNSUPPORTED: Final = "unsupported"
FAILED: Final = "failed"
NOT_MEASURED: Final = "not_measured"  # the measurement was ended before its turn came
RUN = "run"  # the kind of the core: single inferences


@dataclass
class Case:
    """What one mode gave at one point of the axes.

    Attributes:
        mode: its name.
        status: ``ok``, ``unsupported``, ``failed`` or ``not_measured``.
        reason: why not ok, else None.
        point: its place on the axes, by their names; empty where there are none.
        checks: what was verified: ``outputs`` (those of the other modes, and of ``--expect``), ``zero_copy``, ``external``, ``graph``;
            of mode ``copy`` the direction that failed.
        metrics: by key (`ortbench.model.metrics`), statistics of samples or one number; absent where it was not measured.
            Of a loop ``latency``, which stands under ``loop`` too, is a whole loop, and ``step`` all steps of all loops; of a
            chain it is a whole chain, as ``chain``, beside ``stage.NAME``. What is derived is found anew with each block.
        speedup: how many times as fast as mode ``cpu-tensors``: the ratio of the medians of ``latency``; its interval is over the
            rounds of both (`ortbench.core.stats`).
        noisy: whether the machine was too busy to say for certain which of the two is faster.
        samples: raw samples by metric, in the order taken; of a chain all stages of all chains under ``stage``.
        blocks: by metric, a list of ``[round, n, start_ns]``: the blocks the samples came in, start on the worker's
            monotonic clock.
        processes: the first round of each process that it was measured in, one after the other; None of one.
        block_medians: by metric, the median of each block, where its samples are not kept.
        downsampled: of a soak run whose samples would be too many, else None: the blocks of which rounds were kept, and how
            many samples were taken. Every statistic is of those that are kept.
        left_out: what was measured while the GPU was throttled, where that is left out of the figures (``throttled`` of the
            result says so), else None. It is not among ``samples`` and ``blocks``.
        places: in which memory each input and output was, and why; None where the mode was not set up.
        sync: what ends its samples.
        inferences_per_sample: for ``pipelined`` (its depth) and ``device-resident-async`` (the runs before one wait): how many
            runs one call makes. ``latency`` is the time per run, which is throughput and not latency: each sample is that of
            so many runs, divided by their number. Else None.
        host: CPU time and time of all blocks of ``latency`` together, whatever of their samples is kept; None where not taken.
        recorded: with ``--measure-copies``, of modes that copy, or must not.
        pipeline: of ``pipelined`` how it is filled, else None.
        steps_ns: of a loop, the median of each step, ns; None without samples.
        step_bytes: of a loop, what is copied to and from the device in a step; None where there is none.
        stage_bytes: of a chain, what each stage copies to and from the device, by its name.
        load_blocks: of a load point, the figures of its blocks; None elsewhere.
        queue_delay_ci95: of a load point at a rate, where the mean of ``queue_delay`` lies with 95 %, which knows that neighbours
            wait together, ns; None where there are too few for that.
        latency_bounds: of a load point, between what the statistics of its latency lie that an SLO may have; None elsewhere.
    """

    mode: str
    status: Status = OK
    reason: str | None = None
    point: dict[str, int | float | str] = field(default_factory=dict)
    checks: dict[str, schema.CaseCheck] = field(default_factory=dict)
    metrics: dict[str, Metric] = field(default_factory=dict)
    speedup: Value | None = None
    noisy: bool = field(default=False, metadata=SOMETIMES)
    samples: dict[str, list[int | float]] = field(default_factory=dict)
    blocks: dict[str, list[list[int]]] = field(default_factory=dict)
    processes: list[int] | None = field(default=None, metadata=SOMETIMES)
    block_medians: dict[str, list[int]] | None = None
    downsampled: schema.Downsampled | None = None
    left_out: schema.LeftOut | None = None
    places: schema.TensorMemories | None = None
    sync: schema.CaseSync | None = None
    inferences_per_sample: int | None = None
    host: schema.HostTime | None = None
    recorded: schema.Recorded | None = None
    own: dict[str, Any] = field(default_factory=dict, metadata=INLINE)  # what features measured of it, by key
    pipeline: schema.Depth | None = None
    steps_ns: list[int] | None = None
    step_bytes: schema.LoopBytes | None = None
    stage_bytes: dict[str, schema.StageBytes] | None = None
    load_blocks: list[schema.LoadBlock] | None = None
    queue_delay_ci95: list[int] | None = None
    latency_bounds: dict[str, schema.LatencyBounds] | None = None

    @property
    def first_rounds(self) -> list[int]:
        """Of several processes the first round of each."""
        return self.processes or []

    @property
    def is_read_back(self) -> bool:
        """Whether a value is read back behind its inferences, as a wait for the device."""
        return self.sync is not None and self.sync["kind"] == READBACK

    @property
    def whole(self) -> str:
        """What its latency is of: ``loop``, ``chain``, ``start.ready``, or ``latency`` where it is an inference."""
        return next((whole for whole in WHOLES if whole in self.metrics), LATENCY)

    @property
    def bytes_h2d(self) -> int | None:
        """What is copied to the device per run; None where it is not known."""
        return self._bytes(BYTES_H2D)

    @property
    def bytes_d2h(self) -> int | None:
        """What is copied from the device per run; None where it is not known."""
        return self._bytes(BYTES_D2H)

    def _bytes(self, key: str) -> int | None:
        found = self.value(key)
        return None if found is None else int(found)

    @property
    def stages(self) -> dict[str, Stats]:
        """Of a chain, the statistics of each stage by its name."""
        found = ((stage_in(key), it) for key, it in self.metrics.items())
        return {name: it for name, it in found if name is not None and isinstance(it, Stats)}

    def stats(self, metric: str) -> Stats | None:
        """The statistics of a metric's samples; None without any."""
        found = self.metrics.get(metric)
        return found if isinstance(found, Stats) else None

    def median(self, metric: str) -> float | None:
        """The median of a metric's samples, or None."""
        stats = self.stats(metric)
        return None if stats is None else stats.median

    def value(self, metric: str) -> float | None:
        """A metric that is one number, or None."""
        found = self.metrics.get(metric)
        return found.value if isinstance(found, Value) else None

    def set_metric(
        self, metric: str, value: float | None, ci95: Sequence[float] | None = None, *, derived: bool = False
    ) -> None:
        """Set a metric that is one number; None takes it away."""
        if value is None:
            self.metrics.pop(metric, None)
        else:
            self.metrics[metric] = Value(value, None if ci95 is None else (ci95[0], ci95[1]), derived)

    def step_copies(self, key: Literal["state_h2d", "state_d2h", "step_h2d", "step_d2h"]) -> int | list[int] | None:
        """Of a loop, what a step copies, bytes: a list by step where it grows; None where it is not known."""
        return None if self.step_bytes is None else self.step_bytes[key]

    def copies_nothing(self, metric: str) -> bool:
        """Whether a metric is the time of a copy of no bytes, which is none."""
        return {"h2d": self.bytes_h2d, "d2h": self.bytes_d2h}.get(metric) == 0

    def copy_ns(self) -> float | None:
        """What both copies take in sum, ns, by their medians; None where one that there is was not timed."""
        ways = ("h2d", "d2h")
        medians = [median for way in ways if (median := self.median(way)) is not None or not self.copies_nothing(way)]
        return None if None in medians or not medians else sum(median for median in medians if median is not None)

    def inferences(self, metric: str) -> int:
        """How many inferences one timed call of a metric makes, whose time was divided by so many for a sample."""
        return self.inferences_per_sample or 1 if metric == LATENCY else 1


@dataclass
class Point:
    """A shape of a sweep, without its cases.

    Attributes:
        name: what it is called: ``batch=8``.
        point: its place on the axes, which its cases have too.
        shape: sizes of the model's dimensions, by their names.
        data: the set of real inputs, or None.
        inputs, outputs: as of a model; none where the shape did not run.
        items: how many it has, None where nobody says so.
        first_inference_ns: its first run in the session, with what is planned and tuned for a new shape; None where it did not run.
    """

    name: str
    point: dict[str, int | float | str]
    shape: dict[str, int]
    data: str | None = None
    inputs: list[schema.Tensor] = field(default_factory=list)
    outputs: list[schema.Tensor] = field(default_factory=list)
    items: schema.Items | None = None
    first_inference_ns: int | None = None


NOWHERE: Mapping[str, int | float | str] = {}  # the point of what lies on no axis


def empty() -> Any:
    """A part of a result that is not known yet: its type is that of the part."""
    return {}


@dataclass
class Result:
    """One run. Its parts are empty until the model is open; without it a result is neither saved nor read."""

    tool: schema.Tool
    created: str
    command: list[str]
    environment: schema.Environment = field(default_factory=empty)
    model: schema.Model = field(default_factory=empty)
    target: schema.Target = field(default_factory=empty)
    placement: schema.Placement = field(default_factory=empty)
    setup: schema.Setup = field(default_factory=empty)
    stopped: schema.Stopped | None = None
    took_ns: int | None = None
    warnings: list[schema.Warned] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    nodes: schema.Nodes | None = None
    link: schema.Link | None = None
    note: str | None = None
    name: str | None = None
    items: schema.Items | None = None
    throttled: schema.Throttled | None = None
    noise: schema.MachineNoise | None = field(default=None, metadata=SOMETIMES)
    outputs: list[schema.OutputsCompared] | None = field(default=None, metadata=SOMETIMES)
    findings: list[schema.Finding] | None = field(default=None, metadata=SOMETIMES)
    kind: str = RUN
    axes: list[schema.Axis] = field(default_factory=list)
    own: dict[str, Any] = field(default_factory=dict, metadata=INLINE)  # what a feature's kind has, by key
    schema_version: int = SCHEMA_VERSION

    @property
    def shapes(self) -> list[Point]:
        """Of a kind whose cases have shapes of their own, these."""
        found: list[Point] = self.own.get("shapes", [])
        return found

    if not TYPE_CHECKING:  # types of what only some have are those of their features

        def __getattr__(self, name: str) -> Any:
            try:
                return vars(self)["own"][name]
            except KeyError:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}") from None

    @property
    def part(self) -> Any:
        """What only results of its kind have, by the key of the kind; None where that is nothing."""
        return self.own.get(self.kind) or vars(self).get(self.kind)

    def at_point(self, point: Mapping[str, int | float | str] = NOWHERE) -> list[Case]:
        """The cases at a point; by default those that lie on no axis."""
        return [case for case in self.cases if case.point == point]

    def case(self, mode: str, point: Mapping[str, int | float | str] = NOWHERE) -> Case | None:
        """The case of a mode at a point, see `at_point`, if it is ok, else None."""
        return next((case for case in self.at_point(point) if case.mode == mode and case.status == OK), None)

    def median(self, mode: str, metric: str) -> float | None:
        """The median of a metric's samples in a mode that is ok, else None."""
        case = self.case(mode)
        return None if case is None else case.median(metric)

    def warn(self, code: str, message: str) -> None:
        """Add a warning unless it is there already."""
        warning: schema.Warned = {"code": code, "message": message}
        if warning not in self.warnings:
            self.warnings.append(warning)


def are_one_run(one: Result, other: Result) -> bool:
    """Whether the blocks of two results alternated."""
    run_id = one.setup.get("run_id")
    return run_id is not None and run_id == other.setup.get("run_id")


def work_of(result: Result) -> Work:
    work: Work = part_of(result.kind, "model", "work_of", lambda _: INFERENCE)(result.part)
    return work


def not_ok(cases: Iterable[Case]) -> Iterator[tuple[str, str, str | None]]:
    """Modes that are not ok, with their status and its reason; those of one reason together, as ``device-tensors, cpu-tensors``."""
    found: dict[tuple[str, str | None], list[str]] = {}
    for case in cases:
        if case.status != OK:
            found.setdefault((case.status, case.reason), []).append(case.mode)
    return ((", ".join(dict.fromkeys(modes)), *why) for why, modes in found.items())
