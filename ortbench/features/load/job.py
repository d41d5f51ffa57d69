"""`ortbench load`: put a load on a model, save and show what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortbench.jobs.measuring import MeasuredSeries, folder_maker, measure
from ortbench.jobs.publishing import check_wanted
from ortbench.jobs.run import publish_sides
from ortbench.plan.configurations import name_configurations
from ortbench.plan.output_options import OutputOptions
from ortbench.plan.plan import Plan

if TYPE_CHECKING:
    from ortbench.measure.stopping import SequentialTest


def load(plans: Sequence[Plan], wanted: OutputOptions) -> int:
    """Put a load on a model, in turns in several configurations, save and show what came of it; the exit code."""
    check_wanted(wanted)
    make_folder, traced = folder_maker(wanted.out, plans, plans[0].part.folder), wanted.of_timelines
    names = name_configurations(plans) if len(plans) > 1 else ()
    found = measure(plans, make_folder, names, quiet=wanted.quiet, traced=traced)
    return publish_sides(found, plans, wanted)


def series_of(plans: Sequence[Plan], test: SequentialTest | None) -> MeasuredSeries:
    from ortbench.features.load.measure.configuration import LoadConfiguration
    from ortbench.features.load.measure.schedule import LoadSchedule, forecast_of

    return MeasuredSeries(LoadConfiguration, LoadSchedule, forecast_of(plans, test))
