"""What is said of results that were measured on an H100, and of all that are committed: the two speedups, and how much is shown."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ortbench.cli.options import declared_for
from ortbench.facts.findings import facts_of, findings_of, headline
from ortbench.features.page.report.page import build_page
from ortbench.model.result_file import load
from tests.conftest import ROOT
from tests.report.test_page import Page
from tests.results import keys

H100 = ROOT / "reports" / "copy_bound-cuda-h100"
STORED = sorted((ROOT / "reports").rglob("result.json"))


@pytest.mark.usefixtures("undrawn")
def test_the_two_speedups_are_named_for_what_they_are() -> None:
    result = load(H100 / "result.json")
    assert keys(result)[:3] == [
        ("copies", "measured", "cpu-tensors"), ("replacement", "faster", "host-accessible"), ("residency", "faster-on-top", "device-resident"),
    ]  # fmt: skip
    assert headline(result) == "Copies take ≈98% of the latency of cpu-tensors: ≈4.12 ms of 4.20 ms"
    found = Page(build_page([result], [""]))
    values = found.text("dd")[::2]
    assert (
        dict(zip(found.text("dt"), values, strict=True)).items()
        >= {
            "Fastest mode": "4.17×",
            "Tensors on the device": "13.3×",
        }.items()
    )


@pytest.mark.wide
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
@pytest.mark.usefixtures("undrawn")
def test_a_page_has_all_findings(path: Path) -> None:
    result = load(path)
    every = findings_of(facts_of(result))
    assert [it.weight for it in every] == sorted((it.weight for it in every), reverse=True)
    page = " ".join(Page(build_page([result], [""])).text("li")).replace("\N{NO-BREAK SPACE}", " ")
    assert all(it.what in page for it in every)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_every_command_to_copy_is_one(path: Path) -> None:
    """Its options are those that the command has."""
    for found in findings_of(facts_of(load(path))):
        if found.is_command:
            _, command, *words = shlex.split(found.next)
            known = {it.name for it in declared_for(command).values()}
            assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.wide
@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_every_page_can_be_drawn(path: Path) -> None:
    build_page([load(path)], [""])
