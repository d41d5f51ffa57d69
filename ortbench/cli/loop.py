"""`ortbench loop`."""

from __future__ import annotations

from ortbench.cli.options import Model, takes
from ortbench.cli.run import measure
from ortbench.plan.loop_plan import steps_of
from ortbench.plan.options import Given
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import PLAN


@takes(*PLAN, Wanted)
def loop(given: Given, model: Model) -> None:
    """Measure a model whose outputs are inputs of its next step: what the copies of its state cost."""
    steps_of(given, needed=True)
    measure(model, given, "loop")
