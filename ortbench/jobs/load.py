"""What `ortbench load` does: put a load on a model, save what came of it, and show it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core import signals
from ortbench.core.errors import INTERRUPTED
from ortbench.jobs.junit import write_junit
from ortbench.jobs.progress import observed
from ortbench.jobs.run import check_wanted
from ortbench.jobs.writing import check_place, say_failures, summarise_job, write, write_page, write_trace
from ortbench.measure.process import open_worker
from ortbench.model.timeline import Timeline

if TYPE_CHECKING:
    from ortbench.analysis.loads.load_levels import Taken
    from ortbench.measure.load_samples import Arrays
    from ortbench.model.result import Result
    from ortbench.plan.load_plan import LoadPlan
    from ortbench.plan.output_options import Wanted
    from ortbench.plan.plan import Observer, Plan


@dataclass(frozen=True)
class Loaded:
    """What came of a load.

    Attributes:
        result: of it.
        folder: where it was saved; None where nothing is to be saved.
        interrupted: by Ctrl-C or its like.
        taken: the levels with all that was measured at them, in the order of those of the result.
    """

    result: Result
    folder: Path | None
    interrupted: bool
    taken: list[Taken]

    def samples(self) -> Arrays:
        """What ``load-samples.npz`` has."""
        from ortbench.measure.load_samples import arrays

        return arrays(self.taken)


def saved_samples(folder: Path) -> Arrays | None:
    """What the ``load-samples.npz`` of a folder has; None where there is none.

    Raises:
        BadInput: it cannot be read.
    """
    from ortbench.measure.load_samples import read

    return read(folder)


def load(plan: Plan, put: LoadPlan, wanted: Wanted) -> int:
    """Put a load on a model, save and show what came of it; the exit code.

    Args:
        plan, put: checked.
        wanted: what is to be written and shown.

    Raises:
        BadInput, BenchmarkFailed: before anything could be measured.
    """
    for path, option in ((wanted.json, "--json"), (wanted.junit, "--junit"), (wanted.action_json, "--action-json")):
        check_place(path, option)
    check_wanted(wanted)
    timeline = None if wanted.trace is None else Timeline()
    found = measure(plan, put, partial(new_load_folder, wanted.out, plan), wanted.quiet, timeline=timeline)
    assert found.folder is not None
    _show(found.result, found.folder, wanted)
    if wanted.trace is not None and timeline is not None:
        from ortbench.analysis.loads.load_timeline import load_blocks

        timeline.load += load_blocks(found.taken)
        write_trace([found.result], [timeline], [], wanted.trace, wanted.quiet or "-" in (wanted.json, wanted.html))
    return INTERRUPTED if found.interrupted else say_failures(found.result)


def new_load_folder(out: Path, plan: Plan) -> Path:
    """Make the folder of a load."""
    from ortbench.measure.folder import load_name, new_folder

    return new_folder(out, load_name(plan))


def measure(
    plan: Plan,
    put: LoadPlan,
    place: Callable[[], Path] | None,
    quiet: bool,
    observer: Observer | None = None,
    timeline: Timeline | None = None,
) -> Loaded:
    """Put a load on a model and save what came of it in a folder, also after Ctrl-C.

    Args:
        plan, put: checked.
        place: makes the folder; None where nothing is to be saved.
        quiet: show no progress.
        observer: told what happens, in place of a progress on the terminal.
        timeline: where to write down what happens when, but for the levels; None where nobody wants to know.

    Raises:
        BadInput, BenchmarkFailed: before anything could be measured.
    """
    with ExitStack() as stack:
        client = stack.enter_context(open_worker(plan))

        from ortbench.jobs.launch import keep, load_the_rest
        from ortbench.measure.folder import discard_if_empty
        from ortbench.measure.load import LoadBench
        from ortbench.measure.load_samples import write as write_samples
        from ortbench.measure.side import Side, nowhere
        from ortbench.report.folder import write_run

        signals.hold()  # from here on there is a folder, and soon something in it
        folder = None if place is None else place()
        try:
            saves = nowhere if folder is None else partial(keep, path=folder / "result.json")
            side = Side(plan, client, saves, timeline=timeline)
            bench = LoadBench(side, put, observed(stack, quiet, observer), load_the_rest)
            bench.run()
        except BaseException:
            if folder is not None:
                discard_if_empty(folder)
            raise
    if folder is not None:
        write_samples(bench.taken, folder)
        write_run(side.result, folder)
    return Loaded(side.result, folder, bench.interrupted, bench.taken)


def _show(result: Result, folder: Path, wanted: Wanted) -> None:
    """Write and print what came of a load."""
    from ortbench.model.result_file import result_json
    from ortbench.report.load import build
    from ortbench.report.markdown import markdown

    report = build(result, str(folder))
    summarise_job(markdown(report))
    if wanted.json is not None:
        write(wanted.json, result_json(result), "--json")
    if wanted.junit is not None:
        from ortbench.report.exports.junit import outcomes_of_run

        write_junit(wanted.junit, "ortbench load", outcomes_of_run(result))
    if wanted.action_json is not None:
        from ortbench.report.exports.github import action_json

        write(wanted.action_json, action_json([result]), "--action-json")
    if "-" not in (wanted.json, wanted.html) and not wanted.quiet:
        from ortbench.report.terminal.print import print_report

        print_report(report)
    if wanted.html is not None:
        write_page(wanted.html, [result], [folder.name])
