"""The script for machines with a GPU: its checks on what GPUs gave, and all of it against the reference device and the software CUDA."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
import typer

from ortbench.cli import commands
from ortbench.cli.options import function_of
from tests.conftest import ROOT, ortbench
from tests.forks import MAIN
from tests.gpu import checks, pack
from tests.gpu.accept import Acceptance, main
from tests.gpu.checks import FAIL, NOT_RUN, PASS, Check
from tests.gpu.steps import FULL, QUICK, Scale, Step, Steps, planned_s
from tests.refdevice import Config

NAME = "what is shown"
UNASKED = "CUPTI was not asked: it sees NVIDIA's EPs only"
REPORTS = ("gpu-h100", "gpu-h100-2", "gpu-h200")


def steps_of(ep: str = "cuda", library: str | None = None, scale: Scale = FULL) -> list[Step]:
    return [step for part in Steps(ep, library, scale).parts().values() for step in part]


def kept(folder: str, only: str = "", spoil: Callable[[dict[str, Any]], None] = lambda _: None) -> list[Check]:
    """What the checks say of the results of a GPU that are kept, or of one of them, which is spoiled before they see it."""
    found = []
    for step in steps_of():
        file = ROOT / "reports" / folder / step.name / "result.json"
        if only in ("", step.name) and file.is_file():
            data = json.loads(file.read_text())
            spoil(data)
            found += [show(name, data) for name, show in step.shows.items()]
    return found


@pytest.mark.parametrize(
    ("of_nodes", "of_none", "ns", "verdict"),
    [([0.6, 0.36], 0.04, 1099, PASS), ([0.6, 0.3], 0.1, 1000, FAIL), ([1.0], 0.0, 1101, FAIL)],
)
def test_kernels_must_have_their_nodes(of_nodes: list[float], of_none: float, ns: int, verdict: str) -> None:
    rows = [{"name": "n", "share": it, "ns": ns * it} for it in of_nodes]
    rows.append({"name": None, "share": of_none, "ns": ns * of_none})
    metrics = {"latency": {"median": 2000}, "gpu_kernels": {"value": 1000}}
    case = {"mode": "cpu-tensors", "status": "ok", "recorded": {"runs": 3}, "metrics": metrics}
    found = checks.kernels(NAME, {"nodes": {"kernels": rows}, "cases": [case], "warnings": []})
    assert found.verdict == verdict, found


@pytest.mark.parametrize("folder", REPORTS)
def test_the_results_of_a_gpu_that_are_kept_pass_today(folder: str) -> None:
    """No reference device gives energy, CUPTI's copies and clocks: a key of theirs that a check does not find shows here."""
    found = kept(folder)
    assert len(found) > 3
    assert {check.name: check.verdict for check in found if check.verdict != PASS} == {}, found


WRONG = {"verdict": "failed", "how": "1 of 4 values differ"}
# Of a kept result: step, path to a value (a mode is its case) and the value that spoils it; how the check's name begins, its verdict then.
SPOILS: list[tuple[str, str, str, object, str, str]] = [
    ("gpu-h100", "copy_4k", "device-tensors.checks.outputs", WRONG, "copy_4k: outputs equal", FAIL),
    ("gpu-h100", "copy_4k", "device-tensors.checks", {}, "copy_4k: outputs equal", FAIL),
    ("gpu-h100", "copy_4k", "host-accessible.checks.zero_copy.how", "", "host-accessible: zero-copy", FAIL),
    ("gpu-h100", "copy_4k", "device-tensors-pinned.metrics.bytes_h2d.value", 1, "CUPTI's copies against h2d and d2h of device-tensors-pinned", FAIL),
    ("gpu-h100", "copy_4k", "device-tensors-pinned.metrics.h2d.median", 2_000_000, "CUPTI's copies against h2d and d2h of device-tensors-pinned", FAIL),
    ("gpu-h100", "copy_4k", "device-tensors.metrics.h2d.median", 10_000_000, "CUPTI's copies against h2d and d2h of device-tensors,", FAIL),
    ("gpu-h100", "copy_4k", "device-tensors.recorded", None, "CUPTI's copies against h2d and d2h of device-tensors,", NOT_RUN),
    ("gpu-h100", "copy_4k", "device-tensors.metrics.h2d.median", 50_000_000, "cpu-tensors less device-resident", FAIL),
    ("gpu-h100", "copy_4k", "environment.gpu_readings", [], "NVML before", FAIL),
    ("gpu-h200", "generate-llama", "device-resident.step_bytes.state_h2d", 512, "ortbench loop", FAIL),
    ("gpu-h200", "generate-llama", "shared.checks.outputs", WRONG, "ortbench loop", FAIL),
    ("gpu-h200", "resnet50_batch-graph", "device-resident.checks.graph", None, "resnet50_batch at batches", FAIL),
    ("gpu-h100", "stream-cuda-python", "target.stream", None, "--stream cuda-python", FAIL),
    ("gpu-h100", "external-torch", "device-tensors.checks.external", None, "--input-memory torch", FAIL),
    ("gpu-h100", "costs", "device-resident.energy", {"unsupported": "no counter"}, "--measure-energy", NOT_RUN),
    ("gpu-h100", "costs", "device-resident.memory.failed", "it crashed", "--measure-memory", FAIL),
    ("gpu-h200", "resnet50_batch", "device-tensors.checks.outputs", WRONG, "resnet50_batch at batches", FAIL),
]  # fmt: skip


