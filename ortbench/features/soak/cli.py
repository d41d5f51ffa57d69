from __future__ import annotations

from functools import partial

from ortbench.cli.measure import measure_plans
from ortbench.cli.options import Model, command_line
from ortbench.features.soak.plan import plans_to_try, soak_of
from ortbench.plan.options import RawOptions


def soak(given: RawOptions, model: Model) -> None:
    """Several shapes (--dim NAME=16,64,512) are one stream of inferences. Ctrl-C ends it and keeps everything."""
    measure_plans(given, partial(soak_of, model, command=command_line()), plans_of=plans_to_try)
