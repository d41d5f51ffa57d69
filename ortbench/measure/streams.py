"""Configurations whose inferences have the shapes of a stream."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Any

from ortbench.core.errors import BenchmarkFailed
from ortbench.measure.configuration import Configuration
from ortbench.measure.process import request_of
from ortbench.model.modes import BYTES_D2H, BYTES_H2D
from ortbench.model.schema import Machine
from ortbench.plan.plan import Plan


def shape_requests(plan: Plan) -> list[dict[str, Any]]:
    """The inputs of each shape, as a worker takes them; none where there is one shape."""
    if plan.stream is None:
        return []
    sizes = request_of(plan)["inputs"]["index_sizes"]
    return [{**asdict(it.inputs), "index_sizes": sizes} for it in plan.stream.shapes]


class StreamConfiguration(Configuration):
    """Its blocks are of one client, one inference after the other, of the shapes of the plan's stream.

    Attributes:
        asked: the shapes of the last block, by their numbers; None where there is one.
        drops: whether the first inferences of a block do not count.
        reopen: after so many inferences the session is closed and opened again; None for never.
    """

    asked: list[int] | None = None
    drops = True
    reopen: int | None = None
    is_soak = False  # whose blocks are such also where there is one shape

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        stream = self.plan.stream
        self._order = None if stream is None else stream.numbers(self.plan.inputs.seed)
        self._streams = self.is_soak or stream is not None

    def open(self, machine: Machine, run_id: str) -> None:
        super().open(machine, run_id)
        if self.plan.stream is not None:
            self.result.items = None  # shapes have different ones

    def prepare(self, mode: str) -> None:
        super().prepare(mode)
        if mode not in self.modes or not self._streams:
            return
        if self.plan.stream is not None:
            self.cases[mode].set_metric(BYTES_H2D, None)
            self.cases[mode].set_metric(BYTES_D2H, None)
        try:
            self.ask("begin_stream", mode=mode, inputs=shape_requests(self.plan), reopen=self.reopen)
        except BenchmarkFailed as error:
            self.fail(mode, str(error))

    def ask(self, do: str, **arguments: Any) -> Any:
        """Ask for a block of the stream, where a block is asked for."""
        if do != "block" or not self._streams:
            return super().ask(do, **arguments)
        n, drop = arguments["n"], arguments["drop"] if self.drops else 0
        order = None if self._order is None else list(islice(self._order, n + drop))
        self.asked = None if order is None else order[drop:]
        more = {"timeline": True} if arguments.get("timeline") else {}
        return super().ask("time_stream", mode=arguments["mode"], n=n, order=order, drop=drop, **more)
