"""Bandwidth curves as data: sizes, the maths on curves, the file, how they read, and what a run makes of them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ortbench.analysis.copies import add_shares, expected_ns, least_ns
from ortbench.analysis.derive import derive, put_copies
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.facts.sentences import sentence
from ortbench.features.bandwidth import report as report_bandwidth
from ortbench.features.bandwidth.analysis import (
    KEPT_SAMPLES,
    advantage,
    attach,
    copies,
    curve,
    fail,
    failures,
    gbps,
    half_rate_bytes,
    measured_cases,
    memory_of,
    misfits,
    peak,
    put_samples,
    size_of,
    sync_of,
)
from ortbench.features.bandwidth.facts import curve_facts
from ortbench.features.bandwidth.measure import copy_driver
from ortbench.features.bandwidth.model import CopyEp
from ortbench.features.bandwidth.page import bandwidth_curve
from ortbench.features.bandwidth.plan import CopyPlan, sizes
from ortbench.features.page.report.charts import copies_of
from ortbench.features.page.report.drawings import svg_file
from ortbench.measure.driver import Driver
from ortbench.measure.process import Client, WorkerLost
from ortbench.model.modes import D2H, DIRECTIONS, H2D, HOST_ACCESSIBLE, ORDINARY
from ortbench.model.result import FAILED, Result
from ortbench.model.result_file import load, result_json, save
from ortbench.model.schema import Direction, Link
from tests.results import (
    Copied,
    add_copied,
    curve_of,
    measured,
    nvidia_result,
    result_of,
    steady,
    tensor,
    values,
    with_bytes,
)

kB, MB = 1_000, 1_000_000


def line(direction: Direction, memory: str, latency: int, rate: float, *of: int) -> list[Copied]:
    """Copies over a link with a latency in ns and a rate in GB/s."""
    return [Copied(direction, memory, size, round(latency + size / rate)) for size in of]


USUAL = (4 * kB, 64 * kB, MB, 16 * MB)


# Ordinary memory at 10 µs + 4 GB/s up and 20 µs + 2 GB/s down; HOST_ACCESSIBLE memory twice as fast up.
LINK = (
    *line(H2D, ORDINARY, 10_000, 4, *USUAL),
    *line(D2H, ORDINARY, 20_000, 2, *USUAL),
    *line(H2D, HOST_ACCESSIBLE, 5_000, 8, *USUAL),
    *line(D2H, HOST_ACCESSIBLE, 20_000, 2, *USUAL),
)


def usual() -> Result:
    return curve_of(*LINK)


# What is asked for


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (4 * kB, 256 * MB, (4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6, 64e6, 256e6)),
        (5, 300, (5, 16, 64, 256, 300)),
        (1, 1, (1,)),
        (64 * 1024, 2**20, (65536, 256_000, 1e6, 1048576)),
        (2e9, 300e9, (2e9, 4e9, 16e9, 64e9, 256e9, 300e9)),
    ],
)
def test_sizes_are_both_ends_and_steps_of_four_between(low: int, high: int, expected: tuple[float, ...]) -> None:
    assert sizes(low, high) == expected


# The maths


CURVE = [(1000, 2000), (4000, 5000), (16000, 9000)]  # bytes, ns


@pytest.mark.parametrize(
    ("of", "ns"),
    [
        ([1000], 2000), ([4000], 5000), ([16000], 9000),
        ([2500], 3500), ([10000], 7000),  # on the line between its neighbours
        ([1], 2000),  # all latency
        ([28000], 13000),  # the last line goes on
        ([1, 2500, 28000], 18500),  # one after the other
        ([], 0),
    ],
)  # fmt: skip
def test_the_time_of_copies_lies_on_lines_between_the_points(of: list[int], ns: float) -> None:
    assert expected_ns(CURVE, of) == ns
    assert expected_ns([(1000, 2000)], [500, 3000]) == 2000 + 6000  # a single point gives its rate to larger copies


def test_half_the_peak_rate_is_reached_where_the_line_says() -> None:
    # Half of 1 byte/ns, between the first two points: 2500 bytes take 5000 ns.
    assert half_rate_bytes([(1000, 4000), (4000, 6000), (8000, 8000)]) == 2500
    # With a latency and a rate it is their product, here for a peak that is the rate itself within a tenth of a percent.
    assert half_rate_bytes(curve(usual(), H2D, ORDINARY)) == pytest.approx(10_000 * 4, rel=0.01)
    # By the smallest or the largest alone.
    assert half_rate_bytes([(1000, 1000), (4000, 3000)]) == 1000
    assert half_rate_bytes([(1000, 1000)]) == 1000
    assert half_rate_bytes([(1000, 10_000), (4000, 4_000), (8000, 40_000)]) == 3000


def test_the_peak_is_the_highest_rate_of_any_memory() -> None:
    result = usual()
    up, down = peak(result, H2D), peak(result, D2H)
    assert up is not None
    assert down is not None
    assert (memory_of(up), size_of(up), round(gbps(up, H2D), 2)) == (HOST_ACCESSIBLE, 16 * MB, 7.98)
    assert (memory_of(down), size_of(down)) == (ORDINARY, 16 * MB)
    fail(up, H2D, "it broke")
    again = peak(result, H2D)
    assert again is not None
    assert (memory_of(again), size_of(again)) == (HOST_ACCESSIBLE, MB)
    assert up in measured_cases(result, D2H)
    assert peak(curve_of(), H2D) is None


@pytest.mark.parametrize("kept", [True, False])
def test_the_advantage_of_host_accessible_memory_is_taken_pair_by_pair_at_the_largest_size_of_both(kept: bool) -> None:
    result = usual()
    fail(measured_cases(result, H2D, HOST_ACCESSIBLE)[-1], H2D, "it broke")
    slow = measured_cases(result, H2D, ORDINARY)[-2]
    fast = measured_cases(result, H2D, HOST_ACCESSIBLE)[-1]
    for case, medians in ((slow, [100, 200, 300, 400, 500, 600, 700]), (fast, [50, 100, 150, 200, 250, 300])):
        case.blocks[H2D] = [[number, 3, 0] for number in range(len(medians))]
        case.samples[H2D] = [ns for ns in medians for _ in range(3)]
        if not kept:
            case.block_medians = {H2D: medians}
            del case.samples[H2D]
    found = advantage(result, H2D)
    assert found is not None
    assert found[0] == MB
    assert found[1].ratio == pytest.approx(2)
    assert found[1].ci95 == pytest.approx((2, 2))
    assert advantage(curve_of(*line(H2D, ORDINARY, 1, 1, MB)), H2D) is None


def test_of_many_samples_the_medians_of_blocks_are_kept() -> None:
    case = copies(ORDINARY, MB)
    put_samples(case, H2D, [5] * KEPT_SAMPLES, [[0, KEPT_SAMPLES, 0]])
    assert (len(case.samples[H2D]), case.block_medians) == (KEPT_SAMPLES, None)
    put_samples(case, H2D, [5] * KEPT_SAMPLES + [7], [[0, KEPT_SAMPLES, 0], [1, 1, 0]])
    assert (case.samples, case.block_medians, case.value("h2d_rate")) == ({}, {H2D: [5, 7]}, MB * 10**9 / 5)


# The file


def test_why_directions_failed_is_the_reason_of_the_case() -> None:
    (case,) = curve_of(Copied(H2D, ORDINARY, 1), Copied(D2H, ORDINARY, 1, 2)).cases
    assert (case.status, case.reason, case.median(D2H)) == (FAILED, "h2d: it broke", 2)
    fail(case, D2H, "it differs")
    assert case.reason == "h2d: it broke; d2h: it differs"
    fail(case, D2H, "it broke")
    assert case.reason == "it broke"


def test_a_curve_is_no_result_with_a_model_and_a_file_may_be_no_curve(tmp_path: Path) -> None:
    path = tmp_path / "bandwidth.json"
    save(usual(), path)
    assert load(path, kind="bandwidth") == usual()
    with pytest.raises(BadInput, match=r"bandwidth\.json is a bandwidth curve: table\.md and bandwidth\.svg"):
        load(path)
    data = json.loads(result_json(usual()))
    del data["target"]["copy_sync"]
    for text, words in (
        (json.dumps(data), 'target: the key "copy_sync" is missing'),
        ('{"schema_version": 2, "cases": []}', "is not a bandwidth curve"),
    ):
        path.write_text(text)
        with pytest.raises(BadInput, match=words):
            load(path, kind="bandwidth")


# How it reads


def test_points_that_failed_or_are_missing_show() -> None:
    result = curve_of(*line(H2D, ORDINARY, 10, 1, kB, 4 * kB), Copied(D2H, ORDINARY, kB))
    fail(result.cases[0], H2D, "it broke later")
    (table,) = report_bandwidth.tables(result)
    assert [row[1] for row in table.rows] == ["1.01 µs (failed)", "4.01 µs"]
    assert [row[4] for row in table.rows] == ["failed", "–"]
    for size in (kB, 16 * kB):
        add_copied(result, Copied(H2D, HOST_ACCESSIBLE, size))
    assert report_bandwidth.failures(result) == [
        "H2D copies of 1.00 kB (pageable memory) failed: it broke later",
        "D2H copies of 1.00 kB (pageable memory), H2D copies of 1.00 kB to 16.0 kB (HOST_ACCESSIBLE memory) failed: it broke",
    ]


def said(result: Result) -> list[str]:
    return [sentence(fact) for fact in curve_facts(result)]


def test_the_sentences() -> None:
    assert said(usual()) == [
        "H2D copies reach 7.98 GB per s with 16.0 MB (HOST_ACCESSIBLE memory).",
        "D2H copies reach 2.00 GB per s with 16.0 MB (pageable memory).",
        "H2D copies of 16.0 MB are 2.00× as fast from and to HOST_ACCESSIBLE memory.",
        "D2H copies of 16.0 MB are not measurably faster from and to HOST_ACCESSIBLE memory: 1.00×.",
        "H2D copies below 39.8 kB are mostly latency.",
        "D2H copies below 39.8 kB are mostly latency.",
    ]


def test_the_sentences_of_less() -> None:
    one = curve_of(*line(H2D, ORDINARY, 0, 1, MB), *line(D2H, ORDINARY, 0, 2, MB))
    assert said(one) == [
        f"{way} copies reach {rate} GB per s with 1.00 MB (pageable memory)."
        for way, rate in (("H2D", "1.00"), ("D2H", "2.00"))
    ]
    assert said(curve_of(Copied(H2D, ORDINARY, 1))) == []
    few = [Copied(H2D, memory, MB, ns, rounds=2) for memory, ns in ((ORDINARY, 300), (HOST_ACCESSIBLE, 200))]
    assert "pinned-copies" not in [fact.code for fact in curve_facts(curve_of(*few))]


@pytest.mark.parametrize(
    ("rates", "verdict", "size"),
    [
        ((2, 4, 8), "rises", 16 * MB),  # the largest size is still the fastest
        ((2, 8, 8), "reached", 16 * MB),
        ((2, 8.1, 8), "reached", 16 * MB),  # the fastest by median alone, of which nothing is claimed
        ((2, 8, 4), "falls", MB),
        ((8, 2, 2), "falls", 64 * kB),
    ],
)
def test_the_limit_of_a_link_is_claimed_by_intervals(rates: tuple[float, ...], verdict: str, size: int) -> None:
    copied = [
        Copied(H2D, ORDINARY, of, round(of / rate)) for of, rate in zip((64 * kB, MB, 16 * MB), rates, strict=True)
    ]
    (limit,) = [fact for fact in curve_facts(curve_of(*copied)) if fact.code == "link-limit"]
    assert (limit.verdict, values(limit)["size"]) == (verdict, size)
    assert ("--max-size 64000000" in limit.next) is (verdict == "rises")


def test_the_heading_names_syncs_once_where_they_are_the_same() -> None:
    result = usual()
    assert report_bandwidth.heading(result) == [
        "copies of 4.00 kB to 16.0 MB between host and device",
        "SomeExecutionProvider 1.0 on GPU Some 0001:0002, ONNX Runtime 1.28.0",
        "synchronization: a copy returns when it is complete (verified); memory of the EP: Mem (DEFAULT); ended: time is up (20 s)",
    ]
    sync_of(result)[HOST_ACCESSIBLE] = {"h2d": {"kind": "readback", "cost_ns": 12_300, "how": ""}}
    assert report_bandwidth.heading(result)[2].startswith(
        "synchronization: pageable memory: a copy returns when it is complete; "
        "HOST_ACCESSIBLE memory: a value is read back after each copy, 12.3 µs of each H2D copy (verified); memory of the EP:"
    )


def test_the_plot_has_a_line_for_each_memory_and_direction() -> None:
    root = ElementTree.fromstring(svg_file(bandwidth_curve(usual())))
    words = {"".join(it.itertext()).strip() for it in root.iter("{http://www.w3.org/2000/svg}text")}
    assert "Copies of SomeExecutionProvider 1.0 on GPU Some 0001:0002, ONNX Runtime 1.28.0" in words
    for memory in ("pageable memory", "HOST_ACCESSIBLE memory"):
        assert {f"H2D, {memory}", f"D2H, {memory}"} <= words
    assert {"10 kB", "10 MB", "1 GB/s"} <= words


# What a run makes of it


def run_of(*, tensors: tuple[int, ...] = (8 * MB,), h2d: int = 2_500_000, d2h: int = 5_000_000) -> Result:
    """A run whose mode device-tensors copies tensors in, and one of the same bytes in all out, in these times (ns)."""
    device = measured("device-tensors", latency=steady([10**7] * 8), h2d=steady([h2d] * 8), d2h=steady([d2h] * 8))
    cpu = measured("cpu-tensors", latency=steady([2 * 10**7] * 8))
    for case in (device, cpu):
        case.set_metric("bytes_h2d", sum(tensors))
        case.set_metric("bytes_d2h", sum(tensors))
    cpu.set_metric("copies", 10**7, derived=True)
    result = result_of(cpu, device)
    result.model["inputs"] = [tensor(str(number), [1], size) for number, size in enumerate(tensors)]
    result.model["outputs"] = [tensor("y", [1], sum(tensors))]
    return result


def put(folder: Path, found: Result) -> Path:
    folder.mkdir(parents=True)
    save(found, folder / "bandwidth.json")
    return folder


def linked(result: Result, found: Result, tmp_path: Path) -> Link:
    put(tmp_path / "sweep", found)
    attach([result], tmp_path, None)
    for case in result.cases:
        put_copies(case, least_ns(result, case))
    add_shares(result)
    assert result.link is not None
    return result.link


def test_a_run_gets_the_curves_and_the_shares(tmp_path: Path) -> None:
    result = run_of()
    link = linked(result, usual(), tmp_path)
    assert (link["from"], link["created"], link["memory"]) == (
        str(tmp_path / "sweep" / "bandwidth.json"), "2026-01-02T00:00:00+00:00", "ordinary",
    )  # fmt: skip
    assert link["h2d"] == [[4000, 11_000], [64_000, 26_000], [MB, 260_000], [16 * MB, 4_010_000]]
    assert link["peak"]["h2d"] == {"gbps": 7.980050, "bytes": 16 * MB, "memory": "host-accessible"}
    up = 10_000 + 8 * MB / 4  # ns, exactly
    assert link["shares"]["device-tensors"]["h2d"] == {
        "bytes": 8 * MB, "copies": 1, "took_ns": 2_500_000, "sweep_ns": up, "of_sweep": 0.804,
        "of_peak": round(8 * MB / 7.98005 / 2_500_000, 4),
    }  # fmt: skip
    down = 20_000 + 8 * MB / 2
    assert link["shares"]["device-tensors"]["d2h"]["sweep_ns"] == down
    both = link["shares"]["cpu-tensors"]["both"]
    assert (both["bytes"], both["copies"], both["took_ns"], both["sweep_ns"]) == (16 * MB, 2, 10**7, up + down)


def test_no_rate_is_told_that_the_link_cannot_do(tmp_path: Path) -> None:
    """A difference of two medians can be shorter than its copies at the peak of the curve: 8 MB each way."""
    least = 8 * MB / 7.98005 + 8 * MB / 2
    for name, took, told in (("a", least + 5_000, True), ("b", least - 5_000, False)):
        result = run_of()
        result.cases[0].set_metric("copies", took, derived=True)
        shares = linked(result, usual(), tmp_path / name)["shares"]
        assert least_ns(result, result.cases[0]) == pytest.approx(least, rel=1e-3)
        assert ("copy_rate" in result.cases[0].metrics, "both" in shares["cpu-tensors"]) == (told, told)
        assert ("inside cpu-tensors" in [copy.name for copy in copies_of(result.cases[0])]) == told


def test_a_difference_that_is_not_of_copies_alone_has_no_rate() -> None:
    cpu = with_bytes(measured("cpu-tensors", latency=steady([8_000_000] * 9)), MB, MB)
    device = measured("device-tensors", latency=steady([5_500_000] * 9))
    resident = with_bytes(measured("device-resident", latency=steady([2_000_000] * 9)), 0, 0)
    result = result_of(cpu, device, resident)

    def rate() -> float | None:
        derive(result)
        assert cpu.value("copies") == 6_000_000
        return cpu.value("copy_rate")

    assert rate() == pytest.approx(2 * MB / 6e6 * 1e9, rel=1e-6)
    resident.sync = {"kind": "readback", "cost_ns": 1_000, "how": ""}
    assert rate() is None  # it ends with a read-back, and the copies of outputs are one
    resident.sync = None
    result.cases[1] = measured("device-tensors", latency=steady([2_500_000] * 9))
    assert rate() is None  # what copies as much takes 5.5 ms less


def test_without_a_curve_the_link_of_the_card_and_timed_copies_tell_what_it_can_do() -> None:
    cpu, device = run_of(h2d=400_000, d2h=200_000).cases
    result = nvidia_result(cpu, device)
    assert least_ns(result, cpu) == 0
    result.environment["gpus"] = [{"name": "H100", "link_bytes_per_s": 32e9}]
    assert least_ns(result, cpu) == 8 * MB / 32 + 8 * MB / 40  # as fast as D2H was timed
    result.target["device"]["vendor_id"] = 0x1002
    assert least_ns(result, cpu) == 0


def test_several_tensors_are_held_against_a_copy_each(tmp_path: Path) -> None:
    result = run_of(tensors=(4 * MB, 4 * MB, 1 * kB))
    upload = linked(result, usual(), tmp_path)["shares"]["device-tensors"]["h2d"]
    assert (upload["copies"], upload["bytes"]) == (3, 8_001_000)
    assert upload["sweep_ns"] == 2 * (10_000 + 4 * MB / 4) + 11_000  # a small one takes as long as the smallest
    result = run_of()
    result.model["inputs"].append(tensor("shape", [4], 32))  # which stays in host memory
    upload = linked(result, usual(), tmp_path / "b")["shares"]["device-tensors"]["h2d"]
    assert (upload["copies"], upload["bytes"]) == (1, 8 * MB)


def test_what_failed_was_not_copied_or_is_not_known_has_no_share(tmp_path: Path) -> None:
    result = run_of()
    result.cases[1].status = FAILED
    result.cases[0].set_metric("copies", None)
    assert linked(result, usual(), tmp_path)["shares"] == {}
    other = run_of()
    other.cases[0].set_metric("copies", -5)
    other.cases[1].set_metric("bytes_h2d", 0)
    shares = linked(other, usual(), tmp_path / "b")["shares"]
    assert (list(shares["device-tensors"]), shares["cpu-tensors"]) == (["d2h"], {})


def test_the_newest_sweep_that_fits_is_taken(tmp_path: Path) -> None:
    for name, day in (("a", 5), ("b", 7), ("c", 6)):
        sweep = usual()
        sweep.created = f"2026-01-0{day}T00:00:00+00:00"
        put(tmp_path / name, sweep)
    other = usual()
    other.created, other.target["ep"] = "2026-01-09T00:00:00+00:00", "OtherExecutionProvider"
    put(tmp_path / "d", other)
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "bandwidth.json").write_text("{}")
    result, theirs = run_of(), run_of()
    theirs.target["ep"] = "OtherExecutionProvider"
    attach([result, theirs], tmp_path, None)
    assert result.link is not None
    assert theirs.link is not None
    assert (result.link["from"], theirs.link["from"]) == tuple(str(tmp_path / it / "bandwidth.json") for it in "bd")
    attach([fresh := run_of()], tmp_path / "nowhere", None)
    assert fresh.link is None


def test_a_sweep_of_another_machine_is_used_only_where_it_is_named(tmp_path: Path) -> None:
    """A checkout or a shared folder has curves of machines that look the same: of those nothing is known of this one's link."""
    for number, host in enumerate(("fedcba9876543210", None)):
        sweep, result = usual(), run_of()
        assert result.environment["host_id"]
        sweep.environment.pop("host_id")
        if host is not None:
            sweep.environment["host_id"] = host
        else:
            del result.environment["host_id"]
        folder = put(tmp_path / str(number) / "sweep", sweep)
        attach([result], folder.parent, None)
        assert result.link is None
        attach([result], folder.parent, folder)
        assert result.link is not None


