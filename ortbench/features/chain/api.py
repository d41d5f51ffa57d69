"""`ortbench.chain`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ortbench.api.calls import AnyPath, Tell, with_options
from ortbench.api.commands import measure_plan, read_call
from ortbench.api.results import Result
from ortbench.features.chain.toml import plan_of


@with_options
def chain(file: AnyPath, *, progress: Tell | None = None, **options: Any) -> Result:
    """Measure models one after the other: what their links cost.

    Stages and links are in a TOML file.

    Args:
        file: the path of the chain, a TOML file.

    Returns:
        what was measured, all modes with all samples; a mode that could not be measured says why, and raises nothing.
    """
    with read_call("chain", options, os.fspath(file)) as call:
        return measure_plan(plan_of(Path(file), os.environ, call.given, call.typed), call, progress)
