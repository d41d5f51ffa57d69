"""Which figures of which levels the metrics of a gate are of. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ortbench.analysis.arrivals import own_rate
from ortbench.analysis.compare_levels import COMPARED
from ortbench.analysis.levels import CONCURRENCY, RATE, RUNS_PER_S, At
from ortbench.errors import BadInput
from ortbench.gate.limits import DEFAULT_METRIC, Limits, Metric
from ortbench.load_plan import LoadPlan, read_timestamps
from ortbench.modes import LOAD

EVERY_LEVEL = Metric(None, LOAD, "")  # what matters most of each


class Held(NamedTuple):
    """A figure of a level that is held against the baseline's."""

    mode: str
    at: At
    stat: str

    @property
    def name(self) -> str:
        """In a few words; the same from run to run."""
        return f"{self.mode} {'runs/s' if self.stat == RUNS_PER_S else self.stat} {self.at.phrase}"


def planned_levels(modes: Sequence[str], load: LoadPlan) -> list[tuple[str, At]]:
    """The modes and levels that a load has, as far as they are known before: a search comes upon its rates."""
    rates = load.rate if isinstance(load.rate, tuple) else ()
    if load.rate is None and load.file is not None:
        rates = (own_rate(read_timestamps(load.file)),)
    levels = [*(At(CONCURRENCY, it) for it in load.closed), *(At(RATE, it) for it in rates)]
    return [(mode, it) for mode in modes for it in levels]


def held_levels(places: Sequence[tuple[str, At]], limits: Limits, verb: str = "was measured in both") -> list[Held]:
    """What is held against the baseline, each once.

    Args:
        places: the modes and levels of both sides.
        limits: with the metrics.
        verb: what they are, for messages.

    Raises:
        BadInput: a metric of levels that both do not have.
    """
    found: dict[Held, None] = {}
    for metric in load_metrics(limits):
        own = list(_of_metric(metric, places, limits))
        if not own:
            raise BadInput(f"--metric {metric.text}: {_why_none(metric, places, verb)}", "--metric")
        found.update(dict.fromkeys(own))  # two metrics can mean one thing
    return list(found)


def load_metrics(limits: Limits) -> Sequence[Metric]:
    """The metrics of levels; where none of any kind was asked for, what matters most of each level."""
    if limits.metrics == (DEFAULT_METRIC,):
        return (EVERY_LEVEL,)
    return [metric for metric in limits.metrics if metric.phase == LOAD]


def _of_metric(metric: Metric, places: Sequence[tuple[str, At]], limits: Limits) -> Iterator[Held]:
    for mode, place in places:
        named = metric.mode == mode or (metric.mode is None and limits.held(mode))
        if not named or metric.at not in (None, place):
            continue
        stat = metric.stat or COMPARED[place.kind][0]
        if stat != RUNS_PER_S or place.kind != RATE or metric.at is not None:  # at a rate it is what was asked for
            yield Held(mode, place, stat)


def _why_none(metric: Metric, places: Sequence[tuple[str, At]], verb: str) -> str:
    common = [place for mode, place in places if metric.mode in (None, mode)]
    if not common:
        return f"no level of it {verb}"
    listed = dict.fromkeys(f"{place.kind}={place.value:g}" for place in common)
    return f"no such level {verb}; there are {', '.join(listed)}"