@pytest.mark.parametrize(("folder", "step", "path", "value", "name", "verdict"), SPOILS)
def test_a_spoiled_result_does_not_pass(
    folder: str, step: str, path: str, value: object, name: str, verdict: str
) -> None:
    def spoil(data: dict[str, Any]) -> None:
        *way, last = path.split(".")
        for key in way:
            data = data[key] if key in data else next(case for case in data["cases"] if case["mode"] == key)
        data[last] = value

    check = next(check for check in kept(folder, step, spoil) if f"{check.name},".startswith(name))
    assert check.verdict == verdict, check


@pytest.mark.parametrize(
    ("code", "said", "verdict"),
    [
        (2, "--cuda-graph: XExecutionProvider captures no graphs; YExecutionProvider do", NOT_RUN),
        (1, "TensorrtExecutionProvider does not load: the shared library libnvinfer.so.10 is missing", NOT_RUN),
        (None, "it was stopped after 20 s", NOT_RUN),
        (2, "No such option: --cuda-graph (see --help)", FAIL),
        (1, "XExecutionProvider could not open m.onnx: out of memory", FAIL),
        (-6, "terminate called after throwing an instance of 'Ort::Exception'", FAIL),
    ],
)
def test_what_an_ep_cannot_do_is_told_from_what_broke(code: int | None, said: str, verdict: str) -> None:
    found = checks.without_result(NAME, code, said, ("--cuda-graph: ", " is missing"))
    assert found == Check(NAME, verdict, said)


@pytest.mark.process
@pytest.mark.parametrize(("ep", "library", "scale"), [("cuda", None, FULL), ("auto", "libsome.so", QUICK)])
def test_every_command_is_one_that_ortbench_takes(ep: str, library: str | None, scale: Scale) -> None:
    steps = steps_of(ep, library, scale)
    assert len({step.name for step in steps}) == len(steps)
    app = typer.Typer()
    for name in commands():
        app.command(name)(function_of(name))
    program: Any = typer.main.get_command(app)
    for step in steps:
        module, command, *arguments = step.line
        if module == "ortbench":
            program.commands[command].make_context(command, arguments)  # raises what is no option of it
    assert any("--measure-copies" in step.line for step in steps) == (ep == "cuda")


def test_the_whole_run_fits_into_its_time() -> None:
    for steps in Steps("cuda", None, FULL).parts().values():
        assert planned_s(steps) <= 9 * 60 - 20  # what is left is for a command that is stopped to save what it has
        assert all(step.planned_s < step.limit_s <= 200 for step in steps)


DEVICE = Config(compute_us=1000, upload_latency_us=1000, upload_gbps=0, download_latency_us=1000, download_gbps=0)
LITTLE = replace(QUICK, direct_s=0.2)
Found = dict[str, tuple[str, str]]  # verdict and figures by check


