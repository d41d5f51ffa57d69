"""Why a candidate is slower than its baseline: the changes between their nodes as shares of the difference, in words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from ortbench.analysis.comparing.comparable import changes as settings_changed
from ortbench.analysis.comparing.compare import BETWEEN_RUNS, CANNOT_TELL, FASTER, SLOWER, between, word
from ortbench.analysis.comparing.series import Key, series_at
from ortbench.analysis.nodes.each_node import is_compiled, is_put_in
from ortbench.analysis.nodes.islands import FROM_HOST, TO_HOST
from ortbench.analysis.nodes.node_times import COMPILED
from ortbench.analysis.noise import allows_within
from ortbench.analysis.why import changes as kinds
from ortbench.analysis.why.changes import ADDED, REST, SAME, Change, called, changes, operator, whole
from ortbench.core.errors import BadInput
from ortbench.core.safe_text import listed
from ortbench.core.units import duration, durations, share, size
from ortbench.model.metrics import figure
from ortbench.model.modes import LATENCY, MODES
from ortbench.model.result import Result
from ortbench.model.schema import ModelContent, Nodes, ProfiledNode

_CLEAR = 0.5  # of what a change claims, or of the difference if that is less: what must be saved at least when it is taken back
_NAMES = 3  # that are listed; of more the first and the last
_OPERATORS = 2  # of many nodes: those whose nodes are named
_LEAST = 0.02  # of the difference: what is worth a sentence
_MUCH = 0.2  # of the difference: what outside of nodes is worth one


@dataclass(frozen=True)
class Confirmation:
    """What taking a change back in the candidate's model did to its time, without the profiler."""

    confirmed: bool
    text: str
    saved_ns: float | None = None
    ci95: tuple[float, float] | None = None


@dataclass(frozen=True)
class Why:
    """What makes the difference of two results in a mode; times in ns per inference."""

    mode: str
    base_ns: float
    own_ns: float  # where a gate tells, by its ratio, which a busy machine changes less than medians
    verdict: str  # whether the latencies differ for certain: a word of `ortbench.analysis.comparing.compare`
    changes: Sequence[Change]  # the largest first
    profiled_ns: tuple[float, float]  # an inference under the profiler: the baseline's, the candidate's
    profiled_ci95: tuple[float, float] | None  # of their difference
    others: Sequence[str]  # what else changed, in words
    limits: Sequence[str]  # what is not known, in sentences
    confirmation: Confirmation | None = None
    by_ratio: bool = False  # `own_ns` is by a gate's ratio

    @property
    def ns(self) -> float:
        return self.own_ns - self.base_ns

    @property
    def certain(self) -> bool:
        return self.verdict in (FASTER, SLOWER)

    @property
    def profiled(self) -> float:
        """What an inference takes longer under the profiler, ns."""
        return self.profiled_ns[1] - self.profiled_ns[0]

    @property
    def is_profiled(self) -> bool:
        """Whether the profiler shows the difference for certain too."""
        if not self.certain or self.profiled_ci95 is None or self.profiled * self.ns <= 0:
            return False
        low, high = self.profiled_ci95
        return (low > 0 or high < 0) and min(abs(low), abs(high)) > BETWEEN_RUNS * self.profiled_ns[0]

    def share(self, ns: float) -> float | None:
        """A profiled time as a share of the profiled difference; None where there is none for certain."""
        return ns / self.profiled if self.is_profiled else None

    @property
    def unexplained_ns(self) -> float:
        """What of the profiled difference is outside of nodes."""
        return self.profiled - sum(it.ns for it in self.changes)

    @property
    def culprit(self) -> Change | None:
        """The first change; None where it makes nothing of the difference for certain."""
        first = next(iter(self.changes), None)
        if first is None or first.kind == REST or not self.certain or (first.kind == SAME and not self.is_profiled):
            return None
        little = first.ns / (self.profiled if self.is_profiled else self.ns) < _LEAST
        return None if little or first.ci95 is None or first.ci95[0] <= 0 <= first.ci95[1] else first

    def with_confirmation(self, found: Confirmation | None) -> Why:
        return replace(self, confirmation=found)


