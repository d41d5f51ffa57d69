"""Syncs: what makes sure the device has finished before the clock is read, and the proof that it does.

ONNX Runtime does not promise that a run has finished when it returns. Some EPs wait, some wait in
``synchronize_outputs``, some only when a value is read back. Which is enough is found out by timing: work and a sync
must take as long as work and a readback, less what the readback takes on an idle device. A sync that does not wait
returns earlier than that, by what was left to do. How it is tried is in `ortbench.worker.proofs.trials`.

What a sync is worth is a fact about the EP, its memory and its kind of work. So it is proved in full once; for other
buffers a few trials that would refuse it confirm it. At the end of a measurement it is tried again: one that clearly
does not wait any more has made the figures wrong.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ortbench.model.modes import READBACK
from ortbench.worker.proofs.trials import Call, Pause, Trial

if TYPE_CHECKING:
    from ortbench.model import schema

STREAM = "stream"  # of a copy on a stream: a word copied behind it has arrived
_ATTEMPTS = 2  # so many confirmations must refuse a sync before it is proved in full again: one may be noise
# So many must find that the outputs have to be read back, which may take many times as long as a run, if there is time for them.
_PROOFS, _PROOFS_NS = 3, 2_000_000_000

Clock = Callable[[], int]
Candidates = Sequence[tuple[str, Call | None]]


class Known(NamedTuple):
    """What a full proof has found out."""

    kind: str  # of the sync
    by_token: bool  # the token is ordered behind the work
    work_ns: int  # what one launch takes


@dataclass(frozen=True)
class Sync:
    # ``run`` (the call itself waits), ``synchronize_outputs`` or ``readback``; of copies on a stream ``stream``
    kind: str
    wait: Call | None  # the call to make, or None where the work's own call waits
    cost_ns: int  # its median on an idle device; it is part of every sample that it ends
    how: str  # the evidence, for the report
    known: Known | None = None  # what the proof has found out; None where there was nothing to prove
    spent_ns: int = 0  # what the proof took, nearly all of it in runs
    again: Callable[[], bool] | None = field(default=None, compare=False, repr=False)  # whether it returns early now

    def to_dict(self) -> schema.Sync:
        return {"kind": self.kind, "cost_ns": self.cost_ns, "how": self.how}

    def returns_early(self) -> bool:
        """Whether it has come to return before the work is done; see `Trial.returns_early`."""
        return self.again is not None and self.again()


def prove(work: Work) -> Sync:
    """The cheapest sync that is proved for some work, in full."""
    begun = work.clock()
    for attempt in range(_PROOFS):
        if attempt == 1 and work.steadier is not None:
            work = work._replace(readback=work.steadier())
        found = _proved(work, begun)
        if found.wait != work.readback or work.clock() - begun > _PROOFS_NS:
            break
    return found


def _proved(work: Work, begun: int) -> Sync:
    trial = work.trial()
    bursts = None if work.token is None else trial.behind_bursts(work.token)
    by_token = bursts is not None and bursts.ordered(trial.burst)
    witness = work.token if by_token and work.token is not None else work.readback
    for kind, wait in work.candidates:
        left = trial.most_left(wait, witness, bursts if by_token and wait is None else None)
        if left is not None:
            cost = 0 if wait is None else trial.cost(wait)
            return work.sync(Known(kind, by_token, trial.work_ns), wait, cost, _left(trial, left), begun)
    how = f"{_reading(by_token)}, which waits for all {trial.burst} queued run(s)"
    return work.sync(Known(READBACK, by_token, trial.work_ns), witness, trial.cost(witness), how, begun)


def _left(trial: Trial, left: int) -> str:
    return f"{left / 1000:.1f} µs of work were left after {trial.burst} calls and this synchronization"


def _reading(by_token: bool) -> str:
    return "reading 4 bytes back" if by_token else "reading the outputs back"


class Work(NamedTuple):
    """What syncs are proved on."""

    launch: Call  # starts the work
    candidates: Candidates  # (kind, wait) from the cheapest on; wait None stands for `launch` itself
    # reads what the work wrote back to the host, behind all of it: that is the truth. (On the CUDA EP a copy back can pass the runs;
    # then it must wait for them too.)
    readback: Call
    # reads one small device value back. If it is ordered behind the work, which is tested first, it is a cheaper and steadier witness
    # than `readback`, and the sync of last resort
    token: Call | None = None
    # makes a readback whose time varies less. 100 MB to pageable memory take 6 ms on an H200, now 100 µs more, now less, in which a
    # run of 200 µs is lost: then nothing seems to wait but the readback itself
    steadier: Callable[[], Call] | None = None
    clock: Clock = time.perf_counter_ns
    pause: Pause | None = None  # see `Trial`

    def trial(self, work_ns: int | None = None) -> Trial:
        return Trial(self.launch, self.readback, self.clock, work_ns, self.pause)

    def sync(self, known: Known, wait: Call | None, cost: int, how: str, begun: int) -> Sync:
        return Sync(known.kind, wait, cost, how, known, self.clock() - begun, lambda: self.returns_early(known, wait))

    def returns_early(self, known: Known, wait: Call | None) -> bool:
        """Whether a sync of such work does not wait any more."""
        # Reading the outputs back cannot return before they are there.
        return wait != self.readback and self.trial(known.work_ns).returns_early(wait)

    def confirm(self, known: Known) -> Sync | None:
        """The sync that is known for such work, if a few trials do not refuse it here; see `Trial.still_left`."""
        begun = self.clock()
        token = self.token if known.by_token else None
        if known.by_token and token is None:
            return None
        trial = self.trial(known.work_ns)
        if not trial.is_long:
            self.launch()  # the first with these buffers may take longer
        if known.kind == READBACK:
            wait: Call | None = token or self.readback
            left = 0 if token is None or trial.still_ordered(token) else None
            how = f"{_reading(known.by_token)}, verified before and confirmed here"
        else:
            wait = dict(self.candidates)[known.kind]
            left = trial.still_left(wait, token)
            how = "" if left is None else f"verified before; confirmed here: {_left(trial, left)}"
        if left is None:
            return None
        cost = 0 if wait is None else trial.cost(wait)
        return self.sync(known, wait, cost, how, begun)


class Syncs:
    """The syncs of one session: for each kind of work one is proved in full, and confirmed from then on."""

    def __init__(self) -> None:
        self._known: dict[str, Known] = {}  # what full proofs have found out, by kind of work
        self._refused: set[tuple[str, str]] = set()

    def prove(self, kind: str, work: Work) -> Sync:
        """The cheapest sync for some work. What is known of other work of its kind need only be confirmed. Where that is refused,
        as this one has other memory, say, it is proved in full as well."""
        confirmed = self.confirmed(kind, work)
        if confirmed is not None:
            return confirmed
        left = [(sync, wait) for sync, wait in work.candidates if (kind, sync) not in self._refused]
        proved = prove(work._replace(candidates=left))
        assert proved.known is not None
        self._known.setdefault(kind, proved.known)
        return proved

    def refuse(self, kind: str, sync: str) -> bool:
        """Never take a sync for work of a kind again: what it should have waited for was not there. False where there is no other."""
        if sync == READBACK or (kind, sync) in self._refused:
            return False
        self._refused.add((kind, sync))
        self._known.pop(kind, None)
        return True

    @contextmanager
    def without(self, kind: str, syncs: Sequence[str]) -> Iterator[None]:
        """Inside, some syncs are not taken for work of a kind."""
        known, added = self._known.get(kind), {(kind, sync) for sync in syncs} - self._refused
        if known is not None and known.kind in syncs:
            del self._known[kind]
        self._refused |= added
        try:
            yield
        finally:
            self._refused -= added
            if known is not None:
                self._known[kind] = known

    def confirmed(self, kind: str, work: Work) -> Sync | None:
        """The sync that is known for such work; None where there is none, or it is refused here."""
        known = self._known.get(kind)
        tried = (work.confirm(known) for _ in range(_ATTEMPTS) if known is not None)
        return next(filter(None, tried), None)
