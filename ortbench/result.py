"""The result file: what one run found, as other programs read it.

Schema 1. Keys change only with `SCHEMA_VERSION`; readers may meet keys they do not know.

Top level: ``schema_version``, ``tool``, ``created`` (UTC, ISO 8601), ``command``, ``environment``, ``model``, ``target``,
``placement``, ``setup``, ``stopped`` (why the measurement ended), ``took_ns`` (from its first block to its last, of all modes
and sides; null where nothing was timed, absent from older files), ``warnings``, ``cases`` (one a mode, see `Case`),
``nodes`` (null without ``--nodes``), ``link``, null where no bandwidth sweep of the same device was found, ``note``
(null without ``--note``), ``name`` (that of ``--name`` or of a suite's case, else null), ``items``, null where nobody
says how many a run has, and ``throttled``, null where the card was not held back.

That of a loop also has ``kind``, which is ``loop``, and ``loop``; that of a chain ``kind``, which is ``chain``, and ``chain``;
that of a load ``kind``, which is ``load``, ``load`` (how it was put on), ``levels``, ``knee`` (by mode), ``slo`` and
``back_to_back`` (by mode, of open loops), and its ``cases`` are of one caller alone, back to back; that of a sweep ``kind``,
which is ``sweep``, ``sweep``, ``points`` (one a shape, see `Point`, which have the cases), ``switching`` and ``best``. The keys
of each part are in `ortbench.schema`. Durations are integer nanoseconds, sizes bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from os import urandom
from pathlib import Path
from typing import Any

from ortbench.characters import printable
from ortbench.errors import BadInput, NotComparable
from ortbench.files import write_atomically
from ortbench.modes import COSTS, LOOP_PHASES, PHASE_NAMES, TOTAL, WHOLE_CHAIN, WHOLE_LOOP, stage_in
from ortbench.schema import (
    BackToBack,
    Best,
    CaseFence,
    CaseMemory,
    Chain,
    Derived,
    Energy,
    Environment,
    External,
    Graph,
    HostTime,
    Items,
    Knee,
    LeftOut,
    Level,
    Link,
    LoadSetup,
    Loop,
    Measured,
    Model,
    Nodes,
    Once,
    Pipeline,
    Placement,
    Places,
    Ratio,
    Setup,
    Slo,
    Spin,
    StageBytes,
    Sweep,
    Switching,
    Target,
    Tensor,
    Thinned,
    Throttled,
    Throughput,
    Tool,
    Warned,
    ZeroCopy,
)
from ortbench.stats import Stats
from ortbench.work import Work

SCHEMA_VERSION = 1

OK, UNSUPPORTED, FAILED = "ok", "unsupported", "failed"
NOT_MEASURED = "not measured"  # a level of a load that was ended before its turn came
LOOP = "loop"  # the kind of a loop's result
CHAIN = "chain"  # that of a chain's
LOAD = "load"  # that of a load's
SWEEP = "sweep"  # that of a sweep's
_OF_LOOP = {
    "kind", "loop", "steps_ns", "state_bytes_in", "state_bytes_out", "step_bytes_in", "step_bytes_out",
}  # fmt: skip
_OF_CHAIN = {"kind", "chain", "stages", "stage_bytes"}
_OF_LOAD = {"kind", "load", "levels", "knee", "slo", "back_to_back"}
_OF_SWEEP = {"kind", "sweep", "points", "switching", "best"}


@dataclass
class Case:
    """What one mode gave.

    Attributes:
        mode: its name.
        status: ``ok``, ``unsupported`` or ``failed``.
        reason: why not ok, else None.
        bytes_in, bytes_out: copied to and from the device per run, bytes; None where not known.
        places: in which memory each input and output was, and why; None where the mode was not set up.
        outputs_match: whether the outputs are those of the other modes (and of ``--expect``); None if not compared.
        zero_copy: of ``host-accessible``, else None.
        external: with ``--external``, else None.
        graph: with ``--cuda-graph`` where a graph was captured and replayed, else None.
        runs_per_sample: for ``pipelined`` (its depth) and ``device-resident-async`` (the runs before one wait): how many
            runs one call makes. ``total`` is the time per run, which is throughput and not latency: each sample is that of
            so many runs, divided by their number. Else None.
        vs_cpu: how many times as fast as mode ``cpu``.
        throughput: by item, where the result says how many `items` a run has and the mode is ok, else None.
        phases: ``upload``, ``inference``, ``download``, ``total``: statistics, or None where the mode has no such phase.
            Where it was taken also ``submit``, until the call of an inference returns, if its fence waits behind that, and
            ``cpu_time``, CPU time of the worker per run, a sample for each block of ``total``.
        host: CPU time and time of all blocks of ``total`` together, whatever of their samples is kept; None where not taken.
        spin: with ``--spin``, else None.
        derived: what copies take of a run of ``cpu`` and ``cpu-pinned``.
        measured: with ``--measure-copies``, of ``cpu``, ``device`` and ``host-accessible``.
        once: of ``device-resident``.
        memory: with ``--memory``, of a mode that is ok, else None.
        energy: with ``--energy`` where the mode was measured, else None.
        pipeline: of ``pipelined``, else None.
        fence: what ends its samples.
        samples_ns: raw samples by phase, in the order taken.
        thinned: of a soak run whose samples would be too many, else None: the blocks of which rounds were kept, and how
            many samples were taken. Every statistic is of those that are kept.
        left_out: what was measured while the card was held back, where that is left out of the figures (``throttled`` of the
            result says so), else None. It is not among ``samples_ns`` and ``blocks``.
        steps_ns: of a loop, the median of each step, ns; None without samples.
        state_bytes_in, state_bytes_out: of a loop, what is copied to and from the device in a step because of the state, bytes:
            a list by step where it grows; None where not known.
        step_bytes_in, step_bytes_out: the same of all that is copied. ``bytes_in`` and ``bytes_out`` are of a whole loop then,
            and so is ``total``, which stands under ``loop`` too; ``step`` are all steps of all loops.
        stages: of a chain, statistics of each stage by its name. ``bytes_in``, ``bytes_out`` and ``total``, which stands under
            ``chain`` too, are of a whole chain; ``samples_ns`` has all stages of all chains under ``stage``.
        stage_bytes: of a chain, what each stage copies to and from the device, by its name.
        blocks: by phase, a list of ``[round, n, start_ns]``: the blocks the samples came in, start on the worker's
            monotonic clock.
    """

    mode: str
    status: str = OK
    reason: str | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    places: Places | None = None
    outputs_match: bool | None = None
    zero_copy: ZeroCopy | None = None
    external: External | None = None
    graph: Graph | None = None
    runs_per_sample: int | None = None
    vs_cpu: Ratio | None = None
    throughput: Throughput | None = None
    phases: dict[str, Stats | None] = field(default_factory=lambda: dict.fromkeys(PHASE_NAMES))
    host: HostTime | None = None
    spin: Spin | None = None
    derived: Derived | None = None
    measured: Measured | None = None
    once: Once | None = None
    memory: CaseMemory | None = None
    energy: Energy | None = None
    pipeline: Pipeline | None = None
    fence: CaseFence | None = None
    samples_ns: dict[str, list[int]] = field(default_factory=dict)
    blocks: dict[str, list[list[int]]] = field(default_factory=dict)
    thinned: Thinned | None = None
    left_out: LeftOut | None = None
    steps_ns: list[int] | None = None
    state_bytes_in: int | list[int] | None = None
    state_bytes_out: int | list[int] | None = None
    step_bytes_in: int | list[int] | None = None
    step_bytes_out: int | list[int] | None = None
    stages: dict[str, Stats] | None = None
    stage_bytes: dict[str, StageBytes] | None = None

    @property
    def whole(self) -> str:
        """What its total is of: ``loop``, ``chain``, or ``total`` where it is an inference."""
        return next((whole for whole in (WHOLE_LOOP, WHOLE_CHAIN) if whole in self.phases), TOTAL)

    def stats(self, phase: str) -> Stats | None:
        """The statistics of a phase, or of a stage under ``stage.NAME``; None without any."""
        stage = stage_in(phase)
        return self.phases.get(phase) if stage is None else (self.stages or {}).get(stage)

    def median(self, phase: str) -> int | None:
        """The median of a phase in ns, or None; see `stats`."""
        stats = self.stats(phase)
        return None if stats is None else stats.median_ns

    def copies_nothing(self, phase: str) -> bool:
        """Whether a phase is a copy of no bytes, which is none."""
        return {"upload": self.bytes_in, "download": self.bytes_out}.get(phase) == 0

    def copy_ns(self) -> int | None:
        """What upload and download take in sum, ns, by their medians; None where one that there is was not timed."""
        ways = ("upload", "download")
        medians = [median for way in ways if (median := self.median(way)) is not None or not self.copies_nothing(way)]
        return None if None in medians or not medians else sum(median for median in medians if median is not None)

    def inferences(self, phase: str) -> int:
        """How many inferences one timed call of a phase makes, whose time was divided by so many for a sample."""
        return self.runs_per_sample or 1 if phase == "total" else 1


@dataclass
class Point:
    """A shape of a sweep.

    Attributes:
        name: what it is called: ``batch=8``.
        shape: sizes of the model's dimensions, by their names.
        data: the set of real inputs, or None.
        inputs, outputs: as of a model; none where the shape did not run.
        items: how many it has, None where nobody says so.
        first_run_ns: its first run in the session, with what is planned and tuned for a new shape; None where it did not run.
        cases: one a mode.
    """

    name: str
    shape: dict[str, int]
    data: str | None = None
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    items: Items | None = None
    first_run_ns: int | None = None
    cases: list[Case] = field(default_factory=list)

    def case(self, mode: str) -> Case | None:
        """The case of a mode if it is ok, else None."""
        return next((case for case in self.cases if case.mode == mode and case.status == OK), None)


def empty() -> Any:
    """A part of a result that is not known yet: its type is that of the part."""
    return {}


@dataclass
class Result:
    """One run. Its parts are empty until the model is open; without it a result is neither saved nor read."""

    tool: Tool
    created: str
    command: list[str]
    environment: Environment = field(default_factory=empty)
    model: Model = field(default_factory=empty)
    target: Target = field(default_factory=empty)
    placement: Placement = field(default_factory=empty)
    setup: Setup = field(default_factory=empty)
    stopped: str | None = None
    took_ns: int | None = None
    warnings: list[Warned] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    nodes: Nodes | None = None
    link: Link | None = None
    note: str | None = None
    name: str | None = None
    items: Items | None = None
    throttled: Throttled | None = None
    kind: str | None = None
    loop: Loop | None = None
    chain: Chain | None = None
    load: LoadSetup | None = None
    levels: list[Level] = field(default_factory=list)
    knee: dict[str, Knee | None] | None = None
    slo: Slo | None = None
    back_to_back: dict[str, BackToBack] | None = None
    sweep: Sweep | None = None
    points: list[Point] | None = None
    switching: list[Switching] | None = None
    best: Best | None = None
    schema_version: int = SCHEMA_VERSION

    def case(self, mode: str) -> Case | None:
        """The case of a mode if it is ok, else None."""
        return next((case for case in self.cases if case.mode == mode and case.status == OK), None)

    @property
    def all_cases(self) -> list[Case]:
        """Its cases, also those of a sweep's shapes."""
        return [*self.cases, *(case for point in self.points or [] for case in point.cases)]

    def warn(self, code: str, message: str) -> None:
        """Add a warning unless it is there already."""
        warning: Warned = {"code": code, "message": message}
        if warning not in self.warnings:
            self.warnings.append(warning)


