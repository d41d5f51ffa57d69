"""The command line. Each command makes a plan, has it carried out, and writes what came of it.

Nothing here imports onnxruntime, rich or pandas at start-up: `ortbench --help` stays quick.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from ortbench import __version__
from ortbench.errors import (
    BAD_INPUT,
    BENCHMARK_FAILED,
    DONE,
    INTERRUPTED,
    BadInput,
    BenchmarkFailed,
    OrtbenchError,
    Unsupported,
    one_line,
)
from ortbench.plan import (
    MODES,
    OPT_LEVELS,
    Inputs,
    Loop,
    Plan,
    Target,
    check,
    check_library,
    parse_dims,
    parse_pairs,
    parse_ranges,
    parse_shapes,
    parse_share,
)

if TYPE_CHECKING:
    from ortbench.bench import Bench
    from ortbench.result import Result

app = typer.Typer(
    help="What ONNX Runtime's copies cost: a model in several I/O modes, side by side, on any execution provider.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model, an .onnx or .ort file.")]
Ep = Annotated[
    str,
    typer.Option(
        "--ep",
        help="Execution provider: auto (the first with a GPU or NPU, else cpu), cpu, cuda, tensorrt, nv-tensorrt-rtx, "
        "webgpu, openvino, qnn, migraphx, dml, a full name, or an installed plugin package.",
    ),
]
EpLibrary = Annotated[str | None, typer.Option("--ep-library", metavar="PATH", help="A plugin EP's library.")]
EpOption = Annotated[list[str], typer.Option("--ep-option", metavar="K=V", help="EP option; repeatable.")]
Device = Annotated[
    int | None,
    typer.Option("--device", metavar="N", help="Which of the EP's devices ('ortbench devices' lists them)."),
]
Shape = Annotated[list[str], typer.Option("--shape", metavar="NAME:1x3x4", help="An input's shape; repeatable.")]
Dim = Annotated[
    list[str], typer.Option("--dim", metavar="NAME=N", help="A symbolic dimension's size, else 1; repeatable.")
]
SessionConfig = Annotated[
    list[str], typer.Option("--session-config", metavar="K=V", help="Session configuration entry; repeatable.")
]
OptLevel = Annotated[str, typer.Option("--opt-level", help=f"Graph optimisation: {', '.join(OPT_LEVELS)}.")]
JsonOut = Annotated[
    str | None, typer.Option("--json", metavar="PATH", help="Write it as JSON to a file; '-' is standard output.")
]


def _version(asked: bool) -> None:
    if asked:
        print(f"ortbench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options of every command."""


