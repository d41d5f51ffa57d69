"""That `tests.benchmarks.same` takes out what it should, and nothing else."""

from __future__ import annotations

import pytest

from tests.benchmarks.same import normalised

RESULT = f"""{{
  "created": "2026-11-22T05:25:59+00:00",
  "load_average": {{"start": [6.03, 4.89, 2.71], "end": [6.51, 5.01, 2.76]}},
  "setup": {{"run_id": "83e701cfd4774f618798a554fdc71a8e"}},
  "sha256": "{"a" * 64}",
  "median_ns": 5014
}}
Saved in /opt/before/reports/tiny-cpu-20261122-052559, took 1.25 s
"""
LATER = (
    RESULT.replace("05:25:59", "06:00:01").replace("6.03", "1.1").replace("6.51, 5.01", "0.5, 12.25")
    .replace("83e701cfd4774f618798a554fdc71a8e", "c8c2c04e7e4746ed90551bf34bb21a26").replace("052559", "060001-2")
    .replace("1.25 s", "900 ms").replace("before", "after")
)  # fmt: skip


def test_when_and_where_it_was_is_no_difference() -> None:
    assert normalised(RESULT, ["/opt/before"]) == normalised(LATER, ["/opt/after"])


@pytest.mark.parametrize(
    ("old", "new"), [("median_ns", "median"), ("5014", "5015"), ("Saved in", "Written to"), ("aaaa", "baaa"), ("  ", " "), (" s\n", " s")]
)  # fmt: skip
def test_all_else_is_a_difference(old: str, new: str) -> None:
    assert normalised(RESULT) != normalised(RESULT.replace(old, new, 1))
