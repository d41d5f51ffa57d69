"""What is printed where the encoding lacks it."""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path

import pytest

from ortbench.core.safe_text import ASCII, as_displayed, encode, printable
from tests.conftest import MODELS, ROOT, SCREEN, ortbench
from tests.sources import nodes

pytestmark = pytest.mark.process

REPORT = ROOT / "reports" / "copy_bound-refdevice"


LOST = "\N{REPLACEMENT CHARACTER}"


def test_what_stands_for_what_an_encoding_lacks() -> None:
    for encoding, text, expected in (
        ("utf-8", "≈1.2 µs × 3 – ✓ 模型", "≈1.2 µs × 3 – ✓ 模型"),
        ("cp1252", "≈1.2 µs × 3 – ✓ 模型", "~1.2 µs × 3 – + \\u6a21\\u578b"),
        ("latin-1", "≈1.2 µs × 3 – ✓ é", "~1.2 µs × 3 - + é"),
        ("ascii", "≈1.2 µs × 3 – ✓ é", "~1.2 us x 3 - + \\xe9"),
        ("ascii", "░█▒≈━", ".#:~="),
        ("ascii", "a → b … ±1 % ✗ • 🚀", "a -> b ... +-1 % x * \\U0001f680"),
        ("utf-8", "\udcff.onnx", "\\udcff.onnx"),  # the byte 0xff in a file's name
        ("utf-8", "a\x1b[31mb\n\tc\x7f", f"a{LOST}[31mb  c{LOST}"),
    ):
        assert as_displayed(text, io.TextIOWrapper(io.BytesIO(), encoding=encoding)) == expected


def test_printable() -> None:
    for text in ("≈1.2 µs × 3 \N{NO-BREAK SPACE}– 模型 🚀", "a\nb\tc"):
        assert printable(text) == text
    assert printable("\x00\x07\r\x1b\x85\x9b\ud800\udcff\ufffe\uffff") == LOST * 10
    assert encode("≈\udcff.onnx") == "≈\\udcff.onnx".encode()  # a path that is no text is found again in JSON


def test_whatever_the_program_prints_has_an_ascii_form() -> None:
    """All its text is in string literals and in the glossary; what has a form of its own must be one sign that stands for one."""
    files = {Path("features/page"), Path("features/trace")}  # whose text goes to files, which are UTF-8
    printed = [tree for path, tree in nodes().items() if not files & {*path.parents}]
    texts = [it.value for tree in printed for it in tree if isinstance(it, ast.Constant) and isinstance(it.value, str)]
    texts.append((ROOT / "ortbench" / "report" / "glossary.json").read_text(encoding="utf-8"))
    elsewhere = {"\ufffd", "\ufffe", "É", "½"}  # in patterns and comments, never printed
    assert {it for text in texts for it in text if not it.isascii()} - ASCII.keys() <= elsewhere
    assert all(text.isascii() for text in ASCII.values())


def printed(*arguments: object, encoding: str, code: int = 0) -> tuple[str, str]:
    """Standard output and standard error of a command whose streams have an encoding."""
    ran = ortbench(*arguments, text_encoding=encoding, PYTHONIOENCODING=encoding, **{SCREEN: "1"})
    assert ran.code == code, ran.err
    assert "Traceback" not in ran.err
    return ran.out, ran.err


@pytest.mark.parametrize(("encoding", "unit", "ratio"), [("ascii", "us", "1.00x"), ("cp1252", "µs", "1.00×")])
def test_a_run_in_any_encoding(encoding: str, unit: str, ratio: str, tmp_path: Path) -> None:
    model = tmp_path / "tiny-模型.onnx"
    model.write_bytes((MODELS / "tiny.onnx").read_bytes())
    arguments = ("run", model, "--ep", "cpu", "--iterations", 3, "--warmup", 1, "--out", tmp_path / "out")
    out, err = printed(*arguments, encoding=encoding)
    assert (err, "tiny-\\u6a21\\u578b.onnx" in out, f"{ratio} " in out) == ("", True, True)
    assert re.search(rf"^ .* {unit}(?: |$)", out, re.MULTILINE)  # below the heading
    assert set("=#.:") <= set(out)


def test_an_error_in_any_encoding() -> None:
    for encoding, line in (("ascii", "n\\xf6where-\\u6a21.onnx"), ("cp1252", "nöwhere–\\u6a21.onnx")):
        assert printed("run", "nöwhere–模.onnx", encoding=encoding, code=2) == ("", f"ortbench: no such file: {line}\n")


def test_what_programs_read_is_utf_8_in_any_encoding() -> None:
    line = ("compare", REPORT, REPORT, "--metric", "latency", "--markdown", "-")
    ran = ortbench(*line, text_encoding="utf-8", PYTHONIOENCODING="ascii")
    assert "–" in ran.out
