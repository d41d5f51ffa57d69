"""ortbench as it is, but for its workers, which another program is."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from ortbench.measure.process import BOOTSTRAP


def be_ortbench(worker: list[str], arguments: list[str]) -> None:
    """Be ortbench.

    Args:
        worker: what Python is given in the place of the worker's own start.
        arguments: of `ortbench`.
    """
    start = subprocess.Popen

    def started(line: list[str], *given: Any, **named: Any) -> Any:
        if line[-1] == str(BOOTSTRAP):
            line = [*line[:-1], *worker]
        return start(line, *given, **named)

    subprocess.Popen = started  # type: ignore[assignment, misc]
    from ortbench.__main__ import main

    sys.argv = ["ortbench", *arguments]
    main()
