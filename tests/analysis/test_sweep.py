"""What a sweep comes to: the best shape, ties, limits, and what switching costs. Scripted."""

from __future__ import annotations

import pytest

from ortbench.analysis.advice import headline, sentences
from ortbench.analysis.comparable import mismatches
from ortbench.analysis.compare_sweeps import common, only_in, sweep_rows
from ortbench.analysis.points import alone, several
from ortbench.analysis.sweep import best_of, failures, has_a_cost, summarise_switching
from ortbench.result import OK, Case, Result
from ortbench.slo import Slo
from tests.expect import there
from tests.results import MS, US, USUAL, nvidia_result, sweep_result, turns, without


def best(result: Result, mode: str) -> tuple[str, list[str]] | None:
    """The best shape of a mode and those that are as good, by their names."""
    assert result.best is not None
    assert result.points is not None
    found = result.best["modes"][mode]
    if found is None:
        return None
    return result.points[found["point"]].name, [result.points[number].name for number in found["ties"]]


def test_the_best_shape_gets_most_items_done() -> None:
    result = sweep_result()
    assert result.best is not None
    assert result.best["mode"] == "device-resident"
    assert (best(result, "cpu"), best(result, "device-resident")) == (("batch=4", []), ("batch=2", []))
    found = result.best["modes"]["cpu"]
    assert found == {"point": 2, "by": "items_per_s", "items_per_s": 2500.0, "ci95": [2500.0, 2500.0], "ties": []}
    result = sweep_result({"cpu": {1: 1000, 2: 2000, 4: 4000, 8: 9000}})
    assert best(result, "cpu") == ("batch=1", ["batch=2", "batch=4"])
    assert (
        "best: batch=1, 1000 items/s with cpu (95 %: 1000 to 1000); no difference can be seen to batch=2, batch=4"
        in (sentences(result))
    )


def test_a_limit_leaves_out_what_does_not_keep_it() -> None:
    result = sweep_result(slo=Slo("p99", 1_300 * US))
    assert (best(result, "cpu"), best(result, "device-resident")) == (("batch=2", []), ("batch=2", []))
    result = sweep_result(slo=Slo("total", 700 * US))
    assert (best(result, "cpu"), best(result, "device-resident")) == (None, ("batch=2", []))
    assert "no shape keeps total ≤ 700 µs with cpu" in sentences(result)
    most = "batch=2 gets most done with total ≤ 700 µs: 3333 items a second with device-resident"
    assert headline(result) == most
    result = sweep_result(slo=Slo("p99", 10 * MS), rounds=10)
    assert best(result, "cpu") is None
    reason = "whether a shape keeps p99 ≤ 10.0 ms with cpu cannot be told: it takes 100 runs; --duration gives more"
    assert reason in sentences(result)


def test_without_items_nothing_is_best_and_the_largest_keeps_a_limit() -> None:
    plain, limited = sweep_result(), sweep_result(slo=Slo("p99", 1_300 * US))
    for result in (plain, limited):
        for point in result.points or []:
            point.items = None
    assert best_of(plain.points or [], None) is None
    found = there(best_of(limited.points or [], Slo("p99", 1_300 * US)))
    assert found["mode"] is None
    assert [(mode, it and (it["point"], it["by"])) for mode, it in found["modes"].items()] == [
        ("cpu", (1, "bytes_in")),
        ("device-resident", (1, "bytes_in")),
    ]


def test_what_switching_costs_is_by_turn_and_by_shape() -> None:
    found = summarise_switching(turns("cpu", {0: 1000, 1: 3000}, {0: 2000, 1: 3400}))
    assert (found["rounds"], found["calls"], found["ratio"], found["ci95"]) == (6, 2, 1.35, [1.35, 1.35])
    assert (found["cost_ns"], found["cost_ci95_ns"]) == (700 * US, [700 * US, 700 * US])
    assert [(it["alone_ns"], it["turns_ns"], it["ratio"]) for it in found["points"]] == [
        (1000 * US, 2000 * US, 2.0),
        (3000 * US, 3400 * US, 1.1333),
    ]
    assert has_a_cost(found) is True
    assert has_a_cost(summarise_switching(turns("cpu", {0: 1000, 1: 3000}, {0: 1000, 1: 3000}))) is False
    few = summarise_switching(turns("cpu", {0: 1000, 1: 3000}, {0: 2000, 1: 3000}, rounds=5))
    assert (few["ci95"], few["cost_ci95_ns"], has_a_cost(few)) == (None, None, None)


