from __future__ import annotations

from ortbench.features.energy.model import KEY, Energy
from ortbench.model.modes import ENERGY
from ortbench.model.result import Result
from ortbench.report import model
from ortbench.report.case_table import figure_table, in_groups
from ortbench.report.phrases import said_once

_ENERGY = (
    (ENERGY, f"{ENERGY}.ci95"),
    ("token_energy", "token_energy.ci95"),
    ("power", "idle_power", "inferences_per_joule"),
)
_HOW = {
    "counter": "by the energy counter of {of}",
    "power": "by readings of the power of {of}, integrated, as it has no energy counter",
    "rapl": "by the energy counters (RAPL) of {of}, whatever else they do",
}


def cost_blocks(result: Result) -> list[model.Block]:
    """The table with what it says, or why there is none; nothing of a result that was not asked for it."""
    asked = [(case, case.own[KEY]) for case in in_groups(result.at_point()) if KEY in case.own]
    known = [(case, found) for case, found in asked if ENERGY in case.metrics]
    why = said_once((found["unsupported"], case.mode) for case, found in asked if "unsupported" in found)
    lacking: list[model.Block] = [
        model.Paragraph(f"unsupported ({', '.join(modes)}): {reason}.") for reason, modes in why.items()
    ]
    if not known:
        return lacking
    of = dict.fromkeys(_HOW[found["how"]].format(of=found["of"]) for _, found in known)
    said = f"energy: of one inference, {'; '.join(of)}, measured after the timing, less idle power."
    table = figure_table(_ENERGY, [case for case, _ in known], title="Energy")
    return [table, model.Paragraph(said), *lacking]


def problem(part: Energy) -> str | None:
    return f"energy is unsupported: {part['unsupported']}" if "unsupported" in part else None
