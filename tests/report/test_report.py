"""The report of a run: its facts, headings, tables, bars and numbers, from scripted results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ortbench.core import units
from ortbench.core.stats import Stats, Value
from ortbench.model.result import FAILED, UNSUPPORTED, Case, Result
from ortbench.model.result_file import load
from ortbench.report.case_table import bar
from ortbench.report.model import NOTHING
from ortbench.report.phrases import heading
from ortbench.report.records import markdown
from ortbench.report.run import build, mode_table, splits
from tests.conftest import ROOT
from tests.results import (
    MS,
    US,
    case,
    copying,
    fact,
    keys,
    nvidia_result,
    once,
    profiled,
    published,
    sentences,
    values,
    with_bytes,
    with_failures,
)

NEXT = "ortbench run m.onnx --ep some"


def cells(made: Result, row: int, *names: str) -> list[str | None]:
    """Cells of a row by their columns' names; None where the table lacks the column."""
    table = mode_table(made)
    by_name = dict(zip((column.name for column in table.columns), table.rows[row], strict=True))
    return [by_name.get(name) for name in names]


def two_modes(ratio: Sequence[float]) -> Result:
    """The published figures of CPU tensors and of resident ones, with a speedup and its interval."""
    made = published(ratio=ratio)
    made.cases = [made.cases[0], made.cases[2]]
    return made


def on_host() -> Result:
    """The CPU EP: nothing is copied to a device."""
    cpu = case("cpu-tensors", ratio=(1.0, 1.0, 1.0), latency=20 * US)
    device = case("device-tensors", ratio=(0.95, 0.9, 1.1), h2d=1 * US, inference=19 * US, d2h=1_500, latency=21 * US)
    with_bytes(device, 4_000, 4_100)
    resident = once(case("device-resident", ratio=(1.11, 1.08, 1.13), inference=18 * US, latency=18 * US), 1_000, 2_000)
    shared = case("host-accessible", ratio=(1.1, 1.05, 1.12), inference=18 * US, latency=18 * US)
    shared.checks["zero_copy"] = {"verdict": "passed", "how": "at the addresses that were bound"}
    memory = {"kind": "host", "default": "host memory", "host_accessible": None}
    return nvidia_result(
        cpu, device, resident, shared, device={"type": "CPU", "name": "cpu", "index": 0}, memory=memory
    )


# What follows from the figures


def test_facts_of_four_modes() -> None:
    assert keys(published()) == [
        ("copies", "measured", "cpu-tensors"), ("replacement", "faster", "host-accessible"),
        ("residency", "faster-on-top", "device-resident"), ("zero-copy", "verified", "host-accessible"),
    ]  # fmt: skip
    assert keys(on_host()) == [
        ("replacement", "faster-open", "host-accessible"), ("latency", "known", "cpu-tensors"),
        ("residency", "open-to-other", "device-resident"), ("zero-copy", "verified", "host-accessible"),
    ]  # fmt: skip
    assert "| *tensors stay in place* |" in markdown(build(on_host()))
    made = published()
    made.cases = made.cases[2:]
    for without in made.cases:
        without.speedup = None
    assert keys(made) == [("zero-copy", "verified", "host-accessible")]
    assert cells(made, 0, "speedup", "95% CI", "copied/inf", "copy rate") == [None, None, "0", None]


def test_facts_of_two_modes() -> None:
    for ratio, expected in (
        ((1.013, 1.01, 1.016), [("copies", "measured", "cpu-tensors"), ("modes", "none-faster", "")]),
        ((1.01, 0.99, 1.02), [("copies", "none", "cpu-tensors"), ("modes", "none-faster", "")]),
        ((1.01, 0.99, 1.03), [("modes", "little", "")]),
        ((1.01, 0.99, 1.06), [("modes", "open", "")]),
        ((1.2, 1.0, 1.4), [("modes", "open", "")]),
        ((2.4,), [("residency", "few-samples", "device-resident")]),
    ):
        assert keys(two_modes(ratio)) == expected


