"""Several results side by side on a page: a row for each, pictures of all, and those that may be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ortbench.analysis.advice import Finding
from ortbench.analysis.comparable import OF_EP, alike_but_for_ep, changes, unlike
from ortbench.analysis.comparison import CANNOT_TELL, rows
from ortbench.analysis.intervals import MARGIN
from ortbench.analysis.placement import short
from ortbench.analysis.series import EVERYTHING
from ortbench.analysis.speedups import (
    NOISY,
    UNKNOWN,
    fastest,
    may_be_faster,
)
from ortbench.core import units
from ortbench.core.features import part_of
from ortbench.facts.comparison import (
    best_of_models,
    bests,
    between_runs_facts,
    ep_facts,
    items_facts,
    lacking_facts,
    setting_facts,
)
from ortbench.facts.run import copy_share, findings_of
from ortbench.facts.sentences import phrase
from ortbench.features.page.report.parts import Drawn, Section, charts_of_many, draw_chart, sections
from ortbench.model.result import Result
from ortbench.report import model
from ortbench.report.comparison import compare
from ortbench.report.comparison import tables as comparison_tables
from ortbench.report.parts import doubt_part, outputs_part
from ortbench.report.phrases import heading


@dataclass(frozen=True)
class Overview:
    """Several results side by side: a row for each, pictures of all, or of each model, and those that may be
    compared."""

    table: model.Table
    notes: list[model.Note | Finding]
    pictures: list[Drawn]
    sections: list[Section]


def overview(results: Sequence[Result], names: Sequence[str], judged: bool = False) -> Overview:
    """Several results; where a verdict on them stands above, none of them is called the best."""
    groups = alike_but_for_ep(results)
    compared, said = _comparisons(results, names, groups)
    best = [] if judged else bests(results, names)
    if len(groups) == 1:
        told = compare(results, names, None if judged else MARGIN, EVERYTHING, best).said
    else:
        of_models = [] if judged else best_of_models(results, names)
        told = [*ep_facts(results), *of_models, *items_facts(results, names)]
    said[:0] = findings_of(told)
    if len(groups) > 1:
        said.append(model.Note(_why_apart(results, groups)))
    said += [model.Note(phrase(it)) for it in setting_facts(results, names, best)]
    pictures = _charts(results, names, len(groups) > 1)
    of_kind = part_of(results[0].kind, "report", "overview_table")
    if of_kind and len({result.kind for result in results}) == 1:
        return Overview(of_kind(results, names), said, pictures, compared)
    headed = (
        model.Column("result", model.Kind.NAME),
        model.Column("EP", model.Kind.WORD),
        *model.columns(
            model.Kind.NUMBER, "copies", "fastest mode", "speedup", "tensors on the device", "speedup on device"
        ),
    )
    lines = tuple(_row(name, result) for name, result in zip(names, results, strict=True))
    return Overview(model.drop_empty_columns(model.Table(headed, lines)), said, pictures, compared)


def _comparisons(
    results: Sequence[Result], names: Sequence[str], groups: Sequence[Sequence[int]]
) -> tuple[list[Section], list[model.Note | Finding]]:
    """The tables of results that may be compared, a group a model or shape, and what there is to say of them."""
    made: list[Section] = []
    said: list[model.Note | Finding] = []
    several = len(groups) > 1
    for numbers in groups:
        own, called = [results[number] for number in numbers], [names[number] for number in numbers]
        for part in doubt_part(own, called):
            said += [finding for block in part if isinstance(block, model.Findings) for finding in block.findings]
        if len(own) < 2:
            continue
        tables = [it.with_names for it in comparison_tables(own, called, MARGIN, in_order=False)]
        titled = sections([*([it] for it in tables), *outputs_part(own, called)])
        subject = heading(replace(own[0], note=None))[0]  # what all of the group are of
        made += [replace(it, title=f"{it.title}: {subject}") for it in titled] if several else titled
        said += [
            model.Note(f"{called[0]} → {name}: {'; '.join(changed)}")
            for name, result in zip(called[1:], own[1:], strict=True)
            if (changed := changes(own[0], result))
        ]
        found = rows(own)
        said += findings_of([*lacking_facts(own, called, found), *between_runs_facts(own, found)])
    return made, said


def _why_apart(results: Sequence[Result], groups: Sequence[Sequence[int]]) -> str:
    """What ratios are of, and why there are none between groups."""
    apart = (
        name for numbers in groups[1:] for name, *_ in unlike(results[0], results[numbers[0]]) if name not in OF_EP
    )
    alike = ", and results of one model and work" if len(groups) < len(results) else ""
    return f"ratios compare modes of one result{alike}; other results differ in {', '.join(dict.fromkeys(apart))}"


def _charts(results: Sequence[Result], names: Sequence[str], apart: bool) -> list[Drawn]:
    """The charts of all results, each with a scale of its own; where models are not compared with each other one a model."""
    models: dict[tuple[str, str], list[int]] = {}
    for number, result in enumerate(results):
        key = (result.model["path"], result.model["sha256"]) if apart else ("", "")
        models.setdefault(key, []).append(number)
    kinds: dict[str, list[Drawn]] = {}
    for count, ((path, _), numbers) in enumerate(models.items()):
        own = charts_of_many([results[number] for number in numbers], [names[number] for number in numbers])
        for chart in own:
            title = chart.title if len(models) == 1 else f"{chart.title}: {path}"
            kinds.setdefault(chart.title, []).append(
                draw_chart(replace(chart, title=title), f"0 {count} {chart.title}")
            )
    return [it for of_kind in kinds.values() for it in of_kind]


def _row(name: str, result: Result) -> tuple[str, ...]:
    share = copy_share(result)
    return (
        name,
        short(result.target["ep"]),
        model.NOTHING if share is None else f"{model.DERIVED}{units.share(share)}",
        *(cell for on_device in (False, True) for cell in _fastest_cells(result, on_device)),
    )


def _fastest_cells(result: Result, on_device: bool) -> tuple[str, str]:
    best = fastest(result, on_device)
    if best is None:
        return model.NOTHING, model.NOTHING
    speedup = units.times(best.speedup.value, best.speedup.ci95)
    if best.claim in (NOISY, UNKNOWN) or (not best.is_faster and may_be_faster(best.speedup)):
        return CANNOT_TELL, f"{speedup} ({best.mode})"
    if not best.is_faster:
        return f"none more than {MARGIN:.0%} faster", f"{speedup} ({best.mode})"
    return best.mode, speedup
