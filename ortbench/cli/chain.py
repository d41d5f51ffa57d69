"""`ortbench chain`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import command_line, takes
from ortbench.plan.options import Given, make
from ortbench.plan.output_options import Wanted
from ortbench.plan.plan import PLAN, check, check_amount


@takes(*PLAN, Wanted)
def chain(
    given: Given,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The chain, a TOML file.")],
) -> None:
    """Measure models one behind the other: what it costs that each hands on through the host.

    Stages and links are in a TOML file.
    """
    check_amount(given)
    from ortbench.jobs import run as job
    from ortbench.suite.chain_file import plan_of

    wanted = make(Wanted, given)
    job.check_wanted(wanted)
    plan = plan_of(file, os.environ, given, command_line())
    check(plan)
    raise SystemExit(job.run([plan], wanted))
