"""What looks for tracebacks, hangs and raw characters finds them where they are, and nothing where they are not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import forks
from tests import mutants_of_results as mutants
from tests.conftest import ROOT, ortbench_here
from tests.model.toys import result
from tests.mutants_of_results import LIMIT_S, Reader, findings, mutant

_ME = "tests.model.test_mutants"


def test_a_mutant_is_of_its_seed_and_changes_are_of_all_kinds() -> None:
    content = json.dumps(result()).encode()
    made = [mutant(content, seed) for seed in range(300)]
    assert made[7] == mutant(content, 7)
    said = " ".join(done for _, done in made)
    assert [
        it for it in (*(change.__name__ for change in mutants.CHANGES), "truncated", "schema_version") if it not in said
    ] == []
    texts = [text for text, _ in made]
    assert all(
        any(word in text for text in texts)
        for word in (b"NaN", b"Infinity", b"18446744073709551616", b"\\ud800", b"<script>")
    )


def _break() -> None:
    raise ValueError("broken")


def _say() -> None:
    print("\x1b[31mred\nmutant[/bold red]")
    Path("page.html").write_text("<p><script>mutant()</script></p>")
    sys.exit(4)


def _sleep() -> None:
    import signal

    signal.alarm(1)
    signal.pause()


def _good() -> None:
    print("ortbench: result.json: cases: a list is needed", file=sys.stderr)
    Path("page.html").write_text("<p>&lt;script&gt;mutant()&lt;/script&gt;</p>")
    sys.exit(2)


@pytest.mark.process
@pytest.mark.skipif(not forks.POSSIBLE, reason="forks of a loaded process are for Linux")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("_break", ["traceback "]),
        ("_say", ["exit code 4", "raw '\\x1b' in stdout", "markup in stdout", "HTML in page.html"]),
        ("_sleep", [f"hang: more than {LIMIT_S} s"]),
        ("_good", []),
    ],
)
def test_what_is_wrong_with_a_reader_is_found(name: str, wanted: list[str], tmp_path: Path) -> None:
    found = [*findings(Reader("it", "", main=f"{_ME}:{name}"), tmp_path)]
    assert len(found) == len(wanted)
    assert all(map(str.startswith, found, wanted))


@pytest.mark.process
@pytest.mark.skipif(not forks.POSSIBLE, reason="forks of a loaded process are for Linux")
def test_readers_take_what_nobody_changed(tmp_path: Path) -> None:
    folders = {"copy_bound-cpu": "READERS", "bandwidth-refdevice": "BANDWIDTH"}
    for folder in folders:
        (tmp_path / folder).mkdir()
        for name in ("good", "mutant"):
            (tmp_path / folder / name).symlink_to(ROOT / "reports" / folder)
    script = f"""
from dataclasses import replace
from pathlib import Path
from tests import forks, mutants_of_results
forks._load()
for folder, readers in {folders}.items():
    for reader in getattr(mutants_of_results, readers):
        never_refused = replace(reader, codes=tuple({{*reader.codes}} - {{2}}))
        for found in mutants_of_results.findings(never_refused, Path({str(tmp_path)!r}, folder)):
            print(reader.name, found)"""
    # Not of this process: threads that other tests left hold locks that a fork would wait for.
    line = [sys.executable, "-c", script]
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(line, cwd=ROOT, env=alone, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout == ""


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
for found in carried_out(map(Path, {[*map(str, files)]}), range(3000, 3100), jobs=2):
    for it in found:
        print(it)
print("done")"""
    line = [sys.executable, "-c", script]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True, timeout=1800)
    assert done.stdout == "done\n"
