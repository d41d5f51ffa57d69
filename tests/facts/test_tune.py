"""What a search under load comes to: the lowest p99, and the least CPU time within an SLO with its price."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ortbench.features.load.analysis import load_cases
from ortbench.features.tune.facts import load_answers, serving_lines
from ortbench.model.modes import CPU
from ortbench.model.result import Result
from tests.results import MS, latency, level_blocks, load_result, opened, stats, values


def at_rate(p99_ms: float, cpu_ms: float, slo: Mapping[str, int] | None, **setup: Any) -> Result:
    """A configuration at 30 requests/s, of one run with others."""
    blocks = level_blocks(30, latency(2, p99_ms))
    for block in blocks:
        block["cpu_time"] = round(cpu_ms * MS)
    met = None if slo is None else p99_ms * MS <= slo["p99"]
    case = opened(CPU, 30, 2, p99_ms, blocks=blocks, slo=met)
    case.metrics["cpu_time"] = stats(round(cpu_ms * MS))
    return load_result(case, slo=None if slo is None else dict(slo), run_id="one", **setup)


FIGURES = {"default": (10.0, 5.0), "frugal": (11.0, 0.5), "quick": (8.0, 6.0)}


@pytest.mark.parametrize(
    ("figures", "limit_ms", "of_p99", "of_cpu"),
    [
        (FIGURES, None, ("better", "quick", "default"), ("saves", "frugal", (0.5, 0.9, 11, 1.375))),
        (FIGURES, 20, ("better", "quick", "default"), ("saves", "frugal", (0.5, 0.9, 11, 1.375))),
        (FIGURES, 10.5, ("better", "quick", "default"), ("better", "default", None)),
        (FIGURES, 9, ("better", "quick", "default"), ("meets", "quick", (6, -0.2, 8, None))),
        (FIGURES, 5, ("better", "quick", "default"), ("none-within", None, None)),
        ({"default": (10, 5), "frugal": (9, 0.5)}, 20, ("better", "frugal", "default"), ("lowest", "frugal", (0.5, 0.9, 9, None))),
        ({"default": (10, 5), "other": (10, 5)}, None, ("same", "default", None), ("same", "default", None)),
    ],
)  # fmt: skip
def test_the_lowest_p99_and_the_least_cpu_time_within_an_slo(
    figures: Mapping[str, tuple[float, float]],
    limit_ms: float | None,
    of_p99: tuple[str, str, str | None],
    of_cpu: tuple[str, str | None, tuple[float, ...] | None],
) -> None:
    slo = {} if limit_ms is None else {"p99": round(limit_ms * MS)}
    results = [at_rate(*it, slo or None) for it in figures.values()]
    first, second = load_answers(results, [*figures], slo)
    found = values(first.fact)
    assert (first.fact.verdict, found["configuration"], found.get("other")) == of_p99
    found = values(second.fact)
    verdict, configuration, price = of_cpu
    assert (second.fact.verdict, found.get("configuration")) == (verdict, configuration)
    if price is not None:
        cpu_ms, saved, p99_ms, ratio = price
        assert (found["cpu_time"], found["p99"]) == (cpu_ms * MS, p99_ms * MS)
        assert (found["saved"], found.get("ratio")) == (pytest.approx(saved), ratio)
        assert second.number == [*figures].index(configuration or "")


@pytest.mark.parametrize(("verdict", "does"), [("passed", "meets"), ("unclear", "may meet")])
def test_an_slo_that_is_open_may_be_met(verdict: Any, does: str) -> None:
    results = [at_rate(*it, {"p99": 20 * MS}) for it in FIGURES.values()]
    for case in (case for result in results for case in load_cases(result)):
        case.checks["slo"] = {"verdict": verdict, "how": ""}
    *_, least = load_answers(results, [*FIGURES], {"p99": 20 * MS})
    assert least.fact.values["slo"] == f" that {does} p99 ≤ 20 ms"


@pytest.mark.parametrize(
    ("setup", "lines"),
    [
        ({"workers": 1, "sessions": "shared"}, []),
        ({"workers": 2, "sessions": "shared"}, ["session = ort.InferenceSession(model, options)", "workers = concurrent.futures.ThreadPoolExecutor(2)"]),
        ({"workers": 2, "sessions": "own"}, ["sessions = [ort.InferenceSession(model, options) for _ in range(2)]  # one a worker", "workers = concurrent.futures.ThreadPoolExecutor(2)"]),
        ({"workers": 3, "sessions": "process"}, ["workers = concurrent.futures.ProcessPoolExecutor(3, initializer=open_session)  # a session each"]),
    ],
)  # fmt: skip
def test_the_lines_that_set_a_configuration_have_its_workers(setup: dict[str, Any], lines: list[str]) -> None:
    assert serving_lines(at_rate(1, 1, None, **setup)) == lines
