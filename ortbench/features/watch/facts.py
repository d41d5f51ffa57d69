"""The habits of a program that cost time, each with what it costs there; the costliest first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from ortbench.analysis.advice import Weight
from ortbench.core.defects import LOST_STREAM
from ortbench.facts import Fact, Known, Quantity, bytes_of, ns, share
from ortbench.facts.sentences import WAIT, Sentence
from ortbench.features.watch.analysis import (
    CALM,
    ENOUGH,
    Change,
    Watched,
    WatchedSession,
    copy_habits,
    fewer_threads,
    spinning_sessions,
    spun_ns,
)

_LEAST = 0.005  # of the program's time: less is not worth a change
_SLOWER = 1.5  # a first call than later ones
_EDGE = 1.1  # calls at the same time than one after the other


class _Habit(NamedTuple):
    cost_ns: float  # the program's time, by which habits are in order
    fact: Fact


def watch_facts(program: Watched) -> list[Fact]:
    """What a program does that costs time, the costliest first; before these what makes figures doubtful: a busy machine, a defect of ONNX
    Runtime."""
    of_sessions = [it for session in program.sessions for it in _habits(program, session)]
    habits = [it for it in (*of_sessions, *_spinning(program)) if it.cost_ns > 0]
    noisy = [it.name for it in program.sessions if it.is_noisy]
    busy = [Fact("watch", "noise", "", {"sessions": noisy})] if noisy else []
    return [*busy, *_lost_stream(program), *(it.fact for it in sorted(habits, key=lambda it: -it.cost_ns))]


def _lost_stream(program: Watched) -> list[Fact]:
    """The defect of ONNX Runtime that is in what a program binds."""
    versions = {str(it["onnxruntime"]) for it in program.processes if it["sessions"]}
    what = next(filter(None, map(LOST_STREAM.describe, sorted(versions))), None)
    bound = [it for it in program.sessions if it.about.get("library") and it.binding.get("calls")]  # on a plugin EP
    names = [it.name for it in bound if any(row[1] == "cpu" for found in it.signatures for row in found["inputs"])]
    return [Fact("watch", "lost-stream", "", {"what": what, "sessions": names})] if what and names else []


def worth_changing(facts: Sequence[Fact]) -> list[Fact]:
    """The costliest of them, at most five; or that there is nothing."""
    worth = [it for it in facts if not isinstance(part := it.values.get("share"), Quantity) or part.value >= _LEAST]
    return worth[:5] or [Fact("watch", "no-habit")]


def _habits(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    for rule in (_fallback, _opening, _host_copies, _device_copies, _shapes, _threads, _contention):
        yield from rule(program, session)


def _habit(program: Watched, session: WatchedSession, verdict: str, cost: Quantity, **values: Known) -> _Habit:
    about: dict[str, Known] = {
        "cost": cost,
        "share": share(cost.value / program.wall_ns, derived=cost.derived),
        **values,
    }
    return _Habit(cost.value, Fact("watch", verdict, session.name, about))


def _fallback(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    if session.lost_eps and session.calls and session.is_on_cpu:
        yield _habit(program, session, "cpu-fallback", ns(session.total_ns), eps=session.lost_eps, calls=session.calls)


def _opening(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    opened = session.counts["opened"]
    if session.most_opened > 1:
        needless = opened - session.processes
        each = session.counts["open_ns"] / opened
        # A binding keeps what is behind a session, and of sessions in cycles of references no end is seen.
        is_closed = session.counts["closed"] >= needless > 0 and not session.binding
        if is_closed:
            each += session.counts["close_ns"] / session.counts["closed"]
        verdict = "opened-often" if is_closed else "opened-often-seen"
        yield _habit(program, session, verdict, ns(each * needless), opened=opened, each=ns(each))


def _host_copies(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """Of inputs that are not as ONNX Runtime takes them; what a copy takes was measured in the calls that were looked at."""
    for about in session.inputs:
        rows = [
            (signature["n"], row)
            for signature in session.signatures
            for row in signature["inputs"]
            if row[0] == about.name and not row[5]
        ]
        count = sum(n for n, _ in rows)
        if about.copies_ns and count:
            verdict = "not-contiguous" if rows[0][1][1] == "array" else "no-array"
            size = sum(n * row[4] for n, row in rows) / count
            cost = ns(median(about.copies_ns) * count, derived=True)
            yield _habit(program, session, verdict, cost, input=about.name, calls=count, size=bytes_of(size))


def _device_copies(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """Of what need not cross the link. What that takes is known where the change was measured; else it stands behind all others."""
    for habit in copy_habits(session):
        sizes: dict[str, Known] = {"size": bytes_of(habit.size), "copied": bytes_of(habit.copied * session.calls)}
        saved = _saving(program, habit.changes, "ns")
        if saved is None and habit.verdict == "zero-copy":
            continue  # few EPs have memory for it, and nothing is wrong with copies
        if saved is not None:
            yield _habit(program, session, habit.verdict, saved, **sizes, **habit.words)
        else:
            why = "too little for the replay to tell" if session.replay else "see --replay"
            if any(it.is_noisy for it in program.sessions):
                why = "the machine was busy"
            unknown: dict[str, Known] = {"cost": "time unknown", "share": why}
            fact = Fact("watch", habit.verdict, session.name, {**unknown, **sizes, **habit.words})
            yield _Habit(habit.copied * session.calls / _FAST_LINK * 1e9, fact)


_FAST_LINK = 25e9  # bytes/s: what takes an unknown time stands in order as by this


def _saving(program: Watched, changes: Sequence[tuple[str, Change]], what: str) -> Quantity | None:
    """What the program's calls take less with some changes, with its interval; None where one was not measured, or may save nothing."""
    found = []
    for name, change in changes:
        session = next(it for it in program.sessions if it.name == name)
        if (saved := session.saving(change, what)) is None:
            return None
        found.append([session.calls * it for it in (saved[0], *saved[1])])
    middle, low, high = map(sum, zip(*found, strict=True))
    return ns(middle, (low, high)) if low > 0 else None


