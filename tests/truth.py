"""Holding a result against the reference device's own trace.

The trace is on the same clock as ortbench's samples, so each sample can be matched with what the device did in it. The
truth of a sample is the span from when the first thing the trace has of it was asked for to the end of the last: copies,
inference, memory that a run allocates and frees, and the run as the EP sees it. What started or ran late on a busy machine
is in the trace too, so lateness of the device never counts as an error.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from ortbench.measure.schedule import dropped
from ortbench.modes import PIPELINED
from ortbench.result import Case, Result, load
from tests.conftest import ROOT
from tests.refdevice import KINDS, Config, Events, Trace, late_ns

NUMBER = {name: number for number, name in KINDS.items()}
COPIES = ("upload", "download", "ha-copy")
SIZES_AND_COMPUTE_US = [(1 << 16, 100), (1 << 16, 50_000), (1 << 20, 10_000), (1 << 24, 5_000), (1 << 26, 20_000)]


def relu_model(path: Path, size: int) -> Path:
    """A Relu over `size` bytes of float32: as many go in as come out."""
    text = (
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[{size // 4}] x) => (float[{size // 4}] y) {{ y = Relu(x) }}'
    )
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def run_on_device(
    library: Path, model: Path, config: Config, folder: Path, *arguments: object
) -> tuple[int, Result, str, str]:
    """`ortbench run` on the reference device: exit code, result, stdout, stderr."""
    out = folder / "out"
    line = [sys.executable, "-m", "ortbench", "run", model, "--ep-library", library, "--out", out, *arguments]
    done = subprocess.run(
        list(map(str, line)),
        cwd=ROOT,
        env={**os.environ, **config.environ()},
        capture_output=True,
        text=True,
        timeout=600,
    )
    (result,) = out.glob("*/result.json")
    return done.returncode, load(result), done.stdout, done.stderr


@dataclass(frozen=True)
class Check:
    """A reported median against the truth, in ns; `late` is how much the device itself ran late (90th percentile)."""

    mode: str
    phase: str
    reported: int
    true: int
    late: int

    @property
    def error(self) -> int:
        """How far the report is off."""
        return self.reported - self.true

    @property
    def allowed(self) -> float:
        """1 % or 20 µs, whichever is larger."""
        return max(self.true * 0.01, 20_000)


def checks(result: Result, trace: Trace) -> list[Check]:
    """Every median that was measured, with what the trace says it was."""
    found = []
    for case in result.cases:
        for phase, samples in case.samples_ns.items():
            members = recorded(result, case, phase, trace)
            assert len(members) == len(samples), (case.mode, phase, len(members), len(samples))
            late = np.percentile(np.concatenate([late_ns(work_of(events)) for events in members]), 90)
            spans = [int(events["end_ns"].max() - events["queued_ns"].min()) for events in members]
            found.append(Check(case.mode, phase, round(median(samples)), round(median(spans)), max(0, round(late))))
    return found


def is_kind(events: Events, *kinds: str) -> npt.NDArray[np.bool_]:
    """Which events are of these kinds."""
    return np.isin(events["kind"], [NUMBER[kind] for kind in kinds])


def work_of(events: Events) -> Events:
    """Those that occupy the device: copies and inference."""
    chosen: Events = events[is_kind(events, "inference", *COPIES)]
    return chosen


def iterations(result: Result, case: Case, phase: str, block: int, trace: Trace) -> list[Events]:
    """What the device did in each iteration of a block, those that are not recorded included."""
    _, n, start = case.blocks[phase][block]
    count = n + dropped(n)
    starts = sorted(at for other in result.cases for blocks in other.blocks.values() for _, _, at in blocks)
    stop = next((at for at in starts if at > start), np.iinfo(np.int64).max)
    events = trace.of("inference", "run", "alloc", "free", *COPIES)
    events = events[(events["queued_ns"] >= start) & (events["queued_ns"] < stop)]
    events = events[np.argsort(events["queued_ns"], kind="stable")]
    if phase in ("upload", "download"):
        copies = events[is_kind(events, phase)]
        each = len(result.model["inputs" if phase == "upload" else "outputs"])
        return [copies[number * each : (number + 1) * each] for number in range(count)]
    # An iteration begins with its upload or, where it has none or copies inside the run, with its run.
    opening = events["queued_ns"][is_kind(events, "upload", "run")]
    begins, done = [], start
    for inference in events[is_kind(events, "inference")][:count]:
        begins.append(int(opening[opening >= done].min()))
        done = int(inference["end_ns"])
    ends = [*begins[1:], min([stop, *(int(at) for at in opening[opening >= done][:1])])]
    return [events[(events["queued_ns"] >= a) & (events["queued_ns"] < b)] for a, b in zip(begins, ends, strict=True)]


def recorded(result: Result, case: Case, phase: str, trace: Trace) -> list[Events]:
    """The events of each recorded sample of a phase."""
    found = []
    for number, (_, n, _) in enumerate(case.blocks[phase]):
        found += iterations(result, case, phase, number, trace)[dropped(n) :]
    return found


def summary(items: list[Check]) -> dict[str, Any]:
    """For a message when a check fails."""
    return {f"{item.mode}/{item.phase}": (item.reported, item.true, item.error, item.late) for item in items}


# The pipeline

Span = tuple[int, int]


def rounds(result: Result, trace: Trace) -> list[Span]:
    """When each recorded sample of `pipelined` was, from the end of the last inference before it to that of its own."""
    inferences = np.sort(trace.of("inference"), order="end_ns")
    return rounds_of(result, inferences["queued_ns"], inferences["end_ns"])


def rounds_of(result: Result, begins: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> list[Span]:
    """The same of inferences that began and ended at these times, in that order."""
    case = next(case for case in result.cases if case.mode == PIPELINED)
    assert case.pipeline is not None
    depth, found = case.pipeline["depth"], []
    for _, n, start in case.blocks["total"]:
        skipped = dropped(n) * depth
        after = ends[begins >= start][skipped - 1 : skipped + n * depth : depth]
        found += list(zip(map(int, after), map(int, after[1:]), strict=False))
    return found


def hidden_share(trace: Trace, span: Span) -> float:
    """The share of the copy time in a span of time that was hidden: that is not time in which copies were all there was.

    Copies that go on beside each other count each, and what they share of the clock is hidden as if behind an inference.
    """
    return share_hidden(*(_within(trace.of(*kinds), span) for kinds in (("upload", "download"), ("inference",))))


def share_hidden(copies: list[Span], inferences: list[Span]) -> float:
    """The same of copies and inferences that each began and ended at these times."""
    alone = _length(copies + inferences) - _length(inferences)
    return 1 - alone / sum(end - start for start, end in copies)


def _within(events: Events, span: Span) -> list[Span]:
    starts, ends = (np.clip(events[key], *span) for key in ("start_ns", "end_ns"))
    return [(int(start), int(end)) for start, end in zip(starts, ends, strict=True) if start < end]


def _length(spans: list[Span]) -> int:
    """How much of the clock is covered by at least one of them."""
    length, until = 0, 0
    for start, end in sorted(spans):
        length += max(0, end - max(start, until))
        until = max(until, end)
    return length
