"""What is said of stored results: on an H100 the two speedups, of all that each finding is on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.facts.run import facts_of, findings_of, headline
from ortbench.features.page.report.page import build_page
from ortbench.model.result_file import load
from tests.conftest import ROOT
from tests.report.test_page import Page
from tests.results import keys

STORED = sorted((ROOT / "reports").rglob("result.json"))


@pytest.mark.usefixtures("undrawn")
def test_the_two_speedups_are_named_for_what_they_are() -> None:
    result = load(ROOT / "reports" / "copy_bound-cuda-h100" / "result.json")
    assert keys(result)[:3] == [
        ("copies", "measured", "cpu-tensors"), ("replacement", "faster", "host-accessible"), ("residency", "faster-on-top", "device-resident"),
    ]  # fmt: skip
    assert headline(result) == "Copies take ≈98% of the latency of cpu-tensors: ≈4.12 ms of 4.20 ms"
    page = Page(build_page([result], [""]))
    speedups = dict(zip(page.text("dt"), page.text("dd")[::2], strict=True))
    assert (speedups["Fastest mode"], speedups["Tensors on the device"]) == ("4.17×", "13.3×")


@pytest.mark.wide
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_a_page_that_can_be_drawn_has_all_findings(path: Path) -> None:
    result = load(path)
    every = findings_of(facts_of(result))
    assert [it.weight for it in every] == sorted((it.weight for it in every), reverse=True)
    page = " ".join(Page(build_page([result], [""])).text("li")).replace("\N{NO-BREAK SPACE}", " ")
    assert all(it.what in page for it in every)
