"""The workflows in docs/: the form of the one in ci.md, and that their steps do what they say when they are carried out."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

from ortbench.core import errors
from tests.conftest import ROOT, lacking

TEXT, *_ = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(encoding="utf-8"), re.DOTALL)
WORKFLOW: dict[Any, Any] = yaml.safe_load(TEXT)
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
STEPS: list[tuple[str, dict[str, Any]]] = [(job, step) for job in JOBS for step in JOBS[job]["steps"]]
# What shortens a command here and not in CI.
SHORTER = {"run": "--iterations 2 --warmup 1", "gate": "--mode cpu-tensors --duration 0.3 --warmup 1"}


def command_of(job: str) -> tuple[str, list[str]]:
    """The script of a job that calls ortbench, and the arguments of that call."""
    (script,) = (step["run"] for name, step in STEPS if name == job and step.get("run", "").startswith("ortbench "))
    call = script.replace("\\\n", " ").splitlines()[0].partition("||")[0]
    return script, shlex.split(call)[1:]


def value_of(arguments: list[str], option: str) -> str:
    return arguments[arguments.index(option) + 1]


def uses(job: str, action: str) -> dict[str, Any]:
    """The step of a job that uses an action."""
    (step,) = (step for name, step in STEPS if name == job and step.get("uses", "").startswith(f"{action}@"))
    return step


def carry_out(script: str, place: Path, ortbench: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does, `bash -e FILE`, with a script of our own in place of the program."""
    if shutil.which("bash") is None:
        lacking("no bash")
    programs = place / "programs"
    programs.mkdir()
    (programs / "ortbench").write_text(f"#!/bin/sh\n{ortbench}\n")
    (programs / "ortbench").chmod(0o755)
    (place / "step.sh").write_text(script)
    path = os.pathsep.join([str(programs), os.environ["PATH"]])
    env = {**os.environ, **environment, "PATH": path}
    return subprocess.run(["bash", "-e", "step.sh"], cwd=place, env=env, capture_output=True, text=True, timeout=1800)


def test_its_form() -> None:
    """Only the job that pushes may write; what the gate writes is kept whatever it says; the exit codes it names are those of gates."""
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "permissions" not in JOBS["gate"]
    assert JOBS["history"]["permissions"] == {"contents": "write", "deployments": "write"}
    _, arguments = command_of("gate")
    upload = uses("gate", "actions/upload-artifact")
    assert (JOBS["gate"]["steps"][-1], upload["if"]) == (upload, "always()")
    assert upload["with"]["path"].split() == [value_of(arguments, "--junit"), f"{value_of(arguments, '--out')}/"]
    given = uses("history", "benchmark-action/github-action-benchmark")["with"]
    assert given["output-file-path"] == value_of(command_of("history")[1], "--action-json")
    (comment,) = re.findall(r"# (0 passed.*?): 4 is only a warning", TEXT)
    assert comment.split(", ") == [f"{code} {meaning}" for meaning, code in CODES.items()]


CODES = {
    "passed": errors.DONE, "benchmark failed": errors.BENCHMARK_FAILED, "bad input": errors.BAD_INPUT, "regression": errors.REGRESSION,
    "cannot tell": errors.CANNOT_TELL, "not comparable": errors.NOT_COMPARABLE,
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("code", [errors.DONE, errors.REGRESSION, errors.CANNOT_TELL, 127])
def test_only_cannot_tell_is_forgiven(code: int, tmp_path: Path) -> None:
    done = carry_out(command_of("gate")[0], tmp_path, f"exit {code}")
    assert (done.returncode, done.stderr) == (0 if code == errors.CANNOT_TELL else code, "")
    warnings = [line for line in done.stdout.splitlines() if line.startswith("::")]
    assert len(warnings) == (code == errors.CANNOT_TELL)
    assert all(re.fullmatch(r"::warning title=[^:,]+::[^%]+", line) for line in warnings)


@pytest.mark.process
@pytest.mark.parametrize("job", JOBS)
def test_its_commands_run(job: str, tmp_path: Path) -> None:
    script, arguments = command_of(job)
    for place in ("models", "base/models"):
        shutil.copytree(ROOT / "models", tmp_path / place, ignore=shutil.ignore_patterns("*.py"))
    program = f'exec {shlex.quote(sys.executable)} -m ortbench "$@" {SHORTER[arguments[0]]}'
    script = script.replace(" 5%", " 900%")  # candidate and baseline are the same model
    done = carry_out(script, tmp_path, program, GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "summary.md").read_text(encoding="utf-8").startswith("# ortbench")
    assert list((tmp_path / value_of(arguments, "--out")).rglob("result.json"))
    if job == "gate":
        suite = ET.parse(tmp_path / value_of(arguments, "--junit")).getroot()[0]
        assert {"cpu-tensors", "cpu-tensors latency median"} <= {case.get("name") for case in suite}
    else:
        entries = json.loads((tmp_path / value_of(arguments, "--action-json")).read_text(encoding="utf-8"))
        assert {entry["unit"] for entry in entries} == {"ms"}


@pytest.mark.process
def test_the_base_is_what_the_pull_request_is_merged_into(tmp_path: Path) -> None:
    """As GitHub does it: a shallow checkout of a commit that merges the branch into its base, in this order."""
    if shutil.which("git") is None:
        lacking("no git")
    (line,) = (step["run"] for _, step in STEPS if step.get("run", "").startswith("git "))
    depth = uses("gate", "actions/checkout")["with"]["fetch-depth"]
    script = f"""
        export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.c GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.c
        git init -q -b main origin && cd origin
        echo old > model && git add model && git commit -q -m one
        git checkout -q -b change && echo new > model && git commit -q -a -m two
        git checkout -q main && echo more > other && git add other && git commit -q -m three
        git merge -q --no-ff -m merged change && cd ..
        git clone -q --depth {depth} "file://$PWD/origin" checkout && cd checkout
        git checkout -q --detach
        {line} > /dev/null 2>&1
        cat model base/model base/other
    """
    done = subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, ["new", "old", "more"]), done.stderr
