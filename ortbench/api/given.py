"""From what a call in Python gives to the values of options, and to the command that does the same. Pure."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from ortbench.api.memory_inputs import Lent
from ortbench.core.errors import BadInput
from ortbench.model.settings import words_of
from ortbench.plan import options as declared
from ortbench.plan.baseline import settable, setting
from ortbench.plan.option_types import FLAG, MODE_NAMES
from ortbench.plan.options import BASELINE, Option, RawOptions, collect_values


def parameter(option: Option) -> str:
    """What Python calls an option."""
    return f"{option.parameter}s" if option.kind is MODE_NAMES else option.parameter


def options_for(command: str) -> dict[str, Option]:
    """The options of a call, by their names in Python: those of the command, which take one value for one result."""
    return {
        parameter(it): it.for_command(command, one_result=True)
        for it in declared.options_for(command)
        if it.rules.is_in_python
    }


def lend_files(options: Mapping[str, Option], values: Mapping[str, Any], lent: Lent) -> dict[str, Any]:
    """The values of a call by names in Python, with paths in place of the models and arrays that it was given."""
    found = {name: lent.file(values.get(name), it.kind.python, name) for name, it in options.items()}
    for name, it in options.items():
        if it.kind.of_options and isinstance(own := found[name], Mapping):
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
    for name, it in options.items():
        value = values.get(name)
        if value is None or (value is False and it.kind is FLAG):
            continue
        try:
            words[it.flag], read = _read(it, _plain(value))
            found.append((it, read))
        except BadInput as error:
            text = str(error) if error.option == it.name else f"{it.name}: {error}"
            raise in_python(BadInput(text, it.name), options) from None
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
    words = [option.word(name, text) for name, text in texts.items()] or [""] * (option.panel == BASELINE)
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
            it = setting(str(name).replace("_", "-"), option.name)
        except BadInput as error:
            raise BadInput(f"{option.name} {error.bare.replace('--', '').replace('-', '_')}", option.name) from None
        try:
            said, found[it.flag] = _read(it, item)
        except BadInput as error:
            raise BadInput(str(error) if error.option == it.name else f"{it.name}: {error}", option.name) from None
        key = it.flag.removeprefix(f"{option.flag}.")
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
    for name, it in options.items():
        if about in ("", it.name) and re.match(rf"{it.name}(?![\w-])", str(error)):
            rest = str(error).removeprefix(it.name)
            if it.kind.of_options:
                rest = re.sub(r"^ ([a-z_-]+)", lambda key: f'["{key[1].replace("-", "_")}"]', rest)
            return BadInput(f"{name}{rest}", it.name)
    return error


def command_line(command: str, positional: Sequence[str], typed: Mapping[str, Any]) -> tuple[str, ...]:
    """The command that does the same, quoted for a shell: what a result says it was measured by."""
    words = ["ortbench", command, *positional]
    for flag, value in typed.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words += words_of(flag, one)
    return tuple(map(shlex.quote, words))