def test_whether_any_other_mode_is_faster() -> None:
    for intervals, verdict, most in (
        (((0.97, 1.02), (0.99, 1.02), (0.98, 1.01)), "none-faster", 1.02),
        (((0.96, 0.972), (1.0108, 1.0139), (1.0052, 1.0148)), "none-faster", 1.0148),
        (((0.9, 1.1), (0.99, 1.02), (0.98, 1.01)), "open", 1.1),
    ):
        made = on_host()
        for case_, interval in zip(made.cases[1:], intervals, strict=True):
            case_.speedup = Value(1.0, interval)
        assert (fact(made, "modes").verdict, values(fact(made, "modes"))["most"]) == (verdict, most)
    for it in made.cases:  # which take equally long
        it.metrics["latency"], it.speedup = made.cases[0].metrics["latency"], Value(1.0, (0.99, 1.01))
    slowest = made.cases[3].metrics["latency"]
    assert isinstance(slowest, Stats)
    for factor, verdict in ((1.03, "none-faster"), (1.02, "same")):
        made.cases[3].metrics["latency"] = replace(slowest, median=slowest.median * factor)
        assert fact(made, "modes").verdict == verdict
    for modes, verdict in ((4, "same"), (3, "same"), (2, "none-faster")):
        made.cases = made.cases[:modes]
        assert fact(made, "modes").verdict == verdict


def test_what_to_do_next() -> None:
    made = on_host()
    assert fact(made, "latency").next == f"{NEXT} --intra-op-threads 1,2,4"
    made.target["intra_op_threads"] = 2
    assert fact(made, "latency").next == f"{NEXT} --measure-nodes"
    made.stopped = {"reason": "duration", "value": 5.0, "per": "mode"}
    for high, command in ((1.1, ""), (1.11, f"{NEXT} --duration 20s")):  # little is open, or much
        for case_ in made.cases[1:]:
            case_.speedup = Value(1.0, (0.9, high))
        assert fact(made, "modes").next == command
    made.cases[1].processes = [0, 1, 2, 3, 4]  # each of which is one observation
    assert fact(made, "modes").next == f"{NEXT} --processes 15"
    made = two_modes((1.01, 0.99, 1.02))
    assert fact(made, "modes").next == f"{NEXT} --measure-nodes"
    made.nodes = profiled()
    assert fact(made, "modes").next == "ortbench tune m.onnx"
    made = two_modes((2.4,))
    assert fact(made, "residency").next == f"{NEXT} --precision 0"
    made.stopped = {"reason": "iterations", "value": 20, "per": "mode"}
    made.command = ["ortbench", "run", "m.onnx", "--iterations", "20", "--ep", "some"]
    assert fact(made, "residency").next == NEXT


def test_a_mode_that_is_faster_for_certain_is_named_before_a_greater_ratio() -> None:
    made = published(ratio=(1.13, 1.03, 1.40))
    made.cases[1].speedup = Value(1.16, (0.76, 1.41))
    made.cases = made.cases[:3]
    assert keys(made)[1:3] == [("replacement", "open", "device-tensors"), ("residency", "faster", "device-resident")]
    faster = published()
    faster.cases[3] = case("host-accessible", ratio=(2.39, 2.3, 2.5), latency=3_010 * US)
    assert fact(faster, "residency").verdict == "open-to-other"


def test_zero_copy_that_is_not_verified_is_not_said_to_copy_nothing() -> None:
    made = published()
    shared = with_bytes(made.cases[3], 0, 0)
    assert cells(made, 2, "copied/inf", "copy rate") == ["0", NOTHING]
    shared.checks["zero_copy"] = {"verdict": "unclear", "how": "the outputs are at the bound addresses, but noise"}
    assert cells(made, 2, "copied/inf", "copy rate") == [NOTHING, NOTHING]
    assert keys(made)[-1] == ("zero-copy", "not-verified", "host-accessible")


