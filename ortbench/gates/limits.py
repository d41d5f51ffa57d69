"""What a gate asks: metrics, limits, checks and the verdict that follows from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ortbench.analysis.comparing import verdict
from ortbench.core.errors import CANNOT_TELL, DONE, REGRESSION, BadInput
from ortbench.facts.fact import Fact, Quantity, record
from ortbench.model.metric_names import AxisValue, MetricName
from ortbench.model.metrics import known_or_plain
from ortbench.model.modes import ALL_MODES, CPU, LATENCY, MEMORY_SIDES, MODES, comes_with, no_such
from ortbench.model.schema import Finding
from ortbench.model.slo import parse_slo
from ortbench.plan.compare_options import FIGURES, METRICS
from ortbench.plan.option_types import MODES_ALONE, SHARE, SIZE, SPEEDUPS, TEXT, WHOLE
from ortbench.plan.options import (
    LIMIT,
    LOAD,
    RawOptions,
    build,
    check_values,
    new_option,
    not_negative,
    option,
)
from ortbench.plan.registry import limits_of_kinds

_MEMORY = ("device_memory", "host_memory")

PASSED, FAILED, UNCLEAR = "passed", "failed", "cannot tell"
CODES = {PASSED: DONE, FAILED: REGRESSION, UNCLEAR: CANNOT_TELL}

SLO = new_option(
    "slo", "STAT=TIME", "Require a latency at every rate, or of one shape: p99=20ms.", LOAD, TEXT._replace(parse=parse_slo), commands=("gate",),
)  # fmt: skip
ALPHA = 0.01  # the chance that a gate fails what is exactly at its limit, over all of its ratio tests; that of each end of an interval to be wrong
CONFIDENCE = f"{1 - 2 * ALPHA:.0%} CI"
USUAL_REGRESSION = "5%"  # that a baseline allows, unless told otherwise
_limit = partial(option, panel=LIMIT, commands=("gate",))


@dataclass(frozen=True)
class Limits:
    # by what share it may be slower than the baseline: 0.05 is 5 %
    max_regression: float | None = _limit(
        "max-regression", "P", "Allow at most this regression against the baseline.", kind=SHARE, shown=f"with a baseline {USUAL_REGRESSION}",
        common=("gate",),
    )  # fmt: skip
    # what must not be worse; empty for what the kind of measurement is gated by
    metrics: tuple[MetricName, ...] = _limit(
        "metric", "M", "Gate a metric: latency.p95, throughput@concurrency=4.", kind=METRICS,
        default=(), shown="latency; of a load throughput with --concurrency, latency.p99 with --rate", common=("gate",),
    )  # fmt: skip
    modes: tuple[str, ...] = ()  # the modes that are compared with the baseline; empty for all that were measured
    # the most that statistics of the latency may be at every rate of a load, ns
    slo: Mapping[str, int] = field(default_factory=dict)
    # mode → how many times as fast as `cpu-tensors` it must be
    min_speedup: Mapping[str, float] = _limit(
        "min-speedup",
        "MODE=X",
        "Require a mode to be X times as fast as cpu-tensors.",
        kind=SPEEDUPS,
        default={},
        common=("gate",),
    )
    # of a run with CPU tensors, 0 to 1
    max_copy_share: float | None = _limit(
        "max-copy-share", "P", "Allow this copy share of cpu-tensors at most.", kind=SHARE
    )
    # nodes that may stay on the CPU
    max_cpu_nodes: int | None = _limit(
        "max-cpu-nodes", "N", "Allow N nodes on the CPU at most.", kind=WHOLE, check=not_negative, common=("gate",)
    )
    # max_device_memory, max_host_memory: what a mode may take, bytes
    max_device_memory: int | None = _limit(
        "max-device-memory", "SIZE", "Allow a mode at most this much device memory: 2GB.", kind=SIZE
    )
    max_host_memory: int | None = _limit(
        "max-host-memory", "SIZE", "Allow a mode at most this much host memory: 512MiB.", kind=SIZE
    )
    # how far outputs may have moved: by metric of outputs, what it must be at least, or at most, as the metric has it
    outputs: Mapping[str, float] = _limit(
        "limit", "METRIC=X", "Limit how far outputs moved: outputs.sqnr=30, outputs.top1=99%.", kind=FIGURES, default={},
    )  # fmt: skip
    # modes that must work
    require_modes: tuple[str, ...] = _limit(
        "require-mode", "MODE", "Require a mode to work.", kind=MODES_ALONE, default=()
    )

    own: Mapping[str, Any] = field(default_factory=dict)  # limits of features' kinds, by option

    @property
    def any(self) -> bool:
        return replace(self, metrics=(), modes=()) != Limits()

    @property
    def most_memory(self) -> dict[str, int | None]:
        """What a mode may take of each side's memory, bytes; None for what is not limited."""
        return dict(zip(MEMORY_SIDES, (self.max_device_memory, self.max_host_memory), strict=True))

    @property
    def of_memory(self) -> bool:
        compared = self.max_regression is not None and any(metric.metric in _MEMORY for metric in self.metrics)
        return compared or any(most is not None for most in self.most_memory.values())

    @property
    def kinds(self) -> set[str]:
        """The kinds of measurement that alone have its metrics."""
        return {metric.metric.partition(".")[0] for metric in self.metrics}

    def needed(self) -> set[str]:
        """The modes that must have been measured whatever else was."""
        needed = {metric.mode for metric in self.metrics if metric.mode} if self.max_regression is not None else set()
        if self.min_speedup:
            needed |= {CPU, *self.min_speedup}
        if self.max_copy_share is not None:
            needed |= {CPU, MODES[CPU].without_copies}
        return needed | set(self.require_modes)

    def covers(self, mode: str) -> bool:
        return not self.modes or mode in self.modes

    def phases(self) -> set[str]:
        metrics = self.metrics if self.max_regression is not None else ()
        return {LATENCY, *(comes_with(it.metric) for it in metrics if known_or_plain(it.metric).sampled)}


