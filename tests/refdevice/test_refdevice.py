"""Tests of the reference device itself: what it claims about itself is what it does, with the trace as the witness. In real
time that something waits for the device is a comparison of two points in time, which holds whatever the load."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import ROOT, ortbench, since_runtime
from tests.forks import MAIN

from .refdevice import (
    EVENT,
    HONESTY,
    KINDS,
    KNOBS,
    MEMORIES,
    SOURCES,
    VENDOR_ID,
    Config,
    Events,
    Honesty,
    Trace,
    duration_ns,
    late_ns,
)

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """What a scenario reported, and the device's trace."""

    found: dict[str, Any]
    trace: Trace


Run = Callable[..., Outcome]


def outcome_of(library: Path, trace: Path, *scenario: str, code: int = 0, **knobs: Any) -> Outcome:
    """Runs a scenario to its end, which must be the expected one."""
    ran = ortbench(
        library, *scenario, **{MAIN: "tests.refdevice.scenarios:main"}, **Config(trace=trace, **knobs).environ()
    )
    assert ran.code == code, ran.err
    return Outcome(json.loads(ran.out) if code == 0 else {}, Trace.read(trace))


@pytest.fixture
def run(library: Path, tmp_path: Path) -> Run:
    """Scenarios in virtual time."""
    return partial(outcome_of, library, tmp_path / "trace")


@pytest.fixture
def run_for_real(real_library: Path, tmp_path: Path) -> Run:
    """Scenarios in real time."""
    return partial(outcome_of, real_library, tmp_path / "trace")


# ---- the device and its memory ----


@pytest.mark.process
def test_device_describes_itself(run: Run) -> None:
    assert run("device").found == {
        "vendor": "ortbench",
        "version": "1.0.0",
        "type": "GPU",
        "vendor_id": VENDOR_ID,
        "virtual": "1",
        "memory": ["default", "host_accessible"],
    }


@pytest.mark.process
def test_default_memory_is_useless_to_the_host_and_host_accessible_memory_is_not(run: Run) -> None:
    assert run("memory").found == {
        "equal_elements_seen": 0,
        "survives_host_writes": True,
        "page_aligned": True,
        "view_is_the_memory": True,
        "new_block_is_nan": True,
    }
    assert run("memory", skew=4).found["page_aligned"] is False


@pytest.mark.process
def test_copies_are_right_between_all_memories(run: Run) -> None:
    outcome = run("copies")
    assert all(outcome.found["right"].values()), outcome.found["right"]
    assert "8 bytes" in outcome.found["too_large"]


# ---- which memory satisfies which ----

# By the memory that is bound. ONNX Runtime leaves a copy out where the source is the target's own memory, is HOST_ACCESSIBLE and the
# target the host's, is HOST_ACCESSIBLE and the target DEFAULT memory of the same device, or both are a CPU's. An output is written where
# it is bound if the device reaches that: a copy that is not left out is then one onto itself. A node on the CPU reads a copy in host
# memory, and what it gives stays there for the device to read.
CROSSINGS = {
    "arrays, default": "h2d d2h",
    "inputs to default": {
        "host": "h2d", "default": "", "host_accessible": "", "other default": "device-copy", "other host_accessible": "h2d",
    },
    "outputs from default": {
        "host": "d2h", "default": "", "host_accessible": "same-copy", "other default": "device-copy", "other host_accessible": "d2h",
    },
    "around a node, default": "d2h",
    "arrays, host_accessible": "host-copy",
    "inputs to host_accessible": {
        "host": "host-copy", "default": "d2h", "host_accessible": "", "other default": "d2h", "other host_accessible": "host-copy",
    },
    "outputs from host_accessible": {
        "host": "", "default": "", "host_accessible": "", "other default": "h2d", "other host_accessible": "host-copy",
    },
    "around a node, host_accessible": "host-copy",
}  # fmt: skip
ON_CPU = {  # where what is bound from the host is copied then, and never in a run
    "arrays, host_accessible": "",
    "inputs to host_accessible": {"host": "h2d", "host_accessible": "", "other host_accessible": ""},
    "outputs from host_accessible": {"host": "", "host_accessible": "", "other host_accessible": ""},
    "around a node, host_accessible": "",
}


