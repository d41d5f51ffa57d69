"""Syncs on a busy machine: how often the proof takes one that does not wait, and refuses one that does.

    python -m tests.benchmarks.fences [BUSY_PROCESSES [PROOFS]]

Proves the sync of a run on the reference device again and again, for each of its ways to wait, beside busy processes;
the first that waits is known by definition. Then each sync up to that one is taken for known, confirmed as often, and tried
as often as at the end of a measurement: how often these take one that does not wait, and refuse the right one. Without a load a proof takes up to a second, with
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

from ortbench.model.modes import READBACK, RESIDENT, RUN, SYNCHRONIZE
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, providers, session
from ortbench.worker.bound import BoundMode
from ortbench.worker.modes import make_mode
from ortbench.worker.session import Model
from ortbench.worker.sync import ProofResult, Sync, Syncs
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
    print("step          honesty        compute µs  taken, does not wait    of  refused, waits    of  ms each")
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
                _judge(mode, model, f"{honesty:14} {compute_us:10}", KINDS.index(RIGHT[honesty]), proofs)


def _judge(mode: BoundMode, model: Model, cell: str, right: int, times: int) -> None:
    """Print how often each step takes a sync that does not wait, and refuses the one that does.

    Args:
        mode, model: on which syncs are tried.
        cell: what they are, for people.
        right: the number of the first kind of sync that waits.
        times: of each trial.
    """
    start = time.perf_counter()
    proved = [prove(mode) for _ in range(times)]
    kinds = Counter(sync.kind for sync in proved)
    early, late = (sum(kinds[kind] for kind in them) for them in (KINDS[:right], KINDS[right + 1 :]))
    _row("proof", cell, (early, times if right else 0), (late, times), time.perf_counter() - start, times)

    work_ns = round(median(sync.proof.work_ns for sync in proved if sync.proof is not None))
    for step, holds in (("confirmation", _confirmed), ("at the end", _still_waits)):
        start = time.perf_counter()
        taken = [
            sum(holds(mode, model, ProofResult(kind, True, work_ns)) for _ in range(times))
            for kind in KINDS[: right + 1]
        ]
        wrong = sum(taken[:right]), right * times
        _row(step, cell, wrong, (times - taken[right], times), time.perf_counter() - start, (right + 1) * times)


def _row(step: str, cell: str, taken: tuple[int, int], refused: tuple[int, int], took_s: float, trials: int) -> None:
    counts = f"{taken[0]:22} {taken[1]:5} {refused[0]:15} {refused[1]:5}"
    print(f"{step:13} {cell} {counts} {took_s / trials * 1000:8.0f}", flush=True)


def prove(mode: BoundMode) -> Sync:
    """In full, as in a session where nothing is known."""
    mode._model.syncs = Syncs()
    return mode._prove_run()


def _confirmed(mode: BoundMode, model: Model, known: ProofResult) -> bool:
    """Whether a sync that is taken for known is confirmed."""
    model.syncs = Syncs()
    model.syncs._known["run"] = known
    return model.syncs.confirm("run", mode.run_to_prove()) is not None


def _still_waits(mode: BoundMode, _model: Model, known: ProofResult) -> bool:
    """Whether a sync that is taken for proved passes as one that waits when it is tried again."""
    work = mode.run_to_prove()
    wait = work.token if known.kind == READBACK else dict(work.candidates)[known.kind]
    return not work.make_trial(known.work_ns).returns_early(wait)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
