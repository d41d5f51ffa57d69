"""What a suite came to: a record for each case, the summary's table, Markdown and CSV, and the exit code. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, TypedDict

from ortbench.analysis.host import cpu_time_ns
from ortbench.analysis.levels import CONCURRENCY, measured, rate_of
from ortbench.analysis.load import best_level, kept, knee_of
from ortbench.analysis.loops import steps_per_s
from ortbench.analysis.memory import DEVICE, HOST, figure
from ortbench.analysis.points import alone
from ortbench.analysis.sweep import ITEMS
from ortbench.errors import BENCHMARK_FAILED, CANNOT_TELL, DONE, NOT_COMPARABLE, REGRESSION
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, Check, CheckData
from ortbench.modes import CPU, TOTAL, is_rate
from ortbench.result import Point, Result
from ortbench.schema import Items, Node
from ortbench.units import ratio, seconds

SKIPPED, MISSING = "skipped", "missing"
BROKEN, INCOMPARABLE = "benchmark failed", "not comparable"
MEASURED = "measured"  # without a gate there is nothing to pass
CONCLUDED = (
    PASSED,
    FAILED,
    UNCLEAR,
    MEASURED,
)  # the benchmark did what it was asked to, and the gate, if any, has spoken
# From the worst to the best: what a whole suite ends with if one of its cases does.
_BY_WEIGHT = (BENCHMARK_FAILED, REGRESSION, NOT_COMPARABLE, CANNOT_TELL, DONE)


@dataclass(frozen=True)
class Record:
    """What became of one case; `case.json` holds it.

    Attributes:
        id: of the case.
        model, ep, shape: its parts, as the suite calls them.
        fingerprint: of everything that its figures depend on; empty where nothing was run.
        outcome: ``passed``, ``failed`` or ``cannot tell``, as its gate has it, ``measured`` without one; ``not comparable``,
            ``benchmark failed``, ``skipped`` or ``missing``.
        exit_code: what `ortbench gate` ends with in such a case.
        reason: why it did not pass, or None.
        seconds: it took.
        checks: of its gate, see `ortbench.gate.limits.Check`.
        cpu_ns: median of mode `cpu`, ns, or None.
        fastest: mode with the shortest median, or None.
        fastest_ns: that median, ns, or None.
        vs_cpu: how many times as fast as `cpu` it is, or None.
        items: how many a run has, and the dimension that says so, or None.
        items_per_s, item_ns: what that mode's median means for them, or None.
        energy_j: what a run of that mode draws, J, or None.
        steps: of a loop, or None.
        steps_per_s: what that mode's median means for them, or None.
        cpu_time_ns: what a run in that mode takes of the CPU, ns, or None.
        runs_per_s, callers: of a load, the most runs/s and with how many callers (`fastest` is their mode), or None.
        knee: how many callers are worth it in that mode, or None.
        slo_rate: the highest rate that keeps the SLO in any mode, or None.
        best_shape: of a sweep, the shape that gets most items done, of which the figures are, or None.
        memory_device, memory_host: what that mode takes of each side's memory, bytes, or None.
        provider: the EP's full name, or None where nothing was opened.
        node: the machine that it was on, where the suite was spread over a cluster, or None.
        alike: of such a suite, the same for cases that differ in nothing but where they are carried out, or None.
    """

    id: str
    model: str
    ep: str
    shape: str
    fingerprint: str
    outcome: str
    exit_code: int = DONE
    reason: str | None = None
    seconds: float = 0.0
    checks: list[CheckData] = field(default_factory=list)
    cpu_ns: int | None = None
    fastest: str | None = None
    fastest_ns: int | None = None
    vs_cpu: float | None = None
    items: Items | None = None
    items_per_s: float | None = None
    item_ns: float | None = None
    steps: int | None = None
    steps_per_s: float | None = None
    cpu_time_ns: int | None = None
    memory_device: int | None = None
    memory_host: int | None = None
    energy_j: float | None = None
    runs_per_s: float | None = None
    callers: int | None = None
    knee: int | None = None
    slo_rate: float | None = None
    best_shape: str | None = None
    provider: str | None = None
    node: Node | None = None
    alike: str | None = None

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return asdict(self)

    def gate_checks(self) -> list[Check]:
        """The checks of its gate."""
        return [Check(**check) for check in self.checks]

    def line(self, was_done: bool) -> str:
        """The case in a line, as it is told when it ends or turns out to be done."""
        parts = [self.outcome]
        if self.fastest is not None:
            speed = "" if self.vs_cpu is None or self.fastest == CPU else f" {ratio(self.vs_cpu)}× cpu"
            of_shape = "" if self.best_shape is None else f"best {self.best_shape} with "
            parts.append(f"{of_shape}{self.fastest}{speed}")
        if self.node is not None:
            parts.append(f"on {self.node['name']}")
        if was_done or self.seconds:
            parts.append("done before" if was_done else f"took {seconds(self.seconds * 1e9)}")
        return f"{self.id}: {', '.join(parts)}" + (f": {self.reason}" if self.reason else "")


def record_from(data: Mapping[str, Any]) -> Record:
    """The inverse of `Record.to_dict`; keys that are not known are ignored.

    Raises:
        TypeError, ValueError: one that is needed is missing, or is not as it should be.
    """
    record = Record(**{item.name: data[item.name] for item in fields(Record) if item.name in data})
    if record.outcome == PASSED and not record.checks:  # as earlier versions called it
        record = replace(record, outcome=MEASURED)
    if record.exit_code not in _BY_WEIGHT:
        raise ValueError(f"exit code {record.exit_code}")
    return record


class Figures(TypedDict, total=False):
    """The figures of a `Record`, by its attributes' names; empty where nothing was measured."""

    cpu_ns: int | None
    fastest: str
    fastest_ns: int
    vs_cpu: float | None
    items: Items | None
    items_per_s: float | None
    item_ns: float | None
    steps: int | None
    steps_per_s: float | None
    cpu_time_ns: int | None
    memory_device: int | None
    memory_host: int | None
    energy_j: float | None
    runs_per_s: float | None
    callers: int | None
    knee: int | None
    slo_rate: float | None
    best_shape: str
    provider: str
    node: Node | None