def work_of(result: Result) -> Work:
    """What one sample of a result is of."""
    stages = None if result.chain is None else tuple(stage["name"] for stage in result.chain["stages"])
    return Work(None if result.loop is None else result.loop["steps"], stages)


def result_json(result: Result) -> str:
    """The result file's text."""
    text = {"schema_version": result.schema_version, **vars(result)}
    parts = {"loop": _OF_LOOP, "chain": _OF_CHAIN, "load": _OF_LOAD, "points": _OF_SWEEP}
    kept = set[str]().union(*(keys for part, keys in parts.items() if text[part] is not None))
    absent = set[str]().union(*parts.values()) - kept  # what only a loop, a chain, a load or a sweep has
    text = {key: value for key, value in text.items() if key not in absent}

    def cases_of(cases: list[Case]) -> list[dict[str, object]]:
        return [{key: value for key, value in vars(case).items() if key not in absent} for case in cases]

    text["cases"] = cases_of(result.cases)
    if result.points is not None:
        text["points"] = [{**vars(point), "cases": cases_of(point.cases)} for point in result.points]
    return json_text(text)


def json_text(data: Mapping[str, object]) -> str:
    """Data as a file's text: indented, with lists of numbers on one line each; a dataclass is its attributes."""
    folded: list[str] = []
    mark = urandom(16).hex()  # which no text of the data is

    def fold(value: Any) -> Any:
        if is_dataclass(value):
            value = vars(value)
        if isinstance(value, dict):
            return {key: fold(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            # By the types that there are: asking each of 200,000 samples for its own takes as long as writing them.
            if value and all(issubclass(it, (int, float)) for it in set(map(type, value))):
                folded.append(json.dumps(value, allow_nan=False))
                return f"{mark}{len(folded) - 1}"
            return [fold(item) for item in value]
        return value

    text = json.dumps(fold(data), indent=2, ensure_ascii=False, allow_nan=False)
    return re.sub(rf'"{mark}(\d+)"', lambda match: folded[int(match[1])], text) + "\n"


def save(result: Result, path: Path) -> None:
    """Write the result file so that a reader never sees half of it.

    Raises:
        OSError: the folder cannot be written.
    """
    write_atomically(path, result_json(result))


def read_json(path: Path, kind: str) -> Any:
    """What a JSON file holds, every text of it `ortbench.characters.printable`: it may have been edited by hand.

    Args:
        path: of the file.
        kind: what it should be, for messages.

    Raises:
        BadInput: it cannot be read, or is not JSON.
    """
    try:
        return parse_json(path.read_bytes(), str(path), kind)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None


def parse_json(content: bytes, name: str, kind: str) -> Any:
    """What the content of a JSON file holds, see `read_json`; `name` is what messages call it."""
    try:
        return _printable(json.loads(content.decode("utf-8")))
    except (ValueError, RecursionError):
        raise BadInput(f"{name} is not a {kind}: it is not JSON") from None


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [item if isinstance(item, int) else _printable(item) for item in value]  # samples are many
    if isinstance(value, dict):
        return {printable(key): _printable(item) for key, item in value.items()}
    return value


def load(path: Path) -> Result:
    """Read a result file.

    Raises:
        BadInput: it cannot be read, is not JSON, or is not a whole result.
        NotComparable: its schema is not one that this version knows.
    """
    return _checked(read_json(path, _KIND), str(path))


def parse(content: bytes, name: str) -> Result:
    """A result from the content of its file, see `load`; `name` is what messages call it."""
    return _checked(parse_json(content, name, _KIND), name)


_KIND = "result file"


def _checked(data: Any, path: str) -> Result:
    """A result from what its file holds."""
    if not isinstance(data, dict) or "schema_version" not in data:
        raise BadInput(f"{path} is not a result file of ortbench: it has no schema_version")
    if data.get("kind") == "profile":
        raise BadInput(f"{path} is a profiled session: its times are for a timeline, not for comparisons")
    if data["schema_version"] != SCHEMA_VERSION:
        raise NotComparable(f"{path} has schema {data['schema_version']}; this ortbench reads schema {SCHEMA_VERSION}")
    try:
        return from_dict(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{path} is not a whole result file: {error!r}") from None


# What reports and comparisons rely on.
_NEEDED = {
    "environment": ("onnxruntime", "cpu", "gpus"),
    "model": ("path", "sha256", "inputs", "outputs"),
    "target": ("ep", "device", "memory", "fence", "ep_options"),
    "placement": ("nodes", "memcpy_nodes"),
}


def from_dict(data: Mapping[str, Any]) -> Result:
    """The inverse of `dataclasses.asdict` for `Result`; unknown keys are ignored.

    Raises:
        KeyError, TypeError: a required key is missing or has the wrong form.
    """
    cases = [_case_from(case) for case in data["cases"]]
    known = {key: data[key] for key in Result.__dataclass_fields__ if key in data}
    if data.get("points") is not None:
        known["points"] = [_point_from(point) for point in data["points"]]
    for part, keys in _NEEDED.items():
        for key in keys:
            data[part][key]
    return Result(**{**known, "cases": cases})


def _point_from(data: Mapping[str, Any]) -> Point:
    known = {key: data[key] for key in Point.__dataclass_fields__ if key in data}
    return Point(**{**known, "cases": [_case_from(case) for case in data["cases"]]})


def _case_from(data: Mapping[str, Any]) -> Case:
    names = (*PHASE_NAMES, *(name for name in (*LOOP_PHASES, WHOLE_CHAIN, *COSTS) if name in data["phases"]))
    phases = {name: None if data["phases"][name] is None else _stats_from(data["phases"][name]) for name in names}
    known = {key: data[key] for key in Case.__dataclass_fields__ if key in data}
    stages = known.get("stages")
    if stages is not None:
        known["stages"] = {name: _stats_from(stats) for name, stats in stages.items()}
        phases[WHOLE_CHAIN] = phases[TOTAL]  # where an earlier version left it out
    return Case(**{**known, "phases": phases})


def _stats_from(data: Mapping[str, Any]) -> Stats:
    low, high = data["ci95_ns"]
    known = {key: data[key] for key in Stats.__dataclass_fields__ if key in data}
    return Stats(**{**known, "ci95_ns": (low, high)})


def not_ok(cases: Iterable[Case]) -> Iterator[tuple[str, str, str | None]]:
    """Modes that are not ok, with their status and its reason; those of one reason together, as ``device, cpu``."""
    found: dict[tuple[str, str | None], list[str]] = {}
    for case in cases:
        if case.status != OK:
            found.setdefault((case.status, case.reason), []).append(case.mode)
    return ((", ".join(modes), *why) for why, modes in found.items())
