"""How often the 95 % interval of a ratio of medians holds the truth: thousands of simulated runs of every kind of noise.

    python -m tests.benchmarks.coverage > reports/coverage.md

Two modes take turns, one a quarter slower than the other. Both have the same noise, so that the true ratio of their medians is 1.25
whatever the noise is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ortbench.analysis.comparison import BETWEEN_RUNS
from ortbench.analysis.intervals import SAME, verdict_of
from ortbench.core.stats import FEW, Ratio, Rounds, figure_of, ratio_of, sign_test_interval
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.measure.progress import AGREEMENT, agree
from ortbench.measure.schedule import MIN_ROUNDS, is_precise
from ortbench.plan.plan import PROCESSES
from tests.benchmarks import stored
from tests.benchmarks.gate_replay import KINDS, STORED_S, Kind, Trace, Verdict, replay, stored_gate
from tests.benchmarks.gate_trace import FOLDER

Times = NDArray[np.float64]  # of both modes, shape (2, rounds, samples of a block)

TRUTH = 1.25
RUNS = 500
SAMPLES = 10  # of a block
COMPARED = 200  # pairs of runs at different times
MOST_ROUNDS = 40  # of a run that ends when its medians are known
PRECISION = 0.01
SPREADS = 0.0, 0.01, 0.03, 0.1  # of ratios between processes
BEFORE, AFTER = 20, 13  # rounds of a process of a default run with four modes on host memory, of blocks of 20 ms


def samples(random: np.random.Generator, rounds: int) -> Times:
    """What a run of a model has by itself: a few percent, to the slow side."""
    return np.exp(0.05 * np.abs(random.standard_normal((2, rounds, SAMPLES))) ** 1.5)


def blocks_apart(random: np.random.Generator, rounds: int, by: float) -> Times:
    """What a block has by itself, as caches and clocks are what they are when it begins."""
    return np.exp(by * random.standard_normal((2, rounds, 1)))


def steady(random: np.random.Generator, rounds: int) -> Times:
    return samples(random, rounds) * blocks_apart(random, rounds, 0.02)


def drifting(trend: float, walk: float) -> Callable[[np.random.Generator, int], Times]:
    """The machine gets slower by a trend, and faster and slower by a random walk from round to round, for both modes alike."""

    def made(random: np.random.Generator, rounds: int) -> Times:
        way = trend * np.linspace(0, 1, rounds) + np.cumsum(walk * random.standard_normal(rounds))
        return steady(random, rounds) * np.exp(way)[None, :, None]

    return made


def in_bursts(length: float) -> Callable[[np.random.Generator, int], Times]:
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


def two_humps(share: float, by_block: float = 0.0) -> Callable[[np.random.Generator, int], Times]:
    """A share of the runs, which may differ from block to block, takes two and a half times as long."""

    def made(random: np.random.Generator, rounds: int) -> Times:
        of_block = np.clip(share + by_block * random.standard_normal((2, rounds, 1)), 0, 1)
        return steady(random, rounds) * np.where(random.random((2, rounds, SAMPLES)) < of_block, 2.5, 1)

    return made


NOISE: dict[str, Callable[[np.random.Generator, int], Times]] = {
    "steady": steady,
    "drift: 5 %, and 0.5 % a round": drifting(0.05, 0.005),
    "bursts of 4 blocks": in_bursts(4),
    "bursts of 20 blocks": in_bursts(20),
    "two humps, 30 % in the other": two_humps(0.3),
    "two humps, 15 to 45 % by block": two_humps(0.3, 0.15),
}
HARDER = {
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
    random = np.random.default_rng(seed)
    times = {**NOISE, **HARDER}[noise](random, rounds or MOST_ROUNDS) * 1e6
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


def plain(one: Side, other: Side) -> Ratio:
    """The bootstrap's plain percentile interval, by the same resamples."""
    rounds = Rounds(one.keys())
    drawn = rounds.figures(one) / rounds.figures(other)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Ratio(1, (float(low), float(high)))


def signs(one: Side, other: Side) -> Ratio:
    """The sign test's interval of the median of paired ratios, which is another number than the ratio of the medians."""
    return Ratio(1, sign_test_interval([float(np.median(one[it]) / np.median(other[it])) for it in one]))


Method = Callable[[Side, Side], Ratio]


