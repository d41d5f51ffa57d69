"""What a run is asked to do: frozen, plain data that the command line makes and every later step reads."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ortbench.errors import BadInput
from ortbench.modes import MODES, USUAL_MODES, modes_that

MAX_DEPTH = 64  # of the pipeline: a sample is a round of so many inferences
CPU_EP = "CPUExecutionProvider"

# What --ep can be in place of an EP, and ORT's name of it in OrtExecutionProviderDevicePolicy.
POLICIES = {
    "prefer-gpu": "PREFER_GPU",
    "prefer-npu": "PREFER_NPU",
    "prefer-cpu": "PREFER_CPU",
    "max-performance": "MAX_PERFORMANCE",
    "max-efficiency": "MAX_EFFICIENCY",
    "min-overall-power": "MIN_OVERALL_POWER",
}
STREAMS = ("ort", "cuda-python")
EXTERNAL_LIBRARIES = ("numpy", "torch", "cupy")
SAME = "2%"  # up to which difference two results are called the same, unless told otherwise
OPT_LEVELS = ("disable", "basic", "extended", "layout", "all")


@dataclass(frozen=True)
class Target:
    """Which EP, on which device, with which session.

    Attributes:
        ep: ``auto``, a short name, a full EP name, a plugin EP package's name, or one of `POLICIES`, by which ORT chooses.
        library: path of a plugin EP library that is not a package.
        device: index among the devices of that EP; None takes its first GPU or NPU.
        options: EP options.
        session_config: session configuration entries.
        threads: intra-op threads; None leaves ORT's default.
        opt_level: graph optimisation level, one of `OPT_LEVELS`.
        require_placement: nodes that stay on the CPU are an error.
        external: one of `EXTERNAL_LIBRARIES`, in whose memory modes with `external_inputs` have theirs; None for the EP's own.
        cuda_graph: the runs of modes that can be `captured` are captured once and replayed.
        stream: one of `STREAMS`, which makes the stream that the EP's kernels run on; None for the EP's own.
        dynamic_outputs: in modes that can have `dynamic_outputs` they are bound without a shape, and ORT allocates them in each run.
        engine_cache: the folder in which TensorRT EPs keep their engines; None for none.
    """

    ep: str = "auto"
    library: str | None = None
    device: int | None = None
    options: dict[str, str] = field(default_factory=dict)
    session_config: dict[str, str] = field(default_factory=dict)
    threads: int | None = None
    opt_level: str = "all"
    require_placement: bool = False
    dynamic_outputs: bool = False
    external: str | None = None
    cuda_graph: bool = False
    stream: str | None = None
    engine_cache: str | None = None


@dataclass(frozen=True)
class Inputs:
    """Where inputs come from and how they look.

    Attributes:
        path: an .npz file or a folder with ``input_0.pb`` …; None makes random inputs.
        expect: an .npz file or a folder with ``output_0.pb`` … to hold the outputs against.
        shapes: input name → shape.
        dims: symbolic dimension → size.
        ranges: input name → (low, high), both inclusive for integers.
        seed: of the random inputs (and of the schedule).
        rtol, atol: tolerances of the output comparison; None takes the one for each dtype.
    """

    path: str | None = None
    expect: str | None = None
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class Loop:
    """What to measure and for how long: see `ortbench.measure.schedule.StopRule`.

    Attributes:
        warmup: runs of each mode before; None means for `warmup_ns`, what proofs have run counted.
        phases: which phases to time; None means all that a mode has.
        depth: how many inferences mode `pipelined` has in flight.
        in_order: for a timeline: one block a phase, mode after mode, inside an NVTX capture range; see
            `ortbench.measure.schedule.InOrder`. Duration and precision do not matter then.
    """

    warmup: int | None = None
    duration_s: float = 5.0
    iterations: int | None = None
    precision: float | None = 0.01
    phases: tuple[str, ...] | None = None
    depth: int = 3
    in_order: bool = False

    @property
    def warmup_ns(self) -> int:
        """How long a mode is warmed up by default: half a second, or a quarter of the duration where that is less."""
        return round(min(0.5, self.duration_s / 4) * 1e9)


@dataclass(frozen=True)
class Plan:
    """One run of one model on one EP; `python` is the interpreter of the worker, None this one.

    With `nodes`, some runs are profiled when the measurement is over; with `measure_copies`, CUPTI looks into some.
    """

    model: str
    target: Target = field(default_factory=Target)
    inputs: Inputs = field(default_factory=Inputs)
    modes: tuple[str, ...] = USUAL_MODES
    loop: Loop = field(default_factory=Loop)
    timeout_s: float = 600.0
    python: str | None = None
    command: tuple[str, ...] = ()
    nodes: bool = False
    measure_copies: bool = False

    def worker_request(self) -> dict[str, Any]:
        """What the worker needs to open the model, as JSON-ready data."""
        return {"model": self.model, "target": asdict(self.target), "inputs": asdict(self.inputs)}


def target_from(data: dict[str, Any]) -> Target:
    """The inverse of `asdict` for `Target`."""
    return Target(**data)


def inputs_from(data: dict[str, Any]) -> Inputs:
    """The inverse of `asdict` for `Inputs`, after JSON turned its tuples into lists."""
    shapes = {name: tuple(shape) for name, shape in data["shapes"].items()}
    ranges = {name: (low, high) for name, (low, high) in data["ranges"].items()}
    return Inputs(**{**data, "shapes": shapes, "ranges": ranges})


def is_nvidia(ep_name: str) -> bool:
    """Whether an EP is one of NVIDIA's, by its full name: CUDA, TensorRT or TensorRT RTX, built in or a plugin."""
    return any(word in ep_name.lower() for word in ("cuda", "tensorrt"))


