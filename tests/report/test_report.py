"""The report: tables and sentences of scripted results, word for word."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ortbench.core import units
from ortbench.core.stats import Value
from ortbench.features.page.report.page import build_page
from ortbench.model.result import FAILED, UNSUPPORTED, Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import Stopped
from ortbench.report.comparison import tables
from ortbench.report.markdown import markdown, table_lines
from ortbench.report.model import NOTHING, Column, Table
from ortbench.report.phrases import heading
from ortbench.report.run import build, measured_cases, mode_table, split_legend, splits
from ortbench.report.terminal import stack_columns
from tests.conftest import ROOT
from tests.results import (
    MS,
    US,
    case,
    copying,
    fact,
    keys,
    measured,
    nvidia_result,
    once,
    profiled,
    published,
    result_of,
    sentences,
    steady,
    values,
    with_bytes,
    with_failures,
)


def rows(made: Result) -> list[tuple[str, ...]]:
    return list(mode_table(made).rows)


def cells(made: Result, row: int, *names: str) -> list[str | None]:
    """Cells of a row by their columns' names; None where the table lacks the column."""
    table = mode_table(made)
    by_name = dict(zip((column.name for column in table.columns), table.rows[row], strict=True))
    return [by_name.get(name) for name in names]


# Four modes on a device


def test_the_two_speedups_of_the_published_sample() -> None:
    assert keys(published()) == [
        ("copies", "measured", "cpu-tensors"), ("replacement", "faster", "host-accessible"), ("residency", "faster-on-top", "device-resident"),
        ("zero-copy", "verified", "host-accessible"),
    ]  # fmt: skip


# Host memory


def on_host() -> Result:
    """The CPU EP: nothing is copied to a device."""
    cpu = case("cpu-tensors", ratio=(1.0, 1.0, 1.0), latency=20 * US)
    device = case("device-tensors", ratio=(0.95, 0.9, 1.1), h2d=1 * US, inference=19 * US, d2h=1_500, latency=21 * US)
    with_bytes(device, 4_000, 4_100)
    resident = case("device-resident", ratio=(1.11, 1.08, 1.13), inference=18 * US, latency=18 * US)
    once(resident, 1 * US, 2 * US)
    shared = case("host-accessible", ratio=(1.1, 1.05, 1.12), inference=18 * US, latency=18 * US)
    shared.checks["zero_copy"] = {
        "verdict": "passed",
        "how": "the EP computes in host memory, at the addresses that were bound",
    }
    return nvidia_result(
        cpu,
        device,
        resident,
        shared,
        ep="CPUExecutionProvider",
        ep_version=None,
        device={"type": "CPU", "name": "cpu", "index": 0},
        memory={"kind": "host", "default": "host memory", "host_accessible": None},
        sync={"kind": "run", "cost_ns": 0, "how": "seen"},
    )


def test_on_host_memory_copies_are_said_to_stay_in_it() -> None:
    assert "| *tensors stay in place* |" in markdown(build(on_host()))
    alone = on_host()
    del alone.cases[1]
    assert "copied/inf" not in markdown(build(alone)), "no mode that is left copies anything"
    assert "Copy bandwidth by size" not in build_page([on_host()], ["m"])


def test_a_table_of_results_does_not_deny_what_noise_hides() -> None:
    both = [
        case(name, latency=ns, ratio=(1.0, 1.0, 1.0))
        for name, ns in (("cpu-tensors", 5 * MS), ("host-accessible", 10 * MS))
    ]
    both[1].speedup, both[1].noisy = Value(1.5, (1.4, 1.6)), True
    busy = nvidia_result(*both)
    page = build_page([busy, published()], ["a", "b"])
    assert "<td>cannot tell</td>" in page
    assert "none measurably more than 2% faster" not in page


