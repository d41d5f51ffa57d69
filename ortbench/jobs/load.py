"""What `ortbench load` does: put a load on a model, save what came of it, and show it."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench import stopping, units
from ortbench.characters import complain, visible
from ortbench.errors import BENCHMARK_FAILED, INTERRUPTED
from ortbench.jobs.writing import check_place, say_failures, write
from ortbench.load_plan import callers
from ortbench.measure.process import open_worker

if TYPE_CHECKING:
    from ortbench.load_plan import LoadPlan
    from ortbench.plan import Plan
    from ortbench.result import Result
    from ortbench.schema import Level
    from ortbench.wanted import Wanted


def load(plan: Plan, put: LoadPlan, wanted: Wanted) -> int:
    """Put a load on a model, save and show what came of it; the exit code.

    Args:
        plan, put: checked.
        wanted: what is to be written and shown.

    Raises:
        BadInput, BenchmarkFailed: before anything could be measured.
    """
    check_place(wanted.json, "--json")
    result, folder, interrupted = _measure(plan, put, wanted.out, wanted.quiet)
    _show(result, folder, wanted)
    return INTERRUPTED if interrupted else _exit_code(result)


def _measure(plan: Plan, put: LoadPlan, out: Path, quiet: bool) -> tuple[Result, Path, bool]:
    """Measure and save in a folder of its own, also after Ctrl-C: the result, its folder, whether it was interrupted."""
    with ExitStack() as stack:
        client = stack.enter_context(open_worker(plan))

        from ortbench.jobs.launch import keep, load_the_rest
        from ortbench.measure.folder import discard_if_empty, load_name, new_folder
        from ortbench.measure.load import LoadBench
        from ortbench.measure.load_samples import write as write_samples
        from ortbench.measure.side import Side

        stopping.hold()  # from here on there is a folder, and soon something in it
        folder = new_folder(out, load_name(plan))
        try:
            side = Side(plan, client, partial(keep, path=folder / "result.json"))
            progress = None
            if not quiet and sys.stderr.isatty():
                from ortbench.report.terminal.progress import LiveProgress

                progress = stack.enter_context(LiveProgress())
            bench = LoadBench(side, put, progress, load_the_rest)
            bench.run()
        except BaseException:
            discard_if_empty(folder)
            raise
    write_samples(bench.taken, folder)
    return side.result, folder, bench.interrupted


def _show(result: Result, folder: Path, wanted: Wanted) -> None:
    from ortbench.result import result_json

    if wanted.json is not None:
        write(wanted.json, result_json(result), "--json")
    if wanted.json == "-" or wanted.quiet:
        return
    for level in result.levels:
        print(visible(_line(level)))
    for mode, found in (result.slo or {"found": {}})["found"].items():
        rate = "no rate that was tried" if found is None else f"up to {found['rate']:.4g} requests/s"
        print(visible(f"{mode}: {rate} keeps the SLO"))
    for warning in result.warnings:
        print(visible(f"warning: {warning['message']}"))
    print(visible(f"Result in {folder / 'result.json'}"))


def _line(level: Level) -> str:
    """A level in a line."""
    at = callers(level["concurrency"]) if "concurrency" in level else f"{level['rate']:g} requests/s"
    head = f"{level['mode']} at {at}"
    latency, rate = level["latency_ns"], level["runs_per_s"]
    if level["status"] != "ok" or latency is None or rate is None:
        return f"{head}: {level['status']}: {level['reason']}"
    times = ", ".join(f"{name} {units.duration(value)}" for name, value in latency.items() if isinstance(value, int))
    waited = level.get("wait_ns")
    wait = "" if waited is None else f", waited {units.duration(waited['mean'])}"
    return f"{head}: {rate:.4g} runs/s, {times}{wait}"


def _exit_code(result: Result) -> int:
    """1 as soon as a mode or a level failed; each reason once on standard error."""
    code = say_failures(result)
    failed = {case.mode for case in result.cases if case.status == "failed"}
    for level in result.levels:
        if level["status"] == "failed" and level["mode"] not in failed:
            complain(_line(level))
            code = BENCHMARK_FAILED
    return code