def change(where: str, key: str, value: Any) -> Callable[[Result], None]:
    return lambda found: getattr(found, where).update({key: value})


def only(keep: Callable[[Copied], bool]) -> Callable[[Result], None]:
    def drop(found: Result) -> None:
        found.cases = curve_of(*filter(keep, LINK)).cases

    return drop


@pytest.mark.parametrize(
    ("words", "alter"),
    [
        ("EP: Other and SomeExecutionProvider", change("target", "ep", "Other")),
        ("device: type GPU, vendor_id 0x0001, device_id 0x0009 and", change("target", "device", {"type": "GPU", "vendor_id": 1, "device_id": 9})),
        ("CPU: Other CPU and Some CPU", change("environment", "cpu", {"model": "Other CPU", "usable_cores": 4})),
        ("GPUs: none and Some GPU", change("environment", "gpus", [])),
        ("memory: named-device and ep-device", change("target", "memory", {"kind": "named-device", "default": None, "host_accessible": None})),
        ("it has no D2H copy of pageable memory", only(lambda it: it.way == H2D)),
        ("its H2D copies are of 4.00 kB to 64.0 kB, the largest here is of 8.00 MB", only(lambda it: it.size < MB)),
    ],
)  # fmt: skip
def test_a_sweep_of_something_else_does_not_fit(words: str, alter: Callable[[Result], None], tmp_path: Path) -> None:
    sweep, result = usual(), run_of()
    assert misfits(sweep, result) == []
    alter(sweep)
    assert misfits(sweep, result)[0].startswith(words)
    folder = put(tmp_path / "sweep", sweep)
    attach([result], tmp_path, None)
    assert result.link is None
    with pytest.raises(BadInput, match=f"^--bandwidth {folder} does not fit this run: "):
        attach([result], tmp_path, folder)


