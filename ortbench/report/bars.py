"""Bars of text: one row of cells, filled part by part. Pure."""

from __future__ import annotations

from collections.abc import Sequence

SPLIT = "split"  # what the column of bars is called
# A fill for each phase, told apart without colour. They are block elements, which fonts for terminals have.
FILLS = {"h2d": "░", "inference": "█", "d2h": "▒"}
COPIES = "≈"  # derived, and known only in sum: H2D and D2H
WHOLE = "━"  # its parts are not known
PER_RUN = "┅"  # there are no parts: many runs and one wait, copied outside of them


def bar(parts: Sequence[tuple[str, float]], scale: float, width: int) -> str:
    """A bar, as long as its parts are together.

    Every part above zero has a cell of its own as long as there are cells for all of them, so that small ones are seen;
    the rest is shared out by size (largest remainder), and the bar's length is right to half a cell.

    Args:
        parts: each part's fill, one character wide, and its size; one below zero counts as zero.
        scale: the size that fills the whole width; parts that come to more are drawn as if they came to this.
        width: cells.

    Returns:
        At most `width` characters, without padding.
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