@pytest.mark.process
@since_runtime(1, 28)  # older ones copy HOST_ACCESSIBLE memory to the host's
@pytest.mark.parametrize(("knobs", "copies"), [({}, CROSSINGS), ({"cpu": True, "default_memory": False}, ON_CPU)])
def test_onnx_runtime_copies_where_a_memory_does_not_satisfy_the_other(
    knobs: dict[str, Any], copies: dict[str, Any], run: Run
) -> None:
    assert run("crossings", devices=2, **knobs).found == copies


# ---- outputs whose shape is not known before they are computed ----

KNOWN = {
    "default": "inference", "host_accessible": "inference same-copy", "host": "alloc inference d2h", "no shape": "alloc inference",
    "another shape": "refused",
}  # fmt: skip
LATE = {
    "default": "inference device-copy", "host_accessible": "inference d2h same-copy", "host": "inference alloc device-copy d2h",
    "no shape": "inference alloc device-copy", "another shape": "refused",
}  # fmt: skip
PREALLOCATED = {**LATE, "default": "inference", "host_accessible": "inference same-copy"}
SINCE = since_runtime(1, 30)  # KernelContext_GetPreallocatedOutput


@pytest.mark.process
@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ("known", KNOWN),
        ("late", LATE),
        pytest.param("preallocated", PREALLOCATED, marks=SINCE),
        pytest.param("unchecked", {**PREALLOCATED, "another shape": "taken"}, marks=SINCE),
    ],
)
def test_outputs_are_computed_where_they_are_bound_if_the_device_can_know(
    outputs: str, expected: dict[str, str], run: Run
) -> None:
    assert run("outputs", outputs=outputs, alignment=0).found == expected


# ---- times and trace ----


@pytest.mark.process
def test_operations_last_as_long_as_the_knobs_say(run: Run) -> None:
    assert set(late_ns(operations(run))) == {0}


@pytest.mark.wide
@pytest.mark.process
def test_in_real_time_they_last_no_shorter(run_for_real: Run) -> None:
    assert (late_ns(operations(run_for_real)) >= 0).all()


def operations(run: Run) -> Events:
    """Copies that are planned as the knobs say."""
    knobs = {"upload_latency_us": 30, "upload_gbps": 2, "download_latency_us": 50, "download_gbps": 1}
    knobs |= {"device_copy_latency_us": 20, "device_copy_gbps": 4}
    config = Config(**knobs)  # type: ignore[arg-type]
    trace = run("copies", **knobs).trace
    promised: dict[str, Callable[[int], float]] = {
        "h2d": config.h2d_ns,
        "d2h": config.d2h_ns,
        "device-copy": config.device_copy_ns,
        "host-copy": lambda size: 0.0,
    }
    for kind, duration in promised.items():
        events = trace.of(kind)
        assert len(events) > 0
        planned = events["planned_end_ns"] - events["start_ns"]
        expected = [duration(int(size)) for size in events["bytes"]]
        assert (np.abs(planned - np.array(expected)) <= 1).all()
    return trace.of(*promised)


@pytest.mark.process
def test_an_inference_lasts_its_set_time(run: Run) -> None:
    outcome = run("three_runs", compute_us=1234.5)
    inferences = outcome.trace.of("inference")
    assert outcome.found["right"] == [True, True, True]
    assert set(duration_ns(inferences)) == {1_234_500}
    assert [MEMORIES[n] for n in inferences["memory"]] == ["host", "default", "host_accessible"]


@pytest.mark.process
def test_counters_agree_with_the_events(run: Run) -> None:
    trace = run("copies").trace
    for kind, counter in trace.counters.items():
        events = trace.of(kind)
        found = (len(events), int(events["bytes"].sum()), int(duration_ns(events).sum()))
        assert (counter.count, counter.bytes, counter.ns) == found, kind
    assert trace.dropped == 0


