"""Gates: what a result must keep to, and whether it does, does not, or cannot be told. Pure.

Nearly all of them are ratio tests: a ratio of two streams of blocks that were measured in the same rounds, against a limit.
A ratio test is decided by `ortbench.analysis.intervals`, so it may be looked at after every round. What it tests is the median of
the ratios of pairs of blocks, which is not the ratio of the medians that tables print; where the two lie on different sides of the limit
nothing is decided. Only a baseline that was stored by an earlier run has no rounds in common with the candidate; it goes by
`ortbench.analysis.comparison`.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ortbench.analysis.intervals import ABOVE, BELOW, MedianRatio, blocks, fewest, median_ratio, timed_phase, verdict_of
from ortbench.analysis.series import PERCENTILES, STATISTICS, Key, Point, point_text
from ortbench.core import units
from ortbench.core.errors import BadInput
from ortbench.core.stats import figure_of
from ortbench.facts import Fact, Quantity, Values
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check, check_by, phrase
from ortbench.features.gate.plan import Limits
from ortbench.model.kinds import kind_of
from ortbench.model.metric_names import MetricName
from ortbench.model.metrics import USUAL, Figure, known_or_plain
from ortbench.model.modes import CPU, INFERENCE, LATENCY, MODES, Work
from ortbench.model.result import OK, Case

# What a block of a few runs has: a percentile of four samples would be only another name for the slowest one.
BLOCK_STATISTICS = ("median", "mean", "min")

ALPHA = 0.01  # the chance that a gate fails what is exactly at its limit, over all of its ratio tests; that of each end of an interval to be wrong
# The same where a regression is measured again: it fails by both alone, and other processes tell more than more rounds of the same do.
AGAIN_ALPHA = 0.1


def confidence_of(alpha: float) -> str:
    return f"{1 - 2 * alpha:.0%} CI"


CONFIDENCE = confidence_of(ALPHA)
CANDIDATE, BASELINE = 0, 1  # the sides of a live gate
COPY_SHARE = "copy share"


def ratio_of(ratio: float, low: float | None = None, high: float | None = None) -> Quantity:
    return Quantity(ratio, "ratio", None if low is None or high is None else (low, high))


def verdict_on(low: float | None, high: float | None, limit: float, *, at_most: bool) -> str:
    """The verdict on a ratio that lies between two ends for certain; of None it cannot be told."""
    below, above = (PASSED, FAILED) if at_most else (FAILED, PASSED)
    return {BELOW: below, ABOVE: above}.get(verdict_of((low, high), limit, limit), UNCLEAR)


@dataclass(frozen=True)
class Stream:
    """Blocks of one metric of one mode of one configuration, each reduced to one statistic."""

    configuration: int
    mode: str
    phase: str
    stat: str


@dataclass(frozen=True)
class RatioTest:
    """A ratio of two streams and its limit: the median of `over` / `under`, `at_most` or at least `limit`."""

    name: str
    over: Stream
    under: Stream
    limit: float
    at_most: bool
    what: str
    metric: str = ""
    mode: str = ""  # that it is of; "" for that of both streams
    point: Point = ()

    def check(
        self, found: MedianRatio | None, medians: Callable[[], float] | None = None, confidence: str = CONFIDENCE
    ) -> Check:
        """The verdict as far as it is known; `medians` is the ratio of those of all samples, which must lie on the same side of the
        limit."""
        if found is None:
            return self.unclear(Fact("check-ratio", "missing", self.mode, {"what": self.what}))
        verdict = verdict_on(found.low, found.high, self.limit, at_most=self.at_most)
        values: Values = {
            "what": self.what, "ratio": ratio_of(found.ratio, found.low, found.high), "confidence": confidence, "rounds": found.rounds,
            "limit": f"{self.limit:.4g}",
        }  # fmt: skip
        bound = "at-most" if self.at_most else "at-least"
        fact = Fact("check-ratio", bound if found.low is not None else f"few-{bound}", self.mode, values)
        check = replace(self.unclear(fact), verdict=verdict, **found._asdict())
        if verdict != UNCLEAR and medians is not None:
            of_medians = medians()
            if (found.ratio - self.limit) * (of_medians - self.limit) < 0:  # they lie on different sides of the limit
                doubt = Fact("check-doubt", "medians", self.mode, {"medians": ratio_of(of_medians)})
                return check.and_fact(doubt, verdict=UNCLEAR, doubt=phrase(doubt))
        return check

    def unclear(self, *facts: Fact) -> Check:
        return check_by(
            self.name,
            UNCLEAR,
            *facts,
            limit=self.limit,
            metric=self.metric or None,
            mode=self.mode or self.over.mode,
            point=dict(self.point),
        )


def regression_tests(limits: Limits, modes: Sequence[str], work: Work = INFERENCE) -> list[RatioTest]:
    """Candidate over baseline by metrics of samples and modes; `BadInput` for a metric that blocks, or all modes, have not."""
    assert limits.max_regression is not None  # with a baseline there is one
    ratio_tests = []
    for metric in limits.metrics or (MetricName(None, work.whole, USUAL),):
        if metric.point or metric.best:
            reason = "is of a point of an axis: compare stored results of 'ortbench load' or 'ortbench sweep'"
            raise BadInput(f"--metric {metric.text}: {reason}", "--metric")
        if not known_or_plain(metric.metric).sampled:  # one number, which is compared when all is measured
            continue
        _check_statistic(metric, work.per_sample(metric.metric))
        compared = [mode for mode in modes if metric.mode == mode or (metric.mode is None and limits.covers(mode))]
        chosen = [mode for mode in compared if metric.metric in work.phases(mode)]
        if not chosen:
            none = f"no mode that is measured has it; measured: {', '.join(modes)}"
            raise BadInput(f"--metric {metric.text}: {work.why_without(metric.metric) or none}", "--metric")
        ratio_tests += [_regression(mode, metric, 1 + limits.max_regression, work.whole) for mode in chosen]
    return list(dict.fromkeys(ratio_tests))  # the latency of a loop or a chain has two names


def _check_statistic(metric: MetricName, steps: int | None) -> None:
    if metric.statistic in BLOCK_STATISTICS:
        return
    say = f"--metric {metric.text}: a live gate compares short blocks, which have {', '.join(BLOCK_STATISTICS)}"
    if steps is None or metric.statistic not in PERCENTILES:
        raise BadInput(f"{say}; use a stored --baseline for percentiles", "--metric")
    if steps < (fewest_steps := fewest_samples(metric.statistic)):
        reason = f"and {metric.statistic} of steps from --steps {fewest_steps} on; use more, or a stored --baseline"
        raise BadInput(f"{say}, {reason}", "--metric")


def fewest_samples(percentile: str) -> int:
    """How many samples a percentile takes: of fewer it is nearer to the slowest than to the next, and only another name for it."""
    return math.ceil(1 + 0.5 / (1 - PERCENTILES[percentile]) - 1e-9)


def _regression(mode: str, metric: MetricName, limit: float, whole: str) -> RatioTest:
    figure = Figure(whole if metric.metric == LATENCY else metric.metric, metric.statistic)
    name, phase = check_name(Key(mode, (), figure)), timed_phase(mode, metric.metric, whole)
    over, under = (Stream(configuration, mode, phase, metric.statistic) for configuration in (CANDIDATE, BASELINE))
    return RatioTest(name, over, under, limit, True, f"{name}, candidate to baseline", metric=figure.text)


def check_name(key: Key) -> str:
    """What is compared with the baseline, in a few words that are the same from run to run."""
    return " ".join(filter(None, (key.mode, *key.figure, point_text(key.point))))


def name_at(what: str, point: Point) -> str:
    return " ".join(filter(None, (what, point_text(point))))


def refuse_copy_share(limits: Limits, kind: str, name: str) -> None:
    """Refuse a limit of the share of copies where results of a kind, which a message calls so, have none."""
    if limits.max_copy_share is not None and "max-copy-share" not in kind_of(kind).checks:
        reason = f"is of single inferences; of {name} say --min-speedup device-resident=X"
        raise BadInput(f"--max-copy-share {reason}", "--max-copy-share")


def own_ratio_tests(limits: Limits, work: Work = INFERENCE, point: Point = ()) -> list[RatioTest]:
    """What the candidate's modes must keep to among themselves, at a point; `BadInput` for a limit that work has not."""
    refuse_copy_share(limits, work.kind, work.name)

    def latency_of(mode: str) -> Stream:
        return Stream(CANDIDATE, mode, LATENCY, "median")

    found = []
    for mode, least in limits.min_speedup.items():
        name, what = (name_at(it, point) for it in (f"{mode} speedup", f"speedup of {mode} over cpu-tensors"))
        found.append(RatioTest(name, latency_of(CPU), latency_of(mode), least, False, what, "speedup", mode, point))
    if limits.max_copy_share is not None:
        name, what = name_at(COPY_SHARE, point), "what is left of a run with CPU tensors without its copies"
        rest, least = latency_of(MODES[CPU].without_copies), 1 - limits.max_copy_share
        found.append(RatioTest(name, rest, latency_of(CPU), least, False, what, "copy_share", CPU, point))
    return found


