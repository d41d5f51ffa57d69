"""Records the noise that gates have to live with: alternating blocks of one model, of its twin, and of slower ones.

    python -m tests.benchmarks.gate_trace quiet 1800
    python -m tests.benchmarks.gate_trace loaded 1800

Writes ``reports/gate/noise-quiet.npz`` and ``reports/gate/noise-loaded.npz``: `samples` (rounds, lanes, samples),
int32, durations of one run in tenths of a microsecond; `start_ms` (rounds, lanes), uint32, since the beginning;
`spent_us` (rounds, lanes), uint32, what a block took with its dropped runs; `lanes`, how much more work each lane has
in percent. ``noise-full.npz`` was cut out of the loaded trace: see reports/gate/README.md. Each lane is a worker of its own; the order within a round is shuffled. `tests.benchmarks.gate_replay`
judges the rule of the gate on them.
"""

from __future__ import annotations

import contextlib
import random
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ortbench.measure.process import Client, open_worker
from ortbench.measure.schedule import block_size, dropped_count
from ortbench.model.modes import LATENCY
from ortbench.plan.plan import Plan
from ortbench.plan.target import Target
from tests.benchmarks.load import Load
from tests.benchmarks.workload import chain

LANES = (0, 0, 5, 10)  # per cent of work added
FOLDER = Path(__file__).resolve().parents[2] / "reports" / "gate"


def record(kind: str, seconds: float) -> Path:
    """Record for `seconds` and return the file."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        clients: list[Client] = []
        for number, extra in enumerate(LANES):
            plan = Plan(str(chain(folder / f"{number}.onnx", extra)), Target(ep="cpu"), modes=("cpu-tensors",))
            client = stack.enter_context(open_worker(plan))
            client.receive()
            estimate = client.ask("prepare", mode="cpu-tensors", warmup=None)["estimates_ns"][LATENCY]
            print(f"+{extra} %: {estimate / 1e6:.2f} ms", file=sys.stderr)
            client.pause()
            clients.append(client)
        if kind == "loaded":
            stack.enter_context(Load())
        n = block_size(5e6)
        order = list(range(len(LANES)))
        shuffle = random.Random(0)
        samples, starts, spent = [], [], []
        begin = time.perf_counter_ns()
        while time.perf_counter_ns() - begin < seconds * 1e9:
            shuffle.shuffle(order)
            answers = {}
            for lane in order:
                clients[lane].resume()
                answers[lane] = clients[lane].ask(
                    "block", mode="cpu-tensors", phase=LATENCY, n=n, drop=dropped_count(n)
                )
                clients[lane].pause()
            by_lane = [answers[lane] for lane in range(len(LANES))]
            samples.append([answer["samples"] for answer in by_lane])
            starts.append([answer["start_ns"] - begin for answer in by_lane])
            spent.append([answer["spent_ns"] for answer in by_lane])
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"noise-{kind}.npz"
    np.savez_compressed(
        path,
        samples=(np.array(samples) // 100).astype(np.int32),
        start_ms=(np.array(starts) // 1_000_000).astype(np.uint32),
        spent_us=(np.array(spent) // 1000).astype(np.uint32),
        lanes=np.array(LANES),
    )
    return path


if __name__ == "__main__":
    print(record(sys.argv[1], float(sys.argv[2])))
