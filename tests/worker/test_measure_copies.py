"""Copies by CUPTI: which run a record belongs to, exactly; and all of it with a stand-in whose GPU is the reference device."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.copies import KERNEL, Activity, Moment, summarise_activities, zero_copy
from ortbench.core.errors import BenchmarkFailed
from ortbench.model.modes import D2H, H2D
from ortbench.model.result import Result
from ortbench.model.schema import CaseCheck, Copied, Measured
from tests.conftest import modes
from tests.expect import there
from tests.forks import MAIN
from tests.refdevice import Config, Trace
from tests.truth import relu_model, run_on_device

MS = 1_000_000
COMPUTE_US = 300
RUNS = [(10 * MS, 14 * MS), (20 * MS, 25 * MS), (30 * MS, 34 * MS)]
EPOCH = 1_700_000_000_000_000_000


def both(ours_ns: int, rate: float = 1.0) -> Moment:
    return Moment(EPOCH + round(ours_ns * rate), ours_ns)


def did(what: str, start: int, took: int, size: int = 0, memory: str = "", rate: float = 1.0) -> Activity:
    return Activity(what, EPOCH + round(start * rate), EPOCH + round((start + took) * rate), size, memory)


def one_run(start: int, up: int, rate: float = 1.0) -> list[Activity]:
    copies = [did(H2D, start, up, 100, "pageable", rate), did(H2D, start + MS, up, 20, "pageable", rate)]
    kernels = [did(KERNEL, start + 2 * MS, 7, rate=rate), did(KERNEL, start + 2 * MS + 10, 8, rate=rate)]
    return [*copies, *kernels, did(D2H, start + 3 * MS, 50, 30, "pinned", rate)]


@pytest.mark.parametrize("late", [0, 1_400_000, -400_000])  # in part outside of its run, by less than half a gap
def test_records_are_shared_out_to_runs_and_summed(late: int) -> None:
    found = [it for (start, _), up in zip(RUNS, (400, 500, 4000), strict=True) for it in one_run(start + late, up)]
    assert summarise_activities(RUNS, found, both(0), both(40 * MS)) == {
        "runs": 3,
        "run_ns": 4 * MS,
        "h2d": {"n": 2, "bytes": 120, "ns": 1000, "memory": "pageable"},
        "d2h": {"n": 1, "bytes": 30, "ns": 50, "memory": "pinned"},
        "kernels_ns": 15,
    }


def test_clocks_that_differ_in_rate() -> None:
    rate = 1.01  # 1 % of 30 ms is far more than what is kept between runs
    found = [activity for start, _ in RUNS for activity in one_run(start, 500, rate)]
    answer = summarise_activities(RUNS, found, both(0, rate), both(40 * MS, rate))
    assert (answer["h2d"]["n"], answer["d2h"]["n"]) == (2, 1)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ([*one_run(10 * MS, 1), did(KERNEL, 17 * MS, 1)], "1 of 6 records of CUPTI fit no run"),
        ([did(KERNEL, 40 * MS, 1)], "1 of 1 records of CUPTI fit no run"),
        ([], "CUPTI recorded no copy and no kernel in any run"),
        ([did(KERNEL, 5 * MS, 1)], "CUPTI recorded no copy and no kernel in any run"),
    ],
)
def test_records_that_make_no_sense_are_no_measurement(found: list[Activity], message: str) -> None:
    with pytest.raises(BenchmarkFailed, match=f"^{message}$"):
        summarise_activities(RUNS, found, both(0), both(MS))


NOTHING: Copied = {"n": 0, "bytes": 0, "ns": 0, "memory": None}
ONE: Copied = {"n": 1, "bytes": 64, "ns": 0, "memory": "pinned"}
SAW = {0: "CUPTI saw no copy in 3 runs", 1: "CUPTI saw 64 bytes of d2h a run"}


@pytest.mark.parametrize(
    ("verdict", "addresses", "copied", "becomes"),
    [
        ("unclear", True, NOTHING, "passed"),  # kernels that reach over the link take as long as copies do
        ("passed", True, ONE, "unclear"),
        ("unclear", False, NOTHING, "unclear"),
    ],
)
def test_what_it_makes_of_zero_copy(verdict: Any, addresses: bool, copied: Copied, becomes: str) -> None:
    by_times: CaseCheck = {"verdict": verdict, "how": "a run takes +1.00 ms", "addresses": addresses}
    recorded: Measured = {"runs": 3, "run_ns": 1, "h2d": NOTHING, "d2h": copied, "kernels_ns": 1}
    how = f"{SAW[copied['n']]}; by times alone: a run takes +1.00 ms" if addresses else by_times["how"]
    assert zero_copy(by_times, recorded) == {"verdict": becomes, "how": how, "addresses": addresses}


MODES = ("cpu-tensors", "device-tensors", "device-resident", "host-accessible")  # it looks into all but the third


def run(library: Path, folder: Path, **environment: str) -> Result:
    """The result of `ortbench run --measure-copies` on the reference device, for one of NVIDIA's."""
    model, config = relu_model(folder / "relu.onnx", 1 << 20), Config(compute_us=COMPUTE_US, trace=folder / "trace")
    line = ("--measure-copies", *modes(*MODES), "--iterations", 3, "--warmup", 1)
    code, result, _, errors = run_on_device(
        library, model, config, folder, *line, **environment, **{MAIN: "tests.cupti:main"}
    )
    assert code == 0, errors
    return result


