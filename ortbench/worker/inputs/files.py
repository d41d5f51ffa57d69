"""Arrays in files: .npz, and folders as ONNX's test sets have them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ortbench.core.errors import BadInput, one_line
from ortbench.worker.session.tensors import NO_ONNX, Array, TensorSpec, Value

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
