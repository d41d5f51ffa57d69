from __future__ import annotations

from functools import partial

from ortbench.cli.measure import measure_plans
from ortbench.cli.options import ModelOrFolder, command_line
from ortbench.features.loop.plan import loop_of
from ortbench.plan.options import RawOptions


def loop(given: RawOptions, model: ModelOrFolder) -> None:
    """A decoder generates tokens; with --feedback, outputs are inputs of the next step, as a recurrent state is."""
    measure_plans(given, partial(loop_of, model, command=command_line()), "loop")