@pytest.mark.process
def test_copies_are_those_of_the_devices_own_trace(library: Path, tmp_path: Path) -> None:
    result = run(library, tmp_path)
    assert "copies-not-measured" not in {it["code"] for it in result.warnings}
    found, trace = {case.mode: case for case in result.cases}, Trace.read(tmp_path / "trace")
    for mode in ("cpu-tensors", "device-tensors"):
        case, got = found[mode], there(found[mode].recorded)
        assert 3 <= got["runs"] <= 20
        for copied, way in ((got["h2d"], "h2d"), (got["d2h"], "d2h")):
            copies = trace.of(way)
            copies = copies[copies["bytes"] == 1 << 20]
            (took,) = set(copies["end_ns"] - copies["start_ns"])
            assert (copied["n"], copied["memory"], case.value(f"gpu_bytes_{way}")) == (1, "pageable", 1 << 20)
            assert case.value(f"gpu_{way}") == pytest.approx(took, rel=3e-5)  # the clock of records is fast
        assert case.value("gpu_kernels") == pytest.approx(COMPUTE_US * 1000, rel=3e-5)
        parts = (case.value(name) or 0 for name in ("gpu_h2d", "gpu_d2h", "gpu_kernels"))
        assert there(case.value("gpu_latency")) >= sum(parts)
    shared, got = found["host-accessible"], there(found["host-accessible"].recorded)
    assert [got["h2d"]["n"], got["d2h"]["n"], shared.checks["zero_copy"]["verdict"]] == [0, 0, "passed"]
    assert shared.checks["zero_copy"]["how"].startswith("CUPTI saw no copy in ")
    assert found["device-resident"].recorded is None


@pytest.mark.process
@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("CUPTI_STAND_IN_FAILS", "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "CUPTI refuses: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"),
        ("CUPTI_STAND_IN_LACKS", "1", "the package cupti-python is not installed; pip install 'ortbench[cupti]'"),
    ],
)  # fmt: skip
def test_without_cupti_the_measurement_stays(
    variable: str, value: str, message: str, library: Path, tmp_path: Path
) -> None:
    if variable == "CUPTI_STAND_IN_LACKS" and find_spec("cupti") is not None:
        pytest.skip("the real package is installed")
    result = run(library, tmp_path, **{variable: value})
    (warning,) = [it["message"] for it in result.warnings if it["code"] == "copies-not-measured"]
    assert warning == f"--measure-copies gave nothing: {message}"
    assert [(case.status, case.recorded) for case in result.cases] == [("ok", None)] * len(MODES)
