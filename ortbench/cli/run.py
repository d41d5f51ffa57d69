"""`ortbench run`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ortbench.cli.options import (
    EP_HELP,
    REPORTS,
    SAME,
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
from ortbench.cli.writing import check_place, say_failures, summarise_job, write, write_compressible, write_page
from ortbench.errors import BENCHMARK_FAILED, DONE, INTERRUPTED, BadInput
from ortbench.plan import Loop, Plan, check, parse_share

if TYPE_CHECKING:
    from ortbench.jobs.run import Launched
    from ortbench.result import Result


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
    if json_out == "-" and html == "-":
        raise BadInput("--json and --html cannot both go to standard output")
    check_place(html, "--html")
    if trace == "-":
        raise BadInput("--trace -: name a file")
    check_place(trace, "--trace")
    if bandwidth is not None and not bandwidth.exists():
        raise BadInput(f"--bandwidth: no such file or folder: {bandwidth}")
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
    launched = _measure(plans, bandwidth, out, quiet, trace is not None)
    _write_exports(launched.results, "ortbench run", junit, action_json)
    if len(plans) == 1:
        _show(launched, json_out, quiet or html == "-")
    else:
        _show_side_by_side(launched, quiet or html == "-")
    if html is not None:
        errors = [f"{name}: {error}" for name, error in launched.not_opened]
        write_page(html, launched.results, [folder.name for folder in launched.folders], errors)
    if trace is not None:
        _write_trace(launched, trace, quiet or "-" in (json_out, html))
    raise SystemExit(_exit_code(launched))


def _measure(plans: Sequence[Plan], sweep: Path | None, out: Path, quiet: bool, traced: bool) -> Launched:
    from ortbench.jobs.run import launch

    def folder() -> Path:
        from ortbench.measure.folder import new_folder, run_name

        return new_folder(out, run_name(plans))

    def find_link(results: Sequence[Result]) -> None:
        from ortbench.analysis.link import attach

        attach(results, out, sweep)

    return launch(plans, folder, _names(plans), after_open=find_link, quiet=quiet, traced=traced)


def _names(plans: Sequence[Plan]) -> list[str] | None:
    """What to call several sides: their EPs, each name once."""
    if len(plans) == 1:
        return None
    from ortbench.characters import plain_name
    from ortbench.measure.folder import target_name

    names: list[str] = []
    for plan in plans:
        name = plain_name(target_name(plan))
        names.append(name if name not in names else f"{name}-{len(names) + 1}")
    return names


def _show(launched: Launched, json_out: str | None, quiet: bool) -> None:
    from ortbench.report.run import markdown
    from ortbench.result import to_json

    (result,), (folder,) = launched.results, launched.folders
    summarise_job(markdown(result))
    if json_out is not None:
        write(json_out, to_json(result), "--json")
    if json_out == "-" or quiet:
        return
    from ortbench.report.terminal.print import print_result

    print_result(result, str(folder))


def _show_side_by_side(launched: Launched, quiet: bool) -> None:
    from ortbench.files import write_atomically
    from ortbench.report.comparison import comparison_markdown
    from ortbench.report.run import markdown

    results = launched.results
    names = [folder.name for folder in launched.folders]
    parent = launched.folders[0].parent
    same = parse_share(SAME, "--same")
    text = comparison_markdown(results, names, same, in_order=False) if len(results) > 1 else ""
    if text:
        write_atomically(parent / "comparison.md", text)
    summarise_job("\n".join([text, *map(markdown, results)]))
    if quiet:
        return
    from ortbench.report.terminal.print import print_comparison, print_result

    for result, folder in zip(results, launched.folders, strict=True):
        print_result(result, str(folder))
        print()
    if len(results) > 1:
        print_comparison(results, names, same, in_order=False)


def _write_exports(results: Sequence[Result], name: str, junit: str | None, action_json: str | None) -> None:
    """The forms that CI systems read, of a run."""
    if junit is None and action_json is None:
        return
    from ortbench.report.exports import github
    from ortbench.report.exports import junit as exports_junit

    if junit is not None:
        outcomes = [outcome for result in results for outcome in exports_junit.outcomes_of_run(result)]
        write(junit, exports_junit.junit(name, outcomes), "--junit")
    if action_json is not None:
        write(action_json, github.action_json(results), "--action-json")


def _write_trace(launched: Launched, path: str, quiet: bool) -> None:
    """The timeline; what it lacks is said in a line each."""
    from ortbench.report.exports.chrome_trace import chrome_trace, to_json

    trace = chrome_trace(launched.results, launched.timelines)
    write_compressible(path, to_json(trace), "--trace")
    for words in trace["otherData"]["missing"]:
        print(f"ortbench: --trace lacks: {words}", file=sys.stderr)
    if not quiet:
        print(f"Timeline in {path}; open it at ui.perfetto.dev or in chrome://tracing")


def _exit_code(launched: Launched) -> int:
    """What the contract says: 1 as soon as a case failed or nothing could be measured."""
    if launched.interrupted:
        return INTERRUPTED
    several = len(launched.results) > 1
    codes = [say_failures(result, f"{result.target['ep']}: " if several else "") for result in launched.results]
    for name, error in launched.not_opened:
        print(f"ortbench: {name}: {error}", file=sys.stderr)
    return BENCHMARK_FAILED if launched.not_opened or BENCHMARK_FAILED in codes else DONE
