"""Gates: what a result must keep to, and whether it does, does not, or cannot be told. Pure.

Nearly all of them are contests: a ratio of two streams of blocks that were measured in the same rounds, against a limit.
A contest is decided by `ortbench.sequential`, so it may be looked at after every round. Only a baseline that was stored
by an earlier run has no rounds in common with the candidate; it goes by `ortbench.compare.stored_ratio`.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ortbench import units
from ortbench.compare import STATISTICS, Spread, stored_ratio
from ortbench.errors import CANNOT_TELL, DONE, REGRESSION, BadInput
from ortbench.pairs import blocks, timed_phase
from ortbench.plan import CPU, MODES, PHASES, RESIDENT
from ortbench.result import OK, PHASE_NAMES, Result
from ortbench.schedule import TOTAL
from ortbench.sequential import Interval, median_ratio

PASSED, FAILED, UNCLEAR = "passed", "failed", "cannot tell"
CODES = {PASSED: DONE, FAILED: REGRESSION, UNCLEAR: CANNOT_TELL}

ALPHA = 0.01  # the chance that a gate fails what is exactly at its limit, over all of its contests
# What a block of a few runs has: a percentile of four samples would be only another name for the slowest one.
BLOCK_STATISTICS = ("median", "mean", "min")

CANDIDATE, BASELINE = 0, 1  # the sides of a live gate
COPY_SHARE = "copy share"


@dataclass(frozen=True)
class Metric:
    """What is compared: a statistic of a phase, of one mode or (None) of all."""

    mode: str | None
    phase: str
    stat: str

    @property
    def text(self) -> str:
        """As it is written on the command line."""
        return ".".join(filter(None, (self.mode, self.phase, self.stat)))


DEFAULT_METRIC = Metric(None, TOTAL, "median")


def parse_metric(text: str) -> Metric:
    """``device.total.median``, or less: ``total.median`` of every mode, ``total`` for its median, ``p95`` of the total.

    Raises:
        BadInput: a part that is not a mode, a phase or a statistic.
    """
    mode, phase, stat = None, None, None
    for part in text.split("."):
        if part in MODES and mode is None and phase is None and stat is None:
            mode = part
        elif part in PHASE_NAMES and phase is None and stat is None:
            phase = part
        elif part in STATISTICS and stat is None:
            stat = part
        else:
            raise BadInput(
                f"--metric {text!r}: {part!r} does not fit; write mode.phase.statistic such as device.total.median, with "
                f"{', '.join(MODES)}; {', '.join(PHASE_NAMES)}; {', '.join(STATISTICS)}"
            )
    return Metric(mode, phase or TOTAL, stat or "median")


@dataclass(frozen=True)
class Limits:
    """What a candidate must keep to.

    Attributes:
        max_regression: by what share it may be slower than the baseline: 0.05 is 5 %.
        metrics: what must not be slower.
        modes: the modes that are held against the baseline; empty for all that were measured.
        min_speedup: mode → how many times as fast as `cpu` it must be.
        max_copy_share: of a run with CPU tensors, 0 to 1.
        max_cpu_nodes: nodes that may stay on the CPU.
        require_modes: modes that must work.
    """

    max_regression: float | None = None
    metrics: tuple[Metric, ...] = (DEFAULT_METRIC,)
    modes: tuple[str, ...] = ()
    min_speedup: Mapping[str, float] = field(default_factory=dict)
    max_copy_share: float | None = None
    max_cpu_nodes: int | None = None
    require_modes: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether there is anything to check."""
        alone = (self.max_copy_share, self.max_cpu_nodes, self.max_regression)
        return bool(self.min_speedup or self.require_modes or any(value is not None for value in alone))

    def needed(self) -> set[str]:
        """The modes that must have been measured whatever else was."""
        needed = {metric.mode for metric in self.metrics if metric.mode} if self.max_regression is not None else set()
        if self.min_speedup:
            needed |= {CPU, *self.min_speedup}
        if self.max_copy_share is not None:
            needed |= {CPU, RESIDENT}
        return needed | set(self.require_modes)

    def held(self, mode: str) -> bool:
        """Whether a mode is held against the baseline."""
        return not self.modes or mode in self.modes

    def phases(self) -> set[str]:
        """The phases that must be timed."""
        return {TOTAL, *(metric.phase for metric in self.metrics)} if self.max_regression is not None else {TOTAL}


