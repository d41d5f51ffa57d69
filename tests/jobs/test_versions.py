"""Every version of ONNX Runtime that ortbench works with, each in an environment of its own, and what it says of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import versions
from tests.conftest import MODELS, ROOT, ortbench
from tests.versions import ROWS, WEBGPU, environment

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


@pytest.mark.parametrize("version", ["1.24.4", "newest"])
def test_devices_says_what_a_version_can_and_cannot_do(version: str, software_gpu: tuple[str, ...]) -> None:
    ran = ortbench("devices", "--python", environment(version), prefix=software_gpu, COLUMNS="200")
    assert (ran.code, ran.err) == (0, "")
    cannot = "  its API lacks  HOST_ACCESSIBLE (pinned) memory (from 1.28 on)\n"
    assert (cannot in ran.out) == (version == "1.24.4")
    assert ("HOST_ACCESSIBLE (pinned) memory\n" in ran.out.split("CPUExecutionProvider")[0]) == (cannot not in ran.out)
    assert f"WebGpuExecutionProvider 0.4.0 from onnxruntime-ep-webgpu\n  library  {environment(version)}" in ran.out
    assert "CPUExecutionProvider" in ran.out


@pytest.mark.wide
def test_a_version_that_is_too_old_is_refused_in_one_line(real_library: Path, tmp_path: Path) -> None:
    ran = ortbench("devices", "--python", environment("1.24.4"), "--ep-library", real_library)
    assert ran.code == 1
    assert ran.error_line.endswith("RefDeviceExecutionProvider needs ONNX Runtime 1.25 or newer")
    for line in (["devices"], ["run", TINY, "--ep", "cpu"], ["bandwidth", "--ep", "cpu"]):
        ran = ortbench(*line, "--python", environment("python3.10"), cwd=tmp_path)
        assert (ran.code, ran.error_line) == (1, "ONNX Runtime 1.23.2 is too old: ortbench needs 1.24 or newer")
