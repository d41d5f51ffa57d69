"""What a gate asks: the candidate, metrics and limits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.model.metric_names import MetricName, parse_slo
from ortbench.model.metrics import Group, known_or_plain
from ortbench.model.modes import CPU, LATENCY, MEMORY_OWNERS, MODES, comes_with
from ortbench.plan.baseline import STORED_BASELINE as STORED_BASELINE
from ortbench.plan.baseline import TYPED_BASELINE as TYPED_BASELINE
from ortbench.plan.option_types import (
    FLAG,
    MODEL,
    MODES_ALONE,
    SHARE,
    SIZE,
    SPEEDUPS,
    TEXT,
    TIME,
    WHOLE,
    check_modes,
    check_seconds,
)
from ortbench.plan.options import (
    LIMIT,
    LOAD,
    MEASURED,
    OTHERS,
    RUNS,
    RawOptions,
    build,
    check_values,
    limits_of_kinds,
    new_option,
    not_negative,
    option,
    plans_of_features,
)
from ortbench.plan.plan import Plan
from ortbench.plan.plan_builder import FIGURES, METRICS, planner_of

_MEMORY = ("device_memory", "host_memory")

SLO = new_option(
    "slo", "STAT=TIME", "Require a latency at every rate, or of one shape: p99=20ms.", LOAD, TEXT._replace(parse=parse_slo), commands=("gate",),
    is_in_suites=False,
)  # fmt: skip
DURATION = new_option(
    "duration", "TIME", "Measure each mode or load point for at most TIME.", MEASURED, TIME, default=60.0, check=check_seconds,
    commands=("gate",), common=("gate",), is_live_only=True, is_in_suites=False,
)  # fmt: skip
USUAL_REGRESSION = "5%"  # that a baseline allows, unless told otherwise
_limit = partial(option, panel=LIMIT, commands=("gate",))

CANDIDATE = new_option(
    "model", "MODEL", "Measure this model live, as the candidate.", RUNS, MODEL,
    commands=("gate",), common=("gate",), is_in_suites=False,
)  # fmt: skip
FOR_BISECT = new_option(
    "for-bisect", "", "End as 'git bisect run' wants it: 0 good, 1 bad, 125 cannot tell.", OTHERS, FLAG,
    commands=("gate",), is_in_suites=False, is_in_python=False,
)  # fmt: skip


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
        return dict(zip(MEMORY_OWNERS, (self.max_device_memory, self.max_host_memory), strict=True))

    @property
    def of_memory(self) -> bool:
        compared = self.max_regression is not None and any(metric.metric in _MEMORY for metric in self.metrics)
        return compared or any(most is not None for most in self.most_memory.values())

    @property
    def kinds(self) -> set[str]:
        """The kinds of measurement that alone have its metrics."""
        return {metric.metric.partition(".")[0] for metric in self.metrics}

    def needed_modes(self) -> set[str]:
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


COMPARED_WITH_NONE = "the outputs were compared with none: give a --baseline-model with the same inputs, or --expect"


@dataclass(frozen=True)
class AskedGate:
    limits: Limits  # that the candidate must keep to
    force: bool  # go on where candidate and baseline are not comparable
    plans: tuple[Plan, ...] = ()  # of a live gate: of the candidate and, where there is one, of the baseline
    baseline: Path | None = None  # the stored result that a stored one is compared with
    why: bool | None = None  # whether to say what makes the difference; None: of a live gate whose candidate is slower


def limits_of(given: RawOptions, has_baseline: bool, modes: Sequence[str]) -> Limits:
    """The limits that options describe, with a baseline a regression of 5 % too; `modes` are compared with it, or all.

    Raises `BadInput` for a mode that there is not, and for a metric that has no regression.
    """
    regression = given.get("max-regression", SHARE.parse(USUAL_REGRESSION, "")) if has_baseline else None
    own = {flag: given[flag] for flag in limits_of_kinds() if flag in given}
    limits = build(Limits, given, modes=tuple(modes), slo=given.get(SLO.flag, {}), max_regression=regression, own=own)
    check_values(limits)
    check_modes(modes, "--mode")
    for metric in limits.metrics:
        if known_or_plain(metric.metric).group is Group.OUTPUTS:
            reason = f"it has no regression; limit it with --limit {metric.metric}=X"
            raise BadInput(f"--metric {metric.text}: {reason}", "--metric")
    return limits


def candidate_of(model: str, given: RawOptions, command: tuple[str, ...], limits: Limits) -> Plan:
    """The candidate's plan: of a feature's kind where a suite says so or the gate has a metric of it, else by `planner_of`."""
    kinds = plans_of_features()
    kind = next((it for it in kinds if it in given or it in limits.kinds), "")
    made = kinds[kind] if kind else planner_of(model, given)[1]
    return made(model, given, command, limits.needed_modes())


def live(plan: Plan, given: RawOptions, phases: Collection[str]) -> Plan:
    """The plan as a live gate measures it: these phases, until they are decided. What is not warm yet drifts for both configurations alike."""
    duration_s, chosen = live_duration_s(given) / 2, tuple(sorted(phases))
    return replace(plan, loop=replace(plan.loop, duration_s=duration_s, precision=None, phases=chosen, is_cold=True))


def live_duration_s(given: RawOptions) -> float:
    """How long a live gate may measure a mode or load point, both configurations together."""
    found: float = given.get("duration", DURATION.default)
    return found