def explain(base: Result, own: Result, modes: Sequence[str] = (), told: Mapping[str, float] | None = None) -> Why:
    """Why a result differs from its baseline, in the first of some modes that both have, by default of all, of some of which a gate
    may have `told` for certain, by pairs of blocks, how many times as long the result takes; `BadInput`: one has no nodes, or they have no mode in common."""
    for name, result in (("the baseline", base), ("the candidate", own)):
        if result.nodes is None or "each" not in result.nodes:
            reason = f"{name} has no nodes: measure it with --measure-nodes"
            raise BadInput(f"--why: {reason}", "--why")
    assert base.nodes is not None
    assert own.nodes is not None
    shared = [it for it in (*modes, *MODES) if base.case(it) is not None and own.case(it) is not None]
    timed = [it for it in shared if base.median(it, LATENCY) and own.median(it, LATENCY)]
    if not timed:
        raise BadInput("--why: no mode was measured in both", "--why")
    mode = timed[0]
    one, other = (series_at(it, Key(mode, (), figure(LATENCY))) for it in (base, own))
    assert one is not None
    assert other is not None
    found = between(base, one, own, other)
    verdict = CANNOT_TELL if found is None else word(found, BETWEEN_RUNS)
    if (ratio := (told or {}).get(mode)) is not None:
        verdict = SLOWER if ratio > 1 else FASTER

    def leaves(least: float) -> bool:
        """Whether noise of the machine leaves the claim that nodes take so many times as long; of them it has no rounds."""
        return all(allows_within(result, it.case, least, {}) for result, it in ((base, one), (own, other)))

    base_ns, own_ns, ci95 = whole(base.nodes, own.nodes)
    return Why(
        mode,
        one.value,
        other.value if ratio is None else one.value * ratio,
        verdict,
        changes(base.nodes, own.nodes, leaves),
        (base_ns, own_ns),
        ci95,
        _others(base, own),
        list(_limits(base, own)),
        by_ratio=ratio is not None,
    )


# What else changed


def _others(base: Result, own: Result) -> list[str]:
    assert base.nodes is not None
    assert own.nodes is not None
    mine, theirs = (_content(one, other) for one, other in ((base, own), (own, base)))
    counts = [
        _counted("number of Memcpy nodes{}", *({"": _memcpy(it.nodes)} for it in (base, own))),
        _counted("nodes that ONNX Runtime fused into {}", _fused(base.nodes, mine), _fused(own.nodes, theirs)),
    ]
    if mine is not None and theirs is not None:
        counts.append(_counted("opset {}", mine["opsets"], theirs["opsets"]))
        counts.append(_counted("initializers of type {}", _weights(mine), _weights(theirs)))
    return [*settings_changed(base, own), *(line for lines in counts for line in lines)]


def _content(one: Result, other: Result) -> ModelContent | None:
    """That of a model, which the worker of another environment may not have read."""
    same = one.model["sha256"] == other.model["sha256"]
    found = [it.nodes.get("content") for it in ((one, other) if same else (one,)) if it.nodes is not None]
    return next((it for it in found if it is not None), None)


def _memcpy(nodes: Nodes | None) -> int:
    return 0 if nodes is None else sum(it["op"] in (TO_HOST, FROM_HOST) for it in nodes["each"])


def _fused(nodes: Nodes, content: ModelContent | None) -> dict[str, int]:
    """How many nodes of each operator ONNX Runtime made of others."""
    known = {it.rpartition(":")[2] for it in content["operators"]} if content is not None else None
    own = (
        it["op"]
        for it in nodes["each"]
        if not is_put_in(it["op"], it["name"])
        and not is_compiled(it)
        and (len(it["of"]) > 1 or (it["inputs"] is None and known is not None and it["op"] not in known))
    )
    return dict(Counter(own))


