"""Measures sessions of a program again: what each change that would save something there saves of a call."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ortbench.core.errors import OrtbenchError, one_line
from ortbench.core.stats import sign_test_interval
from ortbench.features.watch.analysis import (
    FEWEST,
    MOST_PAUSE_NS,
    Change,
    WatchedSession,
    input_bytes,
    main_signature,
    own_binding,
)
from ortbench.measure.noise import Meter
from ortbench.measure.process import Client
from ortbench.plan.plan_builder import plan_of
from ortbench.plan.target import ORT_OPT_LEVELS

MOST, BUDGET_S, EACH_S = 3, 20.0, 4.0  # sessions unless all are wanted; for all of these; for the calls of a change
_START_S = 2.0  # until a worker answers
_TOO_LONG = f"that would take longer than {BUDGET_S:.0f} s: see --replay"
_OPT_LEVELS = {value: name for name, value in ORT_OPT_LEVELS.items()}


def problem(session: WatchedSession) -> str:
    """Why a session cannot be measured again; empty where it can."""
    if not session.path:
        return "its model was given as bytes, and was not kept"
    if not kept_inputs(session) and any(
        row[1] not in ("array", "list", "tuple") for row in main_signature(session)["inputs"]
    ):
        return "the program calls it with OrtValues, and they were not kept"
    return ""


def kept_inputs(session: WatchedSession) -> str:
    """The file with inputs of a call, of those with about as many bytes as the main ones; empty where none were kept."""
    size = input_bytes(main_signature(session))
    kept = [it for it in session.signatures if it.get("kept")]
    return str(min(kept, key=lambda it: abs(input_bytes(it) - size))["kept"]) if kept else ""


def replay(
    session: WatchedSession, changes: Sequence[Change], inputs: Path | None, library: str | None, until_ns: int | None
) -> None:
    """Put what each change saves of a session's calls into it, or why that could not be measured: none that would end after a time."""
    counts = session.counts
    why = problem(session)
    if not why and until_ns is not None and time.perf_counter_ns() + _least_ns(session, changes) > until_ns:
        why = _TOO_LONG
    if why:
        session.replay = {json.dumps(it): {"failed": why} for it in changes}
        return
    try:
        plan = plan_of(session.path, _options(session, inputs, library))
        request = plan.worker_request()
        with Client(plan.timeout_s) as client:
            meter = Meter()
            meter.look(now=True)
            budget_s = EACH_S * (len(changes) + 1)
            if until_ns is not None:
                budget_s = min(budget_s, (until_ns - time.perf_counter_ns()) / 1e9)
            answer = client.ask(
                "watch_replay",
                **{key: request[key] for key in ("model", "target", "inputs")},
                outputs=[*session.outputs],
                shapes={row[0]: row[3] for row in main_signature(session)["inputs"]} if inputs else {},
                own=own_binding(session),
                changes=changes,
                gap_ns=min(counts["gap_ns"] // max(counts["gaps"], 1), MOST_PAUSE_NS),
                work_ns=counts["work_ns"] // max(counts["looked_gaps"], 1),
                budget_s=budget_s,
                is_limited=until_ns is not None,
            )
            meter.look(now=True)
            session.noise = meter.noise_of(None)
    except OrtbenchError as error:
        session.replay = {json.dumps(it): {"failed": one_line(error)} for it in changes}
        return
    columns = iter(range(1, len(changes) + 1))
    for change, failed in zip(changes, answer["failed"], strict=True):
        why = failed or ("" if answer["rounds"] else _TOO_LONG)
        session.replay[json.dumps(change)] = {"failed": why} if why else _savings(answer["rounds"], next(columns))


def _least_ns(session: WatchedSession, changes: Sequence[Change]) -> float:
    """What a replay takes at least, if the machine is as fast as it was for the program."""
    counts = session.counts
    opened = 1 + sum("config" in it or "threads" in it for it in changes)
    each = counts["total_ns"] / counts["calls"] + min(counts["gap_ns"] / max(counts["gaps"], 1), MOST_PAUSE_NS)
    return (
        _START_S * 1e9
        + opened * counts["open_ns"] / max(counts["opened"], 1)
        + (len(changes) + 1) * (FEWEST + 2) * each
    )


def _savings(rounds: Sequence[Sequence[Sequence[float]]], column: int) -> dict[str, Any]:
    """What calls of a column take less than those of the first, in wall and CPU time, with 95 % intervals."""
    values: dict[str, Any] = {"call_ns": median(it[0][0] for it in rounds)}
    for part, name in enumerate(("ns", "cpu_ns")):
        differences = [it[0][part] - it[column][part] for it in rounds]
        middle = median(differences)
        values[name] = [middle, *(sign_test_interval(differences) or (min(differences), max(differences)))]
    return values


def _options(session: WatchedSession, inputs: Path | None, library: str | None) -> dict[str, Any]:
    about: Mapping[str, Any] = session.about
    options = about["options"]
    given: dict[str, Any] = {
        "ep": about["got"][0],
        "session-config": {key: value for key, value in about["entries"].items() if not key.startswith("ep.context")},
        "ep-option": {} if session.is_on_cpu else about["ep_options"],  # the CPU EP's change no call
        "opt-level": _OPT_LEVELS.get(options["graph_optimization_level"], "all"),
        "execution-mode": "parallel" if options["execution_mode"] == "ORT_PARALLEL" else "sequential",
    }
    if inputs is not None:
        given |= {"input": str(inputs)}
    else:
        given |= {"shape": {row[0]: tuple(row[3]) for row in main_signature(session)["inputs"] if row[3]}}
    if library or about["library"]:
        given |= {"ep-library": library or about["library"]}
    for option, name in (("intra-op-threads", "intra_op_num_threads"), ("inter-op-threads", "inter_op_num_threads")):
        if (threads := int(options[name] or 0)) > 0:
            given |= {option: threads}
    return given


def code_line(session: WatchedSession, inputs: Path | None, library: str | None) -> str:
    """The command that writes a program whose inputs and outputs stay on the device."""
    known = ("--ep-library", library or session.about["library"]), ("--input", inputs)
    more = "".join(f" {option} {it}" for option, it in known if it)
    return f"ortbench code {session.path} --ep {session.about['got'][0]} --mode device-resident{more}"
