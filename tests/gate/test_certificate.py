"""The certificate of a machine: what it says of simulated noise, and who heeds it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.analysis.comparison import BETWEEN_RUNS, between_runs, rows
from ortbench.analysis.intervals import upper_rate
from ortbench.core import files, signals
from ortbench.core.errors import BENCHMARK_FAILED, DONE, INTERRUPTED
from ortbench.facts import Quantity, certificate_facts
from ortbench.facts.comparison import between_runs_facts
from ortbench.facts.sentences import FAILED, UNCLEAR, phrase
from ortbench.features.certificate import gates, job
from ortbench.features.certificate.measure import Taken
from ortbench.features.gate.gates import BASELINE, CANDIDATE, SequentialTests, regression_tests
from ortbench.features.gate.gates.checks import Verdict
from ortbench.features.gate.plan import Limits
from ortbench.features.gate.report import build_gate
from ortbench.model.certificate import KeptCertificate, identify, read_certificate, stale_reasons
from ortbench.model.metrics import figure
from ortbench.model.result import Result
from ortbench.model.schema import Certificate
from ortbench.plan.target import Target
from ortbench.report.records import markdown
from tests.results import CPU, MS, change, measured, noise_of, result_of, steady

ROUND_S = 0.05
_BEGUN = count()


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is the same in each draw takes few of them."""
    monkeypatch.setattr(gates, "DRAWS", 4)
    monkeypatch.setattr(gates, "REPLAYS", 10)


def visit(ratios: Sequence[float], slower: float = 1.05) -> gates.Visit:
    """Rounds in which the model itself takes so many times as long the second time, and the slower one `slower` times."""
    lanes = [[[10 * MS * it] * 3 for it in lane] for lane in ([1.0] * len(ratios), ratios, [slower] * len(ratios))]
    return gates.Visit(lanes, [ROUND_S] * len(ratios))


def first_verdict(ratios: Sequence[float], times: float) -> str:
    """What the gate's own test says, with a limit of 0 %, of a candidate that is so many times slower than these ratios."""
    (test,) = regression_tests(Limits(max_regression=0.0), [CPU])
    gate = SequentialTests([test])
    for number, ratio in enumerate(ratios):
        gate.add(CANDIDATE, CPU, "latency", number, [1e7 * ratio * times])
        gate.add(BASELINE, CPU, "latency", number, [1e7])
        if (verdict := gate.check(test).verdict) != UNCLEAR:
            return verdict
    return UNCLEAR


@pytest.mark.parametrize("ratios", [[1.03, 0.97] * 100, [1.0, 1.05, 0.96, 1.01] * 50, [1.2, 1.21, 1.19] * 40])
def test_the_smallest_effect_is_what_the_gates_own_test_fails(ratios: list[float]) -> None:
    """The gate looks after each round, the replay less often: it says no less than that."""
    logs = [[math.log(it) for it in lane] for lane in ([1.0] * len(ratios), ratios)]
    slower, faster = gates.smallest_effects(np.array(logs[1:]), np.array(logs[:1]))
    assert first_verdict(ratios, math.exp(slower) * 1.0001) == FAILED
    assert first_verdict([1 / it for it in ratios], math.exp(faster) * 1.0001) == FAILED
    least = next(1 + it / 1000 for it in range(-300, 300) if first_verdict(ratios, 1 + it / 1000) == FAILED)
    assert slower == pytest.approx(math.log(least), abs=0.01)


SHARES = (
    ("no noise", [visit([1.0] * 240)] * 3, [0.0, 0.0, 0.0]),
    # Of 40 rounds, in 2 s, 28 must agree: a gate sees a block of either kind in each two.
    ("two kinds of rounds", [visit([1.03, 1 / 1.03] * 120)] * 3, [0.03, 0.03, 0.03]),
    ("workers that are 2 % apart", [visit([1.02] * 240)] * 3, [0.02, 0.02, 0.02]),
    ("one pair of workers of three is apart", [visit([1.0] * 240)] * 2 + [visit([1.1] * 240)], [0.1, 0.1, 0.1]),
    ("no stretch", [visit([1.0] * 30)] * 3, [None, None, None]),
    ("too few rounds in 2 s", [gates.Visit(visit([1.0] * 20).lanes, [0.5] * 20)] * 3, [None, 0.0, 0.0]),
)


@pytest.mark.parametrize(("what", "visits", "shares"), SHARES, ids=[it[0] for it in SHARES])
def test_detectable_shares_of_simulated_noise(what: str, visits: list[gates.Visit], shares: list[float | None]) -> None:
    assert gates.detectable_shares(visits) == pytest.approx(shares)


