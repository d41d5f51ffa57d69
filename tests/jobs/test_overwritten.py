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

TINY, VERSION = MODELS / "tiny.onnx", onnxruntime.__version__
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


def put_package(site: Path, name: str) -> None:
    """Let a package say that it brought the module."""
    (site / f"{name}.dist-info").mkdir()
    (site / f"{name}.dist-info" / "RECORD").write_text("onnxruntime/__init__.py,sha256=x,1\n")


def test_commands_warn(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "onnxruntime").symlink_to(Path(onnxruntime.__file__).parent)
    for name in (f"onnxruntime-{VERSION}", "onnxruntime_windowsml-1.30.0"):
        put_package(folder, name)
    site = {"SITE": str(folder), "ORTBENCH_TESTS_MAIN": f"{__name__}:with_the_site"}
    line = ("run", TINY, "--ep", "cpu", *ONCE, "--mode", "cpu-tensors", "--out", tmp_path / "out", "--json", "-")
    warnings = json.loads(ortbench(*line, **site).out)["warnings"]
    assert [it["message"] for it in warnings if it["code"] == "packages-overwritten"] == [MESSAGE]
    assert ortbench("devices", **site, COLUMNS="400").out.splitlines()[1] == f"warning: {MESSAGE}"
    assert json.loads(ortbench("devices", "--json", "-").out)["warnings"] == []
    found = json.loads(ortbench("doctor", "--no-noise", "--json", "-", **site).out)
    (bad,) = [it for it in found["findings"] if it["text"].startswith("onnxruntime ")]
    assert (bad["section"], bad["verdict"]) == ("ONNX Runtime", "bad")
    assert f"{bad['text']}; mend it with: {bad['command']}" == MESSAGE


@pytest.mark.wide
def test_another_environment_is_mended_by_its_own_pip(tmp_path: Path) -> None:
    made = with_onnxruntime_alone(tmp_path / "other")
    put_package(made.site, "onnxruntime_windowsml-1.30.0")
    pip = f"{made.python} -m pip"
    (warning,) = json.loads(ortbench("devices", "--python", made.python, "--json", "-").out)["warnings"]
    assert f"mend it with: {pip} uninstall -y onnxruntime" in warning["message"]
    assert f" && {pip} install " in warning["message"]
    ran = ortbench("run", TINY, "--ep", "migraphx", "--python", made.python, "--out", tmp_path / "out")
    assert ran.code == 1
    assert f"; install it with: {pip} install 'onnxruntime-migraphx', or name its library" in ran.error_line