def test_on_host_memory_it_is_about_latency_and_what_to_do() -> None:
    assert keys(on_host()) == [
        ("replacement", "faster-open", "host-accessible"), ("latency", "known", "cpu-tensors"), ("residency", "open-to-other", "device-resident"), ("zero-copy", "verified", "host-accessible"),
    ]  # fmt: skip
    assert fact(on_host(), "latency").next == "ortbench run m.onnx --ep some --intra-op-threads 1,2,4"
    made = on_host()
    for it, within in zip(made.cases[1:], [(0.97, 1.02), (0.99, 1.02), (0.98, 1.01)], strict=True):
        it.speedup = Value(1.0, within)
    assert fact(made, "modes").verdict == "none-faster"  # 18 and 21 µs
    for it in made.cases:
        it.metrics["latency"] = made.cases[0].metrics["latency"]
    made.cases[1].speedup = made.cases[3].speedup = Value(1.0, (0.99, 1.01))
    assert fact(made, "modes").verdict == "same"
    made.cases[1].speedup = Value(1.0, (0.9, 1.1))  # which may be faster, or slower
    assert (fact(made, "modes").verdict, fact(made, "modes").next) == ("open", "")
    assert values(fact(made, "modes"))["most"] == 1.1
    made.cases[1].speedup = Value(1.0, (0.9, 1.11))
    assert (fact(made, "modes").verdict, fact(made, "modes").next) == ("open", "")
    made.stopped = {"reason": "duration", "value": 5.0, "per": "mode"}
    assert fact(made, "modes").next == "ortbench run m.onnx --ep some --duration 20s"
    made.cases[1].processes = [0, 1, 2, 3, 4]  # each of which is one observation
    assert fact(made, "modes").next == "ortbench run m.onnx --ep some --processes 15"
    made.target["intra_op_threads"] = 2
    assert fact(made, "latency").next == "ortbench run m.onnx --ep some --measure-nodes"


def test_a_gain_of_two_percent_is_no_reason_to_rewrite_a_program() -> None:
    made = on_host()
    made.cases[3].speedup = Value(1.01, (1.0052, 1.0148))
    made.cases[2].speedup = Value(1.013, (1.0108, 1.0139))
    made.cases[1].speedup = Value(0.965, (0.96, 0.972))
    assert (fact(made, "modes").verdict, values(fact(made, "modes"))["most"]) == ("none-faster", 1.0148)
    assert cells(made, 3, "speedup", "95% CI") == ["1.013×", "1.011–1.014"]
    faster = published()
    faster.cases[3] = case("host-accessible", ratio=(2.39, 2.3, 2.5), latency=3_010 * US)
    assert fact(faster, "residency").verdict == "open-to-other"


def test_what_is_not_verified_as_zero_copy_is_not_said_to_copy_nothing() -> None:
    made = published()
    shared = with_bytes(made.cases[3], 0, 0)
    assert mode_table(made).rows[2][-2:] == ("0", "–")
    shared.checks["zero_copy"]["verdict"] = "unclear"
    assert mode_table(made).rows[2][-2:] == ("–", "–")


def test_what_session_run_does_besides_copying_is_not_called_copies() -> None:
    """As on a software GPU, where a tiny model's copies take 4 of the 30 µs by which cpu-tensors takes longer."""
    made = published()
    for low, verdict in ((1.7, "mixed"), (1.4, "measured")):
        made.cases[1].speedup = Value(1.8, (low, 1.9))
        assert fact(made, "copies").verdict == verdict


def test_copies_that_take_little_for_certain_are_not_called_none() -> None:
    made = published(ratio=(1.013, 1.01, 1.016))
    made.cases = [made.cases[0], made.cases[2]]
    assert keys(made)[:2] == [("copies", "measured", "cpu-tensors"), ("modes", "none-faster", "")]
    assert not any("ortbench code" in it for it in sentences(made))


# Modes that gave nothing, or too little


