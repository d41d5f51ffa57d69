"""Why a candidate differs from its baseline: the changes between their nodes as shares of the difference; and the facts
of that: the answer, the changes, and what taking one back did. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from ortbench.analysis.advice import Weight
from ortbench.analysis.comparable import changes as settings_changed
from ortbench.analysis.comparison import CANNOT_TELL, FASTER, SLOWER, compare_series, word
from ortbench.analysis.intervals import MARGIN, OPEN, verdict_of
from ortbench.analysis.intervals import SAME as SAME_AS
from ortbench.analysis.node_times import is_compiled, is_put_in, name_node, operator
from ortbench.analysis.noise import busy_reasons, supports_within
from ortbench.analysis.placement import FROM_HOST, TO_HOST
from ortbench.analysis.series import Key, series_at
from ortbench.core.errors import BadInput
from ortbench.core.units import size
from ortbench.facts import Fact, Known, Values, ns, record, share
from ortbench.facts.sentences import LONGER, Sentence, sentence
from ortbench.features.why.analysis import (
    ADDED,
    CHANGED,
    FUSED,
    GONE,
    MOVED,
    QUANTIZED,
    REPLACED,
    REST,
    SAME,
    Change,
    changes,
    is_told,
    rows,
    whole,
)
from ortbench.model.metrics import figure
from ortbench.model.modes import LATENCY, MODES
from ortbench.model.result import Result
from ortbench.model.schema import ModelContent, Nodes, ProfiledNode

_CLEAR = 0.5  # of what a change claims, or of the difference if that is less: what must be saved at least when it is taken back
_LEAST = 0.02  # of the difference: what is worth a sentence

CONFIRMED, NOT_CONFIRMED = "confirmed", "not-confirmed"
_ANSWER, _DETAIL = Weight.ANSWER, Weight.DETAIL
_CHANGES = 2  # of which there are facts where none is known to make the difference
_VERDICTS = {
    ADDED: "added", GONE: "gone", REPLACED: "replaced", FUSED: "fused", MOVED: "moved",
    CHANGED: "other-types", QUANTIZED: "quantized", REST: "rest",
}  # fmt: skip


class Confirmation(NamedTuple):
    """What taking a change back in the candidate's model did to its time, without the profiler."""

    reason: str  # why it could not be measured, or ""
    verdict: str = NOT_CONFIRMED  # or `CONFIRMED`, ``open``, ``not-slower``
    saved_ns: float | None = None
    ci95: tuple[float, float] | None = None
    # own_ns, difference_ns: what the candidate took in that run, and by how much longer than the baseline
    own_ns: float | None = None
    difference_ns: float | None = None


@dataclass(frozen=True)
class Why:
    """What makes the difference of two results in a mode; times in ns per inference."""

    mode: str
    base_ns: float
    median_ns: float  # of the candidate, as tables have it
    own_ns: float  # the same; where a gate tells, by its ratio, which a busy machine changes less than medians
    verdict: str  # whether the latencies differ for certain: a word of `ortbench.analysis.comparison`
    rows: Sequence[Change]  # every node with what stands for it, what differs most first
    changes: Sequence[Change]  # those that are alike together, the largest first
    profiled_ns: tuple[float, float]  # an inference under the profiler: the baseline's, the candidate's
    profiled_ci95: tuple[float, float] | None  # of their difference
    others: Sequence[str]  # what else changed, in words
    # the graphs that an EP compiled whole, of the baseline and the candidate
    compiled: Mapping[str, Sequence[ProfiledNode]]
    is_asynchronous: bool  # the EP may work on while a node's time is that of its launch
    slower: Sequence[Change] = ()  # nodes that take longer for certain
    confirmation: Confirmation | None = None
    in_float: Confirmation | None = None  # of `loss`
    is_busy: bool = False  # the machine was, of which the intervals of single nodes know nothing

    @property
    def loss(self) -> Change | None:
        """What was quantized and takes longer for it, unless that is what makes the candidate slower; to be measured, as noise may have
        made it."""
        if self.ns > 0 and self.culprit is not None:
            return None
        least = _LEAST * self.profiled_ns[1]
        return next((it for it in self.rows if it.kind == QUANTIZED and it.ns >= least and is_told(it)), None)

    @property
    def ns(self) -> float:
        return self.own_ns - self.base_ns

    @property
    def certain(self) -> bool:
        return self.verdict in (FASTER, SLOWER)

    @property
    def profiled_difference_ns(self) -> float:
        """What an inference takes longer under the profiler, ns."""
        return self.profiled_ns[1] - self.profiled_ns[0]

    @property
    def is_profiled(self) -> bool:
        """Whether the profiler shows the difference for certain too."""
        if not self.certain or self.profiled_ci95 is None or self.profiled_difference_ns * self.ns <= 0:
            return False
        low, high = self.profiled_ci95
        return (low > 0 or high < 0) and min(abs(low), abs(high)) > MARGIN * self.profiled_ns[0]

    def share(self, ns: float) -> float | None:
        """A profiled time as a share of the profiled difference; None where there is none for certain."""
        return ns / self.profiled_difference_ns if self.is_profiled else None

    @property
    def unexplained_ns(self) -> float:
        """What of the profiled difference is outside of nodes."""
        return self.profiled_difference_ns - sum(it.ns for it in self.changes)

    @property
    def culprit(self) -> Change | None:
        """The first change; None where it makes nothing of the difference for certain."""
        first = next(iter(self.changes), None)
        if first is None or first.kind == REST or not self.certain or (first.kind == SAME and not self.is_profiled):
            return None
        little = first.ns / (self.profiled_difference_ns if self.is_profiled else self.ns) < _LEAST
        return None if little or first.ci95 is None or first.ci95[0] <= 0 <= first.ci95[1] else first


