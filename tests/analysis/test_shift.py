"""By how much one group lies above another: held against counting, SciPy, and what it claims."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from ortbench.features.loop.analysis import change_points as module
from ortbench.features.loop.analysis.change_points import Shift, shift


def test_the_distribution_is_that_of_all_orders() -> None:
    for n, m in [(1, 1), (2, 3), (3, 5), (4, 4), (6, 5)]:
        counted = [0] * (n * m + 1)
        for mine in combinations(range(n + m), n):
            theirs = [place for place in range(n + m) if place not in mine]
            counted[sum(a > b for a in mine for b in theirs)] += 1
        assert module._counts(n, m) == counted


def test_the_interval_holds_the_ratios_that_the_test_does_not_refuse() -> None:
    for sizes in [(3, 5), (4, 4), (6, 6), (10, 12), (18, 12)]:
        random = np.random.default_rng(2)
        before, after = (random.lognormal(0, 0.1, size) for size in sizes)
        found = shift([*before], [*after])
        assert found.ci95 is not None
        low, high = found.ci95
        for ratio, is_inside in (
            (low * 1.0001, True),
            (high / 1.0001, True),
            (low / 1.0001, False),
            (high * 1.0001, False),
        ):
            p = mannwhitneyu(before * ratio, after, method="exact").pvalue
            assert bool(p > 0.05) is is_inside
        assert low < found.ratio < high


def test_many_figures_go_by_the_normal_approximation_without_a_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = module._rank(20, 20)
    monkeypatch.setattr(module, "_EXACT", 0)
    assert exact is not None
    assert module._rank(20, 20) in (exact - 1, exact, exact + 1)


def test_what_is_a_difference() -> None:
    for found, same, is_beyond in [
        (Shift(1.1, (1.05, 1.15)), 0.02, True),
        (Shift(0.9, (0.85, 0.95)), 0.02, True),
        (Shift(1.1, (0.99, 1.2)), 0.02, False),
        (Shift(1.1, None), 0.02, False),
        (Shift(1.015, (1.01, 1.02)), 0.02, False),
        (Shift(0.985, (0.98, 0.99)), 0.02, False),
        (Shift(1.015, (1.01, 1.02)), 0.01, True),
    ]:
        assert found.is_beyond(same) is is_beyond
    assert shift([1.0], [2.0]) == Shift(2.0, None)
    assert shift([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]).ci95 is None
    assert shift([1.0] * 3, [2.0] * 5) == Shift(2.0, (2.0, 2.0))
