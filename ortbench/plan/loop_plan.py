"""What a loop is asked to do: which outputs are fed back as inputs, for how many steps, and what the other inputs are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.core.expressions import INDEX, names_in
from ortbench.core.parts import made
from ortbench.model.modes import LOOP_MODES
from ortbench.model.unit_of_work import LoopWork, Part, Work
from ortbench.plan.list_syntax import WHOLES
from ortbench.plan.option_types import DIMS, PAIRINGS, PAIRS, PATH, TEXTS, WHOLE
from ortbench.plan.options import LOOP, RawOptions, at_least, build, declared, exists, option

LOOPS = ("loops",)  # the commands that can measure one
_MOST_STEPS, _MOST_TOKENS = 1_000_000, 100_000_000  # each step has samples of its own
_steps = partial(option, panel=LOOP, commands=LOOPS, is_live_only=True)


def _fill(entries: dict[str, str], option: str) -> None:
    for name, text in entries.items():
        if names_in(text) is None:
            reason = f"{text!r} is neither a number nor a sum of numbers, dimensions, step and {INDEX}"
            raise BadInput(f"{option} {name}={text}: {reason}", option)


_generating = partial(_steps, commands=LOOPS, common=("loop",), is_in_suites=False)


@dataclass(frozen=True)
class Decoder:
    """What is known of a model that generates before it is loaded; its own names say the rest."""

    said_by: str = ""  # the file that says so; "" for none
    feedback: tuple[tuple[str, str], ...] = ()  # as of `Steps`, where the file has some
    names: dict[str, str] = field(default_factory=dict)  # of its inputs and of its logits, by what they are
    context: int | None = None  # how many tokens it can hold
    shared: bool = False  # its cache has a fixed length, so that past and present can be one buffer
    heads: int | None = None  # of its keys and values
    head_size: int | None = None
    # the EPs that it asks for, as `Target.ep` names them, with their options
    providers: tuple[tuple[str, dict[str, str]], ...] = ()


@dataclass(frozen=True)
class Steps(Part):
    """A loop; `decoder` is what is known of a model that generates, None of a loop that generates nothing. Its first step takes the
    prompt, and each gives a token."""

    feedback: tuple[tuple[str, str], ...] = _steps(
        "feedback", "OUT=IN", "Feed an output to an input of the next step; * matches in both.",
        kind=PAIRINGS, default=(), common=("loop",),
    )  # fmt: skip
    count: int = _steps(
        "steps", "N", "Run N steps in a loop.", kind=WHOLE, default=16, check=at_least(1, "a loop has at least one step"), most=_MOST_STEPS,
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
        is_in_baselines=True,
    )
    resident: tuple[str, ...] = _steps(
        "resident", "IN", "Copy an input to the device only once.", kind=TEXTS, default=(), is_in_baselines=True
    )

    prompt_length: int | None = _generating(
        "prompt-length", "N", "Set the prompt's length in tokens.", kind=WHOLE, shown="512, or all of --tokens",
        check=at_least(1, "a prompt has at least one token"), most=_MOST_TOKENS, lists=WHOLES._replace(example="64,512"),
    )  # fmt: skip
    generate: int = _generating(
        "generate", "N", "Generate N tokens after the prompt.", kind=WHOLE, default=64,
        check=at_least(2, "at least two tokens, so that one is generated from the cache"), most=_MOST_STEPS,
        lists=WHOLES._replace(example="64,256"),
    )  # fmt: skip
    context: int = _generating(
        "context", "N", "Fill the cache with N tokens before the prompt.", kind=WHOLE, default=0,
        check=at_least(0, "a cache holds no fewer than 0 tokens"), most=_MOST_TOKENS, lists=WHOLES._replace(example="0,2048"), common=(),
    )  # fmt: skip
    tokens: str | None = _generating(
        "tokens",
        "PATH",
        "Read token ids (.npy, .npz, .json): --context, the prompt, then forced tokens.",
        kind=PATH,
        check=exists,
        common=(),
    )
    decoder: Decoder | None = None

    known_modes = LOOP_MODES
    opened_by = "open_loop"

    @property
    def work(self) -> Work:
        return LoopWork(self.count, tokens=self.decoder is not None)

    def request(self, model: str, target: dict[str, Any]) -> dict[str, Any]:
        return {**super().request(model, target), "steps": asdict(self)}


GENERATION = ("prompt-length", "generate", "context", "tokens")  # the options of a loop that generates
_ELSE = ("steps", "first-dim")  # those of one that does not


def steps_of(given: RawOptions, decoder: Decoder | None = None) -> Steps | None:
    """The loop that options describe, or that of a model that generates; None where there is none. `BadInput`: options of a loop
    without what makes it one."""
    if decoder is not None and (not given.get("feedback") or any(it in given for it in GENERATION)):
        for flag in _ELSE:
            if flag in given:
                instead = "give --feedback OUT=IN too; a model that generates takes --generate and --prompt-length"
                raise BadInput(f"--{flag}: {instead}", f"--{flag}")
        return build(Steps, given, decoder=decoder, count=given.get("generate", declared(Steps)["generate"].default))
    if given.get("feedback"):
        return build(Steps, given)
    for it in declared(Steps).values():
        if it.flag in given:
            raise BadInput(f"{it.name} is for a loop: say what is fed back with --feedback OUT=IN", it.name)
    return None


steps_from: Callable[[dict[str, Any]], Steps] = partial(made, Steps)
