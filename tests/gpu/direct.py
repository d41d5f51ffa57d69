"""The two measurements that no command makes, in a process of their own: an EP can abort it.

    python -m tests.gpu.direct MODEL TINY EP LIBRARY SECONDS

MODEL is what the fence is tried on, TINY what the loop is. LIBRARY may be empty. Prints one line of JSON: ``fence``,
null where the EP computes in host memory, and ``loop``: see `fence_figures` and
`tests.benchmarks.harness_cost.loop_figures`.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from statistics import median
from typing import Any

from ortbench.plan import RESIDENT, Inputs, Target
from ortbench.runtime import measure, modes, providers, session
from ortbench.runtime.providers import Provider
from ortbench.schedule import TOTAL
from tests.benchmarks.harness_cost import loop_figures

_TURN_NS = 30_000_000  # long against a readback, short against what else a machine does


def resident(path: str, target: Target, provider: Provider) -> modes.ResidentMode:
    """A model with its tensors on the device."""
    model = session.open_model(path, target, provider)
    mode = modes.make_mode(RESIDENT, model, session.make_data(path, model, Inputs()))
    assert isinstance(mode, modes.ResidentMode)
    return mode


def fence_figures(mode: modes.ResidentMode, seconds: float) -> dict[str, Any]:
    """N runs timed one by one, and N runs with one readback at their end, in turns.

    The smallest of each are compared: what else runs on the machine only ever adds. A fence that did not wait would make
    the samples short and leave the N runs as long as they are.

    Args:
        mode: set up.
        seconds: about how long all of it may take.

    Returns:
        ``runs`` (N), ``kind`` of the fence, ``median_ns`` of the samples, ``total_ns`` of the N runs with one readback,
        less what a readback takes when there is nothing to wait for, ``ratio`` of that to N times the median.
    """
    ranges = measure.Ranges(mode)
    (_, launch), *_ = mode.steps()
    first = median(measure.time_block(mode, ranges, TOTAL, 20, 5))
    n = max(10, round(_TURN_NS / first))
    medians, totals, readbacks = [], [], []
    for _ in range(max(7, min(200, round(seconds * 1e9 / (2 * n * first))))):
        medians.append(median(measure.time_block(mode, ranges, TOTAL, n, 2)))
        gc.disable()
        start = time.perf_counter_ns()
        for _ in range(n):
            launch()
        mode.outputs()
        done = time.perf_counter_ns()
        mode.outputs()
        readbacks.append(time.perf_counter_ns() - done)
        totals.append(done - start)
        gc.enable()
    one, total = min(medians), min(totals) - min(readbacks)
    return {"runs": n, "kind": mode.fence.kind, "median_ns": one, "total_ns": total, "ratio": total / (n * one)}


def main() -> None:
    """Measure and print."""
    model, tiny, ep, library, seconds = sys.argv[1:]
    target = Target(ep=ep, library=library or None)
    half = float(seconds) / 2
    provider = providers.find(target)
    fence = None if provider.computes_on_host else fence_figures(resident(model, target, provider), half)
    print(json.dumps({"fence": fence, "loop": loop_figures(resident(tiny, target, provider), half)}))


if __name__ == "__main__":
    main()
