"""`ortbench profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
from ortbench.cli.writing import say_failures, write
from ortbench.errors import INTERRUPTED
from ortbench.jobs.profile import SESSION, recorded, remarks_of, session_alone
from ortbench.plan import Loop, Plan, check

if TYPE_CHECKING:
    from ortbench.analysis.nsight import Profile


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

    from ortbench.measure import nsys as measure_nsys

    nsys = None if attach_only else measure_nsys.find()
    remarks: list[str] = []
    if nsys is None:
        made, folder, interrupted = session_alone(plan, out, quiet)
        remarks = remarks_of(made.session, attach_only)
    else:
        made, folder, interrupted = *recorded(plan, nsys, out, quiet, remarks), False
    _save(made, folder, json_out)
    if not quiet and json_out != "-":
        from ortbench.report.terminal.print import print_profile

        print_profile(made, str(folder), remarks)
    raise SystemExit(INTERRUPTED if interrupted else say_failures(made.session))


def _save(made: Profile, folder: Path, json_out: str | None) -> None:
    from ortbench.analysis.nsight import to_json
    from ortbench.files import write_atomically
    from ortbench.report.profile import markdown
    from ortbench.report.words import heading

    text = to_json(made)
    write_atomically(folder / SESSION, text)
    write_atomically(folder / "table.md", markdown(made, heading(made.session)))
    if json_out is not None:
        write(json_out, text, "--json")
