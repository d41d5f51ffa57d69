"""What a gate asks: metrics, limits, checks and the verdict that follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, cast

from ortbench.errors import CANNOT_TELL, DONE, REGRESSION, BadInput
from ortbench.gate.shapes import ITEMS, Shapes, shapes_at
from ortbench.kinds import MODE_NAMES, SHARE, SIZE, SPEEDUPS, TEXTS, WHOLE, Kind, texts_of
from ortbench.load_plan import LoadPlan
from ortbench.modes import (
    ALL_MODES,
    COSTS,
    CPU,
    LOAD,
    LOOP_PHASES,
    MEMORY,
    MEMORY_SIDES,
    MODES,
    PHASE_NAMES,
    STAGE,
    TOTAL,
    WHOLE_CHAIN,
    comes_with,
    no_such,
    stage_phase,
)
from ortbench.options import LIMIT, Given, check_values, declared, make, not_negative, option

if TYPE_CHECKING:
    from ortbench.analysis.levels import At

PASSED, FAILED, UNCLEAR = "passed", "failed", "cannot tell"


CODES = {PASSED: DONE, FAILED: REGRESSION, UNCLEAR: CANNOT_TELL}


@dataclass(frozen=True)
class Metric:
    """What is compared: a statistic of a phase, of one mode or (None) of all; of a load at one level or (None) at all, with
    "" for the statistic what matters most of each; of a sweep at some shapes or (None) at all."""

    mode: str | None
    phase: str
    stat: str
    at: At | Shapes | None = None

    @property
    def of_sweeps(self) -> bool:
        """Whether only sweeps have it."""
        return isinstance(self.at, Shapes) or self.stat == ITEMS

    @property
    def text(self) -> str:
        """As it is written on the command line."""
        place = "" if self.at is None else f"@{self.at.text if isinstance(self.at, Shapes) else _written(self.at)}"
        return ".".join(filter(None, (self.mode, self.phase, self.stat))) + place


def _written(level: At) -> str:
    return f"{level.kind}={level.value:g}"


_PHASES = (*PHASE_NAMES, *LOOP_PHASES, WHOLE_CHAIN, *COSTS)
DEFAULT_METRIC = Metric(None, TOTAL, "median")


def parse_metric(text: str, option: str = "--metric") -> Metric:
    """``device.total.median``, or less: ``total.median`` of every mode, ``total`` for its median, ``p95`` of the total.

    Of a stage of a chain ``cpu.stage.NAME.median``, or less; ``device.memory.host`` is what the mode takes of the host's memory,
    ``memory`` what every mode takes of the device's. Of a load ``device.load.p99@rate=30``, or less: ``load.p99`` at every level,
    ``load@concurrency=4`` for what matters most there. Of a sweep ``device.median@batch=8``, ``items_per_s@best``.

    Raises:
        BadInput: a part that is not a mode, a phase or a statistic.
    """
    from ortbench.analysis.compare import STATISTICS  # brings numpy, and help needs none
    from ortbench.analysis.levels import STATISTICS as OF_LEVELS

    mode, phase, stat = None, None, None
    words, is_at, place = text.partition("@")
    known = {MEMORY: MEMORY_SIDES, LOAD: OF_LEVELS}
    parts = iter(words.split("."))
    for part in parts:
        if part in ALL_MODES and mode is None and phase is None and stat is None:
            mode = part
        elif part in (*_PHASES, MEMORY, LOAD) and phase is None and stat is None:
            phase = part
        elif part == STAGE and phase is None and stat is None and (name := next(parts, "")):
            phase = stage_phase(name)
        elif stat is None and (
            part in known.get(phase or "", STATISTICS) or (part == ITEMS and phase in (None, TOTAL))
        ):
            stat = part
        else:
            raise BadInput(
                f"{option} {text!r}: {part!r} does not fit; write mode.phase.statistic such as device.total.median, with "
                f"{', '.join(ALL_MODES)}; {', '.join(_PHASES)}, {stage_phase('NAME')}; {', '.join(STATISTICS)}; mode.{LOAD} "
                f"with {', '.join(OF_LEVELS)}, at a level such as @rate=30; of a sweep {ITEMS}, or any at a "
                f"shape such as @batch=8; or mode.{MEMORY} with {' or '.join(MEMORY_SIDES)}",
                option,
            )
    usual = {MEMORY: MEMORY_SIDES[0], LOAD: ""}.get(phase or TOTAL, "median")
    found = Metric(mode, phase or TOTAL, stat or usual)
    if not is_at:
        return found
    return replace(
        found, at=_level(text, place, option) if phase == LOAD else shapes_at(place, found.stat, text, option)
    )


def _level(text: str, place: str, option: str) -> At:
    """The level of a load that a metric is of: ``rate=30``, ``concurrency=4``.

    Raises:
        BadInput: no such level can be.
    """
    from ortbench.analysis.levels import CONCURRENCY, RATE, At

    kind, _, number = place.partition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if kind not in (CONCURRENCY, RATE) or not 0 < value < math.inf or (kind == CONCURRENCY and value % 1):
        reason = f"@{place} is no level; write @{RATE}=30 or @{CONCURRENCY}=4"
        raise BadInput(f"{option} {text!r}: {reason}", option)
    return At(kind, value)


def _parse_metrics(given: Sequence[str], option: str) -> tuple[Metric, ...]:
    return tuple(parse_metric(text, option) for text in given)


def _metrics(value: Any, option: str) -> list[str]:
    values = texts_of(value)
    _parse_metrics(values, option)
    return values


METRICS: Kind = TEXTS._replace(example='"device.total.median" or a list', toml=_metrics, parse=_parse_metrics)
SLO = declared(LoadPlan)["slo"]
USUAL_REGRESSION = "5%"  # that a baseline allows, unless told otherwise
_limit = partial(option, panel=LIMIT, commands=("gate",))


@dataclass(frozen=True)
class Limits:
    """What a candidate must keep to.

    Attributes:
        max_regression: by what share it may be slower than the baseline: 0.05 is 5 %.
        metrics: what must not be slower.
        modes: the modes that are held against the baseline; empty for all that were measured.
        slo: the most that statistics of the latency may be at every rate of a load, ns.
        min_speedup: mode → how many times as fast as `cpu` it must be.
        max_copy_share: of a run with CPU tensors, 0 to 1.
        max_cpu_nodes: nodes that may stay on the CPU.
        max_device_memory, max_host_memory: what a mode may take, bytes.
        require_modes: modes that must work.
    """

    max_regression: float | None = _limit(
        "max-regression", "P", "How much slower it may be.", kind=SHARE, shown=f"with a baseline {USUAL_REGRESSION}"
    )
    metrics: tuple[Metric, ...] = _limit(
        "metric", "M", "What must not be slower, such as device.total.median.", kind=METRICS, default=(DEFAULT_METRIC,),
        shown=DEFAULT_METRIC.text,
    )  # fmt: skip
    modes: tuple[str, ...] = ()
    slo: Mapping[str, int] = field(default_factory=dict)
    min_speedup: Mapping[str, float] = _limit(
        "min-speedup", "MODE=X", "A mode must be X times as fast as cpu.", kind=SPEEDUPS, default={}
    )
    max_copy_share: float | None = _limit(
        "max-copy-share", "P", "Share of a run with CPU tensors that is copies.", kind=SHARE
    )
    max_cpu_nodes: int | None = _limit(
        "max-cpu-nodes", "N", "Nodes that may stay on the CPU.", kind=WHOLE, check=not_negative
    )
    max_device_memory: int | None = _limit(
        "max-device-memory", "SIZE", "What a mode may take of the device's memory, such as 2GB.", kind=SIZE
    )
    max_host_memory: int | None = _limit(
        "max-host-memory", "SIZE", "What a mode may take of the host's memory, such as 512MiB.", kind=SIZE
    )
    require_modes: tuple[str, ...] = _limit(
        "require-mode", "MODE", "A mode that must work.", kind=MODE_NAMES, default=()
    )

    @property
    def any(self) -> bool:
        """Whether there is anything to check."""
        alone = (self.max_copy_share, self.max_cpu_nodes, self.max_regression, *self.most_memory.values())
        return bool(self.min_speedup or self.require_modes or self.slo or any(value is not None for value in alone))

    @property
    def most_memory(self) -> dict[str, int | None]:
        """What a mode may take of each side's memory, bytes; None for what is not limited."""
        return dict(zip(MEMORY_SIDES, (self.max_device_memory, self.max_host_memory), strict=True))

    @property
    def of_memory(self) -> bool:
        """Whether memory must be measured."""
        held = self.max_regression is not None and any(metric.phase == MEMORY for metric in self.metrics)
        return held or any(most is not None for most in self.most_memory.values())

    def needed(self) -> set[str]:
        """The modes that must have been measured whatever else was."""
        needed = {metric.mode for metric in self.metrics if metric.mode} if self.max_regression is not None else set()
        if self.min_speedup:
            needed |= {CPU, *self.min_speedup}
        if self.max_copy_share is not None:
            needed |= {CPU, MODES[CPU].without_copies}
        return needed | set(self.require_modes)

    def held(self, mode: str) -> bool:
        """Whether a mode is held against the baseline."""
        return not self.modes or mode in self.modes

    def phases(self) -> set[str]:
        """The phases that must be timed."""
        metrics = self.metrics if self.max_regression is not None else ()
        return {TOTAL, *(comes_with(metric.phase) for metric in metrics if metric.phase not in (MEMORY, LOAD))}


