"""From pressing Enter to the table: how long a command takes, against its budget.

    python -m tests.benchmarks.time_to_table [--slow] [> reports/time-to-table.txt]

The budget is 1.25 × (modes × duration) + 2 s + the time of twelve inferences of each mode. On the reference device an
inference takes a time known by definition, and a copy half a millisecond each way; on other EPs it is the median of the
mode. `--slow` adds inferences of 2 s, of which a command takes more than a minute and a half.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import onnx

from ortbench.model.modes import LATENCY
from ortbench.model.result import OK, Result
from ortbench.model.result_file import load
from tests.conftest import MODELS
from tests.refdevice import HONESTY, Config, build
from tests.truth import relu_model

DURATION_S = 1.0
COMPUTE_US = (2, 2_000, 20_000, 200_000)
SLOW_US = 2_000_000
CHAINS = (1, 200, 2000)  # of matrix products, for EPs whose times are what they are
PRECISION = "0.001%"  # never reached, so that every run measures as long as it may


def timed(line: Sequence[object], out: Path) -> tuple[float, Result]:
    """How long a command takes, in s, and its result."""
    amount = ("--out", out, "--duration", DURATION_S, "--precision", PRECISION)
    full = map(str, [sys.executable, "-m", "ortbench", "run", *line, *amount])
    start = time.perf_counter()
    done = subprocess.run([*full], cwd=out, capture_output=True, text=True)  # the installed ortbench
    took = time.perf_counter() - start
    if done.returncode:
        print(done.stderr.strip(), flush=True)
    return took, load(max(out.glob("*/result.json"), key=lambda path: path.stat().st_mtime))


def budget_s(result: Result, inference_s: float | None) -> float:
    """What the command may take; `inference_s`: what an inference takes in every mode, None for the median of each."""
    modes = [case for case in result.cases if case.status == OK]
    inferences = (inference_s if inference_s is not None else (case.median(LATENCY) or 0) / 1e9 for case in modes)
    return 1.25 * len(modes) * DURATION_S + 2 + 12 * sum(inferences)


def chain(path: Path, products: int) -> Path:
    """A model of so many matrix products, one after the other."""
    names = ["x", *(f"h{number}" for number in range(1, products)), "y"]
    nodes = " ".join(f"{b} = MatMul({a}, w)" for a, b in pairwise(names))
    graph = f"""<ir_version: 8, opset_import: ["" : 17]>
                g (float[256, 256] x, float[256, 256] w) => (float[256, 256] y) {{ {nodes} }}"""
    onnx.save(onnx.parser.parse_model(graph), path)
    return path


def row(ep: str, kind: str, took: float, result: Result, inference_s: float | None) -> float:
    """Print one; its ratio to the budget."""
    allowed = budget_s(result, inference_s)
    medians = [case.median(LATENCY) or 0 for case in result.cases if case.status == OK]
    one = inference_s if inference_s is not None else max(medians) / 1e9
    bad = sum(case.status != OK for case in result.cases)
    note = f"  {bad} mode(s) not measured" if bad else ""
    print(f"{ep:10} {kind:14} {one * 1000:12.3f} {took:8.2f} {allowed:8.2f} {took / allowed:7.2f}{note}", flush=True)
    return took / allowed


def main(slow: bool) -> None:
    """Print every ratio, and the worst."""
    load_average = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores; load average at the start {load_average:.1f}")
    print("EP         honesty        inference ms   took s budget s   ratio", flush=True)
    ratios = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        library = build(folder)
        model = relu_model(folder / "relu.onnx", 1 << 12)
        for compute_us in (*COMPUTE_US, *((SLOW_US,) if slow else ())):
            for honesty in HONESTY:
                config = Config(compute_us=compute_us, honesty=honesty, upload_latency_us=500, download_latency_us=500)
                options = [word for pair in config.options().items() for word in ("--ep-option", "=".join(pair))]
                took, result = timed([model, "--ep-library", library, *options], folder)
                ratios.append(row("reference", honesty, took, result, compute_us / 1e6))
        for ep in ("cpu", "webgpu"):
            for model in (MODELS / "tiny.onnx", *(chain(folder / f"{n}.onnx", n) for n in CHAINS)):
                try:
                    took, result = timed([model, "--ep", ep], folder)
                except ValueError:
                    print(f"{ep}: nothing was measured")
                    break
                ratios.append(row(ep, "-", took, result, None))
    print(f"worst ratio {max(ratios):.2f}; load average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main("--slow" in sys.argv)
