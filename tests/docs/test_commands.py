"""Every command of the README and of docs/ runs, and what CI runs is what they say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ortbench import cli
from ortbench.core import errors
from ortbench.core.features import GROUPS
from tests.conftest import ONCE, ROOT, ortbench

pytestmark = pytest.mark.process


def blocks(language: str, text: str) -> list[str]:
    """What stands in the fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = README + "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md")))
# Each line once, in the order of the pages, a command that goes on after a backslash as one.
LINES = list(dict.fromkeys("".join(blocks("sh", PAGES)).replace("\\\n", " ").splitlines()))
COMMANDS = [line for line in LINES if line.startswith("ortbench ") and "$" not in line]
IN_README = "".join(blocks("sh", README)).replace("\\\n", " ").splitlines()
ON_SOFTWARE_GPU = [line for line in LINES if line.startswith("tests/software-gpu ")]
# How the library of each device is built, and how it is used.
ON_DEVICES = {
    device: [line for line in LINES if line.startswith(f"{device}=$(python -m ") or f'"${device}"' in line]
    for device in ("library", "cuda")
}
# The two lines that set everything up, and what is checked after them; CI runs them all.
SET_UP = [line for line in LINES if " .venv/bin/activate " in line]
CHECKS = [line for line in LINES if re.match(r"(ruff|mypy|pytest)\b", line)]
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
# EPs that a machine may lack: then the error must say what to install or what is missing.
UNAVAILABLE = re.compile(r"is not installed; install it with|does not load: .* is missing|finds no device it can use")