def limits_of(given: Given, has_baseline: bool, modes: Sequence[str]) -> Limits:
    """The limits that options describe; with a baseline a regression of more than 5 % is one.

    Args:
        given: options.
        has_baseline: whether it is held against something.
        modes: that are held against it; none for all that are measured.

    Raises:
        BadInput: one that cannot be read, or a mode that there is not.
    """
    own = {name: value for name, value in given.items() if name != "max-regression"}
    regression = {"max-regression": given.get("max-regression", USUAL_REGRESSION)} if has_baseline else {}
    slo = SLO.kind.parse(given[SLO.flag], SLO.name) if SLO.flag in given else {}
    limits = make(Limits, {**own, **regression}, modes=tuple(modes), slo=slo)
    check_values(limits)
    for name in sorted({*modes, *limits.require_modes, *limits.min_speedup} - set(ALL_MODES)):
        raise BadInput(no_such(name))
    return limits


class CheckData(TypedDict):
    """A `Check` as JSON."""

    name: str
    verdict: str
    text: str
    ratio: float | None
    low: float | None
    high: float | None
    limit: float | None
    rounds: int | None


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

    def to_dict(self) -> CheckData:
        """What a gate's JSON says of it."""
        return cast(CheckData, asdict(self))


def overall(checks: Sequence[Check]) -> str:
    """One verdict: failed if any failed, else cannot tell if any could not be told."""
    verdicts = {check.verdict for check in checks}
    return next((verdict for verdict in (FAILED, UNCLEAR) if verdict in verdicts), PASSED)