# The table of modes


def test_nothing_was_measured() -> None:
    made = nvidia_result(Case("cpu-tensors", FAILED, "no"), Case("device-tensors", UNSUPPORTED, "never"), sync=None)
    made.stopped = None
    assert (mode_table(made).rows, mode_table(made).unit, sentences(made)) == ((), "", [])
    assert "\n\n- cpu-tensors failed: no\n- device-tensors unsupported: never\n\n" in markdown(build(made))


@pytest.mark.parametrize(
    ("n", "p95", "p99"), [(19, NOTHING, NOTHING), (20, "2.20", NOTHING), (99, "2.20", NOTHING), (100, "2.20", "2.40")]
)
def test_percentiles_need_samples_beyond_them(n: int, p95: str, p99: str) -> None:
    made = nvidia_result(case("cpu-tensors", n=n, latency=2 * MS), case("device-tensors", n=200, latency=2 * MS))
    assert cells(made, 0, "latency", "p95", "p99", "samples") == ["2.00", p95, p99, str(n)]


def test_columns_in_which_nothing_stands_are_left_out() -> None:
    table = mode_table(nvidia_result(case("cpu-tensors", n=3, ratio=(1.0, 1.0, 1.0), latency=2 * MS)))
    assert [column.name for column in table.columns] == ["mode", "latency", "samples", "inf/s", "copied/inf"]
    assert table.rows == (("cpu-tensors", "2.00", "3", "500", "0"),)
    assert table.bars == []  # nothing is shared out, and nothing stands beside it
    assert cells(two_modes((2.4,)), 1, "speedup", "95% CI") == ["2.40×", None]


def test_modes_of_several_inferences_in_a_call_have_a_rate_and_no_latency() -> None:
    made = load(ROOT / "reports" / "gpu-h100" / "copy_4k" / "result.json")
    found = {row[0]: cells(made, number, "latency", "inf/s") for number, row in enumerate(mode_table(made).rows)}
    assert (found["pipelined"], found["device-resident-async"]) == ([NOTHING, "449"], [NOTHING, "4.33k"])
    assert found["device-resident"] == ["0.246", "4.06k"]
    burst, filled = case("device-resident-async", n=20, latency=MS), case("pipelined", n=7, latency=MS)
    burst.inferences_per_sample, filled.inferences_per_sample = 100, 3
    made = nvidia_result(burst, filled, Case("cpu-tensors", FAILED, "no"))
    assert [cells(made, row, "samples") for row in (0, 1)] == [["21"], ["2000"]]


@pytest.mark.parametrize(("parts_ms", "shown"), [((3, 1, 1), True), ((3, 1, 2), False), ((2, 1, 1), False)])
def test_parts_that_do_not_add_up_to_the_latency_are_no_breakdown(parts_ms: Sequence[int], shown: bool) -> None:
    h2d, inference, d2h = (it * MS for it in parts_ms)
    device = case("device-tensors", h2d=h2d, inference=inference, d2h=d2h, latency=5 * MS)
    device.set_metric("copies", h2d + d2h, derived=True)
    made = nvidia_result(case("cpu-tensors", latency=5 * MS), device)
    assert len(mode_table(made).bars[1]) == (3 if shown else 1)
    assert (cells(made, 1, "copies") != [None]) is shown


def test_copies_that_are_not_known_or_too_short() -> None:
    made = published()
    made.cases[1].set_metric("bytes_h2d", None)
    made.cases[3].set_metric("bytes_d2h", None)
    assert [cells(made, row, "copied/inf") for row in (1, 2)] == [[NOTHING], [NOTHING]]
    made = two_modes((0.98, 0.95, 1.01))
    copying(made.cases[0], -100 * US, 7_300 * US)
    assert cells(made, 0, "inference", "copies", "copied/inf") == ["≈7.30", "≈0", "≈50.0 MB"]
    assert fact(made, "copies").verdict == "none"


