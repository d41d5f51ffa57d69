"""The request to open a loop: the session of its model, and a plain run of all its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ortbench.features.loop.plan import Steps, steps_from
from ortbench.features.loop.worker import data
from ortbench.features.loop.worker.modes import make_loop
from ortbench.plan.target import inputs_from, target_from
from ortbench.worker.opened import Opened
from ortbench.worker.opening import open_as
from ortbench.worker.session.providers import with_ep_of_folder
from ortbench.worker.state import State

if TYPE_CHECKING:
    from ortbench.features.loop.model import OpenedLoop
    from ortbench.features.loop.worker.data import LoopData
    from ortbench.features.memory.worker import Forms, Sessions
    from ortbench.worker.modes.base import Mode


@dataclass(kw_only=True)
class LoopInWorker(Opened):
    """A model in a loop; its arrays are there after `run_first`."""

    steps: Steps
    loop: LoopData = field(init=False)

    def run_first(self) -> None:
        self.loop = data.make_loop_data(self.path, self.model, self.request, self.steps)
        self.data = self.loop.single

    def make(self, mode: str, depth: int) -> Mode:
        return make_loop(mode, self.model, self.loop, self.steps, self.request)

    def describe(self) -> dict[str, Any]:
        """The loop for the result."""
        model, loop, steps = self.model, self.loop, self.steps
        told = loop.generated
        return {
            "steps": steps.count,
            "feedback": [[model.outputs[pair.out].name, model.inputs[pair.into].name] for pair in loop.pairs],
            "first": dict(steps.first_dims) or None if told is None else {"prompt": told.prompt},
            "grows": [
                model.inputs[pair.into].name for number, pair in enumerate(loop.pairs) if loop.is_growing(number)
            ],
            "state_shapes": [
                [list(shape) for shape in (loop.shapes[0][n], loop.shapes[-1][n])] for n in range(len(loop.pairs))
            ],
            "fill": dict(steps.fill),
            "keep": list(steps.keep),
            "resident": list(steps.resident),
            **({} if told is None else {"generation": {**told.described(), **self._eps()}}),
        }

    def _eps(self) -> dict[str, object]:
        """The EPs that the folder asks for, and whether one of them is used."""
        named = [] if self.steps.decoder is None else [ep for ep, _ in self.steps.decoder.providers]
        return {"eps": named, "ep_used": self.target.ep in named} if named else {}

    @property
    def loops(self) -> list[LoopData]:
        return [self.loop]


def open_loop(
    state: State, model: str, target: dict[str, Any], inputs: dict[str, Any], steps: dict[str, Any]
) -> OpenedLoop:
    """Load the EP, create the session, make the inputs of all steps and reference outputs; `steps` are `Steps` as data."""
    wanted, kind = with_ep_of_folder(target_from(target), steps), partial(LoopInWorker, steps=steps_from(steps))
    answer = cast("OpenedLoop", open_as(state, model, wanted, inputs_from(inputs), kind))
    if answer["unsupported"] is None:
        answer["loop"] = cast(Any, cast(LoopInWorker, state.opened).describe())
    return answer


def open_without_run(asked: dict[str, Any], known: Sequence[Forms], prefix: str | None) -> Sessions:
    """The session of the model; see `ortbench.features.memory.worker`."""
    from ortbench.features.memory.worker import open_model

    target = with_ep_of_folder(target_from(asked["target"]), asked["steps"])
    return open_model(asked, known, prefix, target, partial(LoopInWorker, steps=steps_from(asked["steps"])))
