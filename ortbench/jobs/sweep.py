"""From a sweep's plan to its saved figures: folder, worker, progress. What `ortbench bandwidth` goes through."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.errors import BENCHMARK_FAILED, DONE, INTERRUPTED
from ortbench.jobs.writing import summarise_job, write
from ortbench.measure.process import open_copies

if TYPE_CHECKING:
    from ortbench.analysis.sweep import Sweep
    from ortbench.sweep_plan import CopyPlan
    from ortbench.wanted import Wanted


def sweep(plan: CopyPlan, wanted: Wanted) -> int:
    """Measure a sweep of copies, save and show it; the exit code.

    Raises:
        BadInput, BenchmarkFailed, Unsupported: before anything could be measured.
    """
    measured, folder, interrupted = _measure(plan, wanted.out, wanted.quiet)
    _show(measured, str(folder), wanted.json, wanted.quiet)
    return INTERRUPTED if interrupted else _exit_code(measured)


def _measure(plan: CopyPlan, out: Path, quiet: bool) -> tuple[Sweep, Path, bool]:
    """Measure a bandwidth sweep and save it in a folder of its own, also after Ctrl-C.

    Args:
        plan: checked.
        out: where the folder is made.
        quiet: show no progress.

    Returns:
        The sweep, its folder, and whether it was interrupted by Ctrl-C.

    Raises:
        BadInput, BenchmarkFailed, Unsupported: before anything could be measured.
    """
    with ExitStack() as stack:
        client = stack.enter_context(open_copies(plan))

        from ortbench.analysis.sweep import save
        from ortbench.measure.folder import discard_if_empty, new_folder, sweep_name
        from ortbench.measure.sweep import SweepBench
        from ortbench.report.folder import write_sweep

        folder = new_folder(out, sweep_name(plan))
        try:
            progress = None
            if not quiet and sys.stderr.isatty():
                from ortbench.report.terminal.progress import LiveProgress

                progress = stack.enter_context(LiveProgress())
            bench = SweepBench(plan, client, lambda sweep: save(sweep, folder), progress)
            bench.run()
        except BaseException:
            discard_if_empty(folder)
            raise
    write_sweep(bench.sweep, folder)
    return bench.sweep, folder, bench.interrupted


def _show(sweep: Sweep, folder: str, json_out: str | None, quiet: bool) -> None:
    from ortbench.analysis.sweep import sweep_json
    from ortbench.report.markdown import markdown
    from ortbench.report.sweep import build

    report = build(sweep, folder)
    summarise_job(markdown(report))
    if json_out is not None:
        write(json_out, sweep_json(sweep), "--json")
    if json_out == "-" or quiet:
        return
    from ortbench.report.terminal.print import print_report

    print_report(report)


def _exit_code(sweep: Sweep) -> int:
    """1 as soon as a copy failed; each reason once on standard error."""
    from ortbench.report.sweep import failures

    found = failures(sweep)
    for failure in found:
        print(f"ortbench: {failure}", file=sys.stderr)
    return BENCHMARK_FAILED if found else DONE
