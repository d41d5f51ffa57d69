"""Copies of models with freed dimensions: made by ortbench's own worker, as only its environment is sure to have the package
onnx, and verified by one of the interpreter that is measured, on its EP.

Both come before the worker that measures, so that nothing of them enters a figure. A copy is there as long as this process,
for all workers that open it.
"""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.analysis.freed import CODE, problem, sentence
from ortbench.core.errors import BadInput, BenchmarkFailed, one_line

if TYPE_CHECKING:
    from ortbench.model.protocol import FreedCopy, Opened
    from ortbench.model.result import Result
    from ortbench.model.schema import Freed
    from ortbench.plan.target import Target

Ask = Callable[..., Any]  # a fresh worker: of an interpreter or None, what it is asked, and the arguments


class Copy(NamedTuple):
    """A copy's file, and what was freed in it."""

    path: str
    freed: Freed


_copies: dict[tuple[object, ...], Copy] = {}


def copy_of(model: str, target: Target, inputs: dict[str, Any], ask: Ask) -> Copy:
    """The copy of a model that a target asks for, verified with random inputs of such a request.

    Raises:
        BadInput: a dimension cannot be freed, or the copy is not the model.
    """
    key = _key(model, target)
    if key not in _copies:
        made: FreedCopy = ask(None, "free_dims", model=model, dims=dict(target.free_dims), folder=_folder())
        copy = Copy(made["path"], made["freed"])
        ask(
            target.python,
            "prove_freed",
            model=model,
            copy=copy.path,
            freed=copy.freed,
            inputs=inputs,
            target=asdict(target),
        )
        _copies[key] = copy
    return _copies[key]


def say(result: Result, model: str, target: Target, opened: Opened) -> None:
    """Have a result say that it is of a copy, whose outputs follow what was freed; else `BadInput`."""
    freed = _copies[_key(model, target)].freed
    wrong = problem(freed, opened["inputs"], opened["outputs"])
    if wrong is not None:
        raise BadInput(f"--free-dim: the copy does not do what it states: {wrong}", "--free-dim")
    result.model["freed"] = freed
    result.warn(CODE, sentence(freed))


def _key(model: str, target: Target) -> tuple[object, ...]:
    there = Path(model).stat()
    return str(Path(model).resolve()), there.st_mtime_ns, there.st_size, repr(target)


def _folder() -> str:
    try:
        folder = tempfile.TemporaryDirectory(prefix="ortbench-", ignore_cleanup_errors=True)
    except OSError as error:
        raise BenchmarkFailed(f"no temporary folder can be made: {one_line(error)}") from None
    atexit.register(folder.cleanup)
    return folder.name
