"""The path of a model through `ortbench run`, as docs/contributing.md lists it, beside the calls of a run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MODELS, ROOT

pytestmark = [pytest.mark.process, pytest.mark.wide]
MOST_FILES, MOST_TURNS_BACK = 25, 6
# Notes each call of the listed functions, in every process; all of them have one clock.
PROFILER = """import os, sys, threading, time
wanted = {*os.environ["WANTED"].split(",")}
note = os.open(os.environ["NOTED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def profile(frame, event, _):
    code = frame.f_code
    called = f"{code.co_filename.rpartition('ortbench' + os.sep)[2].replace(os.sep, '/')}:{code.co_qualname}"
    if event == "call" and called in wanted:
        os.write(note, f"{time.perf_counter_ns()} {called}\\n".encode())
sys.setprofile(profile)
threading.setprofile(profile)
"""


def test_a_model_goes_through_the_listed_files_in_order(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    path = re.findall(r"^\| \[.*\]\(../ortbench/(\S+\.py)\) \| `(\S+)` \|", text, re.M)
    files = [file for file, _ in path]
    assert len({*files}) <= MOST_FILES
    assert sum(file in files[:number] for number, file in enumerate(files)) <= MOST_TURNS_BACK
    steps = [f"{file}:{function}" for file, function in path]
    (tmp_path / "sitecustomize.py").write_text(PROFILER)
    noted = {"PYTHONPATH": str(tmp_path), "WANTED": ",".join(steps), "NOTED": str(tmp_path / "calls")}
    words = ("run", MODELS / "tiny.onnx", "--ep", "cpu", "--iterations", "1", "--out", tmp_path)
    subprocess.run([sys.executable, "-m", "ortbench", *map(str, words)], env={**os.environ, **noted}, check=True)
    rows = [line.split() for line in (tmp_path / "calls").read_text().splitlines()]
    calls = iter([call for _, call in sorted(rows, key=lambda row: int(row[0]))])
    assert [step for step in steps if step not in calls] == []  # each behind the one before
