from __future__ import annotations

from functools import partial

from ortbench.cli.options import ModelOrFolder, command_line, refuse_json
from ortbench.features.load.plan import check_loads, load_of
from ortbench.plan.configurations import plan_configurations
from ortbench.plan.options import RawOptions, build
from ortbench.plan.output_options import OutputOptions


def load(given: RawOptions, model: ModelOrFolder) -> None:
    """For each load point throughput, latency and queue delay, and the SLO met or violated."""
    plans = plan_configurations(given, "load", partial(load_of, model, command=command_line()))
    check_loads(plans)
    wanted = build(OutputOptions, given)
    refuse_json(plans, wanted)
    from ortbench.features.load import job

    raise SystemExit(job.load(plans, wanted))
