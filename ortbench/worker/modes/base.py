"""What a mode is to those that time it, look at it and check it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ortbench.core.errors import Unsupported
from ortbench.model.modes import DEPTH, LATENCY, STEP
from ortbench.worker.proofs.outputs import FIRST
from ortbench.worker.proofs.sync import Sync
from ortbench.worker.session.first_run import Data
from ortbench.worker.session.memory import BoundTensor, Copy
from ortbench.worker.session.providers import Provider
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Value
from ortbench.worker.timing import Ranges, SplitCall, TimedCall

if TYPE_CHECKING:
    from typing import Self

    from ortbench.model.schema import External, Graph, ZeroCopy

Step = tuple[str, Callable[[], object]]


class Proof(NamedTuple):
    """Something that a mode proves of itself before it is timed."""

    key: str  # where a case keeps what was found; see `ortbench.model.result.Case`; "" where there is nothing to keep
    stage: str  # what a timeline calls it
    prove: Callable[[], ZeroCopy | External | Graph | None]


class Mode(ABC):
    """One way to hand tensors to a session and get them back.

    Every mode ends `latency` with the outputs readable where the mode leaves them, and starts it with the inputs in host
    memory, or already in place where that is the mode's point.
    """

    name: str
    # what ends these, where the copy itself does not wait
    sync: Sync
    h2d_sync: Sync | None = None
    d2h_sync: Sync | None = None
    # copied to and from the device per inference; None where that is not known
    bytes_in: int | None
    bytes_out: int | None
    one_time_bytes: tuple[int, int] = (0, 0)
    per_call: int = 1  # how many inferences one call of ``latency`` makes
    trials: tuple[int, ...] = (1,)  # how many calls of ``latency`` each check of the outputs rests on
    call_name: str = LATENCY  # what ranges call a call of ``latency``
    records_starts = False  # whether it notes when the parts of its calls begin; see `take_starts`
    # what ORT said to outputs bound as they are, where they had to be bound by address instead; else None
    binding_error: str | None = None
    part_names: tuple[str, ...] = (STEP,)  # what they call the parts of one whose times it takes

    @classmethod
    def missing_feature(cls, provider: Provider) -> str | None:
        """What an EP lacks for it, whatever the model, as a noun; None if it can do it."""
        return None

    @classmethod
    def refusal(cls, provider: Provider) -> str | None:
        reason = cls.missing_feature(provider)
        return None if reason is None else f"{provider.name} offers {reason} on this device"

    @abstractmethod
    def phases(self) -> dict[str, TimedCall]:
        """What can be timed, each synced at its end: ``latency``, whole inferences, and its parts where it has any. A copy
        of no bytes is none."""

    def enqueues(self) -> dict[str, SplitCall]:
        """Of the phases whose runs end with a sync that waits behind the call: the two apart. None where the run waits."""
        return {}

    @abstractmethod
    def steps(self) -> list[Step]:
        """What one inference consists of, in order, for a look at each on its own; where a sync waits, it is one."""

    @abstractmethod
    def bound_tensors(self) -> tuple[list[BoundTensor], list[BoundTensor]]:
        """Where its inputs and its outputs are, in the model's order."""

    @abstractmethod
    def poison(self) -> None:
        """Overwrite the outputs, so that what is read next is what the next run wrote."""

    @abstractmethod
    def outputs(self) -> list[Value]:
        """The outputs as they are now, in host memory."""

    @abstractmethod
    def expected(self) -> list[tuple[str, Value]]:
        """The name of each of `outputs`, and what it must be."""

    @property
    def source(self) -> str:
        return FIRST

    def wait_idle(self) -> None:  # noqa: B027 - most modes finish one inference before they begin the next
        """Wait for whatever the last call left in flight, before another mode is measured."""

    def syncs(self) -> dict[str, Sync]:
        found = {"inference": self.sync, "h2d": self.h2d_sync, "d2h": self.d2h_sync}
        return {phase: sync for phase, sync in found.items() if sync is not None}

    def proofs(self, rtol: float | None, atol: float | None, others: Mapping[str, Mode]) -> Sequence[Proof]:
        return ()

    def one_time_copies(self) -> tuple[Copy, Copy] | None:
        """The upload before, synced, and the download after all runs, where these are made only once."""
        return None

    def set_ranges(self, ranges: Ranges) -> Ranges:
        """Take the ranges that its calls are to put around parts of theirs; gives them back."""
        return ranges

    def take_times(self, calls: int) -> list[int] | None:
        """The times that the last calls of ``latency`` took of their parts, ns, in order, then forgotten; None without such parts."""
        return None

    def take_starts(self, calls: int) -> list[int]:
        """When the parts of the last calls began, as `take_times` has them; none without `records_starts`."""
        return []

    def details(self) -> dict[str, Any]:
        """What else `ortbench.model.protocol.Prepared` has of it: ``pipeline``, ``step_bytes`` or ``stage_bytes``."""
        return {}

    def time_separately(self, repeats: int) -> dict[str, Any]:
        """The keys of `ortbench.model.protocol.Finished` for what is timed alone. They are asked for last."""
        return {}


class SingleMode(Mode):
    """A mode of single inferences, which are made of a model and its arrays alone."""

    binds = True

    def __init__(self, model: Model, data: Data) -> None:
        self._model, self._data = model, data

    def expected(self) -> list[tuple[str, Value]]:
        return list(zip(self._model.output_names, self._data.reference, strict=True))

    @property
    def source(self) -> str:
        return self._data.source

    @classmethod
    def make(cls, model: Model, data: Data, depth: int = DEPTH) -> Self:
        """Set it up on an EP that lacks nothing: allocate, bind, upload, run once, prove the syncs.

        Where several inferences are in flight, `depth` says how many. Raises `Unsupported`: the model cannot be run so; and
        whatever ORT raises on the way.
        """
        return cls(model, data)

    @classmethod
    def check(cls, model: Model) -> None:
        """Raises `Unsupported`: the EP cannot do it, or the model has what cannot be bound."""
        if (reason := cls.refusal(model.provider)) is not None:
            raise Unsupported(reason)
        if cls.binds:
            for spec in (*model.inputs, *model.outputs):
                spec.check_binding()


def call_and_wait(call: Copy, wait: Copy | None) -> Copy:
    """A call and the wait for its end, where it needs one."""
    if wait is None:
        return call

    def synced() -> None:
        call()
        wait()

    return synced


def sync_steps(sync: Sync | None) -> list[Step]:
    return [] if sync is None or sync.wait is None else [(f"sync ({sync.kind})", sync.wait)]


def as_timed_call(call: Copy) -> TimedCall:
    return (lambda _a, _b: call()), None, None
