"""The script for machines with a GPU: its checks exactly, and all of it against the reference device and the CPU EP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Ran
from tests.gpu import checks
from tests.gpu.checks import FAIL, NOT_RUN, PASS, Check
from tests.refdevice import Config

ATTEMPTS = 4  # what a busy machine spoils is measured again


def phase(ns: int) -> dict[str, int]:
    return {"median_ns": ns}


def case(mode: str, **changed: Any) -> dict[str, Any]:
    none: dict[str, Any] = dict.fromkeys(["reason", "zero_copy", "derived", "once", "measured"])
    phases = {"upload": None, "download": None, "inference": None, "total": phase(1_000_000)}
    return {"mode": mode, "status": "ok", "outputs_match": True, "phases": phases, **none, **changed}


def result(
    *cases: dict[str, Any], warnings: tuple[dict[str, str], ...] = (), memory: str = "ep-device"
) -> dict[str, Any]:
    return {
        "cases": list(cases),
        "stopped": "iterations",
        "warnings": list(warnings),
        "setup": {"expected_outputs": True},
        "target": {"memory": {"kind": memory}},
    }


COPIED = {
    "runs": 10,
    "run_ns": 9_900_000,
    "upload": {"n": 1, "bytes": 1000, "ns": 2_000_000, "memory": "pageable"},
    "download": {"n": 1, "bytes": 500, "ns": 1_000_000, "memory": "pageable"},
    "kernels_ns": 5_000_000,
}
TIMED = {"upload": phase(2_100_000), "download": phase(990_000), "inference": phase(1), "total": phase(9_700_000)}


def device(**changed: Any) -> dict[str, Any]:
    return case(
        "device", **{"phases": TIMED, "bytes_in": 1000, "bytes_out": 500, "measured": deepcopy(COPIED), **changed}
    )


def test_copies_that_cupti_saw_as_ortbench_did() -> None:
    assert checks.cupti_phases(result(device())) == Check(
        "CUPTI's copies agree with upload and download",
        PASS,
        "upload 2.10 ms by ortbench, 2.00 ms by CUPTI (5.0% apart), 1000 and 1000 bytes; "
        "download 990 µs by ortbench, 1.00 ms by CUPTI (1.0% apart), 500 and 500 bytes; limit 5% and equal bytes",
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"phases": {**TIMED, "upload": phase(2_110_000)}},
        {"phases": {**TIMED, "download": phase(900_000)}},
        {"bytes_in": 1001},
        {"bytes_out": 0},
    ],
)
def test_copies_that_cupti_saw_differently(changed: dict[str, Any]) -> None:
    assert checks.cupti_phases(result(device(**changed))).verdict == FAIL


def test_without_cupti_the_reason_is_the_results_own() -> None:
    why = {"code": "copies-not-measured", "message": "--measure-copies gave nothing: the package is not installed"}
    for check in (checks.cupti_phases, checks.derived_copies):
        found = check(result(device(measured=None), case("cpu"), warnings=(why,)))
        assert (found.verdict, found.figures) == (NOT_RUN, why["message"])
        found = check(result(device(measured=None), case("cpu")))
        assert (found.verdict, found.figures) == (NOT_RUN, "CUPTI was not asked: it sees NVIDIA's EPs only")


@pytest.mark.parametrize(("copies_ns", "verdict"), [(3_299_999, PASS), (2_700_000, PASS), (3_310_000, FAIL), (0, FAIL)])
def test_derived_copies_against_cupti(copies_ns: int, verdict: str) -> None:
    cpu = case("cpu", derived={"copies_ns": copies_ns, "inference_ns": 1}, measured=COPIED)
    assert checks.derived_copies(result(cpu)).verdict == verdict


def test_derived_copies_need_device_resident() -> None:
    lacking = case("device-resident", status="unsupported", reason="no device memory")
    found = checks.derived_copies(result(case("cpu", measured=COPIED), lacking))
    assert (found.verdict, found.figures) == (NOT_RUN, "no device memory")


@pytest.mark.parametrize(("each_ns", "verdict"), [(42_000, PASS), (21_000, PASS), (20_900, FAIL), (84_100, FAIL)])
def test_the_published_sample(each_ns: int, verdict: str) -> None:
    cpu = case("cpu", derived={"copies_ns": each_ns, "inference_ns": 1})
    resident = case("device-resident", once={"upload_ns": 21_000, "download_ns": 21_000})
    assert checks.published_sample(result(cpu, resident)).verdict == verdict
    assert checks.published_sample(result(case("cpu"), resident, memory="host")).verdict == NOT_RUN


def test_outputs() -> None:
    lacking = case("host-accessible", status="unsupported", reason="no such memory", outputs_match=None)
    equal = checks.outputs("m", result(case("cpu"), case("device"), lacking))
    assert equal == Check(
        "m: outputs equal in all modes",
        PASS,
        "cpu, device equal to expected outputs; host-accessible: no such memory",
    )
    wrong = case("device", status="failed", reason="output y: 1 of 4 values differ", outputs_match=False)
    assert checks.outputs("m", result(case("cpu"), wrong)).figures == "device: output y: 1 of 4 values differ"
    assert checks.outputs("m", result(case("cpu"), wrong)).verdict == FAIL
    assert checks.outputs("m", result(lacking)).verdict == NOT_RUN


def test_modes_that_time_ran_out_on_have_not_failed() -> None:
    late = case("device", status="failed", reason="the run ended before it was measured")
    found = checks.outputs("m", {**result(case("cpu"), late), "stopped": "interrupted"})
    assert (found.verdict, found.figures) == (PASS, "cpu equal to expected outputs; device: its time was over")
    assert (
        checks.outputs(
            "m", {**result(late), "stopped": "interrupted", "cases": [{**late, "outputs_match": None}]}
        ).verdict
        == NOT_RUN
    )
    wrong = {**late, "outputs_match": False}
    assert checks.outputs("m", {**result(wrong), "stopped": "interrupted"}).verdict == FAIL


def test_zero_copy_is_proved_or_says_why_not() -> None:
    proved = case("host-accessible", zero_copy={"proved": True, "how": "same address"})
    assert checks.zero_copy(result(proved)).figures == "proved: same address"
    slow = case("host-accessible", zero_copy={"proved": False, "how": "it takes longer"})
    assert checks.zero_copy(result(slow)) == Check(
        checks.zero_copy(result(slow)).name, PASS, "not proved: it takes longer"
    )
    lacking = case("host-accessible", status="unsupported", reason="no such memory")
    assert checks.zero_copy(result(lacking)).verdict == NOT_RUN
    assert checks.zero_copy(result(case("host-accessible", zero_copy={"proved": True, "how": ""}))).verdict == FAIL


@pytest.mark.parametrize(("ratio", "verdict"), [(1.0, PASS), (1.029, PASS), (0.971, PASS), (1.031, FAIL), (0.9, FAIL)])
def test_fence(ratio: float, verdict: str) -> None:
    found = {"runs": 10, "kind": "run", "median_ns": 1000, "total_ns": 10_000 * ratio, "ratio": ratio}
    assert checks.fence(found).verdict == verdict
    assert checks.fence(None).verdict == NOT_RUN


@pytest.mark.parametrize(("ours", "verdict"), [(105.0, PASS), (106.0, FAIL), (90.0, PASS)])
def test_loop_cost(ours: float, verdict: str) -> None:
    assert checks.loop_cost({"ours_ns": ours, "bare_ns": 100.0}).verdict == verdict


def test_only_a_check_that_failed_fails_the_run() -> None:
    assert checks.exit_code([Check("a", PASS, ""), Check("b", NOT_RUN, "")]) == 0
    assert checks.exit_code([Check("a", PASS, ""), Check("b", FAIL, "")]) == 1


def accept(*arguments: object, **environment: str) -> Ran:
    """Run the script, quick, to its end."""
    line = [sys.executable, "-m", "tests.gpu.accept", "--quick", *map(str, arguments)]
    environ = {**os.environ, **environment}
    done = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=600)
    return Ran(done.returncode, done.stdout, done.stderr)


def verdicts(out: Path) -> dict[str, tuple[str, str]]:
    """Verdict and figures by check, from the summary."""
    rows = [line.strip("| ").split(" | ") for line in (out / "summary.md").read_text().splitlines()]
    return {row[1]: (row[0], row[2]) for row in rows if row[0] in (PASS, FAIL, NOT_RUN)}


def of(found: dict[str, tuple[str, str]], beginning: str) -> tuple[str, str]:
    """The one check whose name begins so."""
    (only,) = [value for name, value in found.items() if name.startswith(beginning)]
    return only


# It sleeps rather than spins, so that it is on time on a busy machine too.
DEVICE = Config(
    compute_us=1000, upload_latency_us=1000, upload_gbps=0, download_latency_us=1000, download_gbps=0, spin_us=50
)


TIMED_CHECKS = ("the published sample's shape", "the fence holds", "loop cost against a bare loop")


def test_on_the_reference_device_all_that_it_can_answer_passes(library: Path, tmp_path: Path) -> None:
    passed: set[str] = set()
    for attempt in range(ATTEMPTS):
        out = tmp_path / str(attempt)
        ran = accept("--ep-library", library, "--out", out, **DEVICE.environ())
        found = verdicts(out)
        assert ran.code == int(any(verdict == FAIL for verdict, _ in found.values())), ran.out
        passed |= {name for name in TIMED_CHECKS if of(found, name)[0] == PASS}
        if passed == {*TIMED_CHECKS}:
            break
    assert passed == {*TIMED_CHECKS}, ran.out
    for name in ("copy_4k: outputs", "resnet50: outputs", "transformer: outputs", "host-accessible: zero-copy"):
        assert of(found, name)[0] == PASS, ran.out
    for name in ("CUPTI's copies agree", "cpu less device-resident agrees"):
        assert of(found, name)[0] == NOT_RUN
        assert "CUPTI was not asked: it sees NVIDIA's EPs only" in ran.out
    summary = (out / "summary.md").read_text()
    assert all(check in summary for check in ("the fence holds", "loop cost", "CUPTI's copies agree"))
    assert str(ROOT) not in summary
    for name in ("copy_4k", "resnet50", "transformer"):
        assert {path.name for path in (out / name).iterdir()} == {"result.json", "table.csv", "table.md"}
    assert json.loads((out / "fence-and-loop.json").read_text())["fence"]["kind"] == "run"


def test_on_the_cpu_it_says_what_does_not_apply(tmp_path: Path) -> None:
    accept("--ep", "cpu", "--out", tmp_path / "out")  # what it says of times a busy machine may spoil
    found = verdicts(tmp_path / "out")
    for name in ("copy_4k: outputs equal", "resnet50: outputs equal", "transformer: outputs equal", "host-accessible"):
        assert of(found, name)[0] == PASS, found
    why = "this EP computes in host memory: nothing is copied to a device"
    for name in ("the published sample's shape", "the fence holds"):
        assert of(found, name) == (NOT_RUN, why)
    assert of(found, "CUPTI's copies agree")[0] == NOT_RUN


def test_a_step_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    ran = accept("--ep", "no-such-ep", "--out", tmp_path / "out")
    assert ran.code == 1
    found = verdicts(tmp_path / "out")
    for name in ("copy_4k: outputs equal", "transformer: outputs equal", "the fence holds", "loop cost"):
        assert of(found, name)[0] == FAIL, ran.out
    assert "no such execution provider" in of(found, "copy_4k: outputs equal")[1]


def test_what_there_is_no_time_for_is_not_run(tmp_path: Path) -> None:
    ran = accept("--ep", "cpu", "--out", tmp_path / "out", "--minutes", 0.01)
    found = verdicts(tmp_path / "out")
    assert ran.code == 0, ran.out
    assert {verdict for verdict, _ in found.values()} == {NOT_RUN}
    assert of(found, "copy_4k: outputs equal")[1] == "no time was left"
    assert "0 passed, 0 failed" in (tmp_path / "out" / "summary.md").read_text()


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    ran = accept("--ep", "cpu", "--out", tmp_path)
    assert (ran.code, ran.err) == (2, f"accept: --out {tmp_path}: File exists\n")
    assert list(tmp_path.iterdir()) == []