def parse_pairs(items: Iterable[str], option: str) -> dict[str, str]:
    """``k=v`` items as a dict.

    Raises:
        BadInput: an item without ``=`` or with an empty key.
    """
    pairs = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise BadInput(f"{option} {item!r}: write it as key=value")
        pairs[key] = value
    return pairs


def parse_shapes(items: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """``name:1x3x224x224`` items (a name may hold colons; a scalar is ``name:``) as a dict.

    Raises:
        BadInput: an item that is not of that form, or with a dimension below 1.
    """
    shapes = {}
    for item in items:
        name, colon, text = item.rpartition(":")
        if not colon or not name:
            raise BadInput(f"--shape {item!r}: write it as name:1x3x224x224")
        parts = re.split(r"[x,]", text) if text else []
        shapes[name] = tuple(parse_dimension(part, f"--shape {item!r}") for part in parts)
    return shapes


def parse_dims(items: Iterable[str]) -> dict[str, int]:
    """``batch=8`` items as a dict.

    Raises:
        BadInput: an item that is not of that form, or below 1.
    """
    return {name: parse_dimension(text, f"--dim {name}={text}") for name, text in parse_pairs(items, "--dim").items()}


def parse_dimension(text: str, where: str) -> int:
    """A dimension's size.

    Raises:
        BadInput: not a whole number, or below 1.
    """
    if not re.fullmatch(r"-?\d+", text, re.ASCII):
        raise BadInput(f"{where}: {text!r} is not a whole number")
    size = int(text)
    if size < 0:
        raise BadInput(f"{where}: a dimension cannot be negative")
    if size == 0:
        raise BadInput(
            f"{where}: a dimension of 0 leaves nothing to measure; a model that needs one takes it by --input"
        )
    return size


def parse_ranges(items: Iterable[str]) -> dict[str, tuple[float, float]]:
    """``name:lo,hi`` items as a dict.

    Raises:
        BadInput: an item that is not of that form, or with low above high.
    """
    ranges = {}
    for item in items:
        name, colon, text = item.rpartition(":")
        low, comma, high = text.partition(",")
        try:
            bounds = (float(low), float(high))
        except ValueError:
            bounds = None
        if not colon or not name or not comma or bounds is None:
            raise BadInput(f"--range {item!r}: write it as name:low,high")
        if not all(map(math.isfinite, bounds)):
            raise BadInput(f"--range {item!r}: both ends must be finite numbers")
        if not bounds[0] <= bounds[1]:
            raise BadInput(f"--range {item!r}: low is above high")
        ranges[name] = bounds
    return ranges


def parse_share(text: str, option: str) -> float:
    """``1%`` or ``0.01`` as 0.01.

    Raises:
        BadInput: not a number above 0.
    """
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 10:
        raise BadInput(f"{option} {text!r}: write a share above zero such as 1% or 0.01")
    return value


def parse_speedups(items: Iterable[str]) -> dict[str, float]:
    """``device-resident=1.5`` items as a dict.

    Raises:
        BadInput: an item that is not of that form, or not above zero.
    """
    found = {}
    for mode, text in parse_pairs(items, "--min-speedup").items():
        try:
            found[mode] = float(text)
        except ValueError:
            found[mode] = math.nan
        if not 0 < found[mode] < math.inf:
            raise BadInput(f"--min-speedup {mode}={text}: write how many times as fast as cpu, such as {mode}=1.5")
    return found


def parse_count(value: int | None, option: str) -> int | None:
    """A number of things, or None.

    Raises:
        BadInput: below zero.
    """
    if value is not None and value < 0:
        raise BadInput(f"{option} {value}: cannot be negative")
    return value


def check(plan: Plan) -> None:
    """Refuse a plan that cannot be carried out, before anything is started.

    Raises:
        BadInput: with the reason.
    """
    if not Path(plan.model).exists():
        raise BadInput(f"no such file: {plan.model}")
    if not Path(plan.model).is_file():
        raise BadInput(f"{plan.model} is not a file: name the .onnx file itself")
    check_text(plan.model, "the model's path")
    if not plan.modes:
        raise BadInput(f"no mode to measure; choose from {', '.join(MODES)}")
    for mode in plan.modes:
        if mode not in MODES:
            raise BadInput(f"--mode {mode!r}: there is no such mode; choose from {', '.join(MODES)}")
    copying = modes_that(lambda mode: mode.recorded and (mode.of_cpu_tensors or mode.times_copies))
    if plan.measure_copies and not {*copying} & {*plan.modes}:
        raise BadInput(f"--measure-copies looks into runs of {' and '.join(copying)}: add one of them with --mode")
    if plan.loop.iterations is not None and plan.loop.iterations < 1:
        raise BadInput(f"--iterations {plan.loop.iterations}: at least one iteration must be measured")
    if not 1 <= plan.loop.depth <= MAX_DEPTH:
        raise BadInput(f"--depth {plan.loop.depth}: from 1 (one inference after the other) to {MAX_DEPTH} in flight")
    if plan.loop.warmup is not None and plan.loop.warmup < 0:
        raise BadInput(f"--warmup {plan.loop.warmup}: cannot be negative")
    if not 0 < plan.loop.duration_s < 1e6:
        raise BadInput(f"--duration {plan.loop.duration_s:g}: must be above zero seconds")
    if not 0 < plan.timeout_s < 1e6:
        raise BadInput(f"--timeout {plan.timeout_s:g}: must be above zero seconds")
    if plan.target.opt_level not in OPT_LEVELS:
        raise BadInput(f"--opt-level {plan.target.opt_level!r}: choose from {', '.join(OPT_LEVELS)}")
    if plan.target.cuda_graph and plan.target.dynamic_outputs:
        raise BadInput("--cuda-graph needs outputs at fixed addresses: leave --dynamic-outputs out")
    if plan.target.ep in POLICIES:
        for option, given in (
            ("--device", plan.target.device is not None),
            ("--ep-option", bool(plan.target.options)),
            ("--cuda-graph", plan.target.cuda_graph),
            ("--stream", plan.target.stream is not None),
        ):
            if given:
                raise BadInput(f"{option}: with --ep {plan.target.ep} ONNX Runtime chooses the EP, so leave it out")
    if plan.target.stream not in (None, *STREAMS):
        raise BadInput(f"--stream {plan.target.stream!r}: choose from {', '.join(STREAMS)}")
    if plan.target.stream is not None and "user_compute_stream" in plan.target.options:
        raise BadInput("--stream makes a stream, and --ep-option user_compute_stream names another: leave one out")
    if plan.target.external not in (None, *EXTERNAL_LIBRARIES):
        raise BadInput(f"--external {plan.target.external!r}: choose from {', '.join(EXTERNAL_LIBRARIES)}")
    bound_as_they_are = modes_that(lambda mode: mode.external_inputs)
    if plan.target.external is not None and not {*bound_as_they_are} & {*plan.modes}:
        raise BadInput(f"--external is for the modes {' and '.join(bound_as_they_are)}: ask for one of them")
    if plan.target.threads is not None and plan.target.threads < 1:
        raise BadInput(f"--threads {plan.target.threads}: at least one")
    if plan.target.device is not None and plan.target.device < 0:
        raise BadInput(f"--device {plan.target.device}: cannot be negative")
    if plan.inputs.seed < 0:
        raise BadInput(f"--seed {plan.inputs.seed}: cannot be negative")
    for option, tolerance in (("--rtol", plan.inputs.rtol), ("--atol", plan.inputs.atol)):
        if tolerance is not None and not tolerance >= 0:
            raise BadInput(f"{option} {tolerance:g}: cannot be negative")
    check_library(plan.target.library)
    check_text(plan.target.engine_cache or "", "--engine-cache")
    for option, pairs in (("--ep-option", plan.target.options), ("--session-config", plan.target.session_config)):
        for key, value in pairs.items():
            check_text(f"{key}={value}", option)
    for option, path in (("--input", plan.inputs.path), ("--expect", plan.inputs.expect)):
        if path is not None and not Path(path).exists():
            raise BadInput(f"{option}: no such file or folder: {path}")


def check_library(path: str | None) -> None:
    """Refuse a plugin EP's library that is not there.

    Raises:
        BadInput: no such file.
    """
    if path is None:
        return
    if not Path(path).is_file():
        raise BadInput(f"--ep-library: no such file: {path}")
    check_text(path, "--ep-library")


def check_text(text: str, what: str) -> None:
    """Refuse what ONNX Runtime cannot be given: it takes UTF-8 alone, and a file's name can be any bytes.

    Raises:
        BadInput: bytes that are not UTF-8, which are lone surrogates here.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{what} is not UTF-8, and ONNX Runtime takes nothing else: {text}") from None


class Observer:
    """What a run tells while it goes on; the default says nothing."""

    def stage(self, text: str) -> None:
        """A step before the measurement begins, in words."""

    def progress(self, share: float) -> None:
        """How much of the budget is spent, 0 to 1; called between blocks only."""
