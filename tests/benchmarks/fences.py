"""Fences on a busy machine: how often the proof takes one that does not wait, and refuses one that does.

    python -m tests.benchmarks.fences [BUSY_PROCESSES [PROOFS]]

Proves the fence of a run on the reference device again and again, for each of its ways to wait, beside busy processes;
the first that waits is known by definition. Then each fence that does not wait is taken for known, and confirmed as often:
how often a few trials take it, and how often they refuse the right one. Without a load a proof takes up to a second, with
one up to ten.
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
from statistics import median

from ortbench.modes import RESIDENT
from ortbench.plan import Inputs, Target
from ortbench.worker.modes.bound import BoundMode
from ortbench.worker.modes.make import make_mode
from ortbench.worker.proofs.fence import READBACK, RUN, SYNCHRONIZE, Fence, Fences, Known
from ortbench.worker.session import first_run, providers, session
from ortbench.worker.session.session import Model
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
    print(
        "honesty         compute µs  taken, does not wait  refused, waits  proofs  ms each"
        "  confirmed, does not wait  not confirmed, waits  confirmations  ms each"
    )
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
                proved = [_prove(mode, model) for _ in range(proofs)]
                each_ms = (time.perf_counter() - start) / proofs * 1000
                found = Counter(fence.kind for fence in proved)
                right = KINDS.index(RIGHT[honesty])
                early, late = (sum(found[kind] for kind in kinds) for kinds in (KINDS[:right], KINDS[right + 1 :]))
                work_ns = round(median(fence.known.work_ns for fence in proved if fence.known is not None))
                start = time.perf_counter()
                taken = {kind: _confirmed(mode, model, Known(kind, True, work_ns), proofs) for kind in KINDS}
                confirmed_ms = (time.perf_counter() - start) / proofs / len(KINDS) * 1000
                wrong = sum(taken[kind] for kind in KINDS[:right])
                print(
                    f"{honesty:14} {compute_us:11} {early:21} {late:15} {proofs:7} {each_ms:8.0f}"
                    f"{wrong:26} {proofs - taken[KINDS[right]]:21} {(right + 1) * proofs:14} {confirmed_ms:8.0f}",
                    flush=True,
                )


def _prove(mode: BoundMode, model: Model) -> Fence:
    """In full, as in a session where nothing is known."""
    model.fences = Fences()
    return mode._prove_run()


def _confirmed(mode: BoundMode, model: Model, known: Known, times: int) -> int:
    """How often a fence that is taken for known is confirmed."""
    count = 0
    for _ in range(times):
        model.fences = Fences()
        model.fences.know("run", known)
        count += model.fences.confirmed(*mode.run_to_prove()) is not None
    return count


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