def explain(base: Result, own: Result, modes: Sequence[str] = (), told: Mapping[str, float] | None = None) -> Why:
    """Why a result differs from its baseline, in the first of some modes that both have, by default of all, of some of which a gate
    may have `told` for certain, by pairs of blocks, how many times as long the result takes; `BadInput`: one has no nodes, or they have no mode in common."""
    nodes = _nodes_of(base, "baseline"), _nodes_of(own, "candidate")
    shared = [it for it in (*modes, *MODES) if base.case(it) is not None and own.case(it) is not None]
    timed = [it for it in shared if base.median(it, LATENCY) and own.median(it, LATENCY)]
    if not timed:
        raise BadInput("--why: no mode was measured in both", "--why")
    mode = timed[0]
    one, other = (series_at(it, Key(mode, (), figure(LATENCY))) for it in (base, own))
    assert one is not None
    assert other is not None
    found = compare_series(one, other)
    verdict = CANNOT_TELL if found is None else word(found, MARGIN)
    if (ratio := (told or {}).get(mode)) is not None:
        verdict = SLOWER if ratio > 1 else FASTER

    def is_supported(least: float) -> bool:
        """Whether noise of the machine leaves the claim that nodes take so many times as long; of them it has no rounds."""
        return all(supports_within(result, it.case, least, {}) for result, it in ((base, one), (own, other)))

    base_ns, own_ns, ci95 = whole(*nodes)
    found_rows = rows(*nodes)
    return Why(
        mode,
        one.value,
        other.value,
        other.value if ratio is None else one.value * ratio,
        verdict,
        found_rows,
        changes(found_rows, is_supported),
        (base_ns, own_ns),
        ci95,
        _others((base, own), nodes),
        {
            name: graphs
            for name, profile in zip(("baseline", "candidate"), nodes, strict=True)
            if (graphs := [*filter(is_compiled, profile["each"])])
        },
        any(it.target["memory"]["kind"] != "host" for it in (base, own)),
        [it for it in found_rows if it.base and it.own and it.ns > 0 and is_told(it, is_supported)],
        is_busy=any(it.noise is not None and busy_reasons(it.noise) for it in (base, own)),
    )


def _nodes_of(result: Result, name: str) -> Nodes:
    if result.nodes is None or "each" not in result.nodes:
        raise BadInput(f"--why: the {name} has no nodes: measure it with --measure-nodes", "--why")
    return result.nodes


def _others(results: tuple[Result, Result], nodes: Sequence[Nodes]) -> list[str]:
    base, own = results
    mine, theirs = (it.get("content") for it in nodes)
    if base.model["sha256"] == own.model["sha256"]:  # the worker of another environment may not have read it
        mine, theirs = mine or theirs, theirs or mine
    copies = ({"": sum(node["op"] in (TO_HOST, FROM_HOST) for node in it["each"])} for it in nodes)
    found = settings_changed(base, own)
    found += _list_differences("number of Memcpy nodes{}", *copies)
    found += _list_differences("nodes that ONNX Runtime fused into {}", *map(_count_fused, nodes, (mine, theirs)))
    if mine is not None and theirs is not None:
        found += _list_differences("opset {}", _opsets(mine), _opsets(theirs))
        found += _list_differences("initializers of type {}", _weights(mine), _weights(theirs))
    return found