def test_a_sweep_of_large_copies_says_nothing_about_small_ones_unless_they_are_all_latency() -> None:
    result = run_of(tensors=(400,))
    assert misfits(usual(), result) == []
    large = curve_of(*(it for it in LINK if it.size >= MB))
    assert misfits(large, result)[0] == "its H2D copies are of 1.00 MB to 16.0 MB, the largest here is of 400 B"


# The measurement


class ScriptedWorker(Client):
    """A worker with copies of known times: 1 µs + 1 ns a byte up, twice that down.

    Args:
        loses: it is lost by the first ``bandwidth_add`` of this size.
        lost_after: it is lost by the block after so many.
    """

    blocks = 0
    pid = 1

    def __init__(
        self, loses: int | None = None, lost_after: float = math.inf, error: BaseException | None = None
    ) -> None:
        self._loses, self._lost_after, self._error = loses, lost_after, error
        self.added: list[tuple[str, int]] = []
        self.asked: list[tuple[str, str, int]] = []
        self.closed = False

    def receive(self) -> Any:
        like = result_of().target
        opened: CopyEp = {
            "ep": like["ep"],
            "library": None,
            "version": "1.0",
            "notes": [],
            "device": like["device"],
            "memory": like["memory"],
            "kinds": [ORDINARY, HOST_ACCESSIBLE],
            "runtime": {"onnxruntime": "1.28.0"},
        }
        return opened

    def ask(self, do: str, **arguments: Any) -> Any:
        return getattr(self, do.removeprefix("bandwidth_"))(**arguments)

    def add(self, memory: str, size: int, free: int | None) -> dict[str, Any]:
        if size == self._loses:
            raise WorkerLost("the worker was ended by SIGABRT")
        if memory == HOST_ACCESSIBLE and size > 64 * kB:
            raise BenchmarkFailed("no memory left")
        self.added.append((memory, size))
        return {"differs": "1 byte(s) differ" if (memory, size) == (ORDINARY, 16 * kB) else None}

    def prove(self, memory: str) -> dict[str, Any]:
        sync = {"kind": "run", "cost_ns": 0, "how": "proved"}
        usable = [size for kind, size in self.added if kind == memory and (kind, size) != (ORDINARY, 16 * kB)]
        estimates = [[way, size, self._ns(way, size)] for size in usable for way in DIRECTIONS]
        return {"h2d": sync, "d2h": sync, "estimates": estimates}

    @staticmethod
    def _ns(direction: str, size: int) -> int:
        return (1000 + size) * (1 if direction == H2D else 2)

    def block(self, direction: str, memory: str, size: int, n: int, drop: int) -> dict[str, Any]:
        if len(self.asked) >= self._lost_after:
            raise self._error or WorkerLost("the worker was ended by SIGABRT")
        self.asked.append((direction, memory, size))
        if (direction, memory, size) == (D2H, HOST_ACCESSIBLE, 4 * kB):
            raise BenchmarkFailed("a copy failed")
        ns = self._ns(direction, size)
        return {"samples": [ns] * n, "start_ns": len(self.asked), "spent_ns": ns * (n + drop)}

    def finish(self, memory: str, size: int) -> dict[str, Any]:
        return {"differs": "2 byte(s) differ" if (memory, size) == (HOST_ACCESSIBLE, 64 * kB) else None}

    def close(self) -> None:
        self.closed = True