def test_nothing_was_measured() -> None:
    made = nvidia_result(Case("cpu-tensors", FAILED, "no"), Case("device-tensors", UNSUPPORTED, "never"), sync=None)
    made.stopped = None
    table = mode_table(made)
    assert (table.rows, table.unit) == ((), "")
    assert sentences(made) == []
    assert markdown(build(made)) == (
        "# ortbench: m.onnx\n"
        "\n"
        "m.onnx (x: 1x3, s: scalar)  \n"
        "SomeExecutionProvider 0.4 on GPU Some GPU, ONNX Runtime 1.28.0; memory of the EP: Some and SomeShared  \n"
        "\n"
        "- cpu-tensors failed: no\n"
        "- device-tensors unsupported: never\n"
        "\n"
        "`ortbench run m.onnx --ep some`\n"
    )


@pytest.mark.parametrize(
    ("n", "p95", "p99"),
    [
        (1, NOTHING, NOTHING),
        (19, NOTHING, NOTHING),
        (20, "2.20", NOTHING),
        (99, "2.20", NOTHING),
        (100, "2.20", "2.40"),
    ],
)
def test_percentiles_need_samples_beyond_them(n: int, p95: str, p99: str) -> None:
    made = nvidia_result(case("cpu-tensors", n=n, latency=2 * MS), case("device-tensors", n=200, latency=2 * MS))
    assert cells(made, 0, "latency", "p95", "p99", "samples") == ["2.00", p95, p99, str(n)]


def test_columns_in_which_nothing_stands_are_left_out() -> None:
    table = mode_table(nvidia_result(case("cpu-tensors", n=3, ratio=(1.0, 1.0, 1.0), latency=2 * MS)))
    assert [column.name for column in table.columns] == ["mode", "latency", "samples", "inf/s", "copied/inf"]
    assert table.rows == (("cpu-tensors", "2.00", "3", "500", "0"),)
    assert table.bars == []  # nothing is shared out, and nothing stands beside it
    device = case("device-tensors", h2d=1 * MS, inference=1 * MS, d2h=1 * MS, latency=3 * MS)
    assert len(mode_table(nvidia_result(device)).bars) == 1


def test_runs_are_the_inferences_that_were_timed() -> None:
    """Of modes that make several in a call too."""
    burst, filled = case("device-resident-async", n=20, latency=MS), case("pipelined", n=7, latency=MS)
    burst.inferences_per_sample, filled.inferences_per_sample = 100, 3
    made = nvidia_result(burst, filled, Case("cpu-tensors", FAILED, "no"))
    assert [cells(made, row, "samples") for row in (0, 1)] == [["21"], ["2000"]]


def test_parts_that_do_not_add_up_to_the_latency_are_no_breakdown_and_no_copies() -> None:
    """Each part is timed with a synchronization of its own: within a tenth of the latency they say what it consists of."""
    for parts, shown in [((3, 1, 1), True), ((3, 1, 2), False), ((2, 1, 1), False)]:
        h2d, inference, d2h = (it * MS for it in parts)
        device = case("device-tensors", h2d=h2d, inference=inference, d2h=d2h, latency=5 * MS)
        device.set_metric("copies", h2d + d2h, derived=True)
        table = mode_table(nvidia_result(case("cpu-tensors", latency=5 * MS), device))
        assert len(table.bars[1]) == (3 if shown else 1)
        assert ("copies" in [column.name for column in table.columns]) is shown
    for stored, rows in (("copy_bound-openvino", 1), ("gpu-h100-webgpu/transformer", 1), ("copy_bound-cuda-h100", 0)):
        made = load(ROOT / "reports" / stored / "result.json")
        whole = [
            it.mode
            for it, bar in zip(measured_cases(made), splits(made), strict=True)
            if it.median("h2d") and len(bar) == 1
        ]
        assert len(whole) == rows


def test_modes_of_several_inferences_in_a_call_have_a_rate_and_no_latency() -> None:
    table = mode_table(load(ROOT / "reports" / "gpu-h100" / "copy_4k" / "result.json"))
    names = [column.name for column in table.columns]
    known = {row[0]: [row[names.index(it)] for it in ("latency", "inf/s")] for row in table.rows}
    assert known["pipelined"] == ["–", "449"]
    assert known["device-resident-async"] == ["–", "4.33k"]
    assert known["device-resident"] == ["0.246", "4.06k"]


