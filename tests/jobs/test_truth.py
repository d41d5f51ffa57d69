"""ortbench's figures and claims against the reference device's own witness."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest

from ortbench.model.result import Case, Result
from tests import bare, wrong_builds
from tests.refdevice import HONESTY, Config, Honesty, Trace
from tests.truth import (
    COPIES,
    Check,
    checks,
    differences,
    is_kind,
    recorded,
    relu_model,
    run_on_device,
    wrong_in_all,
)
from tests.virtual import CALL_NS

SYNCS = {"sync": "run", "async-wait": "run", "async": "synchronize_outputs", "async-old-api": "readback"}
SYNC_BYTES = 4  # what the sync of last resort reads back
MEDIANS = {
    ("cpu-tensors", "latency"), ("device-tensors", "latency"), ("device-tensors", "h2d"), ("device-tensors", "inference"), ("device-tensors", "d2h"),
    ("device-resident", "latency"), ("host-accessible", "latency"),
}  # fmt: skip
BOUND = ("device-tensors", "device-resident", "host-accessible")

pytestmark = pytest.mark.process


@dataclass(frozen=True)
class Seen:
    """A run, what it printed, and what the device saw of it."""

    result: Result
    out: str
    trace: Trace

    def case(self, mode: str) -> Case:
        return next(case for case in self.result.cases if case.mode == mode)

    @property
    def syncs(self) -> dict[str, str]:
        """The kind of each mode's."""
        return {mode: sync["kind"] for mode in BOUND if (sync := self.case(mode).sync) is not None}


def see(
    library: Path,
    folder: Path,
    model: Path | int,
    *arguments: object,
    environment: dict[str, str] | None = None,
    **knobs: Any,
) -> Seen:
    """A run of a model, or of a Relu over so many bytes."""
    folder.mkdir(exist_ok=True)
    path = relu_model(folder / "relu.onnx", model) if isinstance(model, int) else model
    config = Config(trace=folder / "trace", **knobs)
    code, result, out, errors = run_on_device(library, path, config, folder, *arguments, **environment or {})
    assert code == 0, errors
    return Seen(result, out, Trace.read(folder / "trace"))


@pytest.fixture(scope="module")
def seen(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Honesty], Seen]:
    """Runs of a model with two inputs and two outputs of different sizes, one of each kind of honesty."""

    @cache
    def run(honesty: Honesty) -> Seen:
        folder = tmp_path_factory.mktemp("truth")
        graph = """<ir_version: 8, opset_import: ["" : 17]>
            g (float[1, 1000] a, float[20, 1000] b) => (float[20, 1000] sum, float[1, 1000] same)
            { sum = Add(a, b)  same = Relu(a) }"""
        model = folder / "model.onnx"
        onnx.save(onnx.parser.parse_model(graph), model)
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


@pytest.mark.parametrize(
    ("build", "honesty", "caught"),
    [
        ("forgets_syncs", "async", {("device-tensors", "inference"), ("device-resident", "latency")}),
        ("copies_twice", "sync", {("device-tensors", "h2d")}),
        ("counts_twice", "sync", {("device-tensors", "latency")}),
        ("adds_a_microsecond", "sync", MEDIANS),
    ],
)
def test_a_build_that_is_wrong_does_not_agree(
    build: str, honesty: str, caught: set[tuple[str, str]], library: Path, tmp_path: Path
) -> None:
    modes = [word for mode in sorted({mode for mode, _ in caught}) for word in ("--mode", mode)]
    line = (*modes, "--iterations", 5, "--warmup", 1)
    found = see(library, tmp_path, 1 << 16, *line, honesty=honesty, environment=wrong_builds.build(build))
    assert set(differences(found.result, found.trace)) == caught


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


@pytest.mark.parametrize("copies", [False, True])
def test_zero_copy_is_verified_where_nothing_is_copied(copies: bool, library: Path, tmp_path: Path) -> None:
    line = ("--iterations", 3, "--warmup", 1, "--mode", "host-accessible")
    found = see(library, tmp_path, 1 << 16, *line, honesty="async", ha_copies=copies, compute_us=500)
    zero_copy = found.case("host-accessible").checks["zero_copy"]
    assert (zero_copy["addresses"], zero_copy["verdict"]) == (True, "unclear" if copies else "passed")
    assert zero_copy["how"].startswith("the outputs are at the bound addresses")
    assert f"is {'not ' * copies}verified as zero-copy" in found.out
    assert (found.trace.counters["ha-copy"] > 0) is copies


@pytest.mark.parametrize(
    ("knobs", "failed", "reason"),
    [
        (
            {"wrong_run": "1+:host_accessible"},
            ["host-accessible"],
            r"^1 of 1024 values of output y differ from the first session\.run with CPU tensors, first at \[0\]",
        ),
        ({"fail_download": "40+:host"}, ["cpu-tensors"], "download"),
        ({"fail_upload": "3:default"}, ["device-tensors"], "upload"),
        ({"abort_run": "9:host_accessible"}, ["host-accessible"], "^the worker was ended by SIGABRT"),
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
            assert (case.status, case.checks["outputs"]["verdict"]) == ("ok", "passed")
            assert len(case.samples["latency"]) == 30
    (line,) = errors.splitlines()  # of modes that fail for one reason
    assert line.startswith(f"ortbench: {', '.join(failed)} failed: ")


def test_the_published_sample_comes_out(library: Path, tmp_path: Path) -> None:
    """2.1 ms each way, 100 runs: 420 ms of copies with CPU tensors, 4.2 ms in all when copied once."""
    each_way: dict[str, Any] = {f"{way}_latency_us": 2100 for way in ("upload", "download")}
    each_way |= {"upload_gbps": 0, "download_gbps": 0}
    line = ("--mode", "cpu-tensors", "--mode", "device-resident", "--iterations", 100, "--warmup", 2)
    found = see(library, tmp_path, 1 << 16, *line, compute_us=3000, **each_way)
    assert found.case("cpu-tensors").value("copies") == 4_200_000 + 2 * CALL_NS


# In real time


@pytest.mark.timing
@pytest.mark.parametrize("honesty", ["async-old-api"])
@pytest.mark.parametrize(("size", "compute_us"), [(1 << 16, 100), (1 << 24, 5_000)])
def test_every_median_agrees_in_real_time(
    honesty: Honesty, size: int, compute_us: int, real_library: Path, tmp_path: Path
) -> None:
    """Where nothing is waited for, which is the hardest."""

    def attempts() -> Iterator[list[Check]]:
        for attempt in range(5):
            folder, file = tmp_path / str(attempt), tmp_path / f"bare{attempt}"
            # A waiting host that sleeps comes back tens of microseconds late; that is its own time, not the device's.
            found = see(
                real_library, folder, size, "--iterations", 9, "--warmup", 2, honesty=honesty, compute_us=compute_us,
                spin_us=1e6, environment=bare.beside(file),
            )  # fmt: skip
            yield checks(found.result, found.trace, file)

    assert wrong_in_all(attempts()) == {}
