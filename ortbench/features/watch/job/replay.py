"""Measures sessions of a program again, with the shapes and settings that they had there: what their copies take."""

from __future__ import annotations

from ortbench.core.errors import OrtbenchError, one_line
from ortbench.features.watch.analysis import WatchedSession
from ortbench.jobs.measuring import measure
from ortbench.model.modes import CPU, DEVICE
from ortbench.plan.options import RawOptions
from ortbench.plan.plan_builder import plan_of

MOST, MODE_S = 3, 3.0  # sessions that are measured again, and for how long each mode: 20 s with all that is around it


def replayable(session: WatchedSession) -> bool:
    """Whether there is something to learn: copies between host and device, and a file to open."""
    return bool(session.about["model"] and session.bytes_per_call)


def replay(session: WatchedSession, library: str | None) -> None:
    """Put what a session's calls take in other modes into it, or why that could not be measured."""
    signature = max(session.signatures, key=lambda it: int(it["ns"]))
    given: RawOptions = {
        "ep": session.about["got"][0],
        "mode": (CPU, DEVICE),
        "shape": {row[0]: tuple(row[3]) for row in signature["inputs"] if row[3]},
        "duration": MODE_S,
    }
    if library is not None:
        given = {**given, "ep-library": library}
    if (threads := int(session.about["options"]["intra_op_num_threads"] or 0)) > 0:
        given = {**given, "intra-op-threads": threads}
    try:
        result = measure([plan_of(session.about["model"], given)], None, quiet=True).result
    except OrtbenchError as error:
        session.replay = {"failed": one_line(error)}
        return
    session.replay = {}
    for case in result.cases:
        if case.mode == CPU:
            session.replay["cpu_tensors_ns"] = case.median("latency")
        else:
            session.replay |= {f"{phase}_ns": case.median(phase) for phase in ("h2d", "inference", "d2h")}
