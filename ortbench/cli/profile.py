"""`ortbench profile`."""

from __future__ import annotations

import json
import shutil
import sys
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
from ortbench.errors import INTERRUPTED, BenchmarkFailed
from ortbench.plan import Loop, Plan, check

if TYPE_CHECKING:
    from ortbench.profile import Profile, Recording
    from ortbench.result import Result

SESSION = "profile.json"
TOO_OLD = (
    "the profiler that is attached takes no ranges from the nvtx package, so nothing was recorded; Nsight Systems may be "
    "older than what the package needs"
)


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

    from ortbench import nsight

    nsys = None if attach_only else nsight.find()
    remarks: list[str] = []
    if nsys is None:
        made, folder, interrupted = _session(plan, out, quiet)
        remarks = _remarks(made.session, attach_only)
    else:
        made, folder, interrupted = *_recorded(plan, nsys, out, quiet, remarks), False
    _save(made, folder, json_out)
    if not quiet and json_out != "-":
        from ortbench.terminal import print_profile

        print_profile(made, str(folder), remarks)
    raise SystemExit(INTERRUPTED if interrupted else say_failures(made.session))


def _session(plan: Plan, out: Path, quiet: bool) -> tuple[Profile, Path, bool]:
    """The session by itself; its folder holds no result, because a result is what other commands compare."""
    from ortbench.launch import launch

    def folder() -> Path:
        from ortbench.reports import new_folder, profile_name

        return new_folder(out, profile_name(plan))

    launched = launch([plan], folder, quiet=quiet)

    from ortbench.profile import Profile

    (session,), (path,) = launched.results, launched.folders
    for name in ("result.json", "table.md", "table.csv"):
        (path / name).unlink()
    return Profile(session, None), path, launched.interrupted


def _recorded(plan: Plan, nsys: str, out: Path, quiet: bool, remarks: list[str]) -> tuple[Profile, Path]:
    """The same command again under Nsight Systems, which records its session, and what both found."""
    from ortbench import nsight
    from ortbench.profile import Profile
    from ortbench.reports import new_folder, profile_name

    version = nsight.version(nsys)
    folder = new_folder(out, profile_name(plan))
    if not quiet:
        print(f"profiling under Nsight Systems {version} …", file=sys.stderr)
    inner, report = folder / "session", folder / "report"
    again = [*sys.argv[1:], "--attach-only", "--quiet", "--out", str(inner), "--json", str(folder / SESSION)]
    try:
        nsight.record(nsys, report, [sys.executable, "-m", "ortbench", *again])
    except BenchmarkFailed as error:
        if not (folder / SESSION).exists():
            raise
        remarks.append(str(error))
    finally:
        shutil.rmtree(inner, ignore_errors=True)
    session = _load_session(folder / SESSION)
    session.command = list(plan.command)
    if not session.setup.get("profiler_listens"):
        remarks[:] = [TOO_OLD]
    return Profile(session, _read_recording(nsys, version, report, remarks)), folder


def _read_recording(nsys: str, version: str, report: Path, remarks: list[str]) -> Recording | None:
    """What Nsight Systems recorded; None with a remark where it cannot be read, since the session is still worth having."""
    from ortbench import nsight

    if remarks:
        return None
    try:
        return nsight.read(nsight.summarise(nsys, report), version, report)
    except BenchmarkFailed as error:
        remarks.append(f"what Nsight Systems recorded could not be read: {error}")
        return None


def _load_session(path: Path) -> Result:
    from ortbench.result import from_dict

    return from_dict(json.loads(path.read_text(encoding="utf-8"))["session"])


def _remarks(session: Result, attach_only: bool) -> list[str]:
    """What a user who wanted a timeline should know."""
    from ortbench.environment import is_profiled
    from ortbench.nsight import RECORD, WHERE_TO_GET_IT

    if not attach_only:
        return [
            "nsys is not on the PATH, so nothing was recorded: Nsight Systems is at "
            f"{WHERE_TO_GET_IT}; without it, ortbench run --trace makes a timeline"
        ]
    if session.setup.get("profiler_listens"):
        return []
    if is_profiled():
        return [TOO_OLD]
    return [f"no profiler is attached; start it as: nsys profile {' '.join(RECORD)} {' '.join(session.command)}"]


def _save(made: Profile, folder: Path, json_out: str | None) -> None:
    from ortbench.profile import markdown, to_json
    from ortbench.result import write_atomically
    from ortbench.table import heading

    text = to_json(made)
    write_atomically(folder / SESSION, text)
    write_atomically(folder / "table.md", markdown(made, heading(made.session)))
    if json_out is not None:
        write(json_out, text, "--json")
