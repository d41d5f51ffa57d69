"""What `ortbench sweep` does: measure the shapes of a model in one session, write what came of it, and show it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.jobs.measuring import Measured, Place, load_the_rest, measure_and_save, new_place, saves
from ortbench.jobs.publishing import check_wanted, publish_results
from ortbench.measure.process import open_session
from ortbench.plan.ep_options import refuse_unclaimed

if TYPE_CHECKING:
    from ortbench.model.result import Result
    from ortbench.model.slo import Slo
    from ortbench.plan.output_options import Wanted
    from ortbench.plan.plan import Observer
    from ortbench.plan.sweep_plan import Shape


def sweep(shapes: Sequence[Shape], slo: Slo | None, wanted: Wanted) -> int:
    """Measure a sweep, save and show it; the exit code."""
    check_wanted(wanted, "json", "junit", "action_json", "bmf")
    place = new_place(wanted.out, [shapes[0].plan], "sweep")
    found = measured(shapes, slo, place, traced=wanted.trace is not None, quiet=wanted.quiet)
    return publish_results(found, shapes[0].plan.model, wanted)


def measured(
    shapes: Sequence[Shape],
    slo: Slo | None,
    place: Place | None,
    *,
    traced: bool = False,
    quiet: bool = False,
    observer: Observer | None = None,
) -> Measured:
    """Measure a sweep, at least two shapes, and save it in a folder, or nowhere; see `ortbench.jobs.measuring.measure`.

    The best shape keeps to `slo`.
    """
    plan = shapes[0].plan
    client = open_session(plan)

    from ortbench.measure.sweep import PointSide, SharedWorker, SweepBench
    from ortbench.model.timeline import Timeline
    from ortbench.report.run import write_run

    sides: list[PointSide] = []

    def when_open(results: Sequence[Result]) -> None:
        refuse_unclaimed(plan.target.options, [results[0].target["ep"]])

    def begin(stack: ExitStack, folder: Path | None, told: Observer | None) -> SweepBench:
        worker = SharedWorker(plan, client)
        stack.callback(worker.close)
        for number, shape in enumerate(shapes):
            sides.append(PointSide(shape.plan, number, worker, shape.name, Timeline() if traced else None))
        return SweepBench(shapes, sides, worker, slo, saves(folder), told, load_the_rest, when_open)

    try:
        bench, folder = measure_and_save(client, place, begin, quiet, observer)
    except BenchmarkFailed as error:
        if isinstance(error.__cause__, BadInput):
            raise error.__cause__ from None  # of no shape the input can be read
        raise
    result = bench.result()
    saves(folder)(result)
    if folder is not None:
        write_run(result, folder)
    timed = [(side.name, side.result, side.timeline) for side in sides if side.timeline is not None and side.is_open]
    return Measured([result], [] if folder is None else [folder], bench.interrupted, timelines=timed)
