"""Which EP, on which device, with which session and which inputs: what a run, a stage of a chain and a bandwidth curve share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.core.interpreters import is_interpreter
from ortbench.plan.list_syntax import CHOICES, REPEATED, SIZES, WHOLES
from ortbench.plan.list_syntax import SHAPES as SHAPE_LISTS
from ortbench.plan.option_types import (
    DIMS,
    FLAG,
    LENGTHS,
    NUMBER,
    PAIRS,
    PATH,
    RANGES,
    SHAPES,
    TEXTS,
    WHOLE,
)
from ortbench.plan.options import (
    CHAINED,
    INPUT,
    OFTEN,
    OPENED,
    RUNS,
    SIDE_BY_SIDE,
    SINGLE,
    at_least,
    exists,
    is_file,
    is_text,
    not_negative,
    one_of,
    option,
)

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
OPT_LEVELS = ("disable", "basic", "extended", "layout", "all")

_EPS = (
    "auto (the first with a GPU or NPU, else cpu), cpu, cuda, tensorrt, nv-tensorrt-rtx, webgpu, openvino, qnn, migraphx, "
    "dml, a full name, an installed plugin package, the path of a plugin EP's library, or what ONNX Runtime is to choose by: "
    f"{', '.join(POLICIES)}"
)
_PYTHON = "The interpreter (or its environment's folder) whose ONNX Runtime is measured."
_SEVERAL = "Several are measured side by side."
_PLACED = (*OPENED, "inspect")  # what makes a session, or says how one would place a model
_runs = partial(option, panel=RUNS, only_live=True, twin=True)
_input = partial(option, panel=INPUT, only_live=True, twin=True)
_tolerance = partial(_input, kind=NUMBER, check=not_negative, shown="by dtype", twin=False, commands=(*CHAINED, "code"))


def _run_config(entries: dict[str, str], option: str) -> None:
    is_text(entries, option)
    for key, why in (
        ("gpu_graph_id", "--cuda-graph chooses the graph of each run"),
        ("disable_synchronize_execution_providers", "--async-runs measures runs without that wait"),
    ):
        if key in entries:
            raise BadInput(f"{option} {key}: {why}, so leave it out", option)


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
        run_config: entries of the run options of every run.
        python: the interpreter, or the folder of the virtual environment, whose ONNX Runtime it is; None for ortbench's own.
        several_eps: other EPs run beside it, so that options that say that they are another one's are not refused; see
            `ortbench.plan.ep_options`.
    """

    ep: str = _runs(
        "ep", "NAME", f"Execution provider: {_EPS}.", default="auto", suite=False, lists=REPEATED,
        commands=(*_PLACED, "bandwidth"), common=(*OFTEN, "gate"),
        per={
            **{it: {"kind": TEXTS, "help": f"Execution provider: {_EPS}. {_SEVERAL}"} for it in SIDE_BY_SIDE},
            "inspect": {"default": None, "help": "Also place the model on this EP."},
        },
    )  # fmt: skip
    library: str | None = _runs(
        "ep-library", "PATH", "A plugin EP's library, where it is no package.", kind=PATH, check=is_file, of_ep=True,
        commands=(*_PLACED, "bandwidth", "devices"),
    )  # fmt: skip
    device: int | None = _runs(
        "device", "N", "Which of the EP's devices ('ortbench devices' lists them).", kind=WHOLE, check=not_negative,
        of_ep=True, shown="its first GPU or NPU", lists=WHOLES._replace(example="0,1"), commands=(*_PLACED, "bandwidth"),
        common=OFTEN,
    )  # fmt: skip
    options: dict[str, str] = _runs(
        "ep-option", "K=V", "An option of the EP.", kind=PAIRS, default={}, check=is_text, of_ep=True, commands=_PLACED,
        common=OFTEN,
    )  # fmt: skip
    session_config: dict[str, str] = _runs(
        "session-config", "K=V", "An entry of the session's configuration.", kind=PAIRS, default={}, check=is_text, commands=_PLACED,
    )  # fmt: skip
    threads: int | None = _runs(
        "threads", "N", "Threads within an operator.", kind=WHOLE, check=at_least(1, "at least one"),
        shown="ONNX Runtime's", lists=WHOLES, commands=OPENED, common=OFTEN,
    )  # fmt: skip
    opt_level: str = _runs(
        "opt-level", "LEVEL", f"Graph optimisation: {', '.join(OPT_LEVELS)}.", default="all", check=one_of(OPT_LEVELS), lists=CHOICES, commands=_PLACED,
    )  # fmt: skip
    require_placement: bool = _runs("require-placement", "", "Fail if nodes stay on the CPU.", kind=FLAG, default=False)
    dynamic_outputs: bool = _runs(
        "dynamic-outputs", "", "Bind outputs without a shape: ONNX Runtime allocates them in each run.", kind=FLAG,
        default=False, commands=(*SINGLE, "sweep", "code"),
    )  # fmt: skip
    external: str | None = _runs(
        "external", "LIB", f"Bind inputs in another library's memory: {', '.join(EXTERNAL_LIBRARIES)}.",
        check=one_of(EXTERNAL_LIBRARIES), commands=(*SINGLE, "sweep", "code"), lists=CHOICES._replace(example="numpy,torch"),
    )  # fmt: skip
    cuda_graph: bool = _runs(
        "cuda-graph", "", "Capture runs as a graph and replay it (CUDA, TensorRT, WebGPU).", kind=FLAG, default=False, commands=(*SINGLE, "sweep", "code"),
    )  # fmt: skip
    stream: str | None = _runs(
        "stream", "KIND", f"Run kernels on a stream made by {' or '.join(STREAMS)} (CUDA, TensorRT).",
        check=one_of(STREAMS), lists=CHOICES._replace(example="ort,cuda-python"),
        commands=OPENED,
    )  # fmt: skip
    engine_cache: str | None = _runs(
        "engine-cache", "DIR", "Where TensorRT EPs keep their engines between sessions.", kind=PATH, check=is_text,
        of_ep=True, commands=_PLACED,
    )  # fmt: skip
    run_config: dict[str, str] = _runs(
        "run-config", "K=V", "An entry of ONNX Runtime's run options, in every run.", kind=PAIRS, default={},
        check=_run_config, commands=OPENED,
    )  # fmt: skip
    python: str | None = _runs(
        "python", "PATH", _PYTHON, kind=PATH, check=is_interpreter, lists=REPEATED,
        shown="ortbench's own", commands=(*_PLACED, "chain", "bandwidth", "devices", "doctor"),
        per={
            **{it: {"kind": TEXTS, "help": f"{_PYTHON} {_SEVERAL}"} for it in SIDE_BY_SIDE},
            "doctor": {"help": "The interpreter (or its environment's folder) whose ONNX Runtime is examined."},
        },
    )  # fmt: skip
    several_eps: bool = False


