"""`ortbench profile`."""

from __future__ import annotations

from typing import Annotated

import typer

from ortbench.cli.options import (
    REPORTS,
    AsyncRuns,
    Atol,
    ComputeStream,
    CudaGraph,
    Depth,
    Device,
    Dim,
    DynamicOutputs,
    EngineCache,
    Ep,
    EpLibrary,
    EpOption,
    Expect,
    External,
    Input,
    JsonOut,
    Mode,
    Model,
    OptLevel,
    Out,
    Pinned,
    Quiet,
    Range,
    RequirePlacement,
    Rtol,
    Seed,
    SessionConfig,
    Shape,
    Threads,
    Timeout,
    Warmup,
    added_modes,
    command_line,
    depth_of,
    inputs_of,
    modes_of,
    target_of,
)
from ortbench.plan import Loop, Plan, check


def profile(
    model: Model,
    ep: Ep = "auto",
    ep_library: EpLibrary = None,
    ep_option: EpOption = [],  # noqa: B006 - typer reads the default and never keeps it
    device: Device = None,
    mode: Mode = [],  # noqa: B006
    depth: Depth = None,
    pinned: Pinned = False,
    async_runs: AsyncRuns = False,
    input: Input = None,
    expect: Expect = None,
    shape: Shape = [],  # noqa: B006
    dim: Dim = [],  # noqa: B006
    range_: Range = [],  # noqa: B006
    seed: Seed = 0,
    rtol: Rtol = None,
    atol: Atol = None,
    warmup: Warmup = None,
    iterations: Annotated[
        int | None,
        typer.Option("--iterations", metavar="N", help="Runs of each phase. Default: a second's worth, 3 to 20."),
    ] = None,
    engine_cache: EngineCache = None,
    session_config: SessionConfig = [],  # noqa: B006
    threads: Threads = None,
    opt_level: OptLevel = "all",
    require_placement: RequirePlacement = False,
    dynamic_outputs: DynamicOutputs = False,
    external: External = None,
    cuda_graph: CudaGraph = False,
    stream: ComputeStream = None,
    attach_only: Annotated[
        bool,
        typer.Option("--attach-only", help="Do not start nsys: run the session for a profiler that is attached."),
    ] = False,
    timeout: Timeout = 600.0,
    out: Out = REPORTS,
    json_out: JsonOut = None,
    quiet: Quiet = False,
) -> None:
    """Run a short session made for a timeline, under Nsight Systems where it is installed."""
    target = target_of(
        ep=ep, ep_library=ep_library, device=device, ep_option=ep_option, session_config=session_config,
        threads=threads, opt_level=opt_level, require_placement=require_placement, dynamic_outputs=dynamic_outputs,
        external=external, cuda_graph=cuda_graph, stream=stream, engine_cache=engine_cache,
    )  # fmt: skip
    plan = Plan(
        model=model,
        target=target,
        inputs=inputs_of(input, expect, shape, dim, range_, seed, rtol, atol),
        modes=modes_of(mode, added_modes(depth, pinned, async_runs)),
        loop=Loop(warmup=warmup, iterations=iterations, in_order=True, depth=depth_of(depth)),
        timeout_s=timeout,
        command=command_line(),
    )
    check(plan)
    from ortbench.jobs import profile as job

    raise SystemExit(job.profile(plan, attach_only, out, json_out, quiet))
