"""What is printed where the encoding lacks it."""

from __future__ import annotations

import ast
import io
import re
from pathlib import Path

import pytest

from ortbench.core.safe_text import ASCII, as_displayed, encode, printable
from tests.conftest import MODELS, ROOT, SCREEN, ortbench

pytestmark = pytest.mark.process

REPORT = ROOT / "reports" / "copy_bound-refdevice"


def stream(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


@pytest.mark.parametrize(
    ("encoding", "text", "expected"),
    [
        ("utf-8", "≈1.2 µs × 3 – ✓ 模型", "≈1.2 µs × 3 – ✓ 模型"),
        ("cp1252", "≈1.2 µs × 3 – ✓ 模型", "~1.2 µs × 3 – + \\u6a21\\u578b"),
        ("latin-1", "≈1.2 µs × 3 – ✓ é", "~1.2 µs × 3 - + é"),
        ("ascii", "≈1.2 µs × 3 – ✓ é", "~1.2 us x 3 - + \\xe9"),
        ("ascii", "░█▒≈━", ".#:~="),
        ("ascii", "a → b … ±1 % ✗ •", "a -> b ... +-1 % x *"),
        ("ascii", "🚀", "\\U0001f680"),
        ("utf-8", "\udcff.onnx", "\\udcff.onnx"),  # the byte 0xff in a file's name
        ("utf-8", "a\x1b[31mb\n\tc\x7f", "a\N{REPLACEMENT CHARACTER}[31mb  c\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_what_stands_for_what_an_encoding_lacks(encoding: str, text: str, expected: str) -> None:
    assert as_displayed(text, stream(encoding)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("≈1.2 µs × 3 \N{NO-BREAK SPACE}– 模型 🚀", "≈1.2 µs × 3 \N{NO-BREAK SPACE}– 模型 🚀"),
        ("a\nb\tc", "a\nb\tc"),
        ("\x00\x07\r\x1b\x85\x9b\ud800\udcff\ufffe\uffff", "\N{REPLACEMENT CHARACTER}" * 10),
    ],
)
def test_printable(text: str, expected: str) -> None:
    assert printable(text) == expected


def test_a_path_that_is_no_text_is_found_again_in_json() -> None:
    assert encode("≈\udcff.onnx") == "≈\\udcff.onnx".encode()


# Their text goes to files, which are UTF-8.
FILES = ("page", "trace")


def test_whatever_the_program_prints_has_an_ascii_form() -> None:
    """All its text is in string literals and in the glossary; what has a form of its own must be one sign that stands for one."""
    found = {
        character
        for path in set((ROOT / "ortbench").rglob("*.py")).difference(
            *((ROOT / "ortbench/features" / name).rglob("*.py") for name in FILES)
        )
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for character in node.value
        if not character.isascii()
    }
    found |= {
        it for it in (ROOT / "ortbench" / "report" / "glossary.json").read_text(encoding="utf-8") if not it.isascii()
    }
    elsewhere = {"\ufffd", "\ufffe", "É", "½"}  # in patterns and comments, never printed
    assert found - ASCII.keys() <= elsewhere
    assert all(text.isascii() for text in ASCII.values())


def printed(*arguments: object, encoding: str, code: int = 0) -> tuple[str, str]:
    """Standard output and standard error of a command whose streams have an encoding."""
    ran = ortbench(*arguments, text_encoding=encoding, PYTHONIOENCODING=encoding, **{SCREEN: "1"})
    assert ran.code == code, ran.err
    assert "Traceback" not in ran.err
    return ran.out, ran.err


@pytest.mark.parametrize(
    ("encoding", "total", "bar", "ratio"),
    [("ascii", "us", "=#.:", "1.00x"), ("cp1252", "µs", "=#.:", "1.00×")],
)
def test_a_run_in_any_encoding(encoding: str, total: str, bar: str, ratio: str, tmp_path: Path) -> None:
    model = tmp_path / "tiny-模型.onnx"
    model.write_bytes((MODELS / "tiny.onnx").read_bytes())
    arguments = ("run", model, "--ep", "cpu", "--iterations", 3, "--warmup", 1, "--out", tmp_path / "out")
    out, err = printed(*arguments, encoding=encoding)
    assert err == ""
    assert "tiny-\\u6a21\\u578b.onnx" in out
    assert "-v prints more" in out
    assert re.search(rf"^ .* {total}(?: |$)", out, re.MULTILINE)  # the units, below the heading
    assert all(f"\n{mode} " in out for mode in ("cpu-tensors", "device-tensors", "device-resident", "host-accessible"))
    assert f"{ratio} " in out
    assert set(bar) <= set(out)


@pytest.mark.parametrize(
    ("encoding", "line"), [("ascii", "n\\xf6where-\\u6a21.onnx"), ("cp1252", "nöwhere–\\u6a21.onnx")]
)
def test_an_error_in_any_encoding(encoding: str, line: str) -> None:
    out, err = printed("run", "nöwhere–模.onnx", encoding=encoding, code=2)
    assert (out, err) == ("", f"ortbench: no such file: {line}\n")


def test_what_programs_read_is_utf_8_in_any_encoding() -> None:
    ran = ortbench("compare", REPORT, REPORT, "--markdown", "-", text_encoding="utf-8", PYTHONIOENCODING="ascii")
    assert "| 1.000 |" in ran.out
