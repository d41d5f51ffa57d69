"""`ortbench gate`: stored results, and live on the reference device, whose times are what they are set to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest

from ortbench.__main__ import main
from ortbench.features.gate import job as gate_job
from ortbench.jobs.run import measure
from ortbench.model.modes import USUAL_MODES
from ortbench.model.result import Result
from ortbench.plan.plan import Plan
from tests.conftest import MODELS, ROOT, Ran, command, lacking, ortbench
from tests.environments import INSTALLED, plain, without_ortbench
from tests.refdevice import EP_NAME
from tests.results import broken, measured, result_of, steady
from tests.truth import relu_model

pytestmark = pytest.mark.process

QUIET = [1_000_000, 1_001_000, 999_000, 1_000_500] * 6


def scaled(factor: float) -> Result:
    return result_of(measured("cpu-tensors", latency=steady(round(value * factor) for value in QUIET)))


# Stored results


@pytest.mark.parametrize(
    ("factor", "code", "word"), [(1.0, 0, "passed"), (0.8, 0, "passed"), (1.12, 3, "failed"), (1.05, 4, "cannot tell")]
)
def test_a_stored_baseline(files: Any, factor: float, code: int, word: str) -> None:
    ran = ortbench("gate", files("new", scaled(factor)), "--baseline", files("old", scaled(1.0)))
    assert (ran.code, ran.err) == (code, "")
    assert f"gate: {word}" in ran.out
    assert "must be at most 1.05" in ran.out


def test_its_json_and_junit_are_written(files: Any, tmp_path: Path) -> None:
    new, old = files("new", scaled(1.2)), files("old", scaled(1.0))
    ran = ortbench("gate", new, "--baseline", old, "--json", "-", "--junit", tmp_path / "gate.xml")
    data = json.loads(ran.out)
    assert (ran.code, data["exit_code"], data["verdict"]) == (3, 3, "failed")
    (check,) = data["checks"]
    assert check["name"] == "cpu-tensors latency median"
    assert check["ratio"] == pytest.approx(1.2)
    suites = ET.parse(tmp_path / "gate.xml").getroot()
    assert [case.get("name") for case in suites.iter("testcase")] == ["cpu-tensors", "cpu-tensors latency median"]
    assert len(list(suites.iter("failure"))) == 1


def test_the_job_summary_is_written_where_ci_wants_one(files: Any, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    ortbench("gate", files("new", scaled(1.2)), "--baseline", files("old", scaled(1)), GITHUB_STEP_SUMMARY=str(summary))
    text = summary.read_text()
    assert text.startswith("before\n")
    assert "# ortbench gate: failed" in text


def test_quiet_prints_nothing_and_keeps_the_code(files: Any) -> None:
    ran = ortbench("gate", files("new", scaled(1.2)), "--baseline", files("old", scaled(1)), "--quiet")
    assert (ran.code, ran.out, ran.err) == (3, "", "")


def test_other_machines_are_not_comparable_unless_forced(files: Any) -> None:
    old = result_of(*scaled(1.0).cases, environment__cpu__model="Another CPU")
    new, baseline = files("new", scaled(1.0)), files("old", old)
    ran = ortbench("gate", new, "--baseline", baseline)
    assert ran.code == 5
    assert "CPU: Another CPU and Some CPU" in ran.error_line
    assert "--force" in ran.error_line
    forced = ortbench("gate", new, "--baseline", baseline, "--force")
    assert forced.code == 0
    assert "not comparable, forced" in forced.out


def test_committed_results_are_read() -> None:
    """They have no run_id."""
    folder = ROOT / "reports" / "copy_bound-refdevice"
    ran = ortbench(
        "gate", folder, "--baseline", folder, "--max-regression", "40%", "--min-speedup", "device-resident=1"
    )
    assert ran.code == 0, ran.out + ran.err


def test_a_failed_case_outweighs_every_verdict(files: Any) -> None:
    new = result_of(*scaled(1.0).cases, broken("device-tensors", reason="the driver died"))
    ran = ortbench("gate", files("new", new), "--baseline", files("old", scaled(1.0)))
    assert ran.code == 1
    assert ran.error_line == "candidate: device-tensors failed: the driver died"


def test_limits_without_a_baseline(files: Any) -> None:
    result = result_of(
        measured("cpu-tensors", latency=steady(QUIET)),
        measured("device-resident", latency=steady(value // 2 for value in QUIET)),
        broken("host-accessible", "unsupported", "no such memory"),
        placement__cpu_operators={"Shape": 2},
    )
    path = files("new", result)
    limits = [
        (("--min-speedup", "device-resident=1.9"), 0),
        (("--min-speedup", "device-resident=2.1"), 3),
        (("--max-copy-share", "55%"), 0),
        (("--max-copy-share", "45%"), 3),
        (("--max-cpu-nodes", "2"), 0),
        (("--max-cpu-nodes", "1"), 3),
        (("--require-mode", "device-resident"), 0),
        (("--require-mode", "host-accessible"), 3),
        (("--require-mode", "device-tensors"), 3),
    ]
    assert [ortbench("gate", path, *limit).code for limit, _ in limits] == [code for _, code in limits]


BAD: list[tuple[list[str], str]] = [
    ([], "nothing to check"),
    (["--max-regression", "5%"], "needs something to compare with"),
    (["--baseline", "OLD", "--max-regression", "fast"], "write a share above zero"),
    (["--baseline", "OLD", "--metric", "device-tensors.latency.p42"], "latency has no statistic 'p42'"),
    (["--baseline", "OLD", "--metric", "device-tensors.latency.median"], "not measured in both results"),
    (["--metric", "latency.p95", "--max-cpu-nodes", "0"], "--metric is compared with a baseline: give --baseline"),
    (["--min-speedup", "device-tensors"], "write it as key=value"),
    (["--min-speedup", "device-tensors=fast"], "write how many times as fast"),
    (["--min-speedup", "gpu=2"], "there is no such mode"),
    (["--min-speedup", "device-tensors=2"], "needs mode device-tensors, which was not measured"),
    (["--require-mode", "gpu"], "there is no such mode"),
    (["--max-cpu-nodes", "-1"], "cannot be negative"),
    (["--baseline", "nowhere.json"], "cannot read nowhere.json"),
    (["--baseline-set", "ep=cpu"], "exclude each other"),
    (["--baseline", "OLD", "--duration", "5"], "--duration applies to a live gate"),
    (["--baseline", "OLD", "--range", "x:0,1"], "--range applies to a live gate"),
    (["--baseline", "OLD", "--mode", "gpu"], "there is no such mode"),
    (["--baseline", "OLD", "--mode", "device-tensors"], "not measured in both results"),
    (["--model", "m.onnx", "--max-cpu-nodes", "0"], "exclude each other"),
]


@pytest.mark.parametrize(("options", "message"), BAD, ids=[" ".join(options) for options, _ in BAD])
def test_bad_input_is_one_line(files: Any, options: list[str], message: str) -> None:
    old = str(files("old", scaled(1.0)))
    ran = ortbench("gate", files("new", scaled(1.0)), *[old if option == "OLD" else option for option in options])
    assert ran.code == 2
    assert message in ran.error_line


def test_only_the_modes_that_are_named_are_held_against_the_baseline(files: Any) -> None:
    slow = result_of(
        measured("cpu-tensors", latency=steady(QUIET)), measured("device-tensors", latency=steady(2 * x for x in QUIET))
    )
    old = result_of(measured("cpu-tensors", latency=steady(QUIET)), measured("device-tensors", latency=steady(QUIET)))
    new, baseline = files("new", slow), files("old", old)
    codes = [ortbench("gate", new, "--baseline", baseline, *mode).code for mode in ((), ("--mode", "cpu-tensors"))]
    assert codes == [3, 0]


# Live gates


@pytest.fixture(scope="module")
def relu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return relu_model(tmp_path_factory.mktemp("model") / "relu.onnx", 1 << 16)


def live(relu: Path, library: Path, out: Path, *options: object, compute_us: int = 3000, **environment: str) -> Ran:
    return ortbench(
        "gate", "--model", relu, "--ep", library, "--ep-option", f"compute_us={compute_us}", "--warmup", 2,
        "--out", out, *options, **environment,
    )  # fmt: skip


def check_of(folder: Path) -> list[dict[str, Any]]:
    """The checks of a gate that is the only one in a folder."""
    (gate,) = folder.iterdir()
    checks: list[dict[str, Any]] = json.loads((gate / "gate.json").read_text())["checks"]
    return checks


def tell_a_slower_device(ran: Ran, out: Path, compute_us: int, code: int, modes: Sequence[str]) -> None:
    """Check what a gate against a baseline of 3000 µs printed and left."""
    assert (ran.code, ran.err) == (code, ""), ran.out + ran.err
    assert {(check["name"], check["verdict"]) for check in check_of(out)} == {
        (f"{mode} latency median", "failed" if code else "passed") for mode in modes
    }
    (folder,) = out.iterdir()
    assert json.loads((folder / "gate.json").read_text())["exit_code"] == code
    sides = [json.loads((folder / side / "result.json").read_text()) for side in ("candidate", "baseline")]
    assert [side["stopped"] for side in sides] == [{"reason": "verdict"}] * 2
    assert sides[0]["setup"]["run_id"] == sides[1]["setup"]["run_id"]
    assert [side["target"]["ep_options"]["compute_us"] for side in sides] == [str(compute_us), "3000"]
    assert ("EP options: compute_us 3000 → compute_us" in ran.out) == (compute_us != 3000)
    assert ("; again with fresh workers: ratio 1." in ran.out) == bool(code)
    assert (folder / "again" / "candidate" / "result.json").is_file() == bool(code)
    compared = ortbench("compare", folder / "baseline", folder / "candidate")
    assert compared.code == 0


AGAINST_3000 = ("--baseline-set", "ep-option=compute_us=3000", "--max-regression", "15%")
# One mode that is slower fails a gate and all must pass, so the gate that passes has all of them.
SPEEDS = [
    (3000, 0, USUAL_MODES),
    (2000, 0, ("cpu-tensors",)),
    (4500, 3, ("cpu-tensors",)),
    (4500, 3, ("device-resident",)),
]


@pytest.mark.parametrize(("compute_us", "code", "modes"), SPEEDS)
def test_a_live_gate_tells_a_slower_device(
    relu: Path, library: Path, tmp_path: Path, compute_us: int, code: int, modes: tuple[str, ...]
) -> None:
    words = [word for mode in modes for word in ("--mode", mode)]
    ran = live(relu, library, tmp_path, *AGAINST_3000, *words, compute_us=compute_us)
    tell_a_slower_device(ran, tmp_path, compute_us, code, modes)


@pytest.mark.timing
@pytest.mark.parametrize(("compute_us", "code", "modes"), [SPEEDS[0], SPEEDS[2]])
def test_a_live_gate_tells_a_slower_device_in_real_time(
    relu: Path, real_library: Path, tmp_path: Path, compute_us: int, code: int, modes: tuple[str, ...]
) -> None:
    words = [word for mode in modes for word in ("--mode", mode)]
    ran = live(relu, real_library, tmp_path, *AGAINST_3000, *words, compute_us=compute_us)
    tell_a_slower_device(ran, tmp_path, compute_us, code, modes)


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
    assert re.search(
        r"; again with fresh workers: ratio 1\.000 .*so the regression is not confirmed$", check["text"]
    ), check["text"]
    (folder,) = tmp_path.iterdir()
    assert {path.parent.name for path in folder.glob("again/*/result.json")} == {"candidate", "baseline"}


def test_blocks_of_both_sides_share_rounds_and_have_one_size(relu: Path, library: Path, tmp_path: Path) -> None:
    live(relu, library, tmp_path, "--baseline-set", "ep-option=compute_us=3300", "--mode", "device-resident")
    (folder,) = tmp_path.iterdir()
    blocks = []
    for side in ("candidate", "baseline"):
        (case,) = json.loads((folder / side / "result.json").read_text())["cases"]
        blocks.append(case["blocks"]["latency"])
    assert [block[:2] for block in blocks[0]] == [block[:2] for block in blocks[1]]
    first = [a[2] < b[2] for a, b in zip(*blocks, strict=True)]  # one clock on both sides
    assert set(first) == {True, False}  # the order is shuffled


def test_a_budget_too_small_for_a_verdict_cannot_tell(relu: Path, library: Path, tmp_path: Path) -> None:
    ran = live(
        relu,
        library,
        tmp_path,
        "--baseline-set",
        "ep-option=compute_us=3000",
        "--duration",
        0.02,
        "--mode",
        "device-tensors",
    )
    assert ran.code == 4
    assert "gate: cannot tell" in ran.out
    assert "too few rounds" in ran.out


@pytest.mark.parametrize(
    ("options", "code", "crosses"),
    [
        (["--max-copy-share", "70%", "--min-speedup", "device-resident=1.2", "--require-mode", "host-accessible",
          "--max-cpu-nodes", 0], 0, 0),
        (["--max-copy-share", "20%", "--min-speedup", "device-resident=4", "--mode", "cpu-tensors"], 3, 2),
    ],
)  # fmt: skip
def test_limits_of_a_live_gate(
    relu: Path, library: Path, tmp_path: Path, options: list[object], code: int, crosses: int
) -> None:
    copies = ("--ep-option", "upload_latency_us=1000", "--ep-option", "download_latency_us=1000")
    ran = live(relu, library, tmp_path, *copies, *options, compute_us=2000)
    assert (ran.code, ran.out.count("✗")) == (code, crosses), ran.out + ran.err


def test_modes_that_only_a_limit_needs_are_not_held_against_the_baseline(
    relu: Path, library: Path, tmp_path: Path
) -> None:
    ran = live(
        relu, library, tmp_path, "--mode", "device-tensors", "--min-speedup", "device-resident=0.5", *AGAINST_3000
    )
    assert ran.code == 0, ran.out + ran.err
    assert [check["name"] for check in check_of(tmp_path)] == [
        "device-tensors latency median",
        "device-resident speedup",
    ]


def test_a_metric_of_one_phase(relu: Path, library: Path, tmp_path: Path) -> None:
    """Uploads take ten times as long as the baseline's."""
    ran = live(relu, library, tmp_path, "--ep-option", "upload_latency_us=2000", "--baseline-set",
               "ep-option=upload_latency_us=200", "--baseline-set", "ep-option=compute_us=200", "--metric", "device-tensors.h2d.median",
               "--mode", "device-tensors", compute_us=200)  # fmt: skip
    assert ran.code == 3, ran.out + ran.err
    assert [check["name"] for check in check_of(tmp_path)] == ["device-tensors h2d median"]
    (folder,) = tmp_path.iterdir()
    (case,) = json.loads((folder / "candidate" / "result.json").read_text())["cases"]
    assert set(case["samples"]) == {"h2d", "latency", "cpu_time", "page_faults", "involuntary_switches"}


