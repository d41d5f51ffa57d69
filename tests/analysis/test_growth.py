"""What readings of memory tell of growth, on series whose truth is known. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ortbench.features.soak.analysis import GROWS, NONE, STEADY, growth
from tests.expect import there

PAGE, READINGS, EACH = 4096, 200, 400  # inferences between two readings
INFERENCES = READINGS * EACH
RUNS, RIGHT = 60, 59
Held = Callable[[int], float]  # what is held after so many inferences, which go up
Series = Callable[[random.Random], Held]


def leak(size: float, start: float = 0) -> Series:
    """What is taken in each inference, after a start that takes so much."""
    return lambda _: lambda at: start * min(1, at / 4000) + size * at


def stairs(count: int, size: float, begin: float, end: float) -> Series:
    """An arena that grows at some inferences between two shares of all."""

    def made(chance: random.Random) -> Held:
        steps = [INFERENCES * chance.uniform(begin, end) for _ in range(count)]
        return lambda at: sum(size for step in steps if at >= step)

    return made


Noise = Callable[[random.Random, float], float]  # the next value after one


def pages(chance: random.Random, value: float) -> float:
    """Neighbours resemble each other."""
    return 0.9 * value + chance.gauss(0, 13e3)


def walk(chance: random.Random, value: float) -> float:
    """An allocator's heap goes up and down by chance, within bounds."""
    return max(-120e3, min(120e3, value + chance.choice((-8192, 8192))))


@pytest.mark.wide
@pytest.mark.parametrize(
    ("series", "noise", "verdict", "rate"),
    [
        (leak(16), pages, GROWS, 16e3),
        (leak(0, 5e6), walk, STEADY, None),
        (stairs(8, 2e6, 0, 0.5), pages, STEADY, None),
        (leak(0), pages, NONE, None),
    ],
)
def test_the_verdict_is_right(series: Series, noise: Noise, verdict: str, rate: float | None) -> None:
    right, off = 0, [0.0]
    for seed in range(RUNS):
        chance, readings, more = random.Random(seed), list[tuple[int, float]](), 0.0
        held = series(chance)
        for at in (1, 5, 21, *range(EACH, INFERENCES + 1, EACH)):
            more = noise(chance, more)
            readings.append((at, (120e6 + held(at) + more) // PAGE * PAGE))
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
