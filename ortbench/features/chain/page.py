"""Charts of a chain: how long its stages take, and what its links cost."""

from __future__ import annotations

from ortbench.core import units
from ortbench.features.chain.analysis import crossing_ns
from ortbench.features.page.report import chart_model as model
from ortbench.features.page.report.charts import parts_in_order
from ortbench.model.result import Result
from ortbench.report.model import Column, Kind, Table

_LINKS = {
    True: model.Fill("saved, since it stays on the device", "accent"),
    False: model.Fill("copied in every mode", "copies", "xxxx", hollow=True),
}
_MOST = 12  # links that have a bar


def stage_times(result: Result) -> model.Chart | None:
    """How long each stage of a chain takes, mode by mode; None where no stages were measured."""
    found = [
        (case.mode, {name: stats.median for name, stats in case.stages.items()}, total.median)
        for case, total in model.measured_cases(result)
        if case.stages
    ]
    return parts_in_order(found, "chain", "stages")


def link_costs(result: Result) -> model.Chart | None:
    """What the copies of each link take through the host, those that take longest first; None where that is not known."""
    known = [
        (f"{link['from']} → {link['to']}", ns, link["stays"])
        for link in result.part["links"]
        if (ns := crossing_ns(link))
    ]
    if not known:
        return None
    found = sorted(known, key=lambda it: -it[1])
    rows = tuple((name, units.duration(ns), "stays" if stays else "copied") for name, ns, stays in found)
    bars = tuple(
        model.Bar(name, (model.Part(_LINKS[stays], ns, f"{name}: {time}, {_LINKS[stays].name}"),), time)
        for name, ns, stays in found[:_MOST]
        for time in [units.duration(ns)]
    )
    left_out = len(found) - len(bars)
    return model.Chart(
        "Copies of links through the host",
        "Bars, one for each link: the time of its copies to and from the host in a chain, each timed alone.",
        Table((Column("link", Kind.NAME), Column("through the host"), Column("on the device", Kind.WORD)), rows),
        model.StackedBars(
            bars,
            tuple(fill for there, fill in _LINKS.items() if any(stays == there for *_, stays in found)),
            rest=f"and {left_out} more, in the table" if left_out else "",
        ),
    )


CHARTS = {"stages": stage_times, "links": link_costs}
