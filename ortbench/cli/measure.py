"""`ortbench run`, and what carries out the plans of a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ortbench.cli.options import Model, command_line, refuse_json
from ortbench.plan.configurations import plan_configurations
from ortbench.plan.options import RawOptions, build
from ortbench.plan.output_options import OutputOptions
from ortbench.plan.plan import Plan, check
from ortbench.plan.plan_builder import run_of


def run(given: RawOptions, model: Model) -> None:
    """An I/O mode is a way to pass inputs and get outputs: see 'ortbench explain mode'.
    Results are folders in reports/.
    """
    measure_plans(given, partial(run_of, model, command=command_line()), "run")


def measure_plans(
    given: RawOptions,
    planned: Callable[[RawOptions], Plan],
    command: str = "",
    plans_of: Callable[[Plan], list[Plan]] = lambda plan: [plan],
) -> None:
    """Carry a command out; one that is named measures lists of settings side by side, another what its plan comes to."""
    from ortbench.jobs import run as job
    from ortbench.jobs.publishing import check_wanted

    wanted = build(OutputOptions, given)
    check_wanted(wanted)
    plans = plan_configurations(given, command, planned) if command else plans_of(planned(given))
    refuse_json(plans, wanted)
    for plan in plans:
        check(plan)
    raise SystemExit(job.run(plans, wanted, given))
