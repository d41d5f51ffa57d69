"""What lines.py has each process of a test run load when it starts, and pytest as a plugin: it notes lines of the package under the test that
runs then. PYTEST_DONT_REWRITE: it is loaded already."""

from __future__ import annotations

import atexit
import importlib
import os
import subprocess
import sys
import uuid
from contextlib import suppress
from typing import Any

TEST = "LINES_OF_TEST"  # the test that runs, for the processes that it starts


def _new_file() -> str:
    return os.path.join(os.environ["LINES_OF_TESTS"], uuid.uuid4().hex)


# Not imported by its name, as type checks do without it.
noted: Any = importlib.import_module("coverage").Coverage(
    _new_file(), include=["*/site-packages/ortbench/*"], config_file=False
)


def pytest_runtest_logstart(nodeid: str) -> None:
    """What is carried out from here on is of this test."""
    os.environ[TEST] = nodeid
    noted.switch_context(nodeid)
    _let_workers_end()


def _let_workers_end() -> None:
    """Give a worker that is told to end the time to note its lines before it is killed."""
    process = sys.modules.get("ortbench.measure.process")
    if process is None or hasattr(process, "kills"):
        return
    client: Any = process.Client
    vars(process)["kills"] = client._kill

    def wait_and_kill(self: Any) -> None:
        with suppress(subprocess.TimeoutExpired):
            if self._process.stdin is None or self._process.stdin.closed:
                self._process.wait(3)
        vars(process)["kills"](self)

    client._kill = wait_and_kill


def _be_forked() -> None:
    """A fork notes what it carries out itself, in a file of its own."""
    for lines in noted._collector.data.values():
        lines.clear()
    data = noted._collector.covdata
    data._filename, data._pid = _new_file(), os.getpid()
    data._dbs, data._file_map, data._have_used, data._current_context_id = {}, {}, False, None
    _let_workers_end()


def _save() -> None:
    noted.stop()
    if test := os.environ.get(TEST):
        noted._collector.covdata.set_context(test)
        noted._collector.flush_data()
    noted._collector.covdata.close()


def _leave(code: int) -> None:
    with suppress(Exception):
        _save()
    _exit(code)


noted.start()
_exit = os._exit
vars(os)["_exit"] = _leave  # which forks end by
atexit.register(_save)
os.register_at_fork(after_in_child=_be_forked)
