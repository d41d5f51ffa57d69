"""The first run of an open model, with plain arrays: its inputs, and the outputs that those of every mode are compared with."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ortbench.analysis.outputs import DECLARED, INPUT, VALUES, likely_cause, lowering_ep
from ortbench.core.eps import CUDA_EP, PACKAGES
from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError, Unsupported, ort_text
from ortbench.core.expressions import by_size
from ortbench.plan.target import Inputs, Target
from ortbench.worker import input_arrays
from ortbench.worker.environment import with_its_pip
from ortbench.worker.input_arrays import random_array
from ortbench.worker.proofs import EXPECTED, FIRST, compare_outputs
from ortbench.worker.session import Model
from ortbench.worker.tensors import (
    Array,
    TensorSpec,
    Value,
    get_form,
    host_array,
    host_value,
    index_sizes,
    random_nodes_note,
    value_sized_outputs,
)

if TYPE_CHECKING:
    from ortbench.model import protocol


@dataclass
class Data:
    # inputs by name, in host memory; all arrays where there is any mode but `cpu-tensors`
    arrays: dict[str, Value] = field(default_factory=dict)
    # outputs in the model's order: the ones to hold every mode against
    reference: list[Value] = field(default_factory=list)
    # the sizes of symbolic dimensions of which nobody said anything; of a state those before the first step
    guessed_dims: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)  # of the random values, by input
    first_inference_ns: int = 0  # how long the first run took (with what EPs do once: kernel search, compilation)
    expected: protocol.OutputComparison | None = None  # what was given beside expected outputs, where there are some
    of_first_set: bool = True  # the set of inputs that is measured is among these
    # the outputs that are to be bound without a shape, and why; see `find_unshaped`
    unshaped: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        is_first = self.expected is None or self.expected["differs"] is not None or not self.of_first_set
        return FIRST if is_first else EXPECTED


def make_inputs(
    path: str, model: Model, request: Inputs
) -> tuple[dict[str, Value], list[str], dict[str, tuple[float, float]]]:
    """The arrays of a run, the dimensions that were set to 1, and the ranges of random values; see `Data`."""
    for spec in model.inputs:
        spec.check()
    sizes = request.index_sizes
    if sizes is None:
        sizes = index_sizes(path, model.inputs) if request.path is None else {}
    return input_arrays.make_arrays(model.inputs, request, sizes)


_WAYS_OUT = "--shape, --dim, --sequence-tensors, --range change them, --input gives real ones"


def make_data(path: str, model: Model, request: Inputs, ways_out: str = _WAYS_OUT) -> Data:
    """The inputs, and the outputs of a first plain run. Raises `BadInput`: inputs that do not fit, or that the model refuses;
    `BenchmarkFailed`: the run fails, or its outputs are not the expected ones; `Unsupported`: something cannot be held."""
    check_specs((*model.inputs, *model.outputs))
    arrays, guessed_names, ranges = make_inputs(path, model, request)
    guessed = dict.fromkeys(guessed_names, 1)
    # Outputs that are known are known in shape alone: there is nothing to hold against anything.
    expected = None if model.known_outputs is not None else input_arrays.load_expected(request, model.outputs)
    reference, took_ns = run_timed(model, arrays, request, ways_out, guessed)
    if model.known_outputs is None and (sizes := sizes_of_outputs(model.outputs, reference, guessed)):
        sized = run_with_sizes(path, model, request, sizes)
        arrays, ranges, reference, guessed = sized or (arrays, ranges, reference, guessed)
    unshaped = find_unshaped(path, model, arrays, ranges, reference)
    data = Data(arrays, reference, guessed, ranges, took_ns, unshaped=unshaped)
    beside = [] if expected is None else _pair_outputs(model, reference, expected)
    for number, outputs in enumerate(outputs_of_other_sets(model, request), 1):
        if (others := input_arrays.load_expected(request, model.outputs, number)) is not None:
            beside += _pair_outputs(model, outputs, others)
    if not beside:
        return data
    comparison = compare_with_expected(beside, request, [model], path)
    # Modes are compared with what the EP gives, where that is not what was expected.
    if expected is not None and comparison["differs"] is None:
        reference = [expected[spec.name] for spec in model.outputs]
    return replace(data, reference=reference, expected=comparison, of_first_set=expected is not None)


def _pair_outputs(
    model: Model, outputs: Sequence[Value], expected: Mapping[str, Value]
) -> list[tuple[str, Value, Value]]:
    return [(spec.name, value, expected[spec.name]) for spec, value in zip(model.outputs, outputs, strict=True)]


def outputs_of_other_sets(model: Model, request: Inputs) -> Iterator[list[Value]]:
    """What plain runs give for each set of inputs behind the first. Raises as `make_data`."""
    for path in input_arrays.sets_of(request)[1:]:
        arrays = input_arrays.load_arrays(path, model.inputs, "input")
        yield run_timed(model, arrays, request, "", {}, f"{path.name}: ")[0]


def sizes_of_outputs(
    outputs: Sequence[TensorSpec], values: Sequence[Value], guessed: Mapping[str, int]
) -> dict[str, int]:
    """The sizes that outputs have in dimensions of which another size was guessed for inputs, such as ``total_length`` of a cache."""
    found: dict[str, set[int]] = {}
    for spec, value in zip(outputs, values, strict=True):
        form = get_form(value)
        for dim, size in zip(spec.shape, form or (), strict=False):
            if spec.is_tensor and dim in guessed and isinstance(size, int):
                found.setdefault(str(dim), set()).add(size)
    return {dim: max(sizes) for dim, sizes in found.items() if len(sizes) == 1 and sizes != {guessed[dim]}}


def run_with_sizes(
    path: str, model: Model, request: Inputs, sizes: Mapping[str, int]
) -> tuple[dict[str, Value], dict[str, tuple[float, float]], list[Value], dict[str, int]] | None:
    """Arrays, ranges, outputs and guessed sizes where inputs have the sizes of outputs; None where the model refuses them, or gives others."""
    try:
        arrays, ones, ranges = make_inputs(path, model, replace(request, dims={**request.dims, **sizes}))
        reference, _ = run_timed(model, arrays, request, "", sizes)
    except OrtbenchError:
        return None
    guessed = {**dict.fromkeys(ones, 1), **sizes}
    return None if sizes_of_outputs(model.outputs, reference, guessed) else (arrays, ranges, reference, guessed)


def compare_with_expected(
    outputs: Iterable[tuple[str, Value, Value]], request: Inputs, models: Sequence[Model], path: str | None = None
) -> protocol.OutputComparison:
    """Outputs of models beside expected ones, as `compare_outputs` has them; `path`: of the model's file, where there is one. Raises
    `BenchmarkFailed`: they differ, and by more than a lower precision of an EP explains, or strictly."""
    comparison = compare_outputs(outputs, request.rtol, request.atol, request.path is not None)
    eps = list(dict.fromkeys(model.provider.name for model in models))
    if comparison["differs"] is not None and (
        request.strict_outputs or lowering_ep(eps, comparison["relative"]) is None
    ):
        cause = (path and random_nodes_note(path)) or likely_cause(eps, comparison["relative"])
        raise BenchmarkFailed(f"the outputs are not the expected ones: {comparison['differs']}{cause}")
    return comparison


def check_specs(specs: Sequence[TensorSpec]) -> None:
    """Raises `Unsupported`: one of them cannot be held, or not in a run with another."""
    for spec in specs:
        spec.check()
    other = next((spec for spec in specs if not spec.is_tensor), None)
    foreign = next((spec for spec in specs if not spec.is_native), None)
    if other is not None and foreign is not None:
        raise Unsupported(
            f"{other.name!r} is {other.type} and {foreign.name!r} is {foreign.type}: ONNX Runtime's Python API takes the one "
            "as numpy's arrays and the other as an OrtValue, and never both in a run"
        )


# How EPs and their runtimes say it: ONNX Runtime's arena, CUDA, C++.
_NO_MEMORY = re.compile(r"failed to allocate|out of memory|has no memory|bad_alloc|bad allocation", re.IGNORECASE)


def run_timed(
    model: Model, arrays: dict[str, Value], request: Inputs, ways_out: str, guessed: Mapping[str, int], which: str = ""
) -> tuple[list[Value], int]:
    """One plain run, and how long it took, ns. Raises `BadInput` or `BenchmarkFailed`: it fails; `which` run comes first."""
    start = time.perf_counter_ns()
    try:
        return run_once(model, arrays), time.perf_counter_ns() - start
    except Exception as error:
        described = _describe_run_error(error, model.target, request, ways_out, guessed)
        raise type(described)(f"{which}{described}") from None


def _describe_run_error(
    error: Exception, target: Target, request: Inputs, ways_out: str, guessed: Mapping[str, int]
) -> OrtbenchError:
    sizes = [f"{', '.join(names)} {'are' if names[1:] else 'is'} {size}" for size, names in by_size(guessed).items()]
    where = f", where {' and '.join(sizes)}" if sizes else ""
    synthetic = [] if request.path else [f"synthetic inputs{where} ({ways_out})"]
    settings = [f"--run-config {key}={value}" for key, value in target.run_config.items()] + synthetic
    hint = f" with {' and '.join(settings)}" if settings else ""
    if type(error).__name__ == "InvalidArgument":
        return BadInput(f"the model refuses to run{hint}: {ort_text(error)}")
    if "cuDNN is unavailable" in str(error):
        hint = with_its_pip(f", as cuDNN is missing (it comes with: pip install '{PACKAGES[CUDA_EP]}')")
    if _NO_MEMORY.search(text := ort_text(error)):
        return BenchmarkFailed(f"the first run ran out of memory: {text}")
    return BenchmarkFailed(f"the first run failed{hint}: {text}")


def run_once(model: Model, arrays: dict[str, Value]) -> list[Value]:
    """One plain run with inputs in host memory; outputs in the model's order, in arrays of their own."""
    if model.known_outputs is not None:
        return model.known_outputs(model.outputs)
    call, feeds, options = cpu_call(model, arrays)
    return to_arrays(model, call(feeds, options))