def _opsets(content: ModelContent) -> dict[str, int]:
    """Those of the domains that a node is of: models name others too."""
    used = {it.rpartition(":")[0] or "ai.onnx" for it in content["operators"]}
    return {domain: version for domain, version in content["opsets"].items() if domain in used}


def _count_fused(nodes: Nodes, content: ModelContent | None) -> dict[str, int]:
    """How many nodes of each operator ONNX Runtime made of others."""
    known = {it.rpartition(":")[2] for it in content["operators"]} if content is not None else None
    own = (
        node["op"]
        for node in nodes["each"]
        if not is_put_in(node["op"], node["name"])
        and not is_compiled(node)
        and (len(node["of"]) > 1 or (node["inputs"] is None and known is not None and node["op"] not in known))
    )
    return dict(Counter(own))


def _weights(content: ModelContent) -> dict[str, str]:
    return {it["type"]: f"{it['count']} ({size(it['bytes'])} together)" for it in content["weights"]}


def _list_differences(what: str, base: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """The entries that differ, in words; ``{}`` in `what` stands for the name of one."""
    names = [name for name in {**base, **own} if base.get(name) != own.get(name)]
    return [f"{what.format(name)}: {base.get(name, 0)} → {own.get(name, 0)}" for name in names]


def of_model(nodes: Sequence[ProfiledNode]) -> list[ProfiledNode]:
    """Nodes without those that ONNX Runtime inserted, unless it inserted all of them."""
    return [it for it in nodes if not is_put_in(it["op"], it["name"])] or [*nodes]


def by_time(nodes: Sequence[ProfiledNode]) -> dict[str, list[ProfiledNode]]:
    """Nodes by operator, those of the one that takes most first."""
    ops: dict[str, list[ProfiledNode]] = {}
    for node in nodes:
        ops.setdefault(operator(node), []).append(node)
    return dict(sorted(ops.items(), key=lambda item: -sum(median(node["ns"]) for node in item[1])))


def confirmation(
    change: Change, saved: tuple[float, float] | None, saved_ns: float, difference_ns: float, own_ns: float
) -> Confirmation:
    """What it means that a candidate without a change was faster by so much, ns, with the interval of that, where with it an inference
    took `own_ns`, and was slower than the baseline by `difference_ns`."""
    if saved is None:
        return Confirmation("too few rounds were measured", saved_ns=saved_ns)
    # What the profiler shows has its own time in it; what is saved must be much of that or of the whole difference, and not many times it.
    least, most = _CLEAR * min(change.ns, difference_ns), max(change.ns, difference_ns) / _CLEAR
    if difference_ns <= 0:
        verdict = "not-slower"
    elif saved[0] > 0 and least <= saved_ns <= most:
        verdict = CONFIRMED
    else:
        verdict = "open" if verdict_of(saved, most, least) in (SAME_AS, OPEN) else NOT_CONFIRMED
    return Confirmation("", verdict, saved_ns, saved, own_ns, difference_ns)


def float_confirmation(saved: tuple[float, float] | None, saved_ns: float, own_ns: float) -> Confirmation:
    """What it means that a candidate of which a node is kept in float was faster by so much, ns."""
    if saved is None:
        return Confirmation("too few rounds were measured", saved_ns=saved_ns)
    # ONNX Runtime may quantize the node all the same: the copy is then what the candidate is.
    least = _LEAST * own_ns
    verdict = CONFIRMED if saved[0] > 0 and saved_ns >= least else "open" if saved[1] >= least else NOT_CONFIRMED
    return Confirmation("", verdict, saved_ns, saved, own_ns)


def why_facts(why: Why) -> list[Fact]:
    """The answer first, then the change that makes the difference, or the first changes, and whether it was confirmed."""
    culprit = why.culprit
    found = [_answer(why)]
    if mixed := _mixed_facts(why):
        return [*found, *mixed]
    several = [it for it in why.changes if it.kind not in (REST, SAME)][:_CHANGES]
    found += map(change_fact, several if culprit is None else [culprit])
    return [*found, *_confirmation(why)]


def _mixed_facts(why: Why) -> list[Fact]:
    """Which node became slower, though the candidate did not, and what keeping one in float saves."""
    found: list[Fact] = []
    if why.certain and why.ns < 0 and why.slower:
        row = why.slower[0]
        node = max(of_model(row.base), key=lambda it: sum(it["ns"]))
        values: Values = {"name": next(iter(node["of"]), node["name"]), "nodes": len(why.slower)}
        values |= {"baseline": ns(row.base_ns), "candidate": ns(row.own_ns)}
        found.append(Fact("slower-node", "slower", why.mode, values))
    told = why.in_float
    if why.loss is None or told is None or told.verdict == NOT_CONFIRMED or not (told.saved_ns and told.own_ns):
        return found
    names = [name for node in of_model(why.loss.base) for name in node["of"] or [node["name"]]]
    values = {"names": names, "saved": ns(told.saved_ns, told.ci95), "candidate": ns(told.own_ns)}
    return [*found, Fact("in-float", told.verdict, why.mode, values)]


def _answer(why: Why) -> Fact:
    if not why.certain:
        return Fact("why", "open" if why.verdict == CANNOT_TELL else "same", why.mode)
    measured_ns = why.median_ns - why.base_ns
    # On a busy machine the gate's ratio, of pairs, tells what the medians of all samples do not.
    is_derived = not 0.5 < measured_ns / why.ns < 2
    values: Values = {
        "difference": ns(abs(why.ns if is_derived else measured_ns), derived=is_derived), "basis": "the gate's ratio" if is_derived else "medians",
        "baseline": ns(why.base_ns), "candidate": ns(why.median_ns), "profiled": ns(abs(why.profiled_difference_ns)),
    }  # fmt: skip
    verdict, culprit = "slower" if why.ns > 0 else "faster", why.culprit
    if why.confirmation is not None and why.confirmation.verdict == CONFIRMED:
        return Fact("why", "slower-confirmed", why.mode, values)
    if not why.is_profiled:
        return Fact("why", f"{verdict}-not-profiled", why.mode, values)
    if culprit is None:
        return Fact("why", f"{verdict}-unexplained", why.mode, values)
    if _mixed_facts(why):
        return Fact("why", "faster-mixed", why.mode, values)
    values["share"] = share(min(1.0, why.share(culprit.ns) or 0.0))
    return Fact("why", verdict, why.mode, values)


def change_fact(change: Change) -> Fact:
    """What changed: which nodes of which operators, on either side."""
    own, base = change.own, change.base
    if change.kind == SAME:
        few = change.mainly or own
        values: Values = {**_nodes(few), "nodes": len(few), "of": len(own)}
        return Fact("change", "slower" if change.ns > 0 else "faster", "", values)
    values = {**_nodes(of_model(own) if own else ()), **_nodes(base, "base_")}
    if change.kind == MOVED:
        kept = [it for it in own if it["ep"] not in {b["ep"] for b in base}] or own
        values |= {**_nodes(kept), "ep": _eps(kept), "base_ep": _eps(base)}
    if change.kind == CHANGED:
        # The first nodes of both of one operator whose types or shapes differ.
        pairs = [(a, b) for a in base for b in own if a["op"] == b["op"]]
        a, b = next((it for it in pairs if _types(it[0]) != _types(it[1])), (base[0], own[0]))
        values |= {**_nodes([b]), "types": _types(b), "base_types": _types(a)}
    return Fact("change", _VERDICTS[change.kind], "", values)


def _nodes(nodes: Sequence[ProfiledNode], prefix: str = "") -> Values:
    """How many nodes there are, their operators, those that take most first, and their names."""
    ops = [f"{op} ×{len(of)}" if len(of) > 1 else op for op, of in by_time(nodes).items()]
    return {f"{prefix}nodes": len(nodes), f"{prefix}operators": ops, f"{prefix}names": [name_node(it) for it in nodes]}


def _eps(nodes: Sequence[ProfiledNode]) -> list[str]:
    return sorted({it["ep"] for it in nodes})


def _types(node: ProfiledNode) -> list[str]:
    return [*node["reads"], *node["gives"]]


def _confirmation(why: Why) -> list[Fact]:
    told = why.confirmation
    if told is None:
        return []
    if told.reason or told.own_ns is None or told.saved_ns is None or told.difference_ns is None:
        return [Fact("confirmation", "not-measured", why.mode, {"why": told.reason})]
    values: dict[str, Known] = {
        "saved": ns(told.saved_ns, told.ci95), "candidate": ns(told.own_ns), "copy": ns(told.own_ns - told.saved_ns),
        "baseline": ns(told.own_ns - told.difference_ns),
    }  # fmt: skip
    return [Fact("confirmation", told.verdict, why.mode, values)]


def limit_facts(why: Why) -> list[Fact]:
    """What is not known, and what the times in the table of changes are."""
    values: Values = {"baseline": ns(why.base_ns), "candidate": ns(why.median_ns)}
    # The profiler only adds to what an inference takes.
    is_quieter = why.base_ns > why.profiled_ns[0] or why.median_ns > why.profiled_ns[1]
    verdict = "busy" if why.is_busy else "quieter" if is_quieter else "profiler"
    found = [Fact("why-limit", verdict, why.mode, values)]
    for name, graphs in why.compiled.items():
        found.append(Fact("why-limit", "compiled", "", {"side": name, "graphs": len(graphs), "ep": graphs[0]["ep"]}))
    return found + [Fact("why-limit", "asynchronous")] * why.is_asynchronous


def why_data(why: Why) -> dict[str, Any]:
    """All of it for JSON; times in ns per inference."""
    facts, told = why_facts(why), why.confirmation
    texts = {it.code: sentence(it) for it in facts}
    return {
        "sentence": sentence(facts[0]),
        "mode": why.mode,
        "baseline_ns": round(why.base_ns),
        "candidate_ns": round(why.median_ns),
        "certain": why.certain,
        "changes": [_data(why, it) for it in why.changes],
        "nodes": [_row_data(it) for it in why.rows],
        "unexplained_ns": round(why.unexplained_ns),
        "profiled_ns": {"baseline": round(why.profiled_ns[0]), "candidate": round(why.profiled_ns[1])},
        "others": list(why.others),
        "limits": [sentence(it) for it in limit_facts(why)],
        "confirmation": None
        if told is None
        else {
            "confirmed": told.verdict == CONFIRMED,
            "text": texts["confirmation"],
            "saved_ns": None if told.saved_ns is None else round(told.saved_ns),
            "ci95": None if told.ci95 is None else [round(it) for it in told.ci95],
        },
        "findings": [record(it) for it in facts],
    }


def _row_data(row: Change) -> dict[str, Any]:
    names = {name: [it["name"] for it in nodes] for name, nodes in (("baseline", row.base), ("candidate", row.own))}
    return {"kind": row.kind, **names, "baseline_ns": round(row.base_ns), "candidate_ns": round(row.own_ns)}


def _data(why: Why, change: Change) -> dict[str, Any]:
    keys = ("name", "op", "ep", "of", "reads", "gives")
    shown = [] if change.kind == REST else [change.base, change.own]
    return {
        "kind": change.kind,
        "text": sentence(change_fact(change)),
        "baseline_ns": round(change.base_ns),
        "candidate_ns": round(change.own_ns),
        "ci95": None if change.ci95 is None else [round(it) for it in change.ci95],
        "share": None if (part := why.share(change.ns)) is None else round(part, 4),
        "nodes": {
            name: [{key: it[key] for key in keys} for it in nodes]  # type: ignore[literal-required]
            for name, nodes in zip(("baseline", "candidate"), shown, strict=False)
        },
    }


# fmt: off
SENTENCES = {
    ("why", "slower"): Sentence("Why: {mode} takes {difference} longer (by {basis}); under the profiler {profiled}, {share} of it in the change below.", "look for the nodes by their names", _ANSWER, "bad", "why"),
    ("why", "slower-confirmed"): Sentence("Why: {mode} takes {difference} longer (by {basis}) because of the change below.", "look for the nodes by their names", _ANSWER, "bad", "why"),
    ("why", "slower-not-profiled"): Sentence("Why: {mode} takes {difference} longer (by {basis}), which the profiler does not show.", "look at what else changed", _ANSWER, "bad", "why"),
    ("why", "slower-unexplained"): Sentence("Why: {mode} takes {difference} longer (by {basis}); no changed node explains it.", "look at what else changed", _ANSWER, "bad", "why"),
    ("why", "faster"): Sentence("Why: {mode} takes {difference} less (by {basis}); under the profiler {profiled}, {share} of it in the change below.", "nothing", _ANSWER, "good", "why"),
    ("why", "faster-mixed"): Sentence("Why: {mode} takes {difference} less (by {basis}), under the profiler {profiled}; see the nodes.", "nothing", _ANSWER, "good", "why"),
    ("why", "faster-not-profiled"): Sentence("Why: {mode} takes {difference} less (by {basis}), which the profiler does not show.", "nothing", _ANSWER, "good", "why"),
    ("why", "faster-unexplained"): Sentence("Why: {mode} takes {difference} less (by {basis}); no changed node explains it.", "nothing", _ANSWER, "good", "why"),
    ("why", "same"): Sentence("Why: {mode} does not differ.", "nothing", _ANSWER, "", "why"),
    ("why", "open"): Sentence("Why: cannot tell whether {mode} differs.", LONGER, _ANSWER, "unclear", "why"),
    ("change", "added"): Sentence("Added: {operators} ({names}).", "look for them in the candidate's model", _DETAIL, "", "why"),
    ("change", "gone"): Sentence("Gone: {base_operators} ({base_names}).", "look for them in the baseline's model", _DETAIL, "", "why"),
    ("change", "replaced"): Sentence("Replaced: {operators} ({names}) in place of {base_operators} ({base_names}).", "look for them in both models", _DETAIL, "", "why"),
    ("change", "quantized"): Sentence("Quantized: {operators} ({names}) in place of {base_operators} ({base_names}).", "look for them in both models", _DETAIL, "", "why"),
    ("change", "fused"): Sentence("Nodes fused differently: {operators} ({names}) in place of {base_operators} ({base_names}).", "look for them in both models", _DETAIL, "", "why"),
    ("change", "moved"): Sentence("On another EP: {operators} ({names}) on {ep} in place of {base_ep}.", "see why: ortbench inspect", _DETAIL, "", "why"),
    ("change", "other-types"): Sentence("Other types or shapes: {operators} ({names}), {types} in place of {base_types}.", "look for them in both models", _DETAIL, "", "why"),
    ("change", "slower"): Sentence("Slower, otherwise unchanged: {nodes} of {of:node}, {operators} ({names}).", "look at settings, versions and clocks", _DETAIL, "", "why"),
    ("change", "faster"): Sentence("Faster, otherwise unchanged: {nodes} of {of:node}, {operators} ({names}).", "nothing", _DETAIL, "", "why"),
    ("change", "rest"): Sentence("The other {nodes:node}.", "nothing", _DETAIL, "", "why"),
    ("slower-node", "slower"): Sentence("{nodes:node} slower, though the whole is faster: {name}, {baseline} → {candidate}.", "look for the node in both models", _ANSWER, "unclear", "why"),
    ("in-float", "confirmed"): Sentence("Keep {names} in float: {saved:ci} less of {candidate} in a copy.", "leave these nodes out when quantizing: nodes_to_exclude", _ANSWER, "bad", "int8"),
    ("in-float", "open"): Sentence("Cannot tell whether {names} in float saves time: {saved:ci} less of {candidate} in a copy.", "run the gate again on a quiet machine", _ANSWER, "unclear", "int8"),
    ("confirmation", "confirmed"): Sentence("Confirmed: in another run, without the profiler, the candidate takes {candidate}, {copy} without the change: {saved:ci} less. The baseline takes {baseline}.", "take the change back", _ANSWER, "good", "why"),
    ("confirmation", "not-confirmed"): Sentence("Not confirmed: in another run, without the profiler, the candidate takes {candidate}, {copy} without the change, which saves {saved:ci}.", "look at the other changes", _ANSWER, "unclear", "why"),
    ("confirmation", "open"): Sentence("Cannot tell: in another run, without the profiler, the candidate takes {candidate}, {copy} without the change, which saves {saved:ci}.", "run the gate again on a quiet machine", _ANSWER, "unclear", "why"),
    ("confirmation", "not-slower"): Sentence("Cannot tell: in another run, without the profiler, the candidate takes {candidate} and the baseline {baseline}.", "run the gate again on a quiet machine", _ANSWER, "unclear", "why"),
    ("confirmation", "not-measured"): Sentence("Not confirmed: {why}.", "see the reason", _ANSWER, "unclear", "why"),
    ("why-limit", "profiler"): Sentence("Under the profiler; without it {mode} takes {baseline} before, {candidate} after.", "nothing", _DETAIL, "", "why"),
    ("why-limit", "busy"): Sentence("Busy machine: node times are hints; unprofiled {baseline} before, {candidate} after.", "nothing", _DETAIL, "", "why"),
    ("why-limit", "quieter"): Sentence("Profiled at another time; without the profiler {baseline} before, {candidate} after.", "nothing", _DETAIL, "", "why"),
    ("why-limit", "compiled"): Sentence("{ep} compiled {graphs:graph} of the {side} whole: what changed inside is not known.", "nothing", _DETAIL, "unclear", "why"),
    ("why-limit", "asynchronous"): Sentence("Where the EP works asynchronously, a node's time is that of its launch: the device's own time is in the copies to the host, or outside of nodes.", "nothing", _DETAIL, "", "why"),
}
