"""The arrays of a run: made from a seed or read from files, with the outputs that are expected of them, and their shapes: what
the user gave, and what the model leaves open. Files are .npz, or folders
as ONNX's test sets have them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ortbench.core.errors import BadInput, one_line
from ortbench.core.expressions import STEP, names_in, value_of
from ortbench.core.files import expected_outputs, input_sets
from ortbench.plan.target import Inputs
from ortbench.worker.tensors import NO_ONNX, TO_FREE, Array, TensorSpec, Value

_LARGEST = 2**63 - 1  # that a dimension's size can be


def resolve_shapes(
    inputs: Sequence[TensorSpec],
    shapes: Mapping[str, tuple[int, ...]],
    dims: Mapping[str, int | str],
    known: Mapping[str, int] | None = None,
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Shapes of all inputs, symbolic dimensions filled in, and the dimensions that were set to 1 as nobody said otherwise.

    A size (`dims`) may be an expression of others; a loop knows its ``step`` and what its state has by now. An input's own shape comes
    first: ONNX Runtime lets axes of one name have several sizes, and a name that is given several says nothing of others. An axis with a
    name can be called by its place too, ``x[2]``. Raises `BadInput`: a name the model has not, or a shape that does not fit."""
    names = [spec.name for spec in inputs]
    for name in shapes:
        if name not in names:
            raise BadInput(f"--shape {name}: the model has no such input; it has {', '.join(names)}")
    symbols = {dim for spec in inputs for dim in spec.dims if isinstance(dim, str)}
    labels = {axis_label(spec, axis): dim for spec in inputs for axis, dim in enumerate(spec.dims) if dim in symbols}
    for name in dims:
        if name not in symbols and name not in labels:
            reason = (
                f"no such symbolic dimension; it has {', '.join(sorted(symbols))}"
                if symbols
                else "no symbolic dimension"
            )
            has_fixed = any(isinstance(dim, int) for spec in inputs for dim in spec.shape)
            raise BadInput(f"--dim {name}: the model has {reason}{f'; {TO_FREE}' if has_fixed else ''}")
    sizes = {name: size for name, size in dims.items() if isinstance(size, int)} | dict(known or {})
    sizes_in_shapes: dict[str, set[int]] = {}
    for spec in inputs:  # what --shape says of a dimension holds for every input that uses the name
        for dim, size in zip(spec.dims, shapes.get(spec.name, ()), strict=False):
            if isinstance(dim, str):
                sizes_in_shapes.setdefault(dim, set()).add(size)
    for name in sizes.keys() & labels.keys() - symbols:
        sizes_in_shapes.setdefault(str(labels[name]), set()).add(sizes[name])
    sizes = {name: found.pop() for name, found in sizes_in_shapes.items() if len(found) == 1} | sizes
    sums = {name: text for name, text in dims.items() if isinstance(text, str) and name not in sizes}
    guessed = _resolve_sums(sizes, sums, symbols, least=1 if known is None else 0)
    resolved: dict[str, tuple[int, ...]] = {}
    for spec in inputs:
        given = shapes.get(spec.name)
        if given is not None:
            spec.check_fit(given, "--shape")
            resolved[spec.name] = given
            continue
        resolved[spec.name] = tuple(
            dim if isinstance(dim, int) else sizes.get(axis_label(spec, axis), sizes.get(dim, 1))
            for axis, dim in enumerate(spec.dims)
        )
        for axis, dim in enumerate(spec.dims):
            if isinstance(dim, str) and not {dim, axis_label(spec, axis)} & {*sizes, *guessed}:
                guessed.append(dim)
    return resolved, guessed


def axis_label(spec: TensorSpec, axis: int) -> str:
    return f"{spec.name}[{axis}]"


