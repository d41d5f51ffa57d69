"""ortbench's figures and claims against the reference device's own witness."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from ortbench.modes import MODES
from ortbench.result import Result
from tests import bare
from tests.conftest import ROOT, ortbench
from tests.refdevice import EP_NAME, HONESTY, Config, Honesty, Trace
from tests.truth import (
    COPIES,
    SIZES_AND_COMPUTE_US,
    Check,
    checks,
    host_times,
    is_kind,
    recorded,
    relu_model,
    run_on_device,
    wrong_in_all,
)

FENCES = {"sync": "run", "async-wait": "run", "async": "synchronize_outputs", "async-old-api": "readback"}
FENCE_BYTES = 4  # what the fence of last resort reads back
ATTEMPTS = 5  # noise of a busy machine is added to times and never taken away, so one good attempt shows the tool right


def case_of(result: Result, mode: str) -> Any:
    return next(case for case in result.cases if case.mode == mode)


# All points where nothing is waited for, which is the hardest; of the other kinds the smallest, and one whose times are all
# long. reports/truth.md has the whole grid.
POINTS = [
    (honesty, size, compute_us)
    for honesty in HONESTY
    for size, compute_us in SIZES_AND_COMPUTE_US
    if honesty == HONESTY[-1] or (size, compute_us) in (SIZES_AND_COMPUTE_US[0], SIZES_AND_COMPUTE_US[3])
]


MEDIANS = {
    ("cpu", "total"), ("device", "total"), ("device", "upload"), ("device", "inference"), ("device", "download"),
    ("device-resident", "total"), ("host-accessible", "total"),
}  # fmt: skip


def attempts(
    build: str, library: Path, folder: Path, size: int, *arguments: object, most: int = ATTEMPTS, **knobs: Any
) -> Iterator[list[Check]]:
    """Runs of a build of ortbench, each with its medians against the device's trace and the host's own time."""
    model = relu_model(folder / "relu.onnx", size)
    for attempt in range(most):
        place = folder / str(attempt)
        place.mkdir()
        # A waiting host that sleeps comes back tens of microseconds late; that is its own time, not the device's.
        config = Config(trace=place / "trace", spin_us=1e6, **knobs)
        code, result, _, errors = run_on_device(library, model, config, place, *arguments, build=build)
        assert code == 0, errors
        trace = Trace.read(place / "trace")
        yield checks(result, trace, host_times(place / "bare", trace))


def complete(found: Iterator[list[Check]]) -> Iterator[list[Check]]:
    """The same, each with all that there is to check."""
    for attempt in found:
        assert {check.what for check in attempt} == MEDIANS
        yield attempt


@pytest.mark.timing
@pytest.mark.parametrize(("honesty", "size", "compute_us"), POINTS)
def test_every_median_agrees_with_the_devices_trace(
    honesty: Honesty, size: int, compute_us: float, library: Path, tmp_path: Path
) -> None:
    # A hundredth of long work is more than what noise adds to one sample in three.
    line = ("--iterations", 9 if compute_us < 20_000 else 3, "--warmup", 2)
    found = attempts(bare.RIGHT, library, tmp_path, size, *line, honesty=honesty, compute_us=compute_us)
    assert wrong_in_all(complete(found)) == {}


@pytest.mark.timing
@pytest.mark.parametrize(
    ("build", "honesty", "caught"),
    [
        ("forgets-fences", "async", ("device-resident", "total")),
        ("copies-twice", "sync", ("device", "upload")),
        ("counts-twice", "sync", ("device", "total")),
        ("adds-a-little", "sync", ("device", "total")),
    ],
)
def test_a_build_that_is_wrong_does_not_agree(
    build: str, honesty: Honesty, caught: tuple[str, str], library: Path, tmp_path: Path
) -> None:
    assert build in bare.WRONG
    line = ("--mode", caught[0], "--iterations", 9, "--warmup", 2)
    found = attempts(build, library, tmp_path, 1 << 20, *line, most=3, honesty=honesty, compute_us=5_000)
    assert caught in wrong_in_all(found)


@pytest.mark.parametrize(
    ("true", "host", "reported", "right"),
    [
        (5_000_000, 0, 5_050_000, True),
        (5_000_000, 0, 5_050_001, False),
        (5_000_000, 44_000, 5_094_000, True),  # a slow host is allowed what it takes, and no more
        (5_000_000, 44_000, 5_094_001, False),
        (100_000, 0, 120_000, True),
        (100_000, 0, 120_001, False),
        (100_000, 9_000, 99_000, True),
        (100_000, 9_000, 98_999, False),  # whatever the host takes, nothing is shorter than it was
    ],
)
def test_what_agrees(true: int, host: int, reported: int, right: bool) -> None:
    check = Check(("device", "upload"), reported, true, host)
    assert check.is_right is right
    assert wrong_in_all([[check]]) == ({} if right else {check.what: [check]})


def test_one_good_attempt_of_each_figure_is_enough_and_ends_the_attempts() -> None:
    def attempt(*wrong: str) -> list[Check]:
        return [Check((name,), 200_000 if name in wrong else 100_000, 100_000) for name in ("a", "b")]

    tried = iter([attempt("a", "b"), attempt("a"), attempt("b"), attempt("a")])
    assert wrong_in_all(tried) == {}
    assert next(tried) == attempt("a")
    assert wrong_in_all([attempt("a", "b"), attempt("b")]) == {("b",): [attempt("b")[1]] * 2}


def run_with_fences(library: Path, folder: Path, honesty: Honesty, compute_us: int) -> tuple[Result, dict[str, str]]:
    """A run, and the kind of each mode's fence."""
    model = relu_model(folder / "relu.onnx", 1 << 16)
    config = Config(honesty=honesty, compute_us=compute_us)
    code, result, _, errors = run_on_device(library, model, config, folder, "--iterations", 2, "--warmup", 1)
    assert code == 0, errors
    modes = ("device", "device-resident", "host-accessible")
    return result, {mode: case_of(result, mode).fence["kind"] for mode in modes}


