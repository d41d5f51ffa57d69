"""What a mode's latency is made of, and bars of text: one row of cells, filled part by part. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ortbench.analysis.derive import adds_up
from ortbench.analysis.intervals import timed_phase
from ortbench.model.modes import COPIES_HIDDEN, COPY_TIME, D2H, H2D, LATENCY, is_rate, mode_of
from ortbench.model.result import Case
from ortbench.report.model import NOTHING

SPLIT = "breakdown"  # what the column of bars is called
INFERENCE = "inference"
COPIES = "copies"  # derived, and known only in sum: H2D and D2H
WHOLE = "no breakdown"  # its parts are not known
PER_RUN = "time per inference"  # there are no parts: many runs and one wait, copied outside of them
# A fill for each, told apart without colour. They are block elements, which fonts for terminals have.
FILLS = {H2D: "░", INFERENCE: "█", D2H: "▒", COPIES: "≈", PER_RUN: "┅", WHOLE: "━"}


class Segment(NamedTuple):
    """A part of a mode's latency: a phase, `COPIES`, `WHOLE` or `PER_RUN`, how long it takes (ns), and whether that was derived."""

    kind: str
    ns: float
    derived: bool = False


def segments_of(case: Case) -> tuple[Segment, ...]:
    """What the latency of a case that was measured is made of.

    Phases are timed in blocks of their own, and say nothing where they do not add up to the latency; what was derived does. Copies of
    CPU tensors are never below 0. In a pipeline phases of several items overlap: of its copies there is what is not hidden, the rest is inference.
    """
    total = case.median(LATENCY)
    assert total is not None
    if mode_of(case.mode).in_bursts:
        return (Segment(PER_RUN, total),)
    every, hidden, inference = case.value(COPY_TIME), case.value(COPIES_HIDDEN), case.value(INFERENCE)
    if is_rate(case.mode, LATENCY):
        if every is None or hidden is None:
            return (Segment(WHOLE, total),)
        copies = every - hidden
        return Segment(COPIES, copies, True), Segment(INFERENCE, max(total - copies, 0), True)
    phases = (H2D, INFERENCE, D2H) if timed_phase(case.mode, INFERENCE) != LATENCY else (INFERENCE,)
    medians = {phase: median for phase in phases if (median := case.median(phase)) is not None}
    if len(medians) > 1 and not adds_up(case):
        return (Segment(WHOLE, total),)
    if medians and all(phase in medians or case.copies_nothing(phase) for phase in phases):
        return tuple(Segment(phase, median) for phase, median in medians.items())
    if every is not None and inference is not None:
        return Segment(COPIES, max(every, 0), True), Segment(INFERENCE, min(inference, total), True)
    return (Segment(WHOLE, total),)


def bar(parts: Sequence[tuple[str, float]], scale: float, width: int) -> str:
    """A bar of at most `width` cells, as long as its parts are together, of fills one character wide and sizes; `scale` fills it all.

    Every part above zero has a cell of its own as long as there are cells for all of them, so that small ones are seen;
    the rest is shared out by size (largest remainder), and the bar's length is right to half a cell.
    """
    sizes = [max(size, 0.0) for _, size in parts]
    whole = sum(sizes)
    if whole <= 0 or scale <= 0 or width <= 0:
        return ""
    shown = sum(size > 0 for size in sizes)
    length = min(width, max(shown, round(whole / scale * width)))
    return "".join(fill * count for (fill, _), count in zip(parts, _share_out(sizes, length), strict=True))


def _share_out(sizes: Sequence[float], cells: int) -> list[int]:
    """Cells for each size: by size, and at least one for each above zero where there are enough."""
    exact = [size / sum(sizes) * cells for size in sizes]
    counts = [max(1, int(share)) if share > 0 else 0 for share in exact]
    places = range(len(sizes))
    while sum(counts) < cells:
        counts[max(places, key=lambda place: exact[place] - counts[place])] += 1
    while sum(counts) > cells:
        filled = [place for place in places if counts[place] > 1] or [place for place in places if counts[place]]
        counts[max(filled, key=lambda place: counts[place] - exact[place])] -= 1
    return counts


_LEVELS = "▁▂▃▄▅▆▇█"
_WIDTH = 16  # characters of a curve


def sparkline(values: Sequence[float], span: tuple[float, float]) -> str:
    """A curve of block elements, `_WIDTH` at most, each for the mean of some values; `span`: the ends of all curves that are compared."""
    if not values:
        return NOTHING
    width = min(_WIDTH, len(values))
    low, high = span
    parts = [values[len(values) * at // width : len(values) * (at + 1) // width] for at in range(width)]
    means = [sum(part) / len(part) for part in parts]
    steps = len(_LEVELS) - 1
    return "".join(_LEVELS[round((mean - low) / (high - low) * steps) if high > low else 0] for mean in means)
