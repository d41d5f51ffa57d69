"""Names of metrics in gates: every example of the docs, what does not fit, and that a name in full means the same again."""

from __future__ import annotations

import re
import tomllib

import pytest

from ortbench.core.errors import BadInput
from ortbench.model import metric_names
from ortbench.model.metric_names import MetricName, parse_metric
from ortbench.model.metrics import GATED
from tests.conftest import ROOT
from tests.expect import refusal

MODES = ("cpu-tensors", "device-tensors", "device-resident", "host-accessible")
CPU, DEVICE, RESIDENT, _ = MODES
DOCS = (ROOT / "docs/compare.md").read_text(encoding="utf-8").split("\n## Names of metrics\n")[1].split("\n## ")[0]
# Names that the docs have: what each means, and the name in full where that is another.
EXAMPLES = {
    "latency": (MetricName(None, "latency", "median"), "latency.median"),
    "p95": (MetricName(None, "latency", "p95"), "latency.p95"),
    "cpu-tensors": (MetricName(CPU, "latency", "median"), "cpu-tensors.latency.median"),
    "cpu-tensors.latency.median": (MetricName(CPU, "latency", "median"), ""),
    "device-tensors.h2d.min": (MetricName(DEVICE, "h2d", "min"), ""),
    "stage.text.p99": (MetricName(None, "stage.text", "p99"), ""),
    'stage."image.encoder".p95': (MetricName(None, "stage.image.encoder", "p95"), ""),
    "device-resident.latency.p99@rate=30": (MetricName(RESIDENT, "latency", "p99", (("rate", 30),)), ""),
    "throughput@concurrency=4": (MetricName(None, "throughput", "", (("concurrency", 4),)), ""),
    "latency@batch=8,sequence=128": (
        MetricName(None, "latency", "median", (("batch", 8), ("sequence", 128))),
        "latency.median@batch=8,sequence=128",
    ),
    "latency@input.0=1": (MetricName(None, "latency", "median", (("input.0", 1),)), 'latency.median@"input.0"=1'),
    'latency@"a,b"=1': (MetricName(None, "latency", "median", (("a,b", 1),)), 'latency.median@"a,b"=1'),
    "item_throughput@best": (MetricName(None, "item_throughput", best=True), ""),
    "cpu-tensors.device_memory": (MetricName(CPU, "device_memory"), ""),
    "cpu-tensors.page_faults": (MetricName(CPU, "page_faults", "mean"), "cpu-tensors.page_faults.mean"),
    "outputs.sqnr": (MetricName(None, "outputs.sqnr"), ""),
    "start.ready": (MetricName(None, "start.ready", "median"), "start.ready.median"),
}
MORE = {
    "cpu-tensors.p99": (MetricName(CPU, "latency", "p99"), "cpu-tensors.latency.p99"),
    "p95@data=monday": (MetricName(None, "latency", "p95", (("data", "monday"),)), "latency.p95@data=monday"),
    "stage.cpu-tensors": (MetricName(None, "stage.cpu-tensors", "median"), "stage.cpu-tensors.median"),
    'link."a → b"': (MetricName(None, "link.a → b"), "link.a → b"),
    'stage."say ""x""".min': (MetricName(None, 'stage.say "x"', "min"), ""),
    " latency . p95 @ rate = 0.50 ": (MetricName(None, "latency", "p95", (("rate", 0.5),)), "latency.p95@rate=0.5"),
    'latency.p95@data="8"': (MetricName(None, "latency", "p95", (("data", "8"),)), ""),
    'stage."a@b [c]".p95': (MetricName(None, "stage.a@b [c]", "p95"), ""),
    'stage." \\ ".min': (MetricName(None, "stage. \\ ", "min"), ""),
    'latency.p95@"a=b"="1e3",c=-0.5': (MetricName(None, "latency", "p95", (("a=b", "1e3"), ("c", -0.5))), ""),
    'latency.p95@data="best"': (MetricName(None, "latency", "p95", (("data", "best"),)), "latency.p95@data=best"),
}
# A name, and what the message must say.
REFUSED = {
    "": "there is no mode, metric or statistic ''; write one such as latency",
    "latncy.p95": "there is no mode, metric or statistic 'latncy'; did you mean latency",
    "cpu-tensors.compute": "there is no metric 'compute'; did you mean inference?",
    "cpu.latency": "did you mean cpu-tensors",
    "stage.image.encoder.p95": "'encoder' does not fit behind stage.image; a name with a dot needs quotes: 'stage.\"image.encoder\"'",
    "latency.p75": "latency has no statistic 'p75' (did you mean p95?); there are median, mean",
    "latency.p95.p99": "'p99' does not fit behind a statistic; write latency.p95",
    "latency.cpu-tensors": "the mode comes first: cpu-tensors.latency",
    "throughput.median": "throughput is one number and has no statistics, so 'median' does not fit; write throughput",
    "cpu-tensors.start.ready": "start.ready is of the whole run and has no mode",
    'stage."text.p95': "the quotes of \"text do not fit",
    "latency@batch": "@batch names no point",
    "latency@batch=8=9": "@batch=8=9 names no point",
    "latency@batch=8,batch=9": "batch has two values",
    "latency@a@b=1": "more than one @",
    "latency@best": "@best can be another point in each result, which only item_throughput allows",
    "latency@rate=0": "rate=0 is not possible; write a number above 0",
    "latency@concurrency=1.5": "concurrency=1.5 is not possible; write a whole number above 0",
}  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), [*EXAMPLES.items(), *MORE.items()])
def test_a_name_means_a_metric(text: str, meant: tuple[MetricName, str]) -> None:
    found = parse_metric(text)
    assert found == meant[0]
    assert found.text == (meant[1] or text)
    assert parse_metric(found.text) == found


def test_the_docs_and_the_module_have_the_same_examples() -> None:
    said = str(metric_names.__doc__)
    assert re.findall(r"^\| `(.*?)` \|", DOCS, re.MULTILINE) == list(EXAMPLES)
    assert said.split("Examples::")[1].split() == list(EXAMPLES)
    statistics = DOCS.partition("\nStatistics are ")[2].partition(";")[0]
    assert {*re.findall(r"`(\w+)`", statistics)} == {*GATED, "p50"}
    (block,) = re.findall(r"^```toml\n(.+?)^```", DOCS, re.MULTILINE | re.DOTALL)
    names = ['stage."image.encoder".p95', "latency.p99@rate=30"]
    assert [parse_metric(name).text for name in tomllib.loads(block)["metric"]] == names


@pytest.mark.parametrize(("text", "reason"), REFUSED.items())
def test_what_does_not_fit_is_told_in_a_line(text: str, reason: str) -> None:
    message = refusal(BadInput, parse_metric, text)
    assert message.startswith(f"--metric {text!r}: ")
    assert reason in message
    assert "\n" not in message
    assert len(message) < 200
