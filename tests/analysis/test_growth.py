"""What readings of memory tell of growth, on series whose truth is known. Pure."""

from __future__ import annotations

import random

import pytest

from ortbench.features.soak.analysis import GROWS, NONE, STEADY, growth
from tests.expect import there

PAGE, READINGS, EACH = 4096, 200, 400  # inferences between two readings
RUNS, RIGHT = 60, 59


@pytest.mark.wide
@pytest.mark.parametrize(
    ("leak", "start", "verdict", "rate"), [(16, 0, GROWS, 16e3), (0, 5e6, STEADY, None), (0, 0, NONE, None)]
)
def test_the_verdict_is_right(leak: int, start: float, verdict: str, rate: float | None) -> None:
    """Of what is taken in each inference, after a start that takes so much, among pages that come and go and resemble their neighbours."""
    right, off = 0, [0.0]
    for seed in range(RUNS):
        chance, readings, more = random.Random(seed), list[tuple[int, float]](), 0.0
        for at in (1, 5, 21, *range(EACH, READINGS * EACH + 1, EACH)):
            more = 0.9 * more + chance.gauss(0, 13e3)
            held = 120e6 + start * min(1, at / 4000) + leak * at + more
            readings.append((at, held // PAGE * PAGE))
        found = there(growth(readings))
        right += found.verdict == verdict
        off += [abs(found.slope / rate - 1)] if rate is not None and found.verdict == verdict else []
    assert right >= RIGHT
    assert max(off) < 0.1


def test_few_readings_tell_nothing_and_what_is_seen_has_a_least() -> None:
    assert growth([(at, 1e6) for at in range(17)]) is None
    found = there(growth([(at, 1e6) for at in range(1, 19)]))
    assert (found.verdict, found.slope) == (NONE, 0)
    found = there(growth([(at, 1e8) for at in range(1000, 100_001, 1000)]))
    assert found.ci95 == pytest.approx((0, 512 * 1024 / 99))


def test_growth_that_ended_says_when() -> None:
    found = there(growth([(at, 1e8 + 1e3 * min(at, 4000)) for at in range(100, 20_001, 100)]))
    assert (found.verdict, found.grew) == (STEADY, 3.9e6)
    assert 3000 < found.until <= 4000
