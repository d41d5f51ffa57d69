"""`ortbench.watch`."""

from __future__ import annotations

import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from ortbench.api.calls import AnyPath
from ortbench.core.errors import BadInput
from ortbench.core.files import temporary_folder
from ortbench.features.watch import shim


class watch:
    """Record what ONNX Runtime costs in a ``with`` block, in this process and those that it forks: ``with ortbench.watch() as watched:``.

    Raises `BadInput` where this process is recorded already.

    Args:
        replay: measure the sessions again at the end of the block: what a change saves.
        ep_library: of a plugin EP, for that.

    Attributes:
        data: what ``result.json`` of `ortbench watch` has, from the end of the block on.
    """

    def __init__(self, *, replay: bool = False, ep_library: AnyPath | None = None) -> None:
        self.data: dict[str, Any] = {}
        self._replay, self._library = replay, None if ep_library is None else os.fspath(ep_library)
        self._report: Any = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        from ortbench.features.watch.job.watch import throttled_ns

        if shim.is_recording() or os.environ.get(shim.FOLDER):
            raise BadInput("this process is recorded already: leave one ortbench watch out")
        self._records = Path(self._stack.enter_context(temporary_folder()))
        self._before = time.perf_counter_ns(), time.process_time_ns(), throttled_ns()
        shim.start(str(self._records), 64_000_000 if self._replay else 0)
        return self

    def __exit__(self, *_: object) -> None:
        from ortbench.features.watch.job.watch import conclude, read_program

        with self._stack:
            shim.stop()
            wall, cpu, throttled = self._before
            spent = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
            program = read_program(self._records, sys.argv or [""], 0, *spent, throttled)
            records, library = self._records, self._library
            self.data, self._report = conclude(program, self._replay, records, records, library, True, 0.0, "")

    def markdown(self) -> str:
        """The report as Markdown."""
        from ortbench.report.records import markdown

        return "" if self._report is None else markdown(self._report)
