"""What runs draw, wherever it is shown: terminal, Markdown, page, CSV, comparisons, suites."""

from __future__ import annotations

import csv as csv_module
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ortbench.core import units
from ortbench.features.page.report.page import build_page
from ortbench.features.suite import report as suite
from ortbench.features.suite.job.record import MEASURED, Record, figures
from ortbench.model.result import Result
from ortbench.model.result_file import save
from ortbench.report.markdown import markdown
from ortbench.report.run import build
from tests.conftest import ortbench
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


@pytest.mark.process
@pytest.mark.parametrize(("factor", "verdict"), [(1.6, "more"), (0.6, "less"), (1.0, "cannot tell")])
def test_compare_says_more_or_less(factor: float, verdict: str, tmp_path: Path) -> None:
    """Two equal ones differ by 0 ± 6 %, which is not the same to within 2 % for certain."""
    for name, made in (("a", with_energy()), ("b", with_energy(factor))):
        (tmp_path / name).mkdir()
        save(made, tmp_path / name / "result.json")
    ran = ortbench("compare", "a", "b", "--json", "compared.json", "--markdown", "-", cwd=tmp_path)
    assert ran.code == 0, ran.err
    assert "## Resource usage" in ran.out
    (line,) = (line for line in ran.out.splitlines() if line.startswith("| cpu-tensors | energy"))
    assert line.startswith(f"| cpu-tensors | energy | 312 mJ | {312 * factor:.0f} mJ | {units.change(factor)} |")
    assert line.endswith(f"| {verdict} |")
    records = [it for it in json.loads((tmp_path / "compared.json").read_text())["records"] if it["metric"] == "energy"]
    assert [(it["mode"], it["result"]) for it in records] == [
        ("cpu-tensors", "a"),
        ("cpu-tensors", "b"),
        ("device-tensors", "a"),
        ("device-tensors", "b"),
    ]
    assert records[1]["vs_first"]["verdict"] == verdict
    wider = ortbench("compare", "a", "b", "--equivalence-margin", "8%", "--markdown", "-", cwd=tmp_path)
    energies = [line for line in wider.out.splitlines() if "-tensors | energy |" in line]
    assert [line.endswith("| same |") for line in energies] == [factor == 1.0] * 2


def test_clocks_that_were_locked_are_a_difference_and_in_the_heading() -> None:
    from ortbench.analysis.comparable import changes

    free, locked = published(), published()
    locked.environment["locked_clocks"] = 1200
    assert changes(free, locked) == ["locked clocks: default → 1200"]
    assert "; clocks locked to 1200 MHz" in markdown(build(locked))
    locked.environment["locked_clocks"] = "base"
    assert "; clocks locked to base" in markdown(build(locked))


def test_a_suite_has_what_the_fastest_mode_of_each_case_draws() -> None:
    made = with_energy()
    assert figures(made).get("energy_j") is None  # of host-accessible nobody knows
    drawing(made.cases[3], 0.25)
    record = Record("c", "m", "e", "", "f", MEASURED, **figures(made))
    table = suite.case_table([record, replace(record, id="d", energy_j=None)])
    at = [column.name for column in table.columns].index("energy")
    assert [row[at] for row in table.rows] == ["250 mJ", "–"]
    assert ",250" not in suite.csv([record])
    assert next(iter(csv_module.DictReader(io.StringIO(suite.csv([record])))))["energy_j"] == "0.25"
    assert "energy" not in suite.csv([replace(record, energy_j=None)])
