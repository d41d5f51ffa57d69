"""The examples of docs/result-file.md give figures."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "result-file.md").read_text(encoding="utf-8")
JQ = re.findall(r"^jq .+$", PAGE, re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_there_are_examples() -> None:
    assert (len(JQ), len(PYTHON)) == (3, 2)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
@pytest.mark.parametrize("line", JQ)
def test_what_jq_finds(line: str) -> None:
    done = subprocess.run(["sh", "-c", line], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"\d{3}", done.stdout)
    assert "null" not in done.stdout


@pytest.mark.process
@pytest.mark.parametrize("code", PYTHON)
def test_what_pandas_finds(code: str) -> None:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "cpu-tensors" in done.stdout
    assert re.search(r"\d{5}", done.stdout)
