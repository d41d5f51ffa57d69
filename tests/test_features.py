"""Features can be deleted: in a copy of the installed package each folder goes in turn, with those that need it, and all else works."""

from __future__ import annotations

import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import ortbench
from ortbench.core.features import features, part_of
from ortbench.model.kinds import kinds
from ortbench.plan.options import options_of
from tests.conftest import MODELS, ROOT

pytestmark = pytest.mark.process
OTHERS = ("run", "compare", "gate")  # commands that features add options to
STORED = ROOT / "reports" / "copy_bound-refdevice"


def stored_of(kind: str) -> Path:
    """A result of a kind among those that are kept."""
    files = sorted((ROOT / "reports").glob("**/*.json"))
    return next(it for it in files if f'"kind": "{kind}"' in it.read_text(encoding="utf-8")[:1_000_000])


def needing(name: str) -> set[str]:
    """A feature, and all that need it."""
    found = {name}
    while more := {other for other, it in features().items() if found & {*it.needs}} - found:
        found |= more
    return found


def test_features_need_others_that_are_there_and_not_in_a_circle() -> None:
    needs = {name: it.needs for name, it in features().items()}
    assert {other for others in needs.values() for other in others} <= needs.keys()
    TopologicalSorter(needs).prepare()


@pytest.mark.wide
@pytest.mark.parametrize("name", features())
def test_a_feature_can_be_deleted(name: str, tmp_path: Path) -> None:
    package = tmp_path / "site" / "ortbench"
    shutil.copytree(Path(ortbench.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    gone = needing(name)
    for it in gone:
        shutil.rmtree(package / "features" / it)

    def ortbench_without(*words: object) -> subprocess.CompletedProcess[str]:
        code = f"import sys; sys.path.insert(0, {str(package.parent)!r}); from ortbench.__main__ import main; main()"
        line = [sys.executable, "-c", code, *map(str, words)]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)

    commands = {command for it in gone for command in features()[it].commands}
    help_text = ortbench_without("--help").stdout
    assert {line.split("  ")[1] for line in help_text.splitlines() if line.startswith("  ")} & commands == set()
    for command in commands:
        ran = ortbench_without(command, "--help")
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran
    for kind in gone & kinds().keys():
        ran = ortbench_without("report", stored_of(kind))
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran
    ran = ortbench_without("run", MODELS / "tiny.onnx", "--ep", "cpu", "--iterations", 1, "--out", tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    (result,) = (tmp_path / "out").glob("*/result.json")
    for line in (("compare", STORED, STORED), ("report", result)):
        ran = ortbench_without(*line)
        assert (ran.returncode, ran.stderr) == (0, ""), ran
        assert ran.stdout
    others = {*OTHERS} - commands
    help_text = "".join(ortbench_without(command, "--help-all").stdout for command in others)
    tables = ((it, owner, of) for it in gone for owner, of in features()[it].options.items())
    owners = (part_of(it, "plan", owner) for it, owner, of in tables if {*of} & others)
    flags = {option for it in gone for option in (*features()[it].writers, *features()[it].passes)}
    flags |= {it.flag for it in options_of(*owners) if any(map(it.is_taken_by, OTHERS))}
    assert {flag for flag in flags if f"--{flag} " in help_text} == set()
    for option in (option for it in gone for option in features()[it].writers):
        ran = ortbench_without("report", STORED, f"--{option}", tmp_path / "file")
        assert (ran.returncode, ran.stderr.count("\n")) == (2, 1), ran
