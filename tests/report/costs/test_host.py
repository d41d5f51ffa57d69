"""The host's own work in every report: from scripted results, word for word."""

from __future__ import annotations

import csv as csv_format
import json
from pathlib import Path

from ortbench.glossary import Group, entries
from ortbench.report.comparison import build as build_comparison
from ortbench.report.comparison import records as comparison_records
from ortbench.report.costs.host import host_table
from ortbench.report.costs.section import cost_parts, cost_tables
from ortbench.report.markdown import markdown
from ortbench.report.model import Report
from ortbench.report.page.page import build_page
from ortbench.report.run import build, csv
from ortbench.report.suite import build as build_suite
from ortbench.report.suite import csv as suite_csv
from ortbench.report.terminal.print import print_report
from ortbench.result import Result, load, save
from ortbench.suite.record import MEASURED, Record, figures, record_from
from tests.report.test_page import Page
from tests.report.test_terminal import screen, shown
from tests.results import MS, US, decoding, host_time, measured, result_of, spin, steady

TITLE = "What else it costs: the host's own work"


def costly(cpu_ms: int = 12, submit_us: int = 3_050, run_id: str | None = None) -> Result:
    """Mode cpu on one core and a half, device-resident on a quarter of one."""
    cpu = measured("cpu", total=steady([8 * MS] * 10), cpu_time={n: [cpu_ms * MS] for n in range(10)})
    cpu.host = host_time(30, 8 * MS, cpu_ms * MS - 310 * US, 310 * US)
    resident = measured(
        "device-resident",
        total=steady([10 * MS] * 10),
        submit=steady([submit_us * US] * 10),
        cpu_time={n: [2_500 * US] for n in range(10)},
    )
    resident.host = host_time(30, 10 * MS, 2_400_400, 99_600)
    return result_of(cpu, resident, run_id=run_id)


TERMINAL = """\
What else it costs: the host's own work
mode              submit  of inference  CPU time     user   system  cores
cpu                    –             –   12.0 ms  11.7 ms   310 µs   1.50
device-resident  3.05 ms           30%   2.50 ms  2.40 ms  99.6 µs   0.25
submit: until the call returns, before any fence. CPU time: per run, of all
threads of the worker together; cores: how many were in use.
"""


def part_of(report: Report, title: str = TITLE) -> str:
    """The part of a terminal's report that begins with a title, up to the next part."""
    text = "\n".join(screen(print_report, report, width=80))
    return text[text.index(title) :].partition("\n\n")[0].rstrip() + "\n"


def test_the_terminal() -> None:
    result = costly()
    assert part_of(build(result)) == TERMINAL
    result.cases[0].spin = spin(20, 3 * MS, 9 * MS)
    out = "\n".join(shown(build, result, width=80))
    assert (
        "mode             spinning  without  total without\ncpu                  ≈75%  3.00 ms        9.00 ms\n" in out
    )
    assert "• ≈75% of the CPU time with cpu is threads of ONNX Runtime that spin" in out


def test_markdown() -> None:
    assert f"""
## {TITLE}

| mode | submit | of inference | CPU time | user | system | cores |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| cpu | – | – | 12.0 ms | 11.7 ms | 310 µs | 1.50 |
| device-resident | 3.05 ms | 30% | 2.50 ms | 2.40 ms | 99.6 µs | 0.25 |

submit: until the call returns, before any fence. CPU time: per run, of all threads of the worker together; cores: how many \
were in use.
""" in markdown(build(costly()))


def test_the_page_has_the_table_and_its_words() -> None:
    page = Page(build_page([costly()], ["m"]))
    assert page.text("h2").count(TITLE) == 1
    assert {"12.0 ms", "1.50", "3.05 ms", "30%"} <= {*page.text("td")}
    known = {entry.word: entry.sentence for entry in entries() if entry.group is Group.COSTS}
    words = ("submit", "of inference", "CPU time", "user", "system", "cores")
    assert {known[word] for word in words} <= {*page.text("td")}
    assert known["spinning"] not in page.text("td")
    told = [text for _, text in page.texts]
    said = next(text for text in told if text.startswith("submit: until the call returns"))
    assert told.index(TITLE) < told.index("CPU time") < told.index(said) < told.index("Placement")


def test_results_that_lack_it_read_as_before() -> None:
    result = result_of(measured("cpu", total=steady([8 * MS] * 10)))
    assert (cost_parts(result), cost_tables(result)) == ([], [])
    assert "What else" not in markdown(build(result))
    assert "What else" not in build_page([result], ["m"])
    assert "What else" not in markdown(build_comparison([result, result], ["a", "b"], 0.02, in_order=True))


