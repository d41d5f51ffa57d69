"""The measurements that no command makes, each in a process of its own: an EP can abort it.

    python -m tests.gpu.direct fence-and-loop MODEL TINY EP LIBRARY SECONDS OUT
    python -m tests.gpu.direct named-device MODEL INPUTS EP LIBRARY OUT
    python -m tests.gpu.direct programs MODEL EP LIBRARY OUT

LIBRARY is "-" where there is none. OUT is the JSON file that is written.

The first tries the fence on MODEL and the loop on TINY: ``sync``, null where the EP computes in host memory, and
``loop``; see `fence_figures` and `tests.benchmarks.harness_cost.loop_figures`. The second uses the EP by its name alone:
see `named_figures`. The third runs what `ortbench code` prints: see `programs`.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from ortbench.core.ep_names import NAMED_DEVICES
from ortbench.core.errors import OrtbenchError, Unsupported
from ortbench.model.modes import CPU, DEVICE, HOST_ACCESSIBLE, LATENCY, PIPELINED, RESIDENT
from ortbench.plan.target import Inputs, Target
from ortbench.worker import timing
from ortbench.worker.modes.make import ResidentMode, make_mode
from ortbench.worker.proofs import outputs
from ortbench.worker.session import ep_by_name, first_run, libraries, memory, providers, session
from ortbench.worker.session.providers import Provider
from tests import virtual
from tests.benchmarks.harness_cost import loop_figures

_TURN_NS = 30_000_000  # long against a readback, short against what else a machine does


def resident(path: str, target: Target, provider: Provider) -> ResidentMode:
    """A model with its tensors on the device."""
    model = session.open_model(path, target, provider)
    mode = make_mode(RESIDENT, model, first_run.make_data(path, model, Inputs()))
    assert isinstance(mode, ResidentMode)
    return mode


def fence_figures(mode: ResidentMode, seconds: float) -> dict[str, Any]:
    """N runs timed one by one, and N runs with one readback at their end, in turns.

    The smallest of each are compared: what else runs on the machine only ever adds. A fence that did not wait would make
    the samples short and leave the N runs as long as they are.

    Args:
        mode: set up.
        seconds: about how long all of it may take.

    Returns:
        ``runs`` (N), ``kind`` of the fence, ``median_ns`` of the samples, ``latency_ns`` of the N runs with one readback,
        less what a readback takes when there is nothing to wait for, ``ratio`` of that to N times the median.
    """
    ranges = timing.Ranges(mode)
    (_, launch), *_ = mode.steps()
    first = median(timing.time_block(mode, ranges, LATENCY, 20, 5))
    n = max(10, round(_TURN_NS / first))
    medians, totals, readbacks = [], [], []
    for _ in range(max(7, min(200, round(seconds * 1e9 / (2 * n * first))))):
        medians.append(median(timing.time_block(mode, ranges, LATENCY, n, 2)))
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
    return {"runs": n, "kind": mode.sync.kind, "median_ns": one, "latency_ns": total, "ratio": total / (n * one)}


def fence_and_loop(model: str, tiny: str, ep: str, library: str, seconds: str) -> dict[str, Any]:
    """The two, half of the time each."""
    target = Target(ep=ep, library=None if library == "-" else library)
    half = float(seconds) / 2
    provider = providers.find(target)
    fence = None if provider.computes_on_host else fence_figures(resident(model, target, provider), half)
    return {"sync": fence, "loop": loop_figures(resident(tiny, target, provider), half)}


def named_figures(path: str, inputs: str, ep: str, library: str) -> dict[str, Any]:
    """The EP without its EP device: the session by `providers=[name]`, tensors on a device that has a name.

    `ortbench run` does so where a library brings no EP device, which no option can make it do.

    Returns:
        ``reason`` why it cannot be used so, else null, ``memory`` and by mode ``median_ns`` (null where the mode is not
        supported, with the ``reason``), ``sync``, and ``wrong``: what is wrong with its outputs, or null.
    """
    target = Target(ep=ep)
    name = None if library != "-" else ep_by_name.named(ep).ep
    if name not in NAMED_DEVICES:
        return {"reason": f"{ep if name is None else name} is known by its EP device only", "memory": None, "modes": {}}
    # As ortbench itself makes it: NVIDIA's libraries are found, and nothing is registered.
    libraries.preload_nvidia()
    provider = Provider(name)
    found = memory.device_memory(provider)
    # TF32 and other sums than the evaluator's; see tests.gpu.steps.
    request = Inputs(path=inputs, rtol=1e-2, atol=5e-3)
    model = session.open_model(path, target, provider)
    data = first_run.make_data(path, model, request)
    by_mode = {mode: _named_mode(mode, model, data, request) for mode in (CPU, DEVICE, RESIDENT)}
    return {"reason": None, "memory": found and found.label, "modes": by_mode}


def _named_mode(name: str, model: session.Model, data: first_run.Data, request: Inputs) -> dict[str, Any]:
    try:
        mode = make_mode(name, model, data)
        outputs.check_outputs(mode, request.rtol, request.atol)
        samples = timing.time_block(mode, timing.Ranges(mode), LATENCY, 50, 10)
        wrong = outputs.differences(mode, request.rtol, request.atol)
    except Unsupported as error:
        return {"median_ns": None, "sync": None, "wrong": None, "reason": str(error)}
    except OrtbenchError as error:
        return {"median_ns": None, "sync": None, "wrong": str(error), "reason": None}
    return {"median_ns": median(samples), "sync": mode.sync.kind, "wrong": wrong, "reason": None}


def programs(model: str, ep: str, library: str) -> dict[str, Any]:
    """What ``ortbench code`` prints for modes, each run as it is.

    Returns:
        By mode ``code`` and ``said``: the program's exit code and last line, or those of ``ortbench code``.
    """
    target = ("--ep", ep) if library == "-" else ("--ep-library", library)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for mode in (CPU, DEVICE, RESIDENT, HOST_ACCESSIBLE, PIPELINED):
            path = Path(folder) / f"{mode}.py"
            printed = _ran("-m", "ortbench", "code", model, "--mode", mode, *target)
            path.write_text(printed.stdout)
            done = printed if printed.returncode else _ran(str(path))
            said = (done.stderr if done.returncode else done.stdout).strip().splitlines()
            found[mode] = {"code": done.returncode, "said": said[-1] if said else ""}
    return found


def _ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=60)


_MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {
    "fence-and-loop": fence_and_loop,
    "named-device": named_figures,
    "programs": programs,
}


def main() -> None:
    """Measure, and write what was found; what ortbench cannot do is one line."""
    what, *given, out = sys.argv[1:]
    try:
        found = _MEASUREMENTS[what](*given)
    except OrtbenchError as error:
        sys.exit(str(error))
    Path(out).write_text(json.dumps(found, indent=2) + "\n")


def forked_main() -> None:
    """The same in a fork (`tests.forks.MAIN`), whose own calls take time where that is virtual."""
    virtual.attach(works=True)
    main()


if __name__ == "__main__":
    main()