def limits_of(given: RawOptions, has_baseline: bool, modes: Sequence[str]) -> Limits:
    """The limits that options describe, with a baseline a regression of 5 % too; `modes` are compared with it, or all.

    Raises `BadInput` for a mode that there is not.
    """
    regression = given.get("max-regression", SHARE.parse(USUAL_REGRESSION, "")) if has_baseline else None
    own = {flag: given[flag] for flag in limits_of_kinds() if flag in given}
    limits = build(Limits, given, modes=tuple(modes), slo=given.get(SLO.flag, {}), max_regression=regression, own=own)
    check_values(limits)
    for name in modes:
        if name not in ALL_MODES:
            raise BadInput(f"--mode {no_such(name)}", "--mode")
    return limits


@dataclass(frozen=True)
class Check:
    name: str  # what, in a few words; the same from run to run
    verdict: str  # `PASSED`, `FAILED` or `UNCLEAR`
    text: str  # the figures and the limit, for people: the sentences of its facts
    # ratio, low, high: of the figures, where two were compared, by the sequential test where there are `rounds`; else None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    limit: float | None = None  # of the ratio
    rounds: int | None = None  # pairs of blocks it rests on; None for one that rests on stored medians
    doubt: str | None = None  # why nothing is told although the interval lies on one side of the limit, else None
    # metric, mode, point: of what it is, as ``--metric`` has them: ``latency.median``, ``cpu-tensors``, ``{"batch": 8}``
    metric: str | None = None
    mode: str | None = None
    point: Mapping[str, AxisValue] = field(default_factory=dict, hash=False)
    findings: Sequence[Finding] = field(default_factory=list, compare=False)  # the same as its text, as data

    def but(self, fact: Fact, **changes: Any) -> Check:
        """The same with another fact, and with what else is changed."""
        from ortbench.facts.sentences import phrase  # which options need not wait for

        return replace(self, text=phrase(fact), findings=[record(fact)], **changes)

    def and_fact(self, fact: Fact, **changes: Any) -> Check:
        """The same with one more fact, and with what is changed."""
        from ortbench.facts.sentences import phrase

        text, findings = f"{self.text}; {phrase(fact)}", [*self.findings, record(fact)]
        return replace(self, text=text, findings=findings, **changes)


def check_by(name: str, verdict: str, *facts: Fact, **more: Any) -> Check:
    """A check that says what facts say."""
    from ortbench.facts.sentences import phrase

    return Check(name, verdict, "; ".join(map(phrase, facts)), findings=[*map(record, facts)], **more)


def ratio_of(ratio: float, low: float | None = None, high: float | None = None) -> Quantity:
    """A ratio of a check, with its interval."""
    return Quantity(ratio, "ratio", None if low is None or high is None else (low, high))


def verdict_on(low: float | None, high: float | None, limit: float, *, at_most: bool) -> str:
    """The verdict on a ratio that lies between two ends for certain; of None it cannot be told."""
    below, above = (PASSED, FAILED) if at_most else (FAILED, PASSED)
    return {verdict.BELOW: below, verdict.ABOVE: above}.get(verdict.verdict_of((low, high), limit, limit), UNCLEAR)


def overall(checks: Sequence[Check]) -> str:
    """One verdict: failed if any failed, else cannot tell if any could not be told."""
    verdicts = {check.verdict for check in checks}
    return next((verdict for verdict in (FAILED, UNCLEAR) if verdict in verdicts), PASSED)
