"""What comparisons and suites ask of loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ortbench.analysis.comparing.comparable import Traits
from ortbench.analysis.point_blocks import rate_of
from ortbench.features.load.analysis.points import (
    best_case,
    has_rates,
    knee_of,
    load_cases,
    load_point_of,
    slo_limits,
    slo_rates,
    slo_text,
)
from ortbench.features.load.model import LoadSetup
from ortbench.model.result import FAILED, Case, Result


def identity(result: Result, own: Traits) -> Traits:
    """How clients share sessions and, where there are rates, how requests come and who serves them."""
    keys = ("sessions", *(("arrivals", "file", "workers") if has_rates(result) else ()))
    mixed = {key: result.part.get(key) for key in ("order", "shapes") if "shapes" in result.part}
    return {**own, **{key: result.part[key] for key in keys}, **mixed}


def essence(part: LoadSetup) -> LoadSetup:
    """What loads are compared by whose results are to differ in nothing that was recorded."""
    return part


def changes(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    """How loads were put on that may be compared all the same."""
    return [
        ("SLO", slo_text(slo_limits(one) or {}) or None, slo_text(slo_limits(other) or {}) or None),
        ("time per load point", f"{one.part['duration_s']:g} s", f"{other.part['duration_s']:g} s"),
    ]


def suite_figures(result: Result) -> dict[str, Any]:
    """The figures of a suite's case, by the attributes of its record."""
    rates = [it["rate"] for it in slo_rates(result).values()]
    found: dict[str, Any] = {"slo_rate": max(rates)} if rates else {}
    best = best_case(result)
    if best is None:
        return found
    knee = knee_of(result, best.mode)
    return {
        **found,
        "fastest": best.mode,
        "throughput_per_s": rate_of(best),
        "clients": int(load_point_of(best).value),
        "knee": knee and knee["concurrency"],
    }


def read_samples(folder: Path) -> Any:
    """The samples beside a result, see `ortbench.features.load.analysis.samples_file.read`."""
    from ortbench.features.load.analysis.samples_file import read

    return read(folder)


def failed_points(result: Result) -> list[tuple[str, Case]]:
    """The load points that failed, each after what happens there: ``with 4 clients``."""
    return [(load_point_of(case).phrase, case) for case in load_cases(result) if case.status == FAILED]
