from __future__ import annotations

from ortbench.cli.options import command_line
from ortbench.features.bandwidth.plan import CopyPlan, check
from ortbench.plan.options import RawOptions, build
from ortbench.plan.plan import OutputOptions
from ortbench.plan.plan_builder import target_of


def bandwidth(given: RawOptions) -> None:
    """Over sizes, in both directions, with pageable and with pinned host memory."""
    plan = build(CopyPlan, given, target=target_of(given), command=command_line())
    check(plan)
    from ortbench.features.bandwidth import job

    raise SystemExit(job.bandwidth(plan, build(OutputOptions, given)))
