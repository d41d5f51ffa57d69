"""The measurements that no command makes, each in a process of its own: an EP can abort it.

    python -m tests.gpu.direct fence MODEL EP LIBRARY SECONDS DIMS OUT
    python -m tests.gpu.direct launch MODEL EP LIBRARY SECONDS DIMS OUT
    python -m tests.gpu.direct memcpy EP LIBRARY SECONDS BYTES,… OUT
    python -m tests.gpu.direct nsight FOLDER FOLDER/profile.json

LIBRARY and DIMS are "-" where there are none. OUT is the JSON file that is written. Ortbench's figures are compared with them: runs
with one readback at their end, CUPTI's kernels, cudaMemcpy, and Nsight Systems' report that came back alone.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests import installed  # noqa: F401  # before anything of ortbench is

# isort: split
from ortbench.analysis.copies import GAP_NS, KERNEL, Activity, Moment, on_our_clock
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, Unsupported, one_line
from ortbench.core.processes import find_nsys, nsys_version
from ortbench.features.bandwidth.worker import Copies, CopyPair
from ortbench.features.profile import measure as nsys
from ortbench.measure.environment import free_memory
from ortbench.model.modes import DIRECTIONS, HOST_ACCESSIBLE, LATENCY, RESIDENT
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, inspection, providers, session, timing
from ortbench.worker.modes import ResidentMode, make_mode
from tests import virtual
from tests.gpu import checks

_HELD: list[Any] = []  # memory that copies are made of
_TURN_NS = 30_000_000  # long against a readback, short against what else a machine does


def resident(path: str, ep: str, library: str, dims: str) -> ResidentMode:
    """A model with its tensors on the device."""
    target = Target(ep=ep, library=None if library == "-" else library)
    provider = providers.find(target)
    if provider.computes_on_host:
        raise Unsupported("this EP computes in host memory: nothing is copied to a device")
    model = session.open_model(path, target, provider)
    pairs = (it.split("=") for it in dims.split(",") if dims != "-")
    sizes: dict[str, int | str] = {name: int(size) for name, size in pairs}
    mode = make_mode(RESIDENT, model, first_run.make_data(path, model, Inputs(dims=sizes)))
    assert isinstance(mode, ResidentMode)
    return mode


def fence(path: str, ep: str, library: str, seconds: str, dims: str) -> dict[str, Any]:
    """N runs timed one by one, and N runs with one readback at their end, in turns; gives `runs` (N), `kind` of the fence, `median_ns` of the
    samples, `latency_ns` of the N runs less what a readback takes when there is nothing to wait for, and `ratio` of that to N medians.

    The smallest of each are compared: what else runs on the machine only ever adds. A fence that did not wait would make
    the samples short and leave the N runs as long as they are.
    """
    mode = resident(path, ep, library, dims)
    ranges = timing.Ranges(mode)
    (_, launch), *_ = mode.steps()
    first = median(timing.time_block(mode, ranges, LATENCY, 20, 5))
    n = max(10, round(_TURN_NS / first))
    medians, totals, readbacks = [], [], []
    for _ in range(max(7, min(200, round(float(seconds) * 1e9 / (2 * n * first))))):
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


def launch(path: str, ep: str, library: str, seconds: str, dims: str) -> dict[str, Any]:
    """What a resident inference takes by ortbench, and the kernels of as many by CUPTI, behind each other: medians, ns, `latency_ns` without
    CUPTI; with it `recorded_ns` of an inference, `span_ns` from the start of its first kernel to the end of its last, and `launch_ns`,
    what comes before and behind that; `sync`, how an inference is ended."""
    mode = resident(path, ep, library, dims)
    ranges = timing.Ranges(mode)
    first = median(timing.time_block(mode, ranges, LATENCY, 5, 5))
    runs = max(10, min(500, round(float(seconds) * 1e9 / 2 / (first + GAP_NS))))
    latency = median(timing.time_block(mode, ranges, LATENCY, runs, 5))
    module = inspection._load_cupti()
    try:
        recorder = inspection.Recorder(module)
    except Exception as error:  # as `inspection.measure_copies` says it
        raise BenchmarkFailed(f"CUPTI refuses: {one_line(error)}") from None
    call, a, b = mode.phases()[LATENCY]
    with recorder.recording() as found:
        call(a, b)
        before, times = recorder.moment(), []
        for _ in range(runs):
            time.sleep(GAP_NS / 1e9)
            start = time.perf_counter_ns()
            call(a, b)
            times.append((start, time.perf_counter_ns()))
        time.sleep(GAP_NS / 1e9)
        after = recorder.moment()
    spans = list(_kernel_spans(times, found, before, after))
    return {
        "sync": mode.sync.to_dict(),
        "runs": runs,
        "latency_ns": latency,
        "recorded_ns": median(end - start for start, end in times),
        "span_ns": median(spans),
        "launch_ns": median(end - start - span for (start, end), span in zip(times, spans, strict=True)),
    }


def _kernel_spans(times: list[tuple[int, int]], found: list[Activity], before: Moment, after: Moment) -> Iterator[int]:
    """From the start of each run's first kernel to the end of its last, ns."""
    kernels = [it for it in found if it.what == KERNEL]
    for start, end in times:
        own = [it for it in kernels if start - GAP_NS // 2 <= on_our_clock(it.start_ns, before, after) <= end]
        if not own:
            raise BenchmarkFailed("CUPTI recorded no kernel of an inference")
        yield max(it.end_ns for it in own) - min(it.start_ns for it in own)


def memcpy(ep: str, library: str, seconds: str, sizes: str) -> dict[str, Any]:
    """Copies as `ortbench bandwidth` makes them, and cudaMemcpy's, in turns: of each its way, memory and bytes, and both medians, ns."""
    target = Target(ep=ep, library=None if library == "-" else library)
    copies, wanted = Copies(target, seed=0), [int(it) for it in sizes.split(",")]
    runtime = ctypes.CDLL("libcudart.so.13")  # which is loaded by now
    found = []
    for kind in copies.kinds:
        for size in wanted:
            copies.add(kind, size, free_memory())
        copies.prove(kind)
        for size, pair in copies.pairs(kind).items():
            plain = _plain_copies(runtime, size, pinned=kind == HOST_ACCESSIBLE)
            for way in DIRECTIONS:
                each_s = float(seconds) / len(wanted) / len(copies.kinds) / len(DIRECTIONS)
                ours, theirs = _in_turns(pair, way, plain[way], each_s)
                found.append({"way": way, "memory": kind, "bytes": size, "ours_ns": ours, "theirs_ns": theirs})
    return {"copies": found}


def _plain_copies(runtime: ctypes.CDLL, size: int, pinned: bool) -> dict[str, Callable[[], None]]:
    """cudaMemcpy from host memory to the device's, and back; the memory is kept until the process ends."""
    device, host = ctypes.c_void_p(), ctypes.c_void_p()
    _succeed(runtime.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(size)))
    if pinned:
        _succeed(runtime.cudaHostAlloc(ctypes.byref(host), ctypes.c_size_t(size), 0))
    else:
        ordinary = np.ones(size, np.uint8)
        host.value = ordinary.ctypes.data
        _HELD.append(ordinary)
    count = ctypes.c_size_t(size)
    return {
        "h2d": lambda: _succeed(runtime.cudaMemcpy(device, host, count, 1)),
        "d2h": lambda: _succeed(runtime.cudaMemcpy(host, device, count, 2)),
    }


