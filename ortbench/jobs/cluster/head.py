"""The process that speaks with Ray, beside the command.

Ray prints much, and ends the process that it is in where it loses its cluster; what was measured and the command are not to
suffer from either.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from ortbench.jobs.cluster.dispatch import Dispatch
from ortbench.jobs.cluster.orders import Joining
from ortbench.jobs.cluster.places import Unusable
from ortbench.jobs.cluster.rays import Rays


def main() -> None:
    """Carry out what standard input says, and say on standard output what becomes of it, see `ortbench.jobs.cluster.orders`."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Ray prints is not an answer
    joining: Joining = pickle.load(sys.stdin.buffer)

    def tell(answer: Any) -> None:
        pickle.dump(answer, answers)
        answers.flush()

    # Machines look for modules in the current folder first, which may have some that are called like their packages.
    with tempfile.TemporaryDirectory() as nowhere, contextlib.chdir(nowhere):
        _serve(joining, tell)


def _serve(joining: Joining, tell: Callable[[Any], None]) -> None:
    """Connect, and carry cases out until there are no more or the command says so."""
    try:
        dispatch = Dispatch(Rays(joining.address), joining, tell)
        dispatch.look(strictly=True)
    except Unusable as error:
        tell(error)
        return
    try:
        tell([*dispatch.places.values()])
        works = pickle.load(sys.stdin.buffer)
        threading.Thread(target=_stop_at_end, args=(dispatch.stopped,), daemon=True).start()
        dispatch.carry_out(works)
    except (EOFError, BrokenPipeError):  # the command has ended
        pass
    finally:
        dispatch.end()


def _stop_at_end(stopped: threading.Event) -> None:
    """Stop as soon as the command has nothing more to say: it closes the pipe, or ends."""
    os.read(sys.stdin.fileno(), 1)  # not by Python's file, which a thread may not hold when the process ends
    stopped.set()


if __name__ == "__main__":
    main()
