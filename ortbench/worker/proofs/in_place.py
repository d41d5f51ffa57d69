"""Whether runs read the very memory that is bound: other inputs are written to it, and the outputs must follow.

Equal addresses alone do not show it: ORT may have copied an input when it was bound, and a captured graph may read what
was there when it was captured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ortbench.core.errors import Unsupported, WrongOutputs
from ortbench.worker.proofs import outputs as output_arrays
from ortbench.worker.session.first_run import Data, run_once
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Array

if TYPE_CHECKING:
    from ortbench.model import schema

if TYPE_CHECKING:
    from ortbench.worker.modes.bound import BoundMode
    from ortbench.worker.modes.external_inputs import ExternalInputs


@dataclass(frozen=True)
class Followed:
    """What was found.

    Attributes:
        proved: the outputs followed the inputs.
        wrong: what differs where they did not; None also where it could not be tried.
        how: the evidence, or why there is none.
    """

    proved: bool
    wrong: str | None
    how: str

    def to_dict(self) -> dict[str, object]:
        """For the result file."""
        return {"proved": self.proved, "how": self.how}


def follows(
    mode: BoundMode,
    model: Model,
    data: Data,
    write: Callable[[dict[str, Array]], object],
    rtol: float | None,
    atol: float | None,
) -> Followed:
    """Run on other inputs, written to where those of the mode are, and compare with a plain run; puts the inputs back.

    Args:
        mode: set up, with at least one run done.
        model, data: of the mode.
        write: overwrites the inputs in place.
        rtol, atol: tolerances of the comparison; None for the ones of each dtype.
    """
    other = {name: _rolled(array) for name, array in data.arrays.items()}
    try:
        reference = run_once(model, other)
    except Exception:
        return Followed(False, None, "the model takes no other inputs to try it with")
    same_form = all(a.shape == b.shape for a, b in zip(reference, data.reference, strict=True))
    if not same_form or all(_equal(a, b) for a, b in zip(reference, data.reference, strict=True)):
        return Followed(False, None, "other inputs give no other outputs of the same shape, so nothing would show")
    try:
        write(other)
        got = [np.array(array) for array in mode.run_as_bound()]
    finally:
        write(data.arrays)
    for spec, found, wanted in zip(model.outputs, got, reference, strict=True):
        wrong = output_arrays.difference(spec.name, found, wanted, rtol, atol)
        if wrong is not None:
            return Followed(False, wrong, f"a run does not see what was written in place: {wrong}")
    return Followed(True, None, "the outputs followed inputs that were written in place")


def _rolled(array: Array) -> Array:
    """The same values in another order, so that all keep to what the model can take."""
    return np.roll(array.reshape(-1), 1).reshape(array.shape)


def _equal(one: Array, other: Array) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def prove_external(
    mode: BoundMode, external: ExternalInputs, model: Model, data: Data, rtol: float | None, atol: float | None
) -> schema.External:
    """Whether runs read the memory of another library: ``library``, ``place``, ``proved``, ``how``.

    Raises:
        WrongOutputs: they do not.
    """
    if not external.same_addresses():
        return {**external.describe(), "proved": False, "how": "the bound addresses are not the library's"}
    found = follows(mode, model, data, external.write, rtol, atol)
    if found.wrong is not None:
        raise WrongOutputs(f"{found.wrong} (after inputs were written through {model.target.external})")
    how = f"the addresses are the library's; {found.how}"
    return {**external.describe(), "proved": found.proved, "how": how}


def prove_replay(
    mode: BoundMode, graph_id: int, model: Model, data: Data, rtol: float | None, atol: float | None
) -> schema.Graph:
    """Whether runs are replays, and replays see what is written to the inputs in place: ``id``, ``proved``, ``how``.

    Raises:
        Unsupported: nothing was captured.
        WrongOutputs: a replay does not see it.
    """
    if not mode.is_replayed():
        raise Unsupported(f"{model.provider.name} captured no graph: a run writes to whatever is bound")
    found = follows(mode, model, data, mode.write_inputs, rtol, atol)
    if found.wrong is not None:
        raise WrongOutputs(f"{found.wrong} (a replay after its inputs were written in place)")
    return {"id": graph_id, "proved": found.proved, "how": found.how}
