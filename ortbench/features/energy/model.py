from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

KEY = "energy"  # of a case


class Energy(TypedDict):
    """``--measure-energy``: what runs of a mode draw, in a stretch of their own after the measurement, or why that is not known
    (``unsupported``, which then is all there is).

    ``how``: ``counter``, the device's own; ``power``, readings of its power, integrated; ``rapl``, the counters of the CPU's
    packages. ``of``: of what, in words. ``start_ns``: when the stretch begins, on the clock on which blocks begin; ``parts``:
    runs, seconds and joules of its parts, the idle draw among them; ``idle``: seconds and joules of the parts of the idle time
    beside it.
    """

    unsupported: NotRequired[str]
    how: NotRequired[Literal["counter", "power", "rapl"]]
    of: NotRequired[str]
    start_ns: NotRequired[int]
    parts: NotRequired[list[list[float]]]
    idle: NotRequired[list[list[float]]]


CasePart = Energy
NEEDED = (("how", "of", "start_ns", "parts", "idle"), ("unsupported",))  # keys that it has, all of one of these


def lacking(reason: str) -> Energy:
    return {"unsupported": reason}


class StretchTimes(TypedDict):
    """``run_stretch``: when it began, and how many runs had ended at some times, both rising, a millisecond apart at least."""

    start_ns: int
    ended: list[tuple[int, int]]