def figures(result: Result) -> Figures:
    """The figures of a `Record`, by its attributes' names."""
    where: Figures = {"provider": result.target["ep"], "node": result.environment.get("node")}
    return {**where, **_of_kind(result)}


def _of_kind(result: Result) -> Figures:
    """What there is to say of its kind."""
    if result.load is not None:
        return _of_load(result)
    return _of_times(result) if result.points is None else _of_sweep(result, result.points)


def _of_times(result: Result) -> Figures:
    timed = [case for case in result.cases if result.case(case.mode) and not is_rate(case.mode, TOTAL)]
    medians = {case.mode: median for case in timed if (median := case.median(TOTAL))}
    if not medians:
        return {}
    fastest = min(medians, key=lambda mode: medians[mode])
    found = result.case(fastest)
    vs_cpu = found.vs_cpu["ratio"] if found is not None and found.vs_cpu else None
    by_item = None if found is None else found.throughput
    steps = None if result.loop is None else result.loop["steps"]
    return {
        "cpu_ns": medians.get(CPU),
        "fastest": fastest,
        "fastest_ns": medians[fastest],
        "vs_cpu": vs_cpu,
        "items": result.items,
        "items_per_s": by_item and by_item["items_per_s"],
        "item_ns": by_item and by_item["item_ns"],
        "steps": steps,
        "energy_j": found.energy.get("joules") if found is not None and found.energy else None,
        "steps_per_s": None if steps is None or found is None else steps_per_s(found, steps),
        "cpu_time_ns": None if found is None or found.host is None else round(cpu_time_ns(found.host)),
        "memory_device": None if found is None else figure(found, DEVICE),
        "memory_host": None if found is None else figure(found, HOST),
    }


def _of_sweep(result: Result, points: Sequence[Point]) -> Figures:
    """Those of the shape that gets most items done, as a run of it would have them."""
    of_modes = {} if result.best is None else result.best["modes"]
    best = [it for mode, it in of_modes.items() if it is not None and it["by"] == ITEMS and not is_rate(mode, TOTAL)]
    if not best:
        return {}
    point = points[max(best, key=lambda it: it["items_per_s"] or 0)["point"]]
    return {**_of_times(alone(result, point)), "best_shape": point.name}


def _of_load(result: Result) -> Figures:
    rates = [it["rate"] for it in kept(result).values()]
    found: Figures = {"slo_rate": max(rates)} if rates else {}
    best = best_level(result)
    if best is None:
        return found
    knee = knee_of(measured(result, CONCURRENCY, best["mode"]))
    return {
        **found,
        "fastest": best["mode"],
        "runs_per_s": rate_of(best),
        "callers": best["concurrency"],
        "knee": knee and knee["concurrency"],
    }


def exit_code(records: Sequence[Record]) -> int:
    """The worst of the cases: failed before regression before not comparable before cannot tell before done."""
    return min((record.exit_code for record in records), key=_BY_WEIGHT.index, default=DONE)