def test_two_eps_are_held_against_each_other(relu: Path, library: Path, tmp_path: Path) -> None:
    ran = ortbench("gate", "--model", relu, "--ep", "cpu", "--baseline-set", f"ep={library}", "--mode", "host-accessible",
                   "--max-regression", "5%", "--warmup", 1, "--out", tmp_path)  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    nowhere = ortbench("gate", "--model", relu, "--ep", "cpu", "--baseline-set", "ep=nowhere", "--out", tmp_path)
    assert nowhere.code == 2


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("wrong_run=1+", "differ"),
        (
            "abort_run=60:default",
            "candidate: device-resident failed: the worker was ended by SIGABRT\nortbench: baseline: device-resident failed: "
            "not measured, because it failed in another configuration\n",
        ),
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


@pytest.mark.usefixtures("clock")
def test_models_with_other_outputs_are_compared_with_a_warning(relu: Path, tmp_path: Path) -> None:
    other = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[16384] x) => (float[16384] y) { y = Neg(x) }'
    )
    onnx.save(other, tmp_path / "neg.onnx")
    ran = ortbench("gate", "--model", tmp_path / "neg.onnx", "--baseline-model", relu, "--ep", "cpu", "--mode", "cpu-tensors",
                   "--max-regression", "900%", "--warmup", 1, "--out", tmp_path / "out")  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    assert "warning: the outputs of candidate are not those of baseline" in ran.out