def bench(worker: ScriptedWorker, kept: list[str] | None = None, **changed: Any) -> Driver:
    plan = CopyPlan(**{"max_bytes": 256 * kB, "iterations": 30, **changed})
    return copy_driver(plan, worker, lambda sweep: (kept if kept is not None else []).append(result_json(sweep)))


def statuses(found: Result) -> dict[tuple[str, str, int], str]:
    return {(way, memory_of(it), size_of(it)): why for it in found.cases for way, why in failures(it).items()}


EXPECTED_FAILURES = {
    **{(way, ORDINARY, 16 * kB): "1 byte(s) differ" for way in DIRECTIONS},
    **{(way, HOST_ACCESSIBLE, 64 * kB): "after the timed copies: 2 byte(s) differ" for way in DIRECTIONS},
    (D2H, HOST_ACCESSIBLE, 4 * kB): "a copy failed",
}


@pytest.mark.process
def test_a_sweep_keeps_what_failed_apart_and_leaves_out_what_has_no_memory() -> None:
    kept: list[str] = []
    worker = ScriptedWorker()
    (sweep,) = bench(worker, kept).run()
    assert statuses(sweep) == EXPECTED_FAILURES
    assert [(size_of(it), (stats := it.stats(H2D)) and stats.n) for it in sweep.cases] == [
        (4 * kB, 30), (16 * kB, None), (64 * kB, 30), (256 * kB, 30), (4 * kB, 30), (16 * kB, 30), (64 * kB, 30),
    ]  # fmt: skip
    assert sweep.axes == [
        {"name": "memory", "unit": "", "values": [ORDINARY, HOST_ACCESSIBLE]},
        {"name": "size", "unit": "B", "values": [4 * kB, 16 * kB, 64 * kB, 256 * kB]},
    ]
    assert curve(sweep, D2H, ORDINARY) == [(4 * kB, 10_000), (64 * kB, 130_000), (256 * kB, 514_000)]
    assert sweep.warnings == [
        {"code": "sizes-left-out",
         "message": "copies of 256 kB and more (HOST_ACCESSIBLE memory) are left out: no memory left"},
    ]  # fmt: skip
    assert sweep.stopped == {"reason": "iterations", "value": 30, "per": "copy"}
    assert sweep.took_ns is not None
    assert sweep.took_ns > 0
    assert sync_of(sweep)[ORDINARY]["h2d"]["kind"] == "run"
    assert worker.closed
    assert kept[-1] == result_json(sweep)


