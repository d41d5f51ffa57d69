"""What a command runs besides itself: workers of the interpreter that was named, and nothing that the current folder names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import MODELS, ROOT, command, lacking, ortbench
from tests.jobs.reports import json_in
from tests.jobs.test_python_option import script
from tests.jobs.test_stopping import assert_nothing_runs

TINY = MODELS / "tiny.onnx"
SHORT = ("--ep", "cpu", "--mode", "cpu-tensors", "--iterations", "1", "--warmup", "1")
PROGRAMS = (
    "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.gitProxy", "diff.external", "gpg.program",
    "credential.helper", "filter.x.clean", "filter.x.smudge", "filter.x.process", "alias.rev-parse", "alias.describe",
)  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose configuration, hooks and attributes name a program that leaves a mark."""
    if shutil.which("git") is None:
        lacking("git")
    folder = tmp_path / "checkout"
    folder.mkdir()
    marks = script(folder / "marks", f"#!/bin/sh\necho $0 >> {folder}/mark\n")
    git(folder, "init", "-q")
    git(folder, "-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "c")
    (folder / "hooks").mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"):
        shutil.copy(marks, folder / "hooks" / hook)
    git(folder, "config", "core.hooksPath", str(folder / "hooks"))
    for name in PROGRAMS:
        git(folder, "config", name, str(marks))
    (folder / ".gitattributes").write_text("* filter=x diff=x\n")
    return folder


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_commit_is_named_and_nothing_of_the_folder_runs(checkout: Path, tmp_path: Path) -> None:
    for where in (checkout, tmp_path):  # which is in no checkout
        assert ortbench("run", TINY, *SHORT, "--out", tmp_path / f"of-{where.name}", cwd=where).code == 0
    ortbench("doctor", "--no-noise", cwd=checkout)
    commits = [json_in(tmp_path / f"of-{it.name}")["environment"]["git_commit"] for it in (checkout, tmp_path)]
    assert commits == [git(checkout, "rev-parse", "HEAD"), None]
    assert not (checkout / "mark").exists()
    git(checkout, "status")
    assert (checkout / "mark").exists()  # the program would have run


def test_the_interpreter_that_was_checked_is_the_one_that_runs(tmp_path: Path) -> None:
    """A name without a folder is PATH's to a system that starts it."""
    here, other = tmp_path / "here", tmp_path / "other"
    here.mkdir()
    other.mkdir()
    script(here / "python3", f'#!/bin/sh\ntouch {here}/ran\nexec {sys.executable} "$@"\n')
    script(other / "python3", "#!/bin/sh\nexit 1\n")
    line = ("run", TINY, *SHORT, "--python", "./python3", "--out", tmp_path / "out")
    assert ortbench(*line, cwd=here, PATH=f"{other}:{os.environ['PATH']}").code == 0
    assert (here / "ran").exists()


def test_workers_run_without_telemetry_unless_it_is_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "log"
    python = script(
        tmp_path / "python", f'#!/bin/sh\necho "$1 $ORT_DISABLE_TELEMETRY" >> {log}\nexec {sys.executable} "$@"\n'
    )
    line = ("start", TINY, "--ep", "cpu", "--iterations", 1, "--python", python, "--out", tmp_path)
    assert ortbench(*line).code == ortbench(*line, ORT_DISABLE_TELEMETRY="0").code == 0
    starts = [it.split()[1] for it in log.read_text().splitlines() if "program.py" in it]
    assert starts == [*["1"] * (len(starts) // 2), *["0"] * (len(starts) // 2)] != []


@pytest.mark.skipif(sys.platform != "linux", reason="the signal at a parent's death is Linux's")
def test_a_killed_start_leaves_no_process_and_its_folder_goes_at_the_next(tmp_path: Path) -> None:
    temporary, here = tmp_path / "temporary", tmp_path / "here"
    temporary.mkdir()
    here.mkdir()
    os.mkfifo(tmp_path / "begun")
    waits = f'case "$1" in */program.py) echo $$ > {tmp_path}/begun; sleep 600; esac\n'
    python = script(tmp_path / "python", f'#!/bin/sh\n{waits}exec {sys.executable} "$@"\n')
    line = command("start", TINY, "--ep", "cpu", "--iterations", 1, "--python", python, "--out", tmp_path / "out")
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(line, cwd=here, env=environment, stdout=subprocess.DEVNULL) as process:
        about = Path("/proc", (tmp_path / "begun").read_text().strip(), "fdinfo", "0")
        while not int(about.read_text().split("flags:")[1].split()[0], 8) & os.O_ASYNC:
            time.sleep(0.01)  # between the start of the process and the next line of ortbench
        process.send_signal(signal.SIGKILL)
    assert_nothing_runs(here)
    left = list(temporary.iterdir())
    assert left
    for folder in left:
        os.utime(folder, (0, 0))  # it is not of a process that has only just made it
    used = temporary / "ortbench-temporary-kept"
    used.mkdir()  # new, and so maybe in use
    (temporary / "ortbench-temporary-link").symlink_to(here)
    again = ("start", TINY, "--ep", "cpu", "--iterations", 1, "--out", tmp_path / "out")
    assert ortbench(*again, TMPDIR=str(temporary)).code == 0
    assert {path.name for path in temporary.iterdir()} == {"ortbench-temporary-kept", "ortbench-temporary-link"}
    assert here.is_dir()