def cpu_call(model: Model, arrays: dict[str, Value]) -> tuple[Callable[[Any, Any], Any], dict[str, Any], Any]:
    """The call of mode `cpu-tensors`: plain `run` with arrays, or with OrtValues where numpy has no such dtype; and its two arguments,
    feeds and run options. The arrays must outlive it."""
    names = model.output_names
    if all(spec.is_native for spec in (*model.inputs, *model.outputs)):
        return partial(model.session.run, names), arrays, model.plain_options
    values = {spec.name: host_value(spec, arrays[spec.name]) for spec in model.inputs}
    return partial(model.session.run_with_ort_values, names), values, model.plain_options


def to_arrays(model: Model, results: Any) -> list[Value]:
    arrays: list[Value] = []
    for spec, result in zip(model.outputs, results, strict=True):
        if result is None or isinstance(result, (np.ndarray, list)):
            arrays.append(result)
        elif isinstance(result, np.generic):
            arrays.append(np.asarray(result))
        else:
            arrays.append(host_array(spec, result))
    return arrays


_SEED = 54  # of the other values; inputs are made from another one
_ZEROS, _FEW = 0.75, 16  # the part of them that is zero; of few all are, since small counts are soon the same by chance


def find_unshaped(
    path: str,
    model: Model,
    arrays: Mapping[str, Value],
    ranges: Mapping[str, tuple[float, float]],
    first: Sequence[Value],
    known: Collection[str] = (),
) -> dict[str, str]:
    """`Data.unshaped` of a model that gave `first` for `arrays`. What the model declares is not believed: where an output's size may
    depend on values, a run with other values of the same shapes tells; where that tells nothing, the operators that make sizes of
    values do. Of `known` outputs only what is declared is looked at."""
    pairs = enumerate(zip(model.outputs, first, strict=True))
    tensors = [(number, spec, array) for number, (spec, array) in pairs if spec.is_tensor]
    found = {spec.name: DECLARED for _, spec, array in tensors if not spec.has_shape(array.shape)}
    sizes = _input_sizes(model.inputs, arrays)
    unexplained = [item for item in tensors if item[1].name not in known and not _is_explained(*item[1:], sizes)]
    if unexplained and model.known_outputs is None:
        second = try_run(model, change_values(model.inputs, arrays, ranges))
        # What is empty, or could not be compared, says nothing by itself.
        is_unknown = [second is None or not array.size for _, _, array in unexplained]
        counts = value_sized_outputs(path) if any(is_unknown) else ()
        found |= {
            spec.name: VALUES
            for (number, spec, array), unknown in zip(unexplained, is_unknown, strict=True)
            if (unknown and spec.name in counts) or (second is not None and second[number].shape != array.shape)
        }
    names = {spec.name for spec in model.inputs}
    return found | {spec.name: INPUT for _, spec, _ in tensors if spec.name in names}


