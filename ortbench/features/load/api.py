"""`ortbench.load`."""

from __future__ import annotations

from typing import Any

from ortbench.api.commands import read_call, until_interrupted, whole
from ortbench.api.results import Result
from ortbench.api.running import measuring
from ortbench.api.signatures import takes
from ortbench.api.values import Model, Tell
from ortbench.features.load.plan import check_loads, load_of


@takes
def load(model: Model, *, progress: Tell | None = None, **options: Any) -> Result:
    """Measure a model under load: clients, or requests at a rate.

    Returns:
        what was measured, with a case for each load point; one that failed says why, and raises nothing.
    """
    from ortbench.jobs.measuring import folder_maker, measure

    with read_call("load", options, model=model) as call:
        plan = load_of(call.model, call.given, call.typed)
        check_loads([plan])
        place = folder_maker(call.out, [plan], "load")
        with measuring(progress) as observer, until_interrupted():
            found = measure([call.called(plan)], place, quiet=True, observer=observer)
            return whole(Result.wrap(found.result, found.folder, found.samples[0]()), found.interrupted)
