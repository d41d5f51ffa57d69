"""The charts that there are of results, by the keys that kinds have."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ortbench.model.kinds import KINDS
from ortbench.model.result import Result
from ortbench.report.page.chart_data.copies import bandwidth
from ortbench.report.page.chart_data.curves import by_clients, by_rate, rates_by_size, times_by_size
from ortbench.report.page.chart_data.model import Chart
from ortbench.report.page.chart_data.samples import distribution, drift, memory
from ortbench.report.page.chart_data.times import latencies, link_costs, phases, stage_times, start_parts, step_times

_OF_ONE: dict[str, Callable[[Result], Chart | None]] = {
    "phases": phases,
    "steps": step_times,
    "stages": stage_times,
    "links": link_costs,
    "starts": start_parts,
    "distribution": distribution,
    "drift": drift,
    "memory": memory,
    "rates_by_size": rates_by_size,
    "times_by_size": times_by_size,
}
_OF_MANY: dict[str, Callable[[Sequence[Result], Sequence[str]], Chart | None]] = {
    "latencies": latencies,
    "bandwidth": bandwidth,
    "by_clients": by_clients,
    "by_rate": by_rate,
}


def charts_of(result: Result) -> list[Chart]:
    """The charts of one result, as many as it has samples for."""
    keys = KINDS[result.kind].charts
    found = (_OF_ONE[key](result) if key in _OF_ONE else _OF_MANY[key]([result], [""]) for key in keys)
    return [chart for chart in found if chart is not None]


def charts_of_many(results: Sequence[Result], names: Sequence[str]) -> list[Chart]:
    """The charts that hold several results side by side."""
    wanted = {key for result in results for key in KINDS[result.kind].charts_of_many}
    found = (made(results, names) for key, made in _OF_MANY.items() if key in wanted)
    return [chart for chart in found if chart is not None]
