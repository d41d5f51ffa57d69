"""Why a candidate is slower: the answer, the changes between the nodes, what else changed, as every medium shows it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from ortbench.analysis.node_times import first_name
from ortbench.analysis.placement import short
from ortbench.core.errors import BadInput
from ortbench.facts import Explanation
from ortbench.facts.sentences import sentence, sentence_of
from ortbench.features.why.analysis import Change
from ortbench.features.why.analysis.matching import plain
from ortbench.features.why.facts import Why, by_time, explain, limit_facts, of_model, why_data, why_facts
from ortbench.features.why.plan import WHY
from ortbench.model.metrics import SHARE, TIME
from ortbench.model.result import Result
from ortbench.model.schema import ProfiledNode
from ortbench.plan.options import RawOptions
from ortbench.report import model
from ortbench.report.nodes import remainder_names, table_of_nodes

_COLUMNS = (
    model.Column("node", model.Kind.LONG_NAME, model.KEY),
    model.Column("operator", model.Kind.WORDS, model.KEY),
    model.Column("on", model.Kind.WORDS),
    *model.columns(model.Kind.TIME, "before", "after", "difference"),
    model.Column("share"),
    model.Column("95% CI", model.Kind.NUMBER, 2),
    model.Column("change", model.Kind.WORDS, 2),
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
    answer = [model.Note(sentence(it), "→", sentence_of(it).tone) for it in why_facts(why)]
    limits = model.Notes([model.Note(sentence(it)) for it in limit_facts(why)])
    return [
        [model.Title("Why", media=model.PAGE), model.Notes(answer)],
        [model.Title("Nodes", media=model.PRINTED), _table(why), limits],
        *others,
    ]


def _table(why: Why) -> model.Table:
    """Every node with what stands for it, those that differ most first; the shares are of the difference and add up to it."""
    unit, cell = TIME.column([it for row in why.rows for it in (row.base_ns, row.own_ns) if it])

    def with_sign(ns: float) -> str:
        return f"{'-' if ns < 0 else '+'}{cell(abs(ns))}"

    def figures(base_ns: float | None, own_ns: float | None, ns: float) -> tuple[str, ...]:
        share = why.share(ns)
        return model.maybe(base_ns, cell), model.maybe(own_ns, cell), with_sign(ns), model.maybe(share, SHARE.text)

    def lines(row: Change) -> list[tuple[str, ...]]:
        first = (
            first_name(max(of_model(row.base or row.own), key=lambda it: sum(it["ns"]))),
            _operators(row),
            _compare_texts(*([short(it["ep"]) for it in nodes] for nodes in (row.base, row.own))),
            *figures(row.base_ns if row.base else None, row.own_ns if row.own else None, row.ns),
            model.maybe(None if why.is_busy else row.ci95, lambda ends: " to ".join(map(with_sign, ends))),
            row.kind,
            _compare_texts(*([", ".join(it["gives"]) for it in nodes] for nodes in (row.base, row.own))),
        )
        parts = [_part(node, (cell(fmean(node["ns"])), model.NOTHING)) for node in row.base]
        parts += [_part(node, (model.NOTHING, cell(fmean(node["ns"])))) for node in row.own]
        return [first, *parts] if max(len(row.base), len(row.own)) > 1 else [first]

    def last(count: int) -> list[tuple[str, ...]]:
        shown, left = [it.ns for it in why.rows[:count]], len(why.rows) - count
        whole = why.profiled_difference_ns
        remainder = whole - sum(shown)
        sums = [(*remainder_names(left), *figures(None, None, remainder))]
        # Of one node and the remainder each is what makes up for the other.
        if len(shown) > 1 and any(not 0 <= it * whole <= whole * whole for it in (*shown, remainder)):
            every = [*shown, remainder]
            sums += [
                (name, model.NOTHING, *figures(None, None, sum(it for it in every if it * sign > 0)))
                for name, sign in (("all that is slower", 1), ("all that is faster", -1))
            ]
        sums.append(("whole inference", model.NOTHING, *figures(*why.profiled_ns, whole)))
        return [
            (*names, model.NOTHING, *cells, *[model.NOTHING] * 3) for names, cells in ((it[:2], it[2:]) for it in sums)
        ]

    return table_of_nodes(_COLUMNS, [*map(lines, why.rows)], last, unit, sentence(limit_facts(why)[0]))


def _operators(row: Change) -> str:
    """The operator on either side, where there are several that which both have in some form or takes most, and how many more nodes."""
    forms = [{plain(it) for it in nodes} for nodes in (row.base, row.own)]
    both = forms[0] & forms[1]
    base, own = (
        next(iter(by_time([it for it in nodes if plain(it) in both] or of_model(nodes))), "")
        + f" +{len(nodes) - 1}" * (len(nodes) > 1)
        for nodes in (row.base, row.own)
    )
    return base if base == own else " → ".join([base or model.NOTHING, own or model.NOTHING])


def _part(node: ProfiledNode, times: Sequence[str]) -> tuple[str, ...]:
    """One node of a row, below it, with what it takes on either side."""
    return (
        f"└ {first_name(node)}",
        node["op"],
        short(node["ep"]),
        *times,
        *[model.NOTHING] * 4,
        ", ".join(node["gives"]),
    )


def _compare_texts(base: Sequence[str], own: Sequence[str]) -> str:
    """What the baseline has and what the candidate has, once where that is the same; the first of several."""
    firsts = [next(iter(texts), "") for texts in (base, own)]
    different = next(((a, b) for a, b in zip(base, own, strict=False) if a != b), None)
    if different is not None and base and own:
        return " → ".join(different)
    more = sum(it != firsts[1] for it in own[1:])
    return f"{firsts[1]} and {more} more" if more else firsts[1] or firsts[0] or model.NOTHING
