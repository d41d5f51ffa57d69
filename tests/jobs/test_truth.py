"""ortbench's figures and claims against the reference device's own witness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ortbench.model.modes import CPU_TIME, ENQUEUE, LATENCY
from ortbench.model.result import Case, Result
from tests.conftest import modes
from tests.expect import there
from tests.refdevice import HONESTY, Config, Honesty, Trace
from tests.truth import COPIES, What, differences, is_kind, recorded, relu_model, run_on_device, wrong_medians
from tests.worker import saved

SYNCS = {"sync": "run", "async-wait": "run", "async": "synchronize_outputs", "async-old-api": "readback"}
SYNC_BYTES = 4  # what the sync of last resort reads back
MEDIANS = {
    ("cpu-tensors", "latency"), ("device-tensors", "latency"), ("device-tensors", "h2d"), ("device-tensors", "inference"), ("device-tensors", "d2h"),
    ("device-resident", "latency"), ("host-accessible", "latency"),
}  # fmt: skip
BOUND = ("device-tensors", "device-resident", "host-accessible")


@dataclass(frozen=True)
class Seen:
    """A run, and what the device saw of it."""

    result: Result
    trace: Trace

    def case(self, mode: str) -> Case:
        return next(case for case in self.result.cases if case.mode == mode)

    @property
    def syncs(self) -> dict[str, str]:
        return {mode: sync["kind"] for mode in BOUND if (sync := self.case(mode).sync) is not None}


def see(library: Path, folder: Path, model: Path | int, *arguments: object, **knobs: Any) -> Seen:
    folder.mkdir(exist_ok=True)
    path = relu_model(folder / "relu.onnx", model) if isinstance(model, int) else model
    config = Config(trace=folder / "trace", **knobs)
    code, result, _, errors = run_on_device(library, path, config, folder, *arguments)
    assert code == 0, errors
    return Seen(result, Trace.read(folder / "trace"))


@pytest.fixture(scope="module")
def seen(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Honesty], Seen]:
    """Runs of a model with two inputs and two outputs of different sizes, one of each kind of honesty."""

    @cache
    def run(honesty: Honesty) -> Seen:
        folder = tmp_path_factory.mktemp("truth")
        graph = """g (float[1, 1000] a, float[20, 1000] b) => (float[20, 1000] sum, float[1, 1000] same)
            { sum = Add(a, b)  same = Relu(a) }"""
        model = saved(folder / "model.onnx", graph)
        return see(library, folder, model, "--iterations", 9, "--warmup", 1, honesty=honesty, compute_us=500)

    return run


EACH_HONESTY = pytest.mark.parametrize("honesty", HONESTY)


@EACH_HONESTY
def test_every_sample_is_what_the_devices_trace_has_of_it(honesty: Honesty, seen: Callable[[Honesty], Seen]) -> None:
    found = seen(honesty)
    assert {(case.mode, phase) for case in found.result.cases for phase in case.samples} >= MEDIANS
    assert differences(found.result, found.trace) == {}


@EACH_HONESTY
@pytest.mark.parametrize(("size", "compute_us"), [(1 << 12, 5), (1 << 20, 5_000)])
def test_samples_and_syncs_are_right_for_short_and_long_work(
    honesty: Honesty, size: int, compute_us: int, library: Path, tmp_path: Path
) -> None:
    found = see(library, tmp_path, size, "--iterations", 5, "--warmup", 1, honesty=honesty, compute_us=compute_us)
    assert differences(found.result, found.trace) == {}
    # The cheapest that waits, which the result names.
    assert found.syncs == dict.fromkeys(BOUND, SYNCS[honesty])
    assert found.result.target["sync"] is not None
    assert found.result.target["sync"]["kind"] == SYNCS[honesty]


@EACH_HONESTY
def test_modes_make_the_copies_that_they_say(honesty: Honesty, seen: Callable[[Honesty], Seen]) -> None:
    found, each_way = seen(honesty), [4000, 80000]
    for mode, copies in (("cpu-tensors", 1), ("device-tensors", 1), ("device-resident", 0), ("host-accessible", 0)):
        case = found.case(mode)
        assert (case.bytes_h2d, case.bytes_d2h) == (84000 * copies, 84000 * copies)
        for events in recorded(found.result, case, "latency", found.trace):
            moved = events[is_kind(events, *COPIES) & (events["bytes"] != SYNC_BYTES)]
            for kind in ("h2d", "d2h"):
                assert sorted(moved[is_kind(moved, kind)]["bytes"].tolist()) == each_way * copies, mode


# What a run costs besides its time, against a device that says what it costs the host

US = 1000
ENQUEUE_US, BUSY_US = 3_000, 4_000
# A thread that starts an inference makes so many calls of 1 µs for it, the clock's readings around them included; of a
# burst of 4 only one waits.
ENQUEUE_CALLS = {
    "device-tensors": 2, "device-resident": 2, "host-accessible": 3, "pipelined": 2, "device-resident-async": 1.25,
}  # fmt: skip


def test_each_run_says_what_it_costs_the_host(library: Path, tmp_path: Path) -> None:
    chosen = modes("default", "device-resident-async", "pipelined")
    line = ("--iterations", 4, "--warmup", 1, *chosen, "--depth", 2, "--measure-spin")
    knobs: dict[str, Any] = {"honesty": "async", "compute_us": 10_000}
    costly = see(library, tmp_path / "costly", 1 << 16, *line, submit_us=ENQUEUE_US, busy_us=BUSY_US, **knobs).result
    plain = see(library, tmp_path / "plain", 1 << 16, *line, **knobs).result
    for case, free in zip(costly.cases, plain.cases, strict=True):
        runs = sum(n for _, n, _ in case.blocks[LATENCY]) * case.inferences(LATENCY)
        assert there(case.host)["runs"] == there(free.host)["runs"] == runs
        for spinning in ("", "_spin_off"):
            taken, without = (it.value(f"cpu_user{spinning}") or 0 for it in (case, free))
            assert taken - without == (ENQUEUE_US + BUSY_US) * US
            assert case.value(f"cpu_system{spinning}") == 0
            # A block of few inferences counts as much.
            assert 4 * US <= without * (4 if case.mode == "device-resident-async" else 1) <= 10 * US
        assert there(case.stats(CPU_TIME)).n == len(case.blocks[LATENCY]) == len(case.samples[CPU_TIME])
        assert case.value("latency_spin_off") == case.median(LATENCY)
        if case.mode not in ENQUEUE_CALLS:
            assert case.stats(ENQUEUE) is None
            continue
        assert set(case.samples[ENQUEUE]) == {(ENQUEUE_US + ENQUEUE_CALLS[case.mode]) * US}
        shown = there(case.stats("inference") or case.stats(LATENCY))
        assert there(case.stats(ENQUEUE)).n == shown.n == sum(n for _, n, _ in case.blocks[ENQUEUE])
    (table,) = tmp_path.glob("costly/out/*/table.csv")
    assert {"enqueue_median_ns", "cpu_time_median_ns", "cpu_cores", "cpu_time_spin_off_ns"} <= {
        *table.read_text().partition("\n")[0].split(",")
    }


# In real time


@pytest.mark.timing
@pytest.mark.parametrize("honesty", ["async-old-api"])
@pytest.mark.parametrize(("size", "compute_us"), [(1 << 16, 100), (1 << 24, 5_000)])
def test_every_median_agrees_in_real_time(
    honesty: Honesty, size: int, compute_us: int, real_library: Path, tmp_path: Path
) -> None:
    """Where nothing is waited for, which is the hardest; a busy machine adds to times and takes from none, so that one good attempt for
    each median shows that the tool is right."""
    # A waiting host that sleeps comes back tens of microseconds late, which is no time of the device.
    knobs: dict[str, Any] = {"honesty": honesty, "compute_us": compute_us, "spin_us": 1e6}
    wrong: dict[What, tuple[int, int]] | None = None
    for attempt in range(5):
        found = see(real_library, tmp_path / str(attempt), size, "--iterations", 9, "--warmup", 2, **knobs)
        now = wrong_medians(found.result, found.trace)
        wrong = {what: it for what, it in now.items() if wrong is None or what in wrong}
        if not wrong:
            break
    assert wrong == {}
