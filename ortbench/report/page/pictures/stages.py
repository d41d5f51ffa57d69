"""Where the time of a chain goes, mode by mode, and what its links cost where they go through the host."""

from __future__ import annotations

from dataclasses import dataclass

from ortbench.analysis.chains import crosses, crossing_ns
from ortbench.core import units
from ortbench.model.result import Result
from ortbench.report.model import NOTHING, Column, Kind, Table, columns
from ortbench.report.page.pictures.parts import FEW, measured_cases


@dataclass(frozen=True)
class Stages:
    """A chain in one mode: the medians of its stages, in their order, and of the whole, ns, to which they need not add up."""

    mode: str
    ns: tuple[tuple[str, float], ...]
    latency_ns: float


@dataclass(frozen=True)
class StageTimes:
    """How long each stage of a chain takes, mode by mode."""

    modes: tuple[Stages, ...]
    title = "Where the time of the chain goes"
    label = "Stacked bars, one for each mode: the stages in their order, and a mark for the whole chain."

    @property
    def names(self) -> list[str]:
        """Of all stages, in their order."""
        return list(dict.fromkeys(name for it in self.modes for name, _ in it.ns))

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        return " ".join(map(_in_words, self.modes))

    def table(self) -> Table:
        """What it shows, in numbers."""
        unit, scale = units.time_unit(max(it.latency_ns for it in self.modes))
        rows = []
        for it in self.modes:
            times = dict(it.ns)
            cells = (units.digits(times[name] / scale) if name in times else NOTHING for name in self.names)
            together = units.digits(sum(times.values()) / scale)
            rows.append((it.mode, *cells, together, units.digits(it.latency_ns / scale)))
        headed = columns(Kind.TIME, *self.names, "together", "chain")
        return Table((Column("mode", Kind.NAME), *headed), tuple(rows), unit)


def _in_words(it: Stages) -> str:
    longest = sorted(it.ns, key=lambda stage: -stage[1])[:FEW]
    said = ", ".join(f"{name} {units.duration(ns)}" for name, ns in it.ns if (name, ns) in longest)
    most = f"the longest of {len(it.ns)}: " if len(it.ns) > FEW else ""
    return f"{it.mode}: {most}{said}; {units.duration(it.latency_ns)} from end to end."


def stage_times(result: Result) -> StageTimes | None:
    """Medians of the stages by mode; None where no stages were measured."""
    modes = tuple(
        Stages(case.mode, tuple((name, stats.median) for name, stats in case.stages.items()), total.median)
        for case, total in measured_cases(result)
        if case.stages
    )
    return StageTimes(modes) if modes else None


@dataclass(frozen=True)
class LinkCost:
    """What the copies of a link take by themselves in one chain, ns, and whether it stays on the device, which saves them."""

    name: str
    ns: int
    stays: bool


@dataclass(frozen=True)
class LinkCosts:
    """What each link takes through the host, those that take longest first."""

    links: tuple[LinkCost, ...]
    title = "What a link costs through the host"
    label = "Bars, one for each link: what its copies to and from the host take in a chain."

    @property
    def caption(self) -> str:
        """What is to be seen, in words."""
        parts = []
        for stays, about in ((True, "Staying on the device saves the copies of"), (False, "Copied all the same")):
            found = [it for it in self.links if it.stays == stays]
            named = ", ".join(f"{it.name} {units.duration(it.ns)}" for it in found[:FEW])
            more = f" and {len(found) - FEW} more" if len(found) > FEW else ""
            parts += [f"{about}: {named}{more}."] if found else []
        return " ".join(
            [*parts, "Copies are timed by themselves; what staying saves as a whole is the difference of the modes."]
        )

    def table(self) -> Table:
        """What it shows, in numbers."""
        rows = tuple((it.name, units.duration(it.ns), "stays" if it.stays else "copied") for it in self.links)
        headed = (Column("link", Kind.NAME), Column("through the host"), Column("on the device", Kind.WORD))
        return Table(headed, rows)


def link_costs(result: Result) -> LinkCosts | None:
    """The links whose copies are known; None where there are none."""
    found = [
        LinkCost(f"{link['from']} → {link['to']}", ns, link["stays"])
        for link in result.part["links"]
        if crosses(link) and (ns := crossing_ns(link))
    ]
    return LinkCosts(tuple(sorted(found, key=lambda it: -it.ns))) if found else None
