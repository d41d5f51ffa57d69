"""What looks for tracebacks, hangs and raw characters finds them where they are, and nothing where they are not."""

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
    """The first of the mutants that the wide test has, of a small result."""
    content = (ROOT / "reports" / "copy_bound-refdevice" / "result.json").read_bytes()
    for seed in range(12):
        (tmp_path / "result.json").write_bytes(mutant(content, seed)[0])
        ran = ortbench_here("report", tmp_path, "--html", "-")
        assert ran.code == 0 or (ran.code == 2 and ran.error_line), seed


@pytest.mark.wide
@pytest.mark.skipif(not forks.POSSIBLE, reason="forks of a loaded process are for Linux")
def test_readers_answer_wrong_files_in_a_line() -> None:
    """`python -m tests.mutants_of_results --count 2000` does the same with more of them."""
    files = sorted(it for name in ("result.json", "bandwidth.json") for it in (ROOT / "reports").rglob(name))
    assert len(files) > 70
    script = f"""
from pathlib import Path
from tests.mutants_of_results import carried_out
for found in carried_out(map(Path, {[*map(str, files)]}), range(3000, 3040), jobs=2):
    for it in found:
        print(it)
print("done")"""
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True, timeout=1800)
    assert done.stdout == "done\n"
