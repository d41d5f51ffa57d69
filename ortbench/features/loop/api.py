"""`ortbench.loop`."""

from __future__ import annotations

from typing import Any

from ortbench.api.commands import measure_model
from ortbench.api.results import Result
from ortbench.api.running import Model, Tell
from ortbench.api.signatures import takes
from ortbench.features.loop.plan import loop_of


@takes
def loop(model: Model, *, progress: Tell | None = None, **options: Any) -> Result:
    """Measure a decoder that generates, or a model in a loop.

    Returns:
        what was measured, all modes with all samples; a mode that could not be measured says why, and raises nothing.
    """
    return measure_model("loop", model, options, progress, loop_of)
