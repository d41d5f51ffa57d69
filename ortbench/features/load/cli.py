"""`ortbench load`: a model at several load points."""

from __future__ import annotations

from functools import partial

from ortbench.cli.options import ModelOrFolder, command_line, refuse_json
from ortbench.plan.configurations import plan_configurations
from ortbench.plan.load_plan import load_of, plan_under_load
from ortbench.plan.options import RawOptions, build
from ortbench.plan.output_options import OutputOptions


def load(given: RawOptions, model: ModelOrFolder) -> None:
    """For each load point throughput, latency and queue delay, and the SLO met or violated."""
    plans = plan_configurations(given, "load", partial(plan_under_load, model, command=command_line()))
    put, wanted = load_of(plans, given), build(OutputOptions, given)
    refuse_json(plans, wanted)
    from ortbench.jobs import run as job

    raise SystemExit(job.load(plans, put, wanted))