def test_one_unit_for_fast_and_slow() -> None:
    for fastest, slowest, unit, shown in (
        (5 * US, 999 * US, "µs", ["5.00", "999"]),
        (5 * US, 99 * MS, "", ["5.00 µs", "99.0 ms"]),
        (80 * US, 4 * MS, "µs", ["80.0", "4000"]),
        (900 * US, 45_930 * US, "ms", ["0.900", "45.9"]),
        (3_000 * MS, 4_000 * MS, "s", ["3.00", "4.00"]),
    ):
        made = nvidia_result(case("cpu-tensors", latency=slowest), case("device-resident", latency=fastest))
        assert (mode_table(made).unit, [row[1] for row in mode_table(made).rows]) == (unit, shown[::-1])


# Bars


def test_bars_share_totals_out_like_the_phases() -> None:
    assert splits(published()) == [
        [("≈", 4_200 * US), ("█", 3_000 * US)],
        [("░", 8 * MS * 21 / 73), ("█", 8 * MS * 31 / 73), ("▒", 8 * MS * 21 / 73)],
        [("█", 4 * MS)],
        [("█", 3 * MS)],
    ]
    cpu, device, *others = splits(on_host())
    assert (cpu, others) == ([("━", 20 * US)], [[("█", 18 * US)]] * 2)
    assert [fill for fill, _ in device] == ["░", "█", "▒"]
    assert sum(size for _, size in device) == pytest.approx(21 * US)
    # Copies below nothing, a mode that was interrupted before its copies were timed, and one that takes no time.
    odd = copying(case("cpu-tensors", latency=7_200 * US), -100 * US, 7_300 * US)
    half = with_bytes(case("device-tensors", inference=3 * MS, latency=4 * MS), 64, 64)
    made = nvidia_result(odd, half, case("device-resident", inference=0, latency=0))
    assert splits(made) == [[("≈", 0), ("█", 7_200 * US)], [("━", 4 * MS)], [("━", 0)]]
    assert len(splits(with_failures())) == len(mode_table(with_failures()).rows) == 2


def test_any_bar_is_as_long_as_its_parts_and_no_part_is_lost() -> None:
    for sizes, scale, width, expected in (
        ((55,), 100, 10, "aaaaaa"),  # right to half a cell
        ((3.3, 3.3, 3.4), 10, 10, "aaabbbcccc"),  # the largest remainders get the odd cells
        ((0.01, 97, 0.01), 97.02, 10, "abbbbbbbbc"),  # what is above zero is seen, at the cost of the largest
        ((1, 3, 2), 6, 2, "bc"),  # more parts than cells: the largest
        ((30, 30), 40, 8, "aaaabbbb"),  # never beyond the whole
        ((-1,), 10, 8, ""),
        ((1,), 0, 8, ""),
    ):
        assert bar(list(zip("abc", sizes, strict=False)), scale, width) == expected


EP = "SomeExecutionProvider 0.4"
WAITS = "synchronization (verified): synchronize_outputs() waits, 2.30 µs; "
NVIDIA = {"type": "GPU", "vendor": "NVIDIA", "vendor_id": 0x10DE, "device_id": 0x2335}
IN_MEMORY: dict[str, Any] = {"default": "Some", "host_accessible": None}