def coverage(
    noise: str, rounds: int | None, runs: int, methods: Sequence[Method] = (ratio_of,)
) -> list[tuple[float, float]]:
    """How often the interval of each method holds the truth, and how wide it is on average, as a share."""
    found = np.zeros((len(methods), 2))
    for seed in range(runs):
        sides = a_run(noise, seed, rounds)
        for number, method in enumerate(methods):
            interval = method(*sides).ci95
            assert interval is not None
            found[number] += interval[0] <= TRUTH <= interval[1], (interval[1] - interval[0]) / TRUTH
    return [(float(held), float(width)) for held, width in found / runs]


def main() -> None:
    """Print the report."""
    beside = 100 * NormalDist().inv_cdf(0.975) * math.sqrt(0.95 * 0.05 / RUNS)
    print(_ABOUT.format(runs=RUNS, beside=beside, samples=SAMPLES, most=MOST_ROUNDS, precision=PRECISION))
    for title, of in (("## Noise as machines have it", NOISE), ("## Harder", HARDER)):
        print(f"\n{title}\n")
        print("| noise | rounds | interval | width | plain percentiles | sign test of pairs |")
        print("|---|---|---:|---:|---:|---:|")
        for noise in of:
            for rounds in (8, 9, 16, 40, 120, None):
                own, percentile, sign = coverage(noise, rounds, RUNS, (ratio_of, plain, signs))
                said = "until known" if rounds is None else rounds
                print(
                    f"| {noise} | {said} | {own[0]:.1%} | ±{own[1] / 2:.1%} | {percentile[0]:.1%} | {sign[0]:.1%} |",
                    flush=True,
                )
    print(_DEFAULT.format(agreement=AGREEMENT, few=FEW, most=PROCESSES, before=BEFORE, after=AFTER))
    for noise in {**NOISE, **HARDER}:
        for spread in SPREADS:
            before, now = (default_run(noise, spread, it) for it in (False, True))
            cells = [f"{held:.1%} | ±{width / 2:.1%} | {same:.0%}" for held, width, same, _ in (before, now)]
            print(f"| {noise} | {spread:.0%} | {' | '.join(cells)} | {now[-1]:.0%} |", flush=True)
    print(_BETWEEN_RUNS)
    for noise in ("quiet", "loaded"):
        trace = Trace.read(FOLDER / f"noise-{noise}.npz")
        drawn, parts = (wrong(trace, gate) for gate in (drawn_apart, stored_gate))
        print(f"| {noise} | {drawn:.1%} | {parts:.1%} |", flush=True)
    print(_STORED.format(between=BETWEEN_RUNS))
    for what, pairs, held, width in stored.rows():
        print(f"| {what} | {pairs} | {held:.1%} | ±{width:.0%} |", flush=True)


# The default run


