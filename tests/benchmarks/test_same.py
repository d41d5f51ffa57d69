"""That `tests.benchmarks.same` takes out what it should, and nothing else."""

from __future__ import annotations

import sys

import pytest

from tests.benchmarks.same import difference, main, normalised

RESULT = """{
  "created": "2026-11-22T05:25:59+00:00",
  "environment": {
    "load_average": {
      "start": [6.03, 4.89, 2.71],
      "end": [6.51, 5.01, 2.76]
    }
  },
  "setup": {"run_id": "83e701cfd4774f618798a554fdc71a8e"},
  "sha256": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
  "median_ns": 5014
}
Saved in reports/tiny-cpu-20261122-052559, took 1.25 s
"""
LATER = (
    RESULT.replace("05:25:59", "06:00:01")
    .replace("6.03", "1.1")
    .replace("6.51, 5.01", "0.5, 12.25")
    .replace("83e701cfd4774f618798a554fdc71a8e", "c8c2c04e7e4746ed90551bf34bb21a26")
    .replace("052559", "060001-2")
    .replace("1.25 s", "900 ms")
)


def differs(before: str, after: str) -> list[str]:
    return difference({"file": normalised(before)}, {"file": normalised(after)})


def test_when_and_where_it_was_is_no_difference() -> None:
    assert differs(RESULT, LATER) == []
    assert {normalised(f"no {place}/lib", [place]) for place in ("/opt/before", "/opt/after")} == {"no INSTALL/lib"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("median_ns", "median"),  # a key
        ("5014", "5015"),  # a figure
        ("Saved in", "Written to"),  # a word
        ("aaaa", "baaa"),  # what only looks like a run's id
        ("  ", " "),  # a space
        (" s\n", " s"),  # the end of the last line
    ],
)
def test_all_else_is_a_difference(old: str, new: str) -> None:
    assert differs(RESULT, RESULT.replace(old, new, 1))


def test_a_difference_says_what_it_is() -> None:
    assert difference({"0 code": "0"}, {"0 code": "0"}) == []
    head = ["--- before 0 code", "+++ after 0 code", "@@ -1 +1 @@"]
    assert difference({"0 code": "0"}, {"0 code": "3"}) == [*head, "-0", "+3"]
    assert difference({"table.md": ""}, {}) == ["table.md: only before"]
    assert difference({}, {"table.md": ""}) == ["table.md: only after"]


@pytest.mark.wide
def test_an_environment_is_the_same_as_itself(capfd: pytest.CaptureFixture[str]) -> None:
    names = ("run", "loop", "chain", "load", "sweep", "bandwidth", "gate-*", "suite", "stored-again", "stored/half")
    code = main([sys.executable, sys.executable, *(word for name in names for word in ("--only", name))])
    printed = capfd.readouterr().out
    assert (code, "13 scenarios, 0 differ" in printed) == (0, True), printed