@dataclass(frozen=True)
class Check:
    """One thing that was checked.

    Attributes:
        name: what, in a few words; the same from run to run.
        verdict: `PASSED`, `FAILED` or `UNCLEAR`.
        text: the figures and the limit, for people.
        ratio, low, high: of the contest, where it was one; None where there was too little to say.
        limit: of the ratio.
        rounds: pairs of blocks it rests on; None for one that rests on stored medians.
    """

    name: str
    verdict: str
    text: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None
    rounds: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """For the JSON report."""
        return asdict(self)


def overall(checks: Sequence[Check]) -> str:
    """One verdict: failed if any failed, else cannot tell if any could not be told."""
    verdicts = {check.verdict for check in checks}
    return next((verdict for verdict in (FAILED, UNCLEAR) if verdict in verdicts), PASSED)


# Contests


@dataclass(frozen=True)
class Stream:
    """Blocks of one phase of one mode of one side, each reduced to one statistic."""

    side: int
    mode: str
    phase: str
    stat: str


@dataclass(frozen=True)
class Contest:
    """A ratio of two streams and its limit: the median of `over` / `under`, `at_most` or at least `limit`."""

    name: str
    over: Stream
    under: Stream
    limit: float
    at_most: bool
    what: str

    def check(self, found: Interval | None) -> Check:
        """The verdict as far as it is known."""
        if found is None:
            return Check(self.name, UNCLEAR, f"{self.what}: was not measured", limit=self.limit)
        verdict = UNCLEAR
        if found.low is not None and found.high is not None:
            if found.low > self.limit:
                verdict = FAILED if self.at_most else PASSED
            elif found.high < self.limit:
                verdict = PASSED if self.at_most else FAILED
        bound = f"must be {'at most' if self.at_most else 'at least'} ×{self.limit:.4g}"
        where = "too few rounds for an interval"
        if found.low is not None and found.high is not None:
            where = f"{units.ratio(found.low, 3)} to {units.ratio(found.high, 3)}"
        text = f"{self.what}: ×{units.ratio(found.ratio, 3)} ({where}, {found.rounds} rounds), {bound}"
        return Check(self.name, verdict, text, found.ratio, found.low, found.high, self.limit, found.rounds)


def regression_contests(limits: Limits, modes: Sequence[str]) -> list[Contest]:
    """Candidate over baseline, for every metric and mode.

    Raises:
        BadInput: a metric that blocks do not have, or that no mode has.
    """
    if limits.max_regression is None:
        return []
    contests = []
    for metric in limits.metrics:
        if metric.stat not in BLOCK_STATISTICS:
            raise BadInput(
                f"--metric {metric.text}: a live gate compares short blocks, which have {', '.join(BLOCK_STATISTICS)}; "
                "use a stored --baseline for percentiles"
            )
        compared = [mode for mode in modes if metric.mode == mode or (metric.mode is None and limits.held(mode))]
        chosen = [mode for mode in compared if metric.phase in PHASES[mode]]
        if not chosen:
            raise BadInput(f"--metric {metric.text}: no mode that is measured has it; measured: {', '.join(modes)}")
        contests += [_regression(mode, metric, 1 + limits.max_regression) for mode in chosen]
    return contests


def _regression(mode: str, metric: Metric, limit: float) -> Contest:
    name = f"{mode} {metric.phase} {metric.stat}"
    over, under = (Stream(side, mode, timed_phase(mode, metric.phase), metric.stat) for side in (CANDIDATE, BASELINE))
    return Contest(name, over, under, limit, at_most=True, what=f"{name}, candidate to baseline")


