"""Completion, as a real bash asks for it, and as zsh and fish do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ortbench.cli import commands
from ortbench.core.eps import installed_eps
from tests.conftest import ROOT, lacking, ortbench_here


def shell(script: str, home: Path, name: str = "bash", *options: str) -> list[str]:
    """What a shell prints, line by line, that has the command `ortbench` of this interpreter."""
    if shutil.which(name) is None:
        lacking(f"{name} is not installed")
    program = home / "bin" / "ortbench"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ortbench "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}
    line = [name, *options, "-c", script]
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# Has bash complete a line as readline does: by the function and the options that `complete` was told.
ASK = """
eval "$(ortbench --show-completion)"
ask() {
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
    _ortbench_completion ortbench "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    echo "${COMPREPLY[*]}"
}
"""
EPS = ["auto", *installed_eps(), "prefer-gpu", "prefer-npu", "prefer-cpu", "max-performance", "max-efficiency",
       "min-overall-power"]  # fmt: skip
ANSWERS = {
    "ask ortbench ''": " ".join(name for name in commands() if " " not in name),
    "ask ortbench run m.onnx --cpu": "--cpu-mem-arena",
    "ask ortbench m.onnx --cpu": "--cpu-mem-arena",
    "ask ortbench run m.onnx --ep ''": " ".join(EPS),
    "ask ortbench run m.onnx --ep = c": " ".join(ep for ep in EPS if ep.startswith("c")),
    "ask ortbench loop --mode cpu-tensors --mode s": "shared",
    "ask ortbench code m.onnx --mode pipe": "pipelined",
    "ask ortbench load m.onnx --mode p": "",  # a load has no such mode
    "ask ortbench load m.onnx --sessions ''": "shared own process",
    "ask ortbench run m.onnx --device 0 --device 0 --opt-level b": "basic",
    "ask ortbench run models/ti": "",  # of files, which bash then completes by itself: -o default
    "complete -p ortbench": "complete -o default -F _ortbench_completion ortbench",
}


@pytest.mark.wide
def test_bash_completes_commands_options_eps_modes_and_files(tmp_path: Path) -> None:
    assert dict(zip(ANSWERS, shell(ASK + "\n".join(ANSWERS), tmp_path), strict=True)) == ANSWERS


@pytest.mark.parametrize(
    ("shell", "line", "answer"),
    [
        ("zsh", "run m.onnx --mode device-r", '_arguments \'*: :(("device-resident"\n"device-resident-async"))\'\n'),
        ("zsh", "gate --baseline-set int", '"intra-op-threads="\n"inter-op-threads="'),
        ("fish", "ga", "gate\tCheck a model or a stored result in CI:...\n"),
        ("fish", "m.onnx --no-cpu-f", "--no-cpu-fallback\tFail if nodes fall back to the CPU."),
        ("fish", "suite merge --jun", "--junit\t"),
    ],
)
def test_zsh_and_fish_are_answered_with_what_a_word_means(shell: str, line: str, answer: str) -> None:
    """Their scripts ask so, by Typer's own protocol."""
    ran = ortbench_here(
        _ORTBENCH_COMPLETE=f"complete_{shell}",
        _TYPER_COMPLETE_ARGS=f"ortbench {line}",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    assert answer in ran.out
    assert "suite merge" not in ran.out  # two words are no command to complete


def test_a_shell_that_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("tcsh", "/bin/tcsh"))
    for option in ("--install-completion", "--show-completion"):
        ran = ortbench_here(option)
        assert (ran.code, ran.out) == (2, "")
        assert ran.error_line == f"{option}: is for bash, zsh, fish, and this is tcsh; run it in one of them"


def test_eps_are_found_by_the_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime" / "capi").mkdir(parents=True)
    (tmp_path / "onnxruntime" / "capi" / "libonnxruntime_providers_cuda.so").touch()
    for name in ("ep_webgpu", "ep_webgpu-0.4.0.dist-info", "qnn", "own"):
        (tmp_path / f"onnxruntime_{name}").mkdir()
        (tmp_path / f"onnxruntime_{name}" / "__init__.py").write_text("def get_library_path(): ...\n")
    assert installed_eps((str(tmp_path),)) == ["cpu", "cuda", "webgpu", "onnxruntime-own", "qnn"]
    assert installed_eps((str(tmp_path / "nowhere"),)) == ["cpu"]
