"""What the recorder of `ortbench watch` adds to a call: medians with and without, in turns, each of a process of its own; nothing is asserted.

python -m tests.benchmarks.watch_overhead [CALLS]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from tests import installed  # noqa: F401 - before anything of ortbench is

# isort: split
from ortbench.features.watch import shim

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import resource, sys, time, numpy as np, onnxruntime as ort
session = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
feed = {it.name: np.ones([d if isinstance(d, int) else 1 for d in it.shape], np.float32) for it in session.get_inputs()}
spent, clock, run = [], time.perf_counter_ns, session.run
for number in range(int(sys.argv[2])):
    start = clock(); run(None, feed); end = clock()
    if number < 100_000: spent.append(end - start)
    if number == 100_000: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss); print(sorted(spent)[len(spent) // 2])
"""


def main() -> None:
    """Print the medians of each model, and the ratio."""
    calls = sys.argv[1] if len(sys.argv) > 1 else "50000"
    for name, count in (("tiny", calls), ("compute_bound", "200")):
        medians: dict[bool, list[int]] = {False: [], True: []}
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "sitecustomize.py").write_bytes(Path(shim.__file__).read_bytes())
            for turn in range(10 if calls == "50000" else 1):
                for is_watched in (False, True) if turn % 2 else (True, False):
                    more = {"PYTHONPATH": folder, shim.FOLDER: folder} if is_watched else {}
                    line = [sys.executable, "-c", PROGRAM, str(ROOT / "models" / f"{name}.onnx"), count]
                    *memory, last = subprocess.check_output(line, env={**os.environ, **more}, text=True).split()
                    medians[is_watched].append(int(last))
                    if len(memory) > 1:
                        print(f"{name} watched={is_watched}: {memory} kB after 100,000 and {calls} calls")
        without, with_it = (median(medians[it]) for it in (False, True))
        print(
            f"{name}: {without:.0f} ns without, {with_it:.0f} ns with: {with_it - without:+.0f} ns, {with_it / without:.3f}×"
        )


if __name__ == "__main__":
    main()