def _weights(content: ModelContent) -> dict[str, str]:
    return {it["type"]: f"{it['count']} ({size(it['bytes'])} together)" for it in content["weights"]}


def _counted(what: str, base: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """The entries that differ, in words; ``{}`` in `what` stands for the name of one."""
    names = [name for name in {**base, **own} if base.get(name) != own.get(name)]
    return [f"{what.format(name)}: {base.get(name, 0)} → {own.get(name, 0)}" for name in names]


def _limits(base: Result, own: Result) -> Iterator[str]:
    for name, result in (("baseline", base), ("candidate", own)):
        assert result.nodes is not None
        compiled = [it for it in result.nodes["each"] if is_compiled(it)]
        if compiled:
            what = "a graph" if len(compiled) == 1 else f"{len(compiled)} graphs"
            yield f"{compiled[0]['ep']} compiled {what} of the {name} whole: what changed inside is not known"
    if any(it.target["memory"]["kind"] != "host" for it in (base, own)):
        yield (
            "Where the EP works asynchronously, a node's time is that of its launch: the device's own time is in the copies "
            "to the host, or outside of nodes"
        )


# Sentences


def sentence(why: Why) -> str:
    """The answer in a line, without a period."""
    found = [it for it in why.changes if it.kind not in (REST, SAME)]
    changed = f"; changed: {'; '.join(map(phrase, found[:2]))}" if found else ""
    if not why.certain:
        unclear = why.verdict == CANNOT_TELL
        return f"{f'cannot tell whether {why.mode} differs' if unclear else f'no difference in {why.mode}'}{changed}"
    difference = f"{why.mode} takes {duration(abs(why.ns))} {'longer' if why.ns > 0 else 'less'}"
    culprit = why.culprit
    if culprit is not None and why.confirmation is not None and why.confirmation.confirmed:  # which says how much of it
        return f"{why.mode} takes {'longer' if why.ns > 0 else 'less'} because of {phrase(culprit)}"
    if not why.is_profiled:
        return f"{difference}, which the profiler does not show{changed}"
    if culprit is None:
        return f"{difference}; no changed nodes explain a measurable part of that"
    part, left = why.share(culprit.ns), why.share(why.unexplained_ns)
    assert part is not None
    assert left is not None
    more = f"; {share(left)} is outside of nodes, with the profiler's own time" if left > _MUCH else ""
    of_profiled = f"under the profiler {duration(abs(why.profiled))}, {share(part) if part < 1 else 'all'} of which"
    return f"{difference}; {of_profiled}: {phrase(culprit)}{more}"


def phrase(change: Change) -> str:
    own, base = change.own, change.base
    after = f" after {'a ' if change.after == COMPILED else ''}{change.after}" if change.after else ""
    match change.kind:
        case kinds.ADDED:
            model, put_in = _by_origin(own)
            if not model:
                return f"{_nodes(own, 'added ')}{after}, {_INSERTED}"
            more = f", with {listed([*by_time(put_in)])}, {_INSERTED}" if put_in else ""
            return f"{_nodes(model, 'added ')}{after}{more}"
        case kinds.GONE:
            return f"{_nodes(base, '')} {'is' if len(base) == 1 else 'are'} gone{after}"
        case kinds.REPLACED:
            return f"{_nodes(own, '')} in place of {_nodes(base, '')}"
        case kinds.FUSED:
            return f"{_nodes(own, '')}, {change.word}, in place of {_nodes(base, '')}"
        case kinds.MOVED:
            kept = [it for it in own if it["ep"] not in {b["ep"] for b in base}] or own
            eps = " and ".join(sorted({it["ep"] for it in kept}))
            was = " and ".join(sorted({it["ep"] for it in base}))
            return f"{_nodes(kept, '')} on {eps} in place of {was}{_besides(own, kept)}"
        case kinds.CHANGED:
            a, b = _differing(base, own)
            return f"{_nodes([b], '')} with {_types(a)} → {_types(b)}{_besides(own, [b])}"
        case kinds.REST:
            return f"all other nodes ({len(own)})"
    few = change.mainly or own
    of = f" of {len(own)}" if len(few) < len(own) else ""
    named = "" if names(few) == operator(own[0]) else f" ({names(few)})"
    verdict = f"{'slower' if change.ns > 0 else 'faster'}, otherwise unchanged"
    return f"{len(few)}{of} node{'s' if len(own) > 1 else ''} {operator(own[0])}{named} {verdict}"


def _differing(base: Sequence[ProfiledNode], own: Sequence[ProfiledNode]) -> tuple[ProfiledNode, ProfiledNode]:
    """The first nodes of both of one operator whose types or shapes differ."""
    pairs = [(a, b) for a in base for b in own if a["op"] == b["op"]]
    return next(((a, b) for a, b in pairs if (a["reads"], a["gives"]) != (b["reads"], b["gives"])), (base[0], own[0]))


def _besides(own: Sequence[ProfiledNode], named: Sequence[ProfiledNode]) -> str:
    others = [it for it in own if it not in named]
    return f", and {_nodes(others, '')}" if others else ""


def _nodes(nodes: Sequence[ProfiledNode], what: str) -> str:
    """Nodes in a few words: ``20 added nodes Clip (clip_1 … clip_20)``; of many of several operators those that take most first,
    ``9 nodes Clip ×8 (clip_1 … clip_8) and Relu``."""
    ops = by_time(nodes)
    counted = {op: op if len(of) == 1 or len(ops) == 1 else f"{op} ×{len(of)}" for op, of in ops.items()}
    begin = f"{len(nodes)} {what}node{'s' if len(nodes) > 1 else ''}"
    if len(nodes) <= _NAMES or len(ops) == 1:
        return f"{begin} {listed(list(counted.values()))} ({names(nodes)})"
    named = [op for op in ops if op != COMPILED and not is_put_in(op, "")][:_OPERATORS]
    return f"{begin} {listed([f'{counted[op]} ({names(ops[op])})' if op in named else counted[op] for op in ops])}"


_INSERTED = "which ONNX Runtime inserts"


def of_model(nodes: Sequence[ProfiledNode]) -> list[ProfiledNode]:
    """Nodes without those that ONNX Runtime inserted, unless it inserted all of them."""
    own, put_in = _by_origin(nodes)
    return own or put_in


def _by_origin(nodes: Sequence[ProfiledNode]) -> tuple[list[ProfiledNode], list[ProfiledNode]]:
    """Nodes that are the model's, and those that ONNX Runtime inserted."""
    put_in = [it for it in nodes if is_put_in(it["op"], it["name"])]
    return [it for it in nodes if it not in put_in], put_in


def by_time(nodes: Sequence[ProfiledNode]) -> dict[str, list[ProfiledNode]]:
    """Nodes by operator, those of the one that takes most first."""
    ops: dict[str, list[ProfiledNode]] = {}
    for it in nodes:
        ops.setdefault(operator(it), []).append(it)
    return dict(sorted(ops.items(), key=lambda it: -sum(median(node["ns"]) for node in it[1])))


def few_names(nodes: Sequence[ProfiledNode]) -> str:
    """The names of some nodes, of many of several operators those of the one that takes most."""
    if len(nodes) <= _NAMES:
        return names(nodes)
    ops = by_time(nodes)
    first = next((of for op, of in ops.items() if op != COMPILED and not is_put_in(op, "")), [nodes[0]])
    more = len(nodes) - len(first)
    return f"{names(first)} and {more} more" if more else names(first)


def names(nodes: Sequence[ProfiledNode]) -> str:
    """Their names, of many the first and the last."""
    every = [called(it) for it in nodes]
    return ", ".join(every) if len(every) <= _NAMES else f"{every[0]} … {every[-1]}"


def _types(node: ProfiledNode) -> str:
    return f"{' × '.join(node['reads']) or 'nothing'} to {', '.join(node['gives'])}"


# Confirmation


def confirmation(
    change: Change, saved: tuple[float, float] | None, saved_ns: float, difference_ns: float, own_ns: float
) -> Confirmation:
    """What it means that a candidate without a change was faster by so much, ns, with the interval of that, where with it an inference
    took `own_ns`, and was slower than the baseline by `difference_ns`."""
    count = len(of_model(change.own))
    nodes = "the added node" if count == 1 else f"the {count} added nodes"
    what = f"without {nodes}" if change.kind == ADDED else "with the baseline's nodes instead"
    if saved is None:
        return Confirmation(False, "not confirmed: too few rounds were measured", saved_ns)
    took, ends = ("less", saved) if saved_ns > 0 else ("more", (-saved[1], -saved[0]))
    times = f"the baseline takes {duration(own_ns - difference_ns)}, the candidate {duration(own_ns)}, the candidate {what} {duration(own_ns - saved_ns)}"
    text = f"in another run, without the profiler, {times}: {duration(abs(saved_ns))} {took} (95% CI {durations(ends)} within these processes; others can differ by more)"
    if difference_ns <= 0:
        text = f"cannot tell: {text}, and the candidate is not slower than the baseline"
        return Confirmation(False, text, saved_ns, saved)
    # What the profiler shows has its own time in it; what is saved must be much of that or of the whole difference, and not many times it.
    least, most = _CLEAR * min(change.ns, difference_ns), max(change.ns, difference_ns) / _CLEAR
    if saved[0] > 0 and least <= saved_ns <= most:
        text = f"confirmed: {text}, {_of_difference(saved, saved_ns, difference_ns)}"
        return Confirmation(True, text, saved_ns, saved)
    if least <= saved[1] and saved[0] <= most:
        return Confirmation(False, f"cannot tell: {text}", saved_ns, saved)
    why_not = "" if saved[0] <= 0 else f", not the {duration(abs(change.ns))} of the profile"
    return Confirmation(False, f"not confirmed: {text}{why_not}", saved_ns, saved)


_WHOLE = 1.05  # times a difference, up to which what is saved is all of it


def _of_difference(saved: tuple[float, float], saved_ns: float, ns: float) -> str:
    """Which part of the difference is saved."""
    if saved[0] > _WHOLE * ns:
        return "more than the whole difference in that run"
    return f"{share(saved_ns / ns) if saved_ns < ns else 'all'} of the difference in that run"


def not_confirmed(reason: str) -> Confirmation:
    return Confirmation(False, f"not confirmed: {reason}")


# As data


def why_data(why: Why) -> dict[str, Any]:
    """All of it for JSON; times in ns per inference."""
    return {
        "sentence": sentence(why),
        "mode": why.mode,
        "baseline_ns": round(why.base_ns),
        "candidate_ns": round(why.own_ns),
        "certain": why.certain,
        "changes": [_data(why, it) for it in why.changes],
        "unexplained_ns": round(why.unexplained_ns),
        "profiled_ns": {"baseline": round(why.profiled_ns[0]), "candidate": round(why.profiled_ns[1])},
        "others": list(why.others),
        "limits": list(why.limits),
        "confirmation": None
        if (told := why.confirmation) is None
        else {
            "confirmed": told.confirmed,
            "text": told.text,
            "saved_ns": None if told.saved_ns is None else round(told.saved_ns),
            "ci95": None if told.ci95 is None else [round(it) for it in told.ci95],
        },
    }


def _data(why: Why, change: Change) -> dict[str, Any]:
    keys = ("name", "op", "ep", "of", "reads", "gives")
    shown = [] if change.kind == REST else [change.base, change.own]
    return {
        "kind": change.kind,
        "text": phrase(change),
        "baseline_ns": round(change.base_ns),
        "candidate_ns": round(change.own_ns),
        "ci95": None if change.ci95 is None else [round(it) for it in change.ci95],
        "share": None if (part := why.share(change.ns)) is None else round(part, 4),
        "nodes": {
            name: [{key: it[key] for key in keys} for it in side]  # type: ignore[literal-required]
            for name, side in zip(("baseline", "candidate"), shown, strict=False)
        },
    }
