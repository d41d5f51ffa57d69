"""What of a result failed, in sentences. Pure."""

from __future__ import annotations

from ortbench.analysis.shapes import failures as shape_failures
from ortbench.core.features import part_of
from ortbench.model.result import FAILED, Result, not_ok


def failures_of(result: Result) -> list[str]:
    """What failed of a result, in sentences: modes, of a load points, of a sweep shapes."""
    failed = [case for case in result.at_point() if case.status == FAILED]
    modes = {case.mode for case in failed}
    said = [f"{named} failed: {reason}" for named, _, reason in not_ok(failed)]
    alike: dict[tuple[str, str | None], list[str]] = {}
    for where, case in part_of(result.kind, "analysis", "failed_points", lambda _: [])(result):
        if case.mode not in modes:
            alike.setdefault((where, case.reason), []).append(case.mode)
    return [
        *shape_failures(result),
        *said,
        *(f"{', '.join(named)} {phrase} failed: {reason}" for (phrase, reason), named in alike.items()),
    ]


def nothing_measured(result: Result) -> str:
    """What to say of a result without a measured or a failed mode, with each reason once."""
    reasons = dict.fromkeys(case.reason for case in result.cases if case.reason)
    return f"nothing was measured: no mode that was asked for is supported ({'; '.join(reasons)})"
