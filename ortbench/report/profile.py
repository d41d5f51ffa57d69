"""A profiled session as a table: what ortbench timed beside what Nsight Systems recorded."""

from __future__ import annotations

from statistics import median

from ortbench import units
from ortbench.analysis.nsight import APART, DOWN, UP, Copies, Profile, Range, Recording, phases
from ortbench.modes import CPU, TOTAL
from ortbench.report.table import NOTHING, Table, table_markdown
from ortbench.result import OK

RANGE_COLUMNS = ("phase", "runs", "ortbench", "range")


GPU_COLUMNS = ("to device", "to host", "kernels")


def build(profile: Profile) -> tuple[Table, str]:
    """The table phase by phase, times and sizes of one run, and the unit of the times."""
    session, recording = profile.session, profile.recording
    medians = [stats.median_ns for case, phase in phases(session) if (stats := case.phases[phase])]
    unit, scale = units.time_unit(min(medians, default=1))
    gpu = recording is not None and recording.gpu is not None
    columns = RANGE_COLUMNS[: 4 if recording else 3] + (GPU_COLUMNS if gpu else ())
    rows = []
    for case, phase in phases(session):
        name, stats = f"{case.mode}/{phase}", case.phases[phase]
        assert stats is not None
        cells = [name, str(stats.n), units.digits(stats.median_ns / scale)]
        if recording is not None:
            cells += _range_cells(recording.ranges.get(name), case.inferences(phase), scale, gpu)
        rows.append(tuple(cells))
    notes = tuple(f"{case.mode}: {case.status}: {case.reason}" for case in session.cases if case.status != OK)
    return Table(columns, tuple(rows), notes), unit


def _range_cells(found: Range | None, each: int, scale: float, gpu: bool) -> list[str]:
    """What is known of the ranges of a phase, per inference, of which there are `each` in one range."""
    if found is None:
        return [NOTHING] * (4 if gpu else 1)
    n = len(found.durations_ns) * each
    cells = [units.digits(median(found.durations_ns) / each / scale)]
    if gpu:
        cells += [_copies_cell(found.copied(kind), n, scale) for kind in (UP, DOWN)]
        cells += [units.digits(found.kernels_ns / n / scale) if found.kernels else NOTHING]
    return cells


def _copies_cell(copies: Copies | None, runs: int, scale: float) -> str:
    if copies is None:
        return NOTHING
    return f"{units.digits(copies.time_ns / runs / scale)} ({units.size(copies.size / runs)})"


def sentences(profile: Profile) -> list[str]:
    """What Nsight's figures say of ortbench's."""
    recording = profile.recording
    if recording is None:
        return []
    if not recording.ranges:
        return [
            "Nsight Systems recorded no range of domain ortbench: its version may be older than what the nvtx package "
            "needs, or the session was over before it listened."
        ]
    return [*_agreement(profile, recording), *_copy_share(recording), *_totals(recording)]


def _agreement(profile: Profile, recording: Recording) -> list[str]:
    """How the ranges and the samples, which are of the same calls, compare in sum."""
    worst, where, missing = 0.0, "", []
    for case, phase in phases(profile.session):
        name, samples = f"{case.mode}/{phase}", case.samples_ns[phase]
        found = recording.ranges.get(name)
        if found is None or len(found.durations_ns) != len(samples):
            missing.append(name)
            continue
        off = abs(sum(found.durations_ns) / max(sum(samples) * case.inferences(phase), 1) - 1)
        if off >= worst:
            worst, where = off, name
    if missing:
        return [f"Nsight Systems has not as many ranges as ortbench has samples of {', '.join(missing)}."]
    if not where:
        return []
    how = "agree" if worst < APART else "differ"
    return [f"Nsight's ranges and ortbench's samples {how}: at most {worst:.1%} apart in sum ({where})."]


def _copy_share(recording: Recording) -> list[str]:
    """What a run with CPU tensors spends on copies by the GPU's own clock."""
    found = recording.ranges.get(f"{CPU}/{TOTAL}")
    if found is None or recording.gpu is None:
        return []
    moved = [copies for copies in (found.copied(UP), found.copied(DOWN)) if copies is not None]
    if not moved:
        return ["With CPU tensors Nsight recorded no copies inside a run."]
    n, spent = len(found.durations_ns), sum(copies.time_ns for copies in moved)
    parts = [f"{copies.kind} {units.duration(copies.time_ns / n)} ({_of(copies, n)})" for copies in moved]
    share = spent / max(sum(found.durations_ns), 1)
    return [f"With CPU tensors {share:.0%} of a run is copies by the GPU's clock: {', '.join(parts)}."]


def _of(copies: Copies, runs: int) -> str:
    kind = f", {copies.memory.lower()} memory" if copies.memory else ""
    count = copies.count / runs
    return f"{units.size(copies.size / runs)} in {count:g} {'copy' if count == 1 else 'copies'}{kind}"


def _totals(recording: Recording) -> list[str]:
    """The whole capture."""
    if recording.gpu is None:
        return ["No CUDA work was recorded: the ranges are all that Nsight Systems has of this EP."]
    parts = [
        f"{it.kind} {it.count} × {units.duration(it.time_ns / it.count)}, {units.size(it.size)}"
        + (f" ({it.memory.lower()})" if it.memory else "")
        for it in recording.copies
    ]
    kernels = f"{recording.kernels} kernels, {units.duration(recording.kernels_ns)}"
    return [f"In the whole capture on {recording.gpu}: {'; '.join([*parts, kernels])}."]


def markdown(profile: Profile, heading: list[str]) -> str:
    """The session as Markdown."""
    table, unit = build(profile)
    lines = [f"# ortbench profile: {profile.session.model['path']}", "", *(f"{line}  " for line in heading), ""]
    lines += [table_markdown(table, unit, table.columns[2:]), ""] if table.rows else []
    lines += [f"- {note}" for note in (*table.notes, *sentences(profile))]
    lines += [f"- warning: {warning['message']}" for warning in profile.session.warnings]
    return "\n".join([*lines, "", "Times of a profiled session: for the timeline, not for comparisons.", ""])
