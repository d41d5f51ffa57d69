"""What several pictures are made of: the parts of a time, and the modes that are shown. Only modes that are ok are; the
page's table has the others too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortbench.core.stats import Stats
from ortbench.model.kinds import KINDS
from ortbench.model.modes import LATENCY, is_rate
from ortbench.model.result import Case, Result

H2D, INFERENCE, D2H = "h2d", "inference", "d2h"
COPIES = "copies"  # of mode cpu-tensors: both directions together, derived
WHOLE = "not split"  # a run whose parts nobody timed
PER_RUN = "time per run"  # of many runs with one wait, which have no parts
FEW = 4  # so many are told one by one


def what_is_timed(results: Sequence[Result]) -> str:
    """What one sample of a latency is: an inference, a loop or a chain; of results of several kinds any of them."""
    return " or ".join(sorted({KINDS[result.kind].work for result in results}))


def measured_cases(result: Result) -> Iterator[tuple[Case, Stats]]:
    """The modes that are ok and have been measured, and the statistics of their latency."""
    for case in result.cases:
        total = case.stats(LATENCY)
        if result.case(case.mode) is case and total is not None:
            yield case, total


def timed_cases(result: Result) -> Iterator[tuple[Case, Stats]]:
    """Those of `measured_cases` whose latency says how long an inference takes, and not how often one is done."""
    return ((case, total) for case, total in measured_cases(result) if not is_rate(case.mode, LATENCY))
