"""That `tests.benchmarks.same` takes out what it should, and nothing else."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from tests.benchmarks import scripted_clock
from tests.benchmarks.same import NOISY, SCRIPTED, STORED, difference, normalised
from tests.benchmarks.same_extras import options

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
Saved in reports/tiny-cpu-20261122-052559
"""
LATER = (
    RESULT.replace("05:25:59", "06:00:01")
    .replace("6.03", "1.1")
    .replace("6.51, 5.01", "0.5, 12.25")
    .replace("83e701cfd4774f618798a554fdc71a8e", "c8c2c04e7e4746ed90551bf34bb21a26")
    .replace("052559", "060001-2")
)


def differs(before: str, after: str, kind: str) -> list[str]:
    return difference({"file": normalised(before, kind)}, {"file": normalised(after, kind)})


def test_when_and_where_a_run_was_is_no_difference() -> None:
    assert differs(RESULT, LATER, STORED)
    assert differs(RESULT, LATER, SCRIPTED) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("median_ns", "median"),  # a key
        ("5014", "5015"),  # a figure
        ("Saved in", "Written to"),  # a word
        ("aaaa", "baaa"),  # what only looks like a run's id
        ("  ", " "),  # a space
        ("052559\n", "052559"),  # the end of the last line
    ],
)
def test_all_else_is_a_difference_under_the_scripted_clock(old: str, new: str) -> None:
    assert differs(RESULT, RESULT.replace(old, new, 1), SCRIPTED)


def test_figures_are_no_difference_in_a_noisy_run() -> None:
    fast = 'cpu  ░░████▒  5.01 ms  1.00×  1.1–1.2  ≈2.00 GB/s\n• cpu is fast.\n"b": [[1, 2], [3, 4]]\n"ci95": null\n|---|--:|'
    slow = (
        'cpu    ░███▒▒▒▒  902 µs  12.1×  –  ≈340 MB/s\n"b": [[1, 2], [3, 4], [5, 6]]\n"ci95": [0.9, 1.1]\n|-----|---:|'
    )
    assert differs(fast, slow, NOISY) == []
    assert differs(fast, slow.replace("cpu", "device"), NOISY)
    assert differs(fast, slow.replace("≈", ""), NOISY)
    assert differs(fast, slow.replace("ci95", "interval"), NOISY)


def test_the_installs_own_paths_are_no_difference() -> None:
    texts = {normalised(f"no {place}/lib", STORED, [place]) for place in ("/opt/before", "/opt/after")}
    assert texts == {"no INSTALL/lib"}


def test_a_difference_says_what_it_is() -> None:
    assert difference({"0 code": "0"}, {"0 code": "0"}) == []
    assert difference({"0 code": "0"}, {"0 code": "3"}) == [
        "--- before 0 code",
        "+++ after 0 code",
        "@@ -1 +1 @@",
        "-0",
        "+3",
    ]
    assert difference({"table.md": ""}, {}) == ["table.md: only before"]
    assert difference({}, {"table.md": ""}) == ["table.md: only after"]


def test_options_are_the_same_in_another_layout() -> None:
    plain = "Options:\n  --out DIR     Where\n                it goes.\n  -q, --quiet   Print nothing.\n\nBegin here"
    boxed = (
        "╭─ Files ─────╮\n│ --out DIR   Where it goes. │\n╰────╯\n╭─ Other ─╮\n│ -q, --quiet │ Print nothing. │\n╰──╯\n"
    )
    assert options(plain) == {"--out": "DIR Where it goes.", "-q, --quiet": "Print nothing."}
    assert options(plain) == options(boxed)


def test_the_scripted_clock_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripted_clock, "_made", Counter())
    steps = [scripted_clock.reading() for _ in range(50)]
    assert all(later > earlier for earlier, later in pairwise(steps))
