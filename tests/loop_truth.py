"""Loops and chains in virtual time against the reference device's trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import onnx

from ortbench.measure.schedule import dropped_count
from ortbench.model.result import Case, Result
from tests.refdevice import Events, Trace
from tests.truth import COPIES, What, block_events, host_ns, is_kind, span_ns
from tests.virtual import CALL_NS

STATE_BYTES, X_BYTES = 1 << 20, 1 << 16
FED = ("--feedback", "state_out=state")


def loop_model(path: Path) -> Path:
    """State and input of sizes of their own, so that the trace tells which is which; no output that is no state but y."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{STATE_BYTES // 4}] state, float[{X_BYTES // 4}] x) => (float[{STATE_BYTES // 4}] state_out, float[{X_BYTES // 4}] y)
        {{ state_out = Relu(state)  y = Relu(x) }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def runs_in(result: Result, case: Case, trace: Trace, count: int) -> list[list[Events]]:
    """What the device did in each run of each recorded sample, which has so many of them; a run begins with what is copied
    for it."""
    found = []
    starts = [at for other in result.cases for _, _, at in other.blocks["latency"]]
    for _, n, start in case.blocks["latency"]:
        events, stop = block_events(trace, starts, start)
        queued = events["queued_ns"]
        opening = np.append(queued[is_kind(events, "h2d", "run")], stop)
        inferences = queued[is_kind(events, "inference")][: count * (n + dropped_count(n))]
        begins = np.searchsorted(queued, opening[np.searchsorted(opening, inferences)])
        parts = np.split(events, begins)[: len(inferences)]
        loops = [parts[at : at + count] for at in range(0, len(parts), count)]
        loops[-1][-1] = loops[-1][-1][: len(loops[-2][-1])]  # the outputs are read behind it
        found += loops[dropped_count(n) :]
    return found


def differences(
    result: Result,
    trace: Trace,
    counts: Mapping[str, int],
    calls: Mapping[What, int] | None = None,
    first_bytes: int | None = None,
) -> dict[What, tuple[list[float], list[int]]]:
    """Samples of a loop or chain in virtual time and what they should be, ns, of every mode the whole and each part, where
    they are not; the median that is reported is the first of them.

    `counts` has the runs of each part by its name, in their order; `calls` those of the host's in a sample beside its span (else
    those of a step, and 3 of a whole loop: where its first step begins and where both end); `first_bytes` a loop's first state.
    """
    found: dict[What, tuple[list[float], list[int]]] = {}
    for case in result.cases:
        samples = runs_in(result, case, trace, sum(counts.values()))
        parts = case.samples["stage" if result.kind == "chain" else "step"]
        medians: Sequence[float] = case.steps_ns or [stage.median for stage in case.stages.values()]
        host = 3 if calls is None else calls[case.mode, "latency"]
        wholes = [span_ns(np.concatenate(runs)) + host * CALL_NS for runs in samples]
        found[case.mode, "latency"] = [case.median("latency") or 0, *case.samples["latency"]], wholes
        at = 0
        for number, (name, count) in enumerate(counts.items()):
            true = []
            for runs in samples:
                events = np.concatenate(runs[at : at + count])
                if first_bytes is not None:
                    events = _of_step(_without_first(case, events, first_bytes))
                beside = host_ns(events) if calls is None else calls[case.mode, name] * CALL_NS
                true.append(span_ns(events) + beside)
            found[case.mode, name] = [medians[number], *parts[number :: len(counts)]], true
            at += count
    return {what: it for what, it in found.items() if it[0] != [round(median(it[1])), *it[1]]}


def _without_first(case: Case, events: Events, size: int) -> Events:
    """A step without the copy of the first state, which comes before it where the state stays on the device."""
    return events if case.mode == "cpu-tensors" else events[~(is_kind(events, "h2d") & (events["bytes"] == size))]


def _of_step(events: Events) -> Events:
    """A step without what ONNX Runtime allocates for it before its first copy, or for the next one after its last."""
    lasting = events[is_kind(events, "inference", "run", *COPIES)]
    begin, end = lasting["queued_ns"].min(), lasting["end_ns"].max()
    own: Events = events[(events["queued_ns"] >= begin) & (events["end_ns"] <= end)]
    return own
