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
    ("words", "arguments"),
    [
        ("no such file: nowhere.onnx", ["nowhere.onnx"]),
        ("is not a file", [str(MODELS)]),
        ("is not a model ONNX Runtime can load", [str(MODELS / "README.md")]),
        ("--ep 'nonsense': no such execution provider", [TINY, "--ep", "nonsense"]),
        ("--ep 'SomeExecutionProvider': no such execution provider; known are ", [TINY, "--ep", "SomeExecutionProvider"]),
        ("--name: is empty; leave it out", [TINY, "--name", ""]),
        ("--name: is empty; leave it out", [TINY, "--name", " \u200b\t"]),
        ("--name: has 5000 characters, and a name at most 200; --note takes longer texts", [TINY, "--name", "x" * 5000]),
        ("no such EP library: nowhere.so", [TINY, "--ep-library", "nowhere.so"]),
        ("no such EP library: ./nowhere.so", [TINY, "--ep", "./nowhere.so"]),
        ("No such option: --runs (see --help)", [TINY, "--runs", "5"]),
        ("No such option: --warm-up (Possible options: --warmup) (see --help)", [TINY, "--warm-up", "5"]),
        ("--iterations: write a number (see --help)", [TINY, "--iterations", "many"]),
        ("CPUExecutionProvider has 1 device(s)", [TINY, "--ep", "cpu", "--device", "1"]),
        ("--device -1", [TINY, "--device", "-1"]),
        ("CPUExecutionProvider has no options", [TINY, "--ep", "cpu", "--ep-option", "a=b"]),
        ("write it as key=value", [TINY, "--ep-option", "a"]),
        ("write it as key=value", [TINY, "--session-config", "a"]),
        ("--shape x: 17 does not fit 16: the model fixes 16", [TINY, "--shape", "x:17"]),
        ("--shape x: 4x4 does not fit 16: 1 dimension(s) are needed", [TINY, "--shape", "x:4x4"]),
        ("--shape y: the model has no such input; it has x", [TINY, "--shape", "y:16"]),
        ("a dimension cannot be negative", [TINY, "--shape", "x:-1"]),
        ("a dimension cannot be negative", [IDS, "--dim", "batch=-2"]),
        ("a dimension of 0 leaves nothing to measure", [TINY, "--shape", "x:0"]),
        ("a dimension of 0 leaves nothing to measure", [IDS, "--dim", "batch=0"]),
        ("--dim batch=many: the model has no dimension 'many'; write a whole number, or a sum of sequence",
         [IDS, "--dim", "batch=many"]),
        ("--dim batch=step: only a loop has steps", [IDS, "--dim", "batch=step"]),
        ("--dim batch=batch: is a sum of itself", [IDS, "--dim", "batch=batch"]),
        ("--dim batch=sequence-1: 0 is no size, which leaves nothing to measure", [IDS, "--dim", "batch=sequence-1"]),
        ("--dim batch=sequence/2: 0.5 is no size", [IDS, "--dim", "batch=sequence/2"]),
        ("--dim batch=sequence//(sequence-1): divides by zero", [IDS, "--dim", "batch=sequence//(sequence-1)"]),
        ("--dim width: the model has no such symbolic dimension; it has batch, sequence", [IDS, "--dim", "width=2"]),
        ("write it as name:low,high", [TINY, "--range", "x:3"]),
        ("low is above high", [TINY, "--range", "x:3,2"]),
        ("--range y: the model has no such input", [TINY, "--range", "y:0,1"]),
        ("does not fit int64", [IDS, "--range", "input_ids:0,1.5"]),
        ("the model refuses to run with synthetic inputs", [IDS, "--ep", "cpu", "--range", "input_ids:500,600"]),
        ("--iterations 0: at least one iteration", [TINY, "--iterations", "0"]),
        ("leave --duration and --precision out", [TINY, "--iterations", "5", "--duration", "1"]),
        ("--warmup -1", [TINY, "--warmup", "-1"]),
        ("--duration 0", [TINY, "--duration", "0"]),
        ("--timeout 0", [TINY, "--timeout", "0"]),
        ("--precision 'none'", [TINY, "--precision", "none"]),
        ("--intra-op-threads 0", [TINY, "--intra-op-threads", "0"]),
        ("--seed -1", [TINY, "--seed", "-1"]),
        ("--rtol -1: cannot be negative", [TINY, "--rtol", "-1"]),
        ("--opt-level 'fast'", [TINY, "--opt-level", "fast"]),
        ("--mode 'gpu': there is no such mode", [TINY, "--mode", "gpu"]),
        ("--iterations: write a number", [TINY, "--iterations", "five"]),
        ("No such option", [TINY, "--nonsense"]),
        ("--input: no such file or folder: nowhere.npz", [TINY, "--input", "nowhere.npz"]),
        ("--expect: no such file or folder: nowhere.npz", [TINY, "--expect", "nowhere.npz"]),
        ("is not an .npz file", [TINY, "--input", str(MODELS / "README.md")]),
        ("has no input_0.pb", [TINY, "--input", str(MODELS)]),
    ],
)  # fmt: skip
def test_bad_usage_and_bad_input_end_with_2(words: str, arguments: list[str], tmp_path: Path) -> None:
    check(2, words, *arguments, tmp_path=tmp_path)


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


