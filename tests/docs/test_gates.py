"""docs/compare.md#names-of-metrics names metrics as the parser reads them."""

from __future__ import annotations

import inspect
import re
import tomllib

import pytest

from ortbench.model import metric_names
from ortbench.model.metric_names import parse_metric
from ortbench.model.metrics import GATED
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Names of metrics\n")[2].partition("\n## ")[0]
NAMES = re.findall(r"^\| `([^`]+)` \|", SECTION, re.MULTILINE)
GRAMMAR = re.findall(r"^```text\n(.+?)^```", SECTION, re.MULTILINE | re.DOTALL)


def test_the_grammar_is_the_parsers() -> None:
    (shown,) = GRAMMAR
    assert shown.split() == [
        word
        for line in inspect.cleandoc(metric_names.__doc__ or "").splitlines()
        if re.match(r"    \w+ +=", line)
        for word in line.split()
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_one(name: str) -> None:
    full = parse_metric(name).text
    assert parse_metric(full).text == full


def test_every_statistic_is_said() -> None:
    said = SECTION.partition("\nStatistics are ")[2].partition(";")[0]
    assert set(re.findall(r"`(\w+)`", said)) == {*GATED, "p50"}


def test_the_names_in_toml_are_read() -> None:
    (block,) = re.findall(r"^```toml\n(.+?)^```", SECTION, re.MULTILINE | re.DOTALL)
    assert [parse_metric(name).text for name in tomllib.loads(block)["metric"]] == [
        'stage."image.encoder".p95',
        "latency.p99@rate=30",
    ]
