"""Metrics of gates: how they are written, what they are of, and which a run of each kind has not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ortbench.analysis.levels import CONCURRENCY, RATE, At
from ortbench.errors import BadInput
from ortbench.gate.checks import check_stored
from ortbench.gate.contests import regression_contests
from ortbench.gate.limits import DEFAULT_METRIC, Check, Limits, Metric, parse_metric
from ortbench.gate.shapes import Shapes
from ortbench.work import Work
from tests.expect import refusal
from tests.results import MS, measured, result_of, steady

TOTAL = Metric(None, "total", "median")


def limits(*metrics: str, most: float = 0.05, **more: Any) -> Limits:
    return Limits(most, tuple(map(parse_metric, metrics or ("total",))), **more)


def verdicts(checks: Iterable[Check]) -> dict[str, str]:
    return {check.name: check.verdict for check in checks}


METRICS = {
    "device.total.median": Metric("device", "total", "median"),
    "device-resident.inference.mean": Metric("device-resident", "inference", "mean"),
    "upload.min": Metric(None, "upload", "min"),
    "download": Metric(None, "download", "median"),
    "device.upload": Metric("device", "upload", "median"),
    "host-accessible": Metric("host-accessible", "total", "median"),
    "cpu.p99": Metric("cpu", "total", "p99"),
    "p90": Metric(None, "total", "p90"),
    "p95": Metric(None, "total", "p95"),
    "max": Metric(None, "total", "max"),
    "total": TOTAL,
    "median": TOTAL,
    "total.median": TOTAL,
    # Of costs
    "cpu.cpu_time.median": Metric("cpu", "cpu_time", "median"),
    "device-resident.submit": Metric("device-resident", "submit", "median"),
    "cpu.memory.device": Metric("cpu", "memory", "device"),
    "device.memory.host": Metric("device", "memory", "host"),
    "memory.host": Metric(None, "memory", "host"),
    "memory": Metric(None, "memory", "device"),
    # Of chains
    "stage.text": Metric(None, "stage.text", "median"),
    "cpu.stage.text.min": Metric("cpu", "stage.text", "min"),
    "device-resident.stage.cpu.median": Metric("device-resident", "stage.cpu", "median"),
    "stage.median.mean": Metric(None, "stage.median", "mean"),
    "device-resident.chain.median": Metric("device-resident", "chain", "median"),
    "chain": Metric(None, "chain", "median"),
    # Of loads
    "load": Metric(None, "load", ""),
    "load.p99": Metric(None, "load", "p99"),
    "load.p99@rate=30": Metric(None, "load", "p99", At(RATE, 30)),
    "load@rate=0.5": Metric(None, "load", "", At(RATE, 0.5)),
    "device.load.runs_per_s@concurrency=4": Metric("device", "load", "runs_per_s", At(CONCURRENCY, 4)),
}
OF_SWEEPS = {
    "device.median@batch=8": Metric("device", "total", "median", Shapes("batch=8")),
    "p99@batch=8,sequence=32": Metric(None, "total", "p99", Shapes("batch=8,sequence=32")),
    "cpu.upload@monday": Metric("cpu", "upload", "median", Shapes("monday")),
    "items_per_s": Metric(None, "total", "items_per_s"),
    "cpu.total.items_per_s@best": Metric("cpu", "total", "items_per_s", Shapes("best")),
    "memory.device@batch=8": Metric(None, "memory", "device", Shapes("batch=8")),
}


def test_metrics() -> None:
    every = METRICS | OF_SWEEPS
    assert {text: parse_metric(text) for text in every} == every
    assert {text: parse_metric(metric.text) for text, metric in every.items()} == every
    assert [text for text, metric in every.items() if metric.of_sweeps] == [*OF_SWEEPS]
    of_loads = [text for text in every if "load" in text.split("@")[0].split(".")]
    whole = ["device.total.median", "total.median", *of_loads, "memory.device@batch=8"]
    assert [every[text].text for text in whole] == whole
    assert every["device.median@batch=8"].text == "device.total.median@batch=8"
    assert DEFAULT_METRIC == TOTAL


def test_what_is_no_metric() -> None:
    parts = {"": "", ".": "", "gpu": "gpu", "p50": "p50", "Device": "Device", "device total": "device total", "device.": "",
             ".total": "", "device.cpu": "cpu", "total.device": "device", "median.device": "device", "median.total": "total",
             "total.upload": "upload", "median.mean": "mean", "device.total.median.p95": "p95"}  # fmt: skip
    usage = "write mode.phase.statistic such as device.total.median"
    refused = {text: f"--metric {text!r}: {part!r} does not fit; {usage}" for text, part in parts.items()}
    refused |= dict.fromkeys(
        ["stage", "stage.", "cpu.stage", "stage.text.image", "stage.text.stage.image"], " cpu_time, stage.NAME; median"
    )
    refused |= dict.fromkeys(
        ["cpu.memory.median", "cpu.total.host", "memory.device.host"], "or mode.memory with device or host"
    )
    refused |= {
        "total.p99@rate=30": "--metric 'total.p99@rate=30': only load has levels, as in load.p99@rate=30",
        "load@30": "--metric 'load@30': @30 is no level; write @rate=30 or @concurrency=4",
        "load@rate=0": "@rate=0 is no level",
        "load@rate=inf": "@rate=inf is no level",
        "load@concurrency=1.5": "@concurrency=1.5 is no level",
        "load@": "@ is no level",
        "load.median": "'median' does not fit",
        "load.max": "mode.load with runs_per_s, p50, p95, p99, mean, at a level such as @rate=30",
        "total@": "@ names a shape of a sweep, as in total@batch=8",
        "median@best": "which only items_per_s says something of: items_per_s@best",
        "total@rate=30": "only load has levels",
        "upload.items_per_s": "'items_per_s' does not fit",
    }
    found = {text: refusal(BadInput, parse_metric, text) for text in refused}
    assert {text: it for text, it in found.items() if refused[text] not in it} == {}


MODES = ("cpu", "device-resident")
CHAIN, LOOP, SINGLE = Work(stages=("text", "image")), Work(16), Work()


def test_what_metrics_of_a_live_gate_are_of() -> None:
    for metric, work, names in [
        ("total", CHAIN, ["cpu chain median", "device-resident chain median"]),
        ("cpu.chain.mean", CHAIN, ["cpu chain mean"]),
        ("stage.image", CHAIN, ["cpu stage.image median", "device-resident stage.image median"]),
        ("total", LOOP, ["cpu loop median", "device-resident loop median"]),
        ("loop.median", LOOP, ["cpu loop median", "device-resident loop median"]),
        ("loop.mean", LOOP, ["cpu loop mean", "device-resident loop mean"]),
        ("device-resident.step.median", LOOP, ["device-resident step median"]),
        ("cpu.cpu_time", LOOP, ["cpu cpu_time median"]),
        ("step.p95", Work(11), ["cpu step p95", "device-resident step p95"]),
        ("step.p90", Work(6), ["cpu step p90", "device-resident step p90"]),
        ("step.p99", Work(51), ["cpu step p99", "device-resident step p99"]),
    ]:
        assert [it.name for it in regression_contests(limits(metric), MODES, work)] == names
    for whole, work in [("chain", CHAIN), ("loop", LOOP)]:
        assert len(regression_contests(limits("total", whole), ["cpu"], work)) == 1


def test_metrics_that_a_live_gate_has_not() -> None:
    no_stages = "single inferences have no stages, which chains have"
    no_steps = "single inferences have no steps; say what is fed back with --feedback OUT=IN"
    no_percentiles = "which have median, mean, min; use a stored --baseline for percentiles"
    for metric, work, message in [
        ("stage.nope", CHAIN, "a chain has chain, stage.text, stage.image and cpu_time only"),
        ("step", CHAIN, "a chain has chain, stage.text, stage.image and cpu_time only"),
        ("stage.text", LOOP, "a loop has step, loop and cpu_time only"),
        ("device-resident.inference", LOOP, "a loop has step, loop and cpu_time only"),
        ("upload", LOOP, "a loop has step, loop and cpu_time only"),
        ("submit", LOOP, "a loop has step, loop and cpu_time only"),
        ("shared.loop", LOOP, "no mode that is measured has it; measured: cpu, device-resident"),
        ("chain", SINGLE, no_stages),
        ("stage.text", SINGLE, no_stages),
        ("step", SINGLE, no_steps),
        ("loop", SINGLE, no_steps),
        ("loop.p95", LOOP, no_percentiles),
        ("step.max", LOOP, no_percentiles),
        ("step.p95", SINGLE, no_percentiles),
        ("step.p95", Work(10), "and p95 of steps from --steps 11 on; use more, or a stored --baseline"),
        ("step.p90", Work(5), "and p90 of steps from --steps 6 on; use more, or a stored --baseline"),
        ("step.p99", Work(50), "and p99 of steps from --steps 51 on; use more, or a stored --baseline"),
        ("load.p99", SINGLE, "is of loads"),
        ("total@batch=8", SINGLE, "is of sweeps"),
        ("items_per_s", SINGLE, "is of sweeps"),
        ("memory@batch=8", SINGLE, "is of sweeps"),
    ]:
        said = f"--metric {parse_metric(metric).text}: "
        refused = refusal(BadInput, regression_contests, limits(metric), MODES, work)
        assert (refused.startswith(said), message in refused) == (True, True), refused


def test_metrics_of_sweeps_and_of_loads_are_of_no_stored_run() -> None:
    one = result_of(measured("cpu", total=steady([MS] * 24)))
    for text in ["total@batch=8", "items_per_s", "memory@batch=8"]:
        said = refusal(BadInput, check_stored, one, one, limits(text))
        assert "is of sweeps: hold results of 'ortbench sweep' against each other" in said
    said = refusal(BadInput, check_stored, one, one, limits("load.p99"))
    assert said.startswith("--metric load.p99: is of loads, and one of the results is none")
