"""The pictures that there are of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.model.kinds import KINDS
from ortbench.model.result import Result
from ortbench.report.page.pictures.bandwidth import Bandwidth, bandwidth
from ortbench.report.page.pictures.load import ByCallers, ByRate, by_callers, by_rate
from ortbench.report.page.pictures.over_time import OverTime
from ortbench.report.page.pictures.samples import Drift, Spread, drift, spread
from ortbench.report.page.pictures.sizes import Sizes, rates_by_size, times_by_size
from ortbench.report.page.pictures.split import Split, split
from ortbench.report.page.pictures.stages import LinkCosts, StageTimes, link_costs, stage_times
from ortbench.report.page.pictures.steps import StepTimes, step_times
from ortbench.report.page.pictures.totals import Totals, totals

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
    found = (_of_one(key, result) for key in KINDS[result.kind].charts)
    return [picture for picture in found if picture is not None]


def _of_one(key: str, result: Result) -> Picture | None:
    made = _CHARTS.get(key)
    return _TOGETHER[key]([result], [""]) if made is None else made(result)


def of_many(results: Sequence[Result], names: Sequence[str]) -> list[Picture]:
    """The pictures that hold several results side by side."""
    wanted = {key for result in results for key in KINDS[result.kind].charts_of_many}
    found = (made(results, names) for key, made in _TOGETHER.items() if key in wanted)
    return [picture for picture in found if picture is not None]


# By the keys that kinds have.
_CHARTS: dict[str, Callable[[Result], Picture | None]] = {
    "phases": split,
    "steps": step_times,
    "stages": stage_times,
    "links": link_costs,
    "distribution": spread,
    "drift": drift,
    "rates_by_size": rates_by_size,
    "times_by_size": times_by_size,
}
_TOGETHER: dict[str, Callable[[Sequence[Result], Sequence[str]], Picture | None]] = {
    "latencies": totals,
    "bandwidth": bandwidth,
    "by_clients": by_callers,
    "by_rate": by_rate,
}
