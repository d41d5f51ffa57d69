"""What `ortbench sweep` does: measure the shapes of a model in one session, write what came of it, and show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core import files, signals
from ortbench.core.errors import INTERRUPTED, BadInput, BenchmarkFailed
from ortbench.jobs.junit import write_junit
from ortbench.jobs.progress import observed
from ortbench.jobs.writing import check_place, say_failures, summarise_job, write, write_page, write_trace
from ortbench.measure.process import open_session
from ortbench.plan.ep_options import refuse_unclaimed

if TYPE_CHECKING:
    from ortbench.model.result import Result
    from ortbench.model.slo import Slo
    from ortbench.model.timeline import Timeline
    from ortbench.plan.output_options import Wanted
    from ortbench.plan.plan import Observer
    from ortbench.plan.sweep_plan import Shape


@dataclass(frozen=True)
class Measured:
    """What came of a sweep.

    Attributes:
        result: of it.
        folder: where it was saved; None where nothing is to be saved.
        interrupted: by Ctrl-C or its like.
        timelines: of the shapes that opened, by their names, where they were asked for, with the results that they are of.
    """

    result: Result
    folder: Path | None
    interrupted: bool
    timelines: list[tuple[str, Result, Timeline]]


def sweep(shapes: Sequence[Shape], slo: Slo | None, wanted: Wanted) -> int:
    """Measure a sweep, save and show it; the exit code.

    Raises:
        BadInput, BenchmarkFailed: before anything could be measured.
    """
    files_too = {
        "--json": wanted.json,
        "--junit": wanted.junit,
        "--action-json": wanted.action_json,
        "--bmf": wanted.bmf,
    }
    for option, path in files_too.items():
        check_place(path, option)
    found = measured(shapes, slo, wanted.out, traced=wanted.trace is not None, quiet=wanted.quiet)
    assert found.folder is not None
    _write_exports(found.result, wanted)
    _show(found.result, str(found.folder), wanted.json, wanted.quiet or wanted.html == "-")
    if wanted.html is not None:
        write_page(wanted.html, [found.result], [found.folder.name])
    if wanted.trace is not None:
        names, results, timelines = map(list, zip(*found.timelines, strict=True))  # each shape as a run of its own
        write_trace(results, timelines, names, wanted.trace, wanted.quiet or "-" in (wanted.json, wanted.html))
    if found.interrupted:
        return INTERRUPTED
    return say_failures(found.result)


def measured(
    shapes: Sequence[Shape],
    slo: Slo | None,
    out: Path | None,
    *,
    place: Callable[[], Path] | None = None,
    traced: bool = False,
    quiet: bool = False,
    observer: Observer | None = None,
) -> Measured:
    """Measure a sweep and save it in a folder of its own, also after Ctrl-C.

    Args:
        shapes: checked, at least two.
        slo: what the best shape has to keep.
        out: where the folder is made; None where nothing is to be saved.
        place: makes the folder, in place of a new one in `out`.
        traced: keep a timeline of every shape.
        quiet: show no progress.
        observer: told what happens, in place of a progress on the terminal.

    Raises:
        BadInput, BenchmarkFailed: before anything could be measured.
    """
    plan = shapes[0].plan
    with ExitStack() as stack:
        client = open_session(plan)
        stack.callback(client.close)

        from ortbench.jobs.launch import load_the_rest
        from ortbench.measure.folder import discard_if_empty, new_folder, run_name
        from ortbench.measure.points import PointSide, SharedWorker
        from ortbench.measure.sweep import SweepBench
        from ortbench.model.result_file import save
        from ortbench.model.timeline import Timeline
        from ortbench.report.folder import write_run

        signals.hold()  # from here on there is a folder, and soon something in it
        name = f"sweep-{run_name([plan])}" if plan.name is None else run_name([plan])
        folder = place() if place is not None else None if out is None else new_folder(out, name)

        def keep(result: Result) -> None:
            if folder is not None:
                with files.noting(folder / "result.json"):
                    save(result, folder / "result.json")

        def when_open(results: Sequence[Result]) -> None:
            refuse_unclaimed(plan.target.options, [results[0].target["ep"]])

        try:
            worker = SharedWorker(plan, client)
            stack.callback(worker.close)
            sides = [
                PointSide(shape.plan, number, worker, shape.name, Timeline() if traced else None)
                for number, shape in enumerate(shapes)
            ]
            told = observed(stack, quiet, observer)
            bench = SweepBench(shapes, sides, worker, slo, keep, told, load_the_rest, when_open)
            bench.run()
            result = bench.result()
            keep(result)
        except BaseException as error:
            if folder is not None:
                discard_if_empty(folder)
            if isinstance(error, BenchmarkFailed) and isinstance(error.__cause__, BadInput):
                raise error.__cause__ from None  # of no shape the input can be read
            raise
    if folder is not None:
        write_run(result, folder)
    timed = [(side.name, side.result, side.timeline) for side in sides if side.timeline is not None and side.is_open]
    return Measured(result, folder, bench.interrupted, timed)


def _show(result: Result, folder: str, json_out: str | None, quiet: bool) -> None:
    from ortbench.model.result_file import result_json
    from ortbench.report.markdown import markdown
    from ortbench.report.run import build

    report = build(result, folder)
    summarise_job(markdown(report))
    if json_out is not None:
        write(json_out, result_json(result), "--json")
    if json_out == "-" or quiet:
        return
    from ortbench.report.terminal.print import print_report

    print_report(report)


def _write_exports(result: Result, wanted: Wanted) -> None:
    """The forms that CI systems read."""
    if wanted.junit is None and wanted.action_json is None and wanted.bmf is None:
        return
    from ortbench.report.exports import bencher, github
    from ortbench.report.exports.junit import outcomes_of_run

    if wanted.junit is not None:
        write_junit(wanted.junit, "ortbench sweep", outcomes_of_run(result))
    if wanted.action_json is not None:
        write(wanted.action_json, github.action_json([result]), "--action-json")
    if wanted.bmf is not None:
        write(wanted.bmf, bencher.bmf([result]), "--bmf")
