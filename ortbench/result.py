"""The result file: what one run found, as other programs read it.

Schema 1. Keys change only with `SCHEMA_VERSION`; readers may meet keys they do not know.

Top level: ``schema_version``, ``tool`` (name, version), ``created`` (UTC, ISO 8601), ``command``, ``environment``,
``model`` (path, sha256, inputs, outputs), ``target`` (ep, device, memory, fence, ep_options, …: see below),
``placement`` (nodes per EP, memcpy_nodes), ``setup`` (session_ns, first_run_ns, seed, run_id: results of one run, whose
blocks alternated, share it; engine_cache: with ``--engine-cache`` its path and whether it was warm, the engine there
before, else null),
``stopped``, ``warnings`` (code, message), ``cases``, ``nodes`` (null without ``--nodes``) and ``link``, null where no
bandwidth sweep of the same device was found: ``from``, ``created``, ``memory`` (the host's side of the copies), ``upload``
and ``download`` (``[bytes, ns]`` of each size), ``peak`` (by direction: gbps, bytes, memory), and ``shares``: see
`ortbench.analysis.link`.

``nodes`` is what ONNX Runtime's profile of some runs after the measurement says. Its times are the host's, profiling has
slowed them, and on an EP that works asynchronously a node's time is that of its launch: they are shares and hints, and
nothing of them is in any case. Medians over the runs: ``ns`` in a run, ``share`` of a run.

- ``runs``: how many; ``run_ns``: one of them; ``outside_ns``: what of a run is in no node.
- ``operators``: ``op``, ``ep``, ``nodes`` (how many), ``ns``, ``share``; ``compiled graph`` is the op of what an EP compiled.
- ``eps``: ``ep``, ``nodes``, ``ns``, ``share``. The ep is null for Memcpy nodes, which are between EPs.
- ``memcpy``: the Memcpy nodes: ``name``, ``direction`` (``to host``, ``from host``), ``tensor``, ``type`` (such as
  ``float[8,4]``), ``bytes``, ``ns``, ``forced_by`` (a list of ``name``, ``op``, ``ep``), ``island`` (an index); null is not
  known.
- ``islands``: nodes on the CPU that hang together: ``nodes`` (``name``, ``op``, ``reads``, ``ns``), ``position``
  (``start``, ``end``, ``middle``, ``apart``; see `ortbench.analysis.islands.position`), ``node_ns``, ``to_host`` and ``from_host``
  (Memcpy nodes that it forces), ``bytes`` and ``memcpy_ns`` of these, ``ns`` of both, ``share``. Where an EP compiles, a
  node that ONNX Runtime made of several on the CPU may be in no island, only in ``operators``.
- ``problem``: why tensors, ``forced_by`` and islands are not known, else null.

Of ``target``: ``policy``: where ONNX Runtime chose the EP, what by (``PREFER_GPU`` …, else null; ``ep`` and ``device`` are
what it chose, read from the session); ``dynamic_outputs``: ONNX Runtime allocated the outputs of ``device``, ``device-resident`` and
``device-pinned`` in each run (false: they were bound preallocated); ``external``: the library in whose memory the inputs of ``device`` and
``device-resident`` were, or null; ``cuda_graph``: runs were captured and replayed where a case has a ``graph``;
``stream``: what made the stream that the EP's kernels ran on, or null for the EP's own.

A case is one mode: see `Case`. Durations are integer nanoseconds, sizes bytes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from ortbench.characters import printable
from ortbench.errors import BadInput, NotComparable
from ortbench.files import write_atomically
from ortbench.stats import Stats

SCHEMA_VERSION = 1
PHASE_NAMES = ("upload", "inference", "download", "total")

OK, UNSUPPORTED, FAILED = "ok", "unsupported", "failed"


@dataclass
class Case:
    """What one mode gave.

    Attributes:
        mode: its name.
        status: ``ok``, ``unsupported`` or ``failed``.
        reason: why not ok, else None.
        bytes_in, bytes_out: copied to and from the device per run, bytes; None where not known.
        outputs_match: whether the outputs are those of the other modes (and of ``--expect``); None if not compared.
        zero_copy: ``{proved, how, addresses}`` for ``host-accessible`` (addresses: those that were bound are used); else None.
        external: with ``--external`` ``{library, place, proved, how}``: whether runs read the library's own memory; else None.
        graph: with ``--cuda-graph`` ``{id, proved, how}`` where a graph was captured and replayed: whether a replay reads
            inputs that were written in place; else None.
        runs_per_sample: for ``pipelined`` (its depth) and ``device-resident-async`` (the runs before one wait): how many
            runs one call makes. ``total`` is the time per run, which is throughput and not latency: each sample is that of
            so many runs, divided by their number. Else None.
        vs_cpu: ``{ratio, ci95}``: how many times as fast as mode ``cpu`` (above 1 is faster), over paired blocks.
        phases: ``upload``, ``inference``, ``download``, ``total``: statistics, or None where the mode has no such phase.
        derived: ``{copies_ns, inference_ns}`` for ``cpu`` and ``cpu-pinned``: differences of medians, not measurements.
        measured: with ``--measure-copies``, for ``cpu``, ``device`` and ``host-accessible``: what NVIDIA's CUPTI recorded in ``runs`` runs of
            their own after the measurement, medians of one run by the GPU's clock: ``upload`` and ``download`` (``n``,
            ``bytes``, ``ns``, ``memory``: the host's side, such as ``pageable``), ``kernels_ns``; and ``run_ns``, one of
            those runs.
        once: ``{upload_ns, download_ns}`` for ``device-resident``: the copies before and after all its runs.
        pipeline: for ``pipelined``: ``{depth, items, distinct, host_memory, copies_ns, hidden_ns, hidden_share,
            hidden_ci95, vs_device}``; else None. ``depth`` inferences are in flight, and each
            sample is a round of as many items. ``items`` come in turns, ``distinct`` of them with inputs of their own, from ``host_memory``. What
            is hidden is derived, see `ortbench.analysis.hidden_copies.hidden`; ``vs_device`` is as ``vs_cpu``, against ``device``.
        fence: ``{kind, cost_ns, how, upload, download}``: what ends its samples; ``upload`` and ``download``: what ends
            these, as ``{kind, cost_ns, how}``, or null where the copy waits by its nature.
        samples_ns: raw samples by phase, in the order taken.
        blocks: by phase, a list of ``[round, n, start_ns]``: the blocks the samples came in, start on the worker's
            monotonic clock.
    """

    mode: str
    status: str = OK
    reason: str | None = None
    bytes_in: int | None = None
    bytes_out: int | None = None
    outputs_match: bool | None = None
    zero_copy: dict[str, Any] | None = None
    external: dict[str, Any] | None = None
    graph: dict[str, Any] | None = None
    runs_per_sample: int | None = None
    vs_cpu: dict[str, Any] | None = None
    phases: dict[str, Stats | None] = field(default_factory=lambda: dict.fromkeys(PHASE_NAMES))
    derived: dict[str, int] | None = None
    measured: dict[str, Any] | None = None
    once: dict[str, int] | None = None
    pipeline: dict[str, Any] | None = None
    fence: dict[str, Any] | None = None
    samples_ns: dict[str, list[int]] = field(default_factory=dict)
    blocks: dict[str, list[list[int]]] = field(default_factory=dict)

    def median(self, phase: str) -> int | None:
        """The median of a phase in ns, or None."""
        stats = self.phases.get(phase)
        return None if stats is None else stats.median_ns

    def inferences(self, phase: str) -> int:
        """How many inferences one timed call of a phase makes, whose time was divided by so many for a sample."""
        return self.runs_per_sample or 1 if phase == "total" else 1


@dataclass
class Result:
    """One run: see the module's text for the meaning of each key."""

    tool: dict[str, str]
    created: str
    command: list[str]
    environment: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    target: dict[str, Any] = field(default_factory=dict)
    placement: dict[str, Any] = field(default_factory=dict)
    setup: dict[str, Any] = field(default_factory=dict)
    stopped: str | None = None
    warnings: list[dict[str, str]] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    nodes: dict[str, Any] | None = None
    link: dict[str, Any] | None = None
    schema_version: int = SCHEMA_VERSION

    def case(self, mode: str) -> Case | None:
        """The case of a mode if it is ok, else None."""
        return next((case for case in self.cases if case.mode == mode and case.status == OK), None)

    def warn(self, code: str, message: str) -> None:
        """Add a warning unless it is there already."""
        warning = {"code": code, "message": message}
        if warning not in self.warnings:
            self.warnings.append(warning)


