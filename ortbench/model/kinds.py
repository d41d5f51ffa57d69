"""The kinds of measurement: a record each, of keys alone. Whoever draws, says or checks something looks up what by these keys."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import NamedTuple

from ortbench.core.features import features, is_there, part_of
from ortbench.model.metrics import LATENCY, Figure, figure


class Axis(NamedTuple):
    name: str  # in points and gates
    unit: str  # of its values, as result files have it
    whole: bool = False  # its values are whole numbers


class View(NamedTuple):
    """The cases of a kind on one axis, and which of their figures are shown, compared and checked where nobody asks for
    others."""

    compared: tuple[Figure, ...] = ()  # by `ortbench compare`, and exported to services that keep a history
    several: tuple[Figure, ...] = ()  # compared of more than two results, beside their costs
    gated: tuple[Figure, ...] = ()  # compared with the baseline by `ortbench gate`
    axis: str = ""  # the axis that the cases lie on; "" for all cases of the kind
    # of the table of cases, in order: figures, and what no metric is by the report's name; those of a tuple stay together
    columns: tuple[tuple[str, ...], ...] = ()
    screen: tuple[str, ...] = ()  # of the table of the default screen, by their headings
    beside: tuple[Figure, ...] = ()  # of the default screen of several results, where these are not its times and rates


class Kind(NamedTuple):
    key: str  # in result files (``kind``)
    noun: str  # what its results are, in a sentence
    work: str  # the unit of work that is timed
    views: tuple[View, ...]  # of its cases, one an axis
    axes: tuple[Axis, ...] = ()  # that it gives its points itself; those of a sweep are the model's dimensions
    charts: tuple[str, ...] = ()  # of one result, in order
    charts_of_many: tuple[str, ...] = ("latencies",)  # of several results
    checks: tuple[str, ...] = ()  # what a gate can check without a baseline, by its options
    live: bool = True  # a gate can measure candidate and baseline in turns
    derives_copies: bool = True  # the copies of CPU tensors follow from latency with and without them
    # what its modes whose tensors stay on the device need, behind "if"; and whether what crosses the link all the same is counted in
    # each unit of work, so that they can replace the others wherever that is given
    on_device_needs: str = "tensors never cross the link between inferences"
    on_host_needs: str = (  # the same where they are in host memory
        "the host writes no inputs and reads no outputs between inferences"
    )
    takes: str = "new inputs and outputs in each inference"  # what the other modes have, which can replace each other
    counts_crossings: bool = False
    is_of_speed: bool = True  # of results side by side one can be the best, which is the fastest
    times_nodes: bool = False  # `--measure-nodes` is an option of its command
    of_stages: bool = False  # model, EP and settings are those of several sessions
    needed: tuple[str, ...] = ("model", "placement")  # parts of its results that are never empty
    target_keys: tuple[str, ...] = ()  # keys that the target has, whatever is there
    every_axis: bool = False  # its cases lie on all axes; those of others on one, or on none
    many_shapes: bool = False  # the cases have shapes of their own, in one session
    samples: str = ""  # the file that has its samples, where that is not the result file
    apart: str = ""  # who reads its files, which are no ``result.json``, where those who read others do not

    def view(self, axes: Collection[str] = ()) -> View:
        return next((it for it in self.views if it.axis in axes), self.views[0])


def figures(*texts: str) -> tuple[Figure, ...]:
    return tuple(map(figure, texts))


CONCURRENCY = Axis("concurrency", "1", whole=True)
RATE = Axis("rate", "requests/s")

COSTS = (
    "enqueue",
    "cpu_time",
    "paced_cpu_time",
    "page_faults",
    "involuntary_switches",
    "device_memory",
    "host_memory",
    "energy",
)
PACED = ("paced", "paced.p99")
PACED_COLUMNS = (("paced", "paced.p95", "paced.p99"), ("paced_ratio", "paced_ratio.ci95"), ("missed_starts",))
ANYWHERE = ("require-mode", "max-cpu-nodes", "max-device-memory", "max-host-memory", "min-speedup")
_USUAL = figures(LATENCY)
SPEEDUP = ("speedup", "speedup.ci95")


def tails(key: str) -> tuple[str, ...]:
    """A median, and the percentiles that stand beside it."""
    return key, f"{key}.p95", f"{key}.p99"


RUN = Kind(
    "run", "single inferences", "inference",
    (View(
        compared=figures(LATENCY, *PACED, "item_throughput", "h2d", "inference", "d2h", *COSTS),
        several=figures(LATENCY, *PACED, "item_throughput", *COSTS), gated=_USUAL,
        columns=(
            tails(LATENCY), SPEEDUP, ("latency.n",), *PACED_COLUMNS, ("h2d", "inference", "d2h", "copies"), ("throughput", "copied/inf", "copy_rate"),
            ("item_throughput", "item_time"),
        ),
        screen=("latency", "paced", "paced p99", "p95", "p99", "speedup", "copies", "inf/s"),
    ),),
    charts=("phases", "distribution", "drift", "bandwidth"),
    checks=(*ANYWHERE, "max-copy-share"),
    times_nodes=True,
)  # fmt: skip
_OF_CORE = {RUN.key: RUN}


@cache
def kinds() -> dict[str, Kind]:
    """All kinds, by their keys; that of a feature has the name of its folder."""
    of_features = {name: part_of(name, "model", "KIND") for name in features()}
    return {**_OF_CORE, **{name: kind for name, kind in of_features.items() if kind is not None}}


def find_kind(key: str) -> Kind | None:
    """A kind, for which no other feature's model is loaded; None where it is not there."""
    return _OF_CORE.get(key) or (part_of(key, "model", "KIND") if is_there(key) else None)


def kind_of(key: str) -> Kind:
    kind = find_kind(key)
    assert kind is not None, key
    return kind


@cache
def axes() -> dict[str, Axis]:
    """The axes of all kinds, by their names."""
    return {axis.name: axis for kind in kinds().values() for axis in kind.axes}
