"""What gates check of memory: one number a mode and side, which has no interval. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench import units
from ortbench.analysis.memory import DEVICE, computes_on_host, figure, ratio, why_unknown
from ortbench.errors import BadInput
from ortbench.gate.limits import FAILED, PASSED, UNCLEAR, Check, Limits, Metric
from ortbench.modes import ALL_MODES, MEMORY, MEMORY_SIDES
from ortbench.result import OK, Case, Result


def check_memory(result: Result, limits: Limits) -> list[Check]:
    """What each mode takes, against what it may.

    Raises:
        BadInput: memory was not measured.
    """
    checks = []
    for side in MEMORY_SIDES:
        most = limits.most_memory[side]
        if most is None:
            continue
        cases = [case for case in result.cases if case.status == OK and limits.held(case.mode)]
        if not any(case.memory is not None for case in cases):
            option = f"--max-{side}-memory"
            raise BadInput(f"{option}: the result has no memory; measure it with --memory", option)
        checks += [_check(case, side, most) for case in cases]
    return checks


def _check(case: Case, side: str, most: int) -> Check:
    name, at_most = f"{case.mode} {side} memory", f"at most {units.size(most)}"
    found = figure(case, side)
    if side == DEVICE and computes_on_host(case):
        return Check(name, PASSED, f"{name}: none, {why_unknown(case, side)}; {at_most}")
    if found is None:
        return Check(name, UNCLEAR, f"{name}: {why_unknown(case, side)}; {at_most}")
    return Check(name, PASSED if found <= most else FAILED, f"{name}: {units.size(found)}, {at_most}")


def check_memory_regressions(result: Result, baseline: Result, limits: Limits) -> list[Check]:
    """The candidate's memory over the baseline's, for each metric of it: an exact ratio against the limit.

    Raises:
        BadInput: nothing that both have.
    """
    if limits.max_regression is None:
        return []
    return [
        check
        for metric in limits.metrics
        if metric.phase == MEMORY
        for check in _regressions(metric, result, baseline, limits, 1 + limits.max_regression)
    ]


def _regressions(metric: Metric, result: Result, baseline: Result, limits: Limits, most: float) -> Sequence[Check]:
    modes = [metric.mode] if metric.mode else [mode for mode in ALL_MODES if limits.held(mode)]
    pairs = [(mode, one, other) for mode in modes if (one := result.case(mode)) and (other := baseline.case(mode))]
    if not any(one.memory is not None and other.memory is not None for _, one, other in pairs):
        raise BadInput(f"--metric {metric.text}: not measured in both results (--memory)", "--metric")
    return [_regression(one, other, metric.stat, most) for _, one, other in pairs]


def _regression(one: Case, other: Case, side: str, most: float) -> Check:
    name, what = f"{one.mode} {MEMORY} {side}", f"{one.mode} {side} memory"
    bound = f"must be at most ×{most:.4g}"
    if side == DEVICE and computes_on_host(one) and computes_on_host(other):
        return Check(name, PASSED, f"{what}: none on either side, {why_unknown(one, side)}", limit=most)
    value, base = figure(one, side), figure(other, side)
    for who, case, found in (("candidate", one, value), ("baseline", other, base)):
        if found is None:
            return Check(name, UNCLEAR, f"{what} of the {who}: {why_unknown(case, side)}; {bound}", limit=most)
    assert value is not None
    assert base is not None
    found_ratio = ratio(value, base)
    text = f"{what}, candidate to baseline: {units.size(value)} against {units.size(base)}, ×{units.ratio(found_ratio, 3)}, {bound}"
    return Check(name, PASSED if found_ratio <= most else FAILED, text, found_ratio, limit=most)
