"""What works with which ONNX Runtime: environments of several versions, and the rows of the table in docs/choose-ep.md#versions-of-onnx-runtime.

A row is what ``ortbench run --python`` said of every mode, with the outputs that the models are known to give; .ci/run makes the
environments. When a test says that a row is another, the page is to have that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ortbench.model.modes import MODES
from tests.conftest import MODELS, ROOT, lacking, ortbench

VARIABLE = "ORTBENCH_TESTS_ENVIRONMENTS"
VERSIONS = ("1.24.4", "1.27.0", "1.28.0", "newest")
OPENVINO = "onnxruntime-openvino 1.24.1"
CPU, WEBGPU, DEVICE = "CPU", "WebGPU (onnxruntime-ep-webgpu)", "the reference device"
MODEL_NAMES = ("multi_output", "transformer_ids")  # several dtypes; ids, whose range only the graph tells
SOFTWARE_GPU = str(ROOT / "tests" / "software-gpu")
_EP = {CPU: "cpu", WEBGPU: "webgpu", OPENVINO: "openvino"}
_ALL_MODES = ("--mode", "all", "--depth", 2)
_ONCE = ("--iterations", 1, "--warmup", 1)


class Row(NamedTuple):
    """What one version does with one EP: by mode, and of bandwidth at the end, whether it works or why not."""

    version: str
    ep: str
    cells: tuple[str, ...]

    def __str__(self) -> str:
        return f"| {' | '.join((self.version, self.ep, *self.cells))} |"


ROWS: tuple[tuple[str, str], ...] = (
    *((version, CPU) for version in VERSIONS),
    *((version, WEBGPU) for version in VERSIONS),
    *((version, DEVICE) for version in VERSIONS[1:]),  # it needs 1.25
    ("1.24.1", OPENVINO),
)


def environment(name: str) -> Path:
    """The folder of an environment; skips the test where there is none."""
    folder = os.environ.get(VARIABLE)
    if folder is None:
        lacking(f"{VARIABLE} names no folder of environments with other versions of onnxruntime")
    found = Path(folder) / name
    if not (found / "bin" / "python").exists():
        lacking(f"there is no environment {name} in {folder}")
    return found


def row(version: str, ep: str, library: Path, out: Path) -> Row:
    """Measure a row; a mode must not fail, and outputs must be those that are expected."""
    found: dict[str, set[str]] = {}
    python = environment("openvino" if ep == OPENVINO else version)
    where = ["--python", python, "--ep", library if ep == DEVICE else _EP[ep]]
    prefix = (SOFTWARE_GPU,) if ep == WEBGPU else ()
    for name in MODEL_NAMES:
        data = ["--input", MODELS / f"{name}.inputs.npz", "--expect", MODELS / f"{name}.expected.npz"]
        ran = ortbench("run", MODELS / f"{name}.onnx", *where, *data, *_ALL_MODES, *_ONCE, "--out", out, "--json", "-",
                       prefix=prefix)  # fmt: skip
        assert (ran.code, ran.err) == (0, ""), ran.err
        result = json.loads(ran.out)
        assert result["target"]["python"] == str(python)
        assert result["setup"]["expected_outputs"] is True
        for case in result["cases"]:
            found.setdefault(case["mode"], set()).add(_cell(case))
    return Row(version, ep, (*(_best(found[mode]) for mode in MODES), _bandwidth(where, prefix, out)))


def _best(cells: set[str]) -> str:
    """What an EP can do: a mode may be for one of the models and not for another (where all nodes stay on the CPU, say)."""
    return "yes" if "yes" in cells else " / ".join(sorted(cells))


def _cell(case: dict[str, Any]) -> str:
    if case["status"] == "ok":
        assert case["checks"]["outputs"]["verdict"] == "passed"
        return "yes"
    assert case["status"] == "unsupported", case
    return "from 1.28" if "before ONNX Runtime 1.28" in case["reason"] else "–"


def _bandwidth(where: Sequence[object], prefix: Sequence[str], out: Path) -> str:
    line = ("bandwidth", *where, "--max-size", "16kB", "--iterations", 2, "--out", out, "--quiet")
    ran = ortbench(*line, prefix=prefix)
    if ran.code == 0:
        assert ran.err == ""
        return "yes"
    assert "bandwidth is unsupported: " in ran.error_line
    return "–"
