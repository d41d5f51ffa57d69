"""How often a certificate of a machine is right: certificates from parts of recorded noise, against the gates of all of it.

    python -m tests.benchmarks.certificate 100 > reports/certificate.md

Traces are those of `tests.benchmarks.gate_replay`, which are of one pair of workers each.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from ortbench.analysis.comparison import compare_series
from ortbench.analysis.intervals import upper_rate
from ortbench.analysis.series import Key, series_at
from ortbench.features.certificate import gates
from ortbench.features.certificate.gates import ONE, OTHER, WITHIN_S, Gates, Visit
from ortbench.model.certificate import CertifiedRun
from ortbench.model.metrics import LATENCY, figure
from ortbench.model.modes import CPU
from ortbench.model.result import Result
from ortbench.model.schema import Certificate
from tests.benchmarks.gate_replay import FOLDER, Trace
from tests.results import measured, result_of

VISITS, VISIT_S, OPENING_S = 9, 10.7, 10.0  # what two of three lanes have of 20 s, and what lies between
GATES, TRUTHS, NINE_OF_TEN = 200, 1000, 0.9
RUN_S, PAIRS = 5.0, 5  # of results at random times, of each certificate
HEAD = f"""# How often a certificate is right

{{count}} certificates of parts of the [recorded noise](gate/README.md#replayed-gates), as `ortbench doctor --certify 3m` makes them: {VISITS} visits
of 20 s from a random place of a trace on. A statement on detectable effects is true where at least nine of ten of {2 * TRUTHS} gates at other places
of the trace detect that effect in that time, either way. Comparisons are of two runs of {RUN_S:g} s of equal code at random places. The traces have one
pair of workers each: what differs between workers is not in them.

| noise | statement | true |
|---|---|---|"""


def visit_at(trace: Trace, start_s: float, took_s: float) -> Visit:
    """A part of a trace: the model, and itself again."""
    spent = trace.spent_s[:, [0, 1]].sum(axis=1)
    first, last = np.searchsorted(np.cumsum(spent), [start_s, start_s + took_s])
    return Visit([trace.samples[first:last, lane].tolist() for lane in (0, 1)], spent[first:last].tolist())


def gates_of(visits: list[Visit]) -> Gates:
    """The gates of equal code along some parts."""
    return gates.replay(visits, (ONE, OTHER), gates.USUAL_LIMIT, math.inf)


def effects_of(visit: Visit) -> list[float]:
    """The smallest effects that a gate of all of a part detects, either way, as logarithms."""
    logs = np.log(np.median(np.array(visit.lanes), axis=2))
    return [*gates.smallest_effects(logs[None, 0], logs[None, 1])]


def rows(noise: str, certificates: int) -> Iterator[str]:
    trace, rng = Trace.read(FOLDER / f"noise-{noise}.npz"), np.random.default_rng(0)
    whole_s = float(trace.spent_s[:, :2].sum())
    every = gates_of([visit_at(trace, 0, whole_s)])
    first = gates_of([first_gates(trace)])
    yield f"alarms in the first {first.decided} gates of equal code: {first.failed} | in all: {every.failed} of {every.decided}"
    places = {within: rng.uniform(0, whole_s - within, TRUTHS) for within in WITHIN_S}
    true = {
        within: [it for at in places[within] for it in effects_of(visit_at(trace, at, within))] for within in WITHIN_S
    }
    said, right = {within: list[float]() for within in WITHIN_S}, dict.fromkeys(WITHIN_S, 0)
    bounds, held, plain = 0, 0, 0
    for _ in range(certificates):
        start = rng.uniform(0, whole_s - VISITS * (VISIT_S + OPENING_S))
        visits = [visit_at(trace, start + number * (VISIT_S + OPENING_S), VISIT_S) for number in range(VISITS)]
        for within, share in zip(WITHIN_S, gates.detectable_shares(visits), strict=True):
            if share is not None:
                said[within].append(share)
                right[within] += bool(np.mean([it <= math.log1p(share) for it in true[within]]) >= NINE_OF_TEN)
        own = gates_of(visits)
        bounds += every.failed / every.decided <= upper_rate(own.failed, own.decided, gates.SURE)
        runs = [{"at_s": 0.0, "medians_ns": [float(np.median(lane)) for lane in it.lanes]} for it in visits]
        spread = math.expm1(gates.spread_of_runs(cast(list[CertifiedRun], runs)).reach)
        for _ in range(PAIRS):
            one, other = (run_at(trace, lane, at) for lane, at in enumerate(rng.uniform(0, whole_s - RUN_S, 2)))
            plain += is_held(one, other, None)
            held += is_held(one, other, spread)
    for within in WITHIN_S:
        truth = math.expm1(np.quantile(true[within], NINE_OF_TEN))
        middle = f"{np.median(said[within]):.2%}" if said[within] else "–"
        none = certificates - len(said[within])
        yield f"detectable in {within:g} s: {middle} in the median, true {truth:.2%} | {right[within]} of {len(said[within])}, {none} say none"
    yield f"the bound of false alarms | {bounds} of {certificates}"
    yield f"comparisons of machines with a certificate | {held} of {PAIRS * certificates}"
    yield f"comparisons without, by 3 % | {plain} of {PAIRS * certificates}"


def first_gates(trace: Trace) -> Visit:
    """The beginning of a trace in which there are so many gates."""
    length = 10.0
    while gates_of([found := visit_at(trace, 0, length)]).decided < GATES:
        length += 2.0
    return found


def run_at(trace: Trace, lane: int, start_s: float) -> Result:
    """A run of one lane at a time."""
    samples = visit_at(trace, start_s, RUN_S).lanes[lane]
    return result_of(measured(CPU, latency=cast(Any, dict(enumerate(samples)))), run_id=str(start_s))


def is_held(one: Result, other: Result, spread: float | None) -> bool:
    """Whether the interval of equal code's ratio holds 1, on a machine with a certificate or without."""
    of = {"between_runs": spread, "busy": True, "span_s": 180.0}
    for result in (one, other):
        result.environment.pop("certificate", None)
        if spread is not None:
            result.environment["certificate"] = cast(Certificate, of)
    base, value = (series_at(it, Key(CPU, (), figure(LATENCY))) for it in (one, other))
    assert base is not None
    assert value is not None
    found = compare_series(base, value)
    return found is not None and found.low is not None and found.high is not None and found.low <= 1 <= found.high


def main() -> None:
    print(HEAD.format(count=sys.argv[1]))
    for noise in ("quiet", "loaded"):
        for row in rows(noise, int(sys.argv[1])):
            print(f"| {noise} | {row} |", flush=True)


if __name__ == "__main__":
    main()
