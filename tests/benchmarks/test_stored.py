"""Intervals of comparisons at different times hold the truth as often as they are to, on runs that are kept in reports/stored-runs.json.

The machine was variously busy between them. The truth between runs of one configuration is 1; `chain10` does 10 % more work than `chain`.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest

from ortbench.analysis.comparison import Spread, compare_series, spread_of
from ortbench.analysis.series import Key, Series
from ortbench.model.metrics import LATENCY, figure
from ortbench.model.modes import CPU
from tests.conftest import ROOT
from tests.results import measured, result_of

RUNS = ROOT / "reports" / "stored-runs.json"
PAIRS = 200
REPEATED = 3  # runs of each configuration in a folder
_KEY = Key(CPU, (), figure(LATENCY))


def runs_of(name: str) -> list[Series]:
    """The runs of a configuration, as a comparison takes them."""
    found = []
    for entry in json.loads(RUNS.read_text())[name]:
        case = measured(CPU, latency={0: [1]})
        found.append(Series(_KEY, case, entry["median_ns"], result_of(case)))
        vars(found[-1]).update(parts=entry["parts_ns"], slowdown=entry["slowed"], blocks=[])
    return found


def held(pairs: Sequence[tuple[Series, Series, Spread | None]], truth: float) -> tuple[float, float]:
    """How often the interval of a pair holds the truth, and how wide it is in the middle, as a share."""
    found: list[tuple[bool, float]] = []
    for base, one, spread in pairs:
        ratio: Any = compare_series(base, one, spread)
        low, high = ratio.ends
        found.append((low <= truth <= high, (high / low) ** 0.5 - 1))
    return sum(it for it, _ in found) / len(found), sorted(width for _, width in found)[len(found) // 2]


@pytest.mark.parametrize(("length", "of_tiny"), [("short", 0.82), ("default", 0.92)])  # reports/coverage.md says why
def test_intervals_of_runs_at_different_times_hold_the_truth(length: str, of_tiny: float) -> None:
    tiny, chain, slower = (runs_of(f"{name}-{length}") for name in ("tiny", "chain", "chain10"))
    for least, most_width, truth, pairs in (
        (of_tiny, 0.1, 1.0, [*combinations(tiny, 2)]),
        (0.92, 9.0, 1.0, [*combinations(chain, 2)]),
        (0.92, 9.0, 1.0, [*combinations(slower, 2)]),
        (0.92, 9.0, 1.1, [(one, base) for one in slower for base in chain]),
    ):
        random.Random(0).shuffle(pairs)
        share, width = held([(base, one, None) for one, base in pairs[:PAIRS]], truth)
        assert (share >= least, width < most_width) == (True, True), (share, width)
    chance = random.Random(0)
    drawn = [chance.sample(tiny, 2 * REPEATED) for _ in range(PAIRS)]
    values = [[[run.value for run in part] for part in (it[:REPEATED], it[REPEATED:])] for it in drawn]
    share, width = held([(it[0], it[-1], spread_of(of, 1)) for it, of in zip(drawn, values, strict=True)], 1.0)
    assert (share >= 0.92, width < 0.1) == (True, True), (share, width)
