"""The habits of a program that cost time, each with what it costs there; the costliest first. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from ortbench.analysis.findings.finding import Weight
from ortbench.facts.fact import Fact, Known, Quantity, bytes_of, ns, share
from ortbench.facts.sentences import Sentence
from ortbench.features.watch.analysis import Watched, WatchedSession

MOST = 5
_LEAST = 0.005  # of the program's time: less is not worth a change
_OFTEN = 0.8  # of the calls that were looked at
_ALL = 0.9  # of them: one may have been held up
_ENOUGH = 5  # calls that were looked at
_SLOWER = 1.5  # a first call than later ones
_EDGE = 1.1  # calls at the same time than single ones


class _Habit(NamedTuple):
    cost_ns: float  # the program's time, by which habits are in order
    fact: Fact


def watch_facts(program: Watched) -> list[Fact]:
    """What a program does that costs time, the costliest first."""
    habits = [it for session in program.sessions for it in _habits(program, session) if it.cost_ns > 0]
    return [it.fact for it in sorted(habits, key=lambda it: -it.cost_ns)]


def worth_changing(facts: Sequence[Fact]) -> list[Fact]:
    """The costliest of them, at most five; or that there is nothing."""
    worth = [it for it in facts if not isinstance(part := it.values["share"], Quantity) or part.value >= _LEAST]
    return worth[:MOST] or [Fact("watch", "no-habit")]


def _habits(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    for rule in (_fallback, _opening, _host_copies, _device_copies, _shapes, _spinning, _contention):
        yield from rule(program, session)


def _habit(
    program: Watched, session: WatchedSession, verdict: str, cost_ns: float, derived: bool = False, **values: Known
) -> _Habit:
    cost: dict[str, Known] = {
        "cost": ns(cost_ns, derived=derived),
        "share": share(cost_ns / program.wall_ns, derived=derived),
    }
    return _Habit(cost_ns, Fact("watch", verdict, session.name, {**cost, **values}))


def _fallback(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    if session.lost_eps and session.calls and session.is_on_cpu:
        yield _habit(program, session, "cpu-fallback", session.total_ns, eps=session.lost_eps, calls=session.calls)


def _opening(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    opened = session.counts["opened"]
    if session.most_opened > 1:
        needless = opened - session.processes
        yield _habit(program, session, "opened-often", session.counts["open_ns"] / opened * needless, opened=opened,
                     each=ns(session.counts["open_ns"] / opened))  # fmt: skip


def _host_copies(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """Of inputs that are not as ONNX Runtime takes them; what a copy takes was measured in the calls that were looked at."""
    for it in session.inputs:
        rows = [
            (signature["n"], row)
            for signature in session.signatures
            for row in signature["inputs"]
            if row[0] == it.name and not row[5]
        ]
        count = sum(n for n, _ in rows)
        if it.copies_ns and count:
            verdict = "not-contiguous" if rows[0][1][1] == "array" else "no-array"
            size = sum(n * row[4] for n, row in rows) / count
            yield _habit(
                program,
                session,
                verdict,
                median(it.copies_ns) * count,
                derived=True,
                input=it.name,
                calls=count,
                size=bytes_of(size),
            )


def _device_copies(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """Of what need not cross the link. What that takes is known where the session was measured again; else it stands behind all others."""
    if session.is_on_cpu or session.counts["looked"] < _ENOUGH:
        return
    sent = sum(session.size_of(it.name) for it in session.inputs)
    read = sum(it["bytes"] / it["looked"] for it in session.outputs.values() if it["looked"])
    up, down = (session.replay.get(f"{phase}_ns") for phase in ("h2d", "d2h"))
    for it in session.inputs:
        if it.is_constant and (size := session.size_of(it.name)):
            cost = None if up is None else up * size / sent
            yield _copies(program, session, "constant-input", size, size, cost, input=it.name)
    for (source, output, name), count in session.links.items():
        if count >= _OFTEN * session.looked_changes(name) and (size := session.size_of(name)):
            verdict = "state-through-host" if source == session.name else "link-through-host"
            cost = None if up is None or down is None or not read else up * size / sent + down * size / read
            yield _copies(program, session, verdict, size, 2 * size, cost, input=name, output=output, source=source)
    for name, about in session.outputs.items():
        if about["looked"] >= _ENOUGH and about["unread"] >= _ALL * about["looked"]:
            size = about["bytes"] / about["looked"]
            yield _copies(
                program, session, "unread-output", size, size, None if down is None else down * size / read, output=name
            )


def _copies(
    program: Watched,
    session: WatchedSession,
    verdict: str,
    size: float,
    copied: float,
    each_ns: float | None,
    **values: Known,
) -> _Habit:
    """Of copies that take so long in each call, which nobody may know; in order they stand as on a link of 25 GB/s then."""
    sizes: dict[str, Known] = {"size": bytes_of(size), "copied": bytes_of(copied * session.calls)}
    if each_ns is not None:
        return _habit(program, session, verdict, each_ns * session.calls, derived=True, **sizes, **values)
    least = copied * session.calls / _FAST_LINK * 1e9
    unknown: dict[str, Known] = {"cost": "time unknown", "share": "--replay measures it"}
    return _Habit(least, Fact("watch", verdict, session.name, {**unknown, **sizes, **values}))


_FAST_LINK = 25e9  # bytes/s


def _shapes(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """Shapes whose first call takes longer than their later ones; the very first call is the session's warm-up."""
    repeated = [it for it in session.signatures[1:] if it["n"] > it["firsts"]]
    if len(repeated) < 3:
        return
    later = {id(it): (it["ns"] - it["first_ns"]) / (it["n"] - it["firsts"]) for it in repeated}
    slow = [it for it in repeated if it["first_ns"] / it["firsts"] > _SLOWER * later[id(it)]]
    excess = sum(it["first_ns"] - it["firsts"] * later[id(it)] for it in slow)
    if len(slow) >= 3:
        yield _habit(program, session, "slow-shapes", excess, shapes=len(session.signatures), slow=len(slow))


