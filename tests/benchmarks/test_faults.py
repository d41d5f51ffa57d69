"""Whatever system call fails, commands say so in a line and leave nothing half done (`tests.benchmarks.faults`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import forks
from tests.benchmarks.faults import COMMANDS, KINDS, PROCESSES, Bench
from tests.conftest import lacking

_MOST = None if os.environ.get("ORTBENCH_TESTS_ALL_FAULTS") else 3  # calls of a kind in a process


@pytest.mark.process
@pytest.mark.wide
@pytest.mark.parametrize("command", list(COMMANDS))
def test_no_call_that_fails_is_passed_over_or_shown_as_a_traceback(command: str, tmp_path: Path) -> None:
    if not forks.POSSIBLE:
        lacking("faults want Linux and a C compiler")
    bench = Bench(tmp_path)
    try:
        faults = [it for process in PROCESSES for kind in KINDS for it in bench.faults(command, process, kind, _MOST)]
        found = {str(it): (outcome.problems, outcome.err) for it in faults if (outcome := bench.tried(it)).problems}
    finally:
        bench.close()
    assert faults
    assert found == {}
