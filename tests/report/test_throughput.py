"""Items a second and the time of each: in every table, file and page where a run has several items, and nowhere else."""

from __future__ import annotations

import csv as csv_module
import io

import pytest

from ortbench.analysis.derive import derive
from ortbench.analysis.items import item_bytes
from ortbench.facts.comparison import items_facts
from ortbench.facts.sentences import PASSED
from ortbench.features.page.report.page import build_page
from ortbench.features.suite import report as suite
from ortbench.features.suite.job.record import MISSING, Record, figures
from ortbench.model.result import Result
from ortbench.report import comparison
from ortbench.report.records import markdown
from ortbench.report.run import build, mode_table
from tests.results import MS, US, broken, measured, result_of, steady, tensor

pytestmark = pytest.mark.usefixtures("undrawn")


def batch(count: int, total: int, run_id: str | None = "r", resident: int | None = None) -> Result:
    """A run of so many items, with the medians of its modes in ns."""
    modes = {"cpu-tensors": total} | ({} if resident is None else {"device-resident": resident})
    made = result_of(*(measured(mode, latency=steady([ns] * 12)) for mode, ns in modes.items()), run_id=run_id)
    made.model["inputs"] = [tensor("x", [count, 3])]
    made.items = {"count": count, "dim": "batch"}
    derive(made)
    return made


@pytest.mark.parametrize(("total", "verdict"), [(2 * MS, "most"), (4 * MS, "tied")])
def test_which_of_several_runs_gets_most_items_done(total: int, verdict: str) -> None:
    (fact,) = items_facts([batch(8, MS), batch(32, total)], ["batch=8", "batch=32"])
    assert (fact.code, fact.verdict) == ("most-items", verdict)
    assert verdict == "tied" or fact.values["configuration"] == "batch=32"
    assert not [*items_facts([batch(8, MS)], ["batch=8"])]


def test_the_table_of_a_run_has_two_more_columns_at_its_end() -> None:
    made = batch(8, 2 * MS, resident=MS)
    made.cases.append(broken("device-tensors", latency=steady([3 * MS])))
    table = mode_table(made)
    assert [it.name for it in table.columns][-3:] == ["inf/s", "items/s", "time per item"]
    assert [row[-2:] for row in table.rows] == [("4.00k", "0.250"), ("–", "–"), ("8.00k", "0.125")]
    assert mode_table(batch(4096, 1000)).rows[0][-2:] == ("4.10G", "0 ns")


def test_one_item_or_an_unknown_number_adds_nothing() -> None:
    plain, one = batch(8, MS), batch(1, MS)
    plain.items = None
    derive(plain)
    for made in (plain, one):
        assert "item" not in "".join(it.name for it in mode_table(made).columns)
        assert "items/s" not in markdown(build(made)) + build_page([made], ["a"])
    assert (one.cases[0].value("item_throughput"), one.cases[0].value("item_time")) == (1000, MS)  # for comparisons
    records = [record("m--1", batch(1, MS)), record("m--2", batch(1, MS))]
    assert "item" not in suite.csv(records) + markdown(suite.build("s", records))


def test_several_results_have_a_row_of_it_for_each_mode() -> None:
    results = [batch(1, 500 * US), batch(8, 2 * MS), batch(32, 16 * MS)]
    (two,) = comparison.tables(results[:2], ["a", "b"], 0.02, in_order=False)
    assert [row[:5] for row in two.rows] == [
        ("cpu-tensors", "latency", "500 µs", "2.00 ms", "4.00"),
        ("cpu-tensors", "item throughput", "2.00k items/s", "4.00k items/s", "0.500"),
    ]
    (three,) = comparison.tables(results, ["x", "y", "z"], 0.02, in_order=False)
    assert [row[2:4] for row in three.rows[3:]] == [
        ("x", "2.00k items/s"), ("y", "4.00k items/s"), ("z", "2.00k items/s"),
    ]  # fmt: skip


def record(name: str, made: Result) -> Record:
    return Record(name, "m", "cpu", "", "f", PASSED, **figures(made))


def test_the_summary_of_a_suite() -> None:
    measured_cases = [record("m--1", batch(1, 500 * US)), record("m--8", batch(8, 2 * MS))]
    records = [*measured_cases, Record("x", "", "", "", "", MISSING)]
    table = suite.case_table(records)
    assert table.headings[3:] == ["latency", "items/s", "time per item", "verdict"]
    assert [row[4:] for row in table.rows] == [
        ("2.00k", "500 µs", "passed"), ("4.00k", "250 µs", "passed"), ("–", "–", "missing")
    ]  # fmt: skip
    _, eight, missing = csv_module.DictReader(io.StringIO(suite.csv(records)))
    assert (eight["items"], eight["item_throughput_per_s"], eight["item_time_ns"]) == ("8", "4000.0", "250000.0")
    assert missing["items"] == ""


def test_the_items_of_an_input_that_has_the_batch() -> None:
    made = batch(8, MS)
    made.model["inputs"] = [
        {**tensor("x", [8, 3], 96), "model_shape": ["batch", 3]}, {**tensor("scale", [1], 4), "model_shape": [1]}
    ]  # fmt: skip
    assert item_bytes(made) == 12
    made.model["inputs"][0]["bytes"] = None
    assert item_bytes(made) is None
