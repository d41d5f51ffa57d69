"""`ortbench run`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ortbench.cli.options import (
    EP_HELP,
    REPORTS,
    ActionOut,
    AsyncRuns,
    Atol,
    ComputeStream,
    CudaGraph,
    Depth,
    Device,
    Dim,
    DynamicOutputs,
    EngineCache,
    EpLibrary,
    EpOption,
    Expect,
    External,
    HtmlOut,
    Input,
    JsonOut,
    JunitOut,
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
    Trace,
    Warmup,
    added_modes,
    command_line,
    depth_of,
    inputs_of,
    modes_of,
    options_for,
    target_of,
)
from ortbench.errors import BadInput
from ortbench.plan import Loop, Plan, check, parse_share

if TYPE_CHECKING:
    pass


def run(
    model: Model,
    ep: Annotated[
        list[str],
        typer.Option("--ep", metavar="NAME", help=f"Execution provider: {EP_HELP}. Repeatable: EPs side by side."),
    ] = ["auto"],  # noqa: B006 - typer reads the default and never keeps it
    ep_library: EpLibrary = None,
    ep_option: EpOption = [],  # noqa: B006
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
    duration: Annotated[
        float | None, typer.Option("--duration", metavar="SECONDS", help="Longest measurement, per mode. Default: 5.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option("--iterations", metavar="N", help="Measure exactly N runs of each mode.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option("--precision", metavar="P", help="Stop when each median is known this well (95 %). Default: 1%."),
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
    nodes: Annotated[
        bool,
        typer.Option("--nodes", help="Then profile some runs: time by operator and EP, copies inside the graph."),
    ] = False,
    measure_copies: Annotated[
        bool,
        typer.Option("--measure-copies", help="Then have NVIDIA's CUPTI measure the copies inside some runs."),
    ] = False,
    timeout: Timeout = 600.0,
    bandwidth: Annotated[
        Path | None,
        typer.Option(
            "--bandwidth",
            metavar="PATH",
            help="A sweep of 'ortbench bandwidth' to hold the copies against. Default: the newest in --out that fits.",
        ),
    ] = None,
    out: Out = REPORTS,
    json_out: JsonOut = None,
    junit: JunitOut = None,
    action_json: ActionOut = None,
    trace: Trace = None,
    html: HtmlOut = None,
    quiet: Quiet = False,
) -> None:
    """Measure a model in its I/O modes: what copies and inference cost."""
    eps = list(dict.fromkeys(ep))
    if iterations is not None and (duration is not None or precision is not None):
        raise BadInput("--iterations fixes how much is measured: leave --duration and --precision out")
    if len(eps) > 1 and (ep_library is not None or device is not None):
        raise BadInput("with several --ep give a library as an --ep of its own, and no --device")
    if len(eps) > 1 and json_out is not None:
        raise BadInput("--json is for one --ep: every EP has a result.json in a folder of its own")
    from ortbench.jobs import run as job

    wanted = job.Wanted(out, bandwidth, json_out, junit, action_json, trace, html, quiet)
    job.check_wanted(wanted)
    inputs = inputs_of(input, expect, shape, dim, range_, seed, rtol, atol)
    loop = Loop(
        warmup=warmup,
        duration_s=5.0 if duration is None else duration,
        iterations=iterations,
        precision=parse_share("1%" if precision is None else precision, "--precision"),
        depth=depth_of(depth),
    )
    plans = []
    for name in eps:
        own = options_for(name, eps, ep_option) if len(eps) > 1 else ep_option
        target = target_of(
            ep=name, ep_library=ep_library, device=device, ep_option=own, session_config=session_config,
            threads=threads, opt_level=opt_level, require_placement=require_placement, dynamic_outputs=dynamic_outputs,
            external=external, cuda_graph=cuda_graph, stream=stream, engine_cache=engine_cache,
        )  # fmt: skip
        modes = modes_of(mode, added_modes(depth, pinned, async_runs))
        plan = Plan(model, target, inputs, modes, loop, timeout, command=command_line(), nodes=nodes)
        plans.append(replace(plan, measure_copies=measure_copies))
        check(plans[-1])
    raise SystemExit(job.run(plans, wanted))
