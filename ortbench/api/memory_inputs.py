"""What is in memory, as files that a worker can read: in a folder that is there for as long as a call lasts."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from ortbench.core.errors import BadInput, OrtbenchError, one_line
from ortbench.core.files import temporary_folder
from ortbench.core.safe_text import plain_name


class Lent:
    """Files for models and arrays that a call was given as such; a context manager, at whose end they are gone."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._stack = ExitStack()
        self.called: dict[str, str] = {}  # by the path of a file what results, commands and messages call it

    def __enter__(self) -> Lent:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if self._folder is None:
            return
        if isinstance(error, OrtbenchError):  # where the files were is of no use to anybody
            text = str(error)
            for path, name in self.called.items():
                text = text.replace(path, name)
            error.args = (text, *error.args[1:])
        self._stack.close()

    def _place(self, name: str) -> Path:
        """A new file's path, in a folder of its own, so that two may have one name."""
        if self._folder is None:
            self._folder = self._stack.enter_context(temporary_folder())
        path = Path(tempfile.mkdtemp(dir=self._folder)) / name
        self.called[str(path)] = name
        return path

    def shown(self, value: Any) -> Any:
        """A value of an option with what its files are called, alone or in a list."""
        if isinstance(value, list):
            return [self.shown(it) for it in value]
        return self.called.get(value, value) if isinstance(value, str) else value

    def file(self, value: Any, kind: str, option: str) -> Any:
        """The path of a value where its `kind` in Python takes models or arrays; any other value as it is."""
        if "Arrays" in kind:
            return self.several(value, option) if "Sequence" in kind else self.arrays(value, option)
        return self.model(value, option) if kind == "Model" and value is not None else value

    def model(self, model: Any, option: str) -> str:
        """The path of a model's file, from its path, its bytes, or an `onnx.ModelProto`; `option` is what messages call it. `BadInput`:
        it is none of these, or is too large for protobuf."""
        if isinstance(model, (str, os.PathLike)):
            return os.fspath(model)
        name, content = "model", model
        if hasattr(model, "SerializeToString"):
            name = plain_name(model.graph.name or name).lstrip(".") or name
            try:
                content = model.SerializeToString()
            except Exception as error:  # protobuf's own, for more than 2 GB
                reason = f"cannot be made a file: {one_line(error)}; save it with its data beside it, and give the path"
                raise BadInput(f"{option}: {reason}") from None
        if not isinstance(content, (bytes, bytearray, memoryview)):
            raise BadInput(f"{option}: must be a path, bytes or an onnx.ModelProto, not {type(model).__name__}")
        path = self._place(f"{name}.onnx")
        path.write_bytes(content)
        return str(path)

    def arrays(self, value: Any, option: str) -> Any:
        """The path of an .npz file with arrays by name; anything but a mapping is given back as it is; `BadInput`: it is no array."""
        return self._arrays(value, option, option) if isinstance(value, Mapping) else value

    def several(self, value: Any, option: str) -> Any:
        """The same of a list of these and of paths; anything else is given back as it is."""
        if isinstance(value, Mapping):
            value = [value]
        if not isinstance(value, Sequence) or isinstance(value, str):
            return value
        return [
            self._arrays(it, f"{option}-{number}", f"{option}[{number - 1}]") if isinstance(it, Mapping) else it
            for number, it in enumerate(value, 1)
        ]

    def _arrays(self, value: Mapping[str, Any], name: str, said: str) -> str:
        """The path of a file of that name with arrays; `said` is what messages call them."""
        import numpy as np

        path = self._place(f"{name}.npz")
        with zipfile.ZipFile(path, "w") as file:  # np.savez has names that it takes for its own parameters
            for key, item in value.items():
                try:
                    array = np.asarray(item)
                    array = array.astype(np.str_) if array.dtype == object else array
                    with file.open(f"{key}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
                except (TypeError, ValueError) as error:
                    reason = (
                        f"is no array: {one_line(error)}; an input that is a sequence takes a folder of input_0.pb …"
                    )
                    raise BadInput(f"{said}[{key!r}]: {reason}") from None
        return str(path)