# What cannot be told apart


def test_copies_that_cannot_be_measured() -> None:
    """The interval of the ratio holds 1: whatever the medians say, nothing is claimed."""
    for high, verdict in ((1.03, "little"), (1.06, "open")):
        made = published(ratio=(1.01, 0.99, high))
        made.cases = [made.cases[0], made.cases[2]]
        assert keys(made) == [("modes", verdict, "")]
    made = published(ratio=(1.01, 0.99, 1.02))
    made.cases = [made.cases[0], made.cases[2]]
    assert keys(made) == [("copies", "none", "cpu-tensors"), ("modes", "none-faster", "")]
    assert fact(made, "modes").next == "ortbench run m.onnx --ep some --measure-nodes"
    made.nodes = profiled()
    assert fact(made, "modes").next == "ortbench tune m.onnx"


def test_an_interval_that_touches_one_is_not_a_difference() -> None:
    made = published(ratio=(1.2, 1.0, 1.4))
    made.cases = [made.cases[0], made.cases[2]]
    assert keys(made) == [("modes", "open", "")]  # nor is it none


def test_bytes_that_are_not_known() -> None:
    made = published()
    made.cases[1].set_metric("bytes_h2d", None)
    made.cases[3].set_metric("bytes_d2h", None)
    assert [cells(made, row, "copied/inf") for row in (1, 2)] == [[NOTHING], [NOTHING]]


def test_what_is_faster_for_certain_is_named_before_a_greater_ratio() -> None:
    made = published(ratio=(1.13, 1.03, 1.40))
    assert made.cases[1].speedup is not None
    made.cases[1].speedup = Value(1.16, (0.76, 1.41))
    made.cases = made.cases[:3]
    assert keys(made)[1:3] == [("replacement", "open", "device-tensors"), ("residency", "faster", "device-resident")]


def test_too_few_blocks_for_an_interval() -> None:
    made = published(ratio=(2.4,))
    made.cases = [made.cases[0], made.cases[2]]
    assert keys(made) == [
        ("residency", "few-samples", "device-resident"),
    ]
    assert fact(made, "residency").next == "ortbench run m.onnx --ep some --precision 0"
    made.stopped = {"reason": "iterations", "value": 20, "per": "mode"}
    made.command = ["ortbench", "run", "m.onnx", "--iterations", "20", "--ep", "some"]
    assert fact(made, "residency").next == "ortbench run m.onnx --ep some"
    assert cells(made, 1, "speedup", "95% CI") == ["2.40×", None]


def test_copies_that_seem_to_take_less_than_nothing() -> None:
    made = published(ratio=(0.98, 0.95, 1.01))
    cpu = made.cases[0]
    copying(cpu, -100 * US, 7_300 * US)
    made.cases = [cpu, made.cases[2]]
    assert rows(made)[0] == (
        "cpu-tensors", "7.20", "7.92", "8.64", "1.00×", "–", "200", "≈7.30", "≈0", "139", "≈50.0 MB",
    )  # fmt: skip
    assert fact(made, "copies").verdict == "none"


@pytest.mark.parametrize("ratio", [1.05, 1.06, 3.0])
def test_without_an_interval_no_copies_are_claimed(ratio: float) -> None:
    assert "copies" not in [code for code, *_ in keys(published(ratio=(ratio,)))]


def test_zero_copy_that_is_not_proved_is_told() -> None:
    made = published()
    made.cases[3].checks["zero_copy"] = {
        "verdict": "unclear",
        "how": "the outputs are at the bound addresses, but noise",
    }
    assert keys(made)[-1] == ("zero-copy", "not-verified", "host-accessible")


