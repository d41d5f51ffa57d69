"""`ortbench.soak`."""

from __future__ import annotations

from typing import Any

from ortbench.api.commands import measure_model
from ortbench.api.results import Result
from ortbench.api.running import Model, Tell
from ortbench.api.signatures import takes
from ortbench.features.soak.plan import soak_of


@takes
def soak(model: Model, *, progress: Tell | None = None, **options: Any) -> Result:
    """Measure a model for a long time: whether memory grows.

    Returns:
        what was measured, with the readings of memory; a mode that could not be measured says why, and raises nothing.
    """
    return measure_model("soak", model, options, progress, soak_of)
