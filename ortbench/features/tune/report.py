"""The report of what `ortbench tune` left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ortbench.analysis.advice import Finding
from ortbench.analysis.comparison import CANNOT_TELL, SAME, RatioEstimate, word
from ortbench.analysis.intervals import MARGIN, Interval
from ortbench.core import units
from ortbench.model.modes import CPU_TIME, LATENCY
from ortbench.report import model

_LEFT_OUT = (
    model.Column("tried briefly", model.Kind.NAME, model.KEY),
    *model.columns(model.Kind.NUMBER, "latency vs default", "CPU time vs default"),
    model.Column("left out because", model.Kind.WORDS),
)


_OPEN = 10  # times a ratio: an end of its interval beyond that says nothing


def left_out(
    found: Mapping[str, Mapping[str, tuple[float, Interval | None]]],
    failures: Mapping[str, str],
    why: Mapping[str, str],
    lacking: Sequence[Finding] = (),
) -> list[model.Report]:
    """The configurations that were tried and are not among the best, with their figures against the first, the fastest first, and why
    they are not, unless others raced better; those that could not be measured; and what there was no time for."""
    order = sorted((name for name in found if name not in failures), key=lambda name: found[name][LATENCY][0])
    rows = tuple(
        (
            name,
            *(model.maybe(found[name].get(goal), _against) for goal in (LATENCY, CPU_TIME)),
            why.get(name, "others raced better"),
        )
        for name in order
    )
    told = [model.Note(f"{name}: {reason}", "✗", model.BAD) for name, reason in failures.items()]
    table = [model.Table(_LEFT_OUT, rows, title="Tried briefly")] if rows else []
    blocks = [*table, model.Notes(told), model.Findings(lacking)]
    return [model.Report("ortbench tune: tried briefly", (blocks,))] if table or told or lacking else []


def _against(found: tuple[float, Interval | None]) -> str:
    """A ratio where a race tells it, else a word, with where it lies."""
    ratio, ends = found
    if ends is None:
        return CANNOT_TELL
    said = word(RatioEstimate(1, ratio, ratio, *ends), MARGIN)
    is_open = ends[1] > _OPEN * ratio  # a mode that is bimodal, of which a few blocks say nothing
    lies = f"from {units.ratio(ends[0])} on" if is_open else model.interval_text(ends, units.ratio)
    return f"{said if said in (SAME, CANNOT_TELL) else units.ratio(ratio)} ({lies})"