def _resolve_sums(sizes: dict[str, int], sums: Mapping[str, str], symbols: set[str], least: int) -> list[str]:
    """Put the size of every dimension that is a sum of others into `sizes`; gives those of them that were set to 1. Exporters name a
    dimension by the sum that it is ("past_sequence_length + 1"): such a name is a sum too where it comes to a size."""
    guessed: list[str] = []

    def size_of(name: str, parents: tuple[str, ...]) -> int:
        if name in sizes:
            return sizes[name]
        if name in parents:
            raise BadInput(f"--dim {name}={sums[name]}: is a sum of itself")
        text = sums.get(name, "" if name.isidentifier() or names_in(name) == {name} else name)
        where, names, size = f"--dim {name}={text}", names_in(text) or set(), -1.0
        if name in sums:
            _check_names(where, names - symbols - set(sizes), symbols - {name})
        if names and names <= symbols | set(sizes):
            size = value_of(text, {other: size_of(other, (*parents, name)) for other in sorted(names)}, where)
        if least <= size <= _LARGEST and size == int(size):
            sizes[name] = int(size)
        elif name in sums:
            raise BadInput(f"{where}: {size:g} is no size{'' if size else ', which leaves nothing to measure'}")
        else:
            guessed.append(name)
            sizes[name] = 1
        return sizes[name]

    named_sums = (name for name in sorted(symbols - set(sums)) if not name.isidentifier() and names_in(name))
    for name in (*sums, *named_sums):
        size_of(name, ())
    return guessed


def _check_names(where: str, unknown: set[str], symbols: set[str]) -> None:
    for other in sorted(unknown):
        if other == STEP:
            raise BadInput(f"{where}: only a loop has steps")
        or_sum = f", or a sum of {', '.join(sorted(symbols))}" if symbols else ""
        raise BadInput(f"{where}: the model has no dimension {other!r}; write a whole number{or_sum}")


# What random values are when the model's graph does not say: inclusive for integers.
_FLOAT_RANGE = (0.0, 1.0)
_WIDE_INTEGER_RANGE = (0, 1)  # int32 and int64 are mostly ids, masks and flags: 0 and 1 are valid for nearly all


def make_arrays(
    inputs: Sequence[TensorSpec], request: Inputs, index_sizes: Mapping[str, int]
) -> tuple[dict[str, Value], list[str], dict[str, tuple[float, float]]]:
    """The arrays of a run (C-contiguous) or lists of them, the dimensions that were set to 1, and the ranges of random values. Raises
    `BadInput`: what was asked for does not fit the model; `Unsupported`: an input that cannot be held."""
    _check_lengths(inputs, request)
    for name in request.ranges:
        spec = next((spec for spec in inputs if spec.name == name), None)
        if spec is None:
            raise BadInput(f"--range {name}: the model has no such input")
        if spec.element == "string":
            raise BadInput(f"--range {name}: the input holds strings")
    if request.path is not None:
        synthetic_options = {
            "--shape": request.shapes,
            "--dim": request.dims,
            "--sequence-tensors": request.lengths,
            "--range": request.ranges,
        }
        for option, given in synthetic_options.items():
            if given:
                raise BadInput(f"{option} cannot be combined with --input: the files say it all")
        return load_arrays(sets_of(request)[0], inputs, "input"), [], {}
    shapes, guessed = resolve_shapes(inputs, request.shapes, request.dims)
    ranges = {
        spec.name: request.ranges.get(spec.name) or default_range(spec, index_sizes.get(spec.name))
        for spec in inputs
        if spec.element != "string"
    }
    generator = np.random.default_rng(request.seed)

    def make(spec: TensorSpec) -> Array:
        return random_array(spec, shapes[spec.name], ranges.get(spec.name, _FLOAT_RANGE), generator)

    arrays: dict[str, Value] = {
        spec.name: [make(spec) for _ in range(request.lengths[spec.name])] if spec.is_sequence else make(spec)
        for spec in inputs
    }
    return arrays, guessed, ranges


def _check_lengths(inputs: Sequence[TensorSpec], request: Inputs) -> None:
    sequences = [spec.name for spec in inputs if spec.is_sequence]
    for name in request.lengths:
        if name not in sequences:
            note = f"it has {', '.join(sequences)}" if sequences else "it has none"
            raise BadInput(f"--sequence-tensors {name}: the model has no such input that is a sequence; {note}")
    missing = [name for name in sequences if name not in request.lengths]
    if missing and request.path is None:
        options = " ".join(f"--sequence-tensors {name}=N" for name in missing)
        raise BadInput(
            f"{', '.join(map(repr, missing))}: a sequence has any number of tensors; say how many: {options}"
        )


