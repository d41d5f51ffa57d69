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


class ProofResult(NamedTuple):
    """What a full proof has found out."""

    kind: str  # of the sync
    is_token_ordered: bool  # the token is ordered behind the work
    work_ns: int  # what one launch takes


@dataclass(frozen=True)
class Sync:
    # ``run`` (the call itself waits), ``synchronize_outputs`` or ``readback``; of copies on a stream ``stream``
    kind: str
    wait: Call | None  # the call to make, or None where the work's own call waits
    cost_ns: int  # its median on an idle device; it is part of every sample that it ends
    evidence: str  # for the report
    proof: ProofResult | None = None  # what the proof has found out; None where there was nothing to prove
    spent_ns: int = 0  # what the proof took, nearly all of it in runs
    # whether it returns early now
    check_again: Callable[[], bool] | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> schema.Sync:
        return {"kind": self.kind, "cost_ns": self.cost_ns, "how": self.evidence}

    def returns_early(self) -> bool:
        """Whether it has come to return before the work is done; see `Trial.returns_early`."""
        return self.check_again is not None and self.check_again()


def prove(work: Work) -> Sync:
    """The cheapest sync that is proved for some work, in full."""
    start_ns = work.clock()
    for attempt in range(_PROOFS):
        if attempt == 1 and work.make_steadier_readback is not None:
            work = work._replace(readback=work.make_steadier_readback())
        sync = _find_sync(work, start_ns)
        if sync.wait != work.readback or work.clock() - start_ns > _PROOFS_NS:
            break
    return sync


def _find_sync(work: Work, start_ns: int) -> Sync:
    trial = work.make_trial()
    bursts = None if work.token is None else trial.read_behind_bursts(work.token)
    is_ordered = bursts is not None and bursts.is_ordered(trial.burst)
    witness = work.token if is_ordered and work.token is not None else work.readback
    for kind, wait in work.candidates:
        rest_ns = trial.most_remaining(wait, witness, bursts if is_ordered and wait is None else None)
        if rest_ns is not None:
            cost = 0 if wait is None else trial.cost(wait)
            proof = ProofResult(kind, is_ordered, trial.work_ns)
            return work.make_sync(proof, wait, cost, _describe_rest(trial, rest_ns), start_ns)
    how = f"{_describe_readback(is_ordered)}, which waits for all {trial.burst} queued run(s)"
    proof = ProofResult(READBACK, is_ordered, trial.work_ns)
    return work.make_sync(proof, witness, trial.cost(witness), how, start_ns)


def _describe_rest(trial: Trial, rest_ns: int) -> str:
    return f"{rest_ns / 1000:.1f} µs of work were left after {trial.burst} calls and this synchronization"


def _describe_readback(by_token_alone: bool) -> str:
    return "reading 4 bytes back" if by_token_alone else "reading the outputs back"


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
    make_steadier_readback: Callable[[], Call] | None = None
    clock: Clock = time.perf_counter_ns
    pause: Pause | None = None  # see `Trial`

    def make_trial(self, work_ns: int | None = None) -> Trial:
        return Trial(self.launch, self.readback, self.clock, work_ns, self.pause)

    def make_sync(self, proof: ProofResult, wait: Call | None, cost: int, how: str, start_ns: int) -> Sync:
        return Sync(
            proof.kind, wait, cost, how, proof, self.clock() - start_ns, lambda: self.returns_early(proof, wait)
        )

    def returns_early(self, known: ProofResult, wait: Call | None) -> bool:
        """Whether a sync of such work does not wait any more."""
        # Reading the outputs back cannot return before they are there.
        return wait != self.readback and self.make_trial(known.work_ns).returns_early(wait)

    def confirm(self, known: ProofResult) -> Sync | None:
        """The sync that is known for such work, if a few trials do not refuse it here; see `Trial.confirm_wait`."""
        start_ns = self.clock()
        token = self.token if known.is_token_ordered else None
        if known.is_token_ordered and token is None:
            return None
        trial = self.make_trial(known.work_ns)
        if not trial.is_long:
            self.launch()  # the first with these buffers may take longer
        if known.kind == READBACK:
            wait: Call | None = token or self.readback
            rest_ns = 0 if token is None or trial.confirm_order(token) else None
            how = f"{_describe_readback(known.is_token_ordered)}, verified before and confirmed here"
        else:
            wait = dict(self.candidates)[known.kind]
            rest_ns = trial.confirm_wait(wait, token)
            how = "" if rest_ns is None else f"verified before; confirmed here: {_describe_rest(trial, rest_ns)}"
        if rest_ns is None:
            return None
        cost = 0 if wait is None else trial.cost(wait)
        return self.make_sync(known, wait, cost, how, start_ns)


class Syncs:
    """The syncs of one session: for each kind of work one is proved in full, and confirmed from then on."""

    def __init__(self) -> None:
        self._known: dict[str, ProofResult] = {}  # what full proofs have found out, by kind of work
        self._refused: set[tuple[str, str]] = set()

    def prove(self, kind: str, work: Work) -> Sync:
        """The cheapest sync for some work. What is known of other work of its kind need only be confirmed. Where that is refused,
        as this one has other memory, say, it is proved in full as well."""
        confirmed = self.confirm(kind, work)
        if confirmed is not None:
            return confirmed
        candidates = [(sync, wait) for sync, wait in work.candidates if (kind, sync) not in self._refused]
        proved = prove(work._replace(candidates=candidates))
        assert proved.proof is not None
        self._known.setdefault(kind, proved.proof)
        return proved

    def refuse(self, kind: str, sync: str) -> bool:
        """Never take a sync for work of a kind again: what it should have waited for was not there. False where there is no other."""
        if sync == READBACK or (kind, sync) in self._refused:
            return False
        self._refused.add((kind, sync))
        self._known.pop(kind, None)
        return True

    @contextmanager
    def excluding(self, kind: str, syncs: Sequence[str]) -> Iterator[None]:
        """Inside, some syncs are not taken for work of a kind."""
        known, newly_refused = self._known.get(kind), {(kind, sync) for sync in syncs} - self._refused
        if known is not None and known.kind in syncs:
            del self._known[kind]
        self._refused |= newly_refused
        try:
            yield
        finally:
            self._refused -= newly_refused
            if known is not None:
                self._known[kind] = known

    def confirm(self, kind: str, work: Work) -> Sync | None:
        """The sync that is known for such work; None where there is none, or it is refused here."""
        known = self._known.get(kind)
        attempts = (work.confirm(known) for _ in range(_ATTEMPTS) if known is not None)
        return next(filter(None, attempts), None)
