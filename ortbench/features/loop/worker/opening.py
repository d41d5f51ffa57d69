"""The request to open a loop: the session of its model, and a plain run of all its steps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ortbench.core.eps import SHORT_NAMES
from ortbench.core.errors import BadInput, OrtbenchError
from ortbench.core.safe_text import listed
from ortbench.features.loop.plan import Steps, steps_from
from ortbench.features.loop.worker import data
from ortbench.features.loop.worker.modes import make_loop
from ortbench.plan.target import Target, inputs_from, target_from
from ortbench.worker.opened import Opened
from ortbench.worker.opening import open_as
from ortbench.worker.session import providers
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


def with_ep_of_folder(target: Target, steps: Mapping[str, Any] | None) -> Target:
    """The target with the first of the EPs that the folder of a loop that generates asks for and that is here, unless another one was
    asked for; `steps` as a request has them. The folder may be anybody's: it names EPs, no packages or libraries, and `BadInput`: an
    option of it could load code."""
    decoder = None if steps is None else steps["decoder"]
    if decoder is not None and target.ep == "auto" and target.library is None:
        for ep, options in decoder["providers"]:
            if ep not in SHORT_NAMES:
                continue
            refused = [key for key in options if key not in target.options and _may_load(key, options[key])]
            allowed = {key: value for key, value in options.items() if key not in refused}
            candidate = replace(target, ep=ep, options={**allowed, **target.options})
            try:
                providers.find(candidate)
            except OrtbenchError:
                continue
            if refused:
                arguments = " ".join(f"--ep-option {shlex.quote(f'{key}={options[key]}')}" for key in refused)
                raise BadInput(
                    f"{decoder['said_by']} sets {listed(refused)} of EP {ep}, which may load a library or a file: "
                    f"give it yourself ({arguments}), or name an EP (--ep)"
                )
            return candidate
    return target


_LOADING = re.compile(
    "path|lib|plugin|package|file|dir|config|stream|external|proc|instance|webgpu|dawn", re.IGNORECASE
)


def _may_load(option: str, value: str) -> bool:
    """Whether an EP's option may name a library, a file or an address: by the option's name, or a path in its value."""
    return bool(_LOADING.search(option)) or not re.fullmatch(r"[\w.:, -]*", value, re.ASCII)
