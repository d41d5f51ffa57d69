"""What every call in Python says of itself, its signature and help, and does: one at a time, with its progress told, and nothing lost on its way back."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from inspect import Parameter, Signature, cleandoc, signature
from os import PathLike
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from ortbench.api.values import options_for
from ortbench.core import files, output
from ortbench.core.errors import OrtbenchError
from ortbench.plan.option_types import CLOCK, FLAG, ITEMS, PAIRINGS, PRECISION, SHARE, SIZE
from ortbench.plan.options import Option
from ortbench.plan.plan import Observer

if TYPE_CHECKING:
    import onnx
    from numpy.typing import ArrayLike


# Measurements of several threads would be in each other's figures. A call from inside a callback would wait for itself.
_turn = threading.RLock()


class Progress(NamedTuple):
    """How far a call is, as its callback is told.

    Attributes:
        stage: what is being done, in words.
        left_s: how long it will still take, about, seconds; None while that is not known.
    """

    stage: str = ""
    left_s: float | None = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a call; its workers have ended, and nothing of it runs any more.

    Attributes:
        results: what was measured until then, as the call would have given it; empty where nothing was, and of a gate, of
            which only the files in `out` are left.
    """

    def __init__(self, results: Sequence[Any] = ()) -> None:
        super().__init__("interrupted")
        self.results = list(results)


class NotSaved(OrtbenchError):
    """It was measured, and what was to be written to `out` could not be.

    Attributes:
        result: what the call would have given.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        super().__init__(message)
        self.result = result


class _Told(Observer):
    def __init__(self, tell: Callable[[Progress], object]) -> None:
        self._tell = tell
        self._so_far = Progress()

    def _now(self, **changed: Any) -> None:
        self._so_far = self._so_far._replace(**changed)
        self._tell(self._so_far)

    def stage(self, text: str) -> None:
        self._now(stage=text)

    def show_time_left(self, seconds: float) -> None:
        self._now(left_s=seconds)


@contextmanager
def measuring(tell: Callable[[Progress], object] | None) -> Iterator[Observer]:
    """The block measures: no other one of this process does meanwhile, and its observer calls back."""
    with _turn, files.noting_apart():
        output.begin()
        yield Observer() if tell is None else _Told(tell)


def check_saved(result: Any) -> None:
    """Raise `NotSaved` where not all files of a result were written, which is to be asked inside `measuring`."""
    if lines := files.not_written():
        raise NotSaved("; ".join(lines), result)


AnyPath: TypeAlias = str | PathLike[str]  # a path
Texts: TypeAlias = str | Sequence[str]  # one, or several
Model: TypeAlias = "str | PathLike[str] | bytes | onnx.ModelProto"
Arrays: TypeAlias = "Mapping[str, ArrayLike]"  # by the names of inputs or outputs
Tell: TypeAlias = Callable[[Progress], object]


# Signature and help, from where options are declared


F = TypeVar("F", bound=Callable[..., Any])
_WIDTH = 112  # of the lines of a docstring, as `inspect.getdoc` gives them
_WORTH_AN_EXAMPLE = (PAIRINGS, SHARE, PRECISION, SIZE, CLOCK, ITEMS)
_MODEL = "the path of an .onnx or .ort file, the file's bytes, or an `onnx.ModelProto`."
_RAISES = "\n\nRaises:\n    BadInput, BenchmarkFailed, NotSaved, Interrupted: as their own docstrings say."
_PROGRESS = "called with a `Progress` now and then, from this thread; what it raises ends the call."


def type_of(option: Option) -> str:
    """The type of an option's values in Python, in the names of `ortbench.api.calls`; None leaves the default."""
    if option.lists is not None:
        return f"Mapping[str, {option.lists.python}] | None"
    return option.kind.python if option.kind is FLAG else f"{option.kind.python} | None"


def with_options(function: F) -> F:
    """Have a function say the options of the command of its name one by one, and refuse others.

    Its docstring need not say what a model is, nor what every call that measures raises.
    """
    name, own = function.__name__, signature(function)
    options = options_for(name)
    types = {it: type_of(option) for it, option in options.items()}
    before = [it for it in own.parameters.values() if it.kind is Parameter.POSITIONAL_OR_KEYWORD]
    after = [it for it in own.parameters.values() if it.kind is Parameter.KEYWORD_ONLY]
    taken = [
        Parameter(name_, Parameter.KEYWORD_ONLY, default=False if kind == "bool" else None, annotation=kind)
        for name_, kind in types.items()
    ]
    whole = Signature([*before, *taken, *after], return_annotation=own.return_annotation)

    @wraps(function)
    def call(*positional: Any, **named: Any) -> Any:
        for option in named:
            if option not in whole.parameters:
                raise TypeError(f"{name}() got an unexpected keyword argument {option!r}")
        return function(*positional, **named)

    call.__signature__ = whole  # type: ignore[attr-defined]
    head, heading, tail = cleandoc(function.__doc__ or "").partition("\n\nReturns:")
    texts = {"model": _MODEL} if "model" in own.parameters else {}
    texts |= {it: _describe_option(types[it], option, options) for it, option in options.items()}
    texts |= {"progress": _PROGRESS} if after else {}
    arguments = [] if "\n\nArgs:" in head else ["\nArgs:"]
    call.__doc__ = "\n".join([head, *arguments, *(line for entry in texts.items() for line in _format_entry(*entry))])
    call.__doc__ += heading + tail + ("" if "\n\nRaises:" in tail else _RAISES)
    return call  # type: ignore[return-value]


def _describe_option(type_: str, option: Option, options: Mapping[str, Option]) -> str:
    text = option.texts.help
    if "Arrays" in type_:
        text += " Or arrays by name."
    if "Model" in type_:
        text += " Or its bytes, or an `onnx.ModelProto`."
    if option.kind.entries is not None or option.kind in _WORTH_AN_EXAMPLE:
        example = re.sub(r"(\w+) = ", r'"\1": ', option.kind.example)
        text += f" As {example}."
    if option.lists is not None:
        text += f" Several are shapes of their own: {option.lists.in_python}."
    if option.kind.entries is not None:
        text = text.replace("''", "{}")  # what leaves a baseline none
    default = "" if option.default_text is None else f" Default: {option.default_text}."
    names = {it.name: name for name, it in options.items()}
    return re.sub(
        r"--[a-z][a-z-]*[a-z]", lambda found: f"`{names[found[0]]}`" if found[0] in names else found[0], text + default
    )


def _format_entry(name: str, text: str) -> Iterator[str]:
    lines = wrap(f"{name}: {text}", _WIDTH - 4, break_long_words=False, break_on_hyphens=False)
    yield f"    {lines[0]}"
    yield from (f"        {line}" for line in lines[1:])
