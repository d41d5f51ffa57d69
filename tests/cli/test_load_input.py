"""What `ortbench load` refuses, each in one line and with exit code 2, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.core.errors import BadInput
from ortbench.features.load.plan import (
    LoadPlan,
    read_timestamps,
    settings,
    usual_concurrency,
)
from tests.conftest import MODELS, ortbench

pytestmark = pytest.mark.process

TINY = MODELS / "tiny.onnx"


def refused(*arguments: object) -> str:
    ran = ortbench("load", TINY, "--ep", "cpu", *arguments)
    assert (ran.code, ran.out) == (2, "")
    return ran.error_line


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0\n1\n0.5\n", "line 3: 0.5 is before the line above it; sort the file"),
        ("0\nsoon\n", "line 2: 'soon' is no time in seconds"),
        ("0\nnan\n", "line 2: 'nan' is no time in seconds"),
        ("# nothing\n\n3\n", "has no two moments, one a line, from which there would be a rate"),
        ("3\n3\n", "has no two moments, one a line, from which there would be a rate"),
    ],
)
def test_a_file_of_arrivals_that_says_nothing_is_refused(lines: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "arrivals.txt"
    file.write_text(lines)
    assert refused("--arrivals", file).startswith(f"--arrivals {file}")
    assert refused("--arrivals", file).endswith(message)


def test_a_file_of_arrivals_begins_at_its_first_moment(tmp_path: Path) -> None:
    file = tmp_path / "arrivals.txt"
    file.write_text("# s\n10.5\n\n11\n 12.5 \n")
    assert read_timestamps(str(file)) == [0.0, 0.5, 2.0]
    load = LoadPlan(arrivals=str(file))
    assert (load.is_open, load.client_counts, load.point_s(2.0)) == (True, (), 2.0)
    assert LoadPlan(arrivals=str(file), rate=(3.0,)).point_s(2.0) == 2.0
    assert LoadPlan(arrivals=str(file), duration_s=1.0).point_s(2.0) == 1.0
    found = settings(load, 7, 2.0)
    assert (found["arrivals"], found["file"], found["seed"]) == ("file", "arrivals.txt", 7)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "arrivals.bin"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot be read: it is no text"):
        read_timestamps(str(file))


def test_the_usual_clients_are_no_more_than_twice_the_cores() -> None:
    assert usual_concurrency(1) == (1, 2)
    assert usual_concurrency(3) == (1, 2, 4)
    assert usual_concurrency(64) == (1, 2, 4, 8)
    assert LoadPlan(rate=(1.0,)).client_counts == ()
    assert LoadPlan(rate=(1.0,), concurrency=(3,)).client_counts == (3,)
    assert settings(LoadPlan(), 0, 2.0)["arrivals"] is None