def own_contests(limits: Limits) -> list[Contest]:
    """What the candidate's modes must keep to among themselves."""
    cpu = Stream(CANDIDATE, CPU, TOTAL, "median")
    found = [
        Contest(
            f"{mode} speedup",
            cpu,
            Stream(CANDIDATE, mode, TOTAL, "median"),
            least,
            at_most=False,
            what=f"{mode} is as fast as cpu",
        )
        for mode, least in limits.min_speedup.items()
    ]
    if limits.max_copy_share is not None:
        resident = Stream(CANDIDATE, RESIDENT, TOTAL, "median")
        least = 1 - limits.max_copy_share
        what = "what is left of a run with CPU tensors without its copies"
        found.append(Contest(COPY_SHARE, resident, cpu, least, at_most=False, what=what))
    return found


class Jury:
    """Holds contests: takes blocks as they come and says what is decided. What is decided once stays so.

    Args:
        contests: all that count for one gate; they share its error rate.
        alpha: the chance that a contest which is exactly at its limit is decided wrongly, over all of them.
    """

    def __init__(self, contests: Sequence[Contest], alpha: float = ALPHA) -> None:
        self.contests = list(contests)
        self._alpha = alpha / max(1, len(self.contests))
        streams = {stream for contest in contests for stream in (contest.over, contest.under)}
        self._values: dict[Stream, dict[int, float]] = {stream: {} for stream in streams}
        self._ratios: dict[Contest, list[float]] = {contest: [] for contest in contests}
        self._decided: dict[Contest, Check] = {}

    def add(self, side: int, mode: str, phase: str, round: int, samples: Sequence[int]) -> None:
        """A block's samples, ns."""
        for stream, values in self._values.items():
            if (stream.side, stream.mode, stream.phase) == (side, mode, phase):
                values[round] = STATISTICS[stream.stat](samples)
                self._pair(stream, round)

    def _pair(self, stream: Stream, round: int) -> None:
        """The ratios that a new block completes."""
        for contest, ratios in self._ratios.items():
            over, under = self._values[contest.over].get(round), self._values[contest.under].get(round)
            if stream in (contest.over, contest.under) and over is not None and under is not None:
                # A block that took less than the clock's step counts as one step, so that its ratio exists.
                insort(ratios, max(over, 1) / max(under, 1))

    def check(self, contest: Contest) -> Check:
        """What is known of a contest."""
        if contest not in self._decided:
            ratios = self._ratios[contest]
            check = contest.check(median_ratio(ratios, self._alpha) if ratios else None)
            if check.verdict == UNCLEAR:
                return check
            self._decided[contest] = check
        return self._decided[contest]

    def open_modes(self) -> set[str]:
        """The modes that an undecided contest needs."""
        undecided = [contest for contest in self.contests if self.check(contest).verdict == UNCLEAR]
        return {stream.mode for contest in undecided for stream in (contest.over, contest.under)}


def fill(jury: Jury, side: int, result: Result) -> None:
    """Hand a jury the blocks of a finished result."""
    for case in result.cases:
        for phase in case.blocks:
            if case.status == OK:
                for number, samples in blocks(case, phase):
                    jury.add(side, case.mode, phase, number, samples)


# What a result shows on its own


def check_alone(result: Result, limits: Limits) -> list[Check]:
    """Everything that needs no baseline.

    Raises:
        BadInput: a mode that a limit needs was not measured.
    """
    contests = own_contests(limits)
    jury = Jury(contests)
    fill(jury, CANDIDATE, result)
    return [*check_facts(result, limits), *(check_contest(result, jury, contest) for contest in contests)]


def check_facts(result: Result, limits: Limits) -> list[Check]:
    """What needs no statistics: modes that must work, nodes that may stay on the CPU."""
    checks = []
    for mode in limits.require_modes:
        case = next((case for case in result.cases if case.mode == mode), None)
        verdict = PASSED if case is not None and case.status == OK else FAILED
        text = f"{mode} was not asked for" if case is None else f"{mode} is {case.status}" + _because(case.reason)
        checks.append(Check(f"mode {mode}", verdict, text))
    if limits.max_cpu_nodes is not None:
        checks.append(_check_nodes(result, limits.max_cpu_nodes))
    return checks


