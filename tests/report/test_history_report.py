"""The report of results of many days: names of series, the table, steps with what changed, and the page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ortbench.analysis.comparing.history import groups
from ortbench.model.result import Result
from ortbench.plan.compare_options import Compared
from ortbench.report.history import (
    Told,
    build,
    headline,
    narrow,
    records,
    remarks,
    series_table,
    step_notes,
    step_table,
    told,
)
from ortbench.report.markdown import markdown
from ortbench.report.model import BAD, GOOD
from ortbench.report.page.chart_data.times import over_time
from ortbench.report.page.page import build_history
from tests.report.test_page import Page
from tests.report.test_terminal import shown
from tests.results import night, nights, noise, runs, stepped, sweep_result

pytestmark = pytest.mark.usefixtures("undrawn")

SAME = 0.02


def of(results: list[Result], same: float = SAME) -> list[Told]:
    return told(groups(runs(results)), Compared((), (), same))


def test_a_series_alone_is_called_as_its_model() -> None:
    assert [it.name for it in of(nights([1, 1]))] == ["m"]
    assert [it.name for it in of([replace(it, name="decoder") for it in nights([1, 1])])] == ["decoder"]


def test_several_are_called_by_what_differs_and_not_by_the_names_of_days() -> None:
    threads = [night(at, 1, target__intra_op_threads=count) for count in (1, 4) for at in range(3)]
    assert [it.name for it in of(threads)] == ["intra-op-threads=1", "intra-op-threads=4"]
    named = [replace(it, name=f"{it.created} {at}") for at, it in enumerate(threads)]
    assert [it.name for it in of(named)] == ["intra-op-threads=1", "intra-op-threads=4"]


def test_shapes_of_a_sweep_are_in_the_name() -> None:
    rows = series_table(of([sweep_result()])).rows
    assert [row[0] for row in rows][:1] == ["m batch=1"]


def test_the_rows() -> None:
    table = series_table(of(nights(stepped(30, 18, 1.12), noise(30, seed=5), upgraded=18)))
    assert [column.name for column in table.columns] == [
        "series", "mode", "results", "first", "last", "change", "over time", "scatter", "change points",
    ]  # fmt: skip
    cpu, device = table.rows
    assert (cpu[:3], device[:3]) == (("m", "cpu-tensors", "30"), ("m", "device-tensors", "30"))
    assert (cpu[-1], device[-1]) == ("1", "0")
    assert set(cpu[6][:8]) <= set("▁▂▃▄")
    assert set(cpu[6][-5:]) <= set("▆▇█")
    assert set(device[6]) <= set("▃▄▅▆"), "a scatter of 1 % is no mountain"


def test_at_80_columns_long_names_stand_above_their_rows() -> None:
    """Each part of a table that is too wide repeats only what tells its rows apart."""
    groups = [nights(stepped(30, 18, 1.12), noise(30, seed=seed), upgraded=18) for seed in (5, 6)]
    for count, results in zip((1, 4), groups, strict=True):
        for it in results:
            it.target["intra_op_threads"] = count
    table = series_table(of([it for results in groups for it in results]))
    names = [f"intra-op-threads={count}" for count in (1, 4)]
    assert [row[0] for row in table.rows] == [name for name in names for _ in range(2)]
    shorter = narrow(table)
    assert shorter.groups == ((0, names[0]), (2, names[1]))
    assert [(column.name, column.group) for column in shorter.columns][:2] == [("mode", 0), ("results", 1)]
    lines = shown(build, of([it for results in groups for it in results]), 60, SAME, width=80)
    first = lines.index(f"{names[0]} {'─' * (49 - len(names[0]) - 1)}")
    assert lines[first - 1].split()[0] == "mode"
    assert [line.split()[0] for line in lines[first + 1 : first + 3]] == ["cpu-tensors", "device-tensors"]
    alone = narrow(replace(table, rows=(table.rows[0], table.rows[2])))
    assert [(column.name, column.group) for column in alone.columns][:2] == [("series", 0), ("mode", 1)]


def test_a_column_without_figures_is_not_there() -> None:
    assert [it.name for it in series_table(of(nights([1]))).columns] == ["series", "mode", "results", "last"]


def test_steps_of_one_night_are_one_sentence() -> None:
    found = of(nights(stepped(30, 18, 1.12), stepped(30, 18, 1.2, seed=5), upgraded=18))
    assert [row[:3] for row in step_table(found).rows] == [
        ("m", "cpu-tensors", "2026-10-19 02:00"),
        ("m", "device-tensors", "2026-10-19 02:00"),
    ]
    assert [(row[-2], row[-1]) for row in step_table(found).rows] == [("slower", "18 + 12")] * 2
    (note,) = step_notes(found)
    assert note.tone == BAD
    start, _, changed = note.text.partition("; changed there: ")
    assert re.fullmatch(
        r"since 2026-10-19 02:00 \(reports/18/result\.json\): m cpu-tensors slower, ratio 1\.1\d, m device-tensors slower, ratio 1\.(19|20)",
        start,
    )
    assert changed == "ONNX Runtime: 1.30.0 → 1.31.1; checkout: 0000011 → 0000012"


def test_steps_of_several_results_of_a_day_are_one_sentence_where_the_same_had_changed() -> None:
    sides = [nights(stepped(30, 18, 1.12, seed=seed), upgraded=18) for seed in (1, 2, 3)]
    for threads, results in enumerate(sides, 1):
        for result in results:
            result.target["intra_op_threads"] = threads
            result.created = result.created.replace("T02:", f"T{threads + 2:02}:")
            result.environment["os"] = (
                "other" if threads == 3 and result.environment["onnxruntime"] == "1.31.1" else "x"
            )
    first, other = step_notes(of([result for results in sides for result in results]))
    assert first.text.startswith(
        "since 2026-10-19 03:00 (reports/18/result.json and 1 more): intra-op-threads=1 cpu-tensors slower"
    )
    assert "intra-op-threads=2 cpu-tensors slower" in first.text
    assert other.text.startswith(
        "since 2026-10-19 05:00 (reports/78/result.json): intra-op-threads=3 cpu-tensors slower"
    )
    assert other.text.endswith("OS: x → other; checkout: 0000011 → 0000012")


def test_what_got_faster_is_good_and_that_nothing_changed_is_said() -> None:
    results = nights(stepped(30, 18, 0.8))
    for result in results:
        result.environment["git_commit"] = None
    (note,) = step_notes(of(results))
    assert note.tone == GOOD
    assert "m cpu-tensors faster, ratio 0.797" in note.text
    assert note.text.endswith("changed there: nothing that is recorded")


def test_headlines() -> None:
    assert headline(of(nights(noise(30))), 30) == "30 results from 2026-10-01 to 2026-10-30, 1 series: no change points"
    assert headline(of(nights([1])), 1) == "1 result of 2026-10-01, 1 series"
    assert headline(of(nights(stepped(30, 18, 1.2))), 30).endswith(": 1 change point")


def test_remarks_say_what_was_left_out_and_what_is_too_short() -> None:
    few = of([*nights(noise(30)), night(3, 1, target__ep="OtherExecutionProvider")])
    assert remarks(few, []) == ["1 of 2 series has fewer results than the 12 that a change point needs"]
    assert remarks(of(nights([1] * 3)), [])[0].startswith("all series have fewer results than the 12")
    assert remarks(of(nights(noise(30))), [f"file {number}" for number in range(7)]) == [
        *(f"left out: file {number}" for number in range(5)),
        "left out: 2 more",
    ]


def test_records_have_every_result_and_every_step() -> None:
    (record,) = records(of(nights(stepped(30, 18, 1.12), upgraded=18)))
    assert {key: record[key] for key in ("series", "model", "ep", "point", "mode", "metric")} == {
        "series": "m", "model": "m.onnx", "ep": "SomeExecutionProvider", "point": {}, "mode": "cpu-tensors", "metric": "latency",
    }  # fmt: skip
    assert len(record["results"]) == 30
    assert record["results"][18]["created"] == "2026-10-19T02:00:00+00:00"
    (step,) = record["steps"]
    assert (step["result"], step["place"], step["verdict"]) == (18, "reports/18/result.json", "slower")
    assert step["ci95"][0] < step["ratio"] < step["ci95"][1]
    assert step["changed"][0] == "ONNX Runtime: 1.30.0 → 1.31.1"
    assert records(of(nights([1])))[0]["steps"] is None


def test_the_picture_says_in_words_and_numbers_what_it_shows() -> None:
    (found,) = of(nights(stepped(30, 18, 1.12)))
    picture = over_time("m cpu-tensors", found.series[0])
    assert "vertical lines the change points" in picture.label
    assert re.search(r"; slower since 2026-10-19 02:00, ratio 1\.1\d\.$", picture.caption)
    assert len(picture.table.rows) == 30
    assert picture.table.rows[18][-1] == "reports/18/result.json"


def test_the_page_has_the_steps_first_and_a_picture_for_each_series() -> None:
    found = of(nights(stepped(30, 18, 1.12), noise(30, seed=5), upgraded=18))
    page = Page(build_history(found, 30, SAME, ["x is not a result file"]))
    assert page.text("h1") == ["30 results from 2026-10-01 to 2026-10-30, 2 series: 1 change point."]
    assert page.text("li")[0].startswith("since 2026-10-19 02:00")
    assert page.text("li")[-1] == "left out: x is not a result file"
    assert page.text("h2") == ["Over time", "Change points", "m cpu-tensors", "m device-tensors", "Words"]
    assert "<figure>" not in build_history(of(nights([1])), 1, SAME)
    words = build_history(found, 30, SAME).partition("<h2>Words</h2>")[2]
    assert {"series", "scatter", "since", "95% CI", "median"} <= set(Page(words.partition("</section>")[0]).text("th"))


def test_markdown_has_all_of_it() -> None:
    found = of(nights(stepped(30, 18, 1.12), upgraded=18))
    text = markdown(build(found, 30, SAME))
    assert "## Change points" in text
    assert "| m | cpu-tensors | 2026-10-19 02:00 |" in text
    assert "ONNX Runtime: 1.30.0 → 1.31.1" in text
    assert "E-divisive means" in text