def default_range(spec: TensorSpec, index_size: int | None) -> tuple[float, float]:
    """The range of random values for an input, inclusive for integers."""
    dtype = spec.dtype
    if dtype.kind == "b" or spec.is_packed:
        return _integer_limits(spec)
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
    """A random array of `spec.dtype` (strings are short texts, whatever the range), of large float32 and float64 without a temporary copy.
    Raises `BadInput`: the range does not fit the dtype."""
    dtype, (low, high) = spec.dtype, bounds
    if dtype.kind == "O":
        texts = [f"s{number}" for number in generator.integers(0, 10, math.prod(shape))]
        return np.array(texts, dtype=object).reshape(shape)
    refusal = f"--range {spec.name}:{low:g},{high:g} does not fit {dtype}"
    if dtype.kind in "biu" or spec.is_packed:
        least, most = _integer_limits(spec)
        if not (low == int(low) and high == int(high) and least <= low and high <= most):
            raise BadInput(refusal)
        drawn = np.uint8 if dtype.kind == "b" else np.int8 if spec.is_packed else dtype
        return generator.integers(int(low), int(high), shape, dtype=drawn, endpoint=True).astype(dtype, copy=False)
    if max(abs(low), abs(high), high - low) > _largest_float(dtype):
        raise BadInput(refusal)
    working = dtype if dtype in (np.float32, np.float64) else np.dtype(np.float32)
    array = np.empty(shape, dtype=working)
    generator.random(dtype=working, out=array)
    if bounds != (0.0, 1.0):
        array *= working.type(high - low)
        array += working.type(low)
    return array if working == dtype else array.astype(dtype)


def _integer_limits(spec: TensorSpec) -> tuple[int, int]:
    """The least and the largest value of a dtype of integers or bools, also of those that numpy has not."""
    if spec.dtype.kind == "b":
        return (0, 1)
    if spec.is_packed:
        return (-8, 7) if spec.element == "int4" else (0, 15)
    info = np.iinfo(spec.dtype)
    return (int(info.min), int(info.max))


