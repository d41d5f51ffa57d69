"""Bandwidth curves as data: sizes, the maths on curves, the file, how they read, and what a run makes of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ortbench.analysis.copies import add_shares, expected_ns, least_ns
from ortbench.analysis.derive import derive, put_copies
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.core.stats import Stats
from ortbench.features.bandwidth import analysis as curves
from ortbench.features.bandwidth import report
from ortbench.features.bandwidth.facts import curve_facts
from ortbench.features.bandwidth.measure import copy_driver
from ortbench.features.bandwidth.plan import CopyPlan, sizes
from ortbench.features.page.report.charts import copies_of
from ortbench.measure.driver import Driver
from ortbench.measure.process import Client, WorkerLost
from ortbench.model.modes import D2H, DIRECTIONS, H2D, HOST_ACCESSIBLE, ORDINARY
from ortbench.model.result import FAILED, Case, Result, empty
from ortbench.model.result_file import result_json, save
from ortbench.model.schema import Direction, Link, Sync
from tests.expect import there
from tests.results import change, measured, nvidia_result, result_of, steady, tensor, values, with_bytes

kB, MB = 1_000, 1_000_000


class Copied(NamedTuple):
    """Copies of a size in one direction, in blocks of three equal samples, or none of them, which failed."""

    way: Direction
    memory: str
    size: int
    ns: int | None = None
    rounds: int = 6


def curve_of(*copied: Copied) -> Result:
    """A bandwidth curve on the machine of `result_of`."""
    cases: dict[tuple[str, int], Case] = {}
    for way, memory, size, ns, rounds in copied:
        case = cases.setdefault((memory, size), Case("copy", point={"memory": memory, "size": size}))
        if ns is None:
            case.status, case.reason = FAILED, f"{way}: it broke"
            case.checks[way] = {"verdict": "failed", "how": "it broke"}
        else:
            n = 3 * rounds
            case.samples[way], case.blocks[way] = [ns] * n, [[number, 3, number * 10**9] for number in range(rounds)]
            case.metrics[way] = Stats(n, ns, ns, ns, ns, ns, ns, ns, 0, 0, (ns, ns))
            case.set_metric(f"{way}_rate", round(1e9 * size / ns), derived=True)
    made = result_of(*cases.values())
    made.kind, made.created, made.command = "bandwidth", "2026-01-02T00:00:00+00:00", ["ortbench", "bandwidth"]
    made.model, made.placement, made.setup = empty(), empty(), {"seed": 0}
    made.stopped = {"reason": "duration", "value": 20}
    sync: Sync = {"kind": "run", "cost_ns": 0, "how": "proved"}
    made.target["copy_sync"] = {it.memory: {"h2d": sync, "d2h": sync} for it in copied}
    for axis, unit in (("size", "B"), ("memory", "")):
        made.axes.append({"name": axis, "unit": unit, "values": [*dict.fromkeys(it.point[axis] for it in made.cases)]})
    return made


def line(direction: Direction, memory: str, latency: int, rate: float, *of: int) -> list[Copied]:
    """Copies over a link with a latency in ns and a rate in GB/s."""
    return [Copied(direction, memory, size, round(latency + size / rate)) for size in of]


SIZES = (4 * kB, 64 * kB, MB, 16 * MB)
# Ordinary memory at 10 µs + 4 GB/s up and 20 µs + 2 GB/s down; HOST_ACCESSIBLE memory twice as fast up.
LINK = (
    *line(H2D, ORDINARY, 10_000, 4, *SIZES),
    *line(D2H, ORDINARY, 20_000, 2, *SIZES),
    *line(H2D, HOST_ACCESSIBLE, 5_000, 8, *SIZES),
    *line(D2H, HOST_ACCESSIBLE, 20_000, 2, *SIZES),
)


def usual() -> Result:
    return curve_of(*LINK)


def test_sizes_are_both_ends_and_steps_of_four_between() -> None:
    assert sizes(4 * kB, 256 * MB) == (4e3, 16e3, 64e3, 256e3, 1e6, 4e6, 16e6, 64e6, 256e6)
    assert (sizes(5, 300), sizes(1, 1), sizes(2**16, 2**20)) == (
        (5, 16, 64, 256, 300),
        (1,),
        (65536, 256e3, 1e6, 2**20),
    )


def test_the_time_of_copies_lies_on_lines_between_the_points() -> None:
    for of, ns in (
        ([4000], 5000),
        ([2500], 3500),  # on the line between its neighbours
        ([1], 2000),  # all latency
        ([28000], 13000),  # the last line goes on
        ([1, 2500, 28000], 18500),  # one after the other
        ([], 0),
    ):
        assert expected_ns([(1000, 2000), (4000, 5000), (16000, 9000)], of) == ns
        assert expected_ns([(1000, 2000)], [500, 3000]) == 2000 + 6000  # a single point gives its rate to larger copies


def test_half_the_peak_rate_is_reached_where_the_line_says() -> None:
    assert curves.half_rate_bytes([(1000, 4000), (4000, 6000), (8000, 8000)]) == 2500  # which take 5000 ns
    assert curves.half_rate_bytes([(1000, 10_000), (4000, 4_000), (8000, 40_000)]) == 3000
    assert curves.half_rate_bytes([(1000, 1000)]) == 1000
    assert curves.half_rate_bytes(curves.curve(usual(), H2D, ORDINARY)) == pytest.approx(
        40_000, rel=0.01
    )  # latency × rate


# How it reads


def test_points_that_failed_or_are_missing_show() -> None:
    others = [Copied(H2D, HOST_ACCESSIBLE, size) for size in (kB, 16 * kB)]
    result = curve_of(*line(H2D, ORDINARY, 10, 1, kB, 4 * kB), Copied(D2H, ORDINARY, kB), *others)
    curves.fail(result.cases[0], H2D, "it broke later")
    assert result.cases[0].reason == "h2d: it broke later; d2h: it broke"
    rows = report.tables(result)[0].rows
    assert [(row[1], row[4]) for row in rows] == [("1.01 µs (failed)", "failed"), ("4.01 µs", "–")]
    assert report.failures(result) == [
        "H2D copies of 1.00 kB (pageable memory) failed: it broke later",
        "D2H copies of 1.00 kB (pageable memory), H2D copies of 1.00 kB to 16.0 kB (HOST_ACCESSIBLE memory) failed: it broke",
    ]


def test_the_facts_of_a_curve() -> None:
    both = [(code, verdict, values(it)) for it in curve_facts(usual()) for code, verdict in [it.key]]
    assert [(code, verdict, found["way"]) for code, verdict, found in both] == [
        *(("link-limit", "reached", "H2D"), ("link-limit", "reached", "D2H")),
        *(("pinned-copies", "faster", "H2D"), ("pinned-copies", "no-faster", "D2H")),
        *(("short-copies", "latency", "H2D"), ("short-copies", "latency", "D2H")),
    ]
    assert (both[0][2]["size"], both[0][2]["memory"]) == (16 * MB, "HOST_ACCESSIBLE memory")
    assert (both[1][2]["memory"], both[2][2]["ratio"]) == ("pageable memory", pytest.approx(2, rel=0.01))
    few = [Copied(H2D, memory, MB, ns, rounds=2) for memory, ns in ((ORDINARY, 300), (HOST_ACCESSIBLE, 200))]
    assert [it.code for it in curve_facts(curve_of(*few))] == ["link-limit"]
    assert [*curve_facts(curve_of(Copied(H2D, ORDINARY, 1)))] == []


def test_the_limit_of_a_link_is_claimed_by_intervals() -> None:
    for rates, verdict, size in (
        ((2, 4, 8), "rises", 16 * MB),  # the largest size is still the fastest
        ((2, 8, 8), "reached", 16 * MB),
        ((2, 8, 4), "falls", MB),
    ):
        of = zip((64 * kB, MB, 16 * MB), rates, strict=True)
        copied = [Copied(H2D, ORDINARY, size, round(size / rate)) for size, rate in of]
        (limit,) = [fact for fact in curve_facts(curve_of(*copied)) if fact.code == "link-limit"]
        assert (limit.verdict, values(limit)["size"]) == (verdict, size)
        assert ("--max-size 64000000" in limit.next) is (verdict == "rises")


# What a run makes of it


def run_of(*, tensors: tuple[int, ...] = (8 * MB,), h2d: int = 2_500_000, d2h: int = 5_000_000) -> Result:
    """A run whose mode device-tensors copies tensors in, and one of the same bytes in all out, in these times (ns)."""
    device = measured("device-tensors", latency=steady([10**7] * 8), h2d=steady([h2d] * 8), d2h=steady([d2h] * 8))
    cpu = measured("cpu-tensors", latency=steady([2 * 10**7] * 8))
    for case in (device, cpu):
        with_bytes(case, sum(tensors), sum(tensors))
    cpu.set_metric("copies", 10**7, derived=True)
    result = result_of(cpu, device)
    result.model["inputs"] = [tensor(str(number), [1], size) for number, size in enumerate(tensors)]
    result.model["outputs"] = [tensor("y", [1], sum(tensors))]
    return result


def put(folder: Path, found: Result) -> Path:
    folder.mkdir(parents=True)
    save(found, folder / "bandwidth.json")
    return folder


def linked(result: Result, folder: Path) -> Link:
    put(folder / "sweep", usual())
    curves.attach([result], folder, None)
    for case in result.cases:
        put_copies(case, least_ns(result, case))
    add_shares(result)
    return there(result.link)


def test_a_run_gets_the_curves_and_the_shares(tmp_path: Path) -> None:
    link = linked(run_of(), tmp_path)
    assert (link["from"], link["created"]) == (f"{tmp_path}/sweep/bandwidth.json", "2026-01-02T00:00:00+00:00")
    assert (link["memory"], link["h2d"][2:]) == ("ordinary", [[MB, 260_000], [16 * MB, 4_010_000]])
    assert link["peak"]["h2d"] == {"gbps": 7.980050, "bytes": 16 * MB, "memory": "host-accessible"}
    up, down = 10_000 + 8 * MB / 4, 20_000 + 8 * MB / 2  # ns, exactly
    shares = link["shares"]["device-tensors"]
    assert shares["h2d"] == {
        "bytes": 8 * MB, "copies": 1, "took_ns": 2_500_000, "sweep_ns": up, "of_sweep": 0.804,
        "of_peak": round(8 * MB / 7.98005 / 2_500_000, 4),
    }  # fmt: skip
    assert shares["d2h"]["sweep_ns"] == down
    both = link["shares"]["cpu-tensors"]["both"]
    assert (both["bytes"], both["copies"], both["took_ns"], both["sweep_ns"]) == (16 * MB, 2, 10**7, up + down)


@pytest.mark.parametrize(("more_ns", "told"), [(5_000, True), (-5_000, False)])
def test_no_rate_is_told_that_the_link_cannot_do(more_ns: int, told: bool, tmp_path: Path) -> None:
    """A difference of two medians can be shorter than its copies at the peak of the curve: 8 MB each way."""
    least, result = 8 * MB / 7.98005 + 8 * MB / 2, run_of()
    case = result.cases[0]
    case.set_metric("copies", least + more_ns, derived=True)
    shares = linked(result, tmp_path)["shares"]
    assert least_ns(result, case) == pytest.approx(least, rel=1e-3)
    assert ("copy_rate" in case.metrics, "both" in shares["cpu-tensors"]) == (told, told)
    assert ("inside cpu-tensors" in [copy.name for copy in copies_of(case)]) == told


def test_a_difference_that_is_not_of_copies_alone_has_no_rate() -> None:
    read_back: Any = {"kind": "readback", "cost_ns": 1_000, "how": ""}
    for sync, device_ns, rate in (
        (None, 5_500_000, pytest.approx(2 * MB / 6e6 * 1e9, rel=1e-6)),
        (read_back, 5_500_000, None),  # the copies of outputs are one
        (None, 2_500_000, None),  # what copies as much takes 5.5 ms less
    ):
        cpu = with_bytes(measured("cpu-tensors", latency=steady([8_000_000] * 9)), MB, MB)
        resident = with_bytes(measured("device-resident", latency=steady([2_000_000] * 9)), 0, 0)
        resident.sync = sync
        derive(result_of(cpu, measured("device-tensors", latency=steady([device_ns] * 9)), resident))
        assert (cpu.value("copies"), cpu.value("copy_rate")) == (6_000_000, rate)


def test_without_a_curve_the_link_of_the_card_and_timed_copies_tell_what_it_can_do() -> None:
    cpu, device = run_of(h2d=400_000, d2h=200_000).cases
    result = nvidia_result(cpu, device)
    assert least_ns(result, cpu) == 0
    result.environment["gpus"] = [{"name": "H100", "link_bytes_per_s": 32e9}]
    assert least_ns(result, cpu) == 8 * MB / 32 + 8 * MB / 40  # as fast as D2H was timed
    result.target["device"]["vendor_id"] = 0x1002
    assert least_ns(result, cpu) == 0


def test_several_tensors_are_compared_with_a_copy_each_and_what_failed_has_no_share(tmp_path: Path) -> None:
    upload = linked(run_of(tensors=(4 * MB, 4 * MB, 1 * kB)), tmp_path)["shares"]["device-tensors"]["h2d"]
    assert (upload["copies"], upload["bytes"]) == (3, 8_001_000)
    assert upload["sweep_ns"] == 2 * (10_000 + 4 * MB / 4) + 11_000  # a small one takes as long as the smallest
    result, other = run_of(), run_of()
    result.cases[1].status = FAILED
    result.cases[0].set_metric("copies", None)
    assert linked(result, tmp_path / "a")["shares"] == {}
    other.cases[0].set_metric("copies", -5)
    other.cases[1].set_metric("bytes_h2d", 0)
    shares = linked(other, tmp_path / "b")["shares"]
    assert (list(shares["device-tensors"]), shares["cpu-tensors"]) == (["d2h"], {})


def test_the_newest_curve_that_fits_is_taken(tmp_path: Path) -> None:
    for name, day, ep in (("a", 5, "Some"), ("b", 7, "Some"), ("c", 6, "Some"), ("d", 9, "Other")):
        sweep = usual()
        sweep.created, sweep.target["ep"] = f"2026-01-0{day}T00:00:00+00:00", f"{ep}ExecutionProvider"
        put(tmp_path / name, sweep)
    (put(tmp_path / "e", usual()) / "bandwidth.json").write_text("{}")
    result, theirs, fresh = run_of(), run_of(), run_of()
    theirs.target["ep"] = "OtherExecutionProvider"
    curves.attach([result, theirs], tmp_path, None)
    assert [there(it.link)["from"] for it in (result, theirs)] == [f"{tmp_path}/{it}/bandwidth.json" for it in "bd"]
    curves.attach([fresh], tmp_path / "nowhere", None)
    assert fresh.link is None


@pytest.mark.parametrize(
    ("words", "changed", "keep"),
    [
        ("EP: Other and SomeExecutionProvider", {"target__ep": "Other"}, None),
        ("GPUs: none and Some GPU", {"environment__gpus": []}, None),
        ("", {"environment__host_id": "fedcba9876543210"}, None),  # which looks the same, and has another link
        ("it has no D2H copy of pageable memory", {}, lambda it: it.way == H2D),
        ("its H2D copies are of 4.00 kB to 64.0 kB, the largest here is of 8.00 MB", {}, lambda it: it.size < MB),
    ],
)
def test_a_curve_of_something_else_does_not_fit_and_one_of_another_machine_is_used_where_it_is_named(
    words: str, changed: dict[str, Any], keep: Callable[[Copied], bool] | None, tmp_path: Path
) -> None:
    sweep, result = change(curve_of(*filter(keep or bool, LINK)), **changed), run_of()
    folder = put(tmp_path / "sweep", sweep)
    curves.attach([result], tmp_path, None)
    assert result.link is None
    if not words:
        curves.attach([result], tmp_path, folder)
        assert result.link is not None
        return
    assert curves.misfits(sweep, result)[0].startswith(words)
    with pytest.raises(BadInput, match=f"^--bandwidth {folder} does not fit this run: "):
        curves.attach([result], tmp_path, folder)


# The measurement


class ScriptedWorker(Client):
    """A worker whose copies take 1 µs + 1 ns a byte up, twice that down; it is lost by the size `loses`, or by so manyth block."""

    blocks, pid, closed = 0, 1, False

    def __init__(self, loses: int = 0, block: float = math.inf) -> None:
        self._loses, self._left = loses, block

    def receive(self) -> Any:
        opened: dict[str, Any] = {"library": None, "version": "1.0", "notes": []}
        return {
            **result_of().target,
            **opened,
            "runtime": {"onnxruntime": "1.28.0"},
            "kinds": [ORDINARY, HOST_ACCESSIBLE],
        }

    def ask(self, do: str, **arguments: Any) -> Any:
        memory, size = arguments["memory"], arguments.get("size", 0)
        if do == "bandwidth_add" and size == self._loses:
            raise WorkerLost("the worker was ended by SIGABRT")
        if do == "bandwidth_add" and memory == HOST_ACCESSIBLE and size > 64 * kB:
            raise BenchmarkFailed("no memory left")
        if do == "bandwidth_prove":
            sync = {"kind": "run", "cost_ns": 0, "how": "proved"}
            estimates = [[way, it, _ns(way, it)] for way in DIRECTIONS for it in (4 * kB, 16 * kB, 64 * kB, 256 * kB)]
            return {"h2d": sync, "d2h": sync, "estimates": estimates}
        if do == "bandwidth_block":
            return self._block(**arguments)
        return {"differs": None}

    def _block(self, memory: str, size: int, direction: str, n: int, drop: int) -> dict[str, Any]:
        self._left -= 1
        if self._left <= 0:
            raise WorkerLost("the worker was ended by SIGABRT")
        if (direction, memory, size) == (D2H, HOST_ACCESSIBLE, 4 * kB):
            raise BenchmarkFailed("a copy failed")
        return {"samples": [_ns(direction, size)] * n, "start_ns": 1, "spent_ns": _ns(direction, size) * (n + drop)}

    def close(self) -> None:
        self.closed = True


def _ns(direction: str, size: int) -> int:
    return (1000 + size) * (1 if direction == H2D else 2)


def driver(worker: ScriptedWorker, kept: list[str] | None = None) -> Driver:
    plan = CopyPlan(max_bytes=256 * kB, iterations=30)
    return copy_driver(plan, worker, lambda sweep: (kept if kept is not None else []).append(result_json(sweep)))


def reasons(found: Result) -> list[tuple[str, int, str, str]]:
    return [
        (curves.memory_of(it), curves.size_of(it), *why) for it in found.cases for why in curves.failures(it).items()
    ]


@pytest.mark.process
def test_what_failed_is_kept_apart_and_what_has_no_memory_is_left_out() -> None:
    kept: list[str] = []
    worker = ScriptedWorker()
    (sweep,) = driver(worker, kept).run()
    assert reasons(sweep) == [(HOST_ACCESSIBLE, 4 * kB, D2H, "a copy failed")]
    assert [curves.size_of(it) for it in sweep.cases] == [4e3, 16e3, 64e3, 256e3, 4e3, 16e3, 64e3]
    assert {there(it.stats(H2D)).n for it in sweep.cases} == {30}
    assert [it["values"] for it in sweep.axes] == [[ORDINARY, HOST_ACCESSIBLE], [4e3, 16e3, 64e3, 256e3]]
    assert curves.curve(sweep, D2H, ORDINARY) == [(it, 2 * (1000 + it)) for it in (4e3, 16e3, 64e3, 256e3)]
    assert [(it["code"], it["message"]) for it in sweep.warnings] == [
        ("sizes-left-out", "copies of 256 kB and more (HOST_ACCESSIBLE memory) are left out: no memory left"),
    ]
    assert sweep.stopped == {"reason": "iterations", "value": 30, "per": "copy"}
    assert (worker.closed, kept[-1]) == (True, result_json(sweep))


@pytest.mark.process
def test_a_worker_lost_in_the_measurement_ends_it_and_what_was_measured_is_kept() -> None:
    (sweep,) = driver(ScriptedWorker(block=6)).run()
    assert sweep.stopped == {"reason": "error", "message": "the worker was ended by SIGABRT"}
    assert curves.measured_cases(sweep)
    lost = {"the worker was ended by SIGABRT", "the sweep ended before it was measured"}
    assert lost <= {why for *_, why in reasons(sweep)}
    with pytest.raises(BenchmarkFailed, match=r"^before any copy was measured the worker was ended by SIGABRT$"):
        driver(ScriptedWorker(block=1)).run()


@pytest.mark.process
def test_a_size_that_kills_the_worker_is_left_out_and_a_fresh_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ScriptedWorker(loses=256 * kB), ScriptedWorker(loses=256 * kB)
    monkeypatch.setattr("ortbench.features.bandwidth.measure.open_copies", lambda plan: second)
    (sweep,) = driver(first).run()
    left_out = "copies of 256 kB and more (pageable memory) are left out: the worker was ended by SIGABRT"
    assert (first.closed, sweep.warnings[0]["message"]) == (True, left_out)
    assert {*map(curves.size_of, curves.measured_cases(sweep, H2D, ORDINARY))} == {4e3, 16e3, 64e3}
    assert {*map(curves.size_of, curves.measured_cases(sweep, H2D, HOST_ACCESSIBLE))} == {4e3, 16e3, 64e3}
