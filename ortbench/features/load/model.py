"""The kind of loads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NotRequired, TypedDict

from ortbench.model import modes
from ortbench.model.kinds import CONCURRENCY, RATE, RUN, Kind, View, figures, tails
from ortbench.model.metrics import LATENCY

if TYPE_CHECKING:
    from ortbench.model.result import Result

KIND = Kind(
    "load", "a load", "inference",
    (
        View(
            compared=figures("throughput", LATENCY, "latency.p99", modes.CPU_TIME), several=figures("throughput", modes.CPU_TIME),
            gated=figures("throughput"),
            axis=CONCURRENCY.name,
            columns=(
                ("throughput", "throughput.ci95"), ("scaling", "scaling.ci95"), tails(LATENCY), ("SLO",), ("cpu_cores", "gil_wait"), ("fairness",),
                ("sm_clock",),
            ),
            screen=("inf/s", "latency", "p99", "SLO", "CPU cores", "scaling"),
        ),
        View(
            compared=figures("latency.p99", LATENCY, modes.CPU_TIME), several=figures("latency.p99", modes.CPU_TIME), gated=figures("latency.p99"),
            axis=RATE.name,
            columns=(
                tails(LATENCY), ("SLO",), ("queue_delay.mean", "service_time"), ("utilisation",), ("generator_lag.p99", "late_share"),
                ("throughput", "throughput.ci95"), ("cpu_cores", "gil_wait"), ("sm_clock",),
            ),
            screen=("latency", "p99", "SLO", "CPU cores", "utilisation", "mean queue delay"),
        ),
    ),
    axes=(CONCURRENCY, RATE),
    charts=("by_clients", "by_rate"),
    charts_of_many=("by_clients", "by_rate"),
    checks=("require-mode", "max-cpu-nodes", "max-device-memory", "max-host-memory", "slo"),
    needed=(*RUN.needed, "load"),
    samples="load-samples.npz",
)  # fmt: skip
# What the clients of a load have: one session together, one each, or one each in a process of its own.
SHARED, OWN, PROCESS = "shared", "own", "process"
# The sizes at which requests of several sizes run.
EXACT, MULTIPLES, POWERS, LARGEST = "exact", "multiples:", "powers-of-two", "largest"


def own_rate(seconds: Sequence[float]) -> float:
    """The mean requests per second of a file of timestamps: its distances by its length."""
    return (len(seconds) - 1) / seconds[-1]


class LoadSetup(TypedDict):
    """How a load was put on: ``sessions`` is ``shared``, ``own`` or ``process``; ``duration_s`` of a load point; ``arrivals`` is
    ``poisson``, ``uniform`` or ``file`` with the ``file``'s name, null without an open loop; so many ``workers`` serve an open loop;
    ``slo`` the most that each statistic of the latency may be, ns. Of several ``shapes``, which it mixes, also their ``order``; where that
    says to which shapes requests are padded, the sizes of the ``requests``, as often as they come, and the share of ``padding``."""

    sessions: str
    duration_s: float
    arrivals: str | None
    file: str | None
    seed: int
    workers: int
    slo: dict[str, int] | None
    order: NotRequired[str]
    shapes: NotRequired[list[str]]
    requests: NotRequired[list[str]]
    padding: NotRequired[float]


class Knee(TypedDict):
    """The last number of clients that brought at least 5 % more inferences/s, and its share of the most; null where intervals overlap
    or the machine was too busy to tell."""

    concurrency: int
    share_of_peak: float


class SloRate(TypedDict):
    """The highest rate, per second, of those tried that meets the SLO by all ``requests`` at it, whose ``latency`` is here, ns by the SLO's
    statistics; ``violated_from``: the lowest rate above, from which on all that were tried violate it, null where none does."""

    rate: float
    violated_from: float | None
    requests: int
    latency: dict[str, int]


class MetSlo(TypedDict):
    """An SLO, ns by statistic, and of ``--rate auto`` what rate keeps it, by mode; null where none was found."""

    asked: dict[str, int]
    found: dict[str, SloRate | None]


class LoadClients(TypedDict):
    """``load_clients``: the system's numbers of the clients' threads; ``lock``: system call and address at which threads of
    the worker wait for the GIL, None where that cannot be seen."""

    threads: list[int]
    lock: list[int] | None


class LoadRuns(TypedDict):
    """``load_closed``: what clients did from ``at_ns`` on: when the runs of each started and ended, packed (`pack`); what ended a
    client early and what is wrong with the outputs of one, in words; CPU time of the worker and time by the clock."""

    at_ns: int
    starts: list[str]
    ends: list[str]
    error: str | None
    differs: str | None
    cpu_ns: int
    wall_ns: int


class LoadServed(LoadRuns):
    """``load_open``: also which requests each client served, and from when on it was free for each, packed; and for each mark when the
    worker got to it and what CPU time it had taken by then, ns."""

    numbers: list[str]
    free: list[str]
    readings: list[tuple[int, int]]


class Parts(TypedDict, total=False):
    load: LoadSetup
    knee: dict[str, Knee | None] | None
    slo: MetSlo | None


def references(result: Result) -> Iterator[tuple[list[str | int], str, Collection[str]]]:
    """Where a name stands that is that of something else in the result, the name, and those that there are."""
    modes = {case.mode for case in result.cases}
    for mode in result.own.get("knee") or ():
        yield ["knee"], mode, modes
    for mode in (result.own.get("slo") or {}).get("found", ()):
        yield ["slo", "found"], mode, modes
