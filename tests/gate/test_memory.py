"""Gates on memory: sizes, limits, and what is compared with a baseline, live and stored."""

from __future__ import annotations

from typing import Any

from ortbench.core.errors import BadInput
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.gate.gates.baseline import LiveGate, check_stored
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.plan import Limits
from ortbench.model.metric_names import parse_metric
from ortbench.model.result import Case, Result
from ortbench.plan.option_types import parse_size
from tests.expect import refusal
from tests.results import broken, measured, result_of, steady, weighed

MB = 1_000_000
DEVICE = parse_metric("cpu-tensors.device_memory")


def cpu(device: int | None = 100 * MB, host: int | None = 10 * MB, **more: Any) -> Case:
    return weighed(measured("cpu-tensors", latency=steady([1000] * 20)), device, host, **more)


def test_a_size_is_read_with_its_unit() -> None:
    sizes = {"2GB": 2 * 10**9, "512MiB": 512 << 20, "1.5 kB": 1500, "4096": 4096, "1tib": 1 << 40, "7 B": 7, "0": 0}
    assert {text: parse_size(text, "--max-host-memory") for text in sizes} == sizes
    for text in ("", "GB", "-1GB", "2 GBit", "1e9", "2GB3", "２GB"):
        why = f"--max-host-memory {text!r}: write a size such as 2GB, 512MiB or a number of bytes"
        assert refusal(BadInput, parse_size, text, "--max-host-memory") == why


def said(result: Result, **limits: Any) -> list[tuple[str, str]]:
    return [(check.verdict, check.text) for check in check_alone(result, Limits(**limits))]


def test_a_mode_takes_no_more_than_it_may() -> None:
    assert said(result_of(cpu()), max_device_memory=100 * MB, max_host_memory=9 * MB) == [
        (PASSED, "cpu-tensors device memory: 100 MB, must be at most 100 MB"),
        (FAILED, "cpu-tensors host memory: 10.0 MB, must be at most 9.00 MB"),
    ]
    resident = weighed(measured("device-resident", latency=steady([1])), 1, 1)
    result = result_of(cpu(), broken("device-tensors"), resident)
    assert [verdict for verdict, _ in said(result, max_device_memory=1)] == [FAILED, PASSED]
    assert len(said(result, max_device_memory=1, modes=("cpu-tensors",))) == 1


def test_what_is_not_known_of_memory_is_no_verdict() -> None:
    assert said(result_of(cpu(device=None, host=None)), max_device_memory=1, max_host_memory=1) == [
        (PASSED, "cpu-tensors device memory: none, the EP computes in host memory; must be at most 1 B"),
        (UNCLEAR, "cpu-tensors host memory: the system does not tell; must be at most 1 B"),
    ]
    failed = "could not be measured: the worker was ended by SIGABRT; must be at most 1 B"
    [(verdict, text)] = said(result_of(cpu(failed="the worker was ended by SIGABRT")), max_device_memory=1)
    assert (verdict, text) == (UNCLEAR, f"cpu-tensors device memory: {failed}")
    why = "--max-host-memory: the result has no memory; measure it with --measure-memory"
    assert refusal(BadInput, said, NOT_WEIGHED, max_host_memory=1) == why


NOT_WEIGHED = result_of(measured("cpu-tensors", latency=steady([1])))
LIMITS = Limits(max_regression=0.05, metrics=(DEVICE,))


def test_memory_against_a_stored_baseline_is_an_exact_ratio() -> None:
    for device, verdict in ((105 * MB, PASSED), (105 * MB + 1, FAILED), (50 * MB, PASSED)):
        (check,) = check_stored(result_of(cpu(device)), result_of(cpu()), LIMITS)
        assert (check.name, check.verdict, check.rounds) == ("cpu-tensors device_memory", verdict, None)
        assert f"against 100 MB, ratio {device / (100 * MB):.3f}, must be at most 1.05" in check.text


def test_memory_that_is_not_known_is_not_compared() -> None:
    unknown = cpu()
    del unknown.metrics["device_memory"]
    [check] = check_stored(result_of(unknown), result_of(cpu()), LIMITS)
    text = "cpu-tensors device_memory of the candidate: as it was scripted; must be at most 1.05"
    assert (check.verdict, check.text) == (UNCLEAR, text)
    on_host = result_of(cpu(device=None))
    [check] = check_stored(on_host, on_host, LIMITS)
    assert check.text == "cpu-tensors device_memory: none on either side, the EP computes in host memory"


def test_a_live_gate_of_memory_needs_no_blocks() -> None:
    limits = Limits(max_regression=0.05, metrics=(DEVICE,), max_host_memory=10 * MB)
    gate = LiveGate(limits, ["cpu-tensors"], has_baseline=True)
    assert not gate.needs_more("cpu-tensors")
    checks = gate.checks([result_of(cpu(200 * MB)), result_of(cpu())])
    assert [(it.verdict, it.text) for it in checks] == [
        (FAILED, "cpu-tensors device_memory: 200 MB against 100 MB, ratio 2.000, must be at most 1.05"),
        (PASSED, "cpu-tensors host memory: 10.0 MB, must be at most 10.0 MB"),
    ]
