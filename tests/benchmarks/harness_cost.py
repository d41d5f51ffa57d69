"""What the harness itself costs, each figure as a ratio or against its limit; nothing is asserted.

    python -m tests.benchmarks.harness_cost

Both sides of every ratio are measured in this run, in alternating order.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import onnx

from ortbench.core.stats import summarise
from ortbench.measure.noise import Meter
from ortbench.measure.schedule import BLOCK_NS
from ortbench.model.modes import LATENCY, RESIDENT
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, providers, session, timing
from ortbench.worker.mode_base import Mode
from ortbench.worker.modes import make_mode
from tests.nvtx import build, environ

ROOT = Path(__file__).resolve().parent.parent.parent
TINY = ROOT / "models" / "tiny.onnx"


def loop_cost() -> str:
    """The median of a 16-element model in device-resident against a bare loop around the same bound call."""
    model = session.open_model(str(TINY), Target(ep="cpu", intra_op_threads=1), providers.find(Target(ep="cpu")))
    mode = make_mode(RESIDENT, model, first_run.make_data(str(TINY), model, Inputs()))
    found = loop_figures(mode, seconds=4)
    ratio = found["ours_ns"] / found["bare_ns"]
    return (
        f"loop: {found['ours_ns']:.0f} ns a sample, {found['bare_ns']:.0f} ns in a bare loop, "
        f"ratio {ratio:.3f} (limit 1.05)"
    )


def loop_figures(mode: Mode, seconds: float) -> dict[str, float]:
    """What a sample takes in ortbench's loop and in a bare one around the same call, in turns.

    Args:
        mode: set up.
        seconds: about how long all of it may take.

    Returns:
        ``ours_ns`` and ``bare_ns``: medians over short blocks.
    """
    run, binding, options = mode.phases()[LATENCY]
    ranges = timing.Ranges(mode)
    once = _bare_loop(run, binding, options, 20)
    n = max(5, min(200, round(2e6 / once)))
    ours, bare = [], []
    for _ in range(max(5, min(400, round(seconds * 1e9 / (2 * (n + 20) * once))))):
        ours.append(median(timing.time_block(mode, ranges, LATENCY, n, 20)))
        bare.append(_bare_loop(run, binding, options, n))
    return {"ours_ns": median(ours), "bare_ns": median(bare)}


def _bare_loop(run: Callable[..., object], binding: object, options: object, n: int) -> float:
    gc.disable()
    for _ in range(20):
        run(binding, options)
    start = time.perf_counter_ns()
    for _ in range(n):
        run(binding, options)
    took = (time.perf_counter_ns() - start) / n
    gc.enable()
    return took


def readings_cost() -> str:
    """What the readings of noise take beside a block of a worker with 16 threads, and those of the whole machine once a second."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", _SIXTEEN_THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdout.readline()
        meter, block, second = Meter(), list[int](), list[int]()
        for number in range(2000):
            start = time.perf_counter_ns()
            meter.end("", [worker.pid], meter.begin([worker.pid]), number, 0)
            block.append(time.perf_counter_ns() - start)
        for _ in range(50):
            start = time.perf_counter_ns()
            meter.look(now=True)
            second.append(time.perf_counter_ns() - start)
        worker.stdin.close()
    took, limit = median(block), 200_000
    return (
        f"noise: {took / 1e3:.0f} µs of readings a block with 16 threads, ratio {took / limit:.2f} to the limit of {limit / 1e3:.0f} µs, "
        f"{took / BLOCK_NS:.2%} of a block of {BLOCK_NS / 1e6:.0f} ms; {median(second) / 1e3:.0f} µs once a second"
    )


_SIXTEEN_THREADS = """
import sys, threading

end = threading.Event()
for _ in range(15):
    threading.Thread(target=end.wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


def ranges_cost() -> str:
    """A sample of a call that does nothing, all around it included, without and with a tool that takes NVTX ranges."""
    times: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        recorder = build(Path(folder))
        for _ in range(5):
            for listening in times:
                record = Path(folder) / "record"
                environment = {name: value for name, value in os.environ.items() if not name.startswith("NVTX_")}
                if listening:
                    environment |= environ(recorder, record)
                line = [sys.executable, "-c", _EMPTY_SAMPLES]
                done = subprocess.run(line, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
                times[listening].append(float(done.stdout))
                assert record.exists() == listening
                record.unlink(missing_ok=True)
    return (
        f"nvtx: an empty sample takes {median(times[False]):.0f} ns with nothing listening, {median(times[True]):.0f} ns "
        "with a tool that writes every range to a file"
    )


_EMPTY_SAMPLES = """
import time
from types import SimpleNamespace
from ortbench.worker import timing