def test_what_is_said_of_a_sweep() -> None:
    assert headline(sweep_result()) == "batch=2 gets most done: 3333 items a second with device-resident"
    assert sentences(sweep_result()) == [
        "best: batch=2, 3333 items/s with device-resident (95 %: 3333 to 3333)",
        "best with cpu: batch=4, 2500 items/s (95 %: 2500 to 2500)",
        "switching shapes: with cpu a call takes 2.00 times as long (95 %: 2.00–2.00) where each has another shape, 1.27 ms "
        "more; most with batch=1: 2.00 times",
        "switching shapes costs nothing that can be seen with device-resident (1.00–1.00 times as long)",
        "the first run of a shape takes up to 12.5 times as long as later ones (batch=4: 20.0 ms): run each once before it "
        "counts",
    ]
    nothing = sweep_result(failed={1: "no", 2: "no"}, switching=[])
    assert headline(nothing) == "1 shape in one session"


def test_a_shape_that_fails_is_said_and_the_others_go_on() -> None:
    result = sweep_result(failed={2: "out of memory"})
    assert failures(result.points or []) == ["batch=2: failed: out of memory"]
    assert [(it.name, it.shape, [case.status for case in it.cases]) for it in result.points or []] == [
        ("batch=1", {"batch": 1}, [OK, OK]),
        ("batch=2", {"batch": 2}, ["failed", "failed"]),
        ("batch=4", {"batch": 4}, [OK, OK]),
    ]
    assert best(result, "device-resident") == ("batch=4", [])
    result = sweep_result()
    for number in (0, 2):
        (result.points or [])[number].cases[1] = Case("device-resident", "failed", "no memory")
    (result.points or [])[1].cases[0] = Case("cpu", "failed", "wrong outputs")
    assert failures(result.points or []) == [
        "batch=1, batch=4: device-resident failed: no memory",
        "batch=2: cpu failed: wrong outputs",
    ]


def test_a_shape_by_itself_is_what_a_run_of_it_would_give() -> None:
    result = sweep_result()
    found = several(result)
    assert [it.model["inputs"][0]["shape"] for it in found] == [[1, 1000], [2, 1000], [4, 1000]]
    assert [(it.kind, it.points, it.items and it.items["count"]) for it in found] == [
        (None, None, n) for n in (1, 2, 4)
    ]
    assert result.model["inputs"][0]["shape"] is None
    assert result.sweep == {"dims": ["batch"], "data": False, "slo": None}
    plain = nvidia_result()
    assert several(plain) == [plain]


# Side by side


def test_sweeps_are_compared_shape_by_shape() -> None:
    one = sweep_result()
    other = without(sweep_result({**USUAL, "cpu": {1: 1000, 2: 1800, 4: 1600}}), 4)
    other.setup = {**other.setup, "run_id": "1" * 32}
    assert mismatches(one, other) == []
    assert [name for name, _ in common([one, other])] == ["batch=1", "batch=2"]
    assert only_in([one, other], ["a", "b"]) == ["only in a: batch=4"]
    rows = sweep_rows([one, other])
    assert [(row.mode, row.phase, row.medians_ns) for row in rows] == [
        ("cpu", "batch=1", (1000 * US, 1000 * US)),
        ("cpu", "batch=2", (1200 * US, 1800 * US)),
        ("device-resident", "batch=1", (500 * US, 500 * US)),
        ("device-resident", "batch=2", (600 * US, 600 * US)),
    ]
    spread = there(rows[1].since_first[1])
    assert spread.low is not None
    assert [spread.ratio, spread.low] == pytest.approx([1.5, 1.5 / 1.02])
    one, other = sweep_result(), alone(sweep_result(), (sweep_result().points or [])[0])
    other.setup = {**other.setup, "run_id": "1" * 32}
    assert mismatches(one, other) == ["kind: a sweep of 3 shapes and single inferences"]
