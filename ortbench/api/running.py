"""What every call that measures does: one at a time, with its progress told, and nothing lost on its way back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ortbench.core import files, printed
from ortbench.core.errors import OrtbenchError
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

    def left(self, seconds: float) -> None:
        self._now(left_s=seconds)


@contextmanager
def measuring(tell: Callable[[Progress], object] | None) -> Iterator[Observer]:
    """The block measures: no other one of this process does meanwhile, and its observer calls back."""
    with _turn, files.noting_apart():
        printed.begin()
        yield Observer() if tell is None else _Told(tell)


def saved(result: Any) -> None:
    """Raise `NotSaved` where not all files of a result were written, which is to be asked inside `measuring`."""
    if lines := files.not_written():
        raise NotSaved("; ".join(lines), result)


Place: TypeAlias = str | PathLike[str]  # a path
Texts: TypeAlias = str | Sequence[str]  # one, or several
Model: TypeAlias = "str | PathLike[str] | bytes | onnx.ModelProto"
Arrays: TypeAlias = "Mapping[str, ArrayLike]"  # by the names of inputs or outputs
Tell: TypeAlias = Callable[[Progress], object]
