"""The catalogue of metrics: that it is whole and can be told apart, how figures are printed, and what is not known."""

from __future__ import annotations

import re

import pytest

from ortbench.model import metrics
from ortbench.model.kinds import axes
from ortbench.model.metrics import (
    FAMILIES,
    GATED,
    METRICS,
    NAME,
    STATISTICS,
    Figure,
    Unit,
    figure,
    known_or_plain,
    metric,
)
from ortbench.model.modes import ALL_MODES
from tests.conftest import ROOT
from tests.docs.test_links import anchors_of

# Those that results of version 2 have.
NEEDED = """latency h2d inference d2h enqueue cpu_time loop step first_step chain throughput item_throughput item_time bytes_h2d
bytes_d2h copies device_memory host_memory energy cpu_cores queue_delay service_time generator_lag late_share gil_wait fairness
utilisation outputs.sqnr start.ready stage.NAME link.NAME"""
# A unit and a figure: alone, in a table, and the table's heading.
PRINTED = [
    (metrics.TIME, 4_210_000, "4.21 ms", "4210", "µs"),
    (metrics.SIZE, 24_900_000, "24.9 MB", "24.9 MB", ""),
    (metrics.INFERENCES, 1240, "1.24k inferences/s", "1.24k", "inf/s"),
    (metrics.ENERGY, 0.00421, "4.21 mJ", "4.21 mJ", ""),
    (metrics.SHARE, 0.58, "58.0%", "58.0%", ""),
    (metrics.RATIO, 1.234, "1.23×", "1.23×", ""),
    (metrics.INDEX, 0.987, "0.987", "0.987", ""),
    (metrics.CORES, 1.987, "1.99 cores", "1.99", "cores"),
    (metrics.CLOCK, 1410, "1410 MHz", "1410", "MHz"),
    (metrics.DECIBEL, 41.26, "41.3 dB", "41.3", "dB"),
    (metrics.NUMBER, 0.0000000745, "7.45e-08", "7.45e-08", ""),
    (metrics.PLAIN, 0.00412, "0.00412", "0.00412", ""),
]


def test_the_catalogue_has_what_results_have_and_each_once() -> None:
    assert set(NEEDED.split()) <= METRICS.keys()
    assert len(METRICS) == len(metrics._CATALOGUE)
    assert len({it.title for it in METRICS.values()}) == len(METRICS)
    also = [word.lower() for it in METRICS.values() for word in it.also]
    assert len(set(also)) == len(also)


def test_no_word_of_a_name_means_two_things() -> None:
    parts = [*ALL_MODES, *(key for key in METRICS if NAME not in key), *FAMILIES, *STATISTICS]
    assert len(set(parts)) == len(parts)
    assert not METRICS.keys() & axes().keys()
    assert set(GATED) < set(STATISTICS)


@pytest.mark.parametrize("it", METRICS.values(), ids=METRICS)
def test_an_entry_says_what_it_is(it: metrics.Metric) -> None:
    assert re.fullmatch(r"[a-z0-9_]+(\.([a-z0-9_]+|NAME))?", it.key)
    assert it.of_mode == ("." not in it.key or NAME in it.key)
    assert 1 <= len(re.findall(r"\.(?: |$)", it.meaning)) <= 2
    assert it.meaning.endswith(".")
    assert it.meaning[0].isupper()
    page, _, anchor = it.docs.partition("#")
    assert not anchor or anchor in anchors_of(ROOT / "docs" / page)
    assert (ROOT / "docs" / page).is_file()


@pytest.mark.parametrize(("unit", "value", "alone", "cell", "heading"), PRINTED)
def test_a_unit_prints_its_figures(unit: Unit, value: float, alone: str, cell: str, heading: str) -> None:
    assert unit.text(value) == alone
    found, printed = unit.column([9e5 if unit is metrics.TIME else value])
    assert (found, printed(value)) == (heading, cell)


@pytest.mark.parametrize("key", ["", "total", "stage", "stage.", "latency.p95", "outputs.psnr"])
def test_what_is_not_known_is_refused_or_plain(key: str) -> None:
    stage = metric("stage.image.encoder")  # of a family any name is known
    assert (stage.title, stage.unit, stage.usual) == ("stage image.encoder", metrics.TIME, "median")
    with pytest.raises(KeyError):
        metric(key)
    plain = known_or_plain(key)
    assert (plain.key, plain.title, plain.better, plain.unit.text(1234.5)) == (key, key, "none", "1230")
    assert known_or_plain("latency") is METRICS["latency"]


@pytest.mark.parametrize(
    ("text", "meant"),
    [("latency.p99", ("latency", "p99")), ("latency", ("latency", "median")), ("latency.n", ("latency", "n")), ("energy", ("energy", "")),
     ("outputs.sqnr", ("outputs.sqnr", "")), ("stage.NAME", ("stage.NAME", "median"))],
)  # fmt: skip
def test_a_figure_is_a_metric_and_its_statistic(text: str, meant: tuple[str, str]) -> None:
    assert figure(text) == Figure(*meant)
