"""The facts of bandwidth curves: how fast copies are at most, below which size they are mostly latency, what pinned memory is worth. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.advice import Weight, again
from ortbench.analysis.intervals import ABOVE, MARGIN, OPEN, Verdict, ratio_of_medians, verdict_of
from ortbench.core.stats import Ratio, Value
from ortbench.facts import Fact, Quantity, Values, bytes_of, times
from ortbench.facts.sentences import Sentence
from ortbench.features.bandwidth.analysis import (
    TITLES,
    advantage,
    curve,
    gbps,
    half_rate_bytes,
    measured_cases,
    memory_of,
    size_of,
)
from ortbench.model.modes import DIRECTIONS, HOST_ACCESSIBLE, ORDINARY
from ortbench.model.result import Case, Result
from ortbench.model.schema import Direction

_DETAIL, _COST, _GAIN, _ANSWER, _DOUBT = Weight
_TIMES_LARGER = 4
_RISES = 1.1  # times the rate of the size before: a larger one may be faster by as much again


def curve_facts(result: Result) -> Iterator[Fact]:
    for way in DIRECTIONS:
        yield from _link_limit(result, way)
    for way in DIRECTIONS:
        found = advantage(result, way)
        if found is not None and found[1].ci95 is not None:
            size, ratio = found
            verdict = "faster" if _verdict(ratio) == ABOVE else "no-faster"
            values: Values = {
                "way": way.upper(),
                "size": bytes_of(size),
                "ratio": times(Value(ratio.ratio, ratio.ci95)),
            }
            yield Fact("pinned-copies", verdict, "", values)
    for way in DIRECTIONS:
        points = curve(result, way, ORDINARY)
        if len(points) > 1:
            yield Fact("short-copies", "latency", "", {"way": way.upper(), "size": bytes_of(half_rate_bytes(points))})


def _verdict(ratio: Ratio | None, same: float = 1 + MARGIN) -> Verdict:
    return OPEN if ratio is None or ratio.ci95 is None else verdict_of(ratio.ci95, same)


def _link_limit(result: Result, way: Direction) -> Iterator[Fact]:
    """The highest rate, of the memory that is measurably faster: of the largest size, unless a smaller one is measurably faster."""
    found = advantage(result, way)
    is_pinned = found is not None and _verdict(found[1]) == ABOVE
    cases = measured_cases(result, way, HOST_ACCESSIBLE if is_pinned else ORDINARY) or measured_cases(result, way)
    if not cases:
        return
    best, largest = max(cases, key=lambda case: gbps(case, way)), cases[-1]
    values: Values = {"way": way.upper(), "memory": TITLES[memory_of(largest)]}
    if _verdict(_rate_ratio(best, largest, way)) == ABOVE:
        more: Values = {"largest": bytes_of(size_of(largest)), "largest_rate": _rate(largest, way)}
        yield Fact(
            "link-limit", "falls", "", {**values, "size": bytes_of(size_of(best)), "rate": _rate(best, way), **more}
        )
        return
    values |= {"size": bytes_of(size_of(largest)), "rate": _rate(largest, way)}
    is_rising = len(cases) > 1 and _verdict(_rate_ratio(largest, cases[-2], way), _RISES) == ABOVE
    after = again(result, "--max-size", f"{_TIMES_LARGER * size_of(largest)}") if is_rising else ""
    yield Fact("link-limit", "rises" if is_rising else "reached", "", values, after)


def _rate(case: Case, way: Direction) -> Quantity:
    return bytes_of(gbps(case, way) * 1e9)


def _rate_ratio(over: Case, under: Case, way: Direction) -> Ratio | None:
    """How many times as fast copies of one size are as those of another."""
    found = ratio_of_medians((under, way), (over, way)) if over is not under else None
    return None if found is None else found.scaled_to(found.ratio * size_of(over) / size_of(under))


# fmt: off
SENTENCES = {
    ("link-limit", "reached"): Sentence("{way} copies reach {rate} per s with {size} ({memory}).", "compare the copies of a run with it", _ANSWER, "", "copies"),
    ("link-limit", "rises"): Sentence("{way} copies reach {rate} per s with {size} ({memory}), the largest size: larger copies may be faster.", "try larger copies: --max-size", _ANSWER, "", "copies"),
    ("link-limit", "falls"): Sentence("{way} copies are fastest with {size} ({memory}): {rate} per s, {largest_rate} per s with {largest}.", "expect the rate of your size: smaller copies may find their data in the CPU's caches", _ANSWER, "", "copies"),
    ("pinned-copies", "faster"): Sentence("{way} copies of {size} are {ratio:ci} as fast from and to HOST_ACCESSIBLE memory.", "allocate inputs and outputs in pinned memory", _GAIN, "good", "copies"),
    ("pinned-copies", "no-faster"): Sentence("{way} copies of {size} are not measurably faster from and to HOST_ACCESSIBLE memory: {ratio:ci}.", "keep pageable memory", _COST, "", "copies"),
    ("short-copies", "latency"): Sentence("{way} copies below {size} are mostly latency.", "copy several small tensors as one", _COST, "", "copies"),
}
