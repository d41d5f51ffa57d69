"""CPU time of load points: by process, block or part of a stretch, so that it has an interval, is compared and gated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ortbench.analysis.comparison import LESS, MORE, SAME, rows, word
from ortbench.analysis.series import Selection
from ortbench.facts.checks import FAILED, PASSED, UNCLEAR
from ortbench.facts.fact import Fact
from ortbench.facts.findings import facts_of
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.load.analysis import LoadPoint
from ortbench.features.load.analysis.blocks import Block, CpuPart, OpenLoopBlock, cpu_marks, cpu_of, cpu_parts
from ortbench.features.load.analysis.samples import LoadSamples, case_of
from ortbench.features.load.gates import LiveLoadGate
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import Case, Result
from tests.expect import there
from tests.gate.test_metrics import limits
from tests.queues import MS, served, steady
from tests.results import load_result, values

RATE = 6.0
AT = LoadPoint("rate", RATE)
SPINS = [24 * MS, 25 * MS, 23 * MS, 26 * MS, 24 * MS, 22 * MS, 25 * MS, 24 * MS]  # of an inference, by part
SLEEPS = [ns // 40 for ns in SPINS]


def stretch(each: list[int], number: int = 0) -> OpenLoopBlock:
    """Five requests a part, 6 a second, of which each takes 0.4 ms."""
    made = served([round(at / RATE * 1e9) for at in range(5 * len(each))], steady(MS * 2 // 5))
    parts = [CpuPart(5 * ns, round(5e9 / RATE), 5) for ns in each]
    return replace(
        made,
        cpu_ns=sum(it.cpu_ns for it in parts),
        wall_ns=sum(it.wall_ns for it in parts),
        cpu_parts=parts,
        round=number,
    )


def point(each: list[int], processes: int = 1) -> Case:
    """A load point in one stretch, or with a part in each of several processes."""
    blocks: list[Block] = [stretch(each)]
    if processes > 1:
        blocks = [stretch([ns], at) for at, ns in enumerate(each[:processes])]
    return case_of(LoadSamples("cpu-tensors", AT, blocks, processes=range(processes if processes > 1 else 0)))


def result(each: list[int], processes: int = 1, run_id: str | None = None) -> Result:
    return load_result(point(each, processes), run_id=run_id)


def test_cpu_time_has_an_interval_in_one_stretch_and_by_processes() -> None:
    for case, count in ((point(SPINS), 8), (point(SPINS, processes=5), 5), (point(SPINS, processes=2), 2)):
        taken = SPINS[:count]
        mean = sum(taken) / count
        found, cores = there(case.stats("cpu_time")), case.metrics["cpu_cores"]
        assert (found.n, found.mean, found.max) == (count, mean, max(taken))
        assert case.value("cpu_cores") == pytest.approx(mean * RATE / 1e9)
        low, high = getattr(cores, "ci95", None) or (0, 0)
        assert (0.9 * mean < low * 1e9 / RATE < mean < high * 1e9 / RATE < 1.1 * mean) == (count >= 3)


def test_parts_go_from_reading_to_reading_of_all_processes() -> None:
    marks = cpu_marks(33)
    assert (marks[0], marks[-1], len(marks)) == (0, 33, 9)
    assert cpu_marks(2) == []
    assert cpu_parts([], np.arange(2), [[], []]) == []
    readings = [[(0, 10), (100, 30), (200, 90)], [(5, 7), (90, 8), (210, 8)]]
    assert cpu_parts([0, 3, 6], np.array([0, 1, 2, 3]), readings) == [CpuPart(21, 90, 3), CpuPart(60, 110, 1)]


def test_requests_that_do_not_count_are_among_those_that_took_it() -> None:
    whole = stretch(SPINS)
    assert cpu_of(whole.without_first(3)) == cpu_of(whole)


def test_loads_of_one_run_and_of_two_are_compared() -> None:
    for run_id, processes, verdicts in (("run", 5, (LESS, MORE, SAME)), (None, 1, (LESS, MORE, "cannot tell"))):
        old, new = (result(each, processes, run_id) for each in (SPINS, SLEEPS))
        for pair, verdict in zip(([old, new], [new, old], [old, old]), verdicts, strict=True):
            for only in (Selection(), Selection(metrics=(parse_metric("cpu_cores"),))):
                (row,) = (it for it in rows(pair, only) if it.is_cost)
                assert word(there(row.since_first[1]), 0.02, row.is_cost) == verdict, (run_id, only)


def test_a_stored_gate() -> None:
    for metric in ("cpu_time", "cpu_cores"):
        for one, base, verdict in ((SPINS, SLEEPS, FAILED), (SLEEPS, SPINS, PASSED), (SPINS, SPINS, UNCLEAR)):
            (check,) = check_stored(result(one), result(base), limits(metric))
            assert check.verdict == verdict
            assert check.low is not None
    (check,) = check_stored(result(SPINS[:2], 2), result(SLEEPS[:2], 2), limits("cpu_time"))
    assert check.text.endswith(
        "(fewer than 3 blocks, so no interval; a longer --duration gives more), must be at most 1.05"
    )


def test_a_live_gate() -> None:
    for metric in ("cpu_time", "cpu_cores"):
        for factor, verdict in ((40, FAILED), (1, PASSED)):
            live = LiveLoadGate(limits(metric), [("cpu-tensors", AT)])
            assert live.least_runs("cpu-tensors", AT) == 5
            for number in range(live.needed_rounds):
                assert live.needs_more("cpu-tensors", AT, number)
                for side, times in ((0, factor), (1, 1)):
                    live.add(side, "cpu-tensors", metric, number, [0.004 * times], AT)
                    live.add(side, "cpu-tensors", "mean", number, [MS], AT)  # of latency
            assert not live.needs_more("cpu-tensors", AT, live.needed_rounds)
            (check,) = live.checks([result(SPINS), result(SPINS)])
            assert check.verdict == verdict
            assert check.ratio == pytest.approx(factor)
    both = LiveLoadGate(limits("cpu_time", "latency.median"), [("cpu-tensors", AT)])
    assert both.least_runs("cpu-tensors", AT) == 20


def spinning(result: Result, **target: Any) -> Fact | None:
    """What is said of threads that spin, on a machine where the process may use 4 cores."""
    result.target.update(target)  # type: ignore[typeddict-item]
    result.placement["nodes"] = {result.target["ep"]: 3}
    return next((it for it in facts_of(result) if it.code == "idle-spinning"), None)


def test_threads_that_spin_between_requests_are_a_fact_with_what_ends_it() -> None:
    cpu: dict[str, Any] = {"ep": "CPUExecutionProvider"}
    found = there(spinning(result(SPINS), **cpu))
    assert found.next == "ortbench load m.onnx --ep some --session-config session.intra_op.allow_spinning=0"
    assert {name: round(it, 5) for name, it in values(found).items() if name != "where"} == {
        "cores": 0.14475, "utilisation": 0.00246, "most": 0.0108,
    }  # fmt: skip
    tried = result(SPINS, 5)
    tried.command += ["--session-config", "session.intra_op.allow_spinning=0"]
    assert there(spinning(tried, **cpu)).next == ""  # side by side with it
    for quiet, target in [
        (result(SLEEPS), cpu),  # its four threads may take as much for as long as an inference lasts
        (result(SPINS[:2], 2), cpu),  # no interval
        (result([MS, 150 * MS] * 2), cpu),  # an interval that reaches below
        (result(SPINS), {"ep": "SomeExecutionProvider"}),  # whose threads ONNX Runtime does not have
        (result(SPINS), {**cpu, "intra_op_threads": 1}),
        (result(SPINS), {**cpu, "session_config": {"session.intra_op.allow_spinning": "0"}}),
    ]:
        assert spinning(quiet, **target) is None
