"""`ortbench doctor` as a user has it, on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from tests.conftest import ortbench
from tests.softcuda import Config

pytestmark = pytest.mark.process

TOO_HOT = 0x40  # nvmlClocksEventReasonHwThermalSlowdown


@pytest.mark.wide
def test_the_page_of_this_machine_has_its_noise() -> None:
    ran = ortbench("doctor", COLUMNS="100")
    assert (ran.code, ran.err) == (0, "")
    *_, noise, conclusion = ran.out.split("\n\n")
    assert noise.startswith("Noise\n")
    assert "two identical measurements of a small model, of 2 s each" in noise or "too few blocks to tell" in noise
    assert "models can be measured with --ep cpu" in " ".join(conclusion.split())


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
    assert (
        "bad  ONNX Runtime does not work: libonnxruntime.so.1: bad magic\n     try: pip install --force-reinstall"
        in ran.out
    )
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
    with subprocess.Popen(
        line, env={**os.environ, **knobs}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
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
