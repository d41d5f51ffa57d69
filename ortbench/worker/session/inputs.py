"""The inputs of a run: shapes filled in, arrays made from a seed or read from files, expected outputs."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ortbench.errors import BadInput, Unsupported, one_line
from ortbench.plan import Inputs
from ortbench.worker.session.tensors import Array, TensorSpec

# What random values are when the model's graph does not say: inclusive for integers.
_FLOAT_RANGE = (0.0, 1.0)
_WIDE_INTEGER_RANGE = (0, 1)  # int32 and int64 are mostly ids, masks and flags: 0 and 1 are valid for nearly all


def resolve_shapes(
    inputs: Sequence[TensorSpec], shapes: Mapping[str, tuple[int, ...]], dims: Mapping[str, int]
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Fill symbolic dimensions in.

    Args:
        inputs: the model's inputs.
        shapes: whole shapes that the user gave, by input name.
        dims: sizes that the user gave, by the dimension's name.

    Returns:
        A shape for every input, and the dimensions that were set to 1 because nobody said otherwise.

    Raises:
        BadInput: a name the model has not, a shape that does not fit, or two sizes for one dimension.
    """
    names = [spec.name for spec in inputs]
    for name in shapes:
        if name not in names:
            raise BadInput(f"--shape {name}: the model has no such input; it has {', '.join(names)}")
    symbols = {dim for spec in inputs for dim in spec.shape if isinstance(dim, str)}
    for name in dims:
        if name not in symbols:
            has = f"it has {', '.join(sorted(symbols))}" if symbols else "it has none"
            raise BadInput(f"--dim {name}: the model has no such symbolic dimension; {has}")
    sizes = dict(dims)
    for spec in inputs:  # what --shape says of a named dimension holds for every input that uses the name
        for dim, size in zip(spec.shape, shapes.get(spec.name, ()), strict=False):
            if isinstance(dim, str) and sizes.setdefault(dim, size) != size:
                raise BadInput(f"--shape {spec.name}: dimension {dim} is {size} here and {sizes[dim]} elsewhere")
    resolved, guessed = {}, []
    for spec in inputs:
        given = shapes.get(spec.name)
        if given is not None:
            _check_fit(spec, given, "--shape")
            resolved[spec.name] = given
            continue
        shape = []
        for axis, dim in enumerate(spec.shape):
            if isinstance(dim, int):
                shape.append(dim)
            elif isinstance(dim, str) and dim in sizes:
                shape.append(sizes[dim])
            else:
                shape.append(1)
                label = dim if isinstance(dim, str) else f"{spec.name}[{axis}]"
                if label not in guessed:
                    guessed.append(label)
        resolved[spec.name] = tuple(shape)
    return resolved, guessed


def _check_fit(spec: TensorSpec, shape: Sequence[int], source: str) -> None:
    wanted = "x".join(str(dim) if dim is not None else "?" for dim in spec.shape) or "a scalar"
    text = "x".join(map(str, shape)) or "a scalar"
    # An empty shape is also how ORT reports an input of unknown rank: the session itself is the judge then.
    if spec.shape and len(shape) != len(spec.shape):
        raise BadInput(f"{source} {spec.name}: {text} does not fit {wanted}: {len(spec.shape)} dimension(s) are needed")
    for dim, size in zip(spec.shape, shape, strict=False):
        if isinstance(dim, int) and dim != size:
            raise BadInput(f"{source} {spec.name}: {text} does not fit {wanted}: the model fixes {dim}")


def make(
    inputs: Sequence[TensorSpec], request: Inputs, index_sizes: Mapping[str, int]
) -> tuple[dict[str, Array], list[str], dict[str, tuple[float, float]]]:
    """The arrays of a run.

    Args:
        inputs: the model's inputs.
        request: what the user asked for.
        index_sizes: for integer inputs that end as indices, how many entries they index into.

    Returns:
        Arrays by input name (C-contiguous), the dimensions that were set to 1, and the ranges random values have.

    Raises:
        BadInput: what was asked for does not fit the model.
        Unsupported: an input that is not a tensor.
    """
    for name in request.ranges:
        spec = next((spec for spec in inputs if spec.name == name), None)
        if spec is None:
            raise BadInput(f"--range {name}: the model has no such input")
        if spec.is_string:
            raise BadInput(f"--range {name}: the input holds strings")
    if request.path is not None:
        for option, given in (("--shape", request.shapes), ("--dim", request.dims), ("--range", request.ranges)):
            if given:
                raise BadInput(f"{option} cannot be combined with --input: the files say it all")
        return load(Path(request.path), inputs, "input"), [], {}
    shapes, guessed = resolve_shapes(inputs, request.shapes, request.dims)
    ranges = {
        spec.name: request.ranges.get(spec.name) or default_range(spec, index_sizes.get(spec.name))
        for spec in inputs
        if not spec.is_string
    }
    generator = np.random.default_rng(request.seed)
    arrays = {
        spec.name: random_array(spec, shapes[spec.name], ranges.get(spec.name, _FLOAT_RANGE), generator)
        for spec in inputs
    }
    return arrays, guessed, ranges