@pytest.fixture
def accept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Found]]:
    """Goes through steps, each in a fork: exit code, and what the summary says."""

    def fork(self: Acceptance, line: Sequence[str], _: float) -> tuple[int, str]:
        module, *arguments = line[2:]
        own = {} if module == "ortbench" else {MAIN: "tests.gpu.direct:forked_main"}
        ran = ortbench(*arguments, cwd=self.out, COLUMNS="200", **own, **DEVICE.environ())
        return ran.code, ran.err.strip()

    def run(*arguments: object, steps: Sequence[str]) -> tuple[int, Found]:
        chosen = [word for step in steps for word in ("--only", step)]
        code = main(["--quick", "--out", str(tmp_path / "out"), *chosen, *map(str, arguments)])
        return code, verdicts(tmp_path / "out")

    monkeypatch.setattr(Acceptance, "_wait", fork)
    monkeypatch.setattr("tests.gpu.accept.QUICK", LITTLE)
    return run


def verdicts(out: Path) -> Found:
    """Verdict and figures by check, from the summary."""
    rows = [line.strip("| ").split(" | ") for line in (out / "summary.md").read_text().splitlines()]
    return {row[1]: (row[0], row[2]) for row in rows if row[0] in (PASS, FAIL, NOT_RUN)}


def differing(found: Found, expected: Mapping[str, tuple[str, str]]) -> Found:
    """The checks, by how their names begin, that have another verdict or figures that begin otherwise."""
    wrong = {}
    for beginning, (verdict, figures) in expected.items():
        (seen,) = [value for name, value in found.items() if name.startswith(beginning)]
        if seen[0] != verdict or not seen[1].startswith(figures):
            wrong[beginning] = seen
    return wrong


ALL = "cpu-tensors, device-tensors, device-resident, host-accessible, cpu-tensors-pinned, device-tensors-pinned, pipelined, device-resident-async"
ON_THE_DEVICE = {
    "copy_4k: outputs": (PASS, f"{ALL} equal to expected outputs"),
    "host-accessible: zero-copy": (PASS, "proved: the outputs are at the bound addresses; "),
    "CUPTI's copies against h2d and d2h of device-tensors-pinned": (NOT_RUN, UNASKED),
    "cpu-tensors less device-resident agrees": (PASS, "≈2.00 ms derived, 2.00 ms in device-tensors"),
    "NVML before": (NOT_RUN, ""),
    "the fence holds": (PASS, "30 runs in 30.0 ms, median 1.00 ms (fence: run), ratio 0.999"),
}


@pytest.mark.wide
@pytest.mark.process
def test_on_the_reference_device_all_that_it_can_answer_passes(
    accept: Callable[..., tuple[int, Found]], library: Path, tmp_path: Path
) -> None:
    code, found = accept("--ep-library", library, steps=("copy_4k", "fence"))
    assert differing(found, ON_THE_DEVICE) == {}
    assert code == 0
    out = tmp_path / "out"
    summary = (out / "summary.md").read_text()
    assert str(ROOT) not in summary
    for part in ("| copy_4k | 0 |", "--mode all --depth 3"):
        assert part in summary
    assert {path.name for path in (out / "copy_4k").iterdir()} == {"result.json", "table.csv", "table.md"}
    assert not [path for path in out.rglob("*") if path.is_symlink() or path.suffix == ".onnx"]


@pytest.mark.process
def test_a_step_that_fails_does_not_end_the_run(accept: Callable[..., tuple[int, Found]]) -> None:
    code, found = accept("--ep", "no-such-ep", steps=("copy_4k", "costs"))
    why = "the EP ran nothing yet: copy_4k left no result"
    expected = {
        "copy_4k: outputs": (FAIL, "--ep 'no-such-ep': no such execution provider"),
        "--measure-memory": (NOT_RUN, why),
    }
    assert (code, differing(found, expected)) == (1, {})


@pytest.mark.process
def test_a_command_that_is_not_done_in_time_is_interrupted(tmp_path: Path) -> None:
    run = Acceptance("any", tmp_path, (), minutes=1)
    assert run._wait([sys.executable, "-c", "import sys; sys.exit('it broke')"], 600) == (1, "it broke")
    assert run._wait(["sleep", "600"], 0.1) == (None, "")