def test_gates_are_replayed_along_each_visit_and_lanes_take_turns() -> None:
    quiet, apart = visit([1.0] * 95), visit([1.1] * 95)
    same, slower = (gates.ONE, gates.OTHER), (gates.SLOWER, gates.ONE)
    assert gates.replay([quiet], same, 0.05, math.inf) == gates.Gates(95 // 9, 0)
    assert gates.replay([apart], same, 0.05, math.inf) == gates.Gates(10, 5)  # as the baseline the slower one is none
    assert gates.replay([quiet], slower, 0.0, 10.0) == gates.Gates(10, 10)
    # Time is up after 20 rounds each.
    assert gates.replay([visit([1.0] * 95, 1.0)], slower, 0.0, 1.0) == gates.Gates(4, 0)


def test_the_bound_of_a_rate_is_that_of_clopper_and_pearson() -> None:
    for events, tries, rate in ((0, 100, 0.0295), (2, 200, 0.0311), (5, 5, 1), (0, 0, 1)):
        assert upper_rate(events, tries, gates.SURE) == pytest.approx(rate, abs=1e-4)


def test_the_spread_of_runs_is_of_each_lane_around_its_mean() -> None:
    runs: list[Any] = [{"at_s": 0, "medians_ns": [it, 2 * it]} for it in (100, 100 * math.e**0.02, 100 * math.e**0.04)]
    spread = gates.spread_of_runs(runs)
    assert spread.deviation == pytest.approx(0.02)
    assert (spread.freedom, spread.runs) == (2, 3)


# A certificate that is kept


def taken(visits: int, median: int = 10 * MS, **noise: Any) -> list[Taken]:
    """So many visits of quiet workers."""
    found = []
    for _ in range(visits):
        results = [result_of(measured(CPU, latency=steady([round(median * it)] * 240))) for it in (1, 1, 1.05)]
        for at, result in enumerate(results):
            result.noise = noise_of(**noise)
            for block in result.cases[0].blocks["latency"]:
                block[2] = (3 * block[0] + at) * 25 * MS
        found.append(Taken(float(next(_BEGUN)), results))
    return found


def certify(
    visits: list[Taken], interrupted: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, dict[str, Any] | None]:
    """The exit code of a certificate that is made of these visits, and what is kept."""
    monkeypatch.setenv("ORTBENCH_STATE", str(folder / "state"))
    monkeypatch.setattr(job, "plans_of", lambda *_: ())
    monkeypatch.setattr(job, "take_visits", lambda *_: (visits, interrupted))
    monkeypatch.setattr(signals, "defer_signals", lambda: None)
    code = job.certify({"certify": 60.0}, Target(ep="cpu"))
    file = folder / "state" / "certificate.json"
    return code, json.loads(file.read_text()) if file.exists() else None


def test_what_was_measured_before_ctrl_c_is_a_certificate_or_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert certify(taken(2), True, tmp_path, monkeypatch) == (INTERRUPTED, None)
    code, kept = certify(taken(3), True, tmp_path, monkeypatch)
    assert (code, kept is not None) == (INTERRUPTED, True)
    out = capsys.readouterr().out
    assert "2 s                   0%\n   10 s                  ≈0%\n" in out
    assert "0 of 78 gates of equal code failed by a limit of 5% (at most 3.8% with 95% confidence)" in out
    assert "5% more work was found by 78 of 78 gates of 10 s at most" in out
    assert certify(taken(2), True, tmp_path, monkeypatch) == (INTERRUPTED, kept)
    assert certify(taken(2), False, tmp_path, monkeypatch) == (BENCHMARK_FAILED, kept)
    # Runs of the same machine are added to those of a later certificate, those of a busy one are not.
    code, more = certify(taken(3, 11 * MS), False, tmp_path, monkeypatch)
    assert more is not None
    assert (code, len(more["runs"]), more["certificate"]["runs"], more["certificate"]["busy"]) == (DONE, 6, 6, False)
    assert more["certificate"]["between_runs"] > 0.1
    # One of a busy machine does not take the place of one of a quiet machine.
    capsys.readouterr()
    assert certify(taken(3, others=1.5), False, tmp_path, monkeypatch) == (DONE, more)
    assert "ortbench: the machine was busy; the certificate of " in capsys.readouterr().err
    (tmp_path / "state" / "certificate.json").unlink()
    _, busy = certify(taken(3, others=1.5), False, tmp_path, monkeypatch)
    assert busy is not None
    assert (busy["runs"], busy["certificate"]["runs"], busy["certificate"]["busy"]) == ([], 3, True)


def test_a_certificate_that_cannot_be_kept_is_shown_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("")
    with files.noting_apart():
        assert certify(taken(3), False, tmp_path, monkeypatch) == (DONE, None)
        (line,) = files.not_written()
    assert line == f"{tmp_path}/state/certificate.json was not written: File exists"
    assert "smallest difference" in capsys.readouterr().out


CERTIFICATE: Certificate = {
    "created": "2026-11-29T20:00:00+00:00", "busy": False, "model_ns": 2_500_000,
    "detectable": [{"within_s": it, "share": share, "derived": it > 2} for it, share in ((2.0, 0.0613), (10.0, 0.0291), (60.0, None))],
    "gates": 120, "alarms": 1, "most_alarms": 0.04, "planted": 0.05, "planted_gates": 100, "found": 100,
    "runs": 9, "span_s": 90_000.0, "between_runs": 0.0172,
}  # fmt: skip


def certified(host: str = "a", **changed: Any) -> Result:
    made = result_of(measured(CPU, latency=steady([1000] * 8)))
    made.environment["host_id"] = host
    made.environment["certificate"] = {**CERTIFICATE, **changed}  # type: ignore[typeddict-item]
    return made


def bare(host: str = "a") -> Result:
    result = certified(host)
    del result.environment["certificate"]
    return result


def busy(result: Result) -> Result:
    result.noise = noise_of(others=1.5)
    return result


CITED = "This machine tells 3% in 10 s, 1 of 120 false alarms (certificate of 2026-11-29)"
HEEDED: tuple[tuple[str, list[Result], list[str], float, float], ...] = (  # the last: what is said, rounded up, %
    ("both", [certified(), certified(between_runs=0.0251)], [CITED], 0.0251, 2.6),
    # Minutes show a part of what differs between days.
    ("within minutes", [certified(span_s=170.0), certified()], [CITED], BETWEEN_RUNS, 3),
    ("far within minutes", [certified(span_s=170.0, between_runs=0.05), certified()], [CITED], 0.05, 5),
    ("one has none", [certified(), bare()], [], BETWEEN_RUNS, 3),
    ("two machines", [certified(), certified("b")], [], BETWEEN_RUNS, 3),
    ("busy since then", [certified(), busy(certified())], [], BETWEEN_RUNS, 3),
    ("as busy as then", [busy(certified(busy=True)), certified()], [CITED], 0.0172, 1.8),
    ("none is told", [certified(detectable=[]) for _ in "ab"], ["This machine tells no difference in a minute (certificate of 2026-11-29)"], 0.0172, 1.8),
    ("in 2 s alone", [certified(detectable=CERTIFICATE["detectable"][:1]) for _ in "ab"], [CITED.replace("3% in 10", "6.2% in 2")], 0.0172, 1.8),
)  # fmt: skip


@pytest.mark.parametrize(("what", "results", "cited", "spread", "least"), HEEDED, ids=[it[0] for it in HEEDED])
def test_comparisons_and_gates_heed_the_certificate_of_one_machine(
    what: str, results: list[Result], cited: list[str], spread: float, least: float
) -> None:
    assert [phrase(it) for it in certificate_facts(results)] == cited
    assert between_runs(results) == spread
    for number, result in enumerate(results):
        result.setup["run_id"] = str(number)
    (row,) = (it for it in rows(results) if it.key.figure == figure("latency"))
    assert row.since_first[1] is not None
    assert row.since_first[1].ends == pytest.approx((1 / (1 + spread), 1 + spread))
    (said,) = between_runs_facts(results, [row])
    assert (said.verdict, said.values["least"]) == ("certified" if cited else "one-each", Quantity(least, "%"))
    verdict = Verdict(results, [], certificate_facts(results))
    assert verdict.remarks == cited
    for text in cited:
        assert text in markdown(build_gate(verdict))


def test_a_certificate_is_stale_where_what_it_is_of_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORTBENCH_STATE", str(tmp_path))
    assert read_certificate() is None
    environment = bare().environment
    kept: KeptCertificate = {"machine": identify(environment), "certificate": CERTIFICATE, "runs": []}
    (tmp_path / "certificate.json").write_text(json.dumps(kept))
    found = read_certificate()
    assert found == kept
    assert stale_reasons(kept, environment) == []
    for changed, why in (
        ({"environment__onnxruntime": "9.9"}, f"ONNX Runtime: {environment['onnxruntime']} → 9.9"),
        ({"environment__os": "Linux-9"}, f"system: {environment.get('os')} → Linux-9"),
        ({"environment__host_id": "b"}, "host: a → b"),
    ):
        assert stale_reasons(kept, change(bare(), **changed).environment) == [why]
    for text in ("", "{}", '{"machine": {}, "certificate": 1, "runs": []}'):
        (tmp_path / "certificate.json").write_text(text)
        assert read_certificate() is None
