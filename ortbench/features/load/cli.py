from __future__ import annotations

from functools import partial

from ortbench.cli.measure import measure_plans
from ortbench.cli.options import ModelOrFolder, command_line
from ortbench.features.load.plan import load_of
from ortbench.plan.options import RawOptions


def load(given: RawOptions, model: ModelOrFolder) -> None:
    """For each load point throughput, latency and queue delay, and the SLO met or violated."""
    measure_plans(given, partial(load_of, model, command=command_line()), "load")
