"""Results of each kind side by side: which may be compared, what differs between them, which rows and columns there are."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from ortbench.analysis.comparable import are_alike, changes, mismatches
from ortbench.analysis.comparison import rows
from ortbench.analysis.series import Selection, point_text
from ortbench.features.load.analysis import load_cases
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import Result
from tests.results import (
    CROSSING,
    MS,
    OVERHEAD,
    STAYING,
    chain,
    closed,
    level,
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
