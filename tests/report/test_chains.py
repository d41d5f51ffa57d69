"""What is said of a chain: from scripted results."""

from __future__ import annotations

from ortbench.core.stats import Value
from ortbench.features.chain.analysis import crossing_ns, put_figures
from ortbench.features.chain.model import ChainLink
from ortbench.features.chain.page import link_costs, stage_times
from ortbench.features.chain.report import link_table, own_line, stage_table
from ortbench.report.markdown import markdown
from ortbench.report.run import build, mode_table
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


def test_the_interval_of_a_stage_is_by_processes() -> None:
    case = measured("cpu-tensors", latency=steady([10 * MS] * 9))
    case.samples["stage"] = [ns for ms in (2, 3, 2.5) for ns in [round(ms * MS), 8 * MS] * 3]
    case.blocks["stage"] = [[number, 2, 0] for number in range(9)]
    case.processes = [0, 3, 6]
    made = chain().part
    assert made is not None
    put_figures(case, made)
    low, high = case.stages["text"].ci95
    assert low < 2 * MS  # further than any sample
    assert high > 3 * MS


def test_each_stage_has_its_statistics() -> None:
    result = chain(STAYING)
    for case, medians in zip(result.cases, ([2 * MS, 8 * MS], [1 * MS, 5 * MS]), strict=True):
        assert case.stages is not None
        assert [(name, stats.n, stats.median) for name, stats in case.stages.items()] == [
            ("text", 18, medians[0]), ("image", 18, medians[1]),
        ]  # fmt: skip
        assert "copies" not in case.metrics
    assert "inference" not in result.cases[1].metrics  # a chain is no inference


def test_a_link_costs_all_its_copies() -> None:
    assert crossing_ns(STAYING) == 30 * US + 4 * 20 * US
    assert crossing_ns(CROSSING) == 20 * US
    assert crossing_ns({**STAYING, "h2d_ns": None}) is None
    assert crossing_ns({**STAYING, "downloads": 0, "uploads": 0, "d2h_ns": None, "h2d_ns": None}) == 0


def test_the_tables() -> None:
    result = chain(STAYING, CROSSING)
    assert [column.name for column in mode_table(result).columns] == [
        "mode", "chain", "speedup", "95% CI", "samples", "chains/s", "copied/chain",
    ]  # fmt: skip
    assert mode_table(result).groups == ((1, "intermediate tensors stay on the device"),)
    assert mode_table(result).rows == (
        ("cpu-tensors", "10.0", "1.00×", "–", "18", "100", "7.00 kB"),
        ("device-resident", "6.00", "1.67×", "1.67–1.67", "18", "167", "4.00 kB"),
    )
    found = stage_table(result)
    assert found.headings == ["stage", "mode", "time (ms)", "95% CI (ms)", "steps", "on"]
    place = "Some 1.0 on GPU Some 0001:0002"
    assert found.rows == (
        ("text", "cpu-tensors", "2.00", "2.00–2.00", "–", place),
        ("text", "device-resident", "1.00", "1.00–1.00", "–", place),
        ("image", "cpu-tensors", "8.00", "8.00–8.00", "4", place),
        ("image", "device-resident", "5.00", "5.00–5.00", "4", place),
    )
    assert link_table(result).rows == (
        ("text.condition → image.condition", "64.0 kB", "stays", "110 µs", "–"),
        ("text.mask → image.mask", "8 B", "copied", "20.0 µs", str(CROSSING["why"])),
    )
    assert own_line(result) == "chain of 2 stages and 2 links: text, image ×4"


def test_its_facts() -> None:
    assert keys(chain(STAYING, CROSSING)) == [
        ("residency", "faster", "device-resident"), ("stage", "slowest", "device-resident"), ("chain-link", "copied", ""),
    ]  # fmt: skip
    slowest = fact(chain(STAYING), "stage")
    assert (slowest.values["stage"], values(slowest)["time"], values(slowest)["chain"]) == ("image", 5 * MS, 6 * MS)
    link = fact(chain(STAYING, CROSSING), "chain-link")
    assert (link.values["from"], link.values["to"], values(link)["bytes"]) == ("text.mask", "image.mask", 8)


def test_what_brings_nothing_is_not_called_a_gain() -> None:
    for resident_ms in ((4, 8), (2, 8)):
        assert fact(chain(STAYING, resident_ms=resident_ms), "modes").verdict in ("none-faster", "same")
    made = chain(STAYING, resident_ms=(2, 8))
    there(made.case("device-resident")).speedup = Value(1.0, (0.9, 1.3))
    assert fact(made, "modes").verdict == "open"


def test_on_the_host_no_link_is_said_to_be_saved() -> None:
    inside: ChainLink = {**STAYING, "downloads": 0, "uploads": 0, "d2h_ns": None, "h2d_ns": None}
    result = chain(inside, stages=(stage("text", memory=HOST), stage("image", memory=HOST)))
    assert not any("on the device" in it for it in sentences(result))
    assert link_table(result).rows[0][2] == "in host memory"
    text = markdown(build(result))
    assert "on the device" not in text
    assert "intermediate tensors stay in place" in text


def test_names_of_stages_are_shown_as_text() -> None:
    result = chain({**STAYING, "from": "te\x1bxt.a"}, stages=(stage("te\x1bxt"), stage("image")))
    assert "\x1b" not in markdown(build(result))


def test_a_bar_is_cut_into_stages() -> None:
    found = stage_times(chain(STAYING))
    assert found is not None
    assert bars(found) == [
        ("cpu-tensors", [("text", 2 * MS), ("image", 8 * MS)], 10 * MS),
        ("device-resident", [("text", 1 * MS), ("image", 5 * MS)], 6 * MS),
    ]
    assert found.table.headings == ["mode", "text (ms)", "image (ms)", "sum (ms)", "chain (ms)"]
    assert found.table.rows == (
        ("cpu-tensors", "2.00", "8.00", "10.0", "10.0"), ("device-resident", "1.00", "5.00", "6.00", "6.00"),
    )  # fmt: skip
    assert stage_times(result_of(measured("cpu-tensors", latency=steady([MS] * 6)))) is None


def test_a_bar_for_each_link_that_is_copied() -> None:
    inside: ChainLink = {
        **STAYING,
        "from": "text.z",
        "downloads": 0,
        "uploads": 0,
        "d2h_ns": None,
        "h2d_ns": None,
    }
    found = link_costs(chain(CROSSING, STAYING, inside, {**STAYING, "from": "text.w", "h2d_ns": None}))
    assert found is not None
    assert found.table.rows == (
        ("text.condition → image.condition", "110 µs", "stays"), ("text.mask → image.mask", "20.0 µs", "copied"),
    )  # fmt: skip
    assert link_costs(chain(inside)) is None
