"""What readings of memory tell of growth, on series whose truth is known. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from ortbench.features.soak.analysis import GROWS, NONE, STEADY, UNCLEAR, growth

PAGE, READINGS, EACH = 4096, 200, 400  # inferences between two readings
INFERENCES = READINGS * EACH
RUNS, RIGHT = 60, 59
Series = Callable[[random.Random], Callable[[float], float]]  # what is held after so many inferences


def nothing(_: random.Random) -> Callable[[float], float]:
    return lambda at: 0


def leak(size: float) -> Series:
    return lambda _: lambda at: size * at


def of_new_shapes(count: int, size: float) -> Series:
    def made(chance: random.Random) -> Callable[[float], float]:
        seen, done = set[int](), [0]

        def held(at: float) -> float:
            while done[0] < at:
                seen.add(chance.randrange(count))
                done[0] += 1
            return size * len(seen)

        return held

    return made


def stairs(count: int, size: float, begin: float, end: float) -> Series:
    """An arena that grows at some inferences between two shares of all."""

    def made(chance: random.Random) -> Callable[[float], float]:
        steps = [INFERENCES * chance.uniform(begin, end) for _ in range(count)]
        return lambda at: sum(size for step in steps if at >= step)

    return made


def after_a_start(size: float) -> Series:
    return lambda _: lambda at: 5e6 * min(1, at / 4000) + size * at


def pages(chance: random.Random) -> Callable[[], float]:
    """Noise whose neighbours resemble each other."""
    value = 0.0

    def next_value() -> float:
        nonlocal value
        value = 0.9 * value + chance.gauss(0, 13e3)
        return value

    return next_value


def trimming(chance: random.Random) -> Callable[[], float]:
    """An allocator that now and then keeps or gives back pages."""
    value = 0.0

    def next_value() -> float:
        nonlocal value
        if chance.random() < 0.05:
            value = 64e3 * chance.randrange(4)
        return value

    return next_value


def walk(chance: random.Random) -> Callable[[], float]:
    """An allocator whose heap goes up and down by chance, within bounds."""
    value = 0.0

    def next_value() -> float:
        nonlocal value
        value = max(-120e3, min(120e3, value + chance.choice((-8192, 8192))))
        return value

    return next_value


@pytest.mark.wide
@pytest.mark.parametrize(
    ("series", "noise", "verdict", "rate"),
    [
        (leak(16), pages, GROWS, 16e3),
        (leak(64), trimming, GROWS, 64e3),
        (leak(1000), pages, GROWS, 1e6),
        (leak(16_000), walk, GROWS, 16e6),
        (after_a_start(64), pages, GROWS, 64e3),
        (after_a_start(0), trimming, STEADY, None),
        (of_new_shapes(1000, 16e3), pages, STEADY, None),
        (of_new_shapes(30_000, 1e3), pages, UNCLEAR, None),  # not all of them were seen
        (stairs(8, 2e6, 0, 0.5), pages, STEADY, None),
        (stairs(3, 2e6, 0, 0.3), trimming, STEADY, None),
        (stairs(1, 4e6, 0.72, 0.97), pages, UNCLEAR, None),
        (stairs(1, 4e6, 0.02, 0.6), pages, STEADY, None),
        (nothing, pages, NONE, None),
        (nothing, trimming, NONE, None),
        (nothing, walk, NONE, None),
    ],
)
def test_the_verdict_is_right(
    series: Series, noise: Callable[[random.Random], Callable[[], float]], verdict: str, rate: float | None
) -> None:
    right, off = 0, []
    for seed in range(RUNS):
        chance = random.Random(seed)
        held, more = series(chance), noise(chance)
        places = [1, 5, 21, *range(EACH, INFERENCES + 1, EACH)]
        found = growth([(at, (120e6 + held(at) + more()) // PAGE * PAGE) for at in places])
        assert found is not None
        right += found.verdict == verdict
        off += [abs(found.slope / rate - 1)] if rate is not None and found.verdict == verdict else []
    assert right >= RIGHT
    assert rate is None or max(off) < 0.1


def test_few_readings_tell_nothing() -> None:
    assert growth([(at, 1e6) for at in range(17)]) is None
    found = growth([(at, 1e6) for at in range(1, 19)])
    assert found is not None
    assert (found.verdict, found.slope) == (NONE, 0)


def test_growth_that_ended_says_when() -> None:
    found = growth([(at, 1e8 + 1e3 * min(at, 4000)) for at in range(100, 20_001, 100)])
    assert found is not None
    assert (found.verdict, found.grew) == (STEADY, 3.9e6)
    assert 3000 < found.until <= 4000


def test_what_is_seen_has_a_least() -> None:
    found = growth([(at, 1e8) for at in range(1000, 100_001, 1000)])
    assert found is not None
    assert found.ci95[0] == 0
    assert found.ci95[1] == pytest.approx(512 * 1024 / 99)
