"""In the processes of `tests.benchmarks.test_faults`: the preloaded library is told which call fails. Little is loaded here."""

from __future__ import annotations

import ctypes
import json
import os

SPEC = "ORTBENCH_TESTS_FAULT"


def in_parent() -> None:
    """The program, in which a call may fail."""
    _arm("parent")
    from ortbench.__main__ import main

    main()


def in_worker() -> None:
    """Before a worker's own main."""
    _arm("worker")


def _arm(process: str) -> None:
    spec = json.loads(os.environ[SPEC])
    nth = spec["nth"] if spec["process"] == process else 0
    file, folder = os.fsencode(spec["files"][process]), os.fsencode(spec["folder"])
    if ctypes.CDLL(None).fault_arm(file, folder, spec["kind"], ctypes.c_long(nth), spec["number"]) != 0:
        raise OSError("the faults are not loaded")
