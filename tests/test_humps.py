"""Two humps are seen where there are two, and the dip is that of Hartigan and Hartigan."""

from __future__ import annotations

import numpy as np
import pytest

from ortbench.analysis.findings.advice import findings
from ortbench.analysis.findings.hump_advice import hump_findings
from ortbench.core.humps import dip, two_humps
from tests.benchmarks.coverage import NOISE, a_run
from tests.expect import there
from tests.results import measured, result_of


def test_the_dip_is_that_of_others() -> None:
    """Of diptest 0.10, a package that is compiled from Hartigan's own algorithm."""
    random = np.random.default_rng(3)
    assert dip(np.sort(random.random(30))) == pytest.approx(0.047632757762899096, abs=1e-12)
    assert dip(np.sort(random.random(100))) == pytest.approx(0.03415299676155455, abs=1e-12)
    assert dip(np.arange(10.0)) == pytest.approx(1 / 20)  # the least there is
    assert dip(np.array([0.0, 0.1, 9.9, 10.0])) == pytest.approx(1 / 4, abs=0.01)


def test_two_humps_and_where_they_are() -> None:
    random = np.random.default_rng(1)
    times = np.where(random.random(400) < 0.38, 11e6, 3e6) * np.exp(0.05 * random.standard_normal(400))
    low, high = there(two_humps(times.tolist()))
    assert [low.place, high.place] == pytest.approx([3e6, 11e6], rel=0.02)
    assert low.share == pytest.approx(0.62, abs=0.05)
    assert low.share + high.share == 1


@pytest.mark.wide
@pytest.mark.parametrize("noise", [it for it in NOISE if not it.startswith("two humps")])
def test_drift_tails_and_bursts_are_no_humps(noise: str) -> None:
    """At most one run in a hundred of what has one hump."""
    seen = 0
    for seed in range(100):
        for side in a_run(noise, seed, 40):
            seen += two_humps([ns for block in side.values() for ns in block]) is not None
    assert seen <= 2


def test_what_is_no_second_hump() -> None:
    random = np.random.default_rng(2)
    near = np.where(random.random(400) < 0.5, 1000, 1100).tolist()  # steps of a clock
    outliers = [1000.0 + it for it in range(95)] + [9000.0] * 5
    for times in (near, outliers, [5.0] * 100, [1.0, 9.0], list(range(100, 200))):
        assert two_humps(times) is None


def test_two_humps_are_said_in_one_sentence() -> None:
    times = {it: [3_000_000 + 1000 * it, 11_000_000 + 1000 * it, 3_100_000 + 1000 * it] for it in range(12)}
    plain = {it: [2_000_000 + 1000 * it + 7 * number for number in range(3)] for it in range(12)}
    result = result_of(measured("cpu-tensors", latency=times), measured("device-tensors", latency=plain))
    (said,) = hump_findings(result)
    assert (
        said.text
        == "Latency is bimodal, so one median does not describe it: cpu-tensors 3.06 ms in 67% of samples and 11.0 ms in 33% of samples."
    )
    assert said.next == "see the page (--html), which plots latency over time"
    assert said in findings(result)
    assert hump_findings(result_of(measured("cpu-tensors", latency=plain))) == []


def test_processes_that_differ_are_no_humps() -> None:
    random = np.random.default_rng(5)
    levels = [3e6, 3.05e6, 4e6, 4.1e6]
    times = {it: (levels[it // 10] * np.exp(0.01 * random.standard_normal(8))).round().tolist() for it in range(40)}
    case = measured("cpu-tensors", latency=times)
    (said,) = hump_findings(result_of(case))
    assert said.what.startswith("Latency is bimodal")
    case.processes = [0, 10, 20, 30]
    (said,) = hump_findings(result_of(case))
    assert said.what == (
        "The medians of the 4 processes differ by up to 1.37×, so figures of two runs can differ as much"
    )
    assert (said.evidence, said.next) == (
        "cpu-tensors 2.99 ms to 4.10 ms; p95 and p99 are over all processes",
        "",
    )
