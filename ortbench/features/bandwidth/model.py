"""The kind of bandwidth curves, and what the worker answers about copies."""

from __future__ import annotations

from typing import TypedDict

from ortbench.model import schema
from ortbench.model.kinds import Axis, Kind, View
from ortbench.model.protocol import OpenedEp

KIND = Kind(
    "bandwidth", "a bandwidth curve", "copy",
    (View(),),
    axes=(Axis("size", "B", whole=True), Axis("memory", "")),
    live=False,
    needed=(),
    target_keys=("copy_sync",),
    every_axis=True,
    apart="table.md and bandwidth.svg beside it show it, and 'ortbench run --bandwidth' uses it",
)  # fmt: skip


class CopyEp(OpenedEp):
    """``bandwidth_open``: the EP whose copies are timed, and the kinds of host memory that it copies from and to."""

    kinds: list[str]


class CopiesProved(TypedDict):
    """``bandwidth_prove``: what ends a copy in either direction, and about what copies of each size take."""

    h2d: schema.Sync
    d2h: schema.Sync
    estimates: list[tuple[schema.Direction, int, float | None]]  # direction, size, ns; None without a warm-up