def default_range(spec: TensorSpec, index_size: int | None) -> tuple[float, float]:
    """The range of random values for an input, inclusive for integers."""
    dtype = spec.dtype
    if dtype.kind == "b":
        return (0, 1)
    if dtype.kind not in "iu":
        return _FLOAT_RANGE
    if index_size is not None:
        return (0, max(0, min(index_size - 1, int(np.iinfo(dtype).max))))
    if dtype.itemsize <= 2:  # pixels and quantised values use all of their range
        info = np.iinfo(dtype)
        return (int(info.min), int(info.max))
    return _WIDE_INTEGER_RANGE


def random_array(
    spec: TensorSpec, shape: tuple[int, ...], bounds: tuple[float, float], generator: np.random.Generator
) -> Array:
    """A random array of `spec.dtype` (strings are short texts, whatever the range); large float32 and float64 arrays are made without a temporary copy.

    Raises:
        BadInput: the range does not fit the dtype.
    """
    dtype, (low, high) = spec.dtype, bounds
    if dtype.kind == "O":
        texts = [f"s{number}" for number in generator.integers(0, 10, math.prod(shape))]
        return np.array(texts, dtype=object).reshape(shape)
    refusal = f"--range {spec.name}:{low:g},{high:g} does not fit {dtype}"
    if dtype.kind in "biu":
        least, most = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
        if not (low == int(low) and high == int(high) and least <= low and high <= most):
            raise BadInput(refusal)
        drawn = np.uint8 if dtype.kind == "b" else dtype
        return generator.integers(int(low), int(high), shape, dtype=drawn, endpoint=True).astype(dtype, copy=False)
    if max(abs(low), abs(high), high - low) > _largest(dtype):
        raise BadInput(refusal)
    working = dtype if dtype in (np.float32, np.float64) else np.dtype(np.float32)
    array = np.empty(shape, dtype=working)
    generator.random(dtype=working, out=array)
    if bounds != (0.0, 1.0):
        array *= working.type(high - low)
        array += working.type(low)
    return array if working == dtype else array.astype(dtype)


