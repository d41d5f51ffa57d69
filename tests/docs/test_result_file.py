"""The examples of docs/result-file.md and docs/ci.md#feed-a-history give figures."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "result-file.md").read_text(encoding="utf-8")
JQ = re.findall(r"^jq .+$", PAGE, re.MULTILINE)
PYTHON = re.findall(r"^```python\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)
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


@pytest.mark.process
def test_what_a_tool_for_histories_reads(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.+?)^```", page, re.MULTILINE | re.DOTALL)
    configuration = yaml.safe_load(re.findall(r"^```yaml\n(.+?)^```", page, re.MULTILINE | re.DOTALL)[-1])
    (configured,) = configuration["tests"].values()
    for number, day in enumerate(("2026-10-02T02:00:00+00:00", "2026-10-01T02:00:00+00:00")):
        result = json.loads((ROOT / "reports" / "copy_bound-cpu" / "result.json").read_text())
        place = tmp_path / "results" / str(number) / "result.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(result | {"created": day}))
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    with (tmp_path / configured["file"]).open(newline="") as file:
        rows = [*csv.DictReader(file)]
    metrics = [it["column"] for it in configured["metrics"].values()]
    columns = [configured["time_column"], *configured["attributes"], *metrics]
    days = ("2026-10-01T02:00:00+00:00", "2026-10-02T02:00:00+00:00")
    assert [[row[it] for it in columns] for row in rows] == [[day, "1.31.1", "5285603"] for day in days]