mode = SimpleNamespace(name="device", bytes_in=0, bytes_out=0, per_call=1, call_name="latency", part_names=("step",), phases=lambda: {"latency": (lambda a, b: None, None, None)})
ranges = timing.Ranges(mode)
best = float("inf")
for _ in range(50):
    start = time.perf_counter_ns()
    timing.time_block(mode, ranges, "latency", 2000, 0)
    best = min(best, (time.perf_counter_ns() - start) / 2000)
print(best)
"""


def start_up() -> list[str]:
    """`ortbench --help`, and a one-iteration run against importing onnxruntime and loading the session."""
    code = f"import onnxruntime as o; o.InferenceSession({str(TINY)!r}, providers=['CPUExecutionProvider'])"
    load = [sys.executable, "-c", code]
    help_ = [sys.executable, "-m", "ortbench", "--help"]
    times: dict[str, list[float]] = {"help": [], "run": [], "load": []}
    with tempfile.TemporaryDirectory() as out:
        run = [sys.executable, "-m", "ortbench", "run", str(TINY), "--ep", "cpu", "--iterations", "1"]
        run += ["--warmup", "1", "--out", out]
        for _ in range(11):
            for name, line in (("help", help_), ("run", run), ("load", load)):
                times[name].append(_wall(line))
    helps, runs, loads = (median(times[name]) for name in ("help", "run", "load"))
    allowed = loads + 0.25
    return [
        f"help: {helps * 1000:.0f} ms (limit 150)",
        f"run --iterations 1 --warmup 1: {runs * 1000:.0f} ms; importing onnxruntime and loading the session {loads * 1000:.0f} ms, "
        f"with 0.25 s on top {allowed * 1000:.0f} ms: ratio to that {runs / allowed:.2f} (limit 1)",
    ]


def _wall(line: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(
        line, cwd=tempfile.gettempdir(), check=True, capture_output=True
    )  # where it finds the installed ortbench
    return time.perf_counter() - start


def summary() -> str:
    """Summarising a million samples in blocks of a thousand."""
    samples = np.random.default_rng(0).gamma(4.0, 250.0, 1_000_000).astype(np.int64)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        summarise(samples, [1000] * 1000)
        times.append(time.perf_counter() - start)
    return f"summary of a million samples: {median(times) * 1000:.0f} ms (limit 500)"


def memory() -> str:
    """Peak memory of a worker with 1 GB of inputs, over what the four modes and their arrays allocate themselves."""
    size = 1_000_000_000
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "big.onnx"
        graph = f"""<ir_version: 8, opset_import: ["" : 17]>
                    g (float[{size // 4}] x) => (float[1] y) {{ y = ReduceMax<keepdims = 1>(x) }}"""
        onnx.save(onnx.parser.parse_model(graph), model)
        line = [sys.executable, "-c", _PEAK, str(model), folder]
        peak = json.loads(subprocess.run(line, cwd=ROOT, check=True, capture_output=True, text=True).stdout)
    # device, device-resident and host-accessible each hold the input once more, as they must.
    over = peak["peak_bytes"] - 3 * size
    return f"1 GB of inputs: peak {peak['peak_bytes'] / 1e9:.2f} GB, {over / 1e9:.2f} GB over the modes' own 3 GB (limit 1.2)"


_PEAK = """
import json, resource, subprocess, sys
line = [sys.executable, "-m", "ortbench", "run", sys.argv[1], "--ep", "cpu", "--iterations", "1", "--warmup", "1",
        "--out", sys.argv[2], "--quiet"]
subprocess.run(line, check=True)
print(json.dumps({"peak_bytes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024}))
"""


def main() -> None:
    """Print every figure."""
    for line in (loop_cost(), readings_cost(), ranges_cost(), *start_up(), summary(), memory()):
        print(line)


if __name__ == "__main__":
    main()
