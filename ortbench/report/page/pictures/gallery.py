"""The pictures that there are of results."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.report.page.pictures.bandwidth import Bandwidth, bandwidth
from ortbench.report.page.pictures.load import ByCallers, ByRate, by_callers, by_rate
from ortbench.report.page.pictures.over_time import OverTime
from ortbench.report.page.pictures.samples import Drift, Spread, drift, spread
from ortbench.report.page.pictures.sizes import Sizes, rates_by_size, times_by_size
from ortbench.report.page.pictures.split import Split, split
from ortbench.report.page.pictures.stages import LinkCosts, StageTimes, link_costs, stage_times
from ortbench.report.page.pictures.steps import StepTimes, step_times
from ortbench.report.page.pictures.totals import Totals, totals
from ortbench.result import Result

Picture = (
    Split
    | Sizes
    | StepTimes
    | StageTimes
    | LinkCosts
    | ByCallers
    | ByRate
    | Spread
    | Drift
    | Bandwidth
    | Totals
    | OverTime
)


def of_one(result: Result) -> list[Picture]:
    """The pictures of one result, as many as it has samples for."""
    if result.load is not None:  # its cases are of one caller alone
        return _loads([result], [""])
    if result.points is not None:
        return [picture for picture in (rates_by_size(result), times_by_size(result)) if picture is not None]
    found: list[Picture | None] = [
        _parts(result),
        link_costs(result),
        spread(result),
        drift(result),
        bandwidth([result], [""]),
    ]
    return [picture for picture in found if picture is not None]


def _parts(result: Result) -> Picture | None:
    """Where the time goes: of an inference to its phases, of a loop to its steps, of a chain to its stages."""
    if result.loop is not None:
        return step_times(result)
    return split(result) if result.chain is None else stage_times(result)


def of_many(results: Sequence[Result], names: Sequence[str]) -> list[Picture]:
    """The pictures that hold several results side by side."""
    loads = _loads(results, names)
    if all(result.load is not None for result in results):
        return loads
    found: list[Picture | None] = [totals(results, names), bandwidth(results, names), *loads]
    return [picture for picture in found if picture is not None]


def _loads(results: Sequence[Result], names: Sequence[str]) -> list[Picture]:
    """What becomes of runs/s and latency under load."""
    return [picture for picture in (by_callers(results, names), by_rate(results, names)) if picture is not None]
