"""Results side by side: whether they may be compared, by how much they differ, and in a word whether that is real. Pure.

Two results of one run have rounds in common and are compared pair by pair. Results of different runs are not: machines
drift by more from run to run than a run's own interval says, so their ratio is given with the noise that each run saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ortbench.analysis.pairs import block_medians, blocks, shared, timed_phase
from ortbench.analysis.sequential import median_ratio
from ortbench.errors import NotComparable
from ortbench.modes import MODES
from ortbench.options import changed
from ortbench.plan import Target
from ortbench.result import OK, PHASE_NAMES, Case, Result
from ortbench.schema import Environment, Provider

FASTER, SLOWER, SAME, CANNOT_TELL = "faster", "slower", "same", "cannot tell"

STATISTICS: dict[str, Callable[[Sequence[int]], float]] = {
    "median": lambda samples: float(np.median(samples)),
    "mean": lambda samples: float(np.mean(samples)),
    "min": lambda samples: float(np.min(samples)),
    "max": lambda samples: float(np.max(samples)),
    "p90": lambda samples: float(np.quantile(samples, 0.9)),
    "p95": lambda samples: float(np.quantile(samples, 0.95)),
    "p99": lambda samples: float(np.quantile(samples, 0.99)),
}

SEGMENTS = 8  # parts of a run whose spread is its noise
BETWEEN_RUNS = 0.02  # what two runs differ by that neither can see; measured: reports/gate
_ALPHA = 0.025  # for each end of the 95 % interval of paired blocks


# May they be compared?


def mismatches(one: Result, other: Result) -> list[str]:
    """What makes two results incomparable, in words; empty when they were measured on the same thing."""
    if one.setup.get("run_id") is not None and one.setup.get("run_id") == other.setup.get("run_id"):
        return []  # two sides of one run, taken to be compared
    found = []
    if one.model["sha256"] != other.model["sha256"]:
        found = [f"model: {_model(one)} and {_model(other)}"]
    mine, theirs = _identity(one), _identity(other)
    return found + [
        f"{name}: {short(mine[name])} and {short(theirs[name])}" for name in mine if mine[name] != theirs[name]
    ]


def _model(result: Result) -> str:
    return f"{result.model['path']} ({result.model['sha256'][:12]})"


def _identity(result: Result) -> dict[str, object]:
    """What a result was measured on, besides the model."""
    shapes = {tensor["name"]: tensor["shape"] for tensor in result.model["inputs"]}
    return {"shapes": shapes, **machine(result.target, result.environment)}


def machine(target: Provider, environment: Environment) -> dict[str, object]:
    """Which EP, device and machine something was measured on, as results and bandwidth sweeps describe them."""
    device, cpu = target["device"], environment["cpu"]
    return {
        "EP": target["ep"],
        "device": {key: device.get(key) for key in ("type", "vendor_id", "device_id")},
        "CPU": cpu["model"],
        "cores": cpu.get("usable_cores"),
        "GPUs": [gpu.get("name") for gpu in environment["gpus"]],
    }


def short(value: Any) -> str:
    """A value that identifies something, for a message."""
    if value is None:
        return "default"
    if isinstance(value, dict):
        return ", ".join(f"{key} {short(item)}" for key, item in value.items() if item is not None) or "none"
    if isinstance(value, list):
        separator = "x" if value and isinstance(value[0], int) else ", "
        return separator.join(map(str, value)) or "none"
    return str(value)


def comparability(results: Sequence[Result], names: Sequence[str], force: bool) -> list[str]:
    """What differs between the first result and each other one, in sentences.

    Raises:
        NotComparable: they were not measured on the same thing, and it was not forced.
    """
    remarks = []
    for name, result in zip(names[1:], results[1:], strict=True):
        differences = mismatches(results[0], result)
        if differences and not force:
            found = "; ".join(differences)
            raise NotComparable(
                f"{names[0]} and {name} are not comparable: {found} (--force compares them all the same)"
            )
        remarks += [f"not comparable, forced: {names[0]} and {name}: {difference}" for difference in differences]
        remarks += [f"{names[0]} → {name}: {change}" for change in changes(results[0], result)]
    return remarks


def changes(one: Result, other: Result) -> list[str]:
    """What differs between two results that may be compared all the same: versions and settings, in words."""
    found = []
    for name, a, b in (
        ("ONNX Runtime", one.environment["onnxruntime"], other.environment["onnxruntime"]),
        ("EP version", one.target.get("ep_version"), other.target.get("ep_version")),
        *changed(Target, one.target, other.target),
        ("Python", one.environment.get("python"), other.environment.get("python")),
        ("OS", one.environment.get("os"), other.environment.get("os")),
    ):
        if a != b:
            found.append(f"{name}: {short(a)} → {short(b)}")
    depths, others = _depths(one), _depths(other)
    for mode, depth in depths.items():
        if others.get(mode, depth) != depth:
            found.append(f"depth of {mode}: {depth} → {others[mode]}")
    return found


_OF_THE_RUN = ("ep_requested", "policy", "fence")  # of a target: how it was asked for, and what was measured of it
_RUNTIME = ("onnxruntime", "onnxruntime_build", "python", "numpy")  # of an environment: all that a worker brings


def sameness(one: Result, other: Result) -> str | None:
    """That two sides of a run differ in nothing that is recorded, as a sentence; None where something differs.

    What differs then is chance, which is what one may want to see; or one side is not what it was meant to be.
    """
    sides = [
        (
            result.model["sha256"],
            {key: value for key, value in result.target.items() if key not in _OF_THE_RUN},
            [result.environment.get(key) for key in _RUNTIME],
        )
        for result in (one, other)
    ]
    if sides[0] != sides[1] or changes(one, other):
        return None
    versions = f"ONNX Runtime {one.environment['onnxruntime']}, Python {one.environment['python']}"
    return f"nothing recorded differs between the two: the same model file, EP, options, {versions}"


def _depths(result: Result) -> dict[str, int]:
    """How deep the pipelines were, by mode."""
    return {
        case.mode: case.pipeline["depth"] for case in result.cases if case.status == OK and case.pipeline is not None
    }


def names(paths: Sequence[Path]) -> list[str]:
    """Short names for result files that tell them apart: the last part of the paths in which all differ, else numbers."""
    parts = [(path.parent if path.name == "result.json" else path.with_suffix("")).absolute().parts for path in paths]
    for back in range(1, min(map(len, parts))):
        found = [part[-back] for part in parts]
        if len(set(found)) == len(found):
            return found
    return [f"{number} {part[-1]}" for number, part in enumerate(parts, 1)]


# By how much do they differ?


@dataclass(frozen=True)
class Spread:
    """Two figures, their ratio `value_ns` / `base_ns`, and where it may lie: None where that is not known.

    `paired` says whether it rests on pairs of blocks of one run.
    """

    base_ns: float
    value_ns: float
    ratio: float
    low: float | None
    high: float | None
    paired: bool


def stored_ratio(base: Case, case: Case, phase: str, stat: str = "median") -> Spread | None:
    """A case against the same case of an earlier run, with the noise that both runs saw.

    Each run is cut into `SEGMENTS` parts of consecutive blocks. A short run could have landed where any of them did, so
    the ratio lies between the least part of one run over the greatest of the other, and the reverse; and runs differ by
    up to `BETWEEN_RUNS` more, which no run sees in itself.

    Returns:
        None if one of them has no such phase; no interval if one has fewer blocks than segments.
    """
    sides = []
    for it in (base, case):
        samples = it.samples_ns.get(timed_phase(it.mode, phase))
        if not samples:
            return None
        sides.append((STATISTICS[stat](samples), _segments(blocks(it, phase), stat)))
    (base_ns, base_parts), (value_ns, parts) = sides
    ratio = max(value_ns, 1) / max(base_ns, 1)
    if not base_parts or not parts:
        return Spread(base_ns, value_ns, ratio, None, None, paired=False)
    low = max(min(parts), 1) / max(1, *base_parts) / (1 + BETWEEN_RUNS)
    high = max(1, *parts) / max(min(base_parts), 1) * (1 + BETWEEN_RUNS)
    # A percentile of a whole run can lie beyond that of each of its parts.
    return Spread(base_ns, value_ns, ratio, min(low, ratio), max(high, ratio), paired=False)


def _segments(taken: Sequence[tuple[int, list[int]]], stat: str) -> list[float]:
    """The statistic of consecutive parts of a run; none if it has too few blocks."""
    if len(taken) < SEGMENTS:
        return []
    bounds = [round(len(taken) * number / SEGMENTS) for number in range(SEGMENTS + 1)]
    parts = [[x for _, block in taken[a:b] for x in block] for a, b in pairwise(bounds)]
    return [STATISTICS[stat](part) for part in parts]


def ratio(one: Result, other: Result, mode: str, phase: str) -> Spread | None:
    """The medians of a phase of two results, and their ratio: by pairs where both are of one run."""
    base, case = one.case(mode), other.case(mode)
    if base is None or case is None or base.median(phase) is None or case.median(phase) is None:
        return None
    run_id = one.setup.get("run_id")
    if run_id is None or run_id != other.setup.get("run_id"):
        return stored_ratio(base, case, phase)
    b, a = shared(block_medians(base, phase), block_medians(case, phase))
    if not a:
        return None
    found = median_ratio([max(x, 1) / max(y, 1) for x, y in zip(a, b, strict=True)], _ALPHA)
    base_ns, value_ns = base.median(phase), case.median(phase)
    assert base_ns is not None
    assert value_ns is not None
    return Spread(base_ns, value_ns, found.ratio, found.low, found.high, paired=True)


def word(found: Spread, same: float) -> str:
    """Whether a difference is real: `SAME` within ± `same` for certain, else `FASTER` or `SLOWER` for certain."""
    if found.low is None or found.high is None:
        return CANNOT_TELL
    if 1 / (1 + same) <= found.low and found.high <= 1 + same:
        return SAME
    if found.low > 1:
        return SLOWER
    return FASTER if found.high < 1 else CANNOT_TELL


@dataclass(frozen=True)
class Row:
    """One mode and phase of all results: the medians in ns (None where one has none), and each one's change.

    `since_first` and `since_last` hold a `Spread` against the first and the previous result, None for the first one and
    where there is nothing to compare.
    """

    mode: str
    phase: str
    medians_ns: tuple[int | None, ...]
    since_first: tuple[Spread | None, ...]
    since_last: tuple[Spread | None, ...]


@dataclass(frozen=True)
class Selection:
    """Which modes and phases to compare; empty for all that there are."""

    modes: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()


EVERYTHING = Selection()


def rows(results: Sequence[Result], only: Selection = EVERYTHING) -> list[Row]:
    """All modes and phases that at least one result has, in their usual order.

    Args:
        results: at least two.
        only: these.
    """
    found = []
    for mode in only.modes or MODES:
        for phase in only.phases or PHASE_NAMES:
            medians = tuple(case.median(phase) if (case := result.case(mode)) else None for result in results)
            said_by_total = timed_phase(mode, phase) != phase and not only.phases
            if all(median is None for median in medians) or said_by_total:
                continue
            first = [None, *(ratio(results[0], result, mode, phase) for result in results[1:])]
            last = [None, *(ratio(a, b, mode, phase) for a, b in pairwise(results))]
            found.append(Row(mode, phase, medians, tuple(first), tuple(last)))
    return found
