"""Which EP, on which device, with which session and which inputs: what a run, a stage of a chain and a bandwidth curve share."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ortbench.core.eps import SHORT_NAMES
from ortbench.core.errors import BadInput
from ortbench.core.files import Kind, check_readable, is_folder, kind_of
from ortbench.core.parts import typed_value
from ortbench.core.processes import is_interpreter
from ortbench.core.safe_text import join_words
from ortbench.model.modes import IN_BURSTS
from ortbench.model.settings import CHOICES, REPEATED, SIZES, WHOLES
from ortbench.model.settings import SHAPES as SHAPE_LISTS
from ortbench.plan import option_types as types
from ortbench.plan.options import (
    CHAINED,
    INPUT,
    OFTEN,
    OPENED,
    RUNS,
    SINGLE,
    at_least,
    exists,
    is_file,
    is_text,
    not_negative,
    option,
)

if TYPE_CHECKING:
    from ortbench.model.schema import Order

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
MOST_THREADS = 1024  # ONNX Runtime starts them all
MOST_SEED = 10**18 - 1  # what a result can hold
SEQUENTIAL, PARALLEL = "sequential", "parallel"
EXECUTION_MODES = (SEQUENTIAL, PARALLEL)
ORT_OPT_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}

_EP = "Run on this EP: auto, cpu, cuda, webgpu, ..., a package or a library."
_PYTHON = "Measure the ONNX Runtime of this interpreter, or environment."
_COMMA = "V may contain commas."
_PLACED = (*OPENED, "placed")  # what makes a session, or says how one would place a model
_runs = partial(option, panel=RUNS, is_live_only=True, is_in_baselines=True)
_input = partial(option, panel=INPUT, is_live_only=True, is_in_baselines=True)
_tolerance = partial(
    _input, kind=types.NUMBER, check=not_negative, shown="by dtype", is_in_baselines=False, commands=CHAINED
)


def _known_eps() -> list[str]:
    """EPs whose libraries or packages are installed, and what ONNX Runtime can choose by."""
    from ortbench.core.eps import installed_eps  # for completion alone

    return ["auto", *installed_eps(), *POLICIES]


def _check_writable(value: str, option: str) -> None:
    is_text(value, option)
    if kind_of(value, option) not in (Kind.NOTHING, Kind.FILE) or not is_folder(Path(value).parent, option):
        raise BadInput(f"{option} {value}: name a file in a folder that is there", option)
    if os.path.lexists(value) and (os.path.islink(value) or os.stat(value).st_nlink > 1):
        raise BadInput(f"{option} {value}: is a link, and another file would be overwritten: name a new file", option)


def _folder(value: str, option: str) -> None:
    is_text(value, option)
    kind_of(value, option)


def _library(value: str, option: str) -> None:
    """Of a library that may be named by --ep too, so that no option is named."""
    if kind_of(value, option) is not Kind.FILE:
        raise BadInput(f"no such EP library: {value}", option)
    check_readable(value, option)
    is_text(value, option)


def _custom_ops(names: tuple[str, ...], option: str) -> None:
    for name in names:
        if types.is_library(name):
            is_file(name, option)
        elif not name:
            raise BadInput(f"{option}: is empty; leave it out, or name a library or a package", option)


def _run_config(entries: dict[str, str], option: str) -> None:
    is_text(entries, option)
    for key, why in (
        ("gpu_graph_id", "--cuda-graph chooses the graph of each run"),
        ("disable_synchronize_execution_providers", f"mode {' and '.join(IN_BURSTS)} measures runs without that wait"),
    ):
        if key in entries:
            raise BadInput(f"{option} {key}: {why}, so leave it out", option)


@dataclass(frozen=True)
class Target:
    """Which EP, on which device, with which session: each field is what its option says; None leaves it to the EP or ONNX Runtime.

    Attributes:
        ep: ``auto``, a short name, a full EP name, a plugin EP package's name, or one of `POLICIES`, by which ORT chooses.
        input_memory: is for modes with `external_inputs`; `cuda_graph` for those whose runs can be `captured`.
        dynamic_outputs: in modes that can have them outputs are bound without a shape, and ORT allocates them in each run.
        several_eps: other EPs run beside it, so that options that say that they are another one's are not refused (`own`).
    """

    ep: str = _runs(
        "ep", "NAME", _EP, default="auto", choices=_known_eps, is_in_suites=False, lists=REPEATED,
        commands=_PLACED, common=OFTEN,
    )  # fmt: skip
    library: str | None = _runs(
        "ep-library", "PATH", "Load a plugin EP from this library.", kind=types.PATH, check=_library, is_of_one_ep=True,
        commands=_PLACED,
    )  # fmt: skip
    device: int | None = _runs(
        "device", "N", "Use this device of the EP.", kind=types.WHOLE, check=not_negative,
        is_of_one_ep=True, shown="its first GPU or NPU", lists=WHOLES._replace(example="0,1"), commands=_PLACED,
    )  # fmt: skip
    options: dict[str, str] = _runs(
        "ep-option", "K=V", f"Set an option of the EP. {_COMMA}", kind=types.PAIRS, default={}, check=is_text, is_of_one_ep=True,
        lists=REPEATED, commands=_PLACED, common=("run",),
    )  # fmt: skip
    session_config: dict[str, str] = _runs(
        "session-config", "K=V", f"Set an entry of the session's configuration. {_COMMA}", kind=types.PAIRS, default={}, check=is_text,
        lists=REPEATED, commands=_PLACED,
    )  # fmt: skip
    intra_op_threads: int | None = _runs(
        "intra-op-threads", "N", "Use N threads within an operator.", kind=types.WHOLE, check=at_least(1, "must be at least one"), most=MOST_THREADS,
        shown="ONNX Runtime's", lists=WHOLES, commands=OPENED, common=OFTEN,
    )  # fmt: skip
    inter_op_threads: int | None = _runs(
        "inter-op-threads", "N", f"Use N threads between operators, with --execution-mode {PARALLEL}.", kind=types.WHOLE,
        check=at_least(1, "must be at least one"), most=MOST_THREADS, shown="ONNX Runtime's", lists=WHOLES, commands=OPENED,
    )  # fmt: skip
    execution_mode: str = _runs(
        "execution-mode", "MODE", f"Run operators one after the other or in parallel: {', '.join(EXECUTION_MODES)}.", default=SEQUENTIAL,
        choices=EXECUTION_MODES, lists=CHOICES._replace(example=",".join(EXECUTION_MODES)), commands=OPENED,
    )  # fmt: skip
    cpu_mem_arena: bool = _runs(
        "cpu-mem-arena", "", "Keep freed memory of the CPU EP in an arena.", kind=types.SWITCH, default=True, commands=OPENED,
    )  # fmt: skip
    mem_pattern: bool = _runs(
        "mem-pattern", "", "Plan allocations by those of earlier inferences.", kind=types.SWITCH, default=True, commands=OPENED,
    )  # fmt: skip
    optimized_model: str | None = _runs(
        "optimized-model", "PATH", "Write the optimised graph to a file.", kind=types.PATH, check=_check_writable, commands=OPENED,
    )  # fmt: skip
    custom_ops: tuple[str, ...] = _runs(
        "custom-ops", "LIBRARY|PACKAGE", "Register the custom operators of a library, or of a package.", kind=types.LIBRARIES,
        default=(), check=_custom_ops, commands=_PLACED,
    )  # fmt: skip
    opt_level: str = _runs(
        "opt-level", "LEVEL", f"Optimise the graph up to a level: {', '.join(ORT_OPT_LEVELS)}.", default="all", choices=tuple(ORT_OPT_LEVELS), lists=CHOICES, commands=_PLACED,
    )  # fmt: skip
    no_cpu_fallback: bool = _runs(
        "no-cpu-fallback", "", "Fail if nodes fall back to the CPU.", kind=types.FLAG, default=False
    )
    dynamic_outputs: bool = _runs(
        "dynamic-outputs", "", "Let ONNX Runtime allocate bound outputs in each inference.", kind=types.FLAG,
        default=False, commands=SINGLE,
    )  # fmt: skip
    input_memory: str | None = _runs(
        "input-memory", "LIB", f"Bind inputs in memory of a library: {', '.join(EXTERNAL_LIBRARIES)}.",
        choices=EXTERNAL_LIBRARIES, commands=SINGLE, lists=CHOICES._replace(example="numpy,torch"),
    )  # fmt: skip
    cuda_graph: bool = _runs(
        "cuda-graph", "", "Capture inferences as a graph and replay it (CUDA, TensorRT, WebGPU).", kind=types.FLAG, default=False, commands=SINGLE,
    )  # fmt: skip
    stream: str | None = _runs(
        "stream", "KIND", f"Run kernels on a stream made by {' or '.join(STREAMS)} (CUDA, TensorRT).",
        choices=STREAMS, lists=CHOICES._replace(example="ort,cuda-python"),
        commands=OPENED,
    )  # fmt: skip
    engine_cache: str | None = _runs(
        "engine-cache", "DIR", "Keep the engines of TensorRT EPs in this folder.", kind=types.PATH, check=_folder,
        is_of_one_ep=True, commands=_PLACED,
    )  # fmt: skip
    run_config: dict[str, str] = _runs(
        "run-config", "K=V", f"Set an entry of ONNX Runtime's run options. {_COMMA}", kind=types.PAIRS, default={},
        check=_run_config, lists=REPEATED, commands=OPENED,
    )  # fmt: skip
    python: str | None = _runs(
        "python", "PATH", _PYTHON, kind=types.PATH, check=is_interpreter, lists=REPEATED,
        shown="ortbench's own", commands=_PLACED,
    )  # fmt: skip
    several_eps: bool = False


@dataclass(frozen=True)
class Inputs:
    """Where inputs come from and how they look; each field is what its option says.

    Attributes:
        path: None makes random inputs.
        ranges: (low, high), both inclusive for integers.
        index_sizes: how many entries integer inputs index into, by name, where it is known before the worker reads the model.
    """

    path: str | None = _input(
        "input",
        "PATH",
        "Read inputs: an .npz, a folder of input_0.pb, ..., or one of several such sets.",
        kind=types.ARRAYS,
        check=exists,
        commands=(*SINGLE, "inputs"),
        common=OFTEN,
    )
    expect: str | None = _input(
        "expect", "PATH", "Compare outputs with these: an .npz, or a folder of output_0.pb, ...", kind=types.ARRAYS, check=exists,
        commands=(*SINGLE, "inputs"),
    )  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = _input(
        "shape",
        "NAME:1x3x4",
        "Set the shape of an input.",
        kind=types.SHAPES,
        default={},
        lists=SHAPE_LISTS,
        is_of_shapes=True,
        commands=_PLACED,
        common=OFTEN,
    )
    dims: dict[str, int | str] = _input(
        "dim",
        "NAME=N",
        "Set the size of a symbolic dimension, else 1.",
        kind=types.DIMS,
        default={},
        lists=SIZES,
        is_of_shapes=True,
        commands=_PLACED,
        common=OFTEN,
    )
    lengths: dict[str, int] = _input(
        "sequence-tensors",
        "NAME=N",
        "Set the number of tensors of a sequence input.",
        kind=types.LENGTHS,
        default={},
        lists=SIZES,
        is_of_shapes=True,
        commands=SINGLE,
    )
    ranges: dict[str, tuple[float, float]] = _input(
        "range", "NAME:LO,HI", "Draw a synthetic input from this range.", kind=types.RANGES, default={}, commands=OPENED
    )
    seed: int = _input(
        "seed",
        "N",
        "Seed synthetic inputs and the order of blocks.",
        kind=types.WHOLE,
        default=0,
        check=not_negative,
        most=MOST_SEED,
        is_in_baselines=False,
        commands=CHAINED,
        by_command={},
    )
    rtol: float | None = _tolerance("rtol", "X", "Set the relative tolerance of the comparison of outputs.")
    atol: float | None = _tolerance("atol", "X", "Set the absolute tolerance of the comparison of outputs.")
    strict_outputs: bool = _input(
        "strict-outputs", "", "Refuse outputs that differ by a lower precision of the EP.", kind=types.FLAG, default=False, is_in_baselines=False,
        commands=SINGLE,
    )  # fmt: skip
    index_sizes: dict[str, int] | None = None


target_from: Callable[[dict[str, Any]], Target] = partial(typed_value, Target)
inputs_from: Callable[[dict[str, Any]], Inputs] = partial(typed_value, Inputs)


# EP options that say in their name whose they are, as ``ep.cuda.KEY``
#
# ONNX Runtime writes an EP's options into the session's configuration as ``ep.<full name in lower case>.KEY``, and CUDA's EP
# as a library of its own also reads ``ep.cuda.KEY``; documentation has them so. Here both are the option KEY of that EP.

_OPTION = "--ep-option"


def prefixes(ep: str) -> tuple[str, ...]:
    """What the options of an EP, by its full name, may begin with, in small letters: of CUDA's ``ep.cuda.`` and ``ep.cudaexecutionprovider.``."""
    full = ep.lower()
    names = (
        *(short for short, name in SHORT_NAMES.items() if name == ep),
        full.removesuffix("executionprovider"),
        full,
    )
    return tuple(f"ep.{name}." for name in dict.fromkeys(names))


