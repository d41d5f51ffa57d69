"""Programs of `ortbench code` for many modes, with one worker for all of them, and what became of running them.

``python -m tests.programs FOLDER ARGUMENT…`` writes the program of every ``--mode`` that the EP and the model can do into a
folder, as ``ortbench code ARGUMENT… --mode MODE --out FILE`` does, but in one process that opens the model once, and prints
as JSON why others are not there. ``run_programs`` runs all programs of a folder, in a process that has no ortbench.
"""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests import installed, virtual  # noqa: F401 - before anything of ortbench is

# isort: split
from ortbench.core.errors import OrtbenchError, from_data
from ortbench.features.code import job as code
from ortbench.plan.plan import Plan
from ortbench.worker import Worker
from tests.conftest import ROOT, ortbench, ortbench_here
from tests.environments import Environment, plain

_SAID = re.compile(r"^(.*)\.py: ([\w-]+): median ([\d.]+) µs .*; outputs are those of (?:a )?plain (?:run|runs|loop)$")


class Here:
    """A worker in this process, which is asked as one of its own is."""

    def __init__(self, worker: Worker, opened: Any) -> None:
        self._worker, self._opened = worker, opened

    def receive(self) -> Any:
        """What it said when the model was opened."""
        return self._opened

    def ask(self, do: str, **arguments: Any) -> Any:
        """Its answer, with lists where JSON has them."""
        answer = json.loads(json.dumps(self._worker.answer({"do": do, **arguments})))
        if "ok" in answer:
            return answer["ok"]
        raise from_data(answer)


def write_all(folder: Path, arguments: Sequence[str], modes: Sequence[str]) -> dict[str, str]:
    """Write programs; gives for each mode that has none, why."""
    worker, opened = Worker(), None
    refused: dict[str, str] = {}

    @contextlib.contextmanager
    def open_worker(plan: Plan) -> Iterator[Here]:
        nonlocal opened
        here = Here(worker, opened)
        if opened is None:
            opened = here.ask(plan.part.opened_by, **json.loads(json.dumps(plan.worker_request())))
        yield Here(worker, opened)

    code.open_worker = open_worker  # type: ignore[assignment, attr-defined]
    for mode in modes:
        plan = _plan([*arguments, "--mode", mode])
        try:
            with contextlib.redirect_stdout(sys.stderr):
                code.write_code(plan, str(folder / f"{mode}.py"), str(folder / f"{mode}.ipynb"))
        except OrtbenchError as error:
            refused[mode] = str(error)
    return refused


def _plan(typed: list[str]) -> Plan:
    """The plan that the command makes of what was typed."""
    plans: list[Plan] = []

    def note(plan: Plan, *_: object) -> int:
        plans.append(plan)
        return 0

    with patch.object(code, "write_code", note):
        ran = ortbench_here("code", *typed)
    assert plans, ran.err
    return plans[0]


def written(
    folder: Path, *arguments: object, modes: Sequence[str], prefix: Sequence[str] = (), **environment: str
) -> dict[str, str]:
    """Have the programs of some modes written by a process of their own; for each that has none, why."""
    folder.mkdir(exist_ok=True)
    words = [str(folder), ",".join(modes), *map(str, arguments)]
    if prefix:
        words = [*prefix, sys.executable, "-m", __name__, *words]
        done = subprocess.run(words, cwd=ROOT, env={**plain(), **environment}, capture_output=True, text=True)
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        ran = ortbench(*words, **environment, ORTBENCH_TESTS_MAIN=f"{__name__}:main_of_a_fork")
        code, out, err = ran.code, ran.out, ran.err
    assert code == 0, err  # where onnxruntime itself may warn of what it finds in /sys
    refused: dict[str, str] = json.loads(out)
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
        done = subprocess.run(
            words, cwd=ROOT, env={**plain(), **variables}, capture_output=True, text=True, encoding="utf-8"
        )
        code, out, err = done.returncode, done.stdout, done.stderr
    assert code == 0, err  # where onnxruntime itself may warn of what it finds in /sys
    found = [_SAID.match(line) for line in out.splitlines()]
    assert all(found), out
    return {it[1]: (it[2], float(it[3])) for it in found if it is not None}


def main() -> None:
    print(json.dumps(write_all(Path(sys.argv[1]), sys.argv[3:], sys.argv[2].split(","))))


def main_of_a_fork() -> None:
    """The same by the clock of a test."""
    virtual.attach(works=True)
    main()


if __name__ == "__main__":
    main()