def result_json(result: Result) -> str:
    """The result file's text."""
    return json_text({"schema_version": result.schema_version, **vars(result)})


def json_text(data: dict[str, Any]) -> str:
    """Data as a file's text: indented, with lists of numbers on one line each; a dataclass is its attributes."""
    folded: list[str] = []

    def fold(value: Any) -> Any:
        if is_dataclass(value):
            value = vars(value)
        if isinstance(value, dict):
            return {key: fold(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            if value and all(isinstance(item, (int, float)) for item in value):
                folded.append(json.dumps(value, allow_nan=False))
                return f"\0{len(folded) - 1}"
            return [fold(item) for item in value]
        return value

    text = json.dumps(fold(data), indent=2, ensure_ascii=False, allow_nan=False)
    return re.sub(r'"\\u0000(\d+)"', lambda match: folded[int(match[1])], text) + "\n"


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
        return _printable(json.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise BadInput(f"{path} is not a {kind}: it is not JSON") from None


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
    data = read_json(path, "result file")
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


def from_dict(data: dict[str, Any]) -> Result:
    """The inverse of `dataclasses.asdict` for `Result`; unknown keys are ignored.

    Raises:
        KeyError, TypeError: a required key is missing or has the wrong form.
    """
    cases = [_case_from(case) for case in data["cases"]]
    known = {key: data[key] for key in Result.__dataclass_fields__ if key in data}
    for part, keys in _NEEDED.items():
        for key in keys:
            data[part][key]
    return Result(**{**known, "cases": cases})


def _case_from(data: dict[str, Any]) -> Case:
    phases = {name: None if data["phases"][name] is None else _stats_from(data["phases"][name]) for name in PHASE_NAMES}
    known = {key: data[key] for key in Case.__dataclass_fields__ if key in data}
    return Case(**{**known, "phases": phases})


def _stats_from(data: dict[str, Any]) -> Stats:
    low, high = data["ci95_ns"]
    known = {key: data[key] for key in Stats.__dataclass_fields__ if key in data}
    return Stats(**{**known, "ci95_ns": (low, high)})
