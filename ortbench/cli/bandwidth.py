"""`ortbench bandwidth`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ortbench.cli.options import REPORTS, Device, Ep, EpLibrary, JsonOut, Out, Quiet, Timeout, command_line, target_of
from ortbench.cli.writing import summarise_job, write
from ortbench.errors import BENCHMARK_FAILED, DONE, INTERRUPTED
from ortbench.sweep_plan import CopyPlan, check, parse_size

if TYPE_CHECKING:
    from ortbench.analysis.sweep import Sweep


def bandwidth(
    ep: Ep = "auto",
    ep_library: EpLibrary = None,
    device: Device = None,
    min_size: Annotated[
        str, typer.Option("--min-size", metavar="SIZE", help="The smallest copy: 4kB, 64KiB, 4096.")
    ] = "4kB",
    max_size: Annotated[
        str, typer.Option("--max-size", metavar="SIZE", help="The largest copy, as far as memory allows.")
    ] = "256MB",
    duration: Annotated[
        float, typer.Option("--duration", metavar="SECONDS", help="Longest measurement, all sizes together.")
    ] = 20.0,
    iterations: Annotated[
        int | None, typer.Option("--iterations", metavar="N", help="Measure exactly N copies of each size instead.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the data and of the order of blocks.")] = 0,
    timeout: Timeout = 600.0,
    out: Out = REPORTS,
    json_out: JsonOut = None,
    quiet: Quiet = False,
) -> None:
    """Measure how fast an EP's device is copied to and from, over sizes."""
    plan = CopyPlan(
        target=target_of(ep=ep, ep_library=ep_library, device=device),
        min_bytes=parse_size(min_size, "--min-size"),
        max_bytes=parse_size(max_size, "--max-size"),
        duration_s=duration,
        iterations=iterations,
        seed=seed,
        timeout_s=timeout,
        command=command_line(),
    )
    check(plan)
    from ortbench.jobs.sweep import launch_sweep

    sweep, folder, interrupted = launch_sweep(plan, out, quiet)
    _show(sweep, str(folder), json_out, quiet)
    raise SystemExit(INTERRUPTED if interrupted else _exit_code(sweep))


def _show(sweep: Sweep, folder: str, json_out: str | None, quiet: bool) -> None:
    from ortbench.analysis.sweep import to_json
    from ortbench.report.sweep import markdown

    summarise_job(markdown(sweep))
    if json_out is not None:
        write(json_out, to_json(sweep), "--json")
    if json_out == "-" or quiet:
        return
    from ortbench.report.terminal.print import print_sweep

    print_sweep(sweep, folder)


def _exit_code(sweep: Sweep) -> int:
    """1 as soon as a copy failed; each reason once on standard error."""
    from ortbench.report.sweep import notes

    failures = notes(sweep)
    for failure in failures:
        print(f"ortbench: {failure}", file=sys.stderr)
    return BENCHMARK_FAILED if failures else DONE