@pytest.mark.process
def test_a_full_trace_keeps_counting(run: Run) -> None:
    trace = run("copies", trace_records=5).trace
    assert len(trace.events) == 5
    assert trace.dropped == sum(counter.count for counter in trace.counters.values()) - 5 > 0


# ---- operators ----


@pytest.mark.process
def test_operators_agree_with_the_onnx_reference(run: Run) -> None:
    found = run("operators").found
    assert len(found) > 20
    assert {name: model["error"] for name, model in found.items() if model["error"] > 1e-5} == {}
    on_cpu = {name: model["on_cpu"] for name, model in found.items() if model["on_cpu"]}
    assert on_cpu == {"Erf in the middle": ["Erf"], "Erf alone": ["Erf"]}


# ---- honesty ----

# By kind: which of a call's three steps waits for the inference, first with ORT's wait at the end of a run, then with
# the run option that switches that wait off.
WAITS: dict[Honesty, tuple[str, str]] = {
    "sync": ("run", "run"),
    "async-wait": ("run", "synchronize"),
    "async": ("synchronize", "synchronize"),
    "async-old-api": ("copy", "copy"),
}
STEPS = ("run", "synchronize", "copy")


EACH_HONESTY = pytest.mark.parametrize("honesty", HONESTY)


@pytest.mark.process
@EACH_HONESTY
def test_only_the_promised_step_waits(run: Run, honesty: Honesty) -> None:
    for waits, returned in what_waits(run, honesty):
        assert set(returned) == {tuple(step >= waits for step in range(len(STEPS)))}


@pytest.mark.wide
@pytest.mark.process
@EACH_HONESTY
def test_the_promised_step_waits_in_real_time(run_for_real: Run, honesty: Honesty) -> None:
    for waits, returned in what_waits(run_for_real, honesty):
        assert all(all(steps[waits:]) for steps in returned)


def what_waits(run: Run, honesty: Honesty) -> Iterator[tuple[int, list[tuple[bool, ...]]]]:
    """By kind of memory and run, which step is promised to wait, and of each run which steps returned when it was done."""
    outcome = run("honesty", honesty=honesty, compute_us=20_000)
    calls = outcome.found["calls"]
    inferences = outcome.trace.of("inference")[1:]  # without the one with arrays
    assert len(inferences) == len(calls) == 12
    check_results(calls, inferences)
    assert outcome.found["cpu"]
    for memory, disabled in itertools.product(("default", "host_accessible"), (False, True)):
        yield (
            STEPS.index(WAITS[honesty][disabled]),
            [
                tuple(bool(call[step] >= inference["end_ns"]) for step in STEPS)
                for call, inference in zip(calls, inferences, strict=True)
                if (call["memory"], call["wait_disabled"]) == (memory, disabled)
            ],
        )


def check_results(calls: list[dict[str, Any]], inferences: Events) -> None:
    """Right once something has waited; whoever reads HOST_ACCESSIBLE memory before that sees it is not there yet."""
    assert all(call["right"] for call in calls)
    for call, inference in zip(calls, inferences, strict=True):
        if "seen" in call:
            assert call["seen_right"] or call["run"] < inference["end_ns"]
            assert not call["seen_right"] or call["seen"] >= inference["planned_end_ns"]


# ---- streams ----


