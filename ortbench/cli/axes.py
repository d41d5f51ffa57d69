"""`ortbench load` and `sweep`: measurements at several points of an axis, each with a plan of its own."""

from __future__ import annotations

from functools import partial

from ortbench.cli.options import Model, ModelOrFolder, command_line, refuse_json
from ortbench.plan.configurations import plan_configurations
from ortbench.plan.load_plan import load_of, plan_under_load
from ortbench.plan.options import RawOptions, build
from ortbench.plan.output_options import OutputOptions
from ortbench.plan.sweep_plan import Swept, check_shapes, shapes_of


def load(given: RawOptions, model: ModelOrFolder) -> None:
    """For each load point throughput, latency and queue delay, and the SLO met or violated."""
    plans = plan_configurations(given, "load", partial(plan_under_load, model, command=command_line()))
    put, wanted = load_of(plans, given), build(OutputOptions, given)
    refuse_json(plans, wanted)
    from ortbench.jobs import run as job

    raise SystemExit(job.load(plans, put, wanted))


def sweep(given: RawOptions, model: Model) -> None:
    """Lists in --dim and --shape are the shapes; what switching between them costs is measured too."""
    from ortbench.jobs import run as job

    shapes = shapes_of(model, given, command_line())
    check_shapes(shapes)
    raise SystemExit(job.sweep(shapes, build(Swept, given).slo, build(OutputOptions, given)))