@pytest.mark.usefixtures("clock")
def test_the_same_on_both_sides_is_said_and_passes(tmp_path: Path) -> None:
    tiny = MODELS / "tiny.onnx"
    shutil.copy(tiny, tmp_path / "copy.onnx")
    ran = ortbench("gate", "--model", tiny, "--baseline-model", tmp_path / "copy.onnx", "--ep", "cpu", "--mode", "cpu-tensors",
                   "--max-regression", "900%", "--warmup", 1, "--out", tmp_path / "out", COLUMNS="200")  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    (said,) = [line.removeprefix("• ") for line in ran.out.splitlines() if "nothing recorded differs" in line]
    (folder,) = (tmp_path / "out").glob("[!.]*")
    assert json.loads((folder / "gate.json").read_text())["remarks"] == [said]
    assert f"\n- {said}\n" in (folder / "gate.md").read_text()


@pytest.mark.wide
def test_two_environments_with_two_versions_of_onnx_runtime(tmp_path: Path) -> None:
    """As users have them: ortbench and its ONNX Runtime lie in one folder, of which the other one must see nothing."""
    other = os.environ.get("ORTBENCH_TESTS_OTHER_PYTHON")
    if other is None:
        lacking("ORTBENCH_TESTS_OTHER_PYTHON names no interpreter with another version of onnxruntime")
    ours = without_ortbench(tmp_path / "venv")
    shutil.copytree(INSTALLED, ours.site / "ortbench")
    line = [ours.python, "-m", "ortbench", "gate", "--model", MODELS / "image_classifier.onnx",
            "--baseline-python", other, "--ep", "cpu", "--mode", "cpu-tensors", "--max-regression", "300%", "--warmup", 2,
            "--out", tmp_path / "out"]  # fmt: skip
    ran = subprocess.run(list(map(str, line)), cwd=tmp_path, env=plain(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (folder,) = (tmp_path / "out").glob("[!.]*")
    versions = []
    for side, python in (("candidate", ours.python), ("baseline", other)):
        result = json.loads((folder / side / "result.json").read_text())
        assert result["cases"][0]["checks"]["outputs"]["verdict"] == "passed"
        own = "import onnxruntime; print(onnxruntime.__version__)"
        done = subprocess.run([python, "-c", own], env=plain(), capture_output=True, text=True, check=True)
        assert result["environment"]["onnxruntime"] == done.stdout.strip()
        versions.append(result["environment"]["onnxruntime"])
    assert versions[0] != versions[1]
    assert f"baseline → candidate: ONNX Runtime: {versions[1]} → {versions[0]}" in ran.stdout


@pytest.mark.wide
def test_workers_that_are_paused_end_with_a_killed_gate(relu: Path, real_library: Path, tmp_path: Path) -> None:
    if sys.platform != "linux":
        lacking("Linux, whose kernel ends a worker with its parent")
    line = command("gate", "--model", relu, "--ep", real_library, "--baseline-set", "ep-option=compute_us=3000", "--ep-option",
                   "compute_us=3000", "--max-regression", "0.0001%", "--mode", "device-resident", "--warmup", 1,
                   "--out", tmp_path)  # fmt: skip
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.glob("*/candidate/result.json")):
            assert process.poll() is None
            time.sleep(0.02)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == 2
        process.kill()
    for child in children:
        stat = Path(f"/proc/{child}/stat")
        deadline = time.monotonic() + 600
        while stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z":
            assert time.monotonic() < deadline, f"worker {child} is still there"
            time.sleep(0.01)


def test_an_ep_may_be_named_by_its_library(relu: Path, library: Path, tmp_path: Path) -> None:
    ran = ortbench("run", relu, "--ep", library, "--iterations", 1, "--warmup", 1, "--mode", "cpu-tensors",
                   "--json", "-", "--out", tmp_path)  # fmt: skip
    assert json.loads(ran.out)["target"]["ep"] == EP_NAME
    twice = ortbench("run", relu, "--ep", library, "--ep-library", library)
    assert twice.code == 2
    assert "leave --ep-library out" in twice.error_line
