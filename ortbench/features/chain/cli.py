from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import command_line
from ortbench.cli.program import measure_plans
from ortbench.plan.options import RawOptions


def chain(
    given: RawOptions, file: Annotated[Path, typer.Argument(metavar="FILE", help="The chain, a TOML file.")]
) -> None:
    """A TOML file names the models and which output is which input of a later one."""
    from ortbench.features.chain.toml import plan_of

    measure_plans(given, partial(plan_of, file, os.environ, command=command_line()))
