from __future__ import annotations

from functools import partial

from ortbench.cli.measure import measure_plans
from ortbench.cli.options import Model, command_line
from ortbench.features.start.plan import start_of
from ortbench.plan.options import RawOptions


def start(given: RawOptions, model: Model) -> None:
    """Each start is a program that imports onnxruntime, creates the session and runs the model."""
    measure_plans(given, partial(start_of, model, command=command_line()), "start")
