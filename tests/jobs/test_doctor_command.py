"""`ortbench doctor` as a user has it, on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from ortbench.__main__ import main
from tests.conftest import MODELS, ONCE, lacking, ortbench
from tests.softcuda import Config

TOO_HOT = 0x40  # nvmlClocksEventReasonHwThermalSlowdown


def test_json_has_facts_and_findings(tmp_path: Path) -> None:
    ran = ortbench("doctor", "--no-noise", "--json", tmp_path / "doctor.json")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("ONNX Runtime\n")
    found = json.loads((tmp_path / "doctor.json").read_text())
    facts = found["facts"]
    assert (found["works"], facts["noise"]) == (True, None)
    assert facts["installed"]["runtime"]["onnxruntime"] == onnxruntime.__version__
    assert facts["packages"]["module"] == str(Path(onnxruntime.__file__).parent.parent)
    assert {it["verdict"] for it in found["findings"]} <= {"good", "worth knowing", "bad"}
    assert "Noise" not in {it["section"] for it in found["findings"]}


def test_an_onnxruntime_that_does_not_load_is_said_and_is_exit_code_1(tmp_path: Path) -> None:
    """A module that stands before the real one, as a broken installation does."""
    (tmp_path / "onnxruntime").mkdir()
    (tmp_path / "onnxruntime" / "__init__.py").write_text("raise ImportError('libonnxruntime.so.1: bad magic')\n")
    ran = ortbench("doctor", PYTHONPATH=str(tmp_path), COLUMNS="200")
    assert (ran.code, ran.err) == (1, "")
    said = "bad  ONNX Runtime does not work: libonnxruntime.so.1: bad magic\n     try: pip install --force-reinstall"
    assert said in ran.out
    assert "Noise" not in ran.out


HOLDS_MEMORY = """
import ctypes, sys
pointer = ctypes.c_void_p()
assert ctypes.CDLL("libcudart.so.13").cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64_000_000)) == 0
print("held", flush=True)
sys.stdin.read()
"""


def test_a_card_on_which_nothing_is_as_it_should_be(software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """By NVML: somebody else's process is on it, it is too hot, it may not draw what it could, its driver comes and goes."""
    knobs: Any = Config(used=tmp_path / "used", slowed=TOO_HOT, power_limit_w=200, persistence=False).environ()
    line = [*software_cuda, sys.executable, "-c", HOLDS_MEMORY]
    environment, pipe = {**os.environ, **knobs}, subprocess.PIPE
    with subprocess.Popen(line, env=environment, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        ran = ortbench("doctor", "--no-noise", prefix=software_cuda, COLUMNS="400", **knobs)
    assert (ran.code, ran.err) == (0, "")
    sections = {part.splitlines()[0]: part.splitlines()[1:] for part in ran.out.split("\n\n")}
    assert sections["CUDA"][0].startswith("good NVIDIA's driver 999.99, for CUDA up to 13.0")
    findings = [line for line in sections["NVIDIA GPUs"] if not line.startswith(" ")]
    name = f"{Path(sys.executable).name} ({other.pid}, 64.0 MB)"
    for finding, words in zip(
        findings, ("SM clock 1000 of 1500 MHz", "persistence mode is off", "200 W of 350 W", "temperature (hardware)", name), strict=True
    ):  # fmt: skip
        assert words in finding


# Two packages that bring the module onnxruntime, in one folder

MESSAGE = (
    f"onnxruntime {onnxruntime.__version__}, onnxruntime-windowsml 1.30.0 bring the same module onnxruntime, and the one installed last has "
    f"overwritten files of the other; mend it with: pip uninstall -y onnxruntime onnxruntime-windowsml && pip install "
    "onnxruntime-windowsml==1.30.0"
)


def with_the_site() -> None:
    """ortbench, which finds packages in a folder before all others, and has ONNX Runtime from there."""
    sys.path.insert(0, os.environ["SITE"])
    onnxruntime.__file__ = str(Path(os.environ["SITE"], "onnxruntime", "__init__.py"))
    main()


def test_commands_warn_of_packages_that_overwrite_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    for name in (f"onnxruntime-{onnxruntime.__version__}", "onnxruntime_windowsml-1.30.0"):
        (folder / f"{name}.dist-info").mkdir(parents=True)
        (folder / f"{name}.dist-info" / "RECORD").write_text("onnxruntime/__init__.py,sha256=x,1\n")
    (folder / "onnxruntime").symlink_to(Path(onnxruntime.__file__).parent)
    site = {"SITE": str(folder), "ORTBENCH_TESTS_MAIN": f"{__name__}:with_the_site"}
    line = ("run", MODELS / "tiny.onnx", "--ep", "cpu", *ONCE, "--mode", "cpu-tensors", "--json", "-")
    warnings = json.loads(ortbench(*line, "--out", tmp_path / "out", **site).out)["warnings"]
    assert [it["message"] for it in warnings if it["code"] == "packages-overwritten"] == [MESSAGE]
    assert ortbench("devices", **site, COLUMNS="400").out.splitlines()[1] == f"warning: {MESSAGE}"
    assert json.loads(ortbench("devices", "--json", "-").out)["warnings"] == []
    found = json.loads(ortbench("doctor", "--no-noise", "--json", "-", **site).out)
    (bad,) = [it for it in found["findings"] if it["text"].startswith("onnxruntime ")]
    assert (bad["section"], bad["verdict"]) == ("ONNX Runtime", "bad")
    assert f"{bad['text']}; mend it with: {bad['command']}" == MESSAGE


# A machine that tells little of itself: without what Linux says in /proc, or with less in it

WITHOUT = {"meminfo": "mount --bind /dev/null /proc/meminfo", "proc": "mount -t tmpfs nothing /proc"}


@pytest.mark.wide
@pytest.mark.parametrize("how", WITHOUT)
def test_commands_do_without(how: str, tmp_path: Path) -> None:
    prefix = ("unshare", "-Urm", "sh", "-c", f'{WITHOUT[how]} && exec "$@"', "sh")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        lacking("a mount namespace of one's own")
    out = ("--out", tmp_path)
    for line in (
        ("doctor", "--no-noise"),
        ("run", MODELS / "tiny.onnx", "--ep", "cpu", "--intra-op-threads", "1,2", "--iterations", 2, *out),
        ("soak", MODELS / "tiny.onnx", "--ep", "cpu", "--iterations", 9, *out),
        ("run", MODELS / "tiny.onnx", "--ep", "cpu", "--iterations", 2, "--measure-memory", *out),
        ("bandwidth", "--ep", "cpu", "--max-size", "8kB", "--iterations", 1, *out),
    ):
        ran = ortbench(*line, prefix=prefix)
        assert "Traceback" not in ran.err
        assert ran.code == 0 or (line[0] in ("bandwidth", "soak") and ran.error_line), ran
