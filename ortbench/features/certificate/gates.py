"""How small a difference a gate tells on this machine: its sequential test, replayed on what one model took beside itself. Pure.

Known are `Visit`s: fresh workers, in turns the model, itself again, and one that does a known share of work more.

- False alarms: gates of equal code with the default limit, one after the other along each visit, by the gate's own `SequentialTests`. Their
  bound is the upper end of Clopper and Pearson's one-sided 95 % interval (Biometrika 26 (1934) 404). A real gate measures a regression twice,
  so it raises fewer.
- The smallest effect that is told: the test uses ratios of blocks of one round alone, so code that is slower by a share e gives the ratios
  of equal code times 1 + e, and a replay tells every e from where the lower end of the interval, and the ratio of the medians, exceed
  the limit at some look. That e is known of each replay without a search, also for faster code, with both sides exchanged.
- Nine times of ten: 19 of 20 replays, as other times are noisier than the minutes of a certificate. They are joined from stretches of `STRETCH_S` of one visit (a bootstrap of blocks: Annals of Statistics 17
  (1989) 1217), so that bursts up to that long stay whole; longer ones, and what a longer gate would have met, are not in it. The
  stretches and visits that there are were drawn by chance too: they are drawn again `DRAWS` times, and what is told holds in 95 % of these
  draws (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 16).
- The spread between runs: of the medians of all visits, at whatever times they were, by Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.analysis.comparison import Spread
from ortbench.analysis.intervals import by_round, fewest, most_against, upper_rate
from ortbench.facts.sentences import FAILED, UNCLEAR
from ortbench.features.gate.gates import ALPHA, BASELINE, CANDIDATE, SequentialTests, regression_tests
from ortbench.features.gate.plan import Limits
from ortbench.model.certificate import CertifiedRun
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import Result
from ortbench.model.schema import Certificate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Logs = NDArray[Any]

ONE, OTHER, SLOWER = range(3)  # the lanes of a visit
USUAL_LIMIT = 0.05
WITHIN_S = (2.0, 10.0, 60.0)
STRETCH_S = 2.0
PLANTED_S = 10.0  # in which a gate has to find the known share
SHARE_OF_REPLAYS, SURE = 0.95, 0.95  # that detect an effect, and of draws in which they do, or in which a rate is less
MOST_SHARE = 0.25  # what tells only more depends on single bursts, and is of no use
DRAWS, REPLAYS = 100, 50
_LOOK = 1.15  # times the rounds of the look before; a gate looks after each round, so it tells no less
_SEED = 0


class Visit(NamedTuple):
    """What fresh workers took: of each lane the samples of each round, ns, and how long two lanes of each round take, s."""

    lanes: Sequence[Sequence[Sequence[float]]]
    took_s: Sequence[float]


class Gates(NamedTuple):
    """Gates that were replayed one after the other: how many came to a verdict or ran out of time, and how many failed."""

    decided: int
    failed: int


def visit_of(results: Sequence[Result]) -> Visit:
    """The rounds that all lanes of a visit have; two lanes take their part of the time from the beginning of a round to that of the next."""
    cases = [result.cases[0] for result in results]
    blocks = [by_round(case, LATENCY) for case in cases]
    begun: dict[int, int] = {}
    for case in cases:
        for number, _, start_ns in case.blocks.get(LATENCY, ()):
            begun[number] = min(start_ns, begun.get(number, start_ns))
    common = sorted(set(begun).intersection(*blocks))
    gaps = [(begun[after] - begun[number]) / 1e9 * 2 / len(cases) for number, after in pairwise(common)]
    return Visit([[it[number] for number in common[:-1]] for it in blocks], gaps)


def certificate_of(
    visits: Sequence[Visit], runs: Sequence[CertifiedRun], planted: float, at: datetime, busy: bool
) -> Certificate:
    """What visits and all `runs` come to; the slower lane does a share of `planted` work more."""
    equal = replay(visits, (ONE, OTHER), USUAL_LIMIT, math.inf)
    slower = replay(visits, (SLOWER, ONE), 0.0, PLANTED_S)
    spread = spread_of_runs(runs)
    begun = [it["at_s"] for it in runs]
    return {
        "created": at.isoformat(timespec="seconds"),
        "busy": busy,
        "model_ns": round(median(ns for visit in visits for samples in visit.lanes[ONE] for ns in samples)),
        "detectable": [
            {"within_s": within, "share": share, "derived": within > STRETCH_S}
            for within, share in zip(WITHIN_S, detectable_shares(visits), strict=True)
        ],
        "gates": equal.decided,
        "alarms": equal.failed,
        "most_alarms": upper_rate(equal.failed, equal.decided, SURE),
        "planted": planted,
        "planted_gates": slower.decided,
        "found": slower.failed,
        "runs": len(runs),
        "span_s": max(begun) - min(begun),
        "between_runs": math.expm1(spread.reach),
    }


def replay(visits: Sequence[Visit], lanes: tuple[int, int], limit: float, most_s: float) -> Gates:
    """Gates of two lanes along each visit, each as long as it needs or `most_s`; of equal lanes they take turns as the candidate. What
    a visit ends before its verdict is none."""
    (test,) = regression_tests(Limits(max_regression=limit), [CPU])
    count = failed = 0
    for visit in visits:
        gate, spent = SequentialTests([test]), 0.0
        for number, took_s in enumerate(visit.took_s):
            turned = lanes[::-1] if SLOWER not in lanes and count % 2 else lanes
            for configuration, lane in zip((CANDIDATE, BASELINE), turned, strict=True):
                gate.add(configuration, CPU, LATENCY, number, visit.lanes[lane][number])
            spent += took_s
            verdict = gate.check(test).verdict
            if verdict != UNCLEAR or spent >= most_s:
                count, failed = count + 1, failed + (verdict == FAILED)
                gate, spent = SequentialTests([test]), 0.0
    return Gates(count, failed)


def detectable_shares(visits: Sequence[Visit]) -> list[float | None]:
    """The smallest share that a gate tells within each of `WITHIN_S`; None where none up to `MOST_SHARE` is, as of too few rounds."""
    import numpy as np

    rng = np.random.default_rng(_SEED)
    pools = [pool for visit in visits if (pool := _stretches(visit))]
    if not pools:
        return [None] * len(WITHIN_S)
    alone = [[smallest_effects(it[None, 0], it[None, 1]) for it in pool] for pool in pools]
    found: list[float | None] = []
    for within in WITHIN_S:
        worst = []
        for _ in range(DRAWS):
            visits_drawn = rng.integers(len(pools), size=len(pools))
            drawn = [(at, rng.integers(len(pools[at]), size=len(pools[at]))) for at in visits_drawn]
            if within == STRETCH_S:
                effects = np.concatenate([alone[at][it] for at, own in drawn for it in own])
            else:
                gates = [drawn[it] for it in rng.integers(len(drawn), size=REPLAYS)]
                parts = [[pools[at][it] for it in rng.choice(own, round(within / STRETCH_S))] for at, own in gates]
                effects = smallest_effects(*_side_by_side(parts))
            worst.append(np.quantile(effects, SHARE_OF_REPLAYS, method="higher"))
        effect = max(0.0, float(np.quantile(worst, SURE, method="higher")))
        found.append(math.expm1(effect) if effect <= math.log1p(MOST_SHARE) else None)
    return found


def _side_by_side(gates: Sequence[Sequence[Logs]]) -> tuple[Logs, Logs]:
    """Both sides of gates of several stretches, a row each, of as many rounds as the shortest has."""
    import numpy as np

    joined = [np.concatenate(it, axis=1) for it in gates]
    rounds = min(it.shape[1] for it in joined)
    both = np.stack([it[:, :rounds] for it in joined])
    return both[:, 0], both[:, 1]


def _stretches(visit: Visit) -> list[Logs]:
    """The logarithms of the medians of blocks, of both equal lanes by round, in stretches of `STRETCH_S`."""
    import numpy as np

    logs = np.log([[max(1.0, median(samples)) for samples in visit.lanes[lane]] for lane in (ONE, OTHER)])
    found, first, spent = [], 0, 0.0
    for number, took_s in enumerate(visit.took_s, 1):
        spent += took_s
        if spent >= STRETCH_S:
            found.append(logs[:, first:number])
            first, spent = number, 0.0
    return found


def smallest_effects(over: Logs, under: Logs) -> Logs:
    """By how much, as logarithms, code has to be slower, and faster, for a gate that has it as its limit to say so, of each replay (a row);
    infinite where no look comes to an interval."""
    import numpy as np

    slower = faster = np.full(len(over), -np.inf)
    rounds, most = fewest(ALPHA), over.shape[1]
    while rounds <= most:
        against = most_against(rounds, ALPHA) or 0
        ones, others = over[:, :rounds], under[:, :rounds]
        ordered = np.partition(ones - others, (against, rounds - 1 - against), axis=1)
        medians = np.median(ones, axis=1) - np.median(others, axis=1)
        slower = np.maximum(slower, np.minimum(ordered[:, against], medians))
        faster = np.maximum(faster, -np.maximum(ordered[:, rounds - 1 - against], medians))
        after = max(rounds + 1, math.ceil(rounds * _LOOK))
        rounds = after if rounds == most else min(after, most)
    return -np.concatenate([slower, faster])


def spread_of_runs(runs: Sequence[CertifiedRun]) -> Spread:
    """How much runs at different times differ: each lane around its own mean. Lanes of one run share its time, so they add no freedom."""
    lanes = [[math.log(ns) for ns in lane] for lane in zip(*(it["medians_ns"] for it in runs), strict=True)]
    squares = [(it - fmean(lane)) ** 2 for lane in lanes for it in lane]
    freedom = len(runs) - 1
    return Spread(math.sqrt(sum(squares) / (freedom * len(lanes))), freedom, len(runs))
