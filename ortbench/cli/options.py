"""The options that commands share, and the plan they make."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ortbench.errors import BadInput
from ortbench.modes import MODES, USUAL_MODES, modes_by, modes_that
from ortbench.plan import (
    EXTERNAL_LIBRARIES,
    OPT_LEVELS,
    POLICIES,
    STREAMS,
    Inputs,
    Loop,
    Plan,
    Target,
    parse_count,
    parse_dims,
    parse_pairs,
    parse_ranges,
    parse_shapes,
    parse_share,
    parse_speedups,
)

if TYPE_CHECKING:
    from ortbench.gate.limits import Limits

EP_HELP = (
    "auto (the first with a GPU or NPU, else cpu), cpu, cuda, tensorrt, nv-tensorrt-rtx, webgpu, openvino, qnn, migraphx, "
    "dml, a full name, an installed plugin package, the path of a plugin EP's library, or what ONNX Runtime is to choose by: "
    f"{', '.join(POLICIES)}"
)

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model, an .onnx or .ort file.")]
Ep = Annotated[str, typer.Option("--ep", metavar="NAME", help=f"Execution provider: {EP_HELP}.")]
EpLibrary = Annotated[
    str | None, typer.Option("--ep-library", metavar="PATH", help="A plugin EP's library, where it is no package.")
]
EpOption = Annotated[list[str], typer.Option("--ep-option", metavar="K=V", help="An option of the EP; repeatable.")]
Device = Annotated[
    int | None,
    typer.Option("--device", metavar="N", help="Which of the EP's devices ('ortbench devices' lists them)."),
]
Mode = Annotated[
    list[str],
    typer.Option(
        "--mode",
        metavar="NAME",
        help=f"{', '.join(MODES)}; repeatable. Default: all but {', '.join(modes_that(lambda mode: mode.option))}.",
    ),
]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth",
        metavar="N",
        help=f"Adds mode {' and '.join(modes_by('depth'))} with N inferences in flight (its default: 3).",
    ),
]
Pinned = Annotated[
    bool,
    typer.Option(
        "--pinned", help=f"Adds {' and '.join(modes_by('pinned'))}: the host's side in the EP's pinned memory."
    ),
]
AsyncRuns = Annotated[
    bool,
    typer.Option(
        "--async-runs", help=f"Adds {' and '.join(modes_by('async-runs'))}: many runs and one wait, for throughput."
    ),
]
Input = Annotated[
    str | None,
    typer.Option("--input", metavar="PATH", help="Inputs: an .npz (keys are names) or a folder of input_0.pb, ..."),
]
Expect = Annotated[
    str | None,
    typer.Option("--expect", metavar="PATH", help="Expected outputs: an .npz or a folder of output_0.pb, ..."),
]
Shape = Annotated[list[str], typer.Option("--shape", metavar="NAME:1x3x4", help="An input's shape; repeatable.")]
Dim = Annotated[
    list[str], typer.Option("--dim", metavar="NAME=N", help="A symbolic dimension's size, else 1; repeatable.")
]
Range = Annotated[list[str], typer.Option("--range", metavar="NAME:LO,HI", help="Range of a random input; repeatable.")]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of random inputs and of the order of blocks.")]
Rtol = Annotated[
    float | None,
    typer.Option("--rtol", metavar="X", help="Relative tolerance when outputs are compared. Default: by dtype."),
]
Atol = Annotated[
    float | None,
    typer.Option("--atol", metavar="X", help="Absolute tolerance when outputs are compared. Default: by dtype."),
]
Warmup = Annotated[
    int | None, typer.Option("--warmup", metavar="N", help="Runs of each mode before measuring. Default: 0.5 s.")
]
EngineCache = Annotated[
    str | None,
    typer.Option("--engine-cache", metavar="DIR", help="Where TensorRT EPs keep their engines between sessions."),
]
SessionConfig = Annotated[
    list[str],
    typer.Option("--session-config", metavar="K=V", help="An entry of the session's configuration; repeatable."),
]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", help="Threads within an operator. Default: ONNX Runtime's.")
]
OptLevel = Annotated[
    str, typer.Option("--opt-level", metavar="LEVEL", help=f"Graph optimisation: {', '.join(OPT_LEVELS)}.")
]
RequirePlacement = Annotated[bool, typer.Option("--require-placement", help="Fail if nodes stay on the CPU.")]
DynamicOutputs = Annotated[
    bool,
    typer.Option("--dynamic-outputs", help="Bind outputs without a shape: ONNX Runtime allocates them in each run."),
]
External = Annotated[
    str | None,
    typer.Option(
        "--external", metavar="LIB", help=f"Bind inputs in another library's memory: {', '.join(EXTERNAL_LIBRARIES)}."
    ),
]
CudaGraph = Annotated[
    bool, typer.Option("--cuda-graph", help="Capture runs as a graph and replay it (CUDA, TensorRT, WebGPU).")
]
ComputeStream = Annotated[
    str | None,
    typer.Option(
        "--stream", metavar="KIND", help=f"Run kernels on a stream made by {' or '.join(STREAMS)} (CUDA, TensorRT)."
    ),
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", help="Longest wait for one answer of the worker.")
]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where this run's own folder is made.")]
JsonOut = Annotated[
    str | None,
    typer.Option("--json", metavar="PATH", help="Write it as JSON to a file; '-' is standard output."),
]
JunitOut = Annotated[
    str | None, typer.Option("--junit", metavar="PATH", help="Write JUnit XML, as CI systems read it.")
]
ActionOut = Annotated[
    str | None,
    typer.Option(
        "--action-json", metavar="PATH", help="Write what github-action-benchmark reads (customSmallerIsBetter)."
    ),
]
Trace = Annotated[
    str | None,
    typer.Option(
        "--trace", metavar="PATH", help="Write a timeline for Perfetto and chrome://tracing (.gz: compressed)."
    ),
]
HtmlOut = Annotated[
    str | None,
    typer.Option(
        "--html", metavar="PATH", help="Write a report as one page that opens anywhere; '-' is standard output."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors; files are written.")]
Force = Annotated[bool, typer.Option("--force", help="Compare what is not comparable, and say what differs.")]

REPORTS = Path("reports")
LIVE_DURATION_S = 60.0  # what a live gate gives a mode, both sides together
_LIBRARY_SUFFIXES = (".so", ".dll", ".dylib")


def command_line() -> tuple[str, ...]:
    """The command that was typed, quoted for a shell."""
    return ("ortbench", *(shlex.quote(argument) for argument in sys.argv[1:]))


def added_modes(depth: int | None, pinned: bool, async_runs: bool) -> tuple[str, ...]:
    """The modes that options of their own ask for, on top of others."""
    given = {"depth": depth is not None, "pinned": pinned, "async-runs": async_runs}
    return modes_that(lambda mode: given.get(mode.option))


def modes_of(mode: Sequence[str], added: Sequence[str] = ()) -> tuple[str, ...]:
    """The modes that were asked for, each once; the usual ones where none was named, and `added_modes`."""
    return tuple(dict.fromkeys([*(mode or USUAL_MODES), *added]))


def modes_needed(mode: Sequence[str], added: Sequence[str], limits: Limits) -> tuple[str, ...]:
    """The modes that were asked for, and those that limits need."""
    modes = modes_of(mode, added)
    return (*modes, *(name for name in MODES if name in limits.needed() and name not in modes))


def live_loop(warmup: int | None, depth: int | None, duration_s: float, limits: Limits) -> Loop:
    """The loop of a live gate.

    Args:
        warmup, depth: see `Loop`; None for its defaults.
        duration_s: the longest measurement of a mode, both sides together.
        limits: what must be timed for.
    """
    phases = tuple(sorted(limits.phases()))
    return Loop(warmup, duration_s / 2, precision=None, phases=phases, depth=depth_of(depth))


def depth_of(depth: int | None) -> int:
    """The depth that was asked for, or the usual one."""
    return Loop.depth if depth is None else depth


def limits_of(
    has_baseline: bool,
    mode: Sequence[str],
    max_regression: str | None,
    metric: Sequence[str],
    min_speedup: Sequence[str],
    max_copy_share: str | None,
    max_cpu_nodes: int | None,
    require_mode: Sequence[str],
) -> Limits:
    """The limits that options describe; with a baseline a regression of more than 5 % is one.

    Raises:
        BadInput: one that cannot be read, or a mode that there is not.
    """
    from ortbench.gate.limits import DEFAULT_METRIC, Limits, parse_metric

    limits = Limits(
        max_regression=parse_share(max_regression or "5%", "--max-regression") if has_baseline else None,
        metrics=tuple(map(parse_metric, metric)) or (DEFAULT_METRIC,),
        modes=tuple(mode),
        min_speedup=parse_speedups(min_speedup),
        max_copy_share=None if max_copy_share is None else parse_share(max_copy_share, "--max-copy-share"),
        max_cpu_nodes=parse_count(max_cpu_nodes, "--max-cpu-nodes"),
        require_modes=tuple(require_mode),
    )
    for name in sorted({*mode, *require_mode, *limits.min_speedup} - set(MODES)):
        raise BadInput(f"{name!r}: there is no such mode; choose from {', '.join(MODES)}")
    return limits


def target_of(
    *,
    ep: str = Target.ep,
    ep_library: str | None = None,
    device: int | None = None,
    ep_option: Sequence[str] = (),
    session_config: Sequence[str] = (),
    threads: int | None = None,
    opt_level: str = Target.opt_level,
    require_placement: bool = False,
    dynamic_outputs: bool = False,
    external: str | None = None,
    cuda_graph: bool = False,
    stream: str | None = None,
    engine_cache: str | None = None,
) -> Target:
    """The target that options describe, by their names; what a command has not got is left out.

    An EP that is a path is a plugin EP's library.

    Raises:
        BadInput: options that are not K=V, or a library named twice.
    """
    if is_library(ep):
        if ep_library is not None:
            raise BadInput(f"--ep {ep} is a library already: leave --ep-library out")
        ep, ep_library = "auto", ep
    return Target(
        ep=ep,
        library=ep_library,
        device=device,
        options=parse_pairs(ep_option, "--ep-option"),
        session_config=parse_pairs(session_config, "--session-config"),
        threads=threads,
        opt_level=opt_level,
        require_placement=require_placement,
        dynamic_outputs=dynamic_outputs,
        external=external,
        cuda_graph=cuda_graph,
        stream=stream,
        engine_cache=engine_cache,
    )


def is_library(ep: str) -> bool:
    """Whether an EP is named by the path of its library."""
    return ep.endswith(_LIBRARY_SUFFIXES) or os.sep in ep


def inputs_of(
    input: str | None,
    expect: str | None,
    shape: Sequence[str],
    dim: Sequence[str],
    range_: Sequence[str],
    seed: int,
    rtol: float | None,
    atol: float | None,
) -> Inputs:
    """The inputs that options describe.

    Raises:
        BadInput: one that cannot be read.
    """
    return Inputs(
        path=input,
        expect=expect,
        shapes=parse_shapes(shape),
        dims=parse_dims(dim),
        ranges=parse_ranges(range_),
        seed=seed,
        rtol=rtol,
        atol=atol,
    )


def options_for(ep: str, eps: Sequence[str], ep_option: Sequence[str]) -> list[str]:
    """The EP options of one of several EPs: ``cuda:key=value`` is for that EP alone, ``key=value`` for all."""
    found = []
    for option in ep_option:
        owner, colon, rest = option.partition(":")
        if not colon or owner not in eps or "=" in owner:
            found.append(option)
        elif owner == ep:
            found.append(rest)
    return found


@dataclass(frozen=True)
class Baseline:
    """How the baseline of a live gate differs from the candidate; what is None is the same."""

    model: str | None = None
    ep: str | None = None
    ep_library: str | None = None
    ep_option: tuple[str, ...] = ()
    session_config: tuple[str, ...] = ()
    python: str | None = None

    @property
    def given(self) -> bool:
        """Whether there is a baseline at all."""
        return self != Baseline()

    def of(self, plan: Plan) -> Plan:
        """The baseline's plan.

        Options that are given replace the candidate's; an empty one (``--baseline-ep-option ""``) leaves none. Another
        EP starts without the candidate's EP options, device, library and engine cache.

        Raises:
            BadInput: options that are not K=V, or an interpreter that is not there.
        """
        target = plan.target
        if self.ep is not None or self.ep_library is not None:
            ep, library = self.ep or "auto", self.ep_library
            if is_library(ep):
                ep, library = "auto", ep
            target = replace(target, ep=ep, library=library, device=None, options={}, engine_cache=None)
        if self.ep_option:
            target = replace(target, options=parse_pairs(filter(None, self.ep_option), "--baseline-ep-option"))
        if self.session_config:
            pairs = parse_pairs(filter(None, self.session_config), "--baseline-session-config")
            target = replace(target, session_config=pairs)
        if self.python is not None and not os.access(self.python, os.X_OK):
            raise BadInput(f"--baseline-python: no such interpreter: {self.python}")
        return replace(plan, model=self.model or plan.model, target=target, python=self.python)
