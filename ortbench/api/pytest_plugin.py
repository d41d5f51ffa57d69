"""The fixture `ortbench_run`, and those of features, for projects that measure models in their tests: see docs/ci.md#gates-in-pytest.

pytest loads this module wherever ortbench is installed, so that it imports nothing that pytest has not: what measures is
loaded by the first test that does.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from ortbench.api.results import Result

NAME = "ortbench"  # of the mark, of the property of a test's report, of the section at the end
_FEATURES = Path(__file__).parents[1] / "features"
# Those of features, which pytest loads with this one.
pytest_plugins = [f"ortbench.features.{it.parent.name}.pytest_plugin" for it in _FEATURES.glob("*/pytest_plugin.py")]
Given = TypeVar("Given")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{NAME}: measures with ortbench; -m 'not {NAME}' leaves it out")


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that measure."""
    for item in items:
        if any(it.startswith(f"{NAME}_") for it in getattr(item, "fixturenames", ())):
            item.add_marker(NAME)


@pytest.fixture
def ortbench_run(request: pytest.FixtureRequest) -> Callable[..., Result]:
    """Measures a model: called with it and with the options of `ortbench.run`, gives its result; a mode that fails fails the
    test."""

    def measure(model: Any, **options: Any) -> Result:
        __tracebackhide__ = True
        import ortbench
        from ortbench.api.results import in_a_line

        def run() -> Result:
            return ortbench.run(model, **options)

        result = measure_alone(run)
        note_lines(request, [in_a_line(result)])
        if failed := [f"{case.mode} failed: {case.reason}" for case in result.cases if case.status == "failed"]:
            pytest.fail("\n".join(failed), pytrace=False)
        return result

    return measure


def measure_alone(call: Callable[[], Given]) -> Given:
    """What a call gives that measures, while no other test of this user does; its error is a line, not a traceback."""
    __tracebackhide__ = True
    from ortbench.core.errors import OrtbenchError

    with _alone():
        try:
            return call()
        except OrtbenchError as error:
            raise pytest.fail.Exception(f"ortbench: {error}", pytrace=False) from None


@contextmanager
def _alone() -> Iterator[None]:
    """Inside the block no other test of this user measures: those of pytest-xdist run in processes of their own."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    file = Path(tempfile.gettempdir(), f"ortbench-pytest-{user}.lock")
    handle = os.open(file, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        if sys.platform == "win32":
            import msvcrt
            import time

            while True:
                try:
                    msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
                    break
                except OSError:  # somebody else has it
                    time.sleep(0.1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # the lock goes with it, as it does with the process


def note_lines(request: pytest.FixtureRequest, lines: Iterable[str]) -> None:
    """Have a test's report say what was measured, also across processes and in JUnit XML."""
    request.node.user_properties += [(NAME, line) for line in lines]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What was measured, test by test, below all tests."""
    every = [report for reports in terminalreporter.stats.values() for report in reports]
    found = {
        report.nodeid: [text for name, text in report.user_properties if name == NAME]
        for report in every
        if getattr(report, "when", None) == "call"
    }
    if any(found.values()):
        terminalreporter.section(NAME)
    for test, lines in found.items():
        for line in [test, *(f"  {line}" for line in lines)] if lines else ():
            terminalreporter.write_line(line)