def _spinning(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """CPU time of the session's threads between calls, while they wait for the next; what they spin inside of calls nobody sees."""
    counts = session.counts
    if counts["looked_gaps"] < _ENOUGH or session.about["entries"].get("session.intra_op.allow_spinning") == "0":
        return
    spun = counts["spin_ns"] / counts["looked_gaps"] * counts["gaps"]
    spun = min(spun, session.pool_ns)
    if counts["gap_ns"] < counts["total_ns"] or spun < 0.05 * program.cpu_ns:
        return  # it is called again at once
    found = _habit(program, session, "spinning", spun, gap=ns(counts["gap_ns"] / counts["gaps"]))
    yield found._replace(
        fact=found.fact._replace(values={**found.fact.values, "share": share(spun / max(program.cpu_ns, 1))})
    )


def _contention(program: Watched, session: WatchedSession) -> Iterator[_Habit]:
    """Calls of several threads at the same time, against those that were alone."""
    counts = session.counts
    if counts["alone"] < _ENOUGH or counts["shared"] < _ENOUGH:
        return
    alone, shared = counts["alone_ns"] / counts["alone"], counts["shared_ns"] / counts["shared"]
    if shared > _EDGE * alone:
        yield _habit(program, session, "called-by-many-threads", (shared - alone) * counts["shared"] / session.most_active, derived=True,
                     threads=session.most_active, alone=ns(alone), together=ns(shared))  # fmt: skip


_GAIN, _COST = Weight.GAIN, Weight.COST
# fmt: off
SENTENCES = {
    ("watch", "cpu-fallback"): Sentence("{mode}: all {calls} calls ran on the CPU, though {eps} was asked for: {cost}, {share}.", "install what the EP lacks (ortbench doctor), or ask for the CPU", _GAIN, "bad", "watch"),
    ("watch", "opened-often"): Sentence("{mode}: opened {opened} times, {each} each: {cost}, {share}.", "open the session once and keep it", _GAIN, "bad", "watch"),
    ("watch", "not-contiguous"): Sentence("{mode}: input {input} is not contiguous, so ONNX Runtime copies {size} on the host in {calls} calls: {cost}, {share}.", "have the step that computes it write it in C order (out=, or np.ascontiguousarray in place of astype)", _GAIN, "bad", "watch"),
    ("watch", "no-array"): Sentence("{mode}: input {input} is no array and is converted in {calls} calls: {cost}, {share}.", "keep it as a NumPy array", _GAIN, "bad", "watch"),
    ("watch", "constant-input"): Sentence("{mode}: input {input} is the same in each call and is copied to the device each time: {size} a call, {copied} in all: {cost}, {share}.", "copy it once: OrtValue.ortvalue_from_numpy and IO binding", _GAIN, "bad", "watch"),
    ("watch", "state-through-host"): Sentence("{mode}: output {output} comes back as input {input} by way of the host: {size} each way, {copied} in all: {cost}, {share}.", "keep it on the device: IO binding (ortbench loop measures it)", _GAIN, "bad", "watch"),
    ("watch", "link-through-host"): Sentence("{mode}: input {input} is output {output} of {source}, by way of the host: {size} each way, {copied} in all: {cost}, {share}.", "hand it on on the device: run_with_ort_values or IO binding (ortbench chain measures it)", _GAIN, "bad", "watch"),
    ("watch", "unread-output"): Sentence("{mode}: output {output} is copied to the host and dropped: {size} a call, {copied} in all: {cost}, {share}.", "name the outputs that are read in run()", _GAIN, "bad", "watch"),
    ("watch", "slow-shapes"): Sentence("{mode}: of {shapes} shapes {slow} are slow in their first call: {cost}, {share}.", "pad to a few shapes, or run each once before it matters", _GAIN, "bad", "watch"),
    ("watch", "spinning"): Sentence("{mode}: its threads spin between calls, which are {gap} apart: at least {cost} of CPU time, {share} of all.", "add_session_config_entry('session.intra_op.allow_spinning', '0')", _COST, "bad", "watch"),
    ("watch", "called-by-many-threads"): Sentence("{mode}: up to {threads} calls at a time, {together} each; a single one takes {alone}: {cost}, {share}.", "call it from fewer threads, or in processes", _GAIN, "bad", "watch"),
    ("watch", "no-habit"): Sentence("No habit of this program costs ONNX Runtime time worth a change.", "measure the models: ortbench run", Weight.ANSWER, "good", "watch"),
}
