"""`ortbench bandwidth`."""

from __future__ import annotations

from typing import Annotated

import typer

from ortbench.cli.options import REPORTS, Device, Ep, EpLibrary, JsonOut, Out, Quiet, Timeout, command_line, target_of
from ortbench.sweep_plan import CopyPlan, check, parse_size


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
    from ortbench.jobs import sweep as job

    raise SystemExit(job.sweep(plan, out, json_out, quiet))
