"""Loops that are wrong on purpose, and what the check of outputs says of them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx

from ortbench.core.errors import BenchmarkFailed
from ortbench.features.loop.plan import Steps
from ortbench.features.loop.worker import CpuLoop, HostAccessibleLoop, ResidentLoop, SharedLoop, data
from ortbench.features.loop.worker.base import LoopMode
from ortbench.features.loop.worker.bound import BoundLoop, State
from ortbench.features.loop.worker.data import LoopData
from ortbench.plan.target import Inputs, Target
from ortbench.worker import providers, session
from ortbench.worker.proofs import check_outputs
from ortbench.worker.session import Model
from tests import virtual

READS_LATE = """g (float[8] state, float[8] x) => (float[8] state_out, float[8] y)
    { state_out = Neg(state)  plus = Abs(state_out)  twice = Add(plus, x)  y = Add(twice, state) }"""


class TooEarly(ResidentLoop):
    """Both turns are bound to one buffer."""

    one_buffer = True


class NotFedBack(ResidentLoop):
    """The state's output goes to a buffer that no step reads."""

    def _state_value(self, place: int, number: int) -> Any:
        return self._states[place].buffers[0]

    def _next_value(self, state: State, number: int) -> Any:
        return state.buffers[1]


class NeverBegun(ResidentLoop):
    """A loop goes on where the one before it ended."""

    begun = False

    def begin(self) -> None:
        if not self.begun:
            super().begin()
        self.begun = True


class LastForAll(ResidentLoop):
    """What a step left is read when the loop is over."""

    def _copies(self, number: int, binding: Any) -> Any:
        before, _ = super()._copies(number, binding)
        if number < self._loop.count - 1:
            return before, lambda: None
        backs = [self._copy_out([slot._replace(array=slot.array) for slot in slots]) for slots in self._outs]
        return before, lambda: [back() for back in backs]


class GrownOnce(ResidentLoop):
    """What was handed on once is handed on for ever."""

    def _growing_step(self, number: int) -> Any:
        step, held = super()._growing_step(number), self._grown

        def stale() -> None:
            before = dict(held)
            step()
            if number:
                held.update(before)

        return stale


class WithoutSync(HostAccessibleLoop):
    """What a step gives is read, and handed on, when the run has returned and not when it is done."""

    def _copies(self, number: int, binding: Any) -> Any:
        return super()._copies(number, SimpleNamespace(synchronize_outputs=lambda: None, _iobinding=binding._iobinding))


def found_out(kind: type[LoopMode], model: Model, loop: LoopData, steps: Steps) -> str | None:
    """What the check of outputs finds of a mode; None where it finds nothing."""
    made = kind(model, loop, steps) if issubclass(kind, BoundLoop) else kind(model, loop)
    try:
        check_outputs(made, None, None)
        made.compare_steps(None, None)
    except (BenchmarkFailed, ValueError) as error:  # the latter of an array that has another shape
        return str(error)
    return None


# On the reference device

GRAPHS = {
    "cell": "g (float[64] state, float[64] x) => (float[64] state_out, float[64] y) "
    "{ sum = Add(state, x) state_out = Tanh(sum) y = Mul(state, x) }",
    "relu": "g (float[64] state, float[64] x) => (float[64] state_out, float[64] y) { state_out = Relu(state) y = Tanh(x) }",
    "grow": "g (float[N,4] state, float[1,4] x) => (float[M,4] state_out) { state_out = Concat<axis=0>(state, x) }",
    "late": READS_LATE,
    "slow": "g (float[64] state, float[64] x) => (float[64] state_out, float[64] y) { state_out = Tanh(state) y = Mul(state, x) }",
}
_OF_CELL: list[type[LoopMode]] = [
    ResidentLoop, HostAccessibleLoop, CpuLoop, NotFedBack, NeverBegun, LastForAll,
]  # fmt: skip
CASES: list[tuple[type[LoopMode], str]] = [
    *((kind, "cell") for kind in _OF_CELL), (ResidentLoop, "grow"), (SharedLoop, "relu"), (ResidentLoop, "late"),
    (TooEarly, "late"), (GrownOnce, "grow"), (WithoutSync, "slow"),
]  # fmt: skip
RIGHT = (ResidentLoop, HostAccessibleLoop, CpuLoop, SharedLoop)


def main() -> None:
    """Print what is found wrong of all of them on a device that returns before it is done; a process of its own, because it
    registers the device's library."""
    virtual.attach(works=True)
    folder, library = sys.argv[1:]
    found = {}
    for name, text in GRAPHS.items():
        path = str(Path(folder) / f"{name}.onnx")
        onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), path)
        wanted = Target(library=library, options={"honesty": "async"})
        provider = providers.find(wanted)
        model, steps = session.open_model(path, wanted, provider), Steps((("state_out", "state"),), 4)
        first = Path(folder) / "first.npz"  # a state of zeros is its own negative
        np.savez(first, state=np.ones(8, np.float32))
        loop = data.make_loop_data(path, model, Inputs(path=str(first)) if name == "late" else Inputs(), steps)
        for kind, where in CASES:
            if where == name:
                found[f"{kind.__name__} {name}"] = found_out(kind, model, loop, steps)
    print(json.dumps(found))
