"""What is said of a chain: from scripted results."""

from __future__ import annotations

import pytest

from ortbench.core.stats import Value
from ortbench.features.chain.analysis import crossing_ns, put_figures
from ortbench.features.chain.model import ChainLink
from ortbench.features.chain.page import link_costs, stage_times
from ortbench.features.chain.report import link_table
from ortbench.report.records import markdown
from ortbench.report.run import build
from tests.expect import there
from tests.report.test_figures import bars
from tests.results import (
    CROSSING,
    HOST,
    MS,
    STAYING,
    US,
    chain,
    fact,
    keys,
    measured,
    result_of,
    sentences,
    stage,
    steady,
    values,
)

INSIDE: ChainLink = {**STAYING, "downloads": 0, "uploads": 0, "d2h_ns": None, "h2d_ns": None}
UNKNOWN: ChainLink = {**STAYING, "from": "text.w", "h2d_ns": None}


def test_the_interval_of_a_stage_is_by_processes() -> None:
    case = measured("cpu-tensors", latency=steady([10 * MS] * 9))
    case.samples["stage"] = [ns for ms in (2, 3, 2.5) for ns in [round(ms * MS), 8 * MS] * 3]
    case.blocks["stage"] = [[number, 2, 0] for number in range(9)]
    case.processes = [0, 3, 6]
    put_figures(case, chain().part)
    low, high = case.stages["text"].ci95
    assert low < 2 * MS < 3 * MS < high  # further than any sample


@pytest.mark.parametrize(
    ("link", "ns"), [(STAYING, 30 * US + 4 * 20 * US), (CROSSING, 20 * US), (UNKNOWN, None), (INSIDE, 0)]
)
def test_a_link_costs_all_its_copies(link: ChainLink, ns: float | None) -> None:
    assert crossing_ns(link) == ns


def test_links_stay_or_are_copied() -> None:
    assert link_table(chain(STAYING, CROSSING)).rows == (
        ("text.condition → image.condition", "64.0 kB", "stays", "110 µs", "–"),
        ("text.mask → image.mask", "8 B", "copied", "20.0 µs", str(CROSSING["why"])),
    )


def test_the_facts_of_a_chain() -> None:
    made = chain(STAYING, CROSSING)
    assert keys(made) == [
        ("residency", "faster", "device-resident"), ("stage", "slowest", "device-resident"), ("chain-link", "copied", ""),
    ]  # fmt: skip
    slowest, link = values(fact(made, "stage")), values(fact(made, "chain-link"))
    assert (slowest["stage"], slowest["time"], slowest["chain"]) == ("image", 5 * MS, 6 * MS)
    assert (link["from"], link["to"], link["bytes"]) == ("text.mask", "image.mask", 8)


def test_what_brings_nothing_is_not_called_a_gain() -> None:
    for resident_ms in ((4, 8), (2, 8)):
        assert fact(chain(STAYING, resident_ms=resident_ms), "modes").verdict in ("none-faster", "same")
    made = chain(STAYING, resident_ms=(2, 8))
    there(made.case("device-resident")).speedup = Value(1.0, (0.9, 1.3))
    assert fact(made, "modes").verdict == "open"


def test_on_the_host_no_link_is_said_to_be_saved() -> None:
    result = chain(INSIDE, stages=(stage("text", memory=HOST), stage("image", memory=HOST)))
    text = markdown(build(result))
    assert "on the device" not in " ".join([*sentences(result), text])
    assert link_table(result).rows[0][2] == "in host memory"
    assert "intermediate tensors stay in place" in text


def test_names_of_stages_are_shown_as_text() -> None:
    result = chain({**STAYING, "from": "te\x1bxt.a"}, stages=(stage("te\x1bxt"), stage("image")))
    assert "\x1b" not in markdown(build(result))


def test_a_bar_is_cut_into_stages() -> None:
    found = there(stage_times(chain(STAYING)))
    assert bars(found) == [
        ("cpu-tensors", [("text", 2 * MS), ("image", 8 * MS)], 10 * MS),
        ("device-resident", [("text", 1 * MS), ("image", 5 * MS)], 6 * MS),
    ]
    assert found.table.rows[0] == ("cpu-tensors", "2.00", "8.00", "10.0", "10.0")
    assert stage_times(result_of(measured("cpu-tensors", latency=steady([MS] * 6)))) is None


def test_a_bar_for_each_link_that_is_copied() -> None:
    inside: ChainLink = {**INSIDE, "from": "text.z"}
    assert there(link_costs(chain(CROSSING, STAYING, inside, UNKNOWN))).table.rows == (
        ("text.condition → image.condition", "110 µs", "stays"), ("text.mask → image.mask", "20.0 µs", "copied"),
    )  # fmt: skip
    assert link_costs(chain(inside)) is None
