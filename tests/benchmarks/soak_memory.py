"""How much memory a soak run holds: a model of a few µs, whose samples would be billions after an hour.

    python -m tests.benchmarks.soak_memory [MINUTES] [> reports/soak-memory.txt]

Prints the resident sets of the command and of its worker every half minute, how many inferences were timed and how many of
them the result holds, and what the command held more at its end than after a quarter of its time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from ortbench.model.result_file import load
from tests.conftest import MODELS

EVERY_S = 30.0


def main(minutes: float) -> None:
    """Run it, and print."""
    print("minute  command MB  worker MB", flush=True)
    held: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        line = [sys.executable, "-m", "ortbench", "run", MODELS / "tiny.onnx", "--ep", "cpu", "--precision", 0]
        modes = 4
        line += ["--duration", minutes * 60 / modes, "--out", name, "--quiet"]
        with subprocess.Popen([str(word) for word in line], stdout=subprocess.DEVNULL) as process:
            begun = time.monotonic()
            command = psutil.Process(process.pid)
            while time.monotonic() - begun < minutes * 60 - 5:
                time.sleep(min(EVERY_S, minutes * 60 / 4))
                if process.poll() is not None:
                    break
                held.append(command.memory_info().rss / 1e6)
                workers = sum(child.memory_info().rss for child in command.children()) / 1e6
                print(f"{(time.monotonic() - begun) / 60:6.1f}  {held[-1]:10.1f}  {workers:9.1f}", flush=True)
            process.wait()
        result = load(next(Path(name).glob("*/result.json")))
    for case in result.cases:
        taken = None if case.downsampled is None else case.downsampled["taken"]["latency"]
        print(f"{case.mode}: {taken or len(case.samples['total'])} timed, {len(case.samples['total'])} kept")
    print(
        f"the command held {max(held[len(held) // 4 :]) - held[len(held) // 4]:+.1f} MB more after a quarter of its time"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 15.0)