MANY = "1" * 5000  # digits
WITHOUT_END: list[tuple[str, list[str]]] = [
    ("--intra-op-threads: at most 1,024", ["--intra-op-threads", "1000000"]),
    ("--inter-op-threads: at most 1,024", ["--execution-mode", "parallel", "--inter-op-threads", "1,1000000"]),
    ("--iterations: at most 1,000,000,000", ["--iterations", str(2**63)]),
    ("--warmup: at most 1,000,000,000", ["--warmup", str(2**63)]),
    ("--processes: at most 1,000", ["--processes", "100000"]),
    ("--seed: at most", ["--seed", str(2**63)]),
    ("must be above zero and below 1,000,000 seconds", ["--duration", "1e300"]),
    ("must be above zero and below 1,000,000 seconds", ["--timeout", "300h"]),
    ("'--iterations': Unable to parse", ["--iterations", MANY]),
    ("is not a whole number of at most 18 digits", ["--dim", f"n={MANY}"]),
    ("is not a whole number of at most 18 digits", ["--shape", f"x:{MANY}"]),
    ("write a whole number above zero", ["--items", MANY]),
    ("write base, or a number of MHz", ["--lock-clocks", MANY]),
]


@pytest.mark.parametrize(("words", "arguments"), WITHOUT_END, ids=[f"{it[0]} {it[1][:9]}" for _, it in WITHOUT_END])
def test_numbers_have_bounds(words: str, arguments: list[str], tmp_path: Path) -> None:
    check(2, words, TINY, "--ep", "cpu", *arguments, tmp_path=tmp_path)


def test_a_size_has_bounds() -> None:
    ran = ortbench("bandwidth", "--max-size", f"{MANY}GB")
    assert (ran.code, "write a size such as" in ran.error_line) == (2, True)


def test_a_device_without_an_end(tmp_path: Path) -> None:
    for line, said in (
        ("suite", "cannot read /dev/zero: it is a device"),
        ("report", "/dev/zero has more than 256 MiB, the most that is read"),
    ):
        ran = ortbench(line, "/dev/zero", cwd=tmp_path)
        assert (ran.code, ran.error_line) == (2, said)


def test_requests_are_in_utf_8_and_no_inputs(tmp_path: Path) -> None:
    ran = ortbench(
        "run", TINY, "--ep", "cpu", *ONCE, "--out", tmp_path, "--quiet", "--name", "ü", PYTHONIOENCODING="utf-16"
    )
    assert ran.code == 0
    check(2, "/dev/stdin cannot be read", TINY, "--ep", "cpu", "--input", "/dev/stdin", tmp_path=tmp_path)


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


@pytest.mark.parametrize("content", [b"", b"garbage" * 10, b"\x20\0\0\0ORTM" + bytes(50)])
def test_a_file_that_is_no_model_in_ort_format(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "m.ort").write_bytes(content)
    check(2, "is not a model ONNX Runtime can load: ", tmp_path / "m.ort", "--ep", "cpu", tmp_path=tmp_path)


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


def test_an_out_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = ortbench("run", TINY, "--out", tmp_path / "file")
    assert (ran.code, "is not a folder" in ran.error_line) == (2, True)
    ran = ortbench("run", TINY, "--out", "/proc/nowhere")
    assert (ran.code, "cannot be written" in ran.error_line) == (2, True)


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        *((f"is not installed; install it with: pip install '{package}', or name its library with --ep-library", ["--ep", ep])
          for ep, package in (("qnn", "onnxruntime-qnn"), ("dml", "onnxruntime-directml"))),
        ("does not load", ["--ep-library", MODELS / "README.md"]),
    ],
)  # fmt: skip
def test_an_ep_that_is_not_there(words: str, arguments: list[object], tmp_path: Path) -> None:
    check(1, words, TINY, *arguments, tmp_path=tmp_path)


def test_a_run_that_fails_inside_the_model_is_a_failure_not_bad_usage(tmp_path: Path) -> None:
    model = tmp_path / "reshape.onnx"
    graph = """<ir_version: 8, opset_import: ["" : 17]>
               g (float[2, 3] x, int64[2] shape) => (float[a, b] y) { y = Reshape(x, shape) }"""
    onnx.save(onnx.parser.parse_model(graph), model)
    check(
        1, "the first run failed with synthetic inputs", model, "--ep", "cpu", "--range", "shape:5,5", tmp_path=tmp_path
    )


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


def test_a_command_or_model_that_is_missing() -> None:
    assert ortbench("nonsense").code == 2
    assert ortbench("run").code == 2
    assert "Missing argument 'MODEL'" in ortbench("run").error_line


def test_json_to_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    place = tmp_path / "no" / "x"
    ran = ortbench("run", TINY, "--ep", "cpu", *ONCE, "--out", tmp_path, "--json", place)
    assert (ran.code, ran.out, ran.error_line) == (2, "", f"--json {place}: there is no folder {place.parent}")
    assert not list(tmp_path.iterdir())


def test_a_graph_that_is_invalid_with_an_ep_names_the_ep(library: Path, tmp_path: Path) -> None:
    graph = '<ir_version: 8, opset_import: ["" : 17]> g (bool[4] x) => (bool[4] y) { y = Relu(x) }'
    onnx.save(onnx.parser.parse_model(graph), tmp_path / "odd.onnx")
    for ep, words in (("cpu", "can load: "), (str(library), "can load with RefDevice")):
        check(2, words, tmp_path / "odd.onnx", "--ep", ep, tmp_path=tmp_path)


def test_a_result_that_does_not_fit_the_memory(tmp_path: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit to set a limit with")
    file = tmp_path / "result.json"
    file.touch()
    os.truncate(file, 250 << 20)
    ran = ortbench("report", file, prefix=("prlimit", f"--as={260 << 20}"))
    assert (ran.code, ran.error_line) == (2, f"{file} does not fit the memory that this process may have")