def try_run(model: Model, arrays: dict[str, Value]) -> list[Value] | None:
    """The outputs of a plain run; None where the model takes no such inputs (lengths that must fit others, say)."""
    try:
        return run_once(model, arrays)
    except Exception:
        return None


def _input_sizes(specs: Sequence[TensorSpec], arrays: Mapping[str, Value]) -> dict[str, set[int]]:
    """The sizes that the inputs have along dimensions of each name."""
    found: dict[str, set[int]] = {}
    for spec in specs:
        for dim, size in zip(spec.shape, arrays[spec.name].shape, strict=False) if spec.is_tensor else ():
            if isinstance(dim, str):
                found.setdefault(dim, set()).add(size)
    return found


def _is_explained(spec: TensorSpec, array: Array, sizes: Mapping[str, set[int]]) -> bool:
    """Whether an output's size follows from the inputs' shapes: it has the fixed sizes, and sizes of the inputs, that it declares.
    A declared 0 is what an exporter's own inputs gave, as of a detector that found nothing."""
    if len(spec.shape) != array.ndim:
        return False
    dims = zip(spec.shape, array.shape, strict=True)
    return all((size == dim and size) or (isinstance(dim, str) and size in sizes.get(dim, ())) for dim, size in dims)


def change_values(
    specs: Sequence[TensorSpec], arrays: Mapping[str, Value], ranges: Mapping[str, tuple[float, float]]
) -> dict[str, Value]:
    """Inputs of the same shapes: random ones of the same ranges, given ones in another order; most of their elements are zero, or
    what of their range is nearest to it, as sizes often count what is not."""
    generator = np.random.default_rng(_SEED)

    def change(spec: TensorSpec, value: Value) -> Value:
        if value is None:
            return None
        if isinstance(value, list):
            return [change(spec, array) for array in value]
        bounds = ranges.get(spec.name)
        if spec.is_string or not value.size:
            return _permute(value, generator)
        if bounds is not None and value.size == 1:
            return np.full_like(value, max(bounds, key=lambda end: abs(end - float(value.reshape(-1)[0]))))
        if bounds is None:
            changed, low, high = _permute(value, generator), *(float(it) for it in (value.min(), value.max()))
        else:
            changed, (low, high) = random_array(spec, value.shape, bounds, generator), bounds
        if value.size > 1:
            changed[generator.random(value.shape) < (_ZEROS if value.size >= _FEW else 1)] = min(max(0.0, low), high)
        return changed

    return {spec.name: change(spec, arrays[spec.name]) for spec in specs}


def _permute(array: Array, generator: Any) -> Array:
    permuted: Array = array.reshape(-1)[generator.permutation(array.size)].reshape(array.shape)
    return permuted
