"""Bars, cell by cell."""

from __future__ import annotations

import random

import pytest

from ortbench.report.case_table import bar


@pytest.mark.parametrize(
    ("sizes", "scale", "width", "expected"),
    [
        # Right to half a cell.
        ((1, 2, 1), 4, 8, "aabbbbcc"),
        ((1, 2, 1), 8, 8, "abbc"),
        ((10,), 100, 8, "a"),
        ((55,), 100, 10, "aaaaaa"),
        ((54,), 100, 10, "aaaaa"),
        # Who gets the odd cells: the largest remainders.
        ((3.3, 3.3, 3.4), 10, 10, "aaabbbcccc"),
        ((1, 1), 2, 3, "aab"),
        # What is above zero is seen, at the cost of the largest.
        ((0.01, 97, 0.01), 97.02, 10, "abbbbbbbbc"),
        ((0.01, 0.01, 0.01), 100, 10, "abc"),
        ((5, -3, 5), 10, 4, "aacc"),
        # More parts than cells: the largest.
        ((1, 3, 2), 6, 2, "bc"),
        ((1, 3, 2), 6, 1, "b"),
        # Never beyond the whole.
        ((30, 30), 40, 8, "aaaabbbb"),
        # Nothing to draw, or nowhere to.
        ((), 10, 8, ""),
        ((0, 0), 10, 8, ""),
        ((-1,), 10, 8, ""),
        ((1,), 0, 8, ""),
        ((1,), 10, 0, ""),
    ],
)
def test_bars(sizes: tuple[float, ...], scale: float, width: int, expected: str) -> None:
    assert bar(list(zip("abc", sizes, strict=False)), scale, width) == expected


def test_any_bar_is_as_long_as_its_parts_and_no_part_is_lost() -> None:
    draw = random.Random(7)
    for _ in range(500):
        sizes = [draw.choice([0, draw.random(), draw.random() * 1_000]) for _ in range(draw.randint(1, 5))]
        width, scale = draw.randint(1, 60), sum(sizes) * draw.uniform(0.5, 3) or 1
        drawn = bar(list(zip("abcde", sizes, strict=False)), scale, width)
        above = [fill for fill, size in zip("abcde", sizes, strict=False) if size > 0]
        assert len(drawn) == min(width, max(len(above), round(sum(sizes) / scale * width)))
        assert list(dict.fromkeys(drawn)) == [fill for fill in above if fill in drawn]
        assert len(above) > width or set(drawn) == set(above)
