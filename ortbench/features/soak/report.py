"""The line, the columns and the shapes of a soak."""

from __future__ import annotations

from ortbench.core import units
from ortbench.features.soak.analysis import GROWS, trends_of
from ortbench.features.soak.model import Soak, SoakedShape
from ortbench.model.result import Case, Result
from ortbench.report.case_table import Own
from ortbench.report.model import KEY, NOTHING, Column, Kind, Table, columns
from ortbench.report.phrases import ORDERS

_MOST_SHAPES = 12  # that are shown
_OF_MEMORY = ("inferences", "private memory at start", "at end", "verdict")  # columns of the readings


def own_columns(result: Result) -> dict[str, Own]:
    soak: Soak = result.part
    timed = {"timed": Own(_time_text)}
    if not (found := trends_of(soak)):  # the system told nothing
        return {**timed, **dict.fromkeys(_OF_MEMORY, Own(lambda _: NOTHING))}
    host = found[0]
    hidden = {it.metric for it in found if it.verdict != GROWS}  # a slope that is not told from none is no growth
    cells = {
        "inferences": (f"{host.points[-1][0]:.0f}", ""),
        "private memory at start": (units.size(host.points[0][1]), f"{host.title} at start"),
        "at end": (units.size(host.points[-1][1]), ""),
    }
    own = {name: Own(lambda _, cell=cell: cell, header=header) for name, (cell, header) in cells.items()}  # type: ignore[misc]
    own |= dict.fromkeys(hidden, Own(lambda _: NOTHING))
    return {**timed, **own, "verdict": Own(lambda _: host.text, Kind.WORDS)}


def _time_text(case: Case) -> str:
    """How long the inferences took together; what else a soak does in its time is not in it."""
    return NOTHING if case.host is None else units.duration(case.host["wall_ns"])


def further_tables(result: Result) -> list[Table]:
    """The latency of each shape, or of those with the longest."""
    every: list[SoakedShape] = result.part["shapes"]
    slowest = sorted(every, key=lambda it: -it["median_ns"])[:_MOST_SHAPES]
    shapes = [it for it in every if it in slowest]
    unit, scale = units.time_unit(max((it["p99_ns"] for it in shapes), default=1))
    rows = tuple(
        (shape["name"], str(shape["n"]), units.time(shape["median_ns"], scale), units.time(shape["p99_ns"], scale))
        for shape in shapes
    )
    headed = (Column("shape", Kind.NAME, KEY), Column("inferences", Kind.NUMBER), *columns(Kind.TIME, "latency", "p99"))
    shown = Table(
        headed, rows, unit, title="Shapes" if shapes == every else f"The {len(shapes)} slowest of {len(every)} shapes"
    )
    return [shown]


def own_line(result: Result) -> str:
    """A soak of several shapes, or whose session is opened again and again; nothing of one shape in one session."""
    soak: Soak = result.part
    said = []
    if soak["order"]:
        said.append(f"{len(soak['shapes'])} shapes in {ORDERS[soak['order']]}")
    if soak["reopened"]:
        said.append(f"a new session after every {units.count(soak['reopened'], 'inference')}")
    return f"soak: {', '.join(said)}" if said else ""
