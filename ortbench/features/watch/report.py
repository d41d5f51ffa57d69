"""The report of a program: its sessions, and what it does that costs time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ortbench.core import __version__, units
from ortbench.facts import Fact
from ortbench.facts.run import findings_of
from ortbench.facts.sentences import sentence_of
from ortbench.features.watch.analysis import (
    ZERO_COPY,
    Data,
    Watched,
    WatchedSession,
    distinct_names,
    merge_sessions,
    session_name,
)
from ortbench.features.watch.shim import MOST_TRACED, TRACED
from ortbench.model.protocol import Span
from ortbench.report import model

NOT_SEEN = "no process of it took the recorder: python -I or -E, a frozen program, or no Python"
NOT_LOADED = "no Python process of it loaded onnxruntime"
_BY_BINDING = ("constant-input", "state-through-host", "link-through-host")
_COLUMNS = (
    model.Column("session", model.Kind.LONG_NAME, model.KEY),
    model.Column("calls"),
    *model.columns(model.Kind.TIME, "median", "p99"),
    *model.columns(model.Kind.NUMBER, "of the time", "copied/call"),
    model.Column("EP", model.Kind.WORDS),
)


def nothing_seen(program: Watched) -> str:
    """Why there is nothing to show; empty where there is something."""
    if program.sessions:
        return ""
    return NOT_LOADED if program.has_python else NOT_SEEN


def build(program: Watched, facts: Sequence[Fact], folder: str, code_line: str = "") -> model.Report:
    """The report: a heading, a row a session, findings, the command that writes the program of a change."""
    notes = [
        model.Note(f"the recorder failed and stopped: {fault}", "!", model.BAD)
        for fault in sorted({it["fault"] for it in program.processes} - {""})
    ]
    again = [
        (session.name, found["failed"])
        for session in program.sessions
        for key, found in session.replay.items()
        if "failed" in found and key != json.dumps(ZERO_COPY)
    ]
    failed = {f"{name} could not be measured again: {why}" for name, why in again}
    notes += [model.Note(it, "!", model.UNCLEAR) for it in sorted(failed)]
    if why := nothing_seen(program):
        notes.append(model.Note(f"Nothing to show: {why}", "!", model.UNCLEAR))
    if code_line and any(it.verdict in _BY_BINDING for it in facts):
        notes.append(model.Note(f"A program with IO binding: {code_line}"))
    findings = [it._replace(next=sentence_of(fact).action) for it, fact in zip(findings_of(facts), facts, strict=True)]
    blocks: list[Sequence[model.Block]] = [
        [model.Heading(heading(program))],
        [session_table(program)] if program.sessions else [],
        [model.Findings(findings)] if findings else [],
        [model.Notes(notes)] if notes else [],
        [model.SavedIn(folder)] if folder else [],
    ]
    return model.Report(f"ortbench watch: {' '.join(program.command)}", [it for it in blocks if it])


def heading(program: Watched) -> list[str]:
    count = len([it for it in program.processes if it["sessions"]])
    versions = sorted({it["onnxruntime"] for it in program.processes if it["sessions"]})
    lines = [f"{' '.join(program.command)}, exit code {program.exit_code}"]
    if program.sessions:
        quota = "" if program.quota is None else f", quota of {program.quota:g}"
        if program.throttled_ns:
            quota += f" (throttled for {units.seconds(program.throttled_ns)})"
        lines.append(
            f"{units.seconds(program.wall_ns)}, inside run {units.share(program.busy_ns / program.wall_ns)}, ONNX Runtime {', '.join(versions)}, "
            f"{units.count(count, 'process')}, {units.count(program.cores, 'core')}{quota}"
        )
    return lines


def session_table(program: Watched) -> model.Table:
    medians = [it.percentile(0.5) or 0.0 for it in program.sessions]
    unit, scale = units.time_unit(max(medians, default=1) or 1)
    rows = tuple(_row(program, it, scale) for it in program.sessions)
    return model.drop_empty_columns(model.Table(_COLUMNS, rows, unit, "Sessions"))


def _row(program: Watched, session: WatchedSession, scale: float) -> tuple[str, ...]:
    copied = session.bytes_per_call
    return (
        session.name,
        str(session.calls),
        model.maybe(session.percentile(0.5), lambda value: units.digits(value / scale)),
        model.maybe(session.percentile(0.99), lambda value: units.digits(value / scale)),
        units.share(session.total_ns / program.wall_ns) if session.calls else model.NOTHING,
        units.size(copied) if copied else model.NOTHING,
        _eps(session),
    )


def _eps(session: WatchedSession) -> str:
    got = [it.removesuffix("ExecutionProvider") for it in session.about["got"][:1]]
    lost = [it.removesuffix("ExecutionProvider") for it in session.lost_eps]
    return " → ".join([*[", ".join(lost)] * bool(lost), *got])


def live_line(processes: Sequence[Data], spent_ns: int) -> str:
    """The sessions with the most time so far, as wide as most terminals are; empty where there was no call."""
    sessions = [it for it in merge_sessions(processes) if it.calls]
    parts = [
        f"{session.name} {units.count(session.calls, 'call')}, {units.duration(session.percentile(0.5) or 0)}, {units.share(session.total_ns / spent_ns)}"
        for session in sessions[:2]
    ]
    return f"{units.seconds(spent_ns)}: {'; '.join(parts)}"[:78] if parts else ""


_MOST_CALLS = 100_000  # in a trace: what viewers still open in seconds


def program_trace(program: Watched, calls: Sequence[Sequence[int]], created: str) -> dict[str, Any]:
    """The trace of a program: a process each, in it a track for each session and thread, with calls and the gaps between them.

    `calls`: of each process, as the recorder kept them. Of too many every so manyth is shown."""
    from ortbench.features.trace.report import TraceProcess, join_processes

    rows = [[it[start : start + TRACED] for start in range(0, len(it), TRACED)] for it in calls]
    step = max((1 << len(it) // MOST_TRACED for it in rows), default=1)
    while sum(len(it) // step for it in rows) > _MOST_CALLS:
        step *= 2
    rows = [[row for row in it if row[-1] % step == 0] for it in rows]
    origin = min((it["began_ns"] for it in program.processes), default=0)
    processes, shown = [], 0
    for number, (about, own) in enumerate(zip(program.processes, rows, strict=True), 1):
        process = TraceProcess(number, f"{' '.join(about['argv'])} ({about['pid']})", origin)
        whole = Span("recorded", about["began_ns"], about["now_ns"] - about["began_ns"])
        process.slice(process.track("process"), "process", whole)
        for name, spans in _session_tracks(about, own).items():
            track = process.track(name)
            shown += sum(it.name == "call" for it in spans)
            for before, span in zip([None, *spans], spans, strict=False):
                gap_ns = 0 if before is None else span.start_ns - before.end_ns
                if before is not None and gap_ns > 0 and step == 1:
                    process.slice(track, "gap", Span("gap", before.end_ns, gap_ns))
                process.slice(track, span.name, span)
        processes.append(process)
    count = sum(it["calls"] for it in program.processes)
    missing = [f"of {count} calls {shown} are shown, and no gaps"] * (shown < count)
    tool = {"tool": f"ortbench {__version__}", "created": created, "command": " ".join(program.command)}
    return join_processes(processes, origin, tool, missing)


def _session_tracks(process: Data, rows: Sequence[Sequence[int]]) -> dict[str, list[Span]]:
    """What a process did with each session on each thread, in the order of time."""
    sessions = {it["number"]: it for it in process["sessions"]}
    names = dict(zip(sessions, distinct_names(session_name(it) for it in sessions.values()), strict=True))
    tracks: dict[tuple[int, int], list[Span]] = {}
    for number, session in sessions.items():
        for thread, start, end in session["opens"]:
            tracks.setdefault((number, thread), []).append(Span("open", start, end - start))
    for number, signature, thread, start, end, call in rows:
        if number not in sessions or signature >= len(sessions[number]["signatures"]):
            continue  # of a process that was killed before it wrote what they are
        about = {row[0]: f"{row[2]} {row[3]}" for row in sessions[number]["signatures"][signature]["inputs"]}
        tracks.setdefault((number, thread), []).append(Span("call", start, end - start, {"call": call, **about}))
    threads = process["threads"]
    return {
        f"{names[number]}, {threads.get(str(thread), thread)}": sorted(spans, key=lambda it: it.start_ns)
        for (number, thread), spans in tracks.items()
    }