def _succeed(code: int) -> None:
    if code:
        raise BenchmarkFailed(f"the CUDA runtime says error {code}")


def _in_turns(pair: CopyPair, way: str, plain: Callable[[], None], seconds: float) -> tuple[float, float]:
    """The medians of a copy, ours and a plain one, ns."""
    ranges = timing.Ranges(pair)
    ours: list[int] = []
    theirs: list[int] = []
    plain()
    n = max(1, min(50, round(2e7 / max(timing.time_call(plain), 1))))
    end = time.perf_counter() + seconds
    while not ours or time.perf_counter() < end:
        ours += timing.time_block(pair, ranges, way, n, 1)
        plain()
        theirs += [timing.time_call(plain) for _ in range(n)]
    return median(ours), median(theirs)


def nsight(folder: str) -> dict[str, Any]:
    """What ``profile.json`` of a folder was to hold that came back with ``report.qdstrm`` or ``report.nsys-rep`` alone."""
    tool, report = find_nsys(), Path(folder) / "report"
    if tool is None:
        raise BenchmarkFailed("nsys is not on the PATH")
    nsys.import_stream(tool, report)
    recording = nsys.read_export(nsys.summarise(tool, report), nsys_version(tool), report)
    found = {**json.loads((Path(folder) / "profile.json").read_text()), "nsight": asdict(recording)}
    print(checks.profile(f"ortbench profile: {folder}", found).line)
    return found


_MEASUREMENTS: dict[str, Callable[..., dict[str, Any]]] = {it.__name__: it for it in (fence, launch, memcpy, nsight)}


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
