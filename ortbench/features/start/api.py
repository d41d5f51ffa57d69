"""`ortbench.start`."""

from __future__ import annotations

from typing import Any

from ortbench.api.commands import measure_model
from ortbench.api.results import Result
from ortbench.api.running import Model, Tell
from ortbench.api.signatures import takes
from ortbench.features.start.plan import start_of


@takes
def start(model: Model, *, progress: Tell | None = None, **options: Any) -> Result:
    """Measure the start-up of fresh processes to the first inference.

    Returns:
        what was measured, with all samples; where no process could be measured it says why, and raises nothing.
    """
    return measure_model("start", model, options, progress, start_of)