def _shapes(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """Shapes whose first call takes longer than their later ones; the very first call is the session's warm-up."""
    repeated = [it for it in session.signatures[1:] if it["n"] > it["firsts"]]
    if len(repeated) < 3:
        return
    later = {id(it): (it["ns"] - it["first_ns"]) / (it["n"] - it["firsts"]) for it in repeated}
    slow = [it for it in repeated if it["first_ns"] / it["firsts"] > _SLOWER * later[id(it)]]
    excess = sum(it["first_ns"] - it["firsts"] * later[id(it)] for it in slow)
    if len(slow) >= 3:
        yield _habit(program, session, "slow-shapes", ns(excess), shapes=len(session.signatures), slow=len(slow))


def _threads(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """More threads than there are cores, where fewer were measured and took less."""
    change = fewer_threads(program, session)
    saved = None if change is None else _saving(program, [(session.name, change)], "ns")
    if change is not None and saved is not None:
        yield _habit(program, session, "threads-beyond-cores", saved, threads=session.pool + 1,
                     cores=f"{program.usable_cores:g}", number=str(change["threads"]))  # fmt: skip


def _spinning(program: Watched) -> Iterator[_Habit]:
    """CPU time of threads that wait for the next call: what ending that saves, else what was seen between calls, which is less.

    Of several sessions the sum: one alone may save nothing, as the threads of the others spin more meanwhile."""
    sessions = spinning_sessions(program)
    if not sessions:
        return
    saved = _saving(program, [(it.name, CALM) for it in sessions], "cpu_ns")
    cost = ns(sum(map(spun_ns, sessions))) if saved is None else saved
    of_all = share(cost.value / max(program.cpu_ns, 1))
    if len(sessions) == 1:
        gap = ns(sessions[0].counts["gap_ns"] / sessions[0].counts["gaps"])
        verdict = "spinning-seen" if saved is None else "spinning"
        yield _habit(program, sessions[0], verdict, cost, gap=gap, share=of_all)
    else:
        verdict = "spinning-several-seen" if saved is None else "spinning-several"
        names = [it.name for it in sessions]
        fact = Fact("watch", verdict, "", {"cost": cost, "share": of_all, "sessions": names})
        yield _Habit(cost.value, fact)


def _contention(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """Calls of several threads at the same time, where they take longer than one after the other."""
    counts = session.counts
    if counts["alone"] < ENOUGH or counts["shared"] < ENOUGH:
        return
    alone = counts["alone_ns"] / counts["alone"]
    together = (counts["busy_ns"] - counts["alone_ns"]) / counts["shared"]
    if together > _EDGE * alone:
        yield _habit(program, session, "called-by-many-threads", ns((together - alone) * counts["shared"]),
                     threads=session.most_active, alone=ns(alone), together=ns(together))  # fmt: skip


_GAIN, _COST = Weight.GAIN, Weight.COST
# fmt: off
SENTENCES = {
    ("watch", "cpu-fallback"): Sentence("{mode}: all {calls} calls ran on the CPU, though {eps} was asked for: {cost}, {share}.", "install what the EP lacks (ortbench doctor), or ask for the CPU", _GAIN, "bad", "watch"),
    ("watch", "opened-often"): Sentence("{mode}: opened {opened} times, {each} each with closing: {cost}, {share}.", "open the session once and keep it", _GAIN, "bad", "watch"),
    ("watch", "opened-often-seen"): Sentence("{mode}: opened {opened} times, {each} each: at least {cost}, {share}, as closing was not seen.", "open the session once and keep it", _GAIN, "bad", "watch"),
    ("watch", "not-contiguous"): Sentence("{mode}: input {input} is not contiguous, so ONNX Runtime copies {size} on the host in {calls} calls: {cost}, {share}.", "have the step that computes it write it in C order (out=, or np.ascontiguousarray in place of astype)", _GAIN, "bad", "watch"),
    ("watch", "no-array"): Sentence("{mode}: input {input} is no array and is converted in {calls} calls: {cost}, {share}.", "keep it as a NumPy array", _GAIN, "bad", "watch"),
    ("watch", "constant-input"): Sentence("{mode}: input {input} is the same in each call and is copied to the device each time: {size} a call, {copied} in all: {cost}, {share}.", "copy it once: OrtValue.ortvalue_from_numpy and IO binding", _GAIN, "bad", "watch"),
    ("watch", "state-through-host"): Sentence("{mode}: output {output} comes back as input {input} by way of the host: {size} each way, {copied} in all: {cost}, {share}.", "keep it on the device: IO binding (ortbench loop measures it)", _GAIN, "bad", "watch"),
    ("watch", "link-through-host"): Sentence("{mode}: input {input} is output {output} of {source}, by way of the host: {size} each way, {copied} in all: {cost}, {share}.", "hand it on on the device: run_with_ort_values or IO binding (ortbench chain measures it)", _GAIN, "bad", "watch"),
    ("watch", "unread-output"): Sentence("{mode}: output {output} is copied to the host and dropped: {size} a call, {copied} in all: {cost}, {share}.", "name the outputs that are read in run()", _GAIN, "bad", "watch"),
    ("watch", "zero-copy"): Sentence("{mode}: inputs and outputs in memory that the host and the device reach would save all copies, {size} a call: {cost}, {share}.", "bind HOST_ACCESSIBLE values (ortbench code --mode host-accessible)", _GAIN, "bad", "watch"),
    ("watch", "slow-shapes"): Sentence("{mode}: of {shapes} shapes {slow} are slow in their first call: {cost}, {share}.", "pad to a few shapes, or run each once before it matters", _GAIN, "bad", "watch"),
    ("watch", "threads-beyond-cores"): Sentence("{mode}: {threads} threads on {cores} cores; {number} would save {cost}, {share}.", "set intra_op_num_threads to the cores there are", _GAIN, "bad", "watch"),
    ("watch", "spinning"): Sentence("{mode}: its threads spin in and between calls, which are {gap} apart: {cost} of CPU time, {share} of all.", "add_session_config_entry('session.intra_op.allow_spinning', '0')", _COST, "bad", "watch"),
    ("watch", "spinning-seen"): Sentence("{mode}: its threads spin between calls, which are {gap} apart: at least {cost} of CPU time, {share} of all.", "add_session_config_entry('session.intra_op.allow_spinning', '0')", _COST, "bad", "watch"),
    ("watch", "spinning-several"): Sentence("Threads of {sessions:all} spin in and between calls: {cost} of CPU time, {share} of all, saved if spinning is off in all of these sessions.", "add_session_config_entry('session.intra_op.allow_spinning', '0') for each of these sessions: one alone may save nothing", _COST, "bad", "watch"),
    ("watch", "spinning-several-seen"): Sentence("Threads of {sessions:all} spin between calls: at least {cost} of CPU time, {share} of all, saved if spinning is off in all of these sessions.", "add_session_config_entry('session.intra_op.allow_spinning', '0') for each of these sessions: one alone may save nothing", _COST, "bad", "watch"),
    ("watch", "called-by-many-threads"): Sentence("{mode}: up to {threads} calls at a time end {together} apart; a single one takes {alone}: {cost}, {share}.", "call it from fewer threads, or in processes", _GAIN, "bad", "watch"),
    ("watch", "lost-stream"): Sentence("{what}; host arrays are bound in {sessions}.", "install a release that mends it, or bind values of the device", Weight.ANSWER, "bad", "watch"),
    ("watch", "noise"): Sentence("The machine was too busy to tell what changes of {sessions} save.", WAIT, Weight.ANSWER, "unclear", "watch"),
    ("watch", "no-habit"): Sentence("No habit of this program costs ONNX Runtime time worth a change.", "measure the models: ortbench run", Weight.ANSWER, "good", "watch"),
}
