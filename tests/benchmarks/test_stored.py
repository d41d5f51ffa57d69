"""The runs in reports/stored-runs.json: intervals of comparisons at different times hold the truth as often as they are to."""

from __future__ import annotations

import json

from tests.benchmarks.stored import PAIRS, RUNS, rows, text


def test_intervals_of_runs_at_different_times_hold_the_truth() -> None:
    found = [*rows()]
    assert len(found) == 10
    assert all(pairs == PAIRS for _, pairs, *_ in found)
    assert 0.92 <= sum(held for *_, held, _ in found) / len(found) <= 0.98
    assert [what for what, _, held, _ in found if held < 0.92] == [
        "tiny against itself, short"
    ]  # see reports/coverage.md
    assert all(width < 0.1 for what, *_, width in found if what.startswith("tiny"))


def test_the_file_is_what_was_written() -> None:
    assert text(json.loads(RUNS.read_text())) == RUNS.read_text()
