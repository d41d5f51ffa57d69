"""The program, as the ``ortbench`` command and as ``python -m ortbench`` start it."""

from __future__ import annotations

import gc
import os
import sys

_MEASURE = {"run", "sweep"}  # commands that need a worker of this very environment, and are waited for


def main() -> None:
    """Have a worker start before anything else is loaded, where the command will need one, and go on to the command line.

    Loading ONNX Runtime and loading the command line take about as long; one after the other would be waited for.
    """
    try:
        from ortbench.core import signals

        signals.install()
    except KeyboardInterrupt:  # in the milliseconds that this takes; before them only Python itself has run
        os._exit(130)

    gc.set_threshold(100_000)  # looking for rubbish among modules, which stay, takes a tenth of loading them
    typed = sys.argv[1:]
    words = {word.partition("=")[0] for word in typed}
    # A model alone is short for a run of it.
    is_run = bool(typed) and (typed[0] in _MEASURE or typed[0].endswith(".onnx"))
    if is_run and not {"-h", "--help", "--python"} & words:
        from ortbench.measure.process import start_early

        start_early()

    from ortbench import cli

    cli.main()


if __name__ == "__main__":
    main()
