"""What the records of a program come to: its sessions, those of all processes together. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple

from ortbench.analysis.noise import busy_reasons
from ortbench.core.eps import CPU_EP
from ortbench.model.schema import MachineNoise

Data = dict[str, Any]
BURST = 8  # calls that the recorder looks at together
ENOUGH = 5  # calls that were looked at
FEWEST = 6  # rounds of a replay whose medians have an interval
MOST_PAUSE_NS = 200_000_000  # between calls of a replay: threads that spin have stopped by then
_OFTEN = 0.8  # of the calls that were looked at
_ALL = 0.9  # of them: one may have been held up
Change = Mapping[str, Any]  # of how a session is called, as `ortbench.features.watch.worker` makes it
CALM: Change = {"config": {"session.intra_op.allow_spinning": "0"}}
ZERO_COPY: Change = {"zero_copy": True}

_SUMS = (
    "opened", "open_ns", "closed", "close_ns", "calls", "failed", "total_ns", "gap_ns", "gaps", "alone", "alone_ns", "shared", "busy_ns", "looked",
    "looked_gaps", "spin_ns", "work_ns",
)  # fmt: skip
_SAME = ("model", "asked", "got", "options", "entries", "output_names", "bytes", "checksum", "library", "ep_options")


@dataclass
class WatchedInput:
    name: str
    same: int = 0  # calls that were looked at in which it was what it had been in the one before
    changed: int = 0
    # what copies took that ONNX Runtime had to make on the host, for it was not contiguous or no array; of some calls
    copies_ns: list[int] = field(default_factory=list)


@dataclass
class WatchedSession:
    """All sessions of a model with the same settings, in all processes."""

    name: str
    about: Data
    counts: dict[str, int]
    processes: int
    most_opened: int  # in a process
    pool: int  # threads that one session made
    pool_ns: int  # CPU time of these
    most_active: int  # calls at a time
    histogram: dict[int, int]
    signatures: list[Data]
    inputs: list[WatchedInput]
    outputs: dict[str, Data]
    links: dict[tuple[str, str, str], int]  # calls that were looked at, by session and output of before, and input
    path: str  # of the model's file; empty where it was given as bytes and not kept
    binding: Data = field(default_factory=dict)
    # By the change, as JSON: what a call of it takes less (wall and CPU time, with their intervals), or why it could not be measured.
    replay: dict[str, Data] = field(default_factory=dict)
    noise: MachineNoise | None = None  # of the machine, while that was measured

    def saving(self, change: Change, what: str) -> tuple[float, tuple[float, float]] | None:
        """What a call with a change takes less, with its interval, ns; None where that was not measured, or the machine was busy."""
        found = None if self.is_noisy else self.replay.get(json.dumps(change), {}).get(what)
        return None if found is None else (found[0], (found[1], found[2]))

    @property
    def is_noisy(self) -> bool:
        """Whether the machine was too busy for the replay. A limit that stopped its calls is none of that: it stops the program's too."""
        return self.noise is not None and busy_reasons(self.noise) not in ([], ["stopped"])

    @property
    def calls(self) -> int:
        return self.counts["calls"]

    @property
    def total_ns(self) -> int:
        return self.counts["total_ns"]

    @property
    def is_on_cpu(self) -> bool:
        return self.about["got"][:1] in ([], [CPU_EP])

    @property
    def lost_eps(self) -> list[str]:
        """The EPs that were asked for and that the session does not have."""
        return [it for it in self.about["asked"] if it not in self.about["got"]]

    def looked_changes(self, name: str) -> int:
        """Calls that were looked at in which an input was another than in the one before, less the first of each burst, whose origin was
        not looked at."""
        changed = next(it.changed for it in self.inputs if it.name == name)
        return max(1, changed - changed // BURST)

    def size_of(self, name: str) -> float:
        """Bytes of an input that a call copies to the device; 0 of one that is there."""
        rows = [
            (signature["n"], row[4])
            for signature in self.signatures
            for row in signature["inputs"]
            if row[0] == name and row[1] in _ON_HOST
        ]
        return sum(n * size for n, size in rows) / sum(n for n, _ in rows) if rows else 0.0

    @property
    def bytes_per_call(self) -> float:
        """What is copied between host and device for a call."""
        if self.is_on_cpu or not self.calls:
            return 0.0
        sent: int = sum(it["n"] * sum(row[4] for row in it["inputs"] if row[1] in _ON_HOST) for it in self.signatures)
        read: float = sum(it["n"] * it["out"][0] / it["out"][1] for it in self.signatures if it["out"][1])
        return (sent + read + int(self.binding.get("copied_bytes", 0))) / self.calls

    def percentile(self, share: float) -> float | None:
        """A percentile of a call's time, within 2 %."""
        rank, seen = share * (self.calls - 1), 0
        for bucket, count in sorted(self.histogram.items()):
            seen += count
            if seen > rank:
                # 32 to an octave: the middle of the durations that are counted there.
                width, step = bucket >> 5, bucket & 31
                return float(step) if width <= 6 else (32 + step + 0.5) * 2 ** (width - 6)
        return None


_ON_HOST = ("array", "list", "tuple", "cpu")


@dataclass
class Watched:
    command: list[str]
    exit_code: int
    wall_ns: int
    cpu_ns: int  # of all processes that ended
    cores: int
    quota: float | None
    throttled_ns: int  # in which the quota stopped it
    has_python: bool  # whether any process had the recorder
    processes: list[Data]  # that loaded ONNX Runtime
    sessions: list[WatchedSession]

    @property
    def busy_ns(self) -> int:
        """The time in which a session was called, on average over the processes that did."""
        busy = [it["busy_ns"] for it in self.processes if it["busy_ns"]]
        return sum(busy) // len(busy) if busy else 0

    @property
    def usable_cores(self) -> float:
        return self.cores if self.quota is None else min(self.cores, self.quota)


def merge_sessions(processes: Sequence[Data]) -> list[WatchedSession]:
    """The sessions of all processes, those with the most time first."""
    groups: dict[str, list[tuple[int, Data]]] = {}
    for number, process in enumerate(processes):
        for session in process["sessions"]:
            key = json.dumps({name: session.get(name) for name in _SAME}, sort_keys=True)
            groups.setdefault(key, []).append((number, session))
    merged = [_merge(rows) for rows in groups.values()]
    used = [it for it in merged if it.calls or it.counts["opened"]]
    used.sort(key=lambda it: -it.total_ns)
    for session, name in zip(used, distinct_names([it.name for it in used]), strict=True):
        session.name = name
    keys = {
        (number, record["number"]): session
        for session, rows in zip(merged, groups.values(), strict=True)
        for number, record in rows
    }
    for number, process in enumerate(processes):
        for record in process["sessions"]:
            links = keys[number, record["number"]].links
            for source, output, name, count in record["links"]:
                if (number, source) in keys:
                    link = keys[number, source].name, output, name
                    links[link] = links.get(link, 0) + count
    return used


def session_name(session: Data) -> str:
    return PurePath(session["model"]).name or "model in memory"


def distinct_names(names: Iterable[str]) -> list[str]:
    """Names of which no two are alike."""
    seen: dict[str, int] = {}
    made = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        made.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return made


def _merge(rows: Sequence[tuple[int, Data]]) -> WatchedSession:
    sessions = [it for _, it in rows]
    first = sessions[0]
    opened, histogram = Counter[int](), Counter[int]()
    signatures: dict[str, Data] = {}
    inputs: dict[str, WatchedInput] = {}
    outputs: dict[str, Counter[str]] = {}
    binding: Data = {}
    for number, session in rows:
        opened[number] += session["opened"]
        histogram.update(dict(session["histogram"]))
        for signature in session["signatures"]:
            _add_signature(signatures, signature)
        for name, about in session["inputs"].items():
            known = inputs.setdefault(name, WatchedInput(name))
            for key in ("same", "changed", "copies_ns"):
                setattr(known, key, getattr(known, key) + about[key])
        for name, about in session["outputs"].items():
            outputs.setdefault(name, Counter()).update(about)
        for key, value in session["binding"].items():
            binding[key] = binding.get(key, 0) + value if isinstance(value, int) else value
    return WatchedSession(
        name=session_name(first),
        about={key: first[key] for key in _SAME if key in first},
        counts={key: sum(it[key] for it in sessions) for key in _SUMS},
        processes=len({number for number, it in rows if it["calls"] or it["opened"]}),
        most_opened=max(opened.values()),
        pool=max(it["pool"] for it in sessions),
        pool_ns=sum(it["pool_ns"] for it in sessions),
        most_active=max(it["most_active"] for it in sessions),
        histogram=dict(histogram),
        signatures=list(signatures.values()),
        inputs=list(inputs.values()),
        outputs={name: dict(counts) for name, counts in outputs.items()},
        links={},
        path=first["model"] or first["copy"],
        binding=binding,
    )


def _add_signature(signatures: dict[str, Data], signature: Data) -> None:
    key = json.dumps(signature["inputs"])
    if key not in signatures:
        signatures[key] = {**signature, "firsts": 1, "out": [*signature["out"]]}
        return
    known = signatures[key]
    for name in ("n", "ns", "first_ns"):
        known[name] += signature[name]
    known["firsts"] += 1
    known["out"] = [a + b for a, b in zip(known["out"], signature["out"], strict=True)]


class CopyHabit(NamedTuple):
    """Copies between host and device in each call that need not be."""

    verdict: str
    size: float  # bytes of the tensor
    copied: float  # bytes a call
    words: Mapping[str, str]  # names of input, output and source
    changes: Sequence[tuple[str, Change]]  # which ends them, by session


def copy_habits(session: WatchedSession) -> Iterator[CopyHabit]:
    if session.is_on_cpu or session.counts["looked"] < ENOUGH:
        return
    for fed in session.inputs:
        if fed.same >= 3 and not fed.changed and (size := session.size_of(fed.name)):
            yield CopyHabit(
                "constant-input", size, size, {"input": fed.name}, [(session.name, {"resident": [fed.name]})]
            )
    for (source, output, name), count in session.links.items():
        if count >= _OFTEN * session.looked_changes(name) and (size := session.size_of(name)):
            words = {"input": name, "output": output, "source": source}
            if source == session.name:
                changes: list[tuple[str, Change]] = [(source, {"states": [[output, name]]})]
                yield CopyHabit("state-through-host", size, 2 * size, words, changes)
            else:
                changes = [(session.name, {"resident": [name]}), (source, {"kept": [output]})]
                yield CopyHabit("link-through-host", size, 2 * size, words, changes)
    for name, about in session.outputs.items():
        if about["looked"] >= ENOUGH and about["unread"] >= _ALL * about["looked"]:
            size = about["bytes"] / about["looked"]
            yield CopyHabit("unread-output", size, size, {"output": name}, [(session.name, {"dropped": [name]})])
    if size := session.bytes_per_call:
        yield CopyHabit("zero-copy", size, size, {}, [(session.name, ZERO_COPY)])


def input_bytes(signature: Data) -> int:
    return sum(row[4] for row in signature["inputs"])


def main_signature(session: WatchedSession) -> Data:
    """The one whose inputs have about as many bytes as those of its calls on average: what copies take goes by bytes."""
    sizes = [(input_bytes(it), it) for it in session.signatures if it["n"]]
    mean = sum(size * it["n"] for size, it in sizes) / session.calls
    return min(sizes, key=lambda it: abs(it[0] - mean))[1]


def own_binding(session: WatchedSession) -> Change:
    """How the program itself calls the session: what it leaves on the device; empty where it calls it with arrays."""
    rows = main_signature(session)["inputs"]
    outputs = session.binding.get("outputs", {}) if session.binding.get("calls", 0) > session.calls / 2 else {}
    resident = [it[0] for it in rows if it[1] not in _ON_HOST]
    kept = [name for name, memory in outputs.items() if memory != "cpu"]
    is_copied = session.binding.get("copies", 0) > session.calls / 2
    return {"resident": resident, "copied" if is_copied else "kept": kept} if outputs or resident else {}


def spun_ns(session: WatchedSession) -> float:
    """CPU time that the session's threads spun between calls; 0 where the next call comes soon."""
    counts = session.counts
    if counts["looked_gaps"] < ENOUGH or session.about["entries"].get("session.intra_op.allow_spinning") == "0":
        return 0.0
    spun = min(counts["spin_ns"] / counts["looked_gaps"] * counts["gaps"], session.pool_ns)
    return spun if counts["gap_ns"] >= _PACED_NS * counts["gaps"] else 0.0


def spinning_sessions(program: Watched) -> list[WatchedSession]:
    """Those whose threads spin, where that is worth a change: of all together, as the threads of one spin more where those of others stop."""
    spun = [(it, spun_ns(it)) for it in program.sessions]
    spun = [(it, spent) for it, spent in spun if spent > _LEAST_SPUN * program.cpu_ns]
    return [it for it, _ in spun] if sum(spent for _, spent in spun) > _SPUN * program.cpu_ns else []


def changes_of(program: Watched) -> dict[str, list[Change]]:
    """The changes that would save something, by session; those of the same kind are tried once."""
    found: dict[str, list[Change]] = {}
    spinning = {it.name for it in spinning_sessions(program)}
    for session in program.sessions:
        for habit in copy_habits(session):
            for name, change in habit.changes:
                found.setdefault(name, []).append(change)
        if session.name in spinning:
            found.setdefault(session.name, []).append(CALM)
        if (fewer := fewer_threads(program, session)) is not None:
            found.setdefault(session.name, []).append(fewer)
    return {name: [*{json.dumps(it): it for it in changes}.values()] for name, changes in found.items()}


_PACED_NS = 1_000_000  # from one call to the next on average: for a shorter wait spinning is meant
_SPUN, _LEAST_SPUN = 0.05, 0.005  # of the program's CPU time, by all sessions and by one: less is not worth a change


def fewer_threads(program: Watched, session: WatchedSession) -> Change | None:
    """The change to as many threads as there are cores for the program; None where there are not more."""
    cores = max(1, int(program.usable_cores))
    is_used = session.is_on_cpu and session.pool + 1 > cores and session.counts["total_ns"] >= 0.01 * program.wall_ns
    return {"threads": cores} if is_used else None
