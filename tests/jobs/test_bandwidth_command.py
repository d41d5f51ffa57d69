"""`ortbench bandwidth` on real devices: the reference device's own trace, WebGPU on a software GPU, and what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from ortbench.features.bandwidth.analysis import failures as failures_of
from ortbench.features.bandwidth.analysis import measured_cases, memory_of, size_of
from ortbench.measure.schedule import dropped_count
from ortbench.model.modes import DIRECTIONS, H2D, HOST_ACCESSIBLE, ORDINARY
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import Direction
from tests.conftest import MODELS, Ran, ortbench
from tests.refdevice import EP_NAME, HONESTY, MEMORIES, Config, Events, Honesty, Trace
from tests.truth import Check, relu_model, wrong_in_all
from tests.virtual import CALL_NS

pytestmark = pytest.mark.process

ATTEMPTS = 5  # noise of a busy machine is added to times and never taken away, so one good attempt shows the tool right
SMALL = ("--min-size", "4kB", "--max-size", "64kB", "--iterations", 5)


def with_knobs(config: Config) -> tuple[str, ...]:
    """The prefix that gives a command the device's knobs."""
    return ("env", *(f"{name}={value}" for name, value in config.environ().items()))


def sweep(library: Path, out: Path, *arguments: object, **knobs: Any) -> tuple[Ran, Result | None]:
    """A sweep on the reference device, and what it saved."""
    line = ("bandwidth", "--ep-library", library, "--out", out, *arguments)
    ran = ortbench(*line, prefix=with_knobs(Config(**knobs)))
    found = list(out.glob("bandwidth-*/bandwidth.json"))
    return ran, load(found[0], kind="bandwidth") if found else None


def measured_sweep(library: Path, out: Path, *arguments: object, **knobs: Any) -> Result:
    ran, found = sweep(library, out, "--quiet", "--json", out / "copy.json", *arguments, **knobs)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert found is not None
    assert load(out / "copy.json", kind="bandwidth") == found
    return found


def failures(found: Result) -> dict[tuple[str, str, int], str]:
    return {(way, memory_of(it), size_of(it)): why for it in found.cases for way, why in failures_of(it).items()}


def figures(found: Result) -> list[tuple[Direction, Case]]:
    """Every direction of every case that has figures."""
    return [(way, case) for way in DIRECTIONS for case in measured_cases(found, way)]


def recorded(way: Direction, case: Case, found: Result, trace: Trace) -> Events:
    """The copies of the recorded samples of a direction, as the device saw them."""
    starts = sorted(start for it in found.cases for blocks in it.blocks.values() for _, _, start in blocks)
    host = MEMORIES.index("host" if memory_of(case) == ORDINARY else "host_accessible")
    events = trace.of(way)
    events = events[events["source" if way == H2D else "destination"] == host]
    members = []
    for _, n, start in case.blocks[way]:
        stop = next((at for at in starts if at > start), np.iinfo(np.int64).max)
        block = np.sort(events[(events["queued_ns"] >= start) & (events["queued_ns"] < stop)], order="queued_ns")
        block = block[: n + dropped_count(n)]  # the check of the data follows the last one
        assert set(block["bytes"]) == {size_of(case)}
        assert len(block) == n + dropped_count(n)
        members.append(block[dropped_count(n) :])
    return np.concatenate(members)


# Both ends of the scale: honesty is about runs, and copies that are asked for outside of one are the same in all four.
BOTH_ENDS = pytest.mark.parametrize("honesty", [HONESTY[0], HONESTY[-1]])
LINKS = {"upload_latency_us": 30, "upload_gbps": 2, "download_latency_us": 60, "download_gbps": 1}
KNOWN = ("--min-size", "16kB", "--max-size", "4MB", "--iterations", 9)


def medians(found: Result, trace: Trace, config: Config) -> dict[tuple[str, str, int], tuple[float, float]]:
    """Every median of a sweep, and that of the device's trace; what was planned is by definition."""
    assert {(memory_of(it), size_of(it)) for it in measured_cases(found)} == {
        (memory, size) for memory in (ORDINARY, HOST_ACCESSIBLE) for size in (16e3, 64e3, 256e3, 1e6, 4e6)
    }
    pairs: dict[tuple[str, str, int], tuple[float, float]] = {}
    for way, case in figures(found):
        events, size = recorded(way, case, found, trace), size_of(case)
        known = (config.h2d_ns if way == H2D else config.d2h_ns)(size)
        assert set(events["planned_end_ns"] - events["start_ns"]) == {known}
        reported = case.median(way)
        assert reported is not None
        pairs[way, memory_of(case), size] = (reported, round(median(events["end_ns"] - events["queued_ns"])))
    return pairs