def test_without_cpu_nothing_is_compared() -> None:
    made = published()
    made.cases = made.cases[2:]
    for without in made.cases:
        without.speedup = None
    assert keys(made) == [("zero-copy", "verified", "host-accessible")]
    assert cells(made, 0, "speedup", "95% CI", "copied/inf", "copy rate") == [None, None, "0", None]


# Headings


WAITS = "synchronization (verified): synchronize_outputs() waits, 2.30 µs; "
NVIDIA = {"type": "GPU", "vendor": "NVIDIA", "vendor_id": 0x10DE, "device_id": 0x2335}
IN_MEMORY: dict[str, Any] = {"default": "Some", "host_accessible": None}


@pytest.mark.parametrize(
    ("target", "line", "text"),
    [
        ({"sync": {"kind": "run", "cost_ns": 0}}, 2, "synchronization (verified): session.run waits; memory"),
        ({"sync": {"kind": "readback", "cost_ns": 8_000}}, 2, "synchronization (verified): a read-back waits, 8.00 µs; memory"),
        ({"sync": {"kind": "synchronize_outputs", "cost_ns": 450}}, 2, "synchronization (verified): synchronize_outputs() waits, 450 ns; m"),
        ({"device": NVIDIA}, 1, "SomeExecutionProvider 0.4 on GPU Some GPU, ONNX Runtime 1.28.0"),
        ({"device": {"type": "NPU", "vendor": "Intel", "vendor_id": 0x8086, "device_id": 0x7D1D}}, 1,
         "SomeExecutionProvider 0.4 on NPU Intel 8086:7d1d, O"),
        ({"device": {"type": "GPU", "vendor": "", "vendor_id": 0x1, "device_id": 0x2}}, 1,
         "SomeExecutionProvider 0.4 on GPU 0001:0002, O"),
        ({"device": {"type": "GPU", "name": "cuda", "index": 1}}, 1, "SomeExecutionProvider 0.4 on GPU cuda:1, O"),
        ({"memory": {"kind": "ep-device", **IN_MEMORY}}, 2, f"{WAITS}memory of the EP: Some; ended"),
        ({"memory": {"kind": "named-device", **IN_MEMORY, "default": "cuda:0"}}, 2, f"{WAITS}memory: device by name cuda:0;"),
        ({"memory": {"kind": "none", **IN_MEMORY, "default": None}}, 2, f"{WAITS}memory: no device memory; ended: every"),
    ],
)  # fmt: skip
def test_heading_of_a_target(target: dict[str, Any], line: int, text: str) -> None:
    assert heading(nvidia_result(**target))[line].startswith(text)


@pytest.mark.parametrize(
    ("stopped", "took_ns", "text"),
    [
        ({"reason": "precision", "value": 0.01}, 150_000_000, "ended after 0.15 s: every median known to ±1 %"),
        (
            {"reason": "duration", "value": 10, "per": "mode"},
            20_300_000_000,
            "ended after 20.3 s: time is up (10 s per mode)",
        ),
        (
            {"reason": "iterations", "value": 30, "per": "mode"},
            2_120_000,
            "ended after 2.12 ms: iterations done (30 per mode)",
        ),
        (
            {"reason": "samples", "value": 200_000, "per": "mode"},
            10**10,
            "ended after 10.0 s: as many samples as are kept (200000 per mode)",
        ),
        ({"reason": "verdict"}, 10**10, "ended after 10.0 s: every check is decided"),
        ({"reason": "completed"}, 10**9, "ended after 1.00 s: everything was measured"),
        ({"reason": "interrupted"}, None, "ended: interrupted"),
        ({"reason": "nothing_left", "per": "mode"}, None, "ended: nothing left to measure"),
        (
            {"reason": "error", "message": "an error: the worker is gone"},
            10**9,
            "ended after 1.00 s: an error: the worker is gone",
        ),
        ({"reason": "of tomorrow {x}", "value": 3}, None, "ended: of tomorrow {x}"),
    ],
)
def test_how_a_measurement_ended(stopped: Stopped, took_ns: int | None, text: str) -> None:
    made = nvidia_result()
    made.stopped, made.took_ns = stopped, took_ns
    assert heading(made)[2].endswith(f"of the EP: Some and SomeShared; {text}")