def has_prefix(option: str) -> bool:
    """Whether an option says whose it is."""
    return re.match(r"ep\.[^.]+\..", option, re.IGNORECASE) is not None


def own(options: Mapping[str, str], ep: str, several_eps: bool = False) -> dict[str, str]:
    """The options of an EP, by its full name, each as the EP calls it. With `several_eps` those that say that they are another EP's are
    for that one, which runs beside it. `BadInput`: an option of another EP where there is none, or one in two spellings."""
    found: dict[str, str] = {}
    spelt: dict[str, str] = {}
    for key, value in options.items():
        ours = [prefix for prefix in prefixes(ep) if key.lower().startswith(prefix) and len(key) > len(prefix)]
        if not ours and has_prefix(key):
            if several_eps:
                continue
            reason = f"is an option of another EP than {ep}, which runs here: write {prefixes(ep)[0]}KEY or KEY alone"
            raise BadInput(f"{_OPTION} {key}: {reason}", _OPTION)
        name = key[max(map(len, ours), default=0) :]
        if name in spelt:
            raise BadInput(f"{_OPTION} {spelt[name]} and {key} are the same option of {ep}: give it once", _OPTION)
        found[name], spelt[name] = value, key
    return found


def with_own(target: Target, ep: str) -> Target:
    """A target with the options of the EP that runs alone; see `own`."""
    return replace(target, options=own(target.options, ep, target.several_eps))


