"""Files of arrivals, and how many clients a load has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ortbench.core.errors import BadInput
from ortbench.features.load.measure import ArrivalSchedule
from ortbench.features.load.plan import LoadPlan, read_timestamps, settings, usual_concurrency


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0\n1\n0.5\n", "line 3: 0.5 is before the line above it; sort the file"),
        (b"0\nsoon\n", "line 2: 'soon' is no time in seconds"),
        (b"0\nnan\n", "line 2: 'nan' is no time in seconds"),
        (b"# nothing\n\n3\n", "has no two moments, one a line, from which there would be a rate"),
        (b"3\n3\n", "has no two moments, one a line, from which there would be a rate"),
        (b"\xff\xfe\x00", "cannot be read: it is no text"),
    ],
)
def test_a_file_of_arrivals_that_says_nothing_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "arrivals.txt"
    file.write_bytes(content)
    with pytest.raises(BadInput, match=rf"^--arrivals {file}.*{message}$"):
        read_timestamps(str(file))


def test_a_file_of_arrivals_begins_at_its_first_moment(tmp_path: Path) -> None:
    file = tmp_path / "arrivals.txt"
    file.write_text("# s\n10.5\n\n11\n 12.5 \n")
    assert read_timestamps(str(file)) == [0.0, 0.5, 2.0]
    load = LoadPlan(arrivals=str(file))
    assert (load.is_open, load.client_counts, ArrivalSchedule(load, 0).point_s) == (True, (), 2.0)
    file.write_text("10\n13\n")
    for changed, seconds in ((replace(load, rate=(3.0,)), 2.0), (replace(load, duration_s=1.0), 1.0), (load, 3.0)):
        assert ArrivalSchedule(changed, 0).point_s == seconds
    assert {"arrivals": "file", "file": "arrivals.txt", "seed": 7}.items() <= settings(load, 7, 2.0).items()
    assert settings(LoadPlan(), 0, 2.0)["arrivals"] is None


def test_the_usual_clients_are_no_more_than_twice_the_cores() -> None:
    assert {cores: usual_concurrency(cores) for cores in (1, 3, 64)} == {1: (1, 2), 3: (1, 2, 4), 64: (1, 2, 4, 8)}
    assert LoadPlan(rate=(1.0,)).client_counts == ()
    assert LoadPlan(rate=(1.0,), concurrency=(3,)).client_counts == (3,)