def test_how_a_measurement_in_several_processes_ended() -> None:
    made = nvidia_result(measured("cpu-tensors", latency=steady([MS] * 9)))
    made.cases[0].processes = [0, 3, 6]
    made.stopped, made.took_ns = {"reason": "precision", "value": 0.01}, 10**9
    assert heading(made)[2].endswith("; ended after 1.00 s in 3 processes: every median known to ±1 %")


def test_one_of_several_gpus_is_not_guessed() -> None:
    made = nvidia_result()
    made.environment["gpus"].append({"name": "Other GPU"})
    assert heading(made)[1] == "SomeExecutionProvider 0.4 on GPU NVIDIA 10de:2335, ONNX Runtime 1.28.0"


@pytest.mark.parametrize(
    ("library", "named"),
    [
        ("build/fast/libep.so", " of build/fast/libep.so"),
        ("/a/onnxruntime/libep.so", " of /a/onnxruntime/libep.so"),
        ("onnxruntime_ep_some/lib/libep.so", " of onnxruntime_ep_some"),
        ("onnxruntime\\capi\\ep.dll", " of onnxruntime"),
        ("onnxruntime_ep.so", " of onnxruntime_ep.so"),
        (None, ""),
    ],
)
def test_the_heading_names_the_library(library: str | None, named: str) -> None:
    line, _, _ = heading(result_of(target__ep_library=library))[1].partition(";")
    assert line == f"SomeExecutionProvider 1.0{named} on GPU Some 0001:0002, ONNX Runtime 1.28.0"


# Forms


@pytest.mark.parametrize("make", [published, on_host, with_failures])
def test_markdown_rows_have_the_same_number_of_cells(make: Any) -> None:
    lines = [line for line in markdown(build(make())).splitlines() if line.startswith("|")]
    assert len(lines) >= 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(mode_table(make()).columns) + 1}
    assert table_lines(Table((Column("mode"),), (("a|b\nc",),)))[-1] == "| a\\|b c |"


# Numbers for people


@pytest.mark.parametrize(
    ("form", "value", "text"),
    [
        (units.digits, 0, "0"),
        (units.digits, 0.00000412, "0.00000412"),
        (units.digits, 0.0009996, "0.00100"),
        (units.digits, 0.0412, "0.0412"),
        (units.digits, 0.123, "0.123"),
        (units.digits, 0.9994, "0.999"),
        (units.digits, 0.9995, "1.00"),
        (units.digits, 1.234, "1.23"),
        (units.digits, 9.994, "9.99"),
        (units.digits, 9.996, "10.0"),
        (units.digits, 12.34, "12.3"),
        (units.digits, 99.94, "99.9"),
        (units.digits, 99.96, "100"),
        (units.digits, 123.4, "123"),
        (units.digits, 1234.0, "1230"),
        (units.digits, -4.2, "-4.20"),
        (units.digits, -0.0042, "-0.00420"),
        (units.duration, 0, "0 ns"),
        (units.duration, 7, "7 ns"),
        (units.duration, 0.4, "0 ns"),
        (units.duration, 999, "999 ns"),
        (units.duration, 1_000, "1.00 µs"),
        (units.duration, 1_000_000, "1.00 ms"),
        (units.duration, 4_210_000, "4.21 ms"),
        (units.duration, 1_000_000_000, "1.00 s"),
        (units.duration, 420_000_000, "420 ms"),
        (units.duration, 1_500_000_000, "1.50 s"),
        (units.duration, 90_000_000_000, "90.0 s"),
        (units.duration, -4_210_000, "-4.21 ms"),
        (units.seconds, 150_000_000, "0.15 s"),
        (units.seconds, 100_000_000, "0.10 s"),
        (units.seconds, 99_999_999, "100 ms"),
        (units.seconds, 2_120_000, "2.12 ms"),
        (units.seconds, 1_234_000_000, "1.23 s"),
        (units.seconds, 20_300_000_000, "20.3 s"),
        (units.seconds, 7_200_000_000_000, "7200 s"),
        (units.size, 0, "0 B"),
        (units.size, 64, "64 B"),
        (units.size, 999, "999 B"),
        (units.size, 1_000, "1.00 kB"),
        (units.size, 999_900, "1.00 MB"),
        (units.size, 24_883_200, "24.9 MB"),
        (units.size, 3_200_000_000, "3.20 GB"),
        (units.size, 4_800_000_000_000, "4800 GB"),
        (units.rate, 0.5, "0.500"),
        (units.rate, 12.3, "12.3"),
        (units.rate, 999.4, "999"),
        (units.rate, 1_240, "1.24k"),
        (units.rate, 99_949, "99.9k"),
        (units.rate, 99_950, "100k"),
        (units.rate, 999_499, "999k"),
        (units.rate, 999_500, "1.00M"),
        (units.rate, 70_539_204, "70.5M"),
        (units.digits, 1953, "1950"),
    ],
)
def test_numbers_for_people(form: Callable[[float], str], value: float, text: str) -> None:
    assert form(value) == text


