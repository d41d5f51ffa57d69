"""`ortbench gate`: stored results, and live on the reference device, whose times are what they are set to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.__main__ import main
from ortbench.features.gate import job as gate_job
from ortbench.jobs.run import measure
from ortbench.model.result import Result
from ortbench.plan.plan import Plan
from tests.conftest import MODELS, Ran, ortbench
from tests.results import measured, result_of, steady
from tests.truth import relu_model

pytestmark = pytest.mark.process

QUIET = [1_000_000, 1_001_000, 999_000, 1_000_500] * 6


def scaled(factor: float) -> Result:
    return result_of(measured("cpu-tensors", latency=steady(round(value * factor) for value in QUIET)))


# Stored results


def test_quiet_prints_nothing_and_keeps_the_code(files: Any) -> None:
    ran = ortbench("gate", files("new", scaled(1.2)), "--baseline", files("old", scaled(1)), "--quiet")
    assert (ran.code, ran.out, ran.err) == (3, "", "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "nothing to check"),
        ("--max-regression 5%", "needs something to compare with"),
        ("--baseline OLD --max-regression fast", "write a share above zero"),
        ("--baseline OLD --metric device-tensors.latency.p42", "latency has no statistic 'p42'"),
        ("--metric latency.p95 --max-cpu-nodes 0", "--metric is compared with a baseline: give --baseline"),
        ("--min-speedup device-tensors=fast", "write how many times as fast"),
        ("--min-speedup gpu=2", "there is no such mode"),
        ("--require-mode gpu", "there is no such mode"),
        ("--max-cpu-nodes -1", "cannot be negative"),
        ("--baseline OLD --mode gpu", "there is no such mode"),
        ("--baseline OLD --mode device-tensors", "not measured in both results"),
    ],
)
def test_bad_input_is_one_line(files: Any, options: str, message: str) -> None:
    words = options.replace("OLD", str(files("old", scaled(1.0)))).split()
    ran = ortbench("gate", files("new", scaled(1.0)), *words)
    assert ran.code == 2
    assert message in ran.error_line


def test_only_the_modes_that_are_named_are_held_against_the_baseline(files: Any) -> None:
    slow = measured("device-tensors", latency=steady(2 * x for x in QUIET))
    new = files("new", result_of(*scaled(1).cases, slow))
    old = files("old", result_of(*scaled(1).cases, measured("device-tensors", latency=steady(QUIET))))
    codes = [ortbench("gate", new, "--baseline", old, *mode).code for mode in ((), ("--mode", "cpu-tensors"))]
    assert codes == [3, 0]


# Live gates


@pytest.fixture(scope="module")
def relu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return relu_model(tmp_path_factory.mktemp("model") / "relu.onnx", 1 << 16)


def live(relu: Path, library: Path, out: Path, *options: object, compute_us: int = 3000, **environment: str) -> Ran:
    return ortbench(
        "gate", "--model", relu, "--ep", library, "--ep-option", f"compute_us={compute_us}", "--warmup", 2, "--no-why",
        "--out", out, *options, **environment,
    )  # fmt: skip


def check_of(folder: Path) -> list[dict[str, Any]]:
    """The checks of a gate that is the only one in a folder."""
    (gate,) = folder.iterdir()
    checks: list[dict[str, Any]] = json.loads((gate / "gate.json").read_text())["checks"]
    return checks


AGAINST_3000 = ("--baseline-set", "ep-option=compute_us=3000", "--max-regression", "15%")


@pytest.mark.parametrize(("compute_us", "code", "mode"), [(2000, 0, "cpu-tensors"), (4500, 3, "device-resident")])
def test_a_live_gate(compute_us: int, code: int, mode: str, relu: Path, library: Path, tmp_path: Path) -> None:
    ran = live(relu, library, tmp_path, *AGAINST_3000, "--mode", mode, compute_us=compute_us)
    assert (ran.code, ran.err) == (code, ""), ran.out + ran.err
    assert [(check["name"], check["verdict"]) for check in check_of(tmp_path)] == [
        (f"{mode} latency median", "failed" if code else "passed")
    ]
    (folder,) = tmp_path.iterdir()
    sides = [json.loads((folder / side / "result.json").read_text()) for side in ("candidate", "baseline")]
    assert [side["stopped"] for side in sides] == [{"reason": "verdict"}] * 2
    assert sides[0]["setup"]["run_id"] == sides[1]["setup"]["run_id"]
    assert [side["target"]["ep_options"]["compute_us"] for side in sides] == [str(compute_us), "3000"]
    assert ("; again with fresh workers: ratio 1." in ran.out) == bool(code)
    assert (folder / "again" / "candidate" / "result.json").is_file() == bool(code)
    assert ortbench("compare", folder / "baseline", folder / "candidate").code == 0


def with_a_slow_first_worker() -> None:
    """The command, whose second pair of workers is two baselines: what made the candidate slower ended with its worker."""
    launches: list[int] = []

    def launched(plans: list[Plan], *rest: Any, **named: Any) -> Any:
        launches.append(len(plans))
        return measure(plans if len(launches) == 1 else [plans[1]] * 2, *rest, **named)

    gate_job.measure = launched  # type: ignore[assignment, attr-defined]
    main()


def test_a_regression_that_fresh_workers_do_not_show_is_none(relu: Path, library: Path, tmp_path: Path) -> None:
    ran = live(relu, library, tmp_path, "--mode", "cpu-tensors", "--baseline-set", "ep-option=compute_us=1000", "--max-regression",
               "50%", compute_us=9000, ORTBENCH_TESTS_MAIN=f"{__name__}:with_a_slow_first_worker")  # fmt: skip
    assert ran.code == 4, ran.out + ran.err
    (check,) = check_of(tmp_path)
    assert check["verdict"] == "cannot tell"
    assert check["ratio"] > 1.5
    assert check["text"].endswith("so the regression is not confirmed")
    (folder,) = tmp_path.iterdir()
    assert {path.parent.name for path in folder.glob("again/*/result.json")} == {"candidate", "baseline"}


def test_modes_that_only_a_limit_needs_are_not_compared(relu: Path, library: Path, tmp_path: Path) -> None:
    limit = ("--mode", "device-tensors", "--min-speedup", "device-resident=0.5")
    assert live(relu, library, tmp_path, *limit, *AGAINST_3000).code == 0
    names = [check["name"] for check in check_of(tmp_path)]
    assert names == ["device-tensors latency median", "device-resident speedup"]


def test_a_metric_of_one_phase(relu: Path, library: Path, tmp_path: Path) -> None:
    """Copies to the device take ten times as long as the baseline's."""
    sides = ("--ep-option", "upload_latency_us=2000", "--baseline-set", "ep-option=upload_latency_us=200")
    metric = ("--metric", "device-tensors.h2d.median", "--mode", "device-tensors")
    ran = live(relu, library, tmp_path, *sides, "--baseline-set", "ep-option=compute_us=200", *metric, compute_us=200)
    assert ran.code == 3, ran.out + ran.err
    assert [check["name"] for check in check_of(tmp_path)] == ["device-tensors h2d median"]
    (path,) = tmp_path.glob("*/candidate/result.json")
    (case,) = json.loads(path.read_text())["cases"]
    assert set(case["samples"]) == {"h2d", "latency", "cpu_time", "page_faults", "involuntary_switches"}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("wrong_run=1+", "differ"),
        ("abort_run=60:default", "candidate: device-resident failed: the worker was ended by SIGABRT"),
    ],
)
def test_a_side_that_fails_is_no_verdict(relu: Path, library: Path, tmp_path: Path, fault: str, said: str) -> None:
    ran = live(relu, library, tmp_path, "--ep-option", fault, *AGAINST_3000, "--mode", "device-resident")
    assert ran.code == 1
    assert said in ran.err


def test_models_with_other_inputs_are_not_comparable(tmp_path: Path) -> None:
    models = ["--model", MODELS / "tiny.onnx", "--baseline-model", MODELS / "multi_output.onnx", "--ep", "cpu"]
    ran = ortbench("gate", *models, "--out", tmp_path)
    assert ran.code == 5
    assert "the inputs differ" in ran.error_line
    assert list(tmp_path.iterdir()) == []


def test_an_ep_that_is_named_by_its_library_needs_it_once(relu: Path, library: Path) -> None:
    ran = ortbench("run", relu, "--ep", library, "--ep-library", library)
    assert (ran.code, "leave --ep-library out" in ran.error_line) == (2, True)
