"""How far outputs moved: the table of outputs beside those of others, and that the figures of a result are doubtful."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.outputs import EXPECTED, MEASURES, moved, worst
from ortbench.facts.findings import shown
from ortbench.facts.shared import doubt_facts
from ortbench.model.metrics import metric
from ortbench.model.result import Result
from ortbench.model.schema import OutputDistance, OutputsCompared
from ortbench.report import model

_MOST = 5  # outputs of a comparison that have a row
_LEAST_COSINE = 0.99  # of outputs that are about the same
_COLUMNS = tuple(
    model.Column(it.title, model.Kind.NUMBER, 2 if key in ("cosine", "top1") else 1)
    for key in MEASURES
    for it in (metric(f"outputs.{key}"),)
)


def outputs_part(results: Sequence[Result], names: Sequence[str]) -> list[Sequence[model.Block]]:
    """The outputs that moved, those that moved most first; no part where all are the same to the last bit, or compared with none."""
    found = [(name, result, it) for name, result in zip(names, results, strict=True) for it in result.outputs or ()]
    return _part(found, len(results) > 1, model.EVERYWHERE)


def own_outputs(result: Result) -> list[Sequence[model.Block]]:
    """The same of one result: beside those of other configurations on a page alone, as a comparison shows them elsewhere."""
    found = [("", result, it) for it in result.outputs or ()]
    expected = [it for it in found if it[2]["against"] == EXPECTED]
    others = [it for it in found if it not in expected]
    return [*_part(expected, False, model.EVERYWHERE), *_part(others, False, model.PAGE)]


def doubt_part(
    results: Sequence[Result], names: Sequence[str], media: frozenset[model.Medium] = model.EVERYWHERE
) -> list[Sequence[model.Block]]:
    """Which figures are doubtful and what mends it; no part where none are."""
    facts = [
        it for name, result in zip(names, results, strict=True) for it in doubt_facts(result, name * (len(results) > 1))
    ]
    return [[model.Findings(shown(facts), media=media)]] if facts else []


def _part(
    found: Sequence[tuple[str, Result, OutputsCompared]], named: bool, media: frozenset[model.Medium]
) -> list[Sequence[model.Block]]:
    rows = [(name, it["against"], one) for name, _, it in found for one in list(moved(it))[:_MOST]]
    if not rows:
        return []
    more = sum(max(0, len(list(moved(it))) - _MOST) for *_, it in found)
    headed = (
        *([model.Column("outputs of", model.Kind.WORD, model.KEY)] if named else []),
        model.Column("compared with", model.Kind.WORD, model.KEY),
    )
    columns = (*headed, model.Column("output", model.Kind.LONG_NAME, model.KEY), *_COLUMNS)
    cells = tuple((*([name] if named else []), against, one["name"], *_cells(one)) for name, against, one in rows)
    rest = f"and {more} more that moved less" if more else ""
    table = model.Table(columns, cells, title="How far outputs moved", rest=rest, media=media)
    said: list[model.Block] = []
    if any(_is_synthetic(it) for _, it, _ in found):
        said.append(model.Paragraph(_SYNTHETIC, media=media))
    if far := [text for name, _, it in found if (text := _far(name, it))]:
        said.append(model.Notes([model.Note(it, "!", model.UNCLEAR) for it in far], media=media))
    return [[model.filled(table), *said]]


def _far(name: str, it: OutputsCompared) -> str:
    """That outputs which pass are far off; empty where they are not, or do not pass."""
    found = worst(it["distances"])
    least = {"top1": 1.0, "cosine": _LEAST_COSINE}
    off = [metric(f"outputs.{key}") for key in least if found.get(key, 1.0) < least[key]]
    if it["differs"] is not None or not off:
        return ""
    figures = " and ".join(f"{of.title} {of.unit.text(found[of.key.removeprefix('outputs.')])}" for of in off)
    return f"{f'{name}: ' if name else ''}outputs with {figures} pass only by the tolerance (--rtol, --atol)"


_SYNTHETIC = "Inputs are synthetic; --input PATH shows how far outputs move with real ones."


def _is_synthetic(result: Result) -> bool:
    return any(tensor.get("range") is not None for tensor in result.model["inputs"])


def _cells(one: OutputDistance) -> list[str]:
    values = (one["max_error"], one["mean_error"], one["sqnr"], one["cosine"], one["top1"])
    shown = (metric(f"outputs.{key}").unit.text for key in MEASURES)
    return [model.maybe(value, show) for value, show in zip(values, shown, strict=True)]
