"""The fixtures for pytest, in real runs of it in folders of their own, as a project has them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.process

# What gates come to is scripted; that they measure is tested by the example in docs/ci.md.
SCRIPTED = """
import json
import os
import time
import pytest
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check
from ortbench.features.gate.gates.checks import Verdict as Stored


@pytest.fixture(autouse=True)
def scripted(monkeypatch):
    import ortbench
    from ortbench.features.gate.api import Verdict

    def gate(model, baseline_model=None, **options):
        began = time.monotonic_ns()
        time.sleep(0.2)
        with open("measured.txt", "a") as file:
            file.write(json.dumps([os.getpid(), began, time.monotonic_ns(), model, baseline_model, options]) + "\\n")
        if model == "broken":
            raise ortbench.BenchmarkFailed("the EP does not load")
        word = {"slow": FAILED, "noisy": UNCLEAR}.get(model, PASSED)
        result = ortbench.read(os.environ["RESULT"])
        return Verdict.wrap(Stored([result, result], [Check("cpu-tensors latency median", word, f"{model} is {word}", 1.2, limit=1.05)]))

    monkeypatch.setattr(ortbench, "gate", gate)
"""
TESTS = """
def test_good(ortbench_gate):
    assert ortbench_gate("good", baseline_model="base", max_regression="5%").passed

def test_slow(ortbench_gate):
    ortbench_gate("slow", baseline_model="base", max_regression="5%")

def test_noisy(ortbench_gate):
    ortbench_gate("noisy", baseline_model="base")

def test_broken(ortbench_gate):
    ortbench_gate("broken")

def test_another():
    pass
"""


def pytest_in(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
    env = {**environ, "RESULT": str(ROOT / "reports" / "copy_bound-cpu"), "COLUMNS": "200"}
    line = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *map(str, arguments)]
    return subprocess.run(line, cwd=folder, env=env, capture_output=True, text=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with scripted gates, all warnings errors."""
    (tmp_path / "conftest.py").write_text(SCRIPTED)
    (tmp_path / "test_speed.py").write_text(TESTS)
    strict = "[pytest]\nfilterwarnings = error\naddopts = --strict-markers --strict-config\n"
    (tmp_path / "pytest.ini").write_text(strict)
    return tmp_path


def counted(out: str) -> dict[str, int]:
    counts = re.findall(r"(\d+) (passed|failed|skipped|deselected)", out.splitlines()[-1])
    return {word: int(count) for count, word in counts}


def test_verdicts_become_what_tests_come_to(project: Path) -> None:
    ran = pytest_in(project, "--junit-xml=junit.xml")
    assert counted(ran.stdout) == {"failed": 3, "passed": 2}
    # The table is in the failure's report, without a traceback.
    for text in ("✗ failed: slow is failed", "| mode | metric | baseline", "ortbench: the EP does not load"):
        assert text in ran.stdout
    assert not re.search(r"Traceback|During handling|pytest_plugin\.py", ran.stdout)
    for name, said in (
        ("slow", "failed: cpu-tensors latency median: ratio 1.200, limit 1.05"),
        ("noisy", "cannot tell: noisy is cannot tell"),
    ):
        assert f"FAILED test_speed.py::test_{name} - Failed: ortbench gate {said}" in ran.stdout
    lines = ran.stdout.partition(" ortbench =")[2].splitlines()
    for name, word in {"good": "passed", "slow": "failed", "noisy": "cannot tell"}.items():
        assert lines[lines.index(f"test_speed.py::test_{name}") + 1] == f"  {word}: {name} is {word}"
    first = ElementTree.parse(project / "junit.xml").find(".//property[@name='ortbench']")
    assert first is not None
    assert first.get("value") == "passed: good is passed"


@pytest.mark.wide
def test_a_project_says_what_cannot_tell_is_and_leaves_gates_out(project: Path) -> None:
    skipping = pytest_in(project, "-o", "ortbench_unclear=skip", "-rs", "-k", "noisy or good")
    assert counted(skipping.stdout) == {"passed": 1, "skipped": 1, "deselected": 3}
    assert "ortbench gate: cannot tell" in skipping.stdout
    assert counted(pytest_in(project, "-m", "not ortbench").stdout) == {"passed": 1, "deselected": 4}
    wrong = pytest_in(project, "-o", "ortbench_unclear=maybe")
    assert wrong.returncode == 4
    assert wrong.stderr.strip() == "ERROR: ortbench_unclear = maybe: write skip or fail"


@pytest.mark.wide
def test_side_by_side_they_measure_one_at_a_time(project: Path) -> None:
    many = "\n".join(f"def test_{it}(ortbench_gate):\n    ortbench_gate('good')\n" for it in range(6))
    (project / "test_speed.py").write_text(many)
    ran = pytest_in(project, "-n", "3", "--dist", "load")
    assert counted(ran.stdout) == {"passed": 6}
    assert ran.stdout.count("\n  passed: good is passed\n") == 6
    measured = [json.loads(line)[:3] for line in (project / "measured.txt").read_text().splitlines()]
    spans = sorted((began, ended) for _, began, ended in measured)
    assert all(one[1] <= other[0] for one, other in pairwise(spans))
    assert len({process for process, _, _ in measured}) > 1