def default_run(noise: str, spread: float, until_agreed: bool, runs: int = RUNS) -> tuple[float, float, float, float]:
    """How often the interval of a default run holds the truth, how wide it is, as a share, how often it says that modes are the same
    where they are, and how often `FEW` processes are enough."""
    found = np.zeros(4)
    rounds, fewest = (AFTER, -(-MIN_ROUNDS // FEW)) if until_agreed else (BEFORE, -(-MIN_ROUNDS // PROCESSES))
    for seed in range(runs):
        random = np.random.default_rng(seed)
        times = {**NOISE, **HARDER}[noise](random, PROCESSES * rounds) * 1e6
        times[0] *= TRUTH
        sides: tuple[Side, Side] = {}, {}
        begun: list[int] = []
        ratios: list[float] = []
        for process in range(PROCESSES):
            part = times[:, process * rounds : (process + 1) * rounds]
            part[0] *= math.exp(spread * random.standard_normal())
            looks = range(fewest, rounds)
            part = part[:, : next((it for it in looks if _is_known(part[:, :it])), rounds)]
            begun.append(len(sides[0]))
            for side, blocks in zip(sides, part, strict=True):
                side |= {begun[-1] + number: block.tolist() for number, block in enumerate(blocks)}
            ratios.append(float(np.median(part[0]) / np.median(part[1])))
            if until_agreed and agree(ratios):
                break
        interval = ratio_of(*sides, processes=begun).ci95
        assert interval is not None
        low, high = interval
        is_same = verdict_of((low / TRUTH, high / TRUTH)) == SAME
        found += low <= TRUTH <= high, (high - low) / TRUTH, is_same, len(begun) == FEW
    held, width, same, few = (float(it) for it in found / runs)
    return held, width, same, few


# Results of different runs


def wrong(trace: Trace, gate: Callable[..., Verdict]) -> float:
    """How often a model is called more than 5 % slower than itself, some minutes later."""
    verdicts = [verdict for verdict, _ in replay(trace, KINDS[0], gate, True, COMPARED)]
    return verdicts.count(FAILED) / len(verdicts)


def drawn_apart(trace: Trace, kind: Kind, number: int, start_s: float, apart_s: float) -> Verdict:
    """A gate with an interval by resamples of each of two runs, and what runs differ by besides."""
    figures, rounds = [], Rounds(())
    for shift, (lane, begin) in enumerate(zip(kind.lanes(number), (start_s + apart_s, start_s), strict=True)):
        of_run = range(trace.after(begin), trace.after(begin + STORED_S))
        blocks = {it: trace.samples[it, lane].tolist() for it in of_run}
        rounds = Rounds(blocks.keys())
        figures.append((figure_of(blocks), np.roll(rounds.figures(blocks), shift)))  # rolled, resamples are no pairs
    (one, ones), (other, others) = figures
    low, high = rounds.interval(ones / others, one / other)
    most = 1 + kind.limit
    if low / (1 + BETWEEN_RUNS) > most:
        return FAILED, 0.0
    return (PASSED if high * (1 + BETWEEN_RUNS) < most else UNCLEAR), 0.0


_ABOUT = """# How often the interval of a ratio holds the truth

The ratio of two medians and its 95 % interval (`ortbench/core/stats.py`) in {runs} simulated runs of each kind, which is
±{beside:.1f} % of what is shown. Blocks have {samples} samples. "Until known" is a run that ends as the schedule ends one: when the interval of both
medians is within ±{precision:.0%}, looked at from the ninth round on, or after {most} rounds. *Plain percentiles* are the bootstrap's without the
correction for few rounds; the *sign test of pairs* is of the median of paired ratios, which is what ortbench printed before and another
number. All of it is made by `python -m tests.benchmarks.coverage` and comes out the same each time."""

_DEFAULT = """
## The default run

`ortbench run` in four modes on host memory, without an option that says how much is measured. Figures of processes differ by a *spread*, the standard deviation of the
ratio in one; nothing within a process shows it. Before: {most} processes of {before} rounds. Now: up to {after} rounds each, {few} processes, and {most} where ratios are
not within ±{agreement:.0%} of their middle. Either ends a process early when the medians are known to ±1%. The interval is by processes. *Three are
enough* is how often they agree. With a spread of 10% they do by chance, and their interval is then often too narrow: the share that holds the
truth counts these runs. *Same* is how often two modes that take the same time are said to, within ±2%; else it cannot tell. `--duration 5s`
measures as before.

| noise | spread | before | width | same | now | width | same | three are enough |
|---|---:|---:|---:|---:|---:|---:|---:|---:|"""

_BETWEEN_RUNS = """
## Results of different runs

How often a stored result is called more than 5 % slower than one of the same model some minutes before, on the
[recorded noise](gate/README.md#replayed-gates), 200 pairs of runs of 5 s each. Resamples of a run know nothing of what differs between runs,
so a comparison of stored results does not go by them: its interval is by the spread of the parts of both runs.

| noise | by resamples of either run | by the parts of both |
|---|---:|---:|"""

_STORED = """
## Stored comparisons

Intervals of comparisons of two runs at different times, of runs taken in 75 minutes on a machine of two cores on which others used 40 to 90 %
of both, in bursts (`python -m tests.benchmarks.stored`, [stored-runs.json](stored-runs.json)). The truth is known: a model against itself,
or against one that does 10 % more work. They are by the spread of eight parts of either run, by what waits for a CPU made longer, and by {between:.0%}
for what no run sees in itself; of several runs of each configuration by the spread between these. `tiny` takes 3 µs, so that waits hit few of its
inferences; each of `chain`, 5 ms, was hit, took up to five times as long, and nothing can be told of it. Of all pairs 97 % hold the truth. Those
of short runs of `tiny` hold it in 82 %: in the last half hour its runs differed by up to 11 %, by what neither waits nor parts of a run show.
With 5 % in place of {between:.0%} they would in 94 %, and runs of a quiet machine ([replayed gates](gate/README.md#replayed-gates)) in over 99 %, where {between:.0%}
is enough. Several runs of each configuration need no such figure.

| pair | pairs | holds the truth | width |
|---|---:|---:|---:|"""

if __name__ == "__main__":
    main()
