"""The facts of why a candidate differs from its baseline: the answer, the changes of nodes, and what taking one back did. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortbench.analysis.comparing.ratio import CANNOT_TELL
from ortbench.analysis.findings.finding import Weight
from ortbench.facts.fact import Fact, Known, Values, ns, record, share
from ortbench.facts.sentences import LONGER, Sentence, sentence
from ortbench.features.why.analysis import changes as kinds
from ortbench.features.why.analysis.changes import REST, SAME, Change, called
from ortbench.features.why.analysis.explain import CONFIRMED, Why, by_time, of_model
from ortbench.model.schema import ProfiledNode

_ANSWER, _DETAIL = Weight.ANSWER, Weight.DETAIL
_CHANGES = 2  # of which there are facts where none is known to make the difference
_VERDICTS = {
    kinds.ADDED: "added", kinds.GONE: "gone", kinds.REPLACED: "replaced", kinds.FUSED: "fused", kinds.MOVED: "moved",
    kinds.CHANGED: "other-types", kinds.REST: "rest",
}  # fmt: skip


def why_facts(why: Why) -> list[Fact]:
    """The answer first, then the change that makes the difference, or the first changes, and whether it was confirmed."""
    culprit = why.culprit
    found = [_answer(why)]
    several = [it for it in why.changes if it.kind not in (REST, SAME)][:_CHANGES]
    found += map(change_fact, several if culprit is None else [culprit])
    return [*found, *_confirmation(why)]


def _answer(why: Why) -> Fact:
    if not why.certain:
        return Fact("why", "open" if why.verdict == CANNOT_TELL else "same", why.mode)
    values: Values = {
        "difference": ns(abs(why.ns)), "baseline": ns(why.base_ns), "candidate": ns(why.own_ns), "profiled": ns(abs(why.profiled)),
    }  # fmt: skip
    verdict, culprit = "slower" if why.ns > 0 else "faster", why.culprit
    if why.confirmation is not None and why.confirmation.verdict == CONFIRMED:
        return Fact("why", "slower-confirmed", why.mode, values)
    if not why.is_profiled:
        return Fact("why", f"{verdict}-not-profiled", why.mode, values)
    if culprit is None:
        return Fact("why", f"{verdict}-unexplained", why.mode, values)
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
    if change.kind == kinds.MOVED:
        kept = [it for it in own if it["ep"] not in {b["ep"] for b in base}] or own
        values |= {**_nodes(kept), "ep": _eps(kept), "base_ep": _eps(base)}
    if change.kind == kinds.CHANGED:
        # The first nodes of both of one operator whose types or shapes differ.
        pairs = [(a, b) for a in base for b in own if a["op"] == b["op"]]
        a, b = next((it for it in pairs if _types(it[0]) != _types(it[1])), (base[0], own[0]))
        values |= {**_nodes([b]), "types": _types(b), "base_types": _types(a)}
    return Fact("change", _VERDICTS[change.kind], "", values)


def _nodes(nodes: Sequence[ProfiledNode], side: str = "") -> Values:
    """How many nodes there are, their operators, those that take most first, and their names."""
    ops = [f"{op} ×{len(of)}" if len(of) > 1 else op for op, of in by_time(nodes).items()]
    return {f"{side}nodes": len(nodes), f"{side}operators": ops, f"{side}names": [called(it) for it in nodes]}


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
    found = [Fact("why-limit", "profiler", why.mode, {"baseline": ns(why.base_ns), "candidate": ns(why.own_ns)})]
    for side, graphs in why.compiled.items():
        found.append(Fact("why-limit", "compiled", "", {"side": side, "graphs": len(graphs), "ep": graphs[0]["ep"]}))
    return found + [Fact("why-limit", "asynchronous")] * why.is_asynchronous


# As data


def why_data(why: Why) -> dict[str, Any]:
    """All of it for JSON; times in ns per inference."""
    facts, told = why_facts(why), why.confirmation
    texts = {it.code: sentence(it) for it in facts}
    return {
        "sentence": sentence(facts[0]),
        "mode": why.mode,
        "baseline_ns": round(why.base_ns),
        "candidate_ns": round(why.own_ns),
        "certain": why.certain,
        "changes": [_data(why, it) for it in why.changes],
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
            name: [{key: it[key] for key in keys} for it in side]  # type: ignore[literal-required]
            for name, side in zip(("baseline", "candidate"), shown, strict=False)
        },
    }


# fmt: off
SENTENCES = {
    ("why", "slower"): Sentence("Why: {mode} takes {difference} longer; under the profiler {profiled}, {share} of it in the change below.", "look for the nodes by their names", _ANSWER, "bad", "why"),
    ("why", "slower-confirmed"): Sentence("Why: {mode} takes {difference} longer because of the change below.", "look for the nodes by their names", _ANSWER, "bad", "why"),
    ("why", "slower-not-profiled"): Sentence("Why: {mode} takes {difference} longer, which the profiler does not show.", "look at what else changed", _ANSWER, "bad", "why"),
    ("why", "slower-unexplained"): Sentence("Why: {mode} takes {difference} longer; no changed node explains it.", "look at what else changed", _ANSWER, "bad", "why"),
    ("why", "faster"): Sentence("Why: {mode} takes {difference} less; under the profiler {profiled}, {share} of it in the change below.", "nothing", _ANSWER, "good", "why"),
    ("why", "faster-not-profiled"): Sentence("Why: {mode} takes {difference} less, which the profiler does not show.", "nothing", _ANSWER, "good", "why"),
    ("why", "faster-unexplained"): Sentence("Why: {mode} takes {difference} less; no changed node explains it.", "nothing", _ANSWER, "good", "why"),
    ("why", "same"): Sentence("Why: {mode} does not differ.", "nothing", _ANSWER, "", "why"),
    ("why", "open"): Sentence("Why: cannot tell whether {mode} differs.", LONGER, _ANSWER, "unclear", "why"),
    ("change", "added"): Sentence("Added: {operators} ({names}).", "look for them in the candidate's model", _DETAIL, "", "why"),
    ("change", "gone"): Sentence("Gone: {base_operators} ({base_names}).", "look for them in the baseline's model", _DETAIL, "", "why"),
    ("change", "replaced"): Sentence("Replaced: {operators} ({names}) in place of {base_operators} ({base_names}).", "look for them in both models", _DETAIL, "", "why"),
    ("change", "fused"): Sentence("Nodes fused differently: {operators} ({names}) in place of {base_operators} ({base_names}).", "look for them in both models", _DETAIL, "", "why"),
    ("change", "moved"): Sentence("On another EP: {operators} ({names}) on {ep} in place of {base_ep}.", "see why: ortbench inspect", _DETAIL, "", "why"),
    ("change", "other-types"): Sentence("Other types or shapes: {operators} ({names}), {types} in place of {base_types}.", "look for them in both models", _DETAIL, "", "why"),
    ("change", "slower"): Sentence("Slower, otherwise unchanged: {nodes} of {of:node}, {operators} ({names}).", "look at settings, versions and clocks", _DETAIL, "", "why"),
    ("change", "faster"): Sentence("Faster, otherwise unchanged: {nodes} of {of:node}, {operators} ({names}).", "nothing", _DETAIL, "", "why"),
    ("change", "rest"): Sentence("The other {nodes:node}.", "nothing", _DETAIL, "", "why"),
    ("confirmation", "confirmed"): Sentence("Confirmed: in another run, without the profiler, the candidate takes {candidate}, {copy} without the change: {saved:ci} less. The baseline takes {baseline}.", "take the change back", _ANSWER, "good", "why"),
    ("confirmation", "not-confirmed"): Sentence("Not confirmed: in another run, without the profiler, the candidate takes {candidate}, {copy} without the change, which saves {saved:ci}.", "look at the other changes", _ANSWER, "unclear", "why"),
    ("confirmation", "open"): Sentence("Cannot tell: in another run, without the profiler, the candidate takes {candidate}, {copy} without the change, which saves {saved:ci}.", "run the gate again on a quiet machine", _ANSWER, "unclear", "why"),
    ("confirmation", "not-slower"): Sentence("Cannot tell: in another run, without the profiler, the candidate takes {candidate} and the baseline {baseline}.", "run the gate again on a quiet machine", _ANSWER, "unclear", "why"),
    ("confirmation", "not-measured"): Sentence("Not confirmed: {why}.", "see the reason", _ANSWER, "unclear", "why"),
    ("why-limit", "profiler"): Sentence("All times in this table are of other runs, under ONNX Runtime's profiler; without it {mode} takes {baseline} (baseline) and {candidate} (candidate).", "nothing", _DETAIL, "", "why"),
    ("why-limit", "compiled"): Sentence("{ep} compiled {graphs:graph} of the {side} whole: what changed inside is not known.", "nothing", _DETAIL, "unclear", "why"),
    ("why-limit", "asynchronous"): Sentence("Where the EP works asynchronously, a node's time is that of its launch: the device's own time is in the copies to the host, or outside of nodes.", "nothing", _DETAIL, "", "why"),
}
