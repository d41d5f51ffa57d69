"""`ortbench sweep`: measure shapes in one session, save and show what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.jobs import Measured, check_wanted, publish_results
from ortbench.jobs.run import MakeFolder, folder_maker, result_saver, saving
from ortbench.plan.plan import Observer, OutputOptions
from ortbench.plan.target import refuse_unclaimed

if TYPE_CHECKING:
    from ortbench.features.sweep.plan import Shape
    from ortbench.model.metric_names import Slo
    from ortbench.model.result import Result


def sweep(shapes: Sequence[Shape], slo: Slo | None, wanted: OutputOptions) -> int:
    check_wanted(wanted)
    make_folder = folder_maker(wanted.out, [shapes[0].plan], "sweep")
    found = measure_sweep(shapes, slo, make_folder, traced=wanted.of_timelines, quiet=wanted.quiet)
    return publish_results(found, shapes[0].plan.model, wanted)


def measure_sweep(
    shapes: Sequence[Shape],
    slo: Slo | None,
    make_folder: MakeFolder | None,
    *,
    traced: bool = False,
    quiet: bool = False,
    observer: Observer | None = None,
) -> Measured:
    """Measure a sweep, at least two shapes, of which the best keeps to `slo`, and save it in a folder, or nowhere; see
    `ortbench.jobs.run.measure`."""
    from ortbench.features.sweep.measure import SharedWorker, Sweep, open_session

    plan = shapes[0].plan
    client = open_session(plan)

    from ortbench.measure.driver import Driver
    from ortbench.measure.rounds import Rounds

    def when_open(results: Sequence[Result]) -> None:
        refuse_unclaimed(plan.target.options, [results[0].target["ep"]])

    try:
        with saving(client, make_folder, quiet, observer) as (folder, told):
            worker = SharedWorker(plan, client)
            whole, save = Sweep(shapes, worker, slo, traced), result_saver(folder)
            driver = Driver(
                whole.points, Rounds, told, after_open=when_open, after_save=lambda lost: save(whole.result(lost))
            )
            try:
                driver.run()
            finally:
                worker.client.close()
    except BenchmarkFailed as error:
        if isinstance(error.__cause__, BadInput):
            raise error.__cause__ from None  # of no shape the input can be read
        raise
    result = whole.result(driver.not_opened)
    save(result)
    if folder is not None:
        from ortbench.report.run import write_run

        write_run(result, folder)
    timed = [(it.name, it.result, it.timeline) for it in whole.points if it.timeline is not None and it.is_open]
    return Measured([result], [] if folder is None else [folder], driver.interrupted, timelines=timed)