# Where a gate holds one environment against another and there is no other, it is this one.
OTHER_PYTHON = os.environ.get("ORTBENCH_TESTS_OTHER_PYTHON", sys.executable)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place where the pages' relative paths hold and reports do no harm, with the suite file that they show, the base
    of a pull request and other environments; copy_bound, whose images of 25 MB take long, is tiny here."""
    tmp_path = tmp_path_factory.mktemp("original")
    shutil.copytree(ROOT / "models", tmp_path / "models", ignore=shutil.ignore_patterns("*.py"))
    for file in (ROOT / "models").glob("tiny.*"):
        shutil.copyfile(file, tmp_path / "models" / file.name.replace("tiny", "copy_bound"))
    shutil.copytree(ROOT / "reports", tmp_path / "reports")
    shutil.copytree(tmp_path / "models", tmp_path / "base" / "models")
    (tmp_path / "recorded").mkdir()
    for day in ("monday", "tuesday"):
        shutil.copy(tmp_path / "models" / "transformer_ids.inputs.npz", tmp_path / "recorded" / f"{day}.npz")
    for environment in ("other", "base/env"):
        python = tmp_path / environment / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(OTHER_PYTHON)} "$@"\n')
        python.chmod(0o755)
    code = "onnxruntime.InferenceSession('models/tiny.onnx', providers=['CPUExecutionProvider'])"
    app = f"import numpy, onnxruntime\nprint({code}.run(None, {{'x': numpy.ones(16, numpy.float32)}}))\n"
    (tmp_path / "app.py").write_text(app)
    (suite,) = (block for block in blocks("toml", PAGES) if "[[bench]]" in block)
    assert "\nduration = 1\n" in suite
    (tmp_path / "bench.toml").write_text(suite.replace("\nduration = 1\n", "\niterations = 1\nwarmup = 1\n"))
    return tmp_path


@pytest.fixture
def checkout(original: Path, tmp_path: Path) -> Path:
    """It for one test: commands put new files in the place of others, and change none."""
    return Path(shutil.copytree(original, tmp_path / "checkout", copy_function=os.link))


_BY_FIGURES = {"--max-regression", "--max-growth"}  # limits of which a short measurement may not tell
# How long a command measures here, in place of what it says.
_SHORT = {
    "run": "--iterations 1 --warmup 1", "loop": "--iterations 1 --warmup 1", "sweep": "--iterations 1 --warmup 1",
    "profile": "--iterations 3 --warmup 1", "start": "--iterations 1", "bandwidth": "--iterations 1", "soak": "--iterations 20",
    "load": "--duration 0.05 --warmup 1", "gate": "--duration 0.3 --warmup 1", "tune": "--max-time 3s --duration 0.1",
}  # fmt: skip


def without(arguments: list[str], option: str) -> list[str]:
    """Arguments without an option and its value."""
    at = arguments.index(option) if option in arguments else len(arguments)
    return [*arguments[:at], *arguments[at + 2 :]]


def quick(arguments: list[str]) -> list[str]:
    """The same command, measuring for a short time; no noise makes a gate fail that allows ten times as long."""
    command, is_stored = arguments[0], arguments[0] == "gate" and arguments[1] not in ("--model", "--chain")
    if any(word.startswith("--baseline-") for word in arguments):
        arguments = [*without(arguments, "--max-regression"), "--max-regression", "900%"]
    short = "" if is_stored else _SHORT.get(command, "")
    if command in ("run", "loop", "sweep") and "--duration" in arguments:
        short = "--duration 0.3 --warmup 1"
    for option in ("--iterations", "--duration", "--max-time", "--warmup"):
        arguments = without(arguments, option) if short else arguments
    return [*arguments, *short.split()]


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=() if line in IN_README else pytest.mark.wide) for line in COMMANDS]
)
def test_the_commands_run(line: str, checkout: Path) -> None:
    arguments = quick(shlex.split(line)[1:])
    ran = ortbench(*arguments, cwd=checkout)
    if ran.code == errors.BENCHMARK_FAILED and re.search(r"--ep (?!cpu)", line):
        assert UNAVAILABLE.search(ran.error_line), ran.err
    else:
        assert ran.code in {errors.DONE, errors.CANNOT_TELL if _BY_FIGURES & {*arguments} else errors.DONE}, ran
        assert ran.out or "--quiet" in line


def test_the_command_for_machines_without_a_gpu(software_gpu: tuple[str, ...], checkout: Path) -> None:
    (line,) = ON_SOFTWARE_GPU
    prefix, name, *arguments = shlex.split(line)
    assert (prefix, name) == ("tests/software-gpu", "ortbench")
    ran = ortbench(*quick(arguments), cwd=checkout, prefix=software_gpu)
    assert (ran.code, "device-resident" in ran.out) == (0, True), ran.err


def test_every_line_is_one_that_is_tested() -> None:
    tested = [*COMMANDS, *ON_SOFTWARE_GPU, *ON_DEVICES["library"], *ON_DEVICES["cuda"], *SET_UP, *CHECKS]
    assert {line for line in LINES if not line.startswith("jq ")} == set(tested)  # jq: tests/docs/test_result_file.py
    assert len(COMMANDS) >= 20
    assert all(f"```{language}\n" not in PAGES for language in ("bash", "shell", "console", "zsh"))


def test_ci_runs_the_lines_and_the_checks_of_the_pages() -> None:
    patterns = re.findall(r"\(line '([^']+)'", CI)
    lines = [*README.splitlines(), *(ROOT / "docs" / "contributing.md").read_text(encoding="utf-8").splitlines()]
    matched = [next(line for line in lines if re.match(pattern, line)) for pattern in patterns]
    assert matched == SET_UP
    assert [line.rpartition(" && ")[2] for line in matched] == [
        "ortbench run models/copy_bound.onnx", "pytest", "pytest -m wide", "pytest -m timing", "sphinx-build -W -c docs/site . build/site",
    ]  # fmt: skip
    commands = [command.strip() for line in (*CI.splitlines(), *SET_UP) for command in re.split(r"&&|[;()]", line)]
    assert {"ruff check .", "ruff format --check .", "mypy"} <= set(CHECKS) <= set(commands)


def test_every_command_is_in_the_readme() -> None:
    rows = re.findall(r"^\| ([\w ]*?) ?\| `ortbench ([a-z]+(?: [a-z]+)?)\b", README, re.MULTILINE)
    groups: dict[str, list[str]] = {}
    for group, name in rows:
        groups.setdefault(group or list(groups)[-1], []).append(name)
    of_groups = {group.lower(): [name for name, it in cli.commands().items() if it.group == group] for group in GROUPS}
    assert groups == of_groups


def run_the_python_of_the_pages() -> None:
    examples = [code for code in blocks("python", PAGES) if re.search(r"^(import|from) ortbench", code, re.MULTILINE)]
    assert len(examples) >= 2
    for code in examples:
        exec(compile(code, "docs", "exec"), {})


@pytest.mark.wide
@pytest.mark.usefixtures("clock")
def test_the_python_of_the_pages_runs(checkout: Path) -> None:
    assert ortbench("run", "models/tiny.onnx", "--ep", "cpu", *ONCE, cwd=checkout).code == 0
    ran = ortbench(cwd=checkout, ORTBENCH_TESTS_MAIN=f"{__name__}:run_the_python_of_the_pages")
    assert ran.code == 0, ran.err


def test_the_pytest_of_the_pages_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    (tests,), (configuration,) = blocks("py", page), blocks("ini", page)
    for name in ("model.onnx", "base.onnx"):
        shutil.copy(ROOT / "models" / "tiny.onnx", tmp_path / name)
    # With times as short as on the other pages, and an EP that every machine has.
    assert tests.count("duration=2") == 1
    assert tests.count('ep="cuda"') == 1
    tests = tests.replace("duration=2", "duration=0.2").replace('ep="cuda"', 'ep="cpu"').replace("3_000_000", "10**12")
    (tmp_path / "test_page.py").write_text(tests.replace('"5%"', '"900%", duration=0.3, warmup=1'))
    (tmp_path / "pytest.ini").write_text(configuration)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "ortbench"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert re.search(r"test_page.py::test_copies\n  model.onnx on CPUExecutionProvider: ", done.stdout)
