"""The record of each kind: that its keys are known, and what a gate compares unless it is told."""

from __future__ import annotations

import pytest

from ortbench.features.gate.plan import Limits
from ortbench.model.kinds import Kind, kinds
from ortbench.model.metrics import GATED, METRICS
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


def test_what_a_gate_compares_of_each_kind() -> None:
    gated = {key: " ".join(it.text for view in kind.views for it in view.gated) for key, kind in kinds().items()}
    assert gated == {
        "run": "latency.median", "bandwidth": "", "chain": "chain.median", "load": "throughput latency.p99", "loop": "loop.median",
        "soak": "latency.median", "start": "start.ready.median", "sweep": "latency.median",
    }  # fmt: skip
