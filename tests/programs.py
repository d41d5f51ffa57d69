"""Programs of `ortbench code` for many modes, and what became of running them in a process that has no ortbench (`run_programs`)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import ROOT, ortbench
from tests.environments import Environment, plain

_SAID = re.compile(r"^(.*)\.py: ([\w-]+): median ([\d.]+) µs .*; outputs are those of (?:a )?plain (?:run|runs|loop)$")


def written(
    folder: Path, *arguments: object, modes: Sequence[str], prefix: Sequence[str] = (), **environment: str
) -> dict[str, str]:
    """Write the programs of some modes; for each that has none, why."""
    folder.mkdir(exist_ok=True)
    refused = {}
    for mode in modes:
        ran = ortbench("code", *arguments, "--mode", mode, "--out", folder / f"{mode}.py", prefix=prefix, **environment)
        if ran.code != 0:
            refused[mode] = ran.err
    return refused


def run_all(
    folder: Path, environment: Environment | None = None, prefix: Sequence[str] = (), **variables: str
) -> dict[str, tuple[str, float]]:
    """Run all programs of a folder one after the other, without ortbench, in an environment or in a fork, by the clock of the test:
    by their names what each said was its mode, and its median, µs. A program that fails, as one whose outputs differ, fails here too."""
    files = sorted(map(str, folder.glob("*.py")))
    if environment is None:
        ran = ortbench(*files, **variables, ORTBENCH_TESTS_MAIN="tests.run_programs:main_of_a_fork")
        code, out, err = ran.code, ran.out, ran.err
    else:
        words = [*prefix, str(environment.python), str(ROOT / "tests" / "run_programs.py"), *files]
        everything = {**plain(), **variables}
        done = subprocess.run(words, cwd=ROOT, env=everything, capture_output=True, text=True, encoding="utf-8")
        code, out, err = done.returncode, done.stdout, done.stderr
    assert code == 0, err  # where onnxruntime itself may warn of what it finds in /sys
    found = [_SAID.match(line) for line in out.splitlines()]
    assert all(found), out
    return {it[1]: (it[2], float(it[3])) for it in found if it is not None}
