"""What measures loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortbench.core.errors import BadInput
from ortbench.features.load.plan import AUTO, load_in
from ortbench.jobs.run import MeasuredSeries
from ortbench.plan.plan import Plan

if TYPE_CHECKING:
    from ortbench.measure.progress import SequentialTest


def series_of(plans: Sequence[Plan], test: SequentialTest | None) -> MeasuredSeries:
    from ortbench.features.load.measure import LoadConfiguration
    from ortbench.features.load.measure.schedule import LoadSchedule, forecast_of

    if len(plans) > 1 and load_in(plans[0]).rate == AUTO:
        raise BadInput("--rate auto: configurations are compared at the same rates: give the rates", "--rate")
    return MeasuredSeries(LoadConfiguration, LoadSchedule, forecast_of(plans, test))


def compared_metrics(plans: Sequence[Plan]) -> tuple[str, ...]:
    """What configurations are compared by that pad requests: the time of one, or at a rate the tail of it; usual metrics of others."""
    load = load_in(plans[0])
    if not load.pads:
        return ()
    return tuple(f"latency.{it}" for it, is_there in (("mean", load.client_counts), ("p99", load.is_open)) if is_there)