def test_the_unit_fits_the_longest_and_the_shortest_median() -> None:
    made = nvidia_result(case("cpu-tensors", latency=45_930 * US), case("device-resident", latency=900 * US))
    assert mode_table(made).unit == "ms"
    assert [row[1] for row in rows(made)] == ["45.9", "0.900"]
    first, second = rows(made)[0], tables([made, made], ["one", "two"], None, in_order=False)[0].rows[0]
    assert (first[:2], second[:4]) == (("cpu-tensors", "45.9"), ("cpu-tensors", "latency", "45.9", "45.9"))


def test_a_comparison_of_several_results_has_no_row_for_a_mode_that_a_result_lacks() -> None:
    took = (
        {"cpu-tensors": 4, "host-accessible": 2},
        {"cpu-tensors": 5, "device-resident": 1},
        {"cpu-tensors": 6, "device-resident": 2},
    )
    results = [result_of(*(measured(mode, latency=steady([ms * MS] * 12)) for mode, ms in it.items())) for it in took]
    (table,) = tables(results, ["one", "two", "three"], 0.02, in_order=False)
    assert [column.name for column in table.columns][:3] == ["mode", "result", "median"]
    ratio = [column.name for column in table.columns].index("vs first")
    assert [(*row[:3], row[ratio]) for row in table.rows] == [
        ("cpu-tensors", "one", "4.00", "–"),
        ("", "two", "5.00", "1.25"),
        ("", "three", "6.00", "1.50"),
        ("device-resident", "two", "1.00", "–"),
        ("", "three", "2.00", "–"),
        ("host-accessible", "one", "2.00", "–"),
    ]


def test_a_small_phase_has_a_unit_of_its_own_beside_long_ones() -> None:
    device = case("device-tensors", h2d=4_120, inference=90 * MS, d2h=87, latency=90 * MS)
    with_bytes(device, 64, 64)
    made = nvidia_result(device)
    assert cells(made, 0, "H2D", "inference", "D2H") == ["4.12 µs", "90.0", "87 ns"]
    assert cells(made, 0, "copy rate") == ["≈30.4 MB/s"]


@pytest.mark.parametrize(
    ("fastest", "slowest", "unit", "totals"),
    [
        (5 * US, 999 * US, "µs", ["5.00", "999"]),
        (5 * US, 99 * MS, "", ["5.00 µs", "99.0 ms"]),
        (7, 90_000_000 * US, "", ["7 ns", "90.0 s"]),
        (80 * US, 4 * MS, "µs", ["80.0", "4000"]),
        (465 * US, 5_000 * MS, "ms", ["0.465", "5000"]),
        (3_000 * MS, 4_000 * MS, "s", ["3.00", "4.00"]),
    ],
)
def test_one_unit_for_fast_and_slow(fastest: int, slowest: int, unit: str, totals: list[str]) -> None:
    made = nvidia_result(case("cpu-tensors", latency=slowest), case("device-resident", latency=fastest))
    assert mode_table(made).unit == unit
    assert [row[1] for row in rows(made)] == totals[::-1]