@BOTH_ENDS
def test_every_median_is_the_devices_and_two_calls_of_the_host(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    knobs: dict[str, Any] = {"honesty": honesty, "trace": tmp_path / "trace", **LINKS}
    found = measured_sweep(library, tmp_path / "out", *KNOWN, **knobs)
    pairs = medians(found, Trace.read(tmp_path / "trace"), Config(**knobs))
    assert {reported - true for reported, true in pairs.values()} == {2 * CALL_NS}


@pytest.mark.timing
def test_every_median_agrees_with_the_devices_trace_in_real_time(real_library: Path, tmp_path: Path) -> None:
    def checks(folder: Path) -> list[Check]:
        # A waiting host that sleeps comes back tens of microseconds late; that is its own time, not the device's.
        knobs: dict[str, Any] = {"spin_us": 1e6, "trace": folder / "trace", **LINKS}
        found = measured_sweep(real_library, folder, *KNOWN, **knobs)
        return [
            Check(what, round(pair[0]), round(pair[1]))
            for what, pair in medians(found, Trace.read(folder / "trace"), Config(**knobs)).items()
        ]

    folders = [tmp_path / str(attempt) for attempt in range(ATTEMPTS)]
    for folder in folders:
        folder.mkdir()
    assert wrong_in_all(map(checks, folders)) == {}


def test_a_real_device_without_host_accessible_memory(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    arguments = ("--ep", "webgpu", "--out", tmp_path, "--max-size", "4MB", "--iterations", 5)
    ran = ortbench("bandwidth", *arguments, prefix=software_gpu)
    assert (ran.code, ran.err) == (0, "")
    (path,) = tmp_path.glob("bandwidth-webgpu-*/bandwidth.json")
    found = load(path, kind="bandwidth")
    assert failures(found) == {}
    assert {(memory_of(it), way, size_of(it)) for way, it in figures(found)} == {
        (ORDINARY, way, size) for way in DIRECTIONS for size in (4e3, 16e3, 64e3, 256e3, 1e6, 4e6)
    }
    assert "HOST_ACCESSIBLE" not in ran.out


def test_an_ep_that_computes_in_host_memory_has_nothing_to_copy_over(tmp_path: Path) -> None:
    ran = ortbench("bandwidth", "--ep", "cpu", "--out", tmp_path)
    assert ran.code == 1
    assert ran.error_line == (
        "bandwidth is unsupported: CPUExecutionProvider computes in host memory, there is nothing to copy over; choose one with a device: "
        "--ep NAME ('ortbench devices' lists them)"
    )
    assert list(tmp_path.iterdir()) == []


def test_no_memory_at_all_is_an_error(library: Path, tmp_path: Path) -> None:
    ran, found = sweep(library, tmp_path, *SMALL, fail_alloc="2+:default")  # behind the trial of the memory
    assert (ran.code, found) == (1, None)
    assert ran.error_line.startswith(
        "no copy can be measured: copies of 4.00 kB and more (pageable memory) are left out"
    )
    assert list(tmp_path.iterdir()) == []


def test_more_than_half_of_the_hosts_memory_is_never_taken(library: Path, tmp_path: Path) -> None:
    ran, _ = sweep(library, tmp_path, "--min-size", "100000GB", "--max-size", "100000GB")
    assert ran.code == 1
    assert "would take more than half of the" in ran.error_line


# Proving syncs takes up to some thousands of copies; four times 3000 that are timed follow.
MANY = ("--min-size", "4kB", "--max-size", "4kB", "--iterations", 3000)


@pytest.mark.parametrize(("trigger", "reason"), [("5+", "1 byte"), ("9000+", "after the timed copies: 1 byte")])
def test_data_that_arrive_wrong_fail_the_copies(trigger: str, reason: str, library: Path, tmp_path: Path) -> None:
    ran, found = sweep(library, tmp_path, *MANY, wrong_copy=trigger)
    assert ran.code == 1
    assert ran.error_line.endswith("differ after a copy to the device and back, first at 0")
    assert found is not None
    assert len(failures(found)) == 4
    assert all(it.startswith(reason) for it in failures(found).values())
    assert "✗ H2D copies of 4.00 kB (pageable memory), " in ran.out


@pytest.fixture(scope="module")
def swept(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sweep; tests must leave it as it is."""
    out = tmp_path_factory.mktemp("swept")
    measured_sweep(library, out, *SMALL)
    return out


def run(library: Path, model: Path, out: Path, *arguments: object) -> Ran:
    loop = (
        "--mode",
        "cpu-tensors",
        "--mode",
        "device-tensors",
        "--mode",
        "device-resident",
        "--iterations",
        5,
        "--warmup",
        1,
    )
    line = ("run", model, "--ep-library", library, "--out", out, *loop, *arguments)
    return ortbench(*line, prefix=with_knobs(Config(compute_us=100)))


def result_in(out: Path) -> dict[str, Any]:
    (path,) = out.glob("*/result.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_sweep_can_be_named_and_must_fit(swept: Path, library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 64_000)
    (path,) = swept.glob("*/bandwidth.json")
    named = run(library, model, tmp_path / "out", "--bandwidth", path.parent)
    assert named.code == 0, named.err
    assert result_in(tmp_path / "out")["link"]["from"] == str(path)

    for arguments, words in (
        (
            ["--ep", "cpu", "--bandwidth", path],
            f"--bandwidth {path} does not fit this run: EP: {EP_NAME} and CPUExecutionProvider",
        ),
        (["--ep-library", library, "--bandwidth", tmp_path / "nowhere"], "--bandwidth: no such file or folder"),
    ):
        ran = ortbench("run", MODELS / "tiny.onnx", *arguments, "--out", tmp_path / "none")
        assert ran.code == 2
        assert ran.error_line.startswith(words)
        assert not list(tmp_path.glob("none/*"))
