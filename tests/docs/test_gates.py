"""docs/compare.md#names-of-metrics names metrics as the parser reads them."""

from __future__ import annotations

import inspect
import re
import tomllib

import pytest

from ortbench.model import metric_names
from ortbench.model.kinds import kinds
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


def test_there_are_names_of_every_form() -> None:
    assert len(NAMES) >= 15
    found = [parse_metric(name) for name in NAMES]
    assert {it.mode is None for it in found} == {it.best for it in found} == {True, False}
    assert {bool(it.statistic) for it in found} == {bool(it.point) for it in found} == {True, False}


def test_every_statistic_is_said() -> None:
    said = SECTION.partition("\nStatistics are ")[2].partition(";")[0]
    assert set(re.findall(r"`(\w+)`", said)) == {*GATED, "p50"}


def test_the_names_in_toml_are_read() -> None:
    (block,) = re.findall(r"^```toml\n(.+?)^```", SECTION, re.MULTILINE | re.DOTALL)
    assert [parse_metric(name).text for name in tomllib.loads(block)["metric"]] == [
        'stage."image.encoder".p95',
        "latency.p99@rate=30",
    ]


def test_what_is_compared_and_gated_is_what_the_kinds_say() -> None:
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \| (.+?) \|$", PAGE.partition("\n## Metrics without `--metric`\n")[2], re.MULTILINE
    )[1:]
    views = [view for kind in kinds().values() for view in kind.views if view.compared]
    costs = re.findall(r"`(\w+)`", PAGE.partition("\nCosts are ")[2].partition(" as far")[0])
    said = [
        (
            re.findall(r"`([\w.]+)`", compared) + (costs if "costs" in compared else []),
            re.findall(r"`([\w.]+)`", gated),
        )
        for _, compared, gated in rows
    ]
    assert sorted(said) == sorted(
        ([_usual(it.text) for it in view.compared], [_usual(it.text) for it in view.gated]) for view in views
    )


def _usual(text: str) -> str:
    """A metric without the statistic that is meant anyway."""
    return text.removesuffix(".median").removesuffix(".mean")
