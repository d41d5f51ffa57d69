"""What runs draw: joules, by the device's own counter."""

from __future__ import annotations

from ortbench.core import units
from ortbench.model.modes import ENERGY
from ortbench.model.result import Case, Result
from ortbench.report.cells import cell, cells
from ortbench.report.model import KEY, NOTHING, Block, Column, Kind, Paragraph, Table, columns
from ortbench.report.words import hint

_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    *columns(Kind.NUMBER, "energy/run", "95% CI", group=1),
    *columns(Kind.NUMBER, "power", "idle", "runs/J", group=2),
)
_HOW = {
    "counter": "by the energy counter of {of}",
    "power": "by readings of the power of {of}, integrated, as it has no energy counter",
    "rapl": "by the energy counters (RAPL) of {of}, whatever else they do",
}


def energy_blocks(result: Result) -> list[Block]:
    """The table with what it says, or why there is none; nothing of a result that was not asked for it."""
    asked = [(case, case.energy) for case in result.at_point() if case.energy is not None]
    if not asked:
        return []
    known = [(case, found) for case, found in asked if ENERGY in case.metrics]
    why: dict[str, list[str]] = {}
    for case, found in asked:
        if "unsupported" in found:
            why.setdefault(found["unsupported"], []).append(case.mode)
    lacking: list[Block] = [Paragraph(f"unsupported ({', '.join(modes)}): {reason}.") for reason, modes in why.items()]
    if not known:
        return lacking
    of = dict.fromkeys(_HOW[found["how"]].format(of=found["of"]) for _, found in known)
    said = f"energy/run: {'; '.join(of)}, in a stretch of runs after the measurement, less the idle draw beside it."
    table = Table(_COLUMNS, tuple(_row(case) for case, _ in known), title="Energy")
    return [table, Paragraph(said), *lacking, hint("energy/run", "idle")]


def _row(case: Case) -> tuple[str, ...]:
    drawn, rate = case.metrics[ENERGY], case.value("inferences_per_joule")
    return (
        case.mode,
        cell(case, ENERGY),
        NOTHING if drawn.ci95 is None else " to ".join(map(units.energy, drawn.ci95)),
        *cells(case, ("power", "idle_power")),
        NOTHING if rate is None else units.rate(rate),
    )
