"""Why a candidate is slower: the answer, the changes between the nodes, what else changed, as every medium shows it."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.placement import MOST, short
from ortbench.core.errors import BadInput
from ortbench.core.safe_text import first_of
from ortbench.facts.common import Explanation, Fact
from ortbench.facts.sentences import sentence, sentence_of
from ortbench.features.why.analysis import REST, SAME, Change, name_node
from ortbench.features.why.facts import Why, by_time, explain, limit_facts, of_model, why_data, why_facts
from ortbench.features.why.plan import WHY
from ortbench.model.metrics import SHARE, TIME
from ortbench.model.result import Result
from ortbench.plan.options import RawOptions
from ortbench.report import model

_TONES = {"bad": model.BAD, "good": model.GOOD, "unclear": model.UNCLEAR, "": ""}
_FEW = 3  # operators and nodes of a change that a row has
_LEAST = 0.001  # of the difference: less is nothing
_SHARE = model.Column("share of profiled difference")
_COLUMNS = (
    model.Column("change", model.Kind.WORDS, model.KEY),
    _SHARE,
    *model.columns(model.Kind.TIME, "difference"),
    *model.columns(model.Kind.NUMBER, "95% CI"),
    *model.columns(model.Kind.TIME, "baseline", "candidate"),
    model.Column("nodes", model.Kind.LONG_NAME, 2),
    model.Column("on", model.Kind.WORDS, 2),
    model.Column("output", model.Kind.LONG_NAME, 2),
)


def explain_difference(given: RawOptions, results: Sequence[Result], modes: Sequence[str]) -> Explanation | None:
    """What makes the difference of results, where options ask for it; see `explain_results`."""
    return explain_results(results, modes) if given.get(WHY.flag) else None


def explain_results(results: Sequence[Result], modes: Sequence[str]) -> Explanation:
    """What makes the second of two results differ from the first; `BadInput` where there are others, or they have no nodes."""
    if len(results) != 2:
        raise BadInput(f"{WHY.name}: is of two results, and there are {len(results)}", WHY.name)
    return explanation(explain(results[0], results[1], modes))


def explanation(why: Why) -> Explanation:
    facts = why_facts(why)
    return Explanation(facts, "\n".join(map(sentence, facts)), why.others, {"why": why_data(why)}, why_parts(why))


def why_parts(why: Why) -> list[Sequence[model.Block]]:
    others = (
        [[model.Title("What else changed"), model.Notes([model.Note(it) for it in why.others])]] if why.others else []
    )
    limits = model.Notes([model.Note(sentence(it)) for it in limit_facts(why)])
    return [
        [model.Title("Why", media=model.PAGE), model.Notes([*map(_note, why_facts(why))])],
        [model.Title("Changes between nodes"), _table(why), limits],
        *others,
    ]


def _note(fact: Fact) -> model.Note:
    return model.Note(sentence(fact), "→", _TONES[sentence_of(fact).tone])


def _table(why: Why) -> model.Table:
    shown = [*[it for it in why.changes if it.kind != REST][:MOST], *[it for it in why.changes if it.kind == REST]]
    left = len(why.changes) - len(shown)
    unexplained = why.unexplained_ns
    unit, cell = TIME.column([it for change in shown for it in (change.base_ns, change.own_ns) if it])

    def shares(ns: float) -> list[str]:
        return [] if (part := why.share(ns)) is None else [SHARE.text(part if abs(part) >= _LEAST else 0.0)]

    def format_difference(ns: float) -> str:
        return f"{'-' if ns < 0 else '+'}{cell(abs(ns))}"

    rows = [
        (
            _change(change, is_alone=len(shown) == 1),
            *shares(change.ns),
            format_difference(change.ns),
            model.maybe(change.ci95, lambda ends: " to ".join(map(format_difference, ends))),
            cell(change.base_ns) if change.base else model.NOTHING,
            cell(change.own_ns) if change.own else model.NOTHING,
            *((model.NOTHING,) * 3 if change.kind == REST else _describe_nodes(change)),
        )
        for change in shown
    ]
    outside = ("outside of nodes", *shares(unexplained), format_difference(unexplained), *[model.NOTHING] * 6)
    base, own = why.profiled_ns
    ends = model.maybe(why.profiled_ci95, lambda ends: " to ".join(map(format_difference, ends)))
    sum_up = (
        "whole inference",
        *shares(why.profiled_difference_ns),
        format_difference(why.profiled_difference_ns),
        ends,
        cell(base),
        cell(own),
        *[model.NOTHING] * 3,
    )
    return model.Table(
        _COLUMNS if why.is_profiled else tuple(it for it in _COLUMNS if it is not _SHARE),
        (*rows, outside, sum_up),
        unit,
        title="Changes between nodes",
        rest=f"and {left} more changes; result.json has all nodes" if left else "",
    )


def _change(change: Change, is_alone: bool) -> str:
    nodes = change.own or change.base
    if change.kind == REST:
        return f"all nodes ({len(nodes)})" if is_alone else f"all other nodes ({len(nodes)})"
    kind = change.kind if change.kind != SAME else "slower" if change.ns > 0 else "faster"
    ops = [f"{op} ×{len(of)}" if len(of) > 1 else op for op, of in by_time(change.mainly or of_model(nodes)).items()]
    return f"{kind}: {', '.join([*ops[:_FEW], *['…'] * (len(ops) > _FEW)])}"


def _describe_nodes(change: Change) -> tuple[str, str, str]:
    """Which nodes it is, where they run, and what they give."""
    shown = first_of([*map(name_node, change.mainly or of_model(change.own or change.base))], _FEW)
    eps = [[short(node["ep"]) for node in nodes] for nodes in (change.base, change.own)]
    gives = [[", ".join(node["gives"]) for node in nodes] for nodes in (change.base, change.own)]
    return shown, _compare_texts(*eps), _compare_texts(*gives)


def _compare_texts(base: Sequence[str], own: Sequence[str]) -> str:
    """What the baseline has and what the candidate has, once where that is the same; the first of several."""
    firsts = [next(iter(texts), "") for texts in (base, own)]
    different = next(((a, b) for a, b in zip(base, own, strict=False) if a != b), None)
    if different is not None and base and own:
        return " → ".join(different)
    more = sum(it != firsts[1] for it in own[1:])
    return f"{firsts[1]} and {more} more" if more else firsts[1] or firsts[0] or model.NOTHING
