"""What runs draw: joules, by the device's own counter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortbench import units
from ortbench.analysis.compare import Selection, Spread, word
from ortbench.analysis.energy_change import energy_rows
from ortbench.report.model import KEY, NOTHING, Block, Column, Kind, Paragraph, Table, columns
from ortbench.report.words import hint
from ortbench.result import Case, Result
from ortbench.schema import Energy

_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "energy/run", "95 %", group=1),
    *columns(Kind.NUMBER, "power", "idle", "runs/J", group=2),
)
_HOW = {
    "counter": "by the energy counter of {of}",
    "power": "by readings of the power of {of}, integrated, as it has no energy counter",
    "rapl": "by the energy counters (RAPL) of {of}, whatever else they do",
}


def energy_blocks(result: Result) -> list[Block]:
    """The table with what it says, or why there is none; nothing of a result that was not asked for it."""
    asked = [(case, case.energy) for case in result.cases if case.energy is not None]
    if not asked:
        return []
    known = [(case.mode, found) for case, found in asked if "joules" in found]
    why: dict[str, list[str]] = {}
    for case, found in asked:
        if "unsupported" in found:
            why.setdefault(found["unsupported"], []).append(case.mode)
    lacking: list[Block] = [Paragraph(f"unsupported ({', '.join(modes)}): {reason}.") for reason, modes in why.items()]
    if not known:
        return lacking
    of = dict.fromkeys(_HOW[found["how"]].format(of=found["of"]) for _, found in known)
    said = f"energy/run: {'; '.join(of)}, in a stretch of runs after the measurement, less the idle draw beside it."
    table = Table(_COLUMNS, tuple(_row(mode, found) for mode, found in known), title="Energy")
    return [table, Paragraph(said), *lacking, hint("energy/run", "idle")]


def _row(mode: str, found: Energy) -> tuple[str, ...]:
    interval, rate = found["ci95"], found["runs_per_joule"]
    return (
        mode,
        units.energy(found["joules"]),
        NOTHING if interval is None else " to ".join(map(units.energy, interval)),
        f"{units.digits(found['watts'], most=2)} W",
        f"{units.digits(found['idle_watts'], most=2)} W",
        NOTHING if rate is None else units.rate(rate),
    )


def energy_records(result: Result, case: Case) -> dict[str, Any]:
    """The figures for other programs, of a result that was asked for them: J of a run, W, runs for a joule; None where not
    known."""
    if all(it.energy is None for it in result.cases):
        return {}
    found: Energy = case.energy or {}
    low, high = found.get("ci95") or (None, None)
    return {
        "energy_j": found.get("joules"),
        "energy_ci95_low_j": low,
        "energy_ci95_high_j": high,
        "power_w": found.get("watts"),
        "idle_power_w": found.get("idle_watts"),
        "runs_per_joule": found.get("runs_per_joule"),
    }


def energy_comparison(
    results: Sequence[Result], names: Sequence[str], same: float, only: Selection
) -> list[dict[str, Any]]:
    """What results draw, held against each other, as flat records: one a mode and result."""
    return [
        {
            "mode": row.mode,
            "phase": "energy",
            "result": name,
            "energy_j": joules,
            "vs_first": _change(first, same),
            "vs_previous": _change(last, same),
        }
        for row in energy_rows(results, only)
        for name, joules, first, last in zip(names, row.joules, row.since_first, row.since_last, strict=True)
    ]


def _change(found: Spread | None, same: float) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"ratio": found.ratio, "low": found.low, "high": found.high, "verdict": word(found, same, of_cost=True)}