@pytest.mark.process
@pytest.mark.parametrize("honesty", HONESTY)
def test_every_fence_waits_and_the_result_names_it(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    # Long enough that a host that is held up cannot take a run that was not waited for to be done, each time it tries.
    result, kinds = run_with_fences(library, tmp_path, honesty, compute_us=20_000)
    from_the_cheapest = list(dict.fromkeys(FENCES.values()))
    enough = from_the_cheapest[from_the_cheapest.index(FENCES[honesty]) :]
    assert set(kinds.values()) <= set(enough)
    assert result.target["fence"] is not None
    assert result.target["fence"]["kind"] == kinds["device-resident"]


@pytest.mark.timing
@pytest.mark.parametrize("honesty", HONESTY)
def test_the_fence_is_the_cheapest_that_waits(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    # Long enough that no noise can hide a run that was not waited for. It can be taken for one, and then a dearer fence is.
    found = []
    for attempt in range(ATTEMPTS):
        (tmp_path / str(attempt)).mkdir()
        _, kinds = run_with_fences(library, tmp_path / str(attempt), honesty, compute_us=4_000)
        found.append(set(kinds.values()))
        if found[-1] == {FENCES[honesty]}:
            return
    raise AssertionError(found)


def two_by_two(path: Path) -> Path:
    """A model with two inputs and two outputs of different sizes."""
    graph = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 1000] a, float[20, 1000] b) => (float[20, 1000] sum, float[1, 1000] same)
        { sum = Add(a, b)  same = Relu(a) }"""
    onnx.save(onnx.parser.parse_model(graph), path)
    return path


@pytest.mark.process
@pytest.mark.parametrize("honesty", HONESTY)
def test_modes_make_the_copies_that_they_say(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    config = Config(honesty=honesty, compute_us=500, trace=tmp_path / "trace")
    model = two_by_two(tmp_path / "model.onnx")
    code, result, _, errors = run_on_device(library, model, config, tmp_path, "--iterations", 20, "--warmup", 1)
    assert code == 0, errors
    trace = Trace.read(tmp_path / "trace")
    each_way = sorted([4000, 80000])
    for mode, copies in (("cpu", 1), ("device", 1), ("device-resident", 0), ("host-accessible", 0)):
        case = case_of(result, mode)
        assert (case.bytes_in, case.bytes_out) == ((84000, 84000) if copies else (0, 0))
        for events in recorded(result, case, "total", trace):
            moved = events[is_kind(events, *COPIES) & (events["bytes"] != FENCE_BYTES)]
            for kind in ("upload", "download"):
                assert sorted(moved[is_kind(moved, kind)]["bytes"].tolist()) == each_way * copies, mode
    device = case_of(result, "device")
    took = device.phases["upload"].median_ns + device.phases["download"].median_ns
    row = next(
        line for line in (next(tmp_path.glob("out/*/table.md"))).read_text().splitlines() if "| device |" in line
    )
    assert row.split("|")[-3].strip() == "168 kB"
    rate, unit = row.split("|")[-2].split()
    assert unit == "GB/s"
    assert float(rate) == pytest.approx(168_000 / took, rel=0.01)


@pytest.mark.process
@pytest.mark.parametrize("honesty", HONESTY)
def test_where_nothing_is_copied_zero_copy_is_proved_or_the_doubt_is_said(
    honesty: Honesty, library: Path, tmp_path: Path
) -> None:
    zero_copy = zero_copy_of(library, tmp_path, Config(honesty=honesty, trace=tmp_path / "trace"))
    assert zero_copy["addresses"] is True
    assert zero_copy["how"].startswith("bound addresses are used")
    assert Trace.read(tmp_path / "trace").counters["ha-copy"].count == 0


@pytest.mark.timing
@pytest.mark.parametrize("honesty", HONESTY)
def test_zero_copy_is_proved_where_nothing_is_copied(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    seen = []
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        seen.append(zero_copy_of(library, folder, Config(honesty=honesty, spin_us=1e6)))
        if seen[-1]["proved"]:  # noise can only make the tool doubt
            return
    raise AssertionError(seen)


def zero_copy_of(library: Path, folder: Path, config: Config) -> dict[str, Any]:
    """What a run finds out about `host-accessible`, which is what it prints."""
    model = relu_model(folder / "relu.onnx", 1 << 22)
    arguments = ("--iterations", 3, "--warmup", 1, "--mode", "host-accessible")
    code, result, out, errors = run_on_device(library, model, config, folder, *arguments)
    assert code == 0, errors
    found: dict[str, Any] = case_of(result, "host-accessible").zero_copy
    assert ("zero-copy is proved" in out) is found["proved"]
    assert ("host-accessible: zero-copy is not proved" in out) is not found["proved"]
    return found


@pytest.mark.process
@pytest.mark.parametrize("honesty", HONESTY)
def test_zero_copy_is_not_claimed_where_the_device_copies_after_all(
    honesty: Honesty, library: Path, tmp_path: Path
) -> None:
    # The copies are long enough that no delay of the host could hide them each time.
    slow = {"upload_latency_us": 4_000.0, "download_latency_us": 4_000.0}
    config = Config(honesty=honesty, ha_copies=True, compute_us=500, trace=tmp_path / "trace", **slow)  # type: ignore[arg-type]
    assert zero_copy_of(library, tmp_path, config)["proved"] is False
    assert Trace.read(tmp_path / "trace").counters["ha-copy"].count > 0


# Runs in a process of its own, since a library is registered once: modes used directly, with the clock read at each end.
_DIRECT = """
import json, sys, time
import numpy as np
from ortbench.plan import Inputs, Target
from ortbench.worker.modes.make import make_mode
from ortbench.worker.session import first_run, providers, session