@pytest.mark.parametrize(
    ("target", "line", "text"),
    [
        ({"sync": {"kind": "run", "cost_ns": 0}}, 2, "synchronization (verified): session.run waits; memory"),
        ({"sync": {"kind": "synchronize_outputs", "cost_ns": 450}}, 2, "synchronization (verified): synchronize_outputs() waits, 450 ns; m"),
        ({"device": NVIDIA}, 1, f"{EP} on GPU Some GPU, ONNX Runtime 1.28.0"),
        ({"device": {"type": "GPU", "vendor": "", "vendor_id": 0x1, "device_id": 0x2}}, 1, f"{EP} on GPU 0001:0002, O"),
        ({"device": {"type": "GPU", "name": "cuda", "index": 1}}, 1, f"{EP} on GPU cuda:1, O"),
        ({"ep_library": "build/fast/libep.so"}, 1, f"{EP} of build/fast/libep.so on GPU Some GPU"),
        ({"ep_library": "onnxruntime_ep_some/lib/libep.so"}, 1, f"{EP} of onnxruntime_ep_some on"),
        ({"ep_library": "onnxruntime_ep.so"}, 1, f"{EP} of onnxruntime_ep.so on"),
        ({"memory": {"kind": "ep-device", **IN_MEMORY}}, 2, f"{WAITS}memory of the EP: Some; ended"),
        ({"memory": {"kind": "none", **IN_MEMORY, "default": None}}, 2, f"{WAITS}memory: no device memory; ended: every"),
    ],
)  # fmt: skip
def test_the_heading_of_a_target(target: dict[str, Any], line: int, text: str) -> None:
    assert heading(nvidia_result(**target))[line].startswith(text)


@pytest.mark.parametrize(
    ("form", "texts"),
    [
        (units.digits, {0: "0", 0.00000412: "0.00000412", 0.0009996: "0.00100", 0.0412: "0.0412", 0.9994: "0.999", 0.9995: "1.00"}),
        (units.digits, {1.234: "1.23", 9.994: "9.99", 9.996: "10.0", 12.34: "12.3", 99.94: "99.9", 99.96: "100", 123.4: "123"}),
        (units.digits, {1234.0: "1230", 1953: "1950", -4.2: "-4.20", -0.0042: "-0.00420"}),
        (units.duration, {0: "0 ns", 0.4: "0 ns", 7: "7 ns", 999: "999 ns", 1_000: "1.00 µs", 4_210_000: "4.21 ms"}),
        (units.duration, {420 * MS: "420 ms", 1_500 * MS: "1.50 s", 90_000 * MS: "90.0 s", -4_210_000: "-4.21 ms"}),
        (units.duration, {1 * MS: "1.00 ms", 1_000 * MS: "1.00 s"}),
        (units.seconds, {2_120_000: "2.12 ms", 99_999_999: "100 ms", 100 * MS: "0.10 s", 150 * MS: "0.15 s", 1_234 * MS: "1.23 s"}),
        (units.seconds, {20_300 * MS: "20.3 s", 7_200_000 * MS: "7200 s"}),
        (units.size, {0: "0 B", 64: "64 B", 999: "999 B", 1_000: "1.00 kB", 999_900: "1.00 MB", 24_883_200: "24.9 MB"}),
        (units.size, {3_200_000_000: "3.20 GB", 4_800_000_000_000: "4800 GB"}),
        (units.rate, {0.5: "0.500", 12.3: "12.3", 999.4: "999", 1_240: "1.24k", 99_949: "99.9k", 99_950: "100k", 999_499: "999k"}),
        (units.rate, {999_500: "1.00M", 70_539_204: "70.5M"}),
        (partial(units.ratio, decimals=2), {2.4: "2.40", 0.1: "0.10", 0.0994: "0.0994", 0.00123: "0.00123", 1234.5: "1230", 0: "0.00"}),
        (partial(units.ratio, decimals=3), {99.96: "100", 1.0134: "1.013", 0.0123: "0.012", 0.00987: "0.00987"}),
        (units.share, {0.58: "58%", 1: "100%", 0.042: "4.20%", 0.00033: "0.0330%", 0: "0%"}),
    ],
)  # fmt: skip
def test_numbers_for_people(form: Callable[[float], str], texts: dict[float, str]) -> None:
    assert {value: form(value) for value in texts} == texts
