"""The report of a profiled session: what ortbench timed beside what Nsight Systems recorded."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ortbench.analysis.intervals import blocks
from ortbench.core import units
from ortbench.features.profile.analysis import (
    APART,
    DOWN,
    UP,
    Profile,
    Range,
    Recording,
    phases,
)
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import Result, work_of
from ortbench.report import model
from ortbench.report.phrases import heading, not_measured, remark, warnings

_COLUMNS = (
    model.Column("phase", model.Kind.NAME, model.KEY),
    model.Column("samples"),
    model.Column("ortbench", model.Kind.TIME),
)
_RANGE = model.Column("range", model.Kind.TIME)
_GPU = model.columns(model.Kind.TIME, "H2D", "D2H", "kernels", group=2)


def build(profile: Profile, folder: str | None = None, remarks: Sequence[str] = ()) -> model.Report:
    """The report of a profiled session, with what Nsight Systems recorded where it did; `remarks` are of this time, and not saved."""
    session, table = profile.session, phase_table(profile)
    about = "Medians of a short session, not for comparisons"
    if profile.recording is not None:
        about = "Medians of a profiled session, for the timeline and not for comparisons; range: of the NVTX ranges; copies and kernels: of one inference, by the GPU's clock"
    last: list[model.Block] = [
        model.Notes([*not_measured(session), *map(model.Note, nsight_says(profile)), *warnings(session)]),
        model.Notes([*map(remark, remarks)], media=model.TERMINAL),
        model.Paragraph(f"{about}.", media=model.TERMINAL),
        model.Paragraph("Times of a profiled session: for the timeline, not for comparisons.", media=model.MARKDOWN),
        model.SavedIn(folder),
    ]
    measured: list[Sequence[model.Block]] = [[table]] if table.rows else []
    return model.Report(
        f"ortbench profile: {session.model['path']}", [[model.Heading(heading(session))], *measured, last]
    )


def phase_table(profile: Profile) -> model.Table:
    """What ortbench timed beside what Nsight Systems recorded: a row a phase, times and sizes of one run."""
    session, recording = profile.session, profile.recording
    medians = [stats.median for _, case, phase in phases(session) if (stats := case.stats(phase))]
    unit, scale = units.time_unit(max(medians, default=1))
    gpu = recording is not None and recording.gpu is not None
    rows = []
    for name, case, phase in phases(session):
        stats = case.stats(phase)
        assert stats is not None
        cells = [name, str(stats.n), units.digits(stats.median / scale)]
        if recording is not None:
            cells += _range_cells(recording.ranges.get(name), case.inferences(phase), scale)[: 4 if gpu else 1]
        rows.append(tuple(cells))
    return model.Table((*_COLUMNS, *((_RANGE,) if recording else ()), *(_GPU if gpu else ())), tuple(rows), unit)


def _range_cells(found: Range | None, each: int, scale: float) -> list[str]:
    """What is known of the ranges of a phase, per inference, of which there are `each` in one range."""
    if found is None:
        return [model.NOTHING] * 4
    n = len(found.durations_ns) * each
    return [
        units.digits(median(found.durations_ns) / each / scale),
        *(
            f"{units.digits(copies.time_ns / n / scale)} ({units.size(copies.size / n)})"
            if copies is not None
            else model.NOTHING
            for copies in map(found.copies_of, (UP, DOWN))
        ),
        units.digits(found.kernels_ns / n / scale) if found.kernels else model.NOTHING,
    ]


def nsight_says(profile: Profile) -> list[str]:
    """What Nsight's figures say of ortbench's."""
    recording = profile.recording
    if recording is None:
        return []
    if not recording.ranges:
        return [
            "Nsight Systems recorded no range of domain ortbench: its version may be older than what the nvtx package "
            "needs, or the session was over before it listened."
        ]
    said = [*_agreement(profile, recording), *_copy_share(profile.session, recording)]
    nothing = "No CUDA work was recorded: the ranges are all that Nsight Systems has of this EP."
    return said if recording.gpu is not None else [*said, nothing]


def _agreement(profile: Profile, recording: Recording) -> list[str]:
    """How the ranges and the samples, which are of the same calls, compare in sum."""
    worst, where, missing = 0.0, "", []
    for name, case, phase in phases(profile.session):
        timed = [ns for _, block in blocks(case, phase) for ns in block]
        found = recording.ranges.get(name)
        if found is None or len(found.durations_ns) != len(timed):
            missing.append(name)
            continue
        off = abs(sum(found.durations_ns) / max(sum(timed) * case.inferences(phase), 1) - 1)
        if off >= worst:
            worst, where = off, name
    if missing:
        return [f"Nsight Systems has fewer ranges than ortbench has samples of {', '.join(missing)}."]
    if not where:
        return []
    how = "agree" if worst < APART else "differ"
    return [f"Nsight's ranges and ortbench's samples {how}: at most {worst:.1%} apart in sum ({where})."]


def _copy_share(session: Result, recording: Recording) -> list[str]:
    """What a run, loop or chain with CPU tensors spends on copies by the GPU's own clock."""
    whole = work_of(session).whole
    what, found = "an inference" if whole == LATENCY else f"a {whole}", recording.ranges.get(f"{CPU}/{whole}")
    if found is None or recording.gpu is None:
        return []
    moved = [copies for copies in (found.copies_of(UP), found.copies_of(DOWN)) if copies is not None]
    if not moved:
        return [f"Nsight recorded no copies inside {what} with {CPU}."]
    n, spent = len(found.durations_ns), sum(copies.time_ns for copies in moved)
    parts = []
    for copies in moved:
        memory = f", {copies.memory.lower()} memory" if copies.memory else ""
        each = (
            f"{units.size(copies.size / n)} in {copies.count / n:g} {'copy' if copies.count == n else 'copies'}{memory}"
        )
        parts.append(f"{copies.kind} {units.duration(copies.time_ns / n)} ({each})")
    share = spent / max(sum(found.durations_ns), 1)
    return [f"Copies take {share:.0%} of {what} with {CPU}, by the GPU's clock: {', '.join(parts)}."]
