"""ortbench as a fork (`tests.forks.MAIN`) that finds more packages than its environment has."""

from __future__ import annotations

import os
import sys

from ortbench.__main__ import main as ortbench

FOLDERS = "ORTBENCH_TESTS_PATH"


def main() -> None:
    """ortbench's main, for which the folders that the environment names are on the search path."""
    sys.path[:0] = os.environ[FOLDERS].split(os.pathsep)
    ortbench()
