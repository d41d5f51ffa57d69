"""The types of what calls are given: values, and by each function its options.

An option stands here once, with the type that its kind (`ortbench.plan.option_types`) has in Python; a test holds both equal.
What it means is said where it is declared, and `ortbench.api.signatures` has it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from ortbench.api.running import Progress

if TYPE_CHECKING:
    import onnx
    from numpy.typing import ArrayLike

    from ortbench.api.results import Result
    from ortbench.model.result import Result as StoredResult

Place: TypeAlias = str | PathLike[str]  # a path
Texts: TypeAlias = str | Sequence[str]  # one, or several
Model: TypeAlias = "str | PathLike[str] | bytes | onnx.ModelProto"
Arrays: TypeAlias = "Mapping[str, ArrayLike]"  # by the names of inputs or outputs
Tell: TypeAlias = Callable[[Progress], object]


# Options of several functions


class _Library(TypedDict, total=False):
    python: Place | None
    ep_library: Place | None


class _Device(_Library, total=False):
    ep: str | None
    device: int | None


class _Session(_Device, total=False):
    ep_option: Mapping[str, str | float] | None
    session_config: Mapping[str, str | float] | None
    custom_ops: Place | Sequence[Place] | None
    opt_level: str | None
    engine_cache: Place | None


class _Runs(_Session, total=False):
    intra_op_threads: int | None
    inter_op_threads: int | None
    execution_mode: str | None
    cpu_mem_arena: bool | None
    mem_pattern: bool | None
    optimized_model: Place | None
    no_cpu_fallback: bool
    stream: str | None
    run_config: Mapping[str, str | float] | None
    range: Mapping[str, Sequence[float]] | None


class _SingleInferences(TypedDict, total=False):
    dynamic_outputs: bool
    input_memory: str | None
    cuda_graph: bool
    depth: int | None
    items: int | str | None


class _Loop(TypedDict, total=False):
    feedback: Texts | None
    steps: int | None
    first_dim: Mapping[str, int | str] | None
    fill: Mapping[str, str | float] | None
    keep: Texts | None
    resident: Texts | None


class _Generation(TypedDict, total=False):
    prompt_length: int | None
    generate: int | None
    context: int | None
    tokens: Place | None


class _Load(TypedDict, total=False):
    slo: str | None
    concurrency: int | str | Sequence[int] | None
    rate: float | str | Sequence[float] | None
    arrivals: Place | None
    sessions: str | None
    workers: int | None


class _Sizes(TypedDict, total=False):
    shape: Mapping[str, str | Sequence[int]] | None
    dim: Mapping[str, int | str] | None


class _Shapes(TypedDict, total=False):
    shape: Mapping[str, str | Sequence[int] | Sequence[Sequence[int] | str]] | None
    dim: Mapping[str, int | str | Sequence[int | str]] | None


class _ShapeOrder(TypedDict, total=False):
    shape_order: str | None


class _Expected(TypedDict, total=False):
    expect: Place | Arrays | None


class _Strict(TypedDict, total=False):
    strict_outputs: bool


class _Inputs(_Expected, total=False):
    input: Place | Arrays | None


class _Measured(TypedDict, total=False):
    seed: int | None
    duration: float | str | None
    timeout: float | str | None
    wait_quiet: float | str | None
    require_quiet: bool
    out: Place | None


class _Iterations(TypedDict, total=False):
    iterations: int | None


class _Results(_Measured, total=False):
    modes: Texts | None
    rtol: float | None
    atol: float | None
    warmup: int | None
    lock_clocks: int | str | None
    record_env: Texts | None
    name: str | None
    note: str | None


class _Precise(_Results, _Iterations, total=False):
    precision: float | str | None
    processes: int | None
    measure_memory: bool
    measure_energy: bool


class _Spin(TypedDict, total=False):
    measure_spin: bool


class _Compared(TypedDict, total=False):
    metric: Texts | None
    force: bool


# Options of each function


class RunOptions(_Runs, _SingleInferences, _Inputs, _Sizes, _Strict, _Precise, _Spin, total=False):
    """Of `ortbench.run`."""

    sequence_tensors: Mapping[str, int] | None
    measure_nodes: bool
    measure_copies: bool
    bandwidth: Place | None


class LoopOptions(_Runs, _Loop, _Generation, _Inputs, _Sizes, _Strict, _Precise, _Spin):
    """Of `ortbench.loop`."""


class ChainOptions(_Expected, _Strict, _Precise, total=False):
    """Of `ortbench.chain`."""

    python: Place | None


class StartOptions(_Runs, _Inputs, _Sizes, _Measured, _Iterations, total=False):
    """Of `ortbench.start`."""

    file_cache: str | None
    compile_cache: str | None
    precision: float | str | None
    rtol: float | None
    atol: float | None
    record_env: Texts | None
    name: str | None
    note: str | None


class SoakOptions(_Runs, _Inputs, _Shapes, _ShapeOrder, _Results, _Iterations, total=False):
    """Of `ortbench.soak`: several sizes are one stream of shapes."""

    reopen: int | None


class LoadOptions(_Runs, _Inputs, _Shapes, _ShapeOrder, _Strict, _Results, _Load, total=False):
    """Of `ortbench.load`: several sizes are one stream of shapes."""

    processes: int | None
    sequence_tensors: Mapping[str, int | str | Sequence[int | str]] | None


class SweepOptions(_Runs, _SingleInferences, _Shapes, _Strict, _Precise, _Spin, total=False):
    """Of `ortbench.sweep`: several sizes are shapes of their own."""

    slo: str | None
    sequence_tensors: Mapping[str, int | str | Sequence[int | str]] | None
    data: Place | Sequence[Place | Arrays] | None


class Baseline(TypedDict, total=False):
    """The options that a baseline has of its own, as ``baseline_set`` of `ortbench.gate`; an empty one leaves it the default."""

    ep: str | None
    ep_library: Place | None
    device: int | str | None
    ep_option: Mapping[str, str | float] | None
    session_config: Mapping[str, str | float] | None
    intra_op_threads: int | str | None
    inter_op_threads: int | str | None
    execution_mode: str | None
    cpu_mem_arena: bool | None
    mem_pattern: bool | None
    optimized_model: Place | None
    custom_ops: Place | Sequence[Place] | None
    opt_level: str | None
    no_cpu_fallback: bool | None
    dynamic_outputs: bool | None
    input_memory: str | None
    cuda_graph: bool | None
    stream: str | None
    engine_cache: Place | None
    run_config: Mapping[str, str | float] | None
    keep: Texts | None
    resident: Texts | None
    input: Place | Arrays | None
    expect: Place | Arrays | None
    shape: Mapping[str, str | Sequence[int]] | None
    dim: Mapping[str, int | str] | None
    sequence_tensors: Mapping[str, int] | None
    range: Mapping[str, Sequence[float]] | None
    depth: int | str | None
    items: int | str | None


class GateOptions(
    _Runs,
    _SingleInferences,
    _Loop,
    _Generation,
    _Inputs,
    _Sizes,
    _Strict,
    _Results,
    _Load,
    _Compared,
    total=False,
):
    """Of `ortbench.gate`."""

    sequence_tensors: Mapping[str, int] | None
    reopen: int | None
    model: Model | None
    chain: Place | None
    load: bool
    max_regression: float | str | None
    min_speedup: Mapping[str, float] | None
    max_copy_share: float | str | None
    max_cpu_nodes: int | None
    max_device_memory: int | str | None
    max_host_memory: int | str | None
    max_growth: int | str | None
    limit: Mapping[str, float | str] | None
    require_mode: Texts | None
    baseline: Result | StoredResult | Place | None
    baseline_model: Model | None
    baseline_chain: Place | None
    baseline_python: Place | None
    baseline_set: Baseline | None
    why: bool | None


class CompareOptions(_Compared, total=False):
    """Of `ortbench.compare`."""

    modes: Texts | None
    equivalence_margin: float | str | None
    why: bool | None


class BandwidthOptions(_Device, _Measured, _Iterations, total=False):
    """Of `ortbench.bandwidth`."""

    min_size: str | None
    max_size: str | None


class DevicesOptions(_Library, total=False):
    """Of `ortbench.devices`."""

    check: Place | None


class InspectOptions(_Session, _Sizes, total=False):
    """Of `ortbench.inspect`."""

    sequence_tensors: Mapping[str, int] | None
