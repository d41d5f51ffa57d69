"""Loads side by side: which may be compared, what differs between them, and their rows level by level."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.comparing.comparable import changes, mismatches, sameness
from ortbench.analysis.comparing.rows import rows
from ortbench.analysis.comparing.series import Selection, point_text
from ortbench.facts.comparison import lacking_facts
from ortbench.facts.sentences import sentence
from ortbench.features.load.analysis.points import load_cases
from ortbench.jobs.compare import compare
from ortbench.model.metric_names import parse_metric
from ortbench.model.result_file import save
from ortbench.plan.compare_options import Compared
from ortbench.plan.plan import OutputOptions
from ortbench.report import comparison
from tests.expect import there
from tests.results import (
    MS,
    closed,
    latency,
    level_blocks,
    load_result,
    measured,
    opened,
    paced,
    result_of,
    serving,
    steady,
)


def test_which_loads_are_comparable_and_what_differs() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"sessions": "own"}, "sessions: shared and own"),
        ({"arrivals": "uniform"}, "arrivals: poisson and uniform"),
        ({"workers": 2}, "workers: 1 and 2"),
        ({"arrivals": "file", "file": "a.txt"}, "arrivals: poisson and file"),
    ]
    for changed, mismatch in cases:
        assert mismatches(paced(), paced(**changed))[0] == mismatch
    assert mismatches(serving(), load_result(*load_cases(serving()), *load_cases(paced()))) == []
    run = result_of(measured("cpu-tensors", latency=steady([1])))
    assert mismatches(serving(), run)[-1] == "kind: a load and single inferences"
    assert mismatches(run, serving())[-1] == "kind: single inferences and a load"
    assert changes(serving(), serving(duration_s=5.0)) == ["time per load point: 2 s → 5 s"]
    assert changes(paced(), paced(slo={"p95": MS})) == ["SLO: p99 ≤ 20 ms → p95 ≤ 1 ms"]
    assert sameness(serving(), serving(seed=1)) is None
    assert sameness(serving(), serving()) is not None


def test_rows_are_of_levels_that_any_result_has() -> None:
    one = load_result(
        closed("cpu-tensors", 1, 100, 10.0), closed("cpu-tensors", 4, 300, 13.0), opened("cpu-tensors", 30, 5.0)
    )
    other = load_result(closed("cpu-tensors", 4, 200, 20.0), closed("cpu-tensors", 2, 150, 12.0))
    found = rows([one, other])
    assert [(point_text(row.key.point), row.key.figure.text, row.values) for row in found] == [
        ("concurrency=1", "throughput", (100, None)), ("concurrency=1", "latency.median", (10 * MS, None)), ("concurrency=1", "latency.p99", (20 * MS, None)),
        ("concurrency=2", "throughput", (None, 150)), ("concurrency=2", "latency.median", (None, 12 * MS)), ("concurrency=2", "latency.p99", (None, 24 * MS)),
        ("concurrency=4", "throughput", (300, 200)), ("concurrency=4", "latency.median", (13 * MS, 20 * MS)), ("concurrency=4", "latency.p99", (26 * MS, 40 * MS)),
        ("rate=30", "latency.p99", (10 * MS, None)), ("rate=30", "latency.median", (5 * MS, None)),
    ]  # fmt: skip
    spread = there(found[6].since_first[1])
    assert (spread.ratio, spread.paired) == (1.5, False)
    assert spread.low == pytest.approx(1.42, abs=1e-2)
    assert spread.high == pytest.approx(1.58, abs=1e-2)
    assert found[0].since_first == (None, None)
    assert rows([one, other], Selection(("device-tensors",))) == []
    noise = (1.3, 0.8, 1.1, 0.7)
    one, other = (
        load_result(
            closed("cpu-tensors", 1, 100 / x, 10 * x, blocks=level_blocks(100 / x, latency(10 * x), 8, noise)),
            run_id="r",
        )
        for x in (1.0, 1.1)
    )
    found = rows([one, other])
    for row in found:
        spread = there(row.since_first[1])
        assert spread.paired
        assert spread.low == pytest.approx(1.1, rel=1e-6)
        assert spread.high == pytest.approx(1.1, rel=1e-6)


def test_the_table_of_two_loads_and_of_three() -> None:
    results = [serving(), serving(1.0), serving(2.0)]
    (two,) = comparison.tables([results[0], results[2]], ["a", "b"], 0.05, in_order=True)
    assert two.headings == ["mode", "point", "metric", "a", "b", "ratio", "95% CI", "verdict", "a p95", "b p95"]
    assert tuple(row[:8] for row in two.rows[:3]) == (
        (
            "cpu-tensors",
            "concurrency=1",
            "throughput",
            "100 inferences/s",
            "50.0 inferences/s",
            "2.00",
            "1.90–2.11",
            "slower",
        ),
        ("cpu-tensors", "concurrency=1", "latency", "10.0 ms", "20.0 ms", "2.00", "1.90–2.11", "slower"),
        ("cpu-tensors", "concurrency=1", "latency p99", "20.0 ms", "40.0 ms", "2.00", "1.90–2.11", "slower"),
    )
    (three,) = comparison.tables(results, ["a", "b", "c"], 0.05, in_order=True)
    assert [row[:5] + row[-5:-4] for row in three.rows[:3]] == [
        ("cpu-tensors", "concurrency=1", "throughput", "a", "100 inferences/s", "–"),
        ("", "", "", "b", "100 inferences/s", "1.000"),
        ("", "", "", "c", "50.0 inferences/s", "2.00"),
    ]
    assert [row[-2:] for row in three.rows[:3]] == [("–", "–"), ("1.000", "cannot tell"), ("2.00", "slower")]
    (of_rates,) = comparison.tables([paced(), paced(1.2)], ["a", "b"], 0.05, in_order=True)
    assert [row[1:6] for row in of_rates.rows if row[2] == "latency p99"] == [
        ("rate=10", "latency p99", "12.0", "14.4", "1.20"),
        ("rate=30", "latency p99", "14.0", "16.8", "1.20"),
        ("rate=90", "latency p99", "1900", "1900", "–"),
    ]


def test_what_has_no_interval_says_what_it_takes() -> None:
    bare = serving()
    for case in load_cases(bare):
        case.load_blocks = []
    why = "Too few blocks of a load point to compare: an interval takes 3 in both results"
    (fact,) = lacking_facts([serving(), bare], "ab", rows([serving(), bare]))
    assert sentence(fact) == f"{why}."
    assert [*lacking_facts([serving(), serving()], "ab", rows([serving(), serving()]))] == []
    shown = comparison.build([serving(), bare], ["a", "b"], 0.02, in_order=True)
    assert why in str(shown.parts)


def test_records_of_loads_are_by_level() -> None:
    found = comparison.records([paced(), paced(1.2)], ["a", "b"], 0.05)
    assert found[1] == {
        "mode": "device-tensors", "rate": 10, "metric": "latency", "statistic": "p99", "result": "b", "value": 14_400_000,
        "vs_first": {
            "base": 12_000_000, "value": 14_400_000, "ratio": pytest.approx(1.2), "low": pytest.approx(1.138, abs=1e-3), "high": pytest.approx(1.265, abs=1e-3),
            "paired": False, "exact": False, "verdict": "slower",
        },
        "vs_previous": found[1]["vs_first"],
    }  # fmt: skip
    p95 = Selection((), (parse_metric("latency.p95@concurrency=4"),))
    of_p95 = comparison.records([serving(), serving()], ["a", "b"], 0.05, p95)
    assert {(it["concurrency"], it["metric"], it["statistic"]) for it in of_p95} == {(4, "latency", "p95")}
    # At a rate throughput is what was asked for, unless that very rate is named.
    both = load_result(*load_cases(serving()), *load_cases(paced()))
    for metric, count in [("throughput", 8), ("throughput@rate=30", 1)]:
        assert len(rows([both, both], Selection((), (parse_metric(metric),)))) == count


def test_compare_reads_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [tmp_path / "a.json", tmp_path / "b.json"]
    for place, factor in zip(places, (1.0, 1.2), strict=True):
        save(serving(factor), place)
    compare(places, Compared((), (), 0.02), {}, OutputOptions(json=str(tmp_path / "c.json"), verbose=True))
    text = capsys.readouterr().out
    assert "load in one session: 1, 2, 4, 8 clients; 2 s per load point" in text
    assert "same: the 95% CI lies within ±2 %; slower or more: above that;" in " ".join(text.split())
    assert len(json.loads((tmp_path / "c.json").read_text())["records"]) == 2 * 3 * 8
