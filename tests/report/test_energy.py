"""What runs draw, wherever it is shown: terminal, Markdown, page, CSV, comparisons, suites."""

from __future__ import annotations

import pytest

from ortbench.features.page.report.page import build_page
from ortbench.model.result import Result
from ortbench.report.markdown import markdown
from ortbench.report.run import build
from tests.report.test_page import Page
from tests.results import drawing, published

pytestmark = pytest.mark.usefixtures("undrawn")


def with_energy(factor: float = 1.0) -> Result:
    """Of the two first modes what they draw is known, of the third why it is not."""
    made = published()
    drawing(made.cases[0], 0.312 * factor)
    drawing(made.cases[1], 0.012 * factor)
    made.cases[2].own["energy"] = {"unsupported": "the stretch failed: it broke"}
    return made


MARKDOWN = """\
## Resource usage: energy

| mode | energy | 95% CI | power | idle power | inf/J |
| --- | ---: | ---: | ---: | ---: | ---: |
| cpu-tensors | 312 mJ | 306 mJ–318 mJ | 214 W | 72.1 W | 3.21 |
| device-tensors | 12.0 mJ | 11.8 mJ–12.2 mJ | 214 W | 72.1 W | 83.3 |

energy: of one inference, by the energy counter of GPU 0, measured after the timing, less idle power.

unsupported (device-resident): the stretch failed: it broke.
"""


def test_a_report_has_a_section_of_it() -> None:
    assert MARKDOWN in markdown(build(with_energy()))
    assert "Resource usage" not in markdown(build(published()))


def test_where_nothing_can_be_read_the_reason_is_all() -> None:
    made = published()
    for case in made.cases:
        case.own["energy"] = {"unsupported": "this CPU has no energy counter (RAPL) in /sys/class/powercap"}
    said = "unsupported (cpu-tensors, device-tensors, host-accessible, device-resident): this CPU has no energy counter (RAPL) in /sys/class/powercap."
    assert f"## Resource usage: energy\n\n{said}\n" in markdown(build(made))
    assert said in Page(build_page([made], ["a"])).text("p")


def test_how_it_was_read_is_said_where_it_is_no_counter() -> None:
    made = with_energy()
    cpu = drawing(made.cases[0], 1.0)
    cpu.set_metric("energy", 1.0)
    cpu.set_metric("inferences_per_joule", None)
    cpu.own["energy"] = {"how": "power", "of": "GPU 0"}
    text = markdown(build(made))
    assert (
        "by readings of the power of GPU 0, integrated, as it has no energy counter; by the energy counter of GPU 0"
        in text
    )
    assert "| cpu-tensors | 1.00 J | – | 214 W | 72.1 W | – |" in text


def test_clocks_that_were_locked_are_a_difference_and_in_the_heading() -> None:
    from ortbench.analysis.comparable import changes

    free, locked = published(), published()
    locked.environment["locked_clocks"] = 1200
    assert changes(free, locked) == ["locked clocks: default → 1200"]
    assert "; clocks locked to 1200 MHz" in markdown(build(locked))
    locked.environment["locked_clocks"] = "base"
    assert "; clocks locked to base" in markdown(build(locked))