path, library = sys.argv[1:]
target = Target(library=library)
model = session.open_model(path, target, providers.find(target))
data = first_run.make_data(path, model, Inputs())
ends, found = {}, {}
for name in ("cpu", "device", "device-resident", "host-accessible"):
    mode = make_mode(name, model, data)
    for phase, (call, a, b) in mode.phases().items():
        if phase in ("upload", "download"):
            continue
        ends[f"{name}/{phase}"] = []
        for _ in range(10):
            begin = time.perf_counter_ns()
            call(a, b)
            ends[f"{name}/{phase}"].append([begin, time.perf_counter_ns()])
    if name == "host-accessible":
        found["same_addresses"] = mode.same_addresses()
        other = {"x": -np.ascontiguousarray(data.arrays["x"]) + np.float32(0.25)}
        mode.write_inputs(other)
        call(a, b)
        found["new_inputs_reach_the_next_run"] = bool(np.array_equal(mode.outputs()[0], np.maximum(other["x"], 0)))
        found["outputs_are_the_bound_memory"] = [
            view.ctypes.data == slot.value.data_ptr() for view, slot in zip(mode.outputs(), mode._outs)
        ]
print(json.dumps({"ends": ends, **found}))
"""


@pytest.mark.process
@pytest.mark.parametrize("honesty", HONESTY)
def test_a_run_is_never_reported_done_before_the_device_is(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    model = relu_model(tmp_path / "relu.onnx", 1 << 16)
    config = Config(honesty=honesty, compute_us=3000, trace=tmp_path / "trace")
    line = [sys.executable, "-c", _DIRECT, str(model), str(library)]
    environment = {**os.environ, **config.environ()}
    done = subprocess.run(line, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    inferences = Trace.read(tmp_path / "trace").of("inference")
    for name, spans in found["ends"].items():
        for begin, end in spans:
            inside = inferences[(inferences["queued_ns"] >= begin) & (inferences["queued_ns"] < end)]
            assert len(inside) == 1, name
            assert inside["end_ns"][0] <= end, name
    assert found["same_addresses"] is True
    assert found["outputs_are_the_bound_memory"] == [True]
    assert found["new_inputs_reach_the_next_run"] is True


@pytest.mark.process
@pytest.mark.parametrize(
    ("knobs", "failed", "reason"),
    [
        (
            {"wrong_run": "1+:host_accessible"},
            ["host-accessible"],
            r"^output y: 1 of 1024 values differ, first at \[0\]",
        ),
        ({"wrong_run": "1+:default"}, ["device", "device-resident"], r"^output y: 1 of 1024 values differ"),
        ({"fail_download": "40+:host"}, ["cpu"], "download"),
        ({"fail_upload": "3:default"}, ["device"], "upload"),
        ({"fail_alloc": "1+:host_accessible"}, ["host-accessible"], "alloc"),
        ({"abort_run": "9:host_accessible"}, ["host-accessible"], "^the worker was ended by SIGABRT"),
        # Long enough for a slow machine to load ONNX Runtime.
        (
            {"hang_run": "9:host_accessible"},
            ["host-accessible"],
            r"^the worker gave no answer for 30 s .*\(--timeout\)",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_failure_costs_its_mode_and_no_other(
    knobs: dict[str, str], failed: list[str], reason: str, library: Path, tmp_path: Path
) -> None:
    model = relu_model(tmp_path / "relu.onnx", 4096)
    config = Config(compute_us=300, trace=tmp_path / "trace", **knobs)  # type: ignore[arg-type]
    arguments = ("--iterations", 30, "--timeout", 30)
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *arguments)
    assert code == 1
    assert set(Trace.read(tmp_path / "trace").failures()) == set(knobs)
    for case in result.cases:
        if case.mode in failed:
            assert case.status == "failed", case.mode
            assert re.search(reason, case.reason or ""), case.reason
        else:
            assert (case.status, case.outputs_match, case.phases["total"] and case.phases["total"].n) == (
                "ok",
                True,
                30,
            )
    (line,) = errors.splitlines()  # of modes that fail for one reason
    assert line.startswith(f"ortbench: {', '.join(failed)} failed: ")


@pytest.mark.timing
def test_the_published_sample_comes_out(library: Path, tmp_path: Path) -> None:
    """2.1 ms each way, 100 runs: 420 ms of copies with CPU tensors, 4.2 ms in all when copied once."""
    model = relu_model(tmp_path / "relu.onnx", 1 << 16)
    each_way = {"upload_latency_us": 2100.0, "upload_gbps": 0.0, "download_latency_us": 2100.0, "download_gbps": 0.0}
    for attempt in range(ATTEMPTS):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        config = Config(compute_us=3000, spin_us=1e6, **each_way)  # type: ignore[arg-type]
        arguments = ("--mode", "cpu", "--mode", "device-resident", "--iterations", 100, "--warmup", 2)
        code, result, out, errors = run_on_device(library, model, config, folder, *arguments)
        assert code == 0, errors
        sentence = re.search(r"over 100 runs ≈(\d+) ms of copies with CPU tensors against ([\d.]+) ms when copied", out)
        assert sentence, out
        copies, once = float(sentence[1]), float(sentence[2])
        derived = case_of(result, "cpu").derived["copies_ns"] * 100 / 1e6
        assert round(derived) == round(copies)
        if copies == pytest.approx(420, rel=0.02) and once == pytest.approx(4.2, rel=0.02):
            return
    raise AssertionError(out)


@pytest.mark.process
def test_devices_shows_the_reference_device(library: Path) -> None:
    ran = ortbench("devices", "--ep-library", library, "--json", "-")
    device = next(ep for ep in json.loads(ran.out)["eps"] if ep["name"] == EP_NAME)
    assert device["library"] == str(library)
    (found,) = device["devices"]
    assert found["memory"]["default"] == "RefDevice (DEFAULT)"
    assert found["memory"]["host_accessible"] == "RefDeviceHostAccessible (HOST_ACCESSIBLE)"
    assert found["streams"]["offered"] is True
    assert found["modes"] == dict.fromkeys(MODES)