def test_a_loop_has_it_by_step_too() -> None:
    result = decoding()
    result.cases[0].host = host_time(20, 10 * MS, 4 * MS, 0)
    table = host_table(result)
    assert [column.name for column in table.columns] == ["mode", "CPU time", "user", "system", "cores", "per step"]
    assert table.rows == (("cpu", "4.00 ms", "4.00 ms", "0 ns", "0.40", "500 µs"),)


def test_a_failed_mode_shows_what_was_taken_of_it() -> None:
    result = costly()
    result.cases[0].status = "failed"
    assert [row[0] for row in host_table(result).rows] == ["cpu (failed)", "device-resident"]


def test_csv() -> None:
    result = costly()
    result.cases[0].spin = spin(20, 3 * MS, 9 * MS)
    cpu, resident = csv_format.DictReader(csv(result).splitlines())
    named = ("submit_median_ns", "cpu_time_median_ns", "cpu_time_n", "cpu_ns", "user_ns", "system_ns", "cores")
    assert [cpu[name] for name in named] == ["", "12000000", "10", "12000000", "11690000", "310000", "1.5"]
    assert [resident[name] for name in named] == ["3050000", "2500000", "10", "2500000", "2400400", "99600", "0.25"]
    assert [cpu[f"spin_off_{name}"] for name in ("cpu_ns", "total_ns")] == ["3000000", "9000000"]
    assert resident["spin_off_cpu_ns"] == resident["spin_off_total_ns"] == ""


def test_the_result_file_and_back(tmp_path: Path) -> None:
    result = costly()
    result.cases[0].spin = spin(20, 3 * MS, 9 * MS)
    save(result, tmp_path / "result.json")
    data = json.loads((tmp_path / "result.json").read_text())
    assert data["cases"][1]["phases"]["submit"]["median_ns"] == 3_050_000
    assert data["cases"][1]["host"] == {"runs": 30, "wall_ns": 300 * MS, "user_ns": 72_012_000, "system_ns": 2_988_000}
    assert load(tmp_path / "result.json") == result


# Side by side


COMPARED = """\
What else it costs
mode             cost            a        b   ratio         95 %  verdict
cpu              CPU time  12.0 ms  18.0 ms  ×1.500  1.471–1.530  more
device-resident  submit    3.05 ms  1.50 ms  ×0.492  0.482–0.502  less
device-resident  CPU time  2.50 ms  2.50 ms  ×1.000  0.980–1.020  same
"""


def test_costs_of_two_results() -> None:
    results, names = [costly(), costly(18, 1_500)], ["a", "b"]
    report = build_comparison(results, names, 0.02, in_order=True)
    assert part_of(report, "What else it costs") == COMPARED
    assert "\n## What else it costs\n" in markdown(report)
    assert "| cpu | CPU time | 12.0 ms | 18.0 ms | ×1.500 | 1.471–1.530 | more |" in markdown(report)
    assert "| cpu | total | 8.00 | 8.00 | ×1.000 | 0.980–1.020 | same |" in markdown(report)
    verdicts = {
        (it["mode"], it["phase"]): it["vs_first"]["verdict"]
        for it in comparison_records(results, names, 0.02)
        if it["result"] == "b"
    }
    assert verdicts[("cpu", "cpu_time")] == "more"
    assert verdicts[("device-resident", "submit")] == "less"
    page = Page(build_page(results, names))
    assert {"more", "less", "CPU time"} <= {*page.text("td")}


def test_costs_of_three_results() -> None:
    results = [costly(ms, run_id="1") for ms in (12, 18, 9)]
    for result in results:
        del result.cases[1]
    assert (
        part_of(build_comparison(results, ["a", "b", "c"], 0.02, in_order=False), "What else it costs")
        == """\
What else it costs
mode  cost      result   median  vs first         95 %  verdict
cpu   CPU time  a       12.0 ms         –            –  –
                b       18.0 ms    ×1.500  1.500–1.500  more
                c       9.00 ms    ×0.750  0.750–0.750  less
"""
    )


# Suites


def test_the_summary_of_a_suite() -> None:
    made = Record("m--e", "m", "e", "", "f", MEASURED, **figures(costly()))
    assert made.cpu_time_ns == 12 * MS
    assert record_from(made.to_dict()) == made
    old = Record("n--e", "n", "e", "", "f", MEASURED, cpu_ns=8 * MS, fastest="cpu", fastest_ns=8 * MS)
    text = markdown(build_suite("bench", [made, old]))
    assert "| case | cpu | fastest mode | total | CPU time | verdict |" in text
    assert "| m--e | 8.00 ms | cpu | 8.00 ms | 12.0 ms | measured |" in text
    assert "| n--e | 8.00 ms | cpu | 8.00 ms | – | measured |" in text
    rows = list(csv_format.DictReader(suite_csv([made, old]).splitlines()))
    assert [row["cpu_time_ns"] for row in rows] == ["12000000", ""]
