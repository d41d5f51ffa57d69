"""The program, as the ``ortbench`` command and as ``python -m ortbench`` start it."""

from __future__ import annotations

import atexit
import gc
import os
import sys


def main() -> None:
    """Have a worker start before anything else is loaded, where the command will need one, and go on to the command line.

    Loading ONNX Runtime and loading the command line take about as long; one after the other would be waited for.
    """
    try:
        from ortbench.core import signals

        signals.install()
    except KeyboardInterrupt:  # in the milliseconds that this takes; before them only Python itself has run
        os._exit(130)

    gc.set_threshold(500_000)  # looking for rubbish among modules, which stay, takes a tenth of loading them
    from ortbench.cli import COMPLETING, HELP, needs_worker, print_overview, with_default_command

    typed = with_default_command(sys.argv[1:])
    if typed[0] in HELP and COMPLETING not in os.environ:
        from ortbench.core import output

        output.to_the_end(print_overview)
    from ortbench.core.processes import start_no_threads

    start_no_threads()
    if needs_worker(typed):
        from ortbench.core.processes import start_early

        start_early()

    from ortbench.cli import program

    program.main(typed)


def process() -> None:
    """`main`, with a quick end to the process: Python takes longer to take its modules apart than a run takes to report."""
    codes: list[int] = []
    atexit.register(_leave, codes)  # what is registered first is called last
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            codes.append(ended.code)
        raise


def _leave(codes: list[int]) -> None:
    from ortbench.core import processes

    if codes and not processes.is_profiled():  # a profiler takes its data at an orderly end
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(codes[0])


if __name__ == "__main__":
    process()
