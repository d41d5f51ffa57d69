"""The facts of inferences that begin at set moments, of synthetic results whose figures are known."""

from __future__ import annotations

from typing import Any

import pytest

from ortbench.analysis.derive import put_pace
from ortbench.analysis.intervals import by_round
from ortbench.core.eps import CPU_EP
from ortbench.facts.run import facts_of
from ortbench.facts.sentences import sentence
from ortbench.model.result import Result
from tests.results import MS, US, fact, measured, noise_of, nvidia_result, steady, values

CPU = "cpu-tensors"
EVERY = 32 * MS
OPEN = [MS, 2 * MS, MS // 2, MS, 2 * MS, MS // 2, MS, 2 * MS, MS // 2, MS, 2 * MS, MS // 2]
WAIT = "ortbench run m.onnx --ep some --duration 18s"


def paced(us: list[int], cpu_us: int = 0, missed: float = 0.0, **target: Any) -> Result:
    """A result of inferences of 1 ms and 1.1 ms of CPU time, which take so many ns, in each round, where one begins each 32 ms."""
    rounds = range(len(us))
    blocks: dict[str, dict[int, list[Any]]] = {
        "paced_cpu_time": {it: [cpu_us * US] for it in rounds},
        "missed_starts": {it: [missed] for it in rounds},
    }
    case = measured(CPU, latency=steady([MS] * len(us)), paced=steady(us), **blocks)
    case.set_metric("cpu_user", 1100 * US)
    case.set_metric("cpu_system", 0)
    put_pace(case, by_round(case, "latency"))
    result = nvidia_result(case, ep=CPU_EP, **target)
    result.placement["nodes"] = {CPU_EP: 3}
    result.setup["every_ns"] = EVERY
    return result


def verdicts(result: Result, code: str) -> list[str]:
    return [it.verdict for it in facts_of(result) if it.code == code]


@pytest.mark.parametrize(
    ("us", "verdict", "after"),
    [
        ([5 * MS] * 12, "slower", ""),
        ([MS // 2] * 12, "faster", ""),
        ([MS] * 12, "same", ""),
        (OPEN, "open", WAIT),
        ([5 * MS] * 2, "few-samples", WAIT),
    ],
)
def test_how_long_paced_inferences_take(us: list[int], verdict: str, after: str) -> None:
    found = fact(paced(us), "pace")
    assert (found.verdict, found.next) == (verdict, after)
    told = values(found)
    assert (told["every"], told["back_to_back"], told["paced"]) == (EVERY, MS, sorted(us)[len(us) // 2])
    assert (found.values["stat"], found.values["what"]) == ("p95" if len(us) > 2 else "max", "inference")


def test_on_a_busy_machine_it_is_told_where_each_round_shows_it() -> None:
    found = []
    for us in ([5 * MS] * 12, [MS + MS // 20] * 11 + [MS // 2]):
        result = paced(us)
        result.noise = noise_of(2, 1.0, [0.4] * 8)
        found += verdicts(result, "pace")
    assert found == ["slower", "noise"]


def test_starts_that_wait_for_the_one_before() -> None:
    assert verdicts(paced([5 * MS] * 12), "missed-starts") == []
    assert verdicts(paced([30 * MS] * 12, missed=0.05), "missed-starts") == ["some"]
    late = fact(paced([40 * MS] * 12, missed=0.75), "missed-starts")
    assert (
        sentence(late)
        == "cpu-tensors cannot keep up with one inference each 32.0 ms: 75% of the starts waited for the one before."
    )


@pytest.mark.parametrize(
    ("cpu_us", "target", "found"),
    [
        (31_000, {}, ["burns"]),
        (7_800, {}, []),  # 1.1 ms back to back, 5 ms in which it runs now, and 5 % of a core
        (31_000, {"intra_op_threads": 1}, []),  # no thread spins
        (31_000, {"session_config": {"session.intra_op.allow_spinning": "0"}}, []),
    ],
)
def test_threads_that_spin_until_the_next_one(cpu_us: int, target: dict[str, Any], found: list[str]) -> None:
    result = paced([5 * MS] * 12, cpu_us, **target)
    assert verdicts(result, "paced-cpu") == found
    if found:
        told = values(fact(result, "paced-cpu"))
        assert (told["cpu"], told["cores"], told["back_to_back"]) == (31 * MS, 31 / 32, 1100 * US)
