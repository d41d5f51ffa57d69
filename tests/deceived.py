"""ortbench whose workers find nothing left behind any fence: what a busy host can find of work of a few µs."""

from __future__ import annotations

import sys

from ortbench.worker.__main__ import main as work
from ortbench.worker.proofs.trials import Trial
from tests.own_worker import be_ortbench

_WORKER = "worker"


def main(*arguments: str) -> None:
    """Be ortbench, or the worker of such an ortbench."""
    if arguments != (_WORKER,):
        be_ortbench(["-m", "tests.deceived", _WORKER], list(arguments))
        return
    Trial.most_left = lambda *_: 0  # type: ignore[method-assign]
    work()


if __name__ == "__main__":
    main(*sys.argv[1:])
