"""Every version of ONNX Runtime that ortbench works with, each in an environment of its own, and what it says of others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import versions
from tests.conftest import MODELS, ROOT, lacking, ortbench
from tests.versions import ROWS, VERSIONS, WEBGPU, environment

TINY = str(MODELS / "tiny.onnx")
DOCUMENTED = (ROOT / "docs" / "choose-ep.md").read_text()


@pytest.mark.wide
@pytest.mark.parametrize(("version", "ep"), ROWS, ids=lambda it: it.split()[0])
def test_what_works_is_what_the_table_says(
    version: str, ep: str, real_library: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if ep == WEBGPU:
        request.getfixturevalue("software_gpu")
    assert f"\n{versions.row(version, ep, real_library, tmp_path)}\n" in DOCUMENTED


def test_the_table_has_no_other_rows() -> None:
    rows = [line for line in DOCUMENTED.splitlines() if line.startswith(("| 1.", "| newest"))]
    assert [tuple(line.strip("| ").split(" | ")[:2]) for line in rows] == list(ROWS)


@pytest.mark.parametrize("version", VERSIONS)
def test_devices_says_what_a_version_can_and_cannot_do(version: str, software_gpu: tuple[str, ...]) -> None:
    ran = ortbench("devices", "--python", environment(version), prefix=software_gpu, COLUMNS="200")
    assert (ran.code, ran.err) == (0, "")
    cannot = "  its API lacks  HOST_ACCESSIBLE (pinned) memory (from 1.28 on)\n"
    assert (cannot in ran.out) == (version in ("1.24.4", "1.27.0"))
    assert ("HOST_ACCESSIBLE (pinned) memory\n" in ran.out.split("CPUExecutionProvider")[0]) == (cannot not in ran.out)
    assert f"WebGpuExecutionProvider 0.4.0 from onnxruntime-ep-webgpu\n  library  {environment(version)}" in ran.out
    assert "CPUExecutionProvider" in ran.out


@pytest.mark.wide
def test_a_version_whose_ep_needs_a_newer_one_says_so(real_library: Path) -> None:
    ran = ortbench("devices", "--python", environment("1.24.4"), "--ep-library", real_library)
    assert ran.code == 1
    assert ran.error_line.endswith("RefDeviceExecutionProvider needs ONNX Runtime 1.25 or newer")


@pytest.mark.wide
@pytest.mark.parametrize(
    "arguments",
    [["devices"], ["inspect", TINY], ["run", TINY, "--ep", "cpu"], ["bandwidth", "--ep", "cpu"]],
    ids=lambda arguments: arguments[0],
)
def test_a_version_that_is_too_old_is_refused_in_one_line(arguments: list[str], tmp_path: Path) -> None:
    ran = ortbench(*arguments, "--python", environment("python3.10"), cwd=tmp_path)
    assert ran.code == 1
    assert ran.error_line == "ONNX Runtime 1.23.2 is too old: ortbench needs 1.24 or newer"


@pytest.mark.wide
def test_openvinos_own_package_is_named_and_its_ep_goes_by_name(tmp_path: Path) -> None:
    found = json.loads(ortbench("devices", "--python", environment("openvino"), "--json", "-").out)
    assert found["runtime"]["packages"] == {"onnxruntime-openvino": "1.24.1"}
    (ep,) = [ep for ep in found["eps"] if ep["name"] == "OpenVINOExecutionProvider"]
    assert (ep["package"], ep["problem"]) == ("onnxruntime-openvino", None)
    # What it says of modes is what they do, see the table.
    can = [mode for mode, reason in ep["devices"][0]["modes"].items() if reason is None]
    assert can == ["cpu-tensors", "device-tensors", "device-resident", "host-accessible"]
    assert ep["devices"][0]["memory"]["default"] == "host memory"


@pytest.mark.parametrize("version", VERSIONS)
def test_openvinos_plugin_where_it_has_a_device(version: str, openvino_ep: str, tmp_path: Path) -> None:
    """On Intel's CPUs alone, and in environments that its package was put into."""
    python = environment(version)
    listed = json.loads(ortbench("devices", "--python", python, "--json", "-").out)
    if "onnxruntime-ep-openvino" not in listed["runtime"]["packages"]:
        lacking(f"{python} lacks onnxruntime-ep-openvino")
    ran = ortbench("run", MODELS / "multi_output.onnx", "--python", python, "--ep", "openvino", "--iterations", 1,
                   "--out", tmp_path, "--json", "-")  # fmt: skip
    assert ran.code == 0, ran.err
    result = json.loads(ran.out)
    assert result["target"]["ep"] == openvino_ep
    found = {case["mode"]: case for case in result["cases"]}
    assert found["cpu-tensors"]["status"] == "ok"
    before = "before ONNX Runtime 1.28"
    for case in found.values():
        assert case["status"] in ("ok", "unsupported")
        assert case["status"] == "ok" or (version in ("1.24.4", "1.27.0") and before in case["reason"])
