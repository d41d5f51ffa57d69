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
from ortbench.model.modes import LOOP_MODES, MODES
from tests.conftest import ROOT, Ran, lacking, ortbench, ortbench_here
from tests.test_architecture import loaded_after

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the command `ortbench` of this interpreter, to be put into the path."""
    folder = tmp_path_factory.mktemp("bin")
    file = folder / "ortbench"
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ortbench "$@"\n')
    file.chmod(0o755)
    return folder


def with_path(program: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{program}{os.pathsep}{os.environ['PATH']}", **more}


def shell(script: str, program: Path, home: Path, name: str = "bash", *options: str) -> list[str]:
    """What a shell prints, line by line."""
    if shutil.which(name) is None:
        lacking(f"{name} is not installed")
    done = subprocess.run(
        [name, *options, "-c", script],
        cwd=ROOT, env=with_path(program, HOME=str(home)), capture_output=True, text=True, timeout=600,
    )  # fmt: skip
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


@pytest.mark.wide
def test_bash_completes_commands_options_eps_modes_and_files(program: Path, tmp_path: Path) -> None:
    lines = [
        "ask ortbench ''",
        "ask ortbench run m.onnx --cpu",
        "ask ortbench m.onnx --cpu",
        "ask ortbench run m.onnx --ep ''",
        "ask ortbench run m.onnx --ep = c",
        "ask ortbench loop --mode cpu-tensors --mode s",
        "ask ortbench code m.onnx --mode pipe",
        "ask ortbench load m.onnx --mode p",
        "ask ortbench load m.onnx --sessions ''",
        "ask ortbench run m.onnx --device 0 --device 0 --opt-level b",
        "ask ortbench run models/ti",
        "complete -p ortbench",
    ]
    found = shell(ASK + "\n".join(lines), program, tmp_path)
    eps = ["auto", *installed_eps(), "prefer-gpu", "prefer-npu", "prefer-cpu", "max-performance", "max-efficiency",
           "min-overall-power"]  # fmt: skip
    assert found == [
        " ".join(name for name in commands() if " " not in name),
        "--cpu-mem-arena",
        "--cpu-mem-arena",
        " ".join(eps),
        " ".join(ep for ep in eps if ep.startswith("c")),
        "shared",
        "pipelined",
        "",  # a load has no such mode
        "shared own process",
        "basic",
        "",  # of files, which bash then completes by itself: -o default
        "complete -o default -F _ortbench_completion ortbench",
    ]
    assert {"cpu", "cuda"} <= {*eps} or not sys.platform.startswith("linux")
    assert "shared" in LOOP_MODES
    assert "pipelined" in MODES


@pytest.mark.wide
def test_what_is_installed_for_bash_begins_with_the_next_one(program: Path, tmp_path: Path) -> None:
    place = tmp_path / ".bash_completions" / "ortbench.sh"
    said = f"Completion for bash is in {place}; it begins with the next bash that is started."
    # A shell that ends with a command runs it in its own place.
    assert shell("ortbench --install-completion; true", program, tmp_path) == [said]
    assert f"source '{place}'" in (tmp_path / ".bashrc").read_text().splitlines()
    told = shell("complete -p ortbench", program, tmp_path, "bash", "--rcfile", str(tmp_path / ".bashrc"), "-i")
    assert told == ["complete -o default -F _ortbench_completion ortbench"]


@pytest.mark.wide
@pytest.mark.parametrize("name", ["zsh", "fish"])
def test_zsh_and_fish_take_the_script(name: str, program: Path, tmp_path: Path) -> None:
    asked = {
        "zsh": 'autoload -Uz compinit; compinit -u; eval "$(ortbench --show-completion)"; whence _ortbench_completion',
        "fish": 'ortbench --show-completion | source; complete --do-complete "ortbench ru"',
    }
    (line,) = shell(asked[name], program, tmp_path, name)
    assert line.startswith({"zsh": "_ortbench_completion", "fish": "run"}[name])


def test_zsh_and_fish_are_answered_with_what_a_word_means() -> None:
    """Their scripts ask so, by Typer's own protocol."""
    modes = ortbench(_ORTBENCH_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="ortbench run m.onnx --mode device-r")
    assert modes.out == '_arguments \'*: :(("device-resident"\n"device-resident-async"))\'\n'
    files = ortbench(_ORTBENCH_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="ortbench models/")
    assert files.out == "_files\n"
    commands = fish("ortbench ga")
    assert commands.out == "gate\tCheck a model or a stored result in CI:...\n"
    options = fish("ortbench m.onnx --no-cpu-f")
    assert options.out.startswith("--no-cpu-fallback\tFail if nodes fall back to the CPU.")
    assert fish("ortbench suite merge --jun").out.startswith("--junit\t")
    assert "suite merge" not in fish("ortbench suit").out
    baselines = ortbench(_ORTBENCH_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="ortbench gate --baseline-set int")
    assert '"intra-op-threads="\n"inter-op-threads="' in baselines.out


def fish(line: str) -> Ran:
    return ortbench(
        _ORTBENCH_COMPLETE="complete_fish", _TYPER_COMPLETE_FISH_ACTION="get-args", _TYPER_COMPLETE_ARGS=line
    )


def test_a_shell_that_is_not_known_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("tcsh", "/bin/tcsh"))
    for option in ("--install-completion", "--show-completion"):
        ran = ortbench_here(option)
        assert (ran.code, ran.out) == (2, "")
        assert ran.error_line == f"{option}: is for bash, zsh, fish, and this is tcsh; run it in one of them"


def test_eps_are_found_by_the_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "onnxruntime" / "capi").mkdir(parents=True)
    (tmp_path / "onnxruntime" / "capi" / "libonnxruntime_providers_cuda.so").touch()
    for name in (
        "onnxruntime_ep_webgpu",
        "onnxruntime_ep_webgpu-0.4.0.dist-info",
        "onnxruntime_qnn",
        "onnxruntime_own",
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("def get_library_path(): ...\n")
    assert installed_eps((str(tmp_path),)) == ["cpu", "cuda", "webgpu", "onnxruntime-own", "qnn"]
    assert installed_eps((str(tmp_path / "nowhere"),)) == ["cpu"]


def test_no_tab_waits_for_onnxruntime_or_for_commands_that_were_not_typed() -> None:
    heavy = {"onnxruntime", "onnx", "pandas", "numpy", "rich.table", "ortbench.features.suite.cli"}
    asked = (
        "import os, sys\nos.environ.update(_ORTBENCH_COMPLETE='complete_bash', COMP_WORDS='ortbench\\nrun\\n--ep\\n', "
        "COMP_CWORD='3')\nfrom ortbench.cli.program import main\ntry:\n    main([])\nexcept SystemExit:\n    pass"
    )
    assert loaded_after(asked, heavy) == "[]"
