"""ortbench, which sends itself a signal when something happens: ``python -m tests.jobs.stopped_at NUMBER WHAT TIMES NOTE ARGUMENT…``

That is an event of Python's audit, a stage, a block, or a request to a worker, which has happened a number of times before.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    number, what, times, note = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    del sys.argv[1:5]
    process = os.getpid()

    def happens(name: str) -> None:
        nonlocal times
        handled = signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        if name == what and handled and os.getpid() == process:
            times -= 1
            if times == -1:
                note.write_text("sent")
                os.kill(process, number)

    sys.addaudithook(lambda event, _: happens(event))
    if what.startswith(("stage ", "block", "asked ")):
        tell_of_sides(happens)
    from ortbench.__main__ import main as ortbench

    ortbench()


def tell_of_sides(happens: Any) -> None:
    from ortbench.measure.configuration import Configuration
    from ortbench.measure.process import Client

    stage, block, send = Configuration.stage, Configuration.block, Client.send

    def staged(side: Configuration, name: str, *rest: Any) -> Any:
        happens(f"stage {name}")
        return stage(side, name, *rest)

    def blocked(*given: Any) -> Any:
        happens("block")
        return block(*given)

    def sent(client: Client, do: str, **rest: Any) -> None:
        send(client, do, **rest)
        happens(f"asked {do}")

    Configuration.stage, Configuration.block, Client.send = staged, blocked, sent  # type: ignore[assignment, method-assign]


if __name__ == "__main__":
    main()
