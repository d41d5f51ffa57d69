"""`ortbench gate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ortbench.cli.options import (
    LIVE_DURATION_S,
    REPORTS,
    AsyncRuns,
    Atol,
    Baseline,
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
    Force,
    Input,
    JsonOut,
    JunitOut,
    Mode,
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
    inputs_of,
    limits_of,
    live_loop,
    modes_needed,
    modes_of,
    target_of,
)
from ortbench.errors import BadInput
from ortbench.plan import Plan, check


def gate(
    context: typer.Context,
    result: Annotated[
        Path | None,
        typer.Argument(
            metavar="RESULT.json", help="A result file, or a folder that holds one; without it the gate is live."
        ),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option("--baseline", metavar="BASE.json", help="The stored result it is held against.")
    ] = None,
    max_regression: Annotated[
        str | None,
        typer.Option("--max-regression", metavar="P", help="How much slower it may be. Default with a baseline: 5%."),
    ] = None,
    metric: Annotated[
        list[str],
        typer.Option("--metric", metavar="M", help="What must not be slower, such as device.total.median; repeatable."),
    ] = [],  # noqa: B006
    min_speedup: Annotated[
        list[str],
        typer.Option("--min-speedup", metavar="MODE=X", help="A mode must be X times as fast as cpu; repeatable."),
    ] = [],  # noqa: B006
    max_copy_share: Annotated[
        str | None,
        typer.Option("--max-copy-share", metavar="P", help="Share of a run with CPU tensors that is copies."),
    ] = None,
    max_cpu_nodes: Annotated[
        int | None, typer.Option("--max-cpu-nodes", metavar="N", help="Nodes that may stay on the CPU.")
    ] = None,
    require_mode: Annotated[
        list[str], typer.Option("--require-mode", metavar="MODE", help="A mode that must work; repeatable.")
    ] = [],  # noqa: B006
    force: Force = False,
    model: Annotated[str | None, typer.Option("--model", metavar="MODEL", help="Live: the candidate's model.")] = None,
    baseline_model: Annotated[
        str | None, typer.Option("--baseline-model", metavar="MODEL", help="Live: the model it is held against.")
    ] = None,
    baseline_ep: Annotated[str | None, typer.Option("--baseline-ep", metavar="NAME", help="Live: another EP.")] = None,
    baseline_ep_library: Annotated[
        str | None, typer.Option("--baseline-ep-library", metavar="PATH", help="Live: another plugin EP library.")
    ] = None,
    baseline_ep_option: Annotated[
        list[str],
        typer.Option("--baseline-ep-option", metavar="K=V", help="Live: instead of --ep-option; '' for none."),
    ] = [],  # noqa: B006
    baseline_session_config: Annotated[
        list[str],
        typer.Option(
            "--baseline-session-config", metavar="K=V", help="Live: instead of --session-config; '' for none."
        ),
    ] = [],  # noqa: B006
    baseline_python: Annotated[
        str | None,
        typer.Option("--baseline-python", metavar="PATH", help="Live: the interpreter of another environment."),
    ] = None,
    ep: Ep = "auto",
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
        float, typer.Option("--duration", metavar="SECONDS", help="Live: longest measurement of each mode, both sides.")
    ] = LIVE_DURATION_S,
    engine_cache: EngineCache = None,
    session_config: SessionConfig = [],  # noqa: B006
    threads: Threads = None,
    opt_level: OptLevel = "all",
    require_placement: RequirePlacement = False,
    dynamic_outputs: DynamicOutputs = False,
    external: External = None,
    cuda_graph: CudaGraph = False,
    stream: ComputeStream = None,
    timeout: Timeout = 600.0,
    out: Out = REPORTS,
    json_out: JsonOut = None,
    junit: JunitOut = None,
    quiet: Quiet = False,
) -> None:
    """Pass or fail, for CI: a model, live, or a stored result.

    Against limits and a baseline. Live, with --model, candidate and baseline are measured in turns until the verdict
    is clear.
    """
    other = Baseline(
        baseline_model, baseline_ep, baseline_ep_library, tuple(baseline_ep_option), tuple(baseline_session_config),
        baseline_python,
    )  # fmt: skip
    has_baseline = baseline is not None or other.given
    if max_regression is not None and not has_baseline:
        raise BadInput("--max-regression needs something to hold it against: --baseline, or live one of --baseline-…")
    if metric and not has_baseline:
        raise BadInput("--metric says what is held against a baseline: give one")
    added = added_modes(depth, pinned, async_runs)
    held = modes_of(mode, added) if mode else ()
    limits = limits_of(
        has_baseline, held, max_regression, metric, min_speedup, max_copy_share, max_cpu_nodes, require_mode
    )
    if not limits.any:
        raise BadInput("nothing to check: give --baseline, a live baseline, or a limit such as --max-cpu-nodes 0")
    from ortbench.jobs import gate as job

    wanted = job.Wanted(json_out, junit, quiet)
    if result is not None:
        if model is not None or other.given:
            raise BadInput("a result file and a live gate (--model, --baseline-…) exclude each other")
        _refuse_live_options(context)
        raise SystemExit(job.check_stored_result(result, baseline, limits, force, wanted))
    if model is None:
        raise BadInput("name a result file, or for a live gate a --model")
    if baseline is not None:
        raise BadInput("a live gate measures its baseline itself: leave --baseline out or name a result file")
    target = target_of(
        ep=ep, ep_library=ep_library, device=device, ep_option=ep_option, session_config=session_config,
        threads=threads, opt_level=opt_level, require_placement=require_placement, dynamic_outputs=dynamic_outputs,
        external=external, cuda_graph=cuda_graph, stream=stream, engine_cache=engine_cache,
    )  # fmt: skip
    plan = Plan(
        model=model,
        target=target,
        inputs=inputs_of(input, expect, shape, dim, range_, seed, rtol, atol),
        modes=modes_needed(mode, added, limits),
        loop=live_loop(warmup, depth, duration, limits),
        timeout_s=timeout,
        command=command_line(),
    )
    plans = [plan, other.of(plan)] if other.given else [plan]
    for it in plans:
        check(it)
    raise SystemExit(job.measure_until_decided(plans, limits, force, out, wanted))


_LIVE_ONLY = (
    "ep", "ep_library", "ep_option", "device", "pinned", "async_runs", "input", "expect", "shape", "dim", "range_", "seed",
    "rtol", "atol", "warmup", "duration", "depth", "session_config", "threads", "opt_level", "require_placement",
    "dynamic_outputs", "external", "cuda_graph", "stream", "engine_cache", "timeout", "out",
)  # fmt: skip


def _refuse_live_options(context: typer.Context) -> None:
    """An option that says how to measure does nothing for a result that has been measured.

    Raises:
        BadInput: one was given.
    """
    for name in _LIVE_ONLY:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.strip("_").replace("_", "-")
            raise BadInput(f"{option} says how to measure: it is for a live gate (--model), not for a result file")
