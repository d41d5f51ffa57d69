"""Model packages of ONNX Runtime in place of a model: which variant is measured, with which settings, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MODELS, ONCE, ortbench
from tests.versions import environment

OTHER = "OtherExecutionProvider"
ENTRIES = {"session.intra_op.allow_spinning": "0", "session.set_denormal_as_zero": "1"}


def variant(ep: str, **info: Any) -> dict[str, Any]:
    return {"ep": ep, "variant_directory": "a", "executor_info": {"ort": {"model_file": "model.onnx"} | info}}


def package(folder: Path, **components: dict[str, Any]) -> Path:
    (folder / "p" / "a").mkdir(parents=True)
    shutil.copy(MODELS / "tiny.onnx", folder / "p" / "a" / "model.onnx")
    named = {name: {"variants": variants} for name, variants in components.items()}
    (folder / "p" / "manifest.json").write_text(json.dumps({"schema_version": "1.0", "components": named}))
    return folder


def run(folder: Path, *arguments: object, python: Path | None = None) -> Any:
    own = ("--ep", "cpu", "--python", python or environment("newest"), "--mode", "cpu-tensors", *ONCE, "--json", "-")
    return ortbench("run", "p", *own, *arguments, cwd=folder)


def test_the_variant_that_onnx_runtime_chooses_is_measured_with_its_settings(tmp_path: Path) -> None:
    variants = {"x": variant(OTHER), "y": variant("CPUExecutionProvider", session_options=ENTRIES)}
    ran = run(package(tmp_path, main=variants), "--session-config", "session.set_denormal_as_zero=0")
    result = json.loads(ran.out)
    assert result["model"]["path"] == str(Path("p", "a", "model.onnx"))
    assert result["target"]["session_config"] == {**ENTRIES, "session.set_denormal_as_zero": "0"}
    message = f"p: ONNX Runtime chose the variant y of x ({OTHER}), y (CPUExecutionProvider)"
    assert {"code": "model-package", "message": message} in result["warnings"]


@pytest.mark.parametrize(
    ("components", "line"),
    [
        ({"main": {"x": variant(OTHER)}}, f"p has no variant that ONNX Runtime chooses for CPUExecutionProvider: there are x ({OTHER})"),
        ({"b": {}, "c": {}}, "p has 2 components (b, c), and a run measures one model: name the .onnx file of a variant"),
        ({"main": {"x": {"ep": "CPUExecutionProvider", "variant_directory": "a"}}}, "p: its variant x names no model_file for ONNX Runtime"),
        ({"main": {"x": variant("CPUExecutionProvider", model_file="b.onnx")}}, "p: its variant x: "),
        ({}, "p has 0 components (none), and a run measures one model: "),
        ({"main": {"x": {"ep": 7}}}, "p is no model package that ONNX Runtime opens: "),
    ],
    ids=["for another EP", "two components", "no file", "no such file", "none", "no text"],
)  # fmt: skip
def test_a_package_that_is_no_model_is_one_line(components: dict[str, Any], line: str, tmp_path: Path) -> None:
    ran = run(package(tmp_path, **components))
    assert (ran.code, ran.out) == (2, "")
    assert ran.error_line.startswith(line)


def test_an_older_version_opens_none(tmp_path: Path) -> None:
    ran = run(package(tmp_path, main={"x": variant("CPUExecutionProvider")}), python=environment("1.28.0"))
    version = "p is a model package, which ONNX Runtime 1.28.0 does not open in Python (1.32 does)"
    assert (ran.code, ran.error_line) == (2, f"{version}: name the .onnx file of a variant")