class SequentialTests:
    """Holds ratio tests: takes blocks as they come and says what is decided. What is decided once stays so.

    All ratio_tests of a gate share its error rate `alpha`: the chance that one which is exactly at its limit is decided wrongly.
    `takes` is how many rounds it takes to decide one of them, at least.
    """

    def __init__(self, ratio_tests: Sequence[RatioTest], alpha: float = ALPHA) -> None:
        self.ratio_tests = list(ratio_tests)
        self._confidence = confidence_of(alpha)
        self._alpha = alpha / max(1, len(self.ratio_tests))
        self.needed_rounds = fewest(self._alpha)
        streams = {stream for ratio_test in ratio_tests for stream in (ratio_test.over, ratio_test.under)}
        self._values: dict[Stream, dict[int, float]] = {stream: {} for stream in streams}
        self._samples: dict[Stream, dict[int, Sequence[float]]] = {stream: {} for stream in streams}
        self._ratios: dict[RatioTest, list[float]] = {ratio_test: [] for ratio_test in ratio_tests}
        self._decided: dict[RatioTest, Check] = {}
        self._timed: dict[str, set[str]] = {}

    def add(
        self,
        configuration: int,
        mode: str,
        phase: str,
        round: int,
        samples: Sequence[float],
        point: tuple[str, float] | None = None,
    ) -> None:
        self._timed.setdefault(mode, set()).add(phase)
        for stream, values in self._values.items():
            if (stream.configuration, stream.mode, stream.phase) == (configuration, mode, phase):
                values[round] = STATISTICS[stream.stat](samples)
                self._samples[stream][round] = samples
                for ratio_test, ratios in self._ratios.items():  # those that the block completes
                    over, under = self._values[ratio_test.over].get(round), self._values[ratio_test.under].get(round)
                    if stream in (ratio_test.over, ratio_test.under) and over is not None and under is not None:
                        insort(ratios, _quotient(ratio_test, over, under))

    def _medians(self, ratio_test: RatioTest) -> float:
        """The ratio of the medians of all samples, of the rounds in which both have some."""
        over, under = self._samples[ratio_test.over], self._samples[ratio_test.under]
        rounds = over.keys() & under.keys()
        return _quotient(ratio_test, *(figure_of({it: of[it] for it in rounds}) for of in (over, under)))

    def check(self, ratio_test: RatioTest) -> Check:
        if ratio_test not in self._decided:
            ratios = self._ratios[ratio_test]
            found = median_ratio(ratios, self._alpha) if ratios else None
            of_medians = ratio_test.over.stat == ratio_test.under.stat == "median"
            check = ratio_test.check(
                found, partial(self._medians, ratio_test) if of_medians else None, self._confidence
            )
            if check.verdict == UNCLEAR:
                return check
            self._decided[ratio_test] = check
        return self._decided[ratio_test]

    def progress_rows(self) -> list[tuple[str, str]]:
        """What is known of each ratio test by now: its name, and the ratio with its interval and limit."""
        return [(it.name, _short(it, median_ratio(found, self._alpha))) for it, found in self._ratios.items() if found]

    def needs_more(self, mode: str, point: tuple[str, float] | None = None, rounds: int = 0) -> bool:
        """Whether an undecided ratio test needs a mode, after whole rounds: a phase that is in none of them is never timed."""
        streams = ((test, stream) for test in self.ratio_tests for stream in (test.over, test.under))
        return self.is_open(test for test, stream in streams if stream.mode == mode and self._is_timed(stream))

    def is_open(self, ratio_tests: Iterable[RatioTest]) -> bool:
        return any(self.check(it).verdict == UNCLEAR for it in ratio_tests)

    def _is_timed(self, stream: Stream) -> bool:
        phases = self._timed.get(stream.mode, set())
        return stream.phase in phases or LATENCY not in phases


def _short(ratio_test: RatioTest, found: MedianRatio) -> str:
    low, high = found.low, found.high
    ends = "" if low is None or high is None else f" ({units.ratio(low, 3)}–{units.ratio(high, 3)})"
    bound = f"{'at most' if ratio_test.at_most else 'at least'} {ratio_test.limit:.4g}"
    return f"ratio {units.ratio(found.ratio, 3)}{ends}, must be {bound}"


def _quotient(ratio_test: RatioTest, over: float, under: float) -> float:
    least = known_or_plain(ratio_test.over.phase).unit.least
    return max(over, least) / max(under, least)


def add_cases(sequential: SequentialTests, configuration: int, cases: Sequence[Case]) -> None:
    for case in cases:
        for phase in case.blocks:
            if case.status == OK:
                for number, samples in blocks(case, phase):
                    sequential.add(configuration, case.mode, phase, number, samples)
