"""From what a call in Python gives to the values of options, with files for what is in memory, and to the command that does the same."""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from numbers import Integral, Real
from pathlib import Path
from types import TracebackType
from typing import Any

from ortbench.core.errors import BadInput, OrtbenchError, one_line
from ortbench.core.files import temporary_folder
from ortbench.core.safe_text import plain_name
from ortbench.model.settings import words_of
from ortbench.plan import options as declared
from ortbench.plan.baseline import settable, setting
from ortbench.plan.option_types import FLAG, MODE_NAMES
from ortbench.plan.options import BASELINE, Option, RawOptions, collect_values


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

    def _new_file(self, name: str) -> Path:
        """A new file's path, in a folder of its own, so that two may have one name."""
        if self._folder is None:
            self._folder = self._stack.enter_context(temporary_folder())
        path = Path(tempfile.mkdtemp(dir=self._folder)) / name
        self.called[str(path)] = name
        return path

    def display(self, value: Any) -> Any:
        """A value of an option with what its files are called, alone or in a list."""
        if isinstance(value, list):
            return [self.display(it) for it in value]
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
        path = self._new_file(f"{name}.onnx")
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
            self._arrays(item, f"{option}-{number}", f"{option}[{number - 1}]") if isinstance(item, Mapping) else item
            for number, item in enumerate(value, 1)
        ]

    def _arrays(self, value: Mapping[str, Any], name: str, said: str) -> str:
        """The path of a file of that name with arrays; `said` is what messages call them."""
        import numpy as np

        path = self._new_file(f"{name}.npz")
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


def parameter(option: Option) -> str:
    return f"{option.parameter}s" if option.kind is MODE_NAMES else option.parameter


def options_for(command: str) -> dict[str, Option]:
    """The options of a call, by their names in Python: those of the command, which take one value for one result."""
    return {
        parameter(option): option.for_command(command, one_result=True)
        for option in declared.options_for(command)
        if option.rules.is_in_python
    }


def lend_files(options: Mapping[str, Option], values: Mapping[str, Any], lent: Lent) -> dict[str, Any]:
    """The values of a call by names in Python, with paths in place of the models and arrays that it was given."""
    found = {name: lent.file(values.get(name), it.kind.python, name) for name, it in options.items()}
    for name, option in options.items():
        if option.kind.of_options and isinstance(own := found[name], Mapping):
            found[name] = {
                key: lent.file(item, known.kind.python, f"{name}[{key!r}]")
                if (known := settable().get(str(key).replace("_", "-")))
                else item
                for key, item in own.items()
            }
    return found


def given_of(options: Mapping[str, Option], values: Mapping[str, Any]) -> tuple[RawOptions, Mapping[str, Any]]:
    """The options of a call: their values, and the words that a command line would have for them, from values by their names in
    Python; None, and False of what is off by default, is what was not given. `BadInput`: a value of another kind."""
    found, words = [], {}
    for name, option in options.items():
        value = values.get(name)
        if value is None or (value is False and option.kind is FLAG):
            continue
        try:
            words[option.flag], read = _read(option, _plain(value))
            found.append((option, read))
        except BadInput as error:
            text = str(error) if error.option == option.name else f"{option.name}: {error}"
            raise in_python(BadInput(text, option.name), options) from None
    return collect_values(found), words


def _read(option: Option, value: Any) -> tuple[Any, Any]:
    kind = option.kind
    if kind.of_options:
        return _baseline(option, value)
    if kind.entries is None:
        words = kind.data(value, option.name)
        return words, option.read(words)
    if not isinstance(value, Mapping):
        raise BadInput(f"must be a mapping, such as {kind.example.replace(' = ', ': ')}")
    texts = {str(name): option.text_of_entry(name, item) for name, item in value.items()}
    # An empty one leaves a baseline none, as an empty option does on the command line.
    words = [option.word(name, text) for name, text in texts.items()] or [""] * (option.texts.panel == BASELINE)
    return words, {name: option.entry(name, text) for name, text in texts.items()}


def _baseline(option: Option, value: Any) -> tuple[list[str], Any]:
    """The words of ``--baseline-set``, and what they say, from the options of a baseline by their names in Python."""
    if not isinstance(value, Mapping):
        raise BadInput('must be a mapping, such as {"intra_op_threads": 1}')
    words: list[str] = []
    found = {}
    for name, item in value.items():
        if item is None:
            continue
        try:
            known = setting(str(name).replace("_", "-"), option.name)
        except BadInput as error:
            raise BadInput(f"{option.name} {error.bare.replace('--', '').replace('-', '_')}", option.name) from None
        try:
            said, found[known.flag] = _read(known, item)
        except BadInput as error:
            raise BadInput(
                str(error) if error.option == known.name else f"{known.name}: {error}", option.name
            ) from None
        key = known.flag.removeprefix(f"{option.flag}.")
        words += [f"{key}={word}" for word in (said if isinstance(said, list) else [said])]
    return words, found


def _plain(value: Any) -> Any:
    """A value as TOML would have it: paths as texts, tuples as lists, numbers of NumPy as Python's."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, Sequence) else value


def in_python(error: BadInput, options: Mapping[str, Option]) -> BadInput:
    """An error that begins with the name of an option, with what Python calls it; a worker's has no field for that name."""
    about = (error.option or "").partition(" ")[0]
    for name, option in options.items():
        if about in ("", option.name) and re.match(rf"{option.name}(?![\w-])", str(error)):
            rest = str(error).removeprefix(option.name)
            if option.kind.of_options:
                rest = re.sub(r"^ ([a-z_-]+)", lambda key: f'["{key[1].replace("-", "_")}"]', rest)
            return BadInput(f"{name}{rest}", option.name)
    return error


def command_line(command: str, positional: Sequence[str], typed: Mapping[str, Any]) -> tuple[str, ...]:
    """The command that does the same, quoted for a shell: what a result says it was measured by."""
    words = ["ortbench", command, *positional]
    for flag, value in typed.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words += words_of(flag, one)
    return tuple(map(shlex.quote, words))
