"""Features can be deleted: in a copy of the installed package each folder goes in turn, with those that need it, and all else works."""

from __future__ import annotations

import json
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
from ortbench.plan.plan import PLAN
from tests.conftest import MODELS, ONCE, ROOT

pytestmark = pytest.mark.process
OTHERS = ("run", "compare", "gate")  # commands that features add options to
STORED = str(ROOT / "reports" / "copy_bound-refdevice")


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


# Carries out commands one after the other, and prints the exit code and both texts of each.
COMMANDS = """import contextlib, io, json, sys
from ortbench.cli.program import app, main
own, found = [*app.registered_commands], []
for words in json.loads(sys.argv[1]):
    sys.argv, app.registered_commands = ["ortbench", *words], [*own]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            found.append((end.code, out.buffer.getvalue().decode(), err.buffer.getvalue().decode()))
print(json.dumps(found))
"""


@pytest.mark.wide
@pytest.mark.parametrize("name", features())
def test_a_feature_can_be_deleted(name: str, tmp_path: Path) -> None:
    site, gone = tmp_path / "site", needing(name)
    shutil.copytree(Path(ortbench.__file__).parent, site / "ortbench", ignore=shutil.ignore_patterns("__pycache__"))
    for it in gone:
        shutil.rmtree(site / "ortbench" / "features" / it)

    def carried_out(lines: list[list[str]]) -> list[tuple[int, str, str]]:
        code = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{COMMANDS}", json.dumps(lines)]
        done = subprocess.run(code, cwd=tmp_path, capture_output=True, text=True, check=True)
        return [(code, out, err) for code, out, err in json.loads(done.stdout)]

    commands = {command for it in gone for command in features()[it].commands}
    writers = [option for it in gone for option in features()[it].writers]
    refused = [[command, "--help"] for command in commands]
    refused += [["report", str(stored_of(kind))] for kind in gone & kinds().keys()]
    refused += [["report", STORED, f"--{option}", str(tmp_path / "file")] for option in writers]
    for words, (code, _, err) in zip(refused, carried_out(refused), strict=True):
        assert (code, err.count("\n")) == (2, 1), (words, err)
    run = ["run", str(MODELS / "tiny.onnx"), "--ep", "cpu", *map(str, ONCE), "--out", "out", "--name", "r", "--quiet"]
    others = [[command, "--help-all"] for command in {*OTHERS} - commands]
    works = [["--help"], ["compare", STORED, STORED], run, ["report", "out/r"], *others]
    answers = carried_out(works)
    for words, (code, out, err) in zip(works, answers, strict=True):
        assert (code, err) == (0, ""), words
        assert out or words is run
    listed = {line.split("  ")[1] for line in answers[0][1].splitlines() if line.startswith("  ")}
    assert listed & commands == set()
    help_text = "".join(out for _, out, _ in answers[4:])
    tables = ((it, owner, of) for it in gone for owner, of in features()[it].options.items())
    owners = (part_of(it, "plan", owner) for it, owner, of in tables if {*of} & {*OTHERS} - commands)
    flags = {*writers, *(option for it in gone for option in features()[it].passes)}
    flags |= {it.flag for it in options_of(*owners) if any(map(it.is_taken_by, OTHERS))}
    flags -= {it.flag for it in options_of(*PLAN)}  # the core's own, such as --rate of a run
    assert {flag for flag in flags if f"--{flag} " in help_text} == set()
