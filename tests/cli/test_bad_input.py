"""Bad input gets one clear line on stderr, the contract's exit code, and leaves nothing behind."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.conftest import MODELS, ONCE, lacking, ortbench

pytestmark = pytest.mark.process

TINY = str(MODELS / "tiny.onnx")
IDS = str(MODELS / "transformer_ids.onnx")


def check(code: int, words: str, *arguments: object, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = ortbench("run", *arguments, "--out", out)
    assert ran.code == code, ran.err
    assert words in ran.error_line
    assert ran.out == ""
    assert not out.exists() or list(out.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "arrays"),
    [
        ("misses x", {"y": np.zeros(16, np.float32)}),
        ("has z that the model has not", {"x": np.zeros(16, np.float32), "z": np.zeros(1)}),
        ("x is float64, the model wants float32", {"x": np.zeros(16)}),
        ("x: 17 does not fit 16", {"x": np.zeros(17, np.float32)}),
    ],
)
def test_an_npz_that_does_not_fit(words: str, arrays: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "inputs.npz"
    np.savez(path, allow_pickle=False, **arrays)
    check(2, words, TINY, "--ep", "cpu", "--input", path, tmp_path=tmp_path)
    check(2, "--shape cannot be combined with --input", TINY, "--input", path, "--shape", "x:16", tmp_path=tmp_path)


def test_requests_are_in_utf_8(tmp_path: Path) -> None:
    ran = ortbench(
        "run", TINY, "--ep", "cpu", *ONCE, "--out", tmp_path, "--quiet", "--name", "ü", PYTHONIOENCODING="utf-16"
    )
    assert ran.code == 0


def _claim(path: Path, count: int, data: bytes) -> None:
    """An .npz whose x claims so many numbers, with that in place of them."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (count,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + data)


def test_what_an_npz_claims_is_compared_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "claims.npz"
    _claim(path, 1 << 60, b"")
    check(
        2, f"x: {1 << 60} does not fit 16: the model fixes 16", TINY, "--ep", "cpu", "--input", path, tmp_path=tmp_path
    )
    _claim(path, 16, b"short")
    check(2, f"{path} is not an .npz file of plain arrays", TINY, "--ep", "cpu", "--input", path, tmp_path=tmp_path)
    for member, content in (("x", b"text"), ("x.npy", b"text")):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(member, content)
        check(
            2,
            f"{path} is not an .npz file of plain arrays: {member} is no .npy file",
            TINY,
            "--ep",
            "cpu",
            "--input",
            path,
            tmp_path=tmp_path,
        )


@pytest.fixture
def odd_folder(tmp_path: Path) -> Path:
    """A folder whose name is a byte that is no UTF-8, with a model in it."""
    folder = tmp_path / os.fsdecode(b"\xff")
    try:
        folder.mkdir()
    except OSError as error:
        lacking(f"names here are text: {error}")
    shutil.copy(TINY, folder / "m.onnx")
    return folder


@pytest.mark.parametrize(
    ("what", "arguments"),
    [
        ("the model's path", ["run", "MODEL"]),
        ("the model's path", ["gate", "--model", "MODEL", "--max-cpu-nodes", "0"]),
        ("the model's path", ["gate", "--model", TINY, "--baseline-model", "MODEL"]),
        ("the model's path", ["profile", "MODEL"]),
        ("the model's path", ["inspect", "MODEL"]),
        ("the model's path", ["suite", "SUITE"]),
        ("--ep-library", ["devices", "--ep-library", "MODEL"]),
        ("--ep-library", ["bandwidth", "--ep-library", "MODEL"]),
        ("--ep-library", ["run", TINY, "--ep", "MODEL"]),
        ("--engine-cache", ["run", TINY, "--engine-cache", "MODEL"]),
        ("--ep-option", ["run", TINY, "--ep-option", "a=MODEL"]),
    ],
)
def test_a_path_that_is_no_text_is_none_for_onnx_runtime(what: str, arguments: list[str], odd_folder: Path) -> None:
    (odd_folder / "suite.toml").write_text('[suite]\nname = "a"\n[[bench]]\nmodel = "m.onnx"\n')
    model = str(odd_folder / ("lib.so" if arguments[-2:-1] == ["--ep"] else "m.onnx"))
    shutil.copy(TINY, odd_folder / "lib.so")
    known = {"MODEL": model, "SUITE": str(odd_folder / "suite.toml"), "a=MODEL": f"a={model}"}
    ran = ortbench(*(known.get(it, it) for it in arguments), cwd=odd_folder.parent)
    assert (ran.code, ran.out) == (2, "")
    assert f"{what} is not UTF-8, and ONNX Runtime takes nothing else: " in ran.error_line
    assert "\\udcff" in ran.error_line


def test_all_that_is_written_may_go_to_a_path_that_is_no_text(odd_folder: Path) -> None:
    files = {f"--{name}": odd_folder / f"it.{name}" for name in ("json", "junit", "action-json", "trace", "html")}
    options = [part for item in files.items() for part in item]
    ran = ortbench(  # the model's own path is relative, and text
        "run", "m.onnx", "--ep", "cpu", "--mode", "cpu-tensors", "--iterations", 2, "--warmup", 1, "--measure-nodes", *options,
        "--out", odd_folder / "out", cwd=odd_folder,
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    assert "gave nothing" not in ran.out
    result = json.loads(files["--json"].read_text(encoding="utf-8"))
    assert result["nodes"]["runs"]
    assert os.fsdecode(b"\xff") in " ".join(result["command"])
    assert all(file.stat().st_size for file in files.values())
    assert len(list(odd_folder.glob("out/*/table.md"))) == 1


def test_a_run_that_fails_names_the_dimensions_that_nobody_gave(tmp_path: Path) -> None:
    model = tmp_path / "image.onnx"
    graph = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch, height, 4] x) => (float[a, b] y, int64[3, n] z) {
        shape = Constant <value = int64[2] {3, 8}> ()
        y = Reshape (x, shape)
        z = NonZero (x)
    }"""
    onnx.save(onnx.parser.parse_model(graph), model)
    words = "failed with synthetic inputs, where batch, height are 1 (--shape, --dim, --sequence-tensors, --range change them, "
    check(1, words, model, "--ep", "cpu", tmp_path=tmp_path)
    words = "failed with synthetic inputs, where height is 1 (--shape, --dim, --sequence-tensors, --range change them, "
    check(1, words, model, "--ep", "cpu", "--dim", "batch=2", tmp_path=tmp_path)
    found = ortbench("inspect", model).out
    assert "failed with synthetic inputs, where batch, height are 1 (--shape and --dim change their shapes;" in found
    assert "set to 1" not in found


def test_a_result_that_does_not_fit_the_memory(tmp_path: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit to set a limit with")
    file = tmp_path / "result.json"
    file.touch()
    os.truncate(file, 250 << 20)
    ran = ortbench("report", file, prefix=("prlimit", f"--as={260 << 20}"))
    assert (ran.code, ran.error_line) == (2, f"{file} does not fit the memory that this process may have")
