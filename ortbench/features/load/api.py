"""`ortbench.load`."""

from __future__ import annotations

from typing import Any

from ortbench.api.commands import measure_model
from ortbench.api.results import Result
from ortbench.api.running import Model, Tell
from ortbench.api.signatures import takes
from ortbench.features.load.plan import load_of


@takes
def load(model: Model, *, progress: Tell | None = None, **options: Any) -> Result:
    """Measure a model under load: clients, or requests at a rate.

    Returns:
        what was measured, with a case for each load point; one that failed says why, and raises nothing.
    """
    return measure_model("load", model, options, progress, load_of)