def check_contest(result: Result, jury: Jury, contest: Contest) -> Check:
    """A contest between the candidate's own modes: one that does not work fails it.

    Raises:
        BadInput: a mode was not asked for.
    """
    if contest.name == COPY_SHARE and result.target["memory"]["kind"] == "host":
        return Check(contest.name, PASSED, f"{result.target['ep']} computes in host memory: nothing is copied")
    for mode in (contest.over.mode, contest.under.mode):
        case = next((case for case in result.cases if case.mode == mode), None)
        if case is None:
            measured = ", ".join(case.mode for case in result.cases)
            raise BadInput(f"{contest.name}: needs mode {mode}, which was not measured; measured: {measured}")
        if case.status != OK:
            text = f"{contest.what}: {mode} is {case.status}{_because(case.reason)}"
            return Check(contest.name, FAILED, text, limit=contest.limit)
    check = jury.check(contest)
    return _as_share(check) if contest.name == COPY_SHARE else check


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _check_nodes(result: Result, most: int) -> Check:
    if result.placement["nodes"] is None:
        return Check("cpu nodes", UNCLEAR, "where nodes run is not known for this model and EP")
    operators = result.placement["cpu_operators"]
    count = sum(operators.values())
    listed = f" ({', '.join(operators)})" if operators else ""
    text = f"{count} node(s) stay on the CPU{listed}, at most {most}"
    return Check("cpu nodes", PASSED if count <= most else FAILED, text)


def _as_share(check: Check) -> Check:
    """The contest of the copy share in words of shares."""
    assert check.limit is not None
    most = 1 - check.limit
    if check.ratio is None:
        text = f"copies in a run with CPU tensors: was not measured, at most {units.share(most, 1)}"
        return Check(check.name, UNCLEAR, text)
    share = f"≈{units.share(max(0.0, 1 - check.ratio), 1)}"
    if check.low is not None and check.high is not None:
        low, high = (units.share(max(0.0, 1 - end), 1) for end in (check.high, check.low))
        share += f" ({low} to {high}, {check.rounds} rounds)"
    text = f"copies in a run with CPU tensors: {share}, at most {units.share(most, 1)}"
    return Check(check.name, check.verdict, text, check.ratio, check.low, check.high, check.limit, check.rounds)


# A stored baseline


def check_stored(result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """The candidate against a baseline of an earlier run, with the noise that both recorded.

    Raises:
        BadInput: nothing that both have.
    """
    if limits.max_regression is None:
        return []
    lost = check_lost_modes(result, baseline, limits)
    checks = list(lost)
    for metric in limits.metrics:
        found = []
        for mode in [metric.mode] if metric.mode else filter(limits.held, MODES):
            one, other = result.case(mode), baseline.case(mode)
            spread = stored_ratio(other, one, metric.phase, metric.stat) if one and other else None
            if spread is not None:
                name = f"{mode} {metric.phase} {metric.stat}"
                found.append(_check_ratio(name, spread, 1 + limits.max_regression))
        if not found and not lost:
            raise BadInput(f"--metric {metric.text}: not measured in both results")
        checks += found
    return checks


def check_lost_modes(result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """Modes that the baseline has and the candidate, which was asked for them too, has not."""
    return [
        Check(f"mode {case.mode}", FAILED, f"{case.mode} is {case.status}{_because(case.reason)}; the baseline has it")
        for case in result.cases
        if case.status != OK and limits.held(case.mode) and baseline.case(case.mode) is not None
    ]


def _check_ratio(name: str, found: Spread, most: float) -> Check:
    verdict, where = UNCLEAR, "too few blocks to know the noise"
    if found.low is not None and found.high is not None:
        verdict = FAILED if found.low > most else PASSED if found.high < most else UNCLEAR
        where = f"{units.ratio(found.low, 3)} to {units.ratio(found.high, 3)} with the noise of both runs"
    figures = f"{units.duration(found.value_ns)} against {units.duration(found.base_ns)}"
    text = f"{name}: {figures}, ×{units.ratio(found.ratio, 3)} ({where}), must be at most ×{most:.4g}"
    return Check(name, verdict, text, found.ratio, found.low, found.high, most)