def _largest(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a floating-point dtype, also of those that numpy has not."""
    if dtype in (np.float16, np.float32, np.float64):
        return float(np.finfo(dtype).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def load(path: Path, wanted: Sequence[TensorSpec], kind: str) -> dict[str, Array]:
    """Arrays by name from an .npz file (keys are names) or from a folder with ``input_0.pb`` … in the model's order.

    Args:
        path: the file or folder.
        wanted: the model's inputs or outputs.
        kind: ``input`` or ``output``, which is how the folder's files are called.

    Raises:
        BadInput: it cannot be read, or names, dtypes or shapes are not the model's.
    """
    arrays = _load_folder(path, wanted, kind) if path.is_dir() else _load_npz(path, wanted, kind)
    return {spec.name: _fit(spec, arrays[spec.name], str(path)) for spec in wanted}


def _load_npz(path: Path, wanted: Sequence[TensorSpec], kind: str) -> dict[str, Array]:
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise BadInput(f"{path} holds one array: write an .npz whose keys are the {kind} names")
            names = [spec.name for spec in wanted]
            missing = [name for name in names if name not in archive.files]
            extra = [name for name in archive.files if name not in names]
            if missing or extra:
                parts = [f"misses {', '.join(missing)}"] if missing else []
                parts += [f"has {', '.join(extra)} that the model has not"] if extra else []
                raise BadInput(f"{path} {' and '.join(parts)}; the model's {kind}s are {', '.join(names)}")
            return {name: archive[name] for name in names}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error):  # ValueError: it could only be unpickled
        raise BadInput(f"{path} is not an .npz file of plain arrays") from None


def _load_folder(path: Path, wanted: Sequence[TensorSpec], kind: str) -> dict[str, Array]:
    import onnx  # the reader of its own test sets
    from onnx import numpy_helper

    files = [path / f"{kind}_{index}.pb" for index in range(len(wanted))]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise BadInput(f"{path} has no {', '.join(missing)}; the model has {len(wanted)} {kind}(s)")
    if (path / f"{kind}_{len(wanted)}.pb").exists():
        raise BadInput(f"{path} has one file too many, {kind}_{len(wanted)}.pb; the model has {len(wanted)} {kind}(s)")
    arrays = {}
    for spec, file in zip(wanted, files, strict=True):
        tensor = onnx.TensorProto()
        try:
            tensor.ParseFromString(file.read_bytes())
            array = numpy_helper.to_array(tensor)
        except Exception as error:  # protobuf and onnx raise many kinds for a file that is something else
            raise BadInput(f"{file} is not a tensor in ONNX format: {one_line(error)}") from None
        arrays[spec.name] = array
    return arrays


def save(path: Path, arrays: Sequence[Array], kind: str) -> bool:
    """Write arrays as `load` reads them from a folder; false where protobuf cannot hold them (2 GB is its limit)."""
    from google.protobuf.message import EncodeError
    from onnx import numpy_helper

    try:
        for index, array in enumerate(arrays):
            (path / f"{kind}_{index}.pb").write_bytes(numpy_helper.from_array(array).SerializeToString())
    except (ValueError, EncodeError):
        return False
    return True


def _fit(spec: TensorSpec, array: Array, source: str) -> Array:
    if spec.is_string and array.dtype.kind in "USO":
        return array.astype(object)
    if array.dtype.kind == "V" and not spec.native and array.dtype.itemsize == spec.dtype.itemsize:
        array = array.view(spec.dtype)  # how numpy stores dtypes that it has not
    if array.dtype != spec.dtype:
        raise BadInput(f"{source}: {spec.name} is {array.dtype}, the model wants {spec.dtype}")
    _check_fit(spec, array.shape, source)
    return np.ascontiguousarray(array).reshape(array.shape)  # ascontiguousarray makes a scalar one-dimensional


def expected(request: Inputs, outputs: Sequence[TensorSpec]) -> dict[str, Array] | None:
    """The outputs to hold the modes against: of ``--expect``, or those beside the inputs of an ONNX test set.

    Raises:
        BadInput: they do not fit the model.
    """
    if request.expect is not None:
        return load(Path(request.expect), outputs, "output")
    if request.path is not None and (Path(request.path) / "output_0.pb").is_file():
        return load(Path(request.path), outputs, "output")
    return None


def index_sizes(model_path: str, inputs: Sequence[TensorSpec]) -> dict[str, int]:
    """How many entries each integer input indexes into, for inputs that reach a Gather-like operator.

    Follows each input through operators that pass integers on unchanged in value. Empty for models in ORT's own
    format, which the onnx package does not read.

    Returns:
        Input name → the size of the smallest axis it indexes.
    """
    try:
        integers = {spec.name for spec in inputs if spec.dtype.kind in "iu"}
    except Unsupported:
        return {}
    if not integers:
        return {}
    import onnx

    try:
        model = onnx.load(model_path, load_external_data=False)
    except Exception:  # the session has loaded it, so it is a model; only its indices stay unknown
        return {}
    return _index_sizes(model, integers)


_PASS_ON = {
    "Cast", "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze",
}  # fmt: skip


def _index_sizes(model: Any, integers: set[str]) -> dict[str, int]:
    graph = model.graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    shapes[node.output[0]] = tuple(attribute.t.dims)
    shapes = {**_inferred_shapes(model), **shapes}
    origins = {name: {name} for name in integers}
    found: dict[str, int] = {}
    for node in graph.node:
        sources = origins.get(node.input[0], set()) if node.input and node.op_type in _PASS_ON else set()
        if node.op_type == "Concat":
            sources = set().union(*(origins.get(name, set()) for name in node.input))
        for output in node.output[:1]:
            if sources:
                origins[output] = sources
        if node.op_type in ("Gather", "GatherElements") and len(node.input) > 1:
            data = shapes.get(node.input[0])
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            size = data[axis] if data and -len(data) <= axis < len(data) else None
            if isinstance(size, int) and size > 0:
                for name in origins.get(node.input[1], set()):
                    found[name] = min(found.get(name, size), size)
    return found


def _inferred_shapes(model: Any) -> dict[str, tuple[int | None, ...]]:
    """Shapes of values inside the graph, for tables that are computed rather than stored."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # inference is a help; the stored tables are known without it
        return {}
    return {
        info.name: tuple(
            dim.dim_value if dim.HasField("dim_value") else None for dim in info.type.tensor_type.shape.dim
        )
        for info in [*graph.value_info, *graph.input]
        if info.type.HasField("tensor_type")
    }
