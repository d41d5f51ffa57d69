"""The kind of loops, and what a result has of one."""

from __future__ import annotations

from typing import Final, NotRequired, TypedDict

from ortbench.model.kinds import ANYWHERE, COSTS, PACED, PACED_COLUMNS, RUN, SPEEDUP, Kind, View, figures, tails
from ortbench.model.modes import LOOP_PHASES, STEP, TOKEN_PHASES, WHOLE_LOOP, WorkOfParts
from ortbench.model.protocol import Finished, Opened
from ortbench.model.settings import Setting

_TOKENS = ("time_to_first_token", "inter_token_latency", "prefill_tokens_per_s", "decode_tokens_per_s")
KIND = Kind(
    "loop", "a loop", "loop",
    (View(
        compared=figures("loop", *_TOKENS, "step", *PACED, *COSTS), several=figures("loop", *_TOKENS, "step", *PACED, *COSTS),
        gated=figures("loop"),
        columns=(
            ("time_to_first_token",), tails("inter_token_latency"), ("prefill_tokens_per_s", "decode_tokens_per_s", "sequence_tokens_per_s"),
            ("next_token",), tails("loop"), SPEEDUP, tails("step"), ("first_step", "last_step", "step_growth"), ("by step",),
            *PACED_COLUMNS,
            ("loop.n", "step_throughput"), ("state/step", "copied/step"),
        ),
        screen=("loop", "p95", "speedup", "step", "paced", "paced p99", "steps/s", "state/step"),
    ),),
    charts=("steps", "distribution", "drift", "bandwidth"),
    checks=ANYWHERE,
    derives_copies=False,
    on_device_needs="the host does not need the state between steps",
    on_host_needs="the host does not need the state between steps, or reads it in place",
    takes="the state readable by the host in each step",
    counts_crossings=True,
    needed=(*RUN.needed, "loop"),
)  # fmt: skip
COPIED_BY_STEPS: Final = ("state_h2d", "state_d2h", "step_h2d", "step_d2h")
SETTINGS = (
    Setting("fill", "values", "fill", {}),
    Setting("keep", "kept on the device", "keep", []),
    Setting("resident", "copied once", "resident", []),
)


class Generation(TypedDict):
    """Of a loop that generates: tokens of its ``prompt``, how many are in the cache before it (``context``; not in older files, for none),
    and how many ``tokens`` come behind it, in each sequence of the ``batch``;
    how many that are fed come from a file (``forced``), and whether the prompt does (``from_file``); whether the cache has a
    ``fixed_cache`` length; the ``eps`` that the folder asks for, where it does, and whether one of them is used (``ep_used``); the
    file that says what the model's inputs are (``said_by``), "" for their names alone."""

    prompt: int
    context: NotRequired[int]
    tokens: int
    batch: int
    forced: int
    from_file: bool
    eps: NotRequired[list[str]]
    ep_used: NotRequired[bool]
    fixed_cache: bool
    said_by: str


class Loop(TypedDict):
    """A loop: how many ``steps``, which outputs are fed back (``feedback``: [output, input]), what was given for the first
    step alone (``first``, null without), the inputs whose state ``grows``, and each state's shape before the first and after
    the last step (``state_shapes``); ``fill``, ``keep``, ``resident``: as they were given; ``generation`` where it makes tokens."""

    steps: int
    feedback: list[list[str]]
    first: dict[str, int | str] | None
    grows: list[str]
    state_shapes: list[list[list[int]]]
    fill: dict[str, str]
    keep: list[str]
    resident: list[str]
    generation: NotRequired[Generation]


class OpenedLoop(Opened):
    """``open`` of a loop."""

    loop: NotRequired[Loop]


class FinishedLoop(Finished):
    """``finish``: of a loop that generates also what the choice of a token takes."""

    next_token_ns: NotRequired[int]


class Parts(TypedDict, total=False):
    loop: Loop


class LoopWork(WorkOfParts):
    kind = whole = WHOLE_LOOP
    name = "a loop"

    @property
    def parts(self) -> tuple[str, ...]:
        return (*LOOP_PHASES, *TOKEN_PHASES) if self.tokens else LOOP_PHASES

    @property
    def count(self) -> int:
        return self.steps or 1

    def per_sample(self, metric: str) -> int | None:
        return {STEP: self.steps, TOKEN_PHASES[1]: self.count - 1 if self.tokens else None}.get(metric)


def work_of(loop: Loop) -> LoopWork:
    return LoopWork(steps=loop["steps"])
