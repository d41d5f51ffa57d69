"""The record of each kind: that its keys are known, and which view a point has."""

from __future__ import annotations

import pytest

from ortbench.features.gate.plan import Limits
from ortbench.model.kinds import RUN, Kind, kind_of, kinds
from ortbench.model.metrics import GATED, METRICS, Figure
from ortbench.plan.options import declared_options, limits_of_kinds


@pytest.mark.parametrize("kind", kinds().values(), ids=kinds())
def test_a_kind_names_what_there_is_and_gates_what_is_compared(kind: Kind) -> None:
    assert {*kind.checks} - {"slo"} <= {it.flag for it in declared_options(Limits).values()} | limits_of_kinds().keys()
    for view in kind.views:
        assert view.axis == "" or view.axis in {axis.name for axis in kind.axes}
        for figures in (view.compared, view.gated):
            assert len({*figures}) == len(figures)
            assert all(it.statistic in (GATED if METRICS[it.metric].sampled else ("",)) for it in figures)
        assert {*view.gated} <= {*view.compared}
        assert all(METRICS[it.metric].better != "none" for it in view.compared)
        assert bool(view.gated) == bool(kind.checks)


@pytest.mark.parametrize(
    ("kind", "point", "gated"),
    [
        (kind_of("load"), {"concurrency": 4}, Figure("throughput", "")),
        (kind_of("load"), {"rate": 30.0}, Figure("latency", "p99")),
        (RUN, {}, Figure("latency", "median")),
        (kind_of("sweep"), {"batch": 8}, Figure("latency", "median")),
        (kind_of("loop"), {}, Figure("loop", "median")),
    ],
)
def test_a_point_has_the_view_of_its_axis(kind: Kind, point: dict[str, int | float], gated: Figure) -> None:
    assert kind.view(point).gated == (gated,)
