"""From a sweep's plan to its saved figures: folder, worker, progress. What `ortbench bandwidth` goes through."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core import files, signals
from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED
from ortbench.core.safe_text import complain
from ortbench.jobs.progress import observed
from ortbench.jobs.writing import summarise_job, write
from ortbench.measure.process import open_copies

if TYPE_CHECKING:
    from ortbench.model.result import Result
    from ortbench.plan.bandwidth_plan import CopyPlan
    from ortbench.plan.output_options import Wanted
    from ortbench.plan.plan import Observer


def bandwidth(plan: CopyPlan, wanted: Wanted) -> int:
    """Measure a sweep of copies, save and show it; the exit code.

    Raises:
        BadInput, BenchmarkFailed, Unsupported: before anything could be measured.
    """
    found, folder, interrupted = measured(plan, wanted.out, wanted.quiet)
    _show(found, str(folder), wanted.json, wanted.quiet)
    return INTERRUPTED if interrupted else _exit_code(found)


def measured(
    plan: CopyPlan, out: Path | None, quiet: bool, observer: Observer | None = None
) -> tuple[Result, Path | None, bool]:
    """Measure a bandwidth sweep and save it in a folder of its own, also after Ctrl-C.

    Args:
        plan: checked.
        out: where the folder is made; None where nothing is to be saved.
        quiet: show no progress.
        observer: told what happens, in place of a progress on the terminal.

    Returns:
        The result, its folder (None without one), and whether it was interrupted by Ctrl-C.

    Raises:
        BadInput, BenchmarkFailed, Unsupported: before anything could be measured.
    """
    with ExitStack() as stack:
        client = stack.enter_context(open_copies(plan))

        from ortbench.analysis.bandwidth import FILE_NAME
        from ortbench.measure.bandwidth import CopyBench
        from ortbench.measure.folder import bandwidth_name, discard_if_empty, new_folder
        from ortbench.model.result_file import save
        from ortbench.report.folder import write_bandwidth

        signals.hold()  # from here on there is a folder, and soon something in it
        folder = None if out is None else new_folder(out, bandwidth_name(plan))
        try:

            def keep(result: Result) -> None:
                if folder is not None:
                    with files.noting(folder / FILE_NAME):
                        save(result, folder / FILE_NAME)

            bench = CopyBench(plan, client, keep, observed(stack, quiet, observer))
            bench.run()
        except BaseException:
            if folder is not None:
                discard_if_empty(folder)
            raise
    if folder is not None:
        write_bandwidth(bench.result, folder)
    return bench.result, folder, bench.interrupted


def _show(result: Result, folder: str, json_out: str | None, quiet: bool) -> None:
    from ortbench.model.result_file import result_json
    from ortbench.report.bandwidth import build
    from ortbench.report.markdown import markdown

    report = build(result, folder)
    summarise_job(markdown(report))
    if json_out is not None:
        write(json_out, result_json(result), "--json")
    if json_out == "-" or quiet:
        return
    from ortbench.report.terminal.print import print_report

    print_report(report)


def _exit_code(result: Result) -> int:
    """1 as soon as a copy failed; each reason once on standard error."""
    from ortbench.report.bandwidth import failures

    found = failures(result)
    for failure in found:
        complain(str(failure))
    return BENCHMARK_FAILED if found else DONE
