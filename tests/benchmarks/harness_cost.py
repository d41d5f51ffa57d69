"""What the harness itself costs, each figure as a ratio or against its limit; nothing is asserted.

    python -m tests.benchmarks.harness_cost

Both sides of every ratio are measured in this run, in alternating order.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from ortbench.measure.noise import Meter
from ortbench.measure.schedule import BLOCK_NS
from ortbench.model.modes import LATENCY, RESIDENT
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, providers, session, timing
from ortbench.worker.modes import make_mode
from tests.expect import there

ROOT = Path(__file__).resolve().parent.parent.parent
TINY = ROOT / "models" / "tiny.onnx"


def loop_cost() -> str:
    """The median of a 16-element model in device-resident against a bare loop around the same bound call, in turns."""
    model = session.open_model(str(TINY), Target(ep="cpu", intra_op_threads=1), providers.find(Target(ep="cpu")))
    mode = make_mode(RESIDENT, model, first_run.make_data(str(TINY), model, Inputs()))
    run, binding, options = mode.phases()[LATENCY]
    ranges = timing.Ranges(mode)
    once = _bare_loop(run, binding, options, 20)
    n = max(5, min(200, round(2e6 / once)))
    ours, bare = [], []
    for _ in range(max(5, min(400, round(4e9 / (2 * (n + 20) * once))))):
        ours.append(median(timing.time_block(mode, ranges, LATENCY, n, 20)))
        bare.append(_bare_loop(run, binding, options, n))
    sample_ns, bare_ns = median(ours), median(bare)
    return f"loop: {sample_ns:.0f} ns a sample, {bare_ns:.0f} ns in a bare loop, ratio {sample_ns / bare_ns:.3f} (limit 1.05)"


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
    line, pipe = [sys.executable, "-S", "-c", _SIXTEEN_THREADS], subprocess.PIPE
    with subprocess.Popen(line, stdin=pipe, stdout=pipe) as worker:
        there(worker.stdout).readline()
        meter, block, second = Meter(), list[int](), list[int]()
        for number in range(2000):
            start = time.perf_counter_ns()
            meter.end("", [worker.pid], meter.begin([worker.pid]), number, 0)
            block.append(time.perf_counter_ns() - start)
        for _ in range(50):
            start = time.perf_counter_ns()
            meter.look(now=True)
            second.append(time.perf_counter_ns() - start)
        there(worker.stdin).close()
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
    subprocess.run(line, cwd=tempfile.gettempdir(), check=True, capture_output=True)  # the installed ortbench
    return time.perf_counter() - start


def main() -> None:
    """Print every figure."""
    for line in (loop_cost(), readings_cost(), *start_up()):
        print(line)


if __name__ == "__main__":
    main()
