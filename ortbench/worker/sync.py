"""Syncs: what makes sure the device has finished before the clock is read, and the proof that it does.

ONNX Runtime does not promise that a run has finished when it returns. Some EPs wait, some wait in
``synchronize_outputs``, some only when a value is read back. Which is enough is found out by timing: work and a sync
must take as long as work and a readback, less what the readback takes on an idle device. A sync that does not wait
returns earlier than that, by what was left to do. How it is tried is said at `Trial`.

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

from numpy import median

from ortbench.model.modes import READBACK

if TYPE_CHECKING:
    from ortbench.model import schema


STREAM = "stream"  # of a copy on a stream: a word copied behind it has arrived
_ATTEMPTS = 2  # so many confirmations must refuse a sync before it is proved in full again: one may be noise
# So many must find that the outputs have to be read back, which may take many times as long as a run, if there is time for them.
_PROOFS, _PROOFS_NS = 3, 2_000_000_000

Call = Callable[[], object]
Pause = Callable[[int], object]
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


# What a sync may leave undone and still count as one, at most: below this the timing of a readback says little.
TOLERANCE_NS = 20_000
TOLERANCE_SHARE = 0.01
_BURST_NS = 50_000_000  # the work that is queued before a sync is tried
_MAX_BURST = 128
_REPEATS, _MOST_REPEATS = 7, 25  # of one launch and a sync; short work is tried more often
# Of a burst. One that is over in less than the system's time slice is tried until a few are sure not to have lost the core.
_BURST_REPEATS, _BURSTS_NS = 5, 40_000_000
_SURELY_DONE = 2.5  # times what a launch takes; of several trials the one counts that was
_DOUBTS = 3  # how often a sync that leaves little more than it may is tried as often again
# Of work that takes so long noise hides nothing that a burst would show, and patience matters.
_LONG_NS, _LONG_REPEATS = 10_000_000, 9
_SLOW_NS, _SLOW_REPEATS = 100_000_000, 2
_CONFIRMATIONS, _LONG_CONFIRMATIONS = 5, 2  # trials of one launch, and of a burst, where the sync was proved before
_BURST_CONFIRMATIONS, _CONFIRMED_BURST_NS = 2, 20_000_000
# Of a sync that was proved and then used: what it must leave to be called early, and by how many trials more must say
# so, or that it waits, than say otherwise. A right mode must not fail because the machine is busy.
_EARLY_NS, _EARLY_PART = 2_000_000, 4
_USUAL_PART = 4  # of the work of a burst: a sync that leaves as much in most trials does not wait
_SURELY_EARLY, _SURELY_WAITS, _MOST_TRIALS = 8, 2, 40
_MOST_LAUNCHES = 1000  # in one such trial


@dataclass
class Readings:
    """Times of several trials, in ns, in the order in which they were taken."""

    idle: list[list[int]]  # of each witness alone, with nothing to wait for
    # from the first launch until the sync returned, and until each of the witnesses did that were called behind it,
    # one after the other: one list more than there are witnesses
    ends: list[list[int]]

    def work(self, witness: int = 0) -> int:
        """What the launches and their work took, by one of the witnesses."""
        return min(self.ends[witness + 1]) - min(self.idle[witness])

    def rest_ns(self, witness: int = 0) -> int:
        """How much of that was still to be done when what comes before the witness returned; below 0 by noise alone."""
        return self.work(witness) - min(self.ends[witness])

    def is_usually_unfinished(self) -> bool:
        """Whether in most trials a good part of the work was still to be done: a device that now and then keeps up with the host, as a
        GPU whose kernels the CPU computes, leaves nothing in the fastest of them."""
        idle_ns = median(self.idle[0])
        rest_ns = median([all_ - some for some, all_ in zip(*self.ends[:2], strict=True)]) - idle_ns
        return bool(rest_ns > max(TOLERANCE_NS, (median(self.ends[1]) - idle_ns) / _USUAL_PART))

    def noise(self, witness: int = 0) -> int:
        return round(median(self.idle[witness])) - min(self.idle[witness])

    def is_ordered(self, burst: int, least: int = 0) -> bool:
        """Whether what comes before the last witness waited for all work.

        To within a quarter of one run, or the noise; or `least` ns, however short the work is.
        """
        last = len(self.idle) - 1
        work = self.work(last)
        return self.rest_ns(last) <= max(least, min(max(work // burst // 4, self.noise(last)), work // 4))


class Trial:
    """Tries syncs on one kind of work, which `launch` starts, and `readback` reads behind all of it.

    Each time that counts is the smallest of several trials: a busy host adds to each of them and takes from none. What a readback takes
    right behind the sync says less: a host that is held up between launch and sync finds the work done and nothing left to wait for, so
    one such trial among many would pass a sync that does not wait. By the time from launch to sync it takes just one trial in which the
    host was not held up to refuse it.

    On a busy machine a single launch may be held up each time, where a thread of the device that it wakes takes its core. So a sync is
    also tried behind a burst of launches: the device is then at work already and they wake nothing.
    """

    def __init__(
        self,
        launch: Call,
        readback: Call,
        clock: Callable[[], int],
        work_ns: int | None = None,  # what one launch takes, if that is known; else it is found out
        pause: Pause | None = None,  # lets so many ns go by
    ) -> None:
        self._launch, self._readback, self._clock, self._pause = launch, readback, clock, pause or _spin
        self.work_ns = self._find_work_ns() if work_ns is None else work_ns
        self.is_long = self.work_ns >= _LONG_NS  # so long that noise hides nothing that a burst would show
        # How many launches are queued before a sync is tried: a short run that is not waited for shows in many.
        self.burst = (
            1 if self.is_long else _burst_size(self.work_ns, _BURST_NS if work_ns is None else _CONFIRMED_BURST_NS)
        )
        shorts = _BURSTS_NS // max(1, self.burst * self.work_ns)
        self._burst_repeats = max(_BURST_REPEATS, min(_MOST_REPEATS, shorts))
        if self.is_long:
            self._repeats = _LONG_REPEATS if self.work_ns < _SLOW_NS else _SLOW_REPEATS
        else:
            self._repeats = max(_REPEATS, min(_MOST_REPEATS, self.burst))

    def _find_work_ns(self) -> int:
        """One launch until its data are there, without the readback's own time.

        The smallest of three behind a first one, and then as an equal part of more and more launches at once until these
        take long enough: a busy host adds as much to many as to one.
        """
        idle, whole = [], [self._time(self._readback, 1)]
        for _ in range(3):
            idle.append(self._time(self._readback))
            whole.append(self._time(self._readback, 1))
            if min(whole) - min(idle) >= _SLOW_NS:
                break
        work, count = min(whole[1:]) - min(idle), 1
        while count < _MAX_BURST and work * count < 0.9 * _BURST_NS:
            count = min(_MAX_BURST, max(2 * count, _burst_size(work, _BURST_NS)))
            work = min(work, (self._time(self._readback, count) - min(idle)) // count)
        return work

    def read_behind_bursts(self, token: Call) -> Readings:
        """Whether the run itself waits, by the token, and whether the token does, by the readback: both of one burst."""
        return self._read(None, (token, self._readback), self.burst, min(self._repeats, self._burst_repeats))

    def most_remaining(self, wait: Call | None, witness: Call, bursts: Readings | None = None) -> int | None:
        """What a sync (`wait`; None for the launch itself) leaves of one launch or of a burst, in ns, whichever is more; None where
        that is too much. The witness waits for all work; `bursts` are of both, if they were taken before."""
        single = bursts if self.burst == 1 else None
        single = self._read_single(wait, (witness,), self._repeats, single)
        if single.rest_ns() > _limit(single):
            return None
        if self.burst == 1:
            return max(single.rest_ns(), 0)
        # What noise hides in one run shows in a burst that is not waited for.
        burst = bursts
        if burst is None or _leaves_too_much(burst, self.work_ns):
            burst = self._read(wait, (witness,), self.burst, self._burst_repeats)
        return None if _leaves_too_much(burst, self.work_ns) else max(single.rest_ns(), burst.rest_ns(), 0)

    def confirm_wait(self, wait: Call | None, token: Call | None) -> int | None:
        """The same in a few trials, for a sync that was proved with other buffers, or at another time.

        The readback is a witness in each of them, so that the token, which waited for all work if there is one, is none that has come
        to overtake it."""
        witnesses = (self._readback,) if token is None else (token, self._readback)
        few = _LONG_CONFIRMATIONS if self.is_long else _CONFIRMATIONS
        single = self._read_single(wait, witnesses, few)
        if single.rest_ns() > _limit(single):
            return None
        burst = single if self.is_long else self._read(wait, witnesses, self.burst, _BURST_CONFIRMATIONS)
        if not self.is_long and _leaves_too_much(burst, self.work_ns):
            return None
        is_ordered = token is None or burst.is_ordered(self.burst, TOLERANCE_NS)
        return max(single.rest_ns(), burst.rest_ns(), 0) if is_ordered else None

    def confirm_order(self, token: Call) -> bool:
        """Whether the token waits for all work, in a few trials, where that was proved before."""
        return self._read(token, (self._readback,), self.burst, _BURST_CONFIRMATIONS).is_ordered(
            self.burst, TOLERANCE_NS
        )

    def returns_early(self, wait: Call | None) -> bool:
        """Whether a sync that was proved does not wait any more, for certain.

        A trial says that it does not if the sync returned before three quarters of what was queued can be done, and a
        quarter of it, and more than noise often is, was then still waited for. The first a sync that waits cannot do,
        however busy the host; the second alone may be a readback that was held up. Trials go on until one answer leads
        clearly. Runs of a few µs are done when the host has queued the next one, whether or not they are waited for:
        nothing is left of them.
        """
        burst = _burst_size(self.work_ns, _CONFIRMED_BURST_NS, _MOST_LAUNCHES)
        sure = 1 if self.work_ns >= _SLOW_NS else _SURELY_WAITS
        waits = early = 0
        while waits - early < sure and early + waits < _MOST_TRIALS:
            trial = self._read(wait, (self._readback,), burst, 1)
            part = burst * self.work_ns // _EARLY_PART
            if trial.rest_ns() > max(_EARLY_NS, part) and trial.ends[0][0] < burst * self.work_ns - part:
                early += 1
            else:
                waits += 1
            if early - waits == _SURELY_EARLY:
                return True
        return False

    def _read_single(
        self, wait: Call | None, witnesses: Sequence[Call], repeats: int, earlier: Readings | None = None
    ) -> Readings:
        """Trials behind one launch: no more of them than it takes to refuse a sync that does not wait."""
        few = _SLOW_REPEATS if self.is_long else _REPEATS
        readings = earlier or self._read(wait, witnesses, 1, min(few, repeats))
        if _is_hopeless(readings):
            return readings
        if len(readings.ends[0]) < repeats:
            self._read(wait, witnesses, 1, repeats - len(readings.ends[0]), readings)
        for _ in range(_DOUBTS):
            if readings.rest_ns() <= _limit(readings) or _is_hopeless(readings):
                break
            self._read(wait, witnesses, 1, repeats, readings)  # it may be noise, of which more trials leave less
        if readings.rest_ns() > _limit(readings) and not _is_hopeless(readings):
            readings.idle = self._long_after_work(witnesses, repeats)
        return readings

    def _long_after_work(self, witnesses: Sequence[Call], repeats: int) -> list[list[int]]:
        """What witnesses take behind a launch whose work is done for certain, since nobody asks before it must be.

        Behind a readback, as in `_read`, a host reads a value back sooner than behind work: of an H100 in 14 µs and in 40
        after runs of 1.4 ms, which looks as if a run that waits had left some of its work.
        """
        idle: list[list[int]] = [[] for _ in witnesses]
        for _ in range(repeats):
            self._launch()
            self._pause(round(_SURELY_DONE * self.work_ns))
            for times, witness in zip(idle, witnesses, strict=True):
                times.append(self._time(witness))
        return idle

    def _read(
        self, wait: Call | None, witnesses: Sequence[Call], count: int, repeats: int, readings: Readings | None = None
    ) -> Readings:
        """Trials of a sync behind `count` launches, in turns with the witnesses on an idle device; added to `found`.

        Both follow a launch and a readback, so that the host's caches are in the same state; what that changes is nothing
        beside long work.
        """
        readings = readings or Readings([[] for _ in witnesses], [[] for _ in range(len(witnesses) + 1)])
        for _ in range(repeats):
            if not self.is_long:
                self._launch()
                self._readback()
            for idle, witness in zip(readings.idle, witnesses, strict=False):
                idle.append(self._time(witness))
            start = self._clock()
            for _ in range(count):
                self._launch()
            if wait is not None:
                wait()
            readings.ends[0].append(self._clock() - start)
            for ends, witness in zip(readings.ends[1:], witnesses, strict=False):
                witness()
                ends.append(self._clock() - start)
        return readings

    def _time(self, call: Call, launches: int = 0) -> int:
        """A call behind some launches, in ns."""
        start = self._clock()
        for _ in range(launches):
            self._launch()
        call()
        return self._clock() - start

    def cost(self, wait: Call) -> int:
        """The median time of a sync on an idle device, ns."""
        return round(float(median([self._time(wait) for _ in range(min(self._repeats, _REPEATS))])))


def _limit(single: Readings) -> float:
    """What a sync may leave of one launch, in ns: a share of the work; a quarter where it is short, and never more than the
    tolerance. More would pass a run that is not waited for where the device nearly keeps up with the host."""
    return max(single.work() * TOLERANCE_SHARE, min(TOLERANCE_NS, single.work() // 4))


def _leaves_too_much(burst: Readings, work_ns: int) -> bool:
    """Whether too much of a burst is left. After so long the host's own caches are cold, so the limit is a share of all
    that could be left; of short runs, with which a device nearly keeps up, that would hide several: so it is two at most."""
    return burst.rest_ns() > max(TOLERANCE_NS, min(burst.work() // 8, 2 * work_ns)) or burst.is_usually_unfinished()


def _is_hopeless(single: Readings) -> bool:
    """Whether more trials would not help a sync: it leaves far more than noise."""
    return single.rest_ns() > _limit(single) and single.rest_ns() > single.work() // 4


def _burst_size(work: int, whole: int, most: int = _MAX_BURST) -> int:
    """How many runs are tried at once, of which each takes `work` ns and all of them `whole`."""
    return max(1, min(most, whole // max(1, work)))


def _spin(ns: int) -> None:
    """Let time go by without letting the core go, which would take its time to come back."""
    until = time.perf_counter_ns() + ns
    while time.perf_counter_ns() < until:
        pass
