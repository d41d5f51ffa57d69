"""Fences on a busy machine: how often the proof takes one that does not wait, and refuses one that does.

    python -m tests.benchmarks.fences [BUSY_PROCESSES [PROOFS]]

Proves the fence of a run on the reference device again and again, for each of its ways to wait, beside busy processes;
the first that waits is known by definition. Without a load a proof takes up to a second, with one up to ten.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ortbench.modes import RESIDENT
from ortbench.plan import Inputs, Target
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.make import make_mode
from ortbench.worker.proofs.fence import READBACK, RUN, SYNCHRONIZE
from ortbench.worker.session import first_run, providers, session
from tests.refdevice import HONESTY, build
from tests.truth import relu_model

KINDS = [RUN, SYNCHRONIZE, READBACK]  # from the cheapest on
RIGHT = dict(zip(HONESTY, [RUN, RUN, SYNCHRONIZE, READBACK], strict=True))
COMPUTE_US = (30, 100, 300, 1000)


def _burn(parent: int) -> None:
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep as many processes busy meanwhile."""
    context = multiprocessing.get_context("spawn")
    burners = [context.Process(target=_burn, args=(os.getpid(),), daemon=True) for _ in range(processes)]
    for burner in burners:
        burner.start()
    try:
        yield
    finally:
        for burner in burners:
            burner.terminate()
            burner.join()


def main(processes: int = 8, proofs: int = 20) -> None:
    """Print the counts."""
    print("honesty         compute µs  taken, does not wait  refused, waits  proofs  ms each")
    with tempfile.TemporaryDirectory() as name, busy(processes):
        library = build(Path(name))
        path = str(relu_model(Path(name) / "relu.onnx", 1 << 12))
        provider = providers.find(Target(library=str(library)))
        for honesty in HONESTY:
            for compute_us in COMPUTE_US:
                options = {"honesty": honesty, "compute_us": str(compute_us)}
                model = session.open_model(path, Target(library=str(library), options=options), provider)
                mode = make_mode(RESIDENT, model, first_run.make_data(path, model, Inputs()))
                assert isinstance(mode, BoundMode)
                start = time.perf_counter()
                found = Counter(mode._prove_run().kind for _ in range(proofs))
                each_ms = (time.perf_counter() - start) / proofs * 1000
                right = KINDS.index(RIGHT[honesty])
                early, late = (sum(found[kind] for kind in kinds) for kinds in (KINDS[:right], KINDS[right + 1 :]))
                print(f"{honesty:14} {compute_us:11} {early:21} {late:15} {proofs:7} {each_ms:8.0f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
