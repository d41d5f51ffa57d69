"""What a loop is asked to do: which outputs are fed back as inputs, for how many steps, and what the other inputs are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.core.expressions import INDEX, names_in
from ortbench.model.unit_of_work import LoopWork, Part, Work
from ortbench.plan.option_types import DIMS, PAIRINGS, PAIRS, TEXTS, WHOLE
from ortbench.plan.options import LOOP, RawOptions, at_least, declared, make, option

LOOPS = ("loop", "gate", "profile", "code")  # the commands that can measure one
_steps = partial(option, panel=LOOP, commands=LOOPS, only_live=True)


def _fill(entries: dict[str, str], option: str) -> None:
    for name, text in entries.items():
        if names_in(text) is None:
            reason = f"{text!r} is neither a number nor a sum of numbers, dimensions, step and {INDEX}"
            raise BadInput(f"{option} {name}={text}: {reason}", option)


@dataclass(frozen=True)
class Steps(Part):
    """A loop.

    Attributes:
        feedback: patterns of an output and the input that takes it in the next step; ``*`` stands for the same text in both.
        count: how many steps there are.
        first_dims: sizes of dimensions in the first step.
        fill: input name → the value of all its elements, an expression of dimensions, ``step`` and ``index``.
        keep: outputs that stay on the device.
        resident: inputs that are uploaded only once.
    """

    feedback: tuple[tuple[str, str], ...] = _steps(
        "feedback", "OUT=IN", "Feed an output to an input of the next step; * matches in both.",
        kind=PAIRINGS, default=(), common=("loop", "code"),
    )  # fmt: skip
    count: int = _steps(
        "steps", "N", "Run N steps in a loop.", kind=WHOLE, default=16, check=at_least(1, "a loop has at least one step"),
        common=("loop", "code"),
    )  # fmt: skip
    first_dims: dict[str, int | str] = _steps(
        "first-dim", "NAME=N", "Set the size of a dimension in the first step, as of a prompt.", kind=DIMS, default={}
    )
    fill: dict[str, str] = _steps(
        "fill", "INPUT=EXPR", f"Fill an input: a number, or a sum of dimensions, step and {INDEX}.", kind=PAIRS, default={},
        check=_fill,
    )  # fmt: skip
    keep: tuple[str, ...] = _steps(
        "keep",
        "OUT",
        "Leave an output on the device until the last step.",
        kind=TEXTS,
        default=(),
        twin=True,
    )
    resident: tuple[str, ...] = _steps(
        "resident",
        "IN",
        "Copy an input to the device only once.",
        kind=TEXTS,
        default=(),
        twin=True,
    )

    @property
    def work(self) -> Work:
        return LoopWork(self.count)

    def request(self, model: str, target: dict[str, Any]) -> dict[str, Any]:
        return {**super().request(model, target), "steps": asdict(self)}


def steps_of(given: RawOptions, needed: bool = False) -> Steps | None:
    """The loop that options describe; None where they describe none.

    Args:
        given: options.
        needed: whether there must be one.

    Raises:
        BadInput: options of a loop without what makes it one.
    """
    if given.get("feedback"):
        return make(Steps, given)
    if needed:
        raise BadInput(
            "--feedback OUT=IN says which output is an input of the next step; 'ortbench inspect MODEL' suggests some",
            "--feedback",
        )
    for it in declared(Steps).values():
        if it.flag in given:
            raise BadInput(f"{it.name} is for a loop: say what is fed back with --feedback OUT=IN", it.name)
    return None


def steps_from(data: Mapping[str, Any]) -> Steps:
    """The inverse of `dataclasses.asdict` for `Steps`, after JSON turned its tuples into lists."""
    feedback = tuple((out, into) for out, into in data["feedback"])
    return Steps(**{**data, "feedback": feedback, "keep": tuple(data["keep"]), "resident": tuple(data["resident"])})
