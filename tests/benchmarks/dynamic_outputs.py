"""What D2H of outputs without a shape takes in the harness and in the program that `ortbench code` writes, in turns; nothing is asserted.

python -m tests.benchmarks.dynamic_outputs [MODEL]
"""

from __future__ import annotations

import gc
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from ortbench.model.modes import DEVICE
from ortbench.plan.target import Inputs, Target
from ortbench.worker.modes.make import make_mode
from ortbench.worker.session import first_run, providers, session
from tests.refdevice import EP_NAME, Config, build

MODEL = Path(__file__).resolve().parents[2] / "models" / "multi_output.onnx"
_BLOCKS, _CALLS = 200, 50


def ratio(model: Path, *, library: Path | None) -> str:
    """Medians of a copy of the outputs, ns, after a run each, and their ratio; on the CPU EP, or on the reference device's."""
    path = None if library is None else str(library)
    target = Target(ep="cpu" if library is None else EP_NAME, library=path, intra_op_threads=1, dynamic_outputs=True)
    opened = session.open_model(str(model), target, providers.find(target))
    mode = make_mode(DEVICE, opened, first_run.make_data(str(model), opened, Inputs()))
    program = _program(model, library)
    harness: list[float] = []
    written: list[float] = []
    (run, binding, options), (download, a, b) = mode.phases()["inference"], mode.phases()["d2h"]
    for _ in range(_BLOCKS):
        harness.append(_block(lambda: run(binding, options), lambda: download(a, b)))
        written.append(_block(program["run"], program["copy_out"]))
    ours, own = median(harness), median(written)
    place = target.ep if library is None else "the reference device"
    return f"{place}: {ours:.0f} ns in the harness, {own:.0f} ns in the program, ratio {ours / own:.2f}, {len(opened.outputs)} outputs"


def _program(model: Path, library: Path | None) -> dict[str, Any]:
    ep = ["--ep", "cpu"] if library is None else ["--ep-library", str(library)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.py")
        line = [
            "ortbench",
            "code",
            str(model),
            "--mode",
            DEVICE,
            "--dynamic-outputs",
            "--intra-op-threads",
            "1",
            *ep,
            "--out",
            str(file),
        ]
        subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
        return runpy.run_path(str(file))


def _block(run: Callable[[], object], copy: Callable[[], object]) -> float:
    taken = []
    gc.disable()
    for _ in range(_CALLS):
        run()
        start = time.perf_counter_ns()
        copy()
        taken.append(time.perf_counter_ns() - start)
    gc.enable()
    return median(taken)


if __name__ == "__main__":
    of = Path(sys.argv[1]) if sys.argv[1:] else MODEL
    os.environ |= Config(alignment=0).environ()
    print(ratio(of, library=None))
    with tempfile.TemporaryDirectory() as place:
        print(ratio(of, library=build(Path(place))))
