"""Results of each kind side by side: which may be compared, what differs between them, which rows and columns there are."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.comparable import are_alike, changes, mismatches
from ortbench.analysis.comparison import rows
from ortbench.analysis.series import Selection, point_text
from ortbench.facts.comparison import lacking_facts
from ortbench.facts.sentences import sentence
from ortbench.features.load.analysis import load_cases
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import Result
from ortbench.model.result_file import save
from ortbench.report import comparison
from tests.conftest import ortbench
from tests.expect import there
from tests.results import (
    CROSSING,
    MS,
    OVERHEAD,
    STAYING,
    chain,
    closed,
    latency,
    level,
    level_blocks,
    link,
    load_result,
    loop_of,
    loop_result,
    measured,
    opened,
    paced,
    result_of,
    serving,
    stage,
    steady,
)

CPU = "cpu-tensors"
A, B = (f"m.onnx ({it * 12})" for it in "ab")


def single() -> Result:
    return result_of(measured(CPU, latency=steady([1_000_000] * 24)))


def looped(**changed: Any) -> Result:
    return loop_result(level(CPU), loop=loop_of(**changed))


def changed(**stage_of_text: Any) -> Result:
    """The chain with another first stage, and so with another digest."""
    made = deepcopy(chain(STAYING))
    made.part["stages"][0].update(stage_of_text)
    made.model["sha256"] = "c" * 64
    return made


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (chain(STAYING), chain(STAYING, stages=(stage("text"), stage("image", 5))), ["stages: text, image ×4 and text, image ×5"]),
        (chain(STAYING), chain(STAYING, stages=(stage("text"),)), ["stages: text, image ×4 and text"]),
        (chain(STAYING), changed(sha256="d" * 64, model="new.onnx"), [f"model of text: text.onnx ({'b' * 12}) and new.onnx ({'d' * 12})"]),
        (chain(STAYING), changed(feedback=[["a", "b"]]), ["stages: text, image ×4 and text ×1, image ×4"]),
        (chain(STAYING), chain(STAYING, CROSSING), ["links that the other has not: none and text.mask → image.mask"]),
        (chain(STAYING), chain(link("text.a", "image.b", 1)), ["links that the other has not: text.condition → image.condition and text.a → image.b"]),
        (chain(STAYING), changed(ep="CPUExecutionProvider"), ["EP of text: SomeExecutionProvider and CPUExecutionProvider"]),
        (chain(STAYING), changed(keep=["y"]), []),
        (chain(STAYING), single(), ["kind: a chain of 2 stages and single inferences"]),
        (looped(), loop_result(level(CPU), model__sha256="b" * 64), [f"model: {A} and {B}"]),
        (looped(), result_of(model__sha256="b" * 64), [f"model: {A} and {B}", "kind: a loop of 4 steps and single inferences"]),
        (looped(), looped(fill={"mask": "1"}), []),
        (paced(), paced(sessions="own"), ["sessions: shared and own"]),
        (paced(), paced(arrivals="uniform"), ["arrivals: poisson and uniform"]),
        (paced(), paced(workers=2), ["workers: 1 and 2"]),
        (paced(), paced(arrivals="file", file="a.txt"), ["arrivals: poisson and file"]),
        (serving(), load_result(*load_cases(serving()), *load_cases(paced())), []),
        (serving(), single(), ["kind: a load and single inferences"]),
        (single(), serving(), ["kind: single inferences and a load"]),
    ],
)  # fmt: skip
def test_what_makes_them_incomparable(one: Result, other: Result, said: list[str]) -> None:
    found = mismatches(one, other)
    assert [it for it in found if it in said] == said
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (looped(), looped(fill={"mask": "1"}), ["values: none → mask 1"]),
        (looped(), looped(keep=["logits"]), ["kept on the device: none → logits"]),
        (looped(), looped(resident=["noise", "text"]), ["copied once: none → noise, text"]),
        (looped(), looped(), []),
        (serving(), serving(duration_s=5.0), ["time per load point: 2 s → 5 s"]),
        (paced(), paced(slo={"p95": MS}), ["SLO: p99 ≤ 20 ms → p95 ≤ 1 ms"]),
        (serving(), serving(), []),
        (chain(STAYING), changed(settings={"intra_op_threads": 2, "opt_level": "basic"}, keep=["y"], ep_version="1.1"),
         ["text: EP version: 1.0 → 1.1", "text: intra-op threads: default → 2", "text: optimisation: all → basic", "text: kept on the device: none → y"]),
        (chain(STAYING), chain({**STAYING, "d2h_ns": 1}, resident_ms=(3, 3)), []),  # times are no difference
    ],
)  # fmt: skip
def test_what_else_differs(one: Result, other: Result, said: list[str]) -> None:
    assert changes(one, other) == said
    assert are_alike(one, other) != bool(said)
    assert not are_alike(serving(), serving(seed=1))


def shown(*results: Result, modes: tuple[str, ...] = (), metrics: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    found = rows(results, Selection(modes, tuple(map(parse_metric, metrics))))
    return [(row.key.mode, point_text(row.key.point), row.key.figure.text, row.values) for row in found]


LOOPS = [loop_result(level("shared"), level(CPU)), loop_result(level(CPU, 1.5), level("shared", 0.5))]
CHAINS = [chain(STAYING, rounds=24), chain(STAYING, resident_ms=(1, 10), rounds=24)]
LOADS = [
    load_result(closed(CPU, 1, 100, 10.0), closed(CPU, 4, 300, 13.0), opened(CPU, 30, 5.0)),
    load_result(closed(CPU, 4, 200, 20.0), closed(CPU, 2, 150, 12.0)),
]


def test_rows_are_what_a_kind_compares() -> None:
    assert shown(*LOOPS)[:2] == [
        (CPU, "", "loop.median", (4_001_000 + OVERHEAD, 6_001_500 + OVERHEAD)), (CPU, "", "step.median", (1_000_250, 1_500_375))
    ]  # fmt: skip
    assert [it[:3] for it in shown(*LOOPS)[2:]] == [("shared", "", "loop.median"), ("shared", "", "step.median")]
    assert [it[2] for it in shown(*LOOPS, modes=(CPU,), metrics=("latency", "step"))] == [
        "latency.median",
        "step.median",
    ]
    assert {it[2] for it in shown(LOOPS[0], single())} == {"latency.median"}  # of several kinds, single inferences
    assert shown(*CHAINS, modes=("device-resident",)) == [
        ("device-resident", "", "chain.median", (6 * MS, 11 * MS)),
        ("device-resident", "", "stage.text.median", (1 * MS, 1 * MS)),
        ("device-resident", "", "stage.image.median", (5 * MS, 10 * MS)),
    ]
    assert [it[1:] for it in shown(*LOADS)] == [
        ("concurrency=1", "throughput", (100, None)), ("concurrency=1", "latency.median", (10 * MS, None)), ("concurrency=1", "latency.p99", (20 * MS, None)),
        ("concurrency=2", "throughput", (None, 150)), ("concurrency=2", "latency.median", (None, 12 * MS)), ("concurrency=2", "latency.p99", (None, 24 * MS)),
        ("concurrency=4", "throughput", (300, 200)), ("concurrency=4", "latency.median", (13 * MS, 20 * MS)), ("concurrency=4", "latency.p99", (26 * MS, 40 * MS)),
        ("rate=30", "latency.p99", (10 * MS, None)), ("rate=30", "latency.median", (5 * MS, None)),
    ]  # fmt: skip
    assert shown(*LOADS, modes=("device-tensors",)) == []
    # At a rate throughput is what was asked for, unless that very rate is named.
    both = load_result(*load_cases(serving()), *load_cases(paced()))
    for metric, count in [("throughput", 8), ("throughput@rate=30", 1)]:
        assert len(shown(both, both, metrics=(metric,))) == count


def test_blocks_of_one_run_are_paired_at_each_point_and_of_each_stage() -> None:
    noise = (1.3, 0.8, 1.1, 0.7)
    blocks = (level_blocks(100 / it, latency(10 * it), 8, noise) for it in (1.0, 1.1))
    loads = [load_result(closed(CPU, 1, 100 / it, 10 * it, blocks=next(blocks)), run_id="r") for it in (1.0, 1.1)]
    chains = [chain(STAYING, resident_ms=(it, 5), rounds=24, run_id="r") for it in (1, 2)]
    for results, metric, ratio in (
        (loads, "latency", 1.1),
        (loads, "throughput", 1.1),
        (chains, "device-resident.stage.text", 2.0),
    ):
        (row,) = rows(results, Selection(metrics=(parse_metric(metric),)))
        found = there(row.since_first[1])
        assert (found.ratio, found.low, found.high, found.paired) == (*[pytest.approx(ratio, rel=1e-6)] * 3, True)


def test_tables_of_two_results_and_of_three() -> None:
    loops = [loop_result(level(CPU, factor)) for factor in (1.0, 1.0, 2.0)]
    (three,) = comparison.tables(loops, ["a", "b", "c"], 0.05, in_order=True)
    assert [row[:4] + row[-5:-4] for row in three.rows[:3]] == [
        (CPU, "loop", "a", "4.00", "–"), ("", "", "b", "4.00", "1.000"), ("", "", "c", "8.00", "2.00"),
    ]  # fmt: skip
    assert [row[-2:] for row in three.rows[:3]] == [("–", "–"), ("1.000", "same"), ("2.00", "slower")]
    (two,) = comparison.tables([serving(), serving(2.0)], ["a", "b"], 0.05, in_order=True)
    assert two.headings == ["mode", "point", "metric", "a", "b", "ratio", "95% CI", "verdict", "a p95", "b p95"]
    assert [row[1:8] for row in two.rows[:3]] == [
        ("concurrency=1", "throughput", "100 inferences/s", "50.0 inferences/s", "2.00", "1.90–2.11", "slower"),
        ("concurrency=1", "latency", "10.0 ms", "20.0 ms", "2.00", "1.90–2.11", "slower"),
        ("concurrency=1", "latency p99", "20.0 ms", "40.0 ms", "2.00", "1.90–2.11", "slower"),
    ]
    (of_rates,) = comparison.tables([paced(), paced(1.2)], ["a", "b"], 0.05, in_order=True)
    assert [row[1:6] for row in of_rates.rows if row[2] == "latency p99"] == [
        ("rate=10", "latency p99", "12.0", "14.4", "1.20"),
        ("rate=30", "latency p99", "14.0", "16.8", "1.20"),
        ("rate=90", "latency p99", "1900", "1900", "–"),  # where a queue grew
    ]
    other = chain(STAYING, stages=(stage("prompt"), stage("image", 4)))
    (stages,) = comparison.tables([chain(STAYING), other], ["a", "b"], 0.02, in_order=True, only=Selection((CPU,)))
    assert [row[1:5] for row in stages.rows] == [
        ("chain", "10.0", "10.0", "1.000"), ("stage text", "2.00", "–", "–"), ("stage image", "8.00", "8.00", "1.000"), ("stage prompt", "–", "2.00", "–"),
    ]  # fmt: skip
    sides = comparison.side_by_side(loops[1:], ["a", "b"])
    assert sides.shared[1] == "loop of 4 steps: hidden_out → hidden"
    assert (len(sides.shared), sides.headings) == (3, [[], []])


def test_what_has_no_interval_says_what_it_takes() -> None:
    bare = serving()
    for case in load_cases(bare):
        case.load_blocks = []
    why = "Too few blocks of a load point to compare: an interval takes 3 in both results"
    (fact,) = lacking_facts([serving(), bare], "ab", rows([serving(), bare]))
    assert sentence(fact) == f"{why}."
    assert [*lacking_facts([serving(), serving()], "ab", rows([serving(), serving()]))] == []
    assert why in str(comparison.build([serving(), bare], ["a", "b"], 0.02, in_order=True).parts)


def test_records_are_by_point() -> None:
    found = comparison.records([paced(), paced(1.2)], ["a", "b"], 0.05)
    assert found[1] == {
        "mode": "device-tensors", "rate": 10, "metric": "latency", "statistic": "p99", "result": "b", "value": 14_400_000,
        "vs_first": {
            "base": 12_000_000, "value": 14_400_000, "ratio": pytest.approx(1.2), "low": pytest.approx(1.138, abs=1e-3), "high": pytest.approx(1.265, abs=1e-3),
            "paired": False, "exact": False, "verdict": "slower",
        },
        "vs_previous": found[1]["vs_first"],
    }  # fmt: skip


@pytest.mark.process
def test_the_command_and_three_of_them(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.json" for name in "abc"]
    for path, ms in zip(paths, (5, 5, 10), strict=True):
        save(chain(STAYING, resident_ms=(1, ms), rounds=24), path)
    ran = ortbench("compare", *paths, "--mode", "device-resident")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.count("chain of 2 stages and 1 link: text, image ×4") == 1
    only = ortbench("compare", *paths, "--metric", "stage.image", "--mode", CPU, "--json", "-")
    assert [(it["metric"], it["value"]) for it in json.loads(only.out)["records"]] == [("stage.image", 8 * MS)] * 3
    assert "did you mean stage" in ortbench("compare", *paths, "--metric", "stge").error_line
    save(chain(STAYING, CROSSING), tmp_path / "d.json")
    assert ortbench("compare", paths[0], tmp_path / "d.json").code == 5
    for name, factor in (("e", 1.0), ("f", 1.2)):
        save(serving(factor), tmp_path / f"{name}.json")
    ran = ortbench("compare", tmp_path / "e.json", tmp_path / "f.json", "--verbose")
    assert "load: one session, 2 s each" in ran.out