@dataclass(frozen=True)
class Inputs:
    """Where inputs come from and how they look.

    Attributes:
        path: an .npz file or a folder with ``input_0.pb`` …; None makes random inputs.
        expect: an .npz file or a folder with ``output_0.pb`` … to hold the outputs against.
        shapes: input name → shape.
        dims: symbolic dimension → size, a number or an expression of others.
        lengths: name of an input that is a sequence → how many tensors it has.
        ranges: input name → (low, high), both inclusive for integers.
        seed: of the random inputs (and of the schedule).
        rtol, atol: tolerances of the output comparison; None takes the one for each dtype.
        index_sizes: how many entries integer inputs index into, by name, where it is known before the worker reads the model.
    """

    path: str | None = _input(
        "input",
        "PATH",
        "Inputs: an .npz (keys are names) or a folder of input_0.pb, ...",
        kind=PATH,
        check=exists,
        commands=(*SINGLE, "loop", "load", "code"),
        common=OFTEN,
        per={"code": {"help": "Inputs: an .npz (keys are names)."}},
    )
    expect: str | None = _input(
        "expect", "PATH", "Expected outputs: an .npz or a folder of output_0.pb, ...", kind=PATH, check=exists,
        commands=(*SINGLE, "loop", "load", "chain"), common=("chain",), per={"chain": {"help": "Expected outputs: an .npz with keys STAGE/NAME."}},
    )  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = _input(
        "shape",
        "NAME:1x3x4",
        "An input's shape.",
        kind=SHAPES,
        default={},
        lists=SHAPE_LISTS,
        of_shapes=True,
        commands=_PLACED,
        common=OFTEN,
    )
    dims: dict[str, int | str] = _input(
        "dim",
        "NAME=N",
        "A symbolic dimension's size, else 1.",
        kind=DIMS,
        default={},
        lists=SIZES,
        of_shapes=True,
        commands=_PLACED,
        common=(*OFTEN, "gate"),
    )
    lengths: dict[str, int] = _input(
        "length",
        "NAME=N",
        "Tensors in an input that is a sequence.",
        kind=LENGTHS,
        default={},
        lists=SIZES,
        of_shapes=True,
        commands=(*SINGLE, "load", "sweep", "code", "inspect"),
    )
    ranges: dict[str, tuple[float, float]] = _input(
        "range", "NAME:LO,HI", "Range of a random input.", kind=RANGES, default={}, commands=OPENED
    )
    seed: int = _input(
        "seed",
        "N",
        "Seed of random inputs and of the order of blocks.",
        kind=WHOLE,
        default=0,
        check=not_negative,
        twin=False,
        commands=(*CHAINED, "code"),
        per={"code": {"help": "Seed of random inputs."}},
    )
    rtol: float | None = _tolerance("rtol", "X", "Relative tolerance when outputs are compared.")
    atol: float | None = _tolerance("atol", "X", "Absolute tolerance when outputs are compared.")
    index_sizes: dict[str, int] | None = None


def target_from(data: dict[str, Any]) -> Target:
    """The inverse of `asdict` for `Target`."""
    return Target(**data)


def inputs_from(data: dict[str, Any]) -> Inputs:
    """The inverse of `asdict` for `Inputs`, after JSON turned its tuples into lists."""
    shapes = {name: tuple(shape) for name, shape in data["shapes"].items()}
    ranges = {name: (low, high) for name, (low, high) in data["ranges"].items()}
    return Inputs(**{**data, "shapes": shapes, "ranges": ranges})