@pytest.mark.parametrize(
    ("form", "decimals", "values"),
    [
        (units.ratio, 2, {2.4: "2.40", 0.1: "0.10", 0.0994: "0.0994", 0.00123: "0.00123", 1234.5: "1230", 99.94: "99.94", 0: "0.00"}),
        (units.ratio, 3, {99.96: "100", 1.0134: "1.013", 0.0123: "0.012", 0.00987: "0.00987"}),
        (units.share, 0, {0.58: "58%", 1: "100%", 0.042: "4.20%", 0.00033: "0.0330%", 0: "0%"}),
        (units.share, 1, {0.25: "25.0%"}),
    ],
)  # fmt: skip
def test_ratios_and_shares(form: Callable[[float, int], str], decimals: int, values: dict[float, str]) -> None:
    assert {value: form(value, decimals) for value in values} == values


# Bars


def test_bars_share_totals_out_like_the_phases() -> None:
    assert splits(published()) == [
        [("≈", 4_200 * US), ("█", 3_000 * US)],
        [("░", 8 * MS * 21 / 73), ("█", 8 * MS * 31 / 73), ("▒", 8 * MS * 21 / 73)],
        [("█", 4 * MS)],
        [("█", 3 * MS)],
    ]
    assert split_legend(splits(published())) == (
        "breakdown: latency in the proportions of its parts, which are timed apart (one character at least): ░ H2D, █ inference, ▒ D2H, ≈ copies (H2D and D2H)."
    )


def test_bars_on_host_memory_do_not_split_what_is_not_known() -> None:
    cpu, device, *others = splits(on_host())
    assert cpu == [("━", 20 * US)]
    assert [fill for fill, _ in device] == ["░", "█", "▒"]
    assert sum(size for _, size in device) == pytest.approx(21 * US)
    assert others == [[("█", 18 * US)]] * 2


def test_a_bar_per_row_and_none_for_modes_without_figures() -> None:
    assert len(splits(with_failures())) == len(rows(with_failures())) == 2
    slower = case("cpu-tensors", latency=7_200 * US)
    slower.set_metric("copies", -100 * US, derived=True)
    slower.set_metric("inference", 7_300 * US, derived=True)
    half = case("device-tensors", inference=3 * MS, latency=4 * MS)  # interrupted before its copies were timed
    with_bytes(half, 64, 64)
    nothing = case("device-resident", inference=0, latency=0)
    assert splits(nvidia_result(slower, half, nothing)) == [
        [("≈", 0), ("█", 7_200 * US)],
        [("━", 4 * MS)],
        [("━", 0)],
    ]


# Tables in a terminal's width

WIDTHS = {"key": 10, "a": 5, "b": 5, "c": 5, "d": 30}


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (63, [("key", "a", "b", "c", "d")]),
        (62, [("key", "a", "b", "c"), ("key", "d")]),
        (42, [("key", "a", "b", "c"), ("key", "d")]),
        (31, [("key", "a", "b", "c"), ("key", "d")]),  # d is too wide, and stands alone
        (30, [("key", "a", "b"), ("key", "c"), ("key", "d")]),  # a and b stay together
        (24, [("key", "a", "b"), ("key", "c"), ("key", "d")]),
        (23, [("key", "a"), ("key", "b"), ("key", "c"), ("key", "d")]),
        (1, [("key", "a"), ("key", "b"), ("key", "c"), ("key", "d")]),
    ],
)
def test_a_wide_table_is_stacked(width: int, expected: list[tuple[str, ...]]) -> None:
    assert stack_columns(("key",), [("a", "b"), ("c",), ("d",)], WIDTHS, width) == expected
