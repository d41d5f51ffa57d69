"""Loads side by side: which may be compared, what differs between them, and their rows level by level."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.comparable import changes, mismatches, sameness
from ortbench.analysis.compare import Selection
from ortbench.analysis.compare_levels import level_rows, untold
from ortbench.jobs.compare import compare
from ortbench.report import comparison
from ortbench.result import save
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
        ({"callers": 2}, "callers: 1 and 2"),
        ({"arrivals": "file", "file": "a.txt"}, "arrivals: poisson and file"),
    ]
    for changed, said in cases:
        assert mismatches(paced(), paced(**changed))[0] == said
    assert mismatches(serving(), load_result(*serving().levels, *paced().levels)) == []
    run = result_of(measured("cpu", total=steady([1])))
    assert mismatches(serving(), run)[-1] == "kind: a load and single inferences"
    assert mismatches(run, serving())[-1] == "kind: single inferences and a load"
    assert changes(serving(), serving(duration_s=5.0)) == ["time of a level: 2 s → 5 s"]
    assert changes(paced(), paced(slo={"p95": MS})) == ["SLO: p99 ≤ 20 ms → p95 ≤ 1 ms"]
    assert sameness(serving(), serving(seed=1)) is None
    assert sameness(serving(), serving()) is not None


def test_rows_are_of_levels_that_any_result_has() -> None:
    one = load_result(closed("cpu", 1, 100, 10.0), closed("cpu", 4, 300, 13.0), opened("cpu", 30, 5.0))
    other = load_result(closed("cpu", 4, 200, 20.0), closed("cpu", 2, 150, 12.0))
    found = level_rows([one, other])
    assert [(row.at.text, row.stat, row.values) for row in found] == [
        ("1 caller", "runs_per_s", (100, None)), ("1 caller", "p50", (10 * MS, None)), ("1 caller", "p99", (20 * MS, None)),
        ("2 callers", "runs_per_s", (None, 150)), ("2 callers", "p50", (None, 12 * MS)), ("2 callers", "p99", (None, 24 * MS)),
        ("4 callers", "runs_per_s", (300, 200)), ("4 callers", "p50", (13 * MS, 20 * MS)), ("4 callers", "p99", (26 * MS, 40 * MS)),
        ("30 a second", "p99", (10 * MS, None)), ("30 a second", "p50", (5 * MS, None)),
    ]  # fmt: skip
    spread = there(found[6].since_first[1])
    assert (spread.ratio, spread.paired) == (1.5, False)
    assert spread.low == pytest.approx(1.45, abs=1e-2)
    assert spread.high == pytest.approx(1.55, abs=1e-2)
    assert found[0].since_first == (None, None)
    assert level_rows([one, other], ["device"]) == []
    noise = (1.3, 0.8, 1.1, 0.7)
    one, other = (
        load_result(
            closed("cpu", 1, 100 / x, 10 * x, blocks=level_blocks(100 / x, latency(10 * x), 8, noise)), run_id="r"
        )
        for x in (1.0, 1.1)
    )
    found = level_rows([one, other])
    for row in found:
        spread = there(row.since_first[1])
        assert spread.paired
        assert spread.low == pytest.approx(1.1, rel=1e-6)
        assert spread.high == pytest.approx(1.1, rel=1e-6)


def test_the_table_of_two_loads_and_of_three() -> None:
    results = [serving(), serving(1.0), serving(2.0)]
    two = comparison.side_table([results[0], results[2]], ["a", "b"], 0.05, in_order=True)
    assert two.headings == ["mode", "level", "figure", "a", "b", "ratio", "95 %", "verdict"]
    assert two.rows[:3] == (
        ("cpu", "1 caller", "runs/s", "100", "50.0", "×2.000", "1.933–2.069", "slower"),
        ("cpu", "1 caller", "p50", "10.0 ms", "20.0 ms", "×2.000", "1.931–2.072", "slower"),
        ("cpu", "1 caller", "p99", "20.0 ms", "40.0 ms", "×2.000", "1.931–2.072", "slower"),
    )
    three = comparison.side_table(results, ["a", "b", "c"], 0.05, in_order=True)
    assert [row[:6] for row in three.rows[:3]] == [
        ("cpu", "1 caller", "runs/s", "a", "100", "–"),
        ("", "", "", "b", "100", "×1.000"),
        ("", "", "", "c", "50.0", "×2.000"),
    ]
    assert [row[-2:] for row in three.rows[:3]] == [("–", "–"), ("×1.000", "same"), ("×2.000", "slower")]
    assert {row[2] for row in three.rows} == {"runs/s", ""}
    rows = comparison.side_table([paced(), paced(1.2)], ["a", "b"], 0.05, in_order=True).rows
    assert [row[1:6] for row in rows if row[2] == "p99"] == [
        ("10 a second", "p99", "12.0 ms", "14.4 ms", "×1.200"),
        ("30 a second", "p99", "14.0 ms", "16.8 ms", "×1.200"),
        ("90 a second", "p99", "1.90 s", "1.90 s", "–"),
    ]


def test_what_has_no_interval_says_what_it_takes() -> None:
    bare = serving()
    for level in bare.levels:
        del level["blocks"]
    why = "a latency has an interval where its level has at least 3 blocks in both results: give a longer --duration"
    assert untold(level_rows([serving(), bare])) == why
    assert untold(level_rows([serving(), serving()])) is None
    shown = comparison.build([serving(), bare], ["a", "b"], 0.02, in_order=True)
    assert why in str(shown.parts)


def test_records_of_loads_are_by_level() -> None:
    found = comparison.records([paced(), paced(1.2)], ["a", "b"], 0.05)
    assert found[1] == {
        "mode": "device", "concurrency": None, "rate": 10, "figure": "p99", "result": "b", "value": 14_400_000,
        "vs_first": {
            "ratio": pytest.approx(1.2), "low": pytest.approx(1.158, abs=1e-3), "high": pytest.approx(1.243, abs=1e-3),
            "paired": False, "verdict": "slower",
        },
        "vs_previous": found[1]["vs_first"],
    }  # fmt: skip
    of_phase = comparison.records([serving(), serving()], ["a", "b"], 0.05, Selection((), ("total",)))
    assert {it["phase"] for it in of_phase} == {"total"}


def test_compare_reads_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = [tmp_path / "a.json", tmp_path / "b.json"]
    for place, factor in zip(places, (1.0, 1.2), strict=True):
        save(serving(factor), place)
    compare(places, (), (), 0.02, False, None, str(tmp_path / "c.json"))
    text = capsys.readouterr().out
    assert "load in one session: 1, 2, 4, 8 callers; 2 s a level" in text
    assert "from each level's own noise and that between runs; same: within ±2 % for certain." in " ".join(text.split())
    assert len(json.loads((tmp_path / "c.json").read_text())) == 2 * 3 * 8
