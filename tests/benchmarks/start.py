"""Is what `ortbench start` says what a program takes that has nothing of ortbench in it?

    python -m tests.benchmarks.start [--starts 20] [--model image_classifier]

In turns: a program of six lines (import, session, one inference), timed from before the system is asked for its process to its
answer, and one start of `ortbench start`. Prints both medians and their difference; the limit is 3 % or 5 ms, whichever is more.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from ortbench.core.units import duration
from ortbench.model.result_file import load
from tests.conftest import MODELS

_BARE = """import sys, time
import numpy, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
session.run(None, {it.name: numpy.load(f"{sys.argv[2]}/{it.name}.npy") for it in session.get_inputs()})
print(time.perf_counter_ns())
"""


def bare(model: Path, program: Path) -> int:
    """One start of the program, ns."""
    begun = time.perf_counter_ns()
    line = [sys.executable, str(program), str(model), str(program.parent)]
    return int(subprocess.run(line, check=True, capture_output=True, text=True).stdout) - begun


def measured(model: Path, out: Path) -> int:
    """One start as ortbench says it, ns."""
    line = [sys.executable, "-m", "ortbench", "start", str(model), "--ep", "cpu", "--iterations", "1", "--quiet"]
    subprocess.run([*line, "--out", str(out)], check=True, capture_output=True)
    (case,) = load(next(out.glob("*/result.json"))).cases
    return int(case.median("start.ready") or 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--model", default="image_classifier")
    asked = parser.parse_args()
    model = MODELS / f"{asked.model}.onnx"
    theirs, ours = [], []
    with tempfile.TemporaryDirectory() as name:
        program = Path(name) / "bare.py"
        program.write_text(_BARE, encoding="utf-8")
        with np.load(model.with_suffix(".inputs.npz")) as inputs:  # files such as ortbench's own program reads
            for key in inputs:
                np.save(program.parent / f"{key}.npy", inputs[key])
        for number in range(asked.starts):
            theirs.append(bare(model, program))
            ours.append(measured(model, Path(name) / str(number)))
    without, told = median(theirs), median(ours)
    limit = max(0.03 * without, 5e6)
    print(
        f"{asked.model}, {asked.starts} starts each in turns: {duration(without)} without ortbench, {duration(told)} by ortbench start, "
        f"{(told - without) / 1e6:+.1f} ms, limit ±{duration(limit)}"
    )


if __name__ == "__main__":
    main()
