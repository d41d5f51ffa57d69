"""How loads, loops, chains and sweeps are shown: in a terminal, as Markdown, on a page, and to other programs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from ortbench.analysis.items import put_throughput
from ortbench.features.chain.analysis import put_figures
from ortbench.features.chain.model import ChainLink
from ortbench.features.chain.report import link_table
from ortbench.features.junit.report import outcomes_of_run
from ortbench.features.load.analysis import load_cases
from ortbench.features.load.report import closed_table, open_table
from ortbench.features.page.report.page import build_page
from ortbench.features.services.report import action_json
from ortbench.features.sweep.analysis import best_of
from ortbench.features.sweep.report import mode_table
from ortbench.model.metric_names import Slo
from ortbench.model.result import UNSUPPORTED, Case, Result
from ortbench.model.result_file import load
from ortbench.report import run
from ortbench.report.model import Table
from ortbench.report.records import markdown
from ortbench.report.run import build
from tests.analysis.test_sweep import sweep_result
from tests.conftest import ROOT
from tests.expect import there
from tests.report.test_terminal import shown
from tests.results import (
    CROSSING,
    HOST,
    MS,
    STAYING,
    US,
    chain,
    closed,
    decoding,
    drawing,
    fact,
    failed_level,
    generating,
    hosted,
    load_result,
    loop_case,
    loop_result,
    measured,
    noise_of,
    opened,
    paced,
    sentences,
    serving,
    slo_rate,
    stage,
    steady,
    stored,
    values,
)

# Loads


def cells(table: Table, *columns: str) -> list[tuple[str, ...]]:
    at = [[it.name for it in table.columns].index(name) for name in columns]
    return [tuple(row[number] for number in at) for row in table.rows]


def test_rows_of_closed_and_open_loops() -> None:
    names = ("mode", "clients", "inf/s", "95% CI", "latency", "p99", "CPU cores", "GIL wait", "Jain's fairness index")
    rows = cells(closed_table(serving()), *names)
    assert rows[2] == ("cpu-tensors", "4", "388", "384–392", "10.3", "20.6", "2.00", "1.00%", "1.00")
    of_rates = ("rate", "latency", "p99", "SLO", "mean queue delay", "service time", "utilisation", "late share")
    assert cells(open_table(paced()), *of_rates, "SM clock") == [
        ("back to back", "3.00", "–", "–", "–", "–", "–", "–", "1725 MHz"),
        ("10/s", "7.30", "12.0", "met", "100 µs", "7.20", "7.20%", "0%", "210 MHz"),
        ("30/s", "3.30", "14.0", "met", "100 µs", "3.20", "9.60%", "3.00%", "–"),
        ("90/s", "900", "1900", "violated", "saturated", "3.20", "100%", "0%", "–"),
    ]


def test_what_noise_may_have_made_of_an_slo_is_marked_in_the_tables() -> None:
    result = paced()
    result.noise = noise_of(2, 1.0, [0.4] * 8)
    assert cells(open_table(result), "SLO", "mean queue delay")[2:] == [("met", "100 µs"), ("violated?", "saturated?")]


def test_whether_rates_meet_an_slo() -> None:
    cases: list[tuple[tuple[Any, ...], list[str]]] = [
        (("unclear", "passed", "failed"), ["met", "met", "violated"]),  # what meets it at a rate does so at lower ones
        (("passed", "unclear", "unclear"), ["met", "cannot tell", "cannot tell"]),
    ]
    for verdicts, expected in cases:
        points = [opened("cpu-tensors", rate, 5.0) for rate in (10, 20, 30)]
        for point, verdict in zip(points, verdicts, strict=True):
            point.checks["slo"] = {"verdict": verdict}
        assert [slo for (slo,) in cells(open_table(load_result(*points, slo={"p99": 20 * MS})), "SLO")] == expected


def test_a_level_whose_outputs_are_wrong_keeps_its_figures() -> None:
    wrong = closed("cpu-tensors", 4, 400, 10.0)
    wrong.status, wrong.reason = "failed", "output y of client 2 differs"
    text = markdown(build(load_result(closed("cpu-tensors", 1, 100, 10.0), wrong)))
    assert "| cpu-tensors (failed) | 4 | 400 | 396–404 | " in text
    assert "- cpu-tensors with 4 clients failed: output y of client 2 differs\n" in text


def test_ci_systems_read_of_load_points() -> None:
    points = (closed("cpu-tensors", 4, 400, 10.0), failed_level(closed("cpu-tensors", 8, 1, 1.0)))
    result = load_result(*points, opened("cpu-tensors", 30, 5.0))
    result.cases.append(Case("host-accessible", UNSUPPORTED, "no HOST_ACCESSIBLE memory"))
    found = [(it.name, it.verdict, it.text.partition(", of")[0], it.seconds) for it in outcomes_of_run(result)]
    assert found == [
        ("host-accessible", "skipped", "no HOST_ACCESSIBLE memory", 0.0),
        ("cpu-tensors with 4 clients", "passed", "400 inferences/s (95% CI 396 to 404), p50 10.0 ms, p99 20.0 ms", 0.01),
        ("cpu-tensors with 8 clients", "error", "the worker was ended by SIGSEGV", 0.0),
        ("cpu-tensors at 30 requests/s", "passed", "30.0 inferences/s (95% CI 29.7 to 30.3), p50 5.00 ms, p99 10.0 ms", 0.005),
    ]  # fmt: skip
    entries = json.loads(action_json([result]))
    on = " on SomeExecutionProvider (GPU Some GPU): cpu-tensors"
    assert [(it["name"].replace(on, ""), it["value"]) for it in entries] == [
        ("m.onnx (concurrency=4) time per inference", 2.5), ("m.onnx (concurrency=4) latency", 10.0),
        ("m.onnx (concurrency=4) latency.p99", 20.0), ("m.onnx (rate=30) latency.p99", 10.0), ("m.onnx (rate=30) latency", 5.0),
    ]  # fmt: skip
    assert entries[0]["range"] == "± 0.025253"


def test_the_marks_of_the_pictures() -> None:
    both, slo = [*load_cases(serving()), *load_cases(paced())], {"p99": 20 * MS}
    text = build_page([load_result(*both, slo=slo, found={"device-tensors": slo_rate(70.0, 74.0)})], ["m"])
    for mark in (
        ">SLO: p99 ≤ 20 ms<",
        "cpu-tensors: the knee, 4 clients",
        "device-tensors: the knee, 2 clients",
        ">saturated<",
        "device-tensors: p99 12.0 ms at 10 requests/s to 1.90 s at 90 requests/s",
        "device-tensors: p99 ≤ 20 ms up to 70 requests/s",
    ):
        assert mark in text, mark


# Loops


def test_a_loop_that_generates_has_tokens() -> None:
    lines = shown(build, generating(), width=200)
    assert lines[1].startswith(
        "generation: 100 prompt tokens (pp100), 8 generated tokens (tg8); random prompt, argmax on the host;"
    )
    assert lines[1].endswith("cache of fixed length: present → past (named by genai_config.json)")
    table = [line for line in lines if line.startswith(("mode", "cpu-tensors ", "shared "))][:3]
    assert [line.split()[:9] for line in table] == [
        ["mode", "TTFT", "ITL", "ITL", "p95", "ITL", "p99", "prefill", "tokens/s"],
        ["cpu-tensors", "50.0", "5.00", "5.00", "5.00", "2.00k", "200", "3.00", "µs"],
        ["shared", "50.0", "2.00", "2.00", "2.00", "2.00k", "500", "3.00", "µs"],
    ]
    assert not any(word in " ".join(lines) for word in ("first step", "steps/s", "ortbench code"))


def test_a_loop_shows_its_growth_its_curve_and_the_bytes_of_a_step() -> None:
    for first, curve, copied in ((False, "▇▇▇█████", "16.2 kB to 30.2 kB"), (True, "▇▇█████", "18.2 kB to 30.2 kB")):
        rows = cells(run.mode_table(decoding(first)), "growth per step", "by step", "copied/step")
        assert rows == [("+10.0 µs", curve, copied), ("–", "▁" * len(curve), "200 B")]


def test_a_growth_of_nothing_that_counts_is_left_out() -> None:
    for us, is_told in ((2, False), (3, True)):  # in all 1.6 % of a step, and 2.4 %
        made = loop_result(loop_case("cpu-tensors", [1 * MS + us * US * step for step in range(8)]))
        made.cases[0].set_metric("step_growth", us * US, derived=True)
        assert (f"+{us}.00 µs" in markdown(build(made))) is is_told


def test_ci_systems_read_of_loops_and_steps() -> None:
    entries = json.loads(action_json([decoding()]))
    label = "m.onnx on SomeExecutionProvider (GPU Some GPU): "
    found = [(it["name"].removeprefix(label), it["value"], it["extra"].partition(",")[0]) for it in entries]
    assert found[:2] == [
        ("cpu-tensors loop", 8.28, "median of 20 loops of 8 steps"),
        ("cpu-tensors step", 1.035, "median of 160 steps"),
    ]
    first = outcomes_of_run(decoding())[0]
    assert first.text == "8.28 ms (95% CI 8.28 ms to 8.28 ms), median of 20 loops of 8 steps"
    assert first.seconds == 0.00828


# Chains


INSIDE: ChainLink = {**STAYING, "downloads": 0, "uploads": 0, "d2h_ns": None, "h2d_ns": None}


def test_the_interval_of_a_stage_is_by_processes() -> None:
    case = measured("cpu-tensors", latency=steady([10 * MS] * 9))
    case.samples["stage"] = [ns for ms in (2, 3, 2.5) for ns in [round(ms * MS), 8 * MS] * 3]
    case.blocks["stage"] = [[number, 2, 0] for number in range(9)]
    case.processes = [0, 3, 6]
    put_figures(case, chain().part)
    low, high = case.stages["text"].ci95
    assert low < 2 * MS < 3 * MS < high  # further than any sample


def test_links_stay_or_are_copied_and_cost_all_their_copies() -> None:
    assert link_table(chain(STAYING, CROSSING)).rows == (
        ("text.condition → image.condition", "64.0 kB", "stays", "110 µs", "–"),  # 30 µs and four of 20
        ("text.mask → image.mask", "8 B", "copied", "20.0 µs", str(CROSSING["why"])),
    )
    copied = {"from": "text.mask", "to": "image.mask", "bytes": 8, "why": CROSSING["why"]}
    assert values(fact(chain(STAYING, CROSSING), "chain-link")) == copied


def test_on_the_host_no_link_is_said_to_be_saved_and_names_of_stages_are_text() -> None:
    result = chain(INSIDE, stages=(stage("te\x1bxt", memory=HOST), stage("image", memory=HOST)))
    text = markdown(build(result))
    assert "on the device" not in " ".join([*sentences(result), text])
    assert "\x1b" not in text
    assert link_table(result).rows[0][2] == "in host memory"
    assert "intermediate tensors stay in place" in text


# Sweeps


LIMIT = Slo("p99", 1_300 * US)
SWITCHING = ROOT / "reports/gpu-h100-2/switching/result.json"


def by_bytes() -> Result:
    made = sweep_result(slo=LIMIT)
    made.own["shapes"] = [replace(it, items=None) for it in made.shapes]
    made.own["best"] = best_of(made, LIMIT)
    return made


def test_the_column_best_has_a_word_for_every_shape() -> None:
    for result, words in (
        (stored("sweep"), ["worse", "worse", "best"]),
        (sweep_result({"cpu-tensors": {1: 100, 2: 200, 4: 480}}), ["as good", "as good", "worse"]),
        (load(SWITCHING), ["worse", "cannot tell", "cannot tell"]),  # whose best shape may be another one
        (
            replace(sweep_result({"cpu-tensors": {1: 100, 8: 780}}), noise=noise_of(2, 1.0, [0.5] * 40)),
            ["cannot tell"] * 2,
        ),
        (by_bytes(), ["smaller", "best", "SLO violated"]),
    ):
        rows = cells(mode_table(result), "mode", "best")
        assert [word for mode, word in rows if mode == "cpu-tensors"] == words


def test_ci_systems_read_of_each_shape_and_mode() -> None:
    made = sweep_result(failed={2: "no memory"})
    outcomes = [(it.name, it.verdict, it.text) for it in outcomes_of_run(made)]
    assert [it[:2] for it in outcomes[:2]] == [
        ("batch=1: cpu-tensors", "passed"),
        ("batch=1: device-resident", "passed"),
    ]
    assert outcomes[2] == ("batch=2: cpu-tensors", "error", "no memory")
    entries = [(it["name"].partition("(")[2].partition(")")[0], it["value"]) for it in json.loads(action_json([made]))]
    assert entries == [("batch=1", 1.0), ("batch=1", 0.5), ("batch=4", 1.6), ("batch=4", 1.5)]


def test_what_shapes_cost_besides_time_is_a_table_of_its_own() -> None:
    made = stored("sweep")
    first, second, third = (there(made.case("cpu-tensors", {"batch": batch})) for batch in (1, 2, 4))
    hosted(first, 10, 1_000, 400, 100, still=(200, 1, 0))
    put_throughput(drawing(second, 0.5), {"count": 2, "dim": "batch"})
    third.own["energy"] = {"unsupported": "no counter"}
    text = markdown(build(made))
    part = text.partition("## Resource usage: by shape\n")[2].partition("• best")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.splitlines() if line.startswith("|")]
    assert rows[0] == ["mode", "shape", "CPU time", "spinning", "CPU time, no spin", "energy", "power", "items/J"]
    assert rows[2:] == [
        ["cpu-tensors", "batch=1", "500 ns", "≈60.0%", "200 ns", "–", "–", "–"],
        ["cpu-tensors", "batch=2", "–", "–", "–", "500 mJ", "214 W", "4.00"],
        ["cpu-tensors", "batch=4", "–", "–", "–", "–", "–", "–"],
    ]
    assert "batch=4 with cpu-tensors: energy is unsupported: no counter" in part