@app.command()
def run(
    model: Model,
    ep: Ep = "auto",
    ep_library: EpLibrary = None,
    ep_option: EpOption = [],  # noqa: B006 - typer reads the default and never keeps it
    device: Device = None,
    mode: Annotated[list[str], typer.Option("--mode", help=f"{', '.join(MODES)}; repeatable. Default: all.")] = [],  # noqa: B006
    input: Annotated[
        str | None,
        typer.Option("--input", metavar="PATH", help="Inputs: an .npz (keys are names) or a folder of input_0.pb …"),
    ] = None,
    expect: Annotated[
        str | None,
        typer.Option("--expect", metavar="PATH", help="Expected outputs: an .npz or a folder of output_0.pb …"),
    ] = None,
    shape: Shape = [],  # noqa: B006
    dim: Dim = [],  # noqa: B006
    range_: Annotated[
        list[str], typer.Option("--range", metavar="NAME:LO,HI", help="Range of a random input; repeatable.")
    ] = [],  # noqa: B006
    seed: Annotated[int, typer.Option("--seed", help="Seed of random inputs and of the order of blocks.")] = 0,
    rtol: Annotated[float | None, typer.Option("--rtol", help="Relative tolerance of the output comparison.")] = None,
    atol: Annotated[float | None, typer.Option("--atol", help="Absolute tolerance of the output comparison.")] = None,
    warmup: Annotated[
        int | None, typer.Option("--warmup", metavar="N", help="Runs of each mode before measuring. Default: 0.5 s.")
    ] = None,
    duration: Annotated[
        float | None, typer.Option("--duration", metavar="SECONDS", help="Longest measurement, per mode. Default: 5.")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option("--iterations", metavar="N", help="Measure exactly N runs of each mode.")
    ] = None,
    precision: Annotated[
        str | None,
        typer.Option("--precision", help="Stop when the 95 % interval of each median is within ± this. Default: 1%."),
    ] = None,
    session_config: SessionConfig = [],  # noqa: B006
    threads: Annotated[int | None, typer.Option("--threads", metavar="N", help="Intra-op threads.")] = None,
    opt_level: OptLevel = "all",
    require_placement: Annotated[
        bool, typer.Option("--require-placement", help="Fail if nodes stay on the CPU.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="Longest wait for one answer of the worker.")
    ] = 600.0,
    out: Annotated[Path, typer.Option("--out", help="Where this run's own folder is made.")] = Path("reports"),
    json_out: JsonOut = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors; files are written.")] = False,
) -> None:
    """Run a model in several I/O modes and say what copies and inference cost."""
    if iterations is not None and (duration is not None or precision is not None):
        raise BadInput("--iterations fixes how much is measured: leave --duration and --precision out")
    plan = Plan(
        model=model,
        target=Target(
            ep=ep,
            library=ep_library,
            device=device,
            options=parse_pairs(ep_option, "--ep-option"),
            session_config=parse_pairs(session_config, "--session-config"),
            threads=threads,
            opt_level=opt_level,
            require_placement=require_placement,
        ),
        inputs=Inputs(
            path=input,
            expect=expect,
            shapes=parse_shapes(shape),
            dims=parse_dims(dim),
            ranges=parse_ranges(range_),
            seed=seed,
            rtol=rtol,
            atol=atol,
        ),
        modes=tuple(dict.fromkeys(mode)) or MODES,
        loop=Loop(
            warmup=warmup,
            duration_s=5.0 if duration is None else duration,
            iterations=iterations,
            precision=parse_share("1%" if precision is None else precision, "--precision"),
        ),
        timeout_s=timeout,
        command=("ortbench", *(shlex.quote(argument) for argument in sys.argv[1:])),
    )
    check(plan)
    _carry_out(plan, out, json_out, quiet)


def _carry_out(plan: Plan, out: Path, json_out: str | None, quiet: bool) -> None:
    """Run a plan; save after every step; print the report; exit with the run's code."""
    from ortbench.client import open_worker

    # The worker starts before anything else is imported here: it has more to import, and it can do so meanwhile.
    with open_worker(plan) as client:
        from ortbench.bench import Bench
        from ortbench.reports import RunFolder

        folder = RunFolder(out, plan)
        try:
            if quiet or not sys.stderr.isatty():
                bench = Bench(plan, client, folder, _import_terminal)
                result = bench.run()
            else:
                from ortbench.terminal import LiveProgress

                with LiveProgress(folder) as progress:
                    bench = Bench(plan, client, progress)
                    result = bench.run()
        except BaseException:
            folder.discard_if_empty()
            raise
    folder.changed(result)
    folder.write_tables(result)
    _show(result, folder.path, json_out, quiet)
    raise SystemExit(_exit_code(bench))


def _import_terminal() -> None:
    """Load what only the report needs while the worker loads the model, so that nobody waits for it."""
    import ortbench.terminal  # noqa: F401


def _show(result: Result, folder: Path, json_out: str | None, quiet: bool) -> None:
    from ortbench.result import to_json

    if json_out == "-":
        sys.stdout.write(to_json(result))
    elif json_out is not None:
        _write_json(json_out, to_json(result))
    if json_out == "-" or quiet:
        return
    from ortbench.terminal import print_result

    print_result(result, str(folder))


def _write_json(path: str, text: str) -> None:
    from ortbench.result import write_atomically

    try:
        write_atomically(Path(path), text)
    except OSError as error:
        raise BadInput(f"--json {path}: {error.strerror}") from None


def _exit_code(bench: Bench) -> int:
    """What the contract says: 1 as soon as a case failed or nothing could be measured."""
    from ortbench.result import FAILED, OK

    if bench.interrupted:
        return INTERRUPTED
    statuses = [case.status for case in bench.result.cases]
    for case in bench.result.cases:
        if case.status == FAILED:
            print(f"ortbench: {case.mode} failed: {case.reason}", file=sys.stderr)
    if OK not in statuses and FAILED not in statuses:
        print("ortbench: nothing was measured: no mode that was asked for is supported", file=sys.stderr)
    return DONE if OK in statuses and FAILED not in statuses else BENCHMARK_FAILED


@app.command()
def devices(ep_library: EpLibrary = None, json_out: JsonOut = None) -> None:
    """List every installed execution provider, its hardware, memory, streams, and the modes it can do."""
    check_library(ep_library)
    found = _ask_worker("devices", 120.0, library=ep_library)
    if _as_json(found, json_out):
        return
    from ortbench.listing import print_devices

    print_devices(found)


@app.command()
def inspect(
    model: Model,
    ep: Annotated[str | None, typer.Option("--ep", help="Also place the model on this EP.")] = None,
    ep_library: EpLibrary = None,
    ep_option: EpOption = [],  # noqa: B006
    device: Device = None,
    shape: Shape = [],  # noqa: B006
    dim: Dim = [],  # noqa: B006
    session_config: SessionConfig = [],  # noqa: B006
    opt_level: OptLevel = "all",
    json_out: JsonOut = None,
) -> None:
    """Say what a model takes, gives and consists of, and with --ep where its nodes would run."""
    from dataclasses import asdict

    placed = ep is not None or ep_library is not None
    if not placed and (ep_option or session_config or device is not None):
        raise BadInput("--ep-option, --session-config and --device say how to place a model: give --ep too")
    target = Target(
        ep=ep or "auto",
        library=ep_library,
        device=device,
        options=parse_pairs(ep_option, "--ep-option"),
        session_config=parse_pairs(session_config, "--session-config"),
        opt_level=opt_level,
    )
    inputs = Inputs(shapes=parse_shapes(shape), dims=parse_dims(dim))
    check(Plan(model=model, target=target, inputs=inputs))
    found = _ask_worker("inspect", 600.0, model=model, target=asdict(target) if placed else None, inputs=asdict(inputs))
    if _as_json(found, json_out):
        return
    from ortbench.listing import print_model

    print_model(found)


def _ask_worker(do: str, timeout_s: float, **arguments: Any) -> Any:
    from ortbench.client import Client

    with Client(timeout_s) as client:
        try:
            return client.ask(do, **arguments)
        except Unsupported as error:
            raise BenchmarkFailed(str(error)) from None


def _as_json(data: Any, json_out: str | None) -> bool:
    """Write data as JSON where that was asked for; True if it went to standard output, where nothing else may go."""
    import json

    if json_out is None:
        return False
    text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
    if json_out == "-":
        sys.stdout.write(text)
    else:
        _write_json(json_out, text)
    return json_out == "-"


def main() -> NoReturn:
    """The program: a user's error is one line on stderr and its exit code, never a traceback."""
    try:
        app(sys.argv[1:] or ["--help"], standalone_mode=False)
        raise SystemExit(DONE)
    except typer.Exit as error:
        raise SystemExit(error.exit_code) from None
    except OrtbenchError as error:
        print(f"ortbench: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    except KeyboardInterrupt:
        print("ortbench: interrupted before anything was measured", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of a pipe (head, less) has gone; closing stdout here keeps Python from saying so at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(DONE) from None
    except Exception as error:
        # Typer keeps the class of its usage errors to itself; what they share is this method.
        if not hasattr(error, "format_message"):
            raise
        print(f"ortbench: {one_line(error.format_message())} (see --help)", file=sys.stderr)
        raise SystemExit(BAD_INPUT) from None
