"""What runs draw and at which clocks: the section of a report."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.analysis.comparable import changes
from ortbench.report.records import markdown
from ortbench.report.run import build
from tests.results import drawing, published

BY_POWER = {"how": "power", "of": "GPU 0"}
BROKEN = {"unsupported": "the stretch failed: it broke"}


@pytest.mark.parametrize(
    ("own", "parts"),
    [
        ([None, None, BROKEN], [
            "| mode | energy | 95% CI | power | idle power | inf/J |", "| cpu-tensors | 312 mJ | 306 mJ–318 mJ | 214 W | 72.1 W | 3.21 |",
            "energy: of one inference, by the energy counter of GPU 0, measured after the timing, less idle power.",
            "unsupported (device-resident): the stretch failed: it broke.",
        ]),
        ([BY_POWER, None], ["by readings of the power of GPU 0, integrated, as it has no energy counter; by the energy counter of GPU 0"]),
        ([BROKEN] * 4, ["energy\n\nunsupported (cpu-tensors, device-tensors, host-accessible, device-resident): the stretch failed: it broke."]),
    ],
)  # fmt: skip
def test_the_section_says_how_energy_was_read_or_why_not(own: list[dict[str, Any] | None], parts: list[str]) -> None:
    made = published()
    for case, energy in zip(made.cases, own, strict=False):
        if energy != BROKEN:
            drawing(case, 0.312)
        case.own["energy"] = energy or case.own["energy"]
    text = markdown(build(made)).partition("## Resource usage: ")[2]
    assert text.startswith("energy\n")
    assert all(part in text for part in parts)


@pytest.mark.parametrize(("clocks", "words"), [(1200, "1200 MHz"), ("base", "base")])
def test_clocks_that_were_locked_are_a_difference_and_in_the_heading(clocks: int | str, words: str) -> None:
    free, locked = published(), published()
    locked.environment["locked_clocks"] = clocks
    assert changes(free, locked) == [f"locked clocks: default → {clocks}"]
    assert f"; clocks locked to {words}" in markdown(build(locked))
    assert "Resource usage" not in markdown(build(free))
