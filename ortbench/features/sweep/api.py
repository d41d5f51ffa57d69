"""`ortbench.sweep`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ortbench.api.calls import Model, Tell, measuring, with_options
from ortbench.api.commands import read_call, until_interrupted, whole
from ortbench.api.results import Result
from ortbench.features.sweep.plan import SweepOptions, check_shapes, shapes_of
from ortbench.plan.options import build


@with_options
def sweep(model: Model, *, progress: Tell | None = None, **options: Any) -> Result:
    """Measure a model over shapes: which has the most items/s.

    Returns:
        what was measured, with `shapes`, cases at the point of each, and `best`; a shape that could not be measured
        says why, and raises nothing.
    """
    from ortbench.features.sweep.job import measure_sweep
    from ortbench.jobs.run import folder_maker

    with read_call("sweep", options, model=model) as call:
        shapes = shapes_of(call.model, call.given, call.typed)
        check_shapes(shapes)
        shapes = [replace(shape, plan=call.name_model(shape.plan)) for shape in shapes]
        with measuring(progress) as observer, until_interrupted():
            make_folder = folder_maker(call.out, [shapes[0].plan], "sweep")
            swept = measure_sweep(
                shapes, build(SweepOptions, call.given).slo, make_folder, quiet=True, observer=observer
            )
            return whole(Result.wrap(swept.result, swept.folder), swept.interrupted)
