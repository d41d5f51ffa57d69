"""Every refusal is one line on stderr and an exit code, and leaves nothing behind: a table of commands, refusals.txt."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.conftest import MODELS, ROOT, lacking, ortbench, ortbench_here

pytestmark = pytest.mark.process

LINES = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines()
FILES = {
    "m.onnx": "tiny.onnx", "ids.onnx": "transformer_ids.onnx", "multi.onnx": "multi_output.onnx", "cell.onnx": "recurrent_cell.onnx",
    "decoder.onnx": "decoder.onnx", "shared.onnx": "decoder_shared.onnx", "chain.toml": "text_to_image.toml",
}  # fmt: skip
TABLE = [line.split(" -> ") for line in LINES if line and not line.startswith("#")]
BYTE = os.fsdecode(b"\xff")
# Its shapes fit together for some sizes alone.
IMAGE = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch, height, 4] x) => (float[a, b] y) {
    shape = Constant <value = int64[2] {3, 8}> ()
    y = Reshape (x, shape)
}"""


def claim(file: Path, count: int, data: bytes) -> None:
    """Write an .npz whose x claims so many numbers, with some data in place of them."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (count,)})
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.npy", header.getvalue() + data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("refusals")
    for name, model in FILES.items():
        shutil.copy(MODELS / model, folder / name)
    onnx.save(onnx.parser.parse_model(IMAGE), folder / "image.onnx")
    (folder / "r").symlink_to(ROOT / "reports" / "copy_bound-refdevice")
    (folder / "text.md").write_text("text")
    (folder / "one.toml").write_text('[[stage]]\nname = "text"\nmodel = "m.onnx"\n')
    (folder / "folder").mkdir()
    (folder / "hard.onnx").hardlink_to(folder / "m.onnx")
    for link, target in {"link.onnx": "m.onnx", "loop": "loop", "broken": "nothing"}.items():
        (folder / link).symlink_to(target)
    os.mkfifo(folder / "pipe")
    np.savez(folder / "double.npz", x=np.zeros(16))
    claim(folder / "claims.npz", 1 << 60, b"")
    claim(folder / "short.npz", 16, b"short")
    with zipfile.ZipFile(folder / "text.npz", "w") as archive:
        archive.writestr("x", "text")
    try:
        (folder / BYTE).mkdir()
    except OSError as error:
        lacking(f"names here are text: {error}")
    for name in ("m.onnx", "lib.so"):
        shutil.copy(MODELS / "tiny.onnx", folder / BYTE / name)
    (folder / BYTE / "suite.toml").write_text('[suite]\nname = "a"\n[[bench]]\nmodel = "m.onnx"\n')
    return folder


def numbers_up_to(last: re.Match[str]) -> str:
    return ",".join(map(str, range(1, int(last[1]) + 1)))


@pytest.mark.parametrize(("line", "answer"), TABLE, ids=[line for line, _ in TABLE])
def test_a_refusal(line: str, answer: str, folder: Path) -> None:
    before = {path: path.lstat().st_size for path in folder.rglob("*")}
    typed = re.sub(r"1\.\.(\d+)", numbers_up_to, line.replace("MANY", "1" * 5000).replace("BYTE", BYTE))
    ran = ortbench_here(*shlex.split(typed), cwd=folder)
    code, words = (int(found[1]), found[2]) if (found := re.match(r"(\d+): (.*)", answer)) else (2, answer)
    assert (ran.code, ran.out) == (code, "")
    assert words in ran.error_line
    assert {path: path.lstat().st_size for path in folder.rglob("*")} == before


@pytest.mark.skipif(sys.platform != "linux", reason="rights that root can give up are Linux's")
def test_what_may_not_be_read_or_entered(tmp_path: Path) -> None:
    prefix: tuple[str, ...] = ()
    if os.geteuid() == 0:
        prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")  # as root: to read all the same
        if shutil.which("setpriv") is None:
            lacking("setpriv")
    shutil.copy(MODELS / "tiny.onnx", tmp_path / "m.onnx")
    shutil.copytree(ROOT / "reports" / "copy_bound-refdevice", tmp_path / "result")
    (tmp_path / "folder").mkdir()
    closed = [tmp_path / name for name in ("m.onnx", "result/result.json", "folder")]
    for path in closed:
        path.chmod(0)
    inputs = MODELS / "tiny.inputs.npz"
    for line in (
        "run m.onnx --ep cpu",
        "inspect folder/m.onnx",
        f"run {MODELS}/tiny.onnx --ep cpu --input folder/i.npz",
        f"run {MODELS}/tiny.onnx --ep cpu --input {inputs} --out folder/out",
        f"run {MODELS}/tiny.onnx --ep cpu --html folder/p.html",
        "report result",
        "suite folder/s.toml",
    ):
        ran = ortbench(*line.split(), cwd=tmp_path, prefix=prefix)
        assert (ran.code, ran.out) == (2, ""), ran
        assert re.search("Permission denied|may not be read|is not readable", ran.error_line), ran
    closed[-1].chmod(0o700)


def test_a_result_that_does_not_fit_the_memory(tmp_path: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit to set a limit with")
    file = tmp_path / "result.json"
    file.touch()
    os.truncate(file, 250 << 20)
    ran = ortbench("report", file, prefix=("prlimit", f"--as={260 << 20}"))
    assert (ran.code, ran.error_line) == (2, f"{file} does not fit the memory that this process may have")
