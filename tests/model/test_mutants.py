"""Results with wrong values are answered in a line, by every command that reads results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import forks
from tests.conftest import ROOT, ortbench_here
from tests.mutants_of_results import mutant


@pytest.mark.process
def test_wrong_results_are_answered_in_a_line(undrawn: None, tmp_path: Path) -> None:
    content = (ROOT / "reports" / "copy_bound-refdevice" / "result.json").read_bytes()
    for seed in range(12):
        (tmp_path / "result.json").write_bytes(mutant(content, seed)[0])
        ran = ortbench_here("report", tmp_path, "--html", "-")
        assert ran.code == 0 or (ran.code == 2 and ran.error_line), seed


@pytest.mark.wide
@pytest.mark.skipif(not forks.POSSIBLE, reason="forks of a loaded process are for Linux")
def test_readers_answer_wrong_files_in_a_line() -> None:
    files = sorted(it for name in ("result.json", "bandwidth.json") for it in (ROOT / "reports").rglob(name))
    line = [sys.executable, "-m", "tests.mutants_of_results", *files, "--seed", "3000", "--count", "90", "--jobs", "2"]
    done = subprocess.run(list(map(str, line)), cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.stdout == "0 findings in 90 mutants\n"
