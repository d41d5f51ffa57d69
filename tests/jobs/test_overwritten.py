"""Two packages that bring the module ``onnxruntime``, in one folder: everything that runs with it says so."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import onnxruntime
import pytest

from ortbench.__main__ import main
from tests.conftest import MODELS, ONCE, ortbench
from tests.environments import with_onnxruntime_alone

pytestmark = pytest.mark.process

VERSION = onnxruntime.__version__
MESSAGE = (
    f"onnxruntime {VERSION}, onnxruntime-windowsml 1.30.0 bring the same module onnxruntime, and the one installed last has "
    f"overwritten files of the other; mend it with: pip uninstall -y onnxruntime onnxruntime-windowsml && pip install "
    "onnxruntime-windowsml==1.30.0"
)


def with_the_site() -> None:
    """ortbench, which finds packages in a folder before all others, and has ONNX Runtime from there."""
    sys.path.insert(0, os.environ["SITE"])
    onnxruntime.__file__ = str(Path(os.environ["SITE"], "onnxruntime", "__init__.py"))
    main()


@pytest.fixture
def site(tmp_path: Path) -> dict[str, str]:
    """What a command needs to find a folder of packages with this machine's ONNX Runtime, which two say they brought."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "onnxruntime").symlink_to(Path(onnxruntime.__file__).parent)
    for name in (f"onnxruntime-{VERSION}", "onnxruntime_windowsml-1.30.0"):
        (folder / f"{name}.dist-info").mkdir()
        (folder / f"{name}.dist-info" / "RECORD").write_text("onnxruntime/__init__.py,sha256=x,1\n")
    return {"SITE": str(folder), "ORTBENCH_TESTS_MAIN": f"{__name__}:with_the_site"}


def test_a_run_warns_once(site: dict[str, str], tmp_path: Path) -> None:
    arguments = ("run", MODELS / "tiny.onnx", "--ep", "cpu", *ONCE, "--mode", "cpu-tensors", "--out", tmp_path / "out")
    ran = ortbench(*arguments, "--json", "-", **site)
    assert ran.code == 0, ran.err
    warnings = json.loads(ran.out)["warnings"]
    assert [it["message"] for it in warnings if it["code"] == "packages-overwritten"] == [MESSAGE]
    shown = ortbench("report", *(tmp_path / "out").glob("[!.]*"), "--html", "-").out
    assert "onnxruntime-windowsml==1.30.0" in shown


def test_devices_warns_before_its_list(site: dict[str, str]) -> None:
    lines = ortbench("devices", **site, COLUMNS="400").out.splitlines()
    assert lines[0].startswith(f"ONNX Runtime {VERSION}")
    assert lines[1] == f"warning: {MESSAGE}"
    found = json.loads(ortbench("devices", "--json", "-", **site).out)
    assert found["warnings"] == [{"code": "packages-overwritten", "message": MESSAGE}]
    assert json.loads(ortbench("devices", "--json", "-").out)["warnings"] == []


@pytest.mark.wide
def test_in_another_environment_it_is_mended_there(tmp_path: Path) -> None:
    """By its own pip: the one on the path would take packages away from the wrong environment."""
    made = with_onnxruntime_alone(tmp_path / "other")
    (made.site / "onnxruntime_windowsml-1.30.0.dist-info").mkdir()
    (made.site / "onnxruntime_windowsml-1.30.0.dist-info" / "RECORD").write_text("onnxruntime/__init__.py,sha256=x,1\n")
    pip = f"{made.python} -m pip"
    found = json.loads(ortbench("devices", "--python", made.python, "--json", "-").out)
    (warning,) = found["warnings"]
    assert f"mend it with: {pip} uninstall -y onnxruntime" in warning["message"]
    assert f" && {pip} install " in warning["message"]
    ran = ortbench("run", MODELS / "tiny.onnx", "--ep", "migraphx", "--python", made.python, "--out", tmp_path / "out")
    assert ran.code == 1
    assert f"; install it with: {pip} install 'onnxruntime-migraphx', or name its library" in ran.error_line


def test_doctor_calls_it_bad(site: dict[str, str]) -> None:
    found = json.loads(ortbench("doctor", "--no-noise", "--json", "-", **site).out)
    (bad,) = [it for it in found["findings"] if it["text"].startswith("onnxruntime ")]
    assert (bad["section"], bad["verdict"]) == ("ONNX Runtime", "bad")
    assert f"{bad['text']}; mend it with: {bad['command']}" == MESSAGE