def refuse_unclaimed(options: Iterable[str], eps: Collection[str]) -> None:
    """Refuse (`BadInput`) options that are of none of the EPs, by their full names, that run beside each other."""
    begins = tuple(prefix for ep in eps for prefix in prefixes(ep))
    for key in options:
        if has_prefix(key) and not key.lower().startswith(begins):
            reason = f"is an option of none of the EPs that run here: {join_words(list(dict.fromkeys(eps)))}"
            raise BadInput(f"{_OPTION} {key}: {reason}", _OPTION)


RANDOM: Final = "random"
CYCLE: Final = "cycle"
ORDERS: tuple[Order, ...] = RANDOM, CYCLE
_APART = 257  # places of an order between clients


class Shape(NamedTuple):
    name: str
    inputs: Inputs


@dataclass(frozen=True)
class Stream:
    """Inferences that have `shapes` in an `order`; a load also has each shape apart."""

    order: Order = option(
        "shape-order", "ORDER", f"Run the shapes in this order: {' or '.join(ORDERS)}.", INPUT, default=RANDOM,
        choices=ORDERS, commands=(), is_in_suites=False,
    )  # fmt: skip
    shapes: tuple[Shape, ...] = ()

    def numbers(self, seed: int) -> Iterator[int]:
        """Shapes by their numbers, as they come, without an end."""
        count = len(self.shapes)
        if self.order == CYCLE:
            return cycle(range(count))
        chance = random.Random(seed)
        return iter(lambda: chance.randrange(count), None)


def begun_by(client: int, order: Sequence[int]) -> Sequence[int]:
    """The order in which one of several clients goes through shapes, again and again: all have the same, and begin elsewhere."""
    at = _APART * client % len(order)
    return [*order[at:], *order[:at]]