def test_what_there_is_no_time_for_is_not_run(tmp_path: Path) -> None:
    (first, *_) = steps_of()
    assert Acceptance("any", tmp_path, (first,), minutes=0.3)._why_not(first) == "no time was left"


def test_the_plan_is_printed_steps_are_chosen_and_a_folder_that_is_there_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--plan", "--only", "external-*", "--only", "costs"]) == 0
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["part", "external-torch", "external-cupy", "costs"]
    assert main(["--plan", "--part", "1", "--only", "costs"]) == 2
    assert capsys.readouterr().err == "accept: --only costs: there is no such step; --plan prints them\n"
    assert main(["--ep", "cpu", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"accept: --out {tmp_path}: File exists\n"
    assert list(tmp_path.iterdir()) == []


def test_what_ortbench_needs_is_packed() -> None:
    """But for what comes with onnx, and what its commands of the run do without."""
    needed = {re.split(r"[<>=; \[]", it)[0] for it in requires("ortbench") or () if "extra ==" not in it}
    packed = {re.split(r"[<>=]", it)[0] for it in pack.PACKAGES}
    assert needed - packed == {"numpy", "pandas", "scipy", "onnxruntime"}


def test_what_is_packed_has_the_code_of_one_architecture() -> None:
    def image(kind: int, arch: int, content: bytes) -> bytes:
        return struct.pack("<HHIQ12xII28x", kind, 0x101, 64, len(content), arch, 64) + content

    def container(*images: bytes) -> bytes:
        return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, sum(map(len, images))) + b"".join(images)

    elf, ptx, start, names = 2, 1, 64, b"\0.nv_fatbin\0.shstrtab\0"
    wanted = image(elf, 90, b"\x01" * 24)
    first = container(image(elf, 80, b"\x02" * 16), wanted, image(ptx, 90, b"\x03" * 8))
    section = first + bytes(16) + container(image(elf, 75, b"\x04" * 8), wanted)
    sections = ((1, start, len(section)), (12, start + len(section), len(names)))
    headers = [struct.pack("<IIQQQQ24x", at, 1, 0, 0, offset, size) for at, offset, size in sections]
    head = bytearray(start)
    struct.pack_into("<Q", head, 0x28, start + len(section) + len(names))
    struct.pack_into("<HHH", head, 0x3A, 64, 2, 1)
    library = bytes(head) + section + names + b"".join(headers)

    slim = pack.with_one_architecture(library, 90)
    assert (len(slim), slim.count(b"\x01" * 24)) == (len(library), 2)
    for byte, count in ((b"\x02", 16), (b"\x03", 8), (b"\x04", 8)):
        assert (byte * count in library, byte * count in slim) == (True, False)
    with pytest.raises(SystemExit, match="no code for sm_120"):
        pack.with_one_architecture(library, 120)


@pytest.mark.process
def test_the_cuda_ep_takes_all_that_is_asked_of_it(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    chosen = [word for name in ("copy_4k", "memcpy") for word in ("--only", name)]
    line = [*software_cuda, sys.executable, "-m", "tests.gpu.accept", "--quick", "--ep", "cuda", *chosen]
    out = tmp_path / "out"
    done = subprocess.run([*line, "--out", str(out)], cwd=ROOT, capture_output=True, text=True, timeout=1800)
    expected = dict.fromkeys(("copy_4k: outputs equal", "host-accessible: zero-copy", "NVML"), (PASS, ""))
    assert differing(verdicts(out), expected) == {}, done.stdout
    assert "% of cudaMemcpy's" in next(it for name, (_, it) in verdicts(out).items() if name.startswith("copies"))


@pytest.mark.process
def test_onnx_runtime_still_refuses_outputs_in_host_accessible_memory(software_cuda: tuple[str, ...]) -> None:
    report = (ROOT / "reports" / "host-accessible-outputs.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", report, re.DOTALL | re.MULTILINE)
    done = subprocess.run([*software_cuda, sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode != 0, "dst_data != src_data" in done.stdout) == (True, True), (
        "mended: ortbench can do without"
    )
