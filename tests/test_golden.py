"""What every kind of command prints and writes is what was committed; `python -m tests.golden --write` after a change that is meant."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import golden
from tests.benchmarks.same import SCENARIOS, Install, difference, normalised
from tests.conftest import clock_library, device_library

pytestmark = [pytest.mark.process]


@pytest.fixture(scope="module")
def install() -> Install:
    return Install(Path(sys.executable), clock_library(), device_library())


@pytest.mark.parametrize("name", SCENARIOS)
def test_commands_print_and_write_what_was_committed(name: str, install: Install, tmp_path: Path) -> None:
    lines = golden.differences(name, install, tmp_path / "place")
    assert lines == [], "\n".join(lines)


def test_a_changed_word_and_a_lost_file_show() -> None:
    before = {"0 stdout": "one\ntwo", "r.json": "{}"}
    assert golden.read(golden.written(before)) == before
    lines = ["--- before 0 stdout", "+++ after 0 stdout", "@@ -2 +2 @@", "-two", "+2", "r.json: only before"]
    assert difference(before, {"0 stdout": "one\n2"}) == lines
    for text in ('"median_ns": 5014', "Saved in", f'"sha256": "{"a" * 64}"', " s\n"):  # which is no time or place
        assert normalised(text) == text
