"""The figures of a load for other programs: a flat record a level, and the same as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortbench.analysis.levels import CONCURRENCY, at, by_statistic, is_measured, measured, speed_up
from ortbench.report.csv import csv_text
from ortbench.result import Result
from ortbench.schema import Level


def load_records(result: Result) -> list[dict[str, Any]]:
    """The figures of a load as flat records, one a level; None if not known. Times are in ns."""
    return [_record(result, level) for level in result.levels]


def _record(result: Result, level: Level) -> dict[str, Any]:
    found = (
        speed_up(level, measured(result, CONCURRENCY, level["mode"]))
        if is_measured(level) and at(level).kind == CONCURRENCY
        else None
    )
    latency = None if level["latency_ns"] is None else by_statistic(level["latency_ns"])
    wait, late, service, clock = (level.get(key) for key in ("wait_ns", "late_ns", "service_ns", "clock_mhz"))
    row: dict[str, Any] = {key: level[key] for key in ("mode", "status", "reason", "sessions")}
    row |= {"concurrency": level.get("concurrency"), "rate": level.get("rate"), "runs_per_s": level["runs_per_s"]}
    row |= _ends("runs_per_s", level["ci95"])
    row["speed_up"] = found and found.ratio
    row |= _ends("speed_up", None if found is None else found.ci95)
    row |= {f"{stat}_ns": latency and latency[stat] for stat in ("mean", "p50", "p95", "p99", "max")}
    row |= {key: level[key] for key in ("n", "outputs_match", "cpu_cores", "lock_wait")}
    row |= {key: level.get(key) for key in ("fairness", "utilisation", "late", "slo_held")}
    row |= {
        "wait_mean_ns": _of(wait, "mean"),
        "wait_p99_ns": _of(wait, "p99"),
        **_ends("wait_mean_ns", _of(wait, "ci95")),
    }
    row |= {"late_p99_ns": _of(late, "p99"), "late_max_ns": _of(late, "max")}
    row |= {"service_mean_ns": _of(service, "mean"), "service_p50_ns": _of(service, "p50"), "sm_mhz": _of(clock, "sm")}
    return row


def _of(part: Any, key: str) -> Any:
    return None if part is None else part[key]


def _ends(name: str, inside: Sequence[float] | None) -> dict[str, float | None]:
    low, high = (None, None) if inside is None else inside
    return {f"{name}_ci95_low": low, f"{name}_ci95_high": high}


def load_csv(result: Result) -> str:
    """The records as CSV."""
    found = load_records(result)
    return csv_text(list(found[0]) if found else ["mode", "status", "reason"], found)
