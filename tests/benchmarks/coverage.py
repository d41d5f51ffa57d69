"""How often the 95 % interval of a ratio of medians holds the truth: thousands of simulated runs of every kind of noise.

    python -m tests.benchmarks.coverage

Two modes take turns, one a quarter slower than the other. Both have the same noise, so that the true ratio of their medians is 1.25
whatever the noise is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ortbench.core.stats import ratio_of
from ortbench.measure.schedule import MIN_ROUNDS, is_precise

Times = NDArray[np.float64]  # of both modes, shape (2, rounds, samples of a block)
Noise = Callable[[np.random.Generator, int], Times]

TRUTH = 1.25
RUNS = 500
SAMPLES = 10  # of a block
MOST_ROUNDS = 40  # of a run that ends when its medians are known
PRECISION = 0.01


def steady(random: np.random.Generator, rounds: int) -> Times:
    """What runs have by themselves, a few percent to the slow side, and blocks, as caches and clocks are what they are when they begin."""
    samples = np.exp(0.05 * np.abs(random.standard_normal((2, rounds, SAMPLES))) ** 1.5)
    return np.asarray(samples * np.exp(0.02 * random.standard_normal((2, rounds, 1))))


def drifting(trend: float, walk: float) -> Noise:
    """The machine gets slower by a trend, and faster and slower by a random walk from round to round, for both modes alike."""

    def made(random: np.random.Generator, rounds: int) -> Times:
        way = trend * np.linspace(0, 1, rounds) + np.cumsum(walk * random.standard_normal(rounds))
        return steady(random, rounds) * np.exp(way)[None, :, None]

    return made


def in_bursts(length: float) -> Noise:
    """Other processes take a quarter of the time, for so many blocks on average; runs beside them mostly take up to three times as long."""

    def made(random: np.random.Generator, rounds: int) -> Times:
        busy, is_on = np.empty(2 * rounds, bool), random.random() < 0.25
        for at, it in enumerate(random.random(2 * rounds)):
            busy[at] = is_on = it < (1 - 1 / length if is_on else 1 / length / 3)
        in_order = busy.reshape(rounds, 2)
        in_order = np.where(random.random((rounds, 1)) < 0.5, in_order, in_order[:, ::-1])
        hit = in_order.T[:, :, None] & (random.random((2, rounds, SAMPLES)) < 0.7)
        return steady(random, rounds) * np.where(hit, 1 + 2 * random.random(hit.shape), 1)

    return made


def two_humps(share: float, by_block: float = 0.0) -> Noise:
    """A share of the runs, which may differ from block to block, takes two and a half times as long."""

    def made(random: np.random.Generator, rounds: int) -> Times:
        of_block = np.clip(share + by_block * random.standard_normal((2, rounds, 1)), 0, 1)
        return steady(random, rounds) * np.where(random.random((2, rounds, SAMPLES)) < of_block, 2.5, 1)

    return made


NOISE: dict[str, Noise] = {
    "steady": steady,
    "drift: 5 %, and 0.5 % a round": drifting(0.05, 0.005),
    "bursts of 4 blocks": in_bursts(4),
    "bursts of 20 blocks": in_bursts(20),
    "two humps, 30 % in the other": two_humps(0.3),
    "two humps, 15 to 45 % by block": two_humps(0.3, 0.15),
    "drift: 10 %, and 1 % a round": drifting(0.1, 0.01),
    "drift: 30 %, and 3 % a round": drifting(0.3, 0.03),
    "whole blocks in the other hump, 30 %": lambda random, rounds: (
        steady(random, rounds) * np.where(random.random((2, rounds, 1)) < 0.3, 2.5, 1)
    ),
    "two humps of the same size": two_humps(0.5, 0.15),
}

Side = dict[int, list[float]]


def a_run(noise: str, seed: int, rounds: int | None) -> tuple[Side, Side]:
    """A run of so many rounds, or one that ends as runs do: when both medians are known, or its time is over (None)."""
    times = NOISE[noise](np.random.default_rng(seed), rounds or MOST_ROUNDS) * 1e6
    times[0] *= TRUTH
    last = rounds or next(it for it in _looks() if it == MOST_ROUNDS or _is_known(times[:, :it]))
    one, other = ({number: block.tolist() for number, block in enumerate(side[:last])} for side in times)
    return one, other


def _looks() -> Iterator[int]:
    """After which rounds the schedule looks whether the medians are known."""
    at = MIN_ROUNDS
    while at < MOST_ROUNDS:
        yield at
        at = max(at + 1, math.ceil(at * 1.1))
    yield MOST_ROUNDS


def _is_known(times: Times) -> bool:
    return all(is_precise(side.ravel().tolist(), [SAMPLES] * side.shape[0], PRECISION) for side in times)


def coverage(noise: str, rounds: int | None, runs: int = RUNS) -> tuple[float, float]:
    """How often the interval holds the truth, and how wide it is on average, as a share."""
    found = np.zeros(2)
    for seed in range(runs):
        interval = ratio_of(*a_run(noise, seed, rounds)).ci95
        assert interval is not None
        found += interval[0] <= TRUTH <= interval[1], (interval[1] - interval[0]) / TRUTH
    held, width = (float(it) for it in found / runs)
    return held, width


def main() -> None:
    """Print the table."""
    print("| noise | rounds | interval | width |\n|---|---|---:|---:|")
    for noise in NOISE:
        for rounds in (8, 9, 16, 40, 120, None):
            held, width = coverage(noise, rounds)
            print(f"| {noise} | {rounds or 'until known'} | {held:.1%} | ±{width / 2:.1%} |", flush=True)


if __name__ == "__main__":
    main()
