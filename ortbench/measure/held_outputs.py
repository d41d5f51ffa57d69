"""Whether sides that take the same inputs give the same outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from ortbench.analysis.precision import likely_cause
from ortbench.core.errors import BenchmarkFailed
from ortbench.measure.folder import temporary_folder
from ortbench.measure.side import Side
from ortbench.model.protocol import HeldOutputs, Saved

Awake = Callable[[Side], AbstractContextManager[None]]


def hold_outputs(sides: Sequence[Side], awake: Awake, must_match: bool) -> None:
    """Hold the outputs of sides against each other that take the same inputs.

    The same model must give the same outputs wherever it runs; another model may differ, and then says so.

    Args:
        sides: open.
        awake: only one side works in its block.
        must_match: a side with other outputs ends the run; else only that side's modes fail.

    Raises:
        BenchmarkFailed: outputs of the same model differ, and must not.
    """
    alike: dict[str, list[Side]] = {}
    for side in sides:
        alike.setdefault(side.takes(), []).append(side)
    for first, *others in alike.values():
        if others:
            _hold(first, others, awake, must_match)


def _hold(first: Side, others: Sequence[Side], awake: Awake, must_match: bool) -> None:
    with temporary_folder() as folder:
        with awake(first):
            written: Saved = first.ask("save_outputs", folder=folder)
            if not written["saved"]:
                return
        for side in others:
            with awake(side):
                held: HeldOutputs = side.ask("hold_outputs", folder=folder)
            if held["differs"] is None:
                continue
            eps = list(dict.fromkeys(it.result.target["ep"] for it in (side, first)))
            cause = likely_cause(eps, held["relative"])
            message = f"the outputs of {side.name} are not those of {first.name}: {held['differs']}{cause}"
            if side.result.model["sha256"] != first.result.model["sha256"]:
                side.result.warn("outputs-differ", message)
            elif must_match:
                raise BenchmarkFailed(message)
            else:
                side.reject(message)
