"""The kind of soaks, and what a result has of one."""

from __future__ import annotations

from typing import TypedDict

from ortbench.model import modes
from ortbench.model.kinds import RUN, View, figures, tails
from ortbench.model.metrics import LATENCY
from ortbench.model.schema import Order, ProcessReading
from ortbench.model.settings import Setting

_GROWTHS = (modes.HOST_GROWTH, modes.DEVICE_GROWTH, "handle_growth", "thread_growth")
_SOAKED = ("cpu_time", "page_faults", "host_held", "device_held", *_GROWTHS)
KIND = RUN._replace(
    key="soak", noun="a soak",
    views=(View(
        compared=figures(LATENCY, "latency.p99", *_SOAKED), several=figures(LATENCY, *_SOAKED), gated=RUN.views[0].gated,
        columns=(tails(LATENCY), ("inferences", "timed"), ("private memory at start", "at end"), _GROWTHS, ("verdict",)),
        screen=("latency", "p99", "inferences", "private memory at start", "at end"),
        beside=figures("cpu_time", "host_held", "device_held"),
    ),),
    charts=("memory", "distribution", "drift"),
    checks=("require-mode", "max-cpu-nodes", "max-growth"),
    live=False,
    times_nodes=False,
    is_of_speed=False,
    needed=(*RUN.needed, "soak"),
)  # fmt: skip

SETTINGS = (Setting("order", "order of shapes", "shape-order"), Setting("reopened", "session reopened after", "reopen"))


class SoakedShape(TypedDict):
    """A shape of a soak: how many of its inferences there were, and what one took."""

    name: str
    n: int
    median_ns: int
    p99_ns: int


class SoakReading(ProcessReading):
    """What the worker's process held after so many inferences, ``at_ns`` after the first one began; also bytes of the ``device``, null
    where NVML does not tell. ``median_ns``: of the latency in the block that ended then."""

    inferences: int
    at_ns: int
    device: int | None
    median_ns: int


class Soak(TypedDict):
    """How a soak went: ``order`` of the shapes, null of one; after how many inferences the session was ``reopened``, else null;
    the ``shapes``, where there are several; and at most 2,000 ``readings``."""

    order: Order | None
    reopened: int | None
    shapes: list[SoakedShape]
    readings: list[SoakReading]


class Parts(TypedDict, total=False):
    soak: Soak
