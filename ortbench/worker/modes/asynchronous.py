"""Mode `device-resident-async`: runs that nobody waits for one by one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import onnxruntime as ort

from ortbench.model.modes import ASYNC, LATENCY
from ortbench.worker.modes.base import Split, TimedCall
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.session.providers import Provider

_BURST_NS = 20_000_000
_LEAST_BURST, _MOST_BURST = 4, 100


class AsyncMode(BoundMode):
    """Device tensors resident, and runs that ORT does not wait for: many are started, and one fence ends them all.

    A call of ``latency`` is a burst of runs and the fence.

    Attributes:
        per_call: runs in a burst.
    """

    name = ASYNC
    bytes_in = bytes_out = 0

    @classmethod
    def lacks(cls, provider: Provider) -> str | None:
        return "no runs that return before they are done" if provider.computes_on_host else super().lacks(provider)

    def _prepare(self) -> None:
        if self._options is None:
            self._options = ort.RunOptions()
        # ORT's own wait at the end of a run; onnxruntime_run_options_config_keys.h. What an EP waits for by itself stays.
        self._options.add_run_config_entry("disable_synchronize_execution_providers", "1")
        self.per_call = 1
        super()._prepare()
        self.per_call = self._burst()

    def _burst(self) -> int:
        """As many runs as fill a block, so that the fence weighs little, and not so many that a queue overflows."""
        call, a, b = self._fenced_run()
        times = []
        for _ in range(3):
            start = time.perf_counter_ns()
            call(a, b)
            times.append(time.perf_counter_ns() - start)
        return max(_LEAST_BURST, min(_MOST_BURST, _BURST_NS // min(times)))

    def phases(self) -> dict[str, TimedCall]:
        launch, wait = self._launches(), self.fence.wait

        def burst(binding: Any, options: Any) -> None:
            launch(binding, options)
            if wait is not None:
                wait()

        return {LATENCY: (burst, self._native_binding, self._options)}

    def submits(self) -> dict[str, Split]:
        """Of a burst: all of its runs and the one wait."""
        call, wait = (self._launches(), self._native_binding, self._options), self.fence.wait
        return {} if wait is None else {LATENCY: (call, wait)}

    def _launches(self) -> Callable[[Any, Any], None]:
        run, count = self._run, self.per_call

        def launch(binding: Any, options: Any) -> None:
            for _ in range(count):
                run(binding, options)

        return launch