@pytest.mark.process
@pytest.mark.parametrize(("compute_us", "upload_us"), [(1000, 5000), (30_000, 20_000)])
def test_a_stream_is_in_order_itself_and_not_waited_for(compute_us: int, upload_us: int, run: Run) -> None:
    outcome = run("streams", compute_us=compute_us, upload_latency_us=upload_us)
    trace, uploads = outcome.trace, outcome.trace.of("h2d")
    assert all(outcome.found["right"])
    assert outcome.found["handle"]
    uploads = uploads[uploads["queue"] > 0].reshape(-1, 2)
    assert (uploads[:, 1]["start_ns"] >= uploads[:, 0]["end_ns"]).all()
    assert (np.array(outcome.found["copies_returned"]) < uploads[:, 1]["end_ns"]).all()
    inferences = trace.of("inference")
    assert (inferences["start_ns"] < uploads[:, 1]["end_ns"]).all()
    assert (uploads[:, 0]["start_ns"] < inferences["end_ns"]).all()
    reads = trace.of("d2h")[::2]  # a copy without a stream waits for all of them
    assert (reads["start_ns"] >= uploads[:, 1]["end_ns"]).all()


@pytest.mark.process
@pytest.mark.parametrize(
    ("engines", "beside"),
    [
        (0, {("inference", "h2d"), ("inference", "d2h"), ("h2d", "d2h")}),
        (3, {("inference", "h2d"), ("inference", "d2h"), ("h2d", "d2h")}),
        (2, {("inference", "h2d"), ("inference", "d2h")}),
        (1, set()),
    ],
)
def test_engines_say_what_goes_on_at_the_same_time(engines: int, beside: set[tuple[str, str]], run: Run) -> None:
    """Of three things that were asked for at once."""
    slow = {"compute_us": 20_000, "upload_latency_us": 5000, "download_latency_us": 5000}
    outcome = run("three_things", engines=engines, **slow)
    assert outcome.found["right"] == [True, True]
    works = {kind: outcome.trace.of(kind) for kind in ("inference", "h2d", "d2h")}
    works = {kind: events if kind == "inference" else events[events["queue"] > 0] for kind, events in works.items()}
    assert {len(events) for events in works.values()} == {3}
    found = {
        (one, other)
        for one, other in itertools.combinations(works, 2)
        for a, b in itertools.product(works[one], works[other])
        if a["start_ns"] < b["end_ns"] and b["start_ns"] < a["end_ns"]
    }
    assert found == beside


# ---- knobs and building ----


@pytest.mark.process
@pytest.mark.parametrize(("name", "value"), [("COMPUTE_US", "soon"), ("FAIL_UPLOAD", "2:elsewhere"), ("SPEED", "1")])
def test_a_mistyped_variable_is_an_error(library: Path, name: str, value: str) -> None:
    ran = ortbench(library, "device", **{MAIN: "tests.refdevice.scenarios:main", f"REFDEVICE_{name}": value})
    assert (ran.code, name.lower() in ran.err) == (1, True)


@pytest.mark.process
def test_a_mistyped_option_is_an_error(run: Run) -> None:
    found = run("wrong_option").found
    assert "no knob compute_ms" in found["name"]
    assert "'perhaps' is not a value for the knob honesty" in found["value"]


def test_the_python_side_names_what_the_c_side_has() -> None:
    source = "".join((HERE / name).read_text() for name in SOURCES)
    assert tuple(re.findall(r'^    \{"(\w+)", KNOB_', source, re.MULTILINE)) == KNOBS
    kinds = re.search(r"H2D = 1,.*?KINDS", source, re.DOTALL)
    assert kinds
    names = re.findall(r"^  ([A-Z0-9_]+)(?: = 1)?,", "  " + kinds.group(), re.MULTILINE)
    assert [name.lower().replace("_", "-") for name in names] == list(KINDS.values())
    assert EVENT.itemsize == 96


@pytest.mark.wide
@pytest.mark.process
def test_the_module_is_a_command_that_compiles_without_warnings(real_library: Path, tmp_path: Path) -> None:
    line, strict = [sys.executable, "-m", "tests.refdevice"], f"{os.environ.get('CC', 'cc')} -Werror -O2"
    built = subprocess.run(
        [*line, tmp_path], cwd=ROOT, env={**os.environ, "CC": strict}, capture_output=True, text=True, check=True
    )
    assert Path(built.stdout.strip()).exists()
    assert subprocess.run(line, cwd=ROOT, capture_output=True, check=False).returncode == 2
