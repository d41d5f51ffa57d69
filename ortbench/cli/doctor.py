"""`ortbench doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from ortbench.cli.options import takes
from ortbench.plan.options import Given, check_values
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan_builder import target_of
from ortbench.plan.target import Target


@takes(Target, Wanted)
def doctor(
    given: Given,
    no_noise: Annotated[
        bool, typer.Option("--no-noise", help="Leave out the seconds in which this machine's noise is measured.")
    ] = False,
) -> None:
    """Say what does not work here and why, and how far figures of this machine can be trusted.

    Packages, execution providers, CUDA, NVIDIA cards, the processor and its noise. Each line is good, worth knowing, or bad
    with what mends it.
    """
    target = target_of(given)
    check_values(target)
    from ortbench.jobs import doctor as job

    raise SystemExit(job.doctor(not no_noise, target.python, given.get("json")))