@pytest.mark.process
def test_it_stops_when_every_median_is_known_or_the_time_of_all_is_spent() -> None:
    assert bench(ScriptedWorker(), iterations=None).run()[0].stopped == {"reason": "precision", "value": 0.01}
    (sweep,) = bench(ScriptedWorker(), iterations=None, duration_s=0.01).run()
    assert sweep.stopped == {"reason": "duration", "value": 0.01}
    assert sweep.environment["cpu"]["cores"] == os.cpu_count()
    assert sweep.environment["onnxruntime"] == "1.28.0"
    assert sweep.environment["load_average"]["end"]


@pytest.mark.process
def test_a_worker_lost_in_the_measurement_ends_it_and_what_was_measured_is_kept() -> None:
    worker = ScriptedWorker(lost_after=5)
    (sweep,) = bench(worker).run()
    assert sweep.stopped == {"reason": "error", "message": "the worker was ended by SIGABRT"}
    figures = [(way, it) for way in DIRECTIONS for it in measured_cases(sweep, way)]
    assert len(figures) == len([it for it in worker.asked if it != (D2H, HOST_ACCESSIBLE, 4 * kB)])
    reasons = set(statuses(sweep).values()) - {"a copy failed", "1 byte(s) differ"}
    assert reasons == {"the worker was ended by SIGABRT", "the sweep ended before it was measured"}
    made = bench(ScriptedWorker(lost_after=5, error=KeyboardInterrupt()))
    (sweep,) = made.run()
    assert (made.interrupted, sweep.stopped) == (True, {"reason": "interrupted"})
    assert measured_cases(sweep)


@pytest.mark.process
@pytest.mark.parametrize("error", [KeyboardInterrupt(), None])
def test_a_sweep_that_ends_before_the_first_block_is_none(error: BaseException | None) -> None:
    expected = KeyboardInterrupt if error else BenchmarkFailed
    with pytest.raises(
        expected, match=None if error else "^before any copy was measured the worker was ended by SIGABRT$"
    ):
        bench(ScriptedWorker(lost_after=0, error=error)).run()


@pytest.mark.process
def test_a_size_that_kills_the_worker_is_left_out_and_a_fresh_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ScriptedWorker(loses=256 * kB), ScriptedWorker(loses=256 * kB)
    monkeypatch.setattr("ortbench.features.bandwidth.measure.open_copies", lambda plan: second)
    (sweep,) = bench(first).run()
    assert first.closed
    assert sweep.warnings[0]["message"] == (
        "copies of 256 kB and more (pageable memory) are left out: the worker was ended by SIGABRT"
    )
    assert {*map(size_of, measured_cases(sweep, H2D, ORDINARY))} == {4 * kB, 64 * kB}
    assert {*map(size_of, measured_cases(sweep, H2D, HOST_ACCESSIBLE))} == {4 * kB, 16 * kB}