def _largest_float(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a floating-point dtype, also of those that numpy has not."""
    if dtype in (np.float16, np.float32, np.float64):
        return float(np.finfo(dtype).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]


def sets_of(request: Inputs) -> list[Path]:
    """The sets of inputs that were given, of which the first is measured; none where they are synthetic."""
    if request.path is None:
        return []
    path = Path(request.path)
    return input_sets(path) or [path]


def load_expected(request: Inputs, outputs: Sequence[TensorSpec], number: int = 0) -> dict[str, Value] | None:
    """The outputs to hold a set of inputs against: of ``--expect``, or those beside the inputs of an ONNX test set, or of one of several
    sets."""
    sets = sets_of(request)
    if request.expect is not None:
        if sets[1:]:
            raise BadInput(f"--expect: --input {request.path} has {len(sets)} sets, whose outputs are beside each")
        return load_arrays(Path(request.expect), outputs, "output")
    path = expected_outputs(sets[number]) if sets and (sets[1:] or sets[0].is_dir()) else None
    return None if path is None else load_arrays(path, outputs, "output")


Header = tuple[tuple[int, ...], np.dtype[Any]]  # shape and dtype of an array


def load_arrays(path: Path, wanted: Sequence[TensorSpec], kind: str) -> dict[str, Value]:
    """Arrays by name from an .npz file (keys are names) or a folder of ``input_0.pb`` or ``.npy`` … in the model's order; `kind` is
    ``input`` or ``output``. Raises `BadInput`: it cannot be read, or names, dtypes or shapes are not the model's."""
    if kind == "output":  # of which a model may give others than it declares
        wanted = [spec._replace(shape=()) for spec in wanted]
    arrays = _load_folder(path, wanted, kind) if path.is_dir() else _load_npz(path, wanted, kind)
    return {spec.name: _fit_value(spec, arrays[spec.name], str(path)) for spec in wanted}


def load_some_arrays(path: Path, wanted: Sequence[TensorSpec]) -> dict[str, Value]:
    """The same of a model's inputs, of which an .npz file need not have all. Raises `BadInput`: as in `load_arrays`."""
    if path.is_dir():
        return load_arrays(path, wanted, "input")
    known = {spec.name: spec for spec in wanted}
    arrays = _load_keys(path, known, f"the model's inputs are {', '.join(known)}")
    return {name: _fit_value(known[name], array, str(path)) for name, array in arrays.items()}


def load_outputs(path: Path, known: Collection[str], keys: str, owner: str) -> dict[str, Array]:
    """Expected outputs of steps or stages from an .npz file, by ``<owner>/<name>``; it need not have all, and may have ``<owner>/in/<name>``
    beside. `keys` says what they are in words, `owner` is a pattern. Raises `BadInput`: it cannot be read, has none of them, or others."""
    arrays = _load_keys(path, [*known], keys, ignored=re.compile(f"{owner}/in/.*"))
    if not arrays:
        raise BadInput(f"{path} holds no outputs; {keys}")
    return arrays


def _load_keys(
    path: Path, known: Collection[str], reason: str, ignored: re.Pattern[str] | None = None
) -> dict[str, Array]:
    with _open_npz(path, "an .npz") as archive:
        names = [name for name in archive.headers if ignored is None or not ignored.fullmatch(name)]
        extra = [name for name in names if name not in known]
        if extra:
            raise BadInput(f"{path} has {extra[0]!r}, which is not known: {reason}")
        specs = known if isinstance(known, Mapping) else {}
        return {name: archive.read(name, specs.get(name)) for name in names}


class _Archive:
    """An .npz file that is open: a few kilobytes of it can say that gigabytes follow, so its headers are read first."""

    def __init__(self, path: Path, arrays: Any) -> None:
        self._path = path
        self._arrays = arrays
        self.headers = {name: self._header(name) for name in arrays.files}

    def _header(self, name: str) -> Header:
        member = next(it for it in (f"{name}.npy", name) if it in self._arrays.zip.namelist())
        with self._arrays.zip.open(member) as file:
            try:
                if not member.endswith(".npy"):
                    raise ValueError
                return _read_header(file)
            except ValueError:
                message = f"{self._path} is not an .npz file of plain arrays: {member} is no .npy file, or is pickled"
                raise BadInput(message) from None

    def read(self, name: str, spec: TensorSpec | None) -> Array:
        if spec is not None and spec.is_tensor:
            _check_fit(spec, *self.headers[name], str(self._path))
        array: Array = self._arrays[name]
        return array


def _read_header(file: IO[bytes]) -> Header:
    """The shape and dtype of a .npy file; `ValueError`: it is none, or holds objects."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError
    return shape, dtype


@contextmanager
def _open_npz(path: Path, wanted: str) -> Iterator[_Archive]:
    """An .npz file that is open inside the block. Raises `BadInput`: it cannot be read, or is none."""
    import zipfile  # seldom needed, and every worker would wait for them
    import zlib

    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise BadInput(f"{path} holds one array: write {wanted}")
            yield _Archive(path, archive)
    except OSError as error:
        raise BadInput(f"{path} cannot be read: {one_line(error.strerror or error)}") from None
    except MemoryError:
        raise BadInput(f"{path} does not fit the memory") from None
    except (ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile, zlib.error):
        raise BadInput(f"{path} is not an .npz file of plain arrays") from None  # damaged, encrypted, or pickled


def _load_npz(path: Path, wanted: Sequence[TensorSpec], kind: str) -> dict[str, Value]:
    for spec in wanted:
        if not spec.is_tensor:
            raise BadInput(f"{path}: {spec.name} is {spec.type}, which no .npz holds: take a folder of {kind}_0.pb …")
    names = [spec.name for spec in wanted]
    with _open_npz(path, f"an .npz whose keys are the {kind} names") as archive:
        missing = [name for name in names if name not in archive.headers]
        extra = [name for name in archive.headers if name not in names]
        if missing or extra:
            parts = [f"misses {', '.join(missing)}"] if missing else []
            parts += [f"has {', '.join(extra)} that the model has not"] if extra else []
            raise BadInput(f"{path} {' and '.join(parts)}; the model's {kind}s are {', '.join(names)}")
        return {spec.name: archive.read(spec.name, spec) for spec in wanted}


def _load_folder(path: Path, wanted: Sequence[TensorSpec], kind: str) -> dict[str, Value]:
    files = [_file_path(path, kind, index) for index in range(len(wanted))]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise BadInput(f"{path} has no {', '.join(missing)}; the model has {len(wanted)} {kind}(s)")
    if (path / f"{kind}_{len(wanted)}.pb").exists():
        raise BadInput(f"{path} has one file too many, {kind}_{len(wanted)}.pb; the model has {len(wanted)} {kind}(s)")
    arrays = {}
    for spec, file in zip(wanted, files, strict=True):
        try:
            if file.suffix == ".npy":
                with file.open("rb") as opened:
                    _check_fit(spec, *_read_header(opened), str(path))
            arrays[spec.name] = _read(spec, file)
        except BadInput:
            raise
        except ImportError:
            raise BadInput(f"{file} is read with {NO_ONNX}; what it reads is an .npz") from None
        except Exception as error:  # protobuf and onnx raise many kinds for a file that is something else
            what = "a tensor" if spec.is_tensor else spec.type
            raise BadInput(f"{file} is not {what} in ONNX format: {one_line(error)}") from None
    return arrays


def _file_path(folder: Path, kind: str, index: int) -> Path:
    array = folder / f"{kind}_{index}.npy"
    return array if array.is_file() else array.with_suffix(".pb")


def save_arrays(path: Path, specs: Sequence[TensorSpec], values: Sequence[Value], kind: str) -> bool:
    """Write values as `load_arrays` reads them from a folder, tensors as numpy has them, which needs no other package."""
    for index, (spec, value) in enumerate(zip(specs, values, strict=True)):
        file = path / f"{kind}_{index}.npy"
        if spec.is_tensor:
            np.save(file, value.astype(np.str_) if spec.is_string else value, allow_pickle=False)
        elif not _save_proto(file.with_suffix(".pb"), spec, value):
            return False
    return True


def load_saved_arrays(path: Path, specs: Sequence[TensorSpec], kind: str) -> list[Value]:
    """What `save_arrays` wrote, by another worker perhaps: of the dtypes and shapes that it has. Raises `BadInput`: it is of another number."""
    files = [_file_path(path, kind, index) for index in range(len(specs))]
    if len(files) != len(list(path.glob(f"{kind}_*"))) or not all(file.is_file() for file in files):
        raise BadInput(f"{len(files)} {kind}(s) are not as many as there are to compare with")
    return [_restore_dtype(spec, _read(spec, file)) for spec, file in zip(specs, files, strict=True)]


def _restore_dtype(spec: TensorSpec, value: Value) -> Value:
    if isinstance(value, list):
        return [_restore_dtype(spec, array) for array in value]
    if value is not None and value.dtype.kind == "V" and value.dtype.itemsize == spec.dtype.itemsize:
        return value.view(spec.dtype)  # how numpy stores dtypes that it has not
    return value.astype(object) if value is not None and value.dtype.kind == "U" else value


def _read(spec: TensorSpec, file: Path) -> Value:
    if file.suffix == ".npy":
        return np.load(file, allow_pickle=False)
    import onnx  # the reader of its own test sets
    from onnx import numpy_helper

    content = file.read_bytes()
    if spec.is_optional:
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    if spec.is_sequence:
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def _save_proto(file: Path, spec: TensorSpec, value: Value) -> bool:
    try:
        from google.protobuf.message import EncodeError
        from onnx import numpy_helper
    except ImportError:
        return False
    try:
        content = numpy_helper.from_optional(value) if spec.is_optional else numpy_helper.from_list(value)
        file.write_bytes(content.SerializeToString())
    except (ValueError, EncodeError):
        return False
    return True


def _fit_value(spec: TensorSpec, value: Value, source: str) -> Value:
    if value is None and spec.is_optional:
        return None
    if spec.is_sequence:
        free = spec._replace(shape=())  # ORT holds the tensors of a sequence to no shape, whatever the model states
        return [_fit(free, array, source) for array in value]
    return _fit(spec, value, source)


def _fit(spec: TensorSpec, array: Array, source: str) -> Array:
    _check_fit(spec, array.shape, array.dtype, source)
    if spec.element == "string" and array.dtype.kind in "USO":
        return array.astype(object)
    if _is_stored_as(spec, array.dtype):
        array = array.view(spec.dtype)
    return np.asarray(array, order="C")


def _check_fit(spec: TensorSpec, shape: Sequence[int], dtype: np.dtype[Any], source: str) -> None:
    if spec.element == "string" and dtype.kind in "USO":
        return
    if dtype != spec.dtype and not _is_stored_as(spec, dtype):
        raise BadInput(f"{source}: {spec.name} is {dtype}, the model wants {spec.dtype}")
    spec.check_fit(shape, source)


def _is_stored_as(spec: TensorSpec, dtype: np.dtype[Any]) -> bool:
    """Whether that is how numpy stores a dtype that it has not."""
    return dtype.kind == "V" and not spec.is_native and dtype.itemsize == spec.dtype.itemsize
