"""Which room may know which, and what quick commands never load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from typing import cast

import pytest

from tests.conftest import ROOT
from tests.sources import PACKAGE, nodes

# Each room knows those before it, but the worker and the parent's side of a measurement know facts and conclusions alone.
ROOMS = ("root", "model", "analysis", "worker", "measure", "gate", "suite", "report", "jobs", "cli", "api")
KNOWS = {room: set(ROOMS[: number + 1]) - {"worker", "measure"} for number, room in enumerate(ROOMS)}
KNOWS["worker"], KNOWS["measure"] = {"root", "model", "analysis", "worker"}, {"root", "model", "analysis", "measure"}
KNOWS["root"] |= {"model"}  # whose options and plans, which are rooms of their own later, know the model
KNOWS["jobs"] |= {"measure"}
KNOWS["api"] -= {"cli"}  # two faces of the same
# The worker is started before the command line is loaded; the package offers what `api` has, and loads it when it is used.
EXCEPTIONS = {("__main__.py", "ortbench.measure.process"), ("__main__.py", "ortbench")}
EXCEPTIONS |= {("__init__.py", f"ortbench.api.{module}") for module in ("commands", "results", "running")}
# The only rooms that load a library, whenever they do.
HOME = {
    "onnxruntime": ("worker",),
    "msgspec": ("model",),
    "typer": ("cli",),
    "rich": ("report/terminal",),
    "pandas": ("report", "api/results.py"),  # which names the types of what it gives
    "junitparser": ("report/exports",),
    "matplotlib": ("report/page", "api/results.py"),
    "jinja2": ("report/page", "report/programs"),
    "scipy": ("analysis",),
    "pytest": ("api/pytest_plugin.py",),
    "ray": ("jobs/cluster/rays.py",),
}


def room_of(parts: tuple[str, ...]) -> str:
    return parts[0] if parts and parts[0] in ROOMS else "root"


def imports(tree: list[ast.AST]) -> set[tuple[str, str]]:
    """Module and name of everything that a file imports, wherever in it."""
    found = set()
    for node in tree:
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {(node.module, alias.name) for alias in node.names}
    return found


def test_rooms_know_only_what_is_below_them() -> None:
    wrong = []
    for place, tree in nodes().items():
        room = room_of(place.parts[:-1])
        for module, name in imports(tree):
            library, *inner = module.split(".")
            own = library == "ortbench" and (str(place), module) not in EXCEPTIONS
            elsewhere = library in HOME and room != "worker" and not str(place).startswith(HOME[library])
            if elsewhere or (own and room_of((*inner, name)) not in KNOWS[room]):
                wrong.append(f"{place} imports {module}.{name}")
    assert wrong == []


def test_every_folder_is_a_room() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(ROOMS) - {"root"}


@pytest.mark.process
def test_quick_commands_load_nothing_heavy() -> None:
    heavy = {"onnxruntime", "onnx", "pandas", "rich.table", "numpy", "scipy", "matplotlib", "jinja2", "pydantic"}
    heavy |= {"msgspec", "ortbench.model.result"}
    quick = [["--help"], ["run", "--help"], ["suite", "--help"], ["bandwidth", "--help"], ["--version"]]
    quick += [["run", "nowhere.onnx"], ["bandwidth", "--min-size", "none"], ["explain", "fence"]]
    assert loaded_by_commands(quick, heavy) == dict.fromkeys(map(" ".join, quick), "")


@pytest.mark.process
def test_commands_that_read_files_never_load_onnxruntime() -> None:
    report = str(ROOT / "reports" / "copy_bound-refdevice")
    reading = [["compare", report, report], ["gate", report, "--max-cpu-nodes", "0"], ["history", report]]
    reading += [["report", report, "--html", "-"]]
    heavy = {"onnxruntime", "onnx", "pandas", "pydantic"}
    assert loaded_by_commands(reading, heavy) == dict.fromkeys(map(" ".join, reading), "")


@pytest.mark.process
def test_workers_load_only_what_most_runs_need_and_nothing_delays_their_start() -> None:
    heavy = {"dataclasses", "inspect", "typer", "ortbench.plan.plan", "ortbench.cli"}
    assert loaded_after("import ortbench.measure.process", heavy) == "[]"
    seldom = {
        "msgspec",
        "ortbench.model.schema",
        "ortbench.model.protocol",
        "ortbench.model.result",
        "ortbench.worker.looks",
        "onnx",
        "pandas",
    }
    assert loaded_after("from ortbench.worker import blocks, opening, preparing", seldom) == "[]"
    # What figures need is loaded while the model is: until the worker has its request nothing of it can begin.
    heavy = {"numpy", "scipy", "pandas", "rich", "pydantic", "psutil"}
    assert loaded_after("import ortbench.cli.run, ortbench.jobs.run, ortbench.measure.bench", heavy) == "[]"


def loaded_by_commands(commands: list[list[str]], modules: set[str]) -> dict[str, str]:
    """Which of some modules are loaded at the end of each command, of which one process carries out one after the other."""
    statements = f"""from ortbench.cli import app, main
own, found = [*app.registered_commands], {{}}
for arguments in {commands}:
    sys.argv, app.registered_commands = ["ortbench", *arguments], [*own]
    try:
        main()
    except SystemExit:
        pass
    found[" ".join(arguments)] = ", ".join(sorted({modules} & sys.modules.keys()))
print(found, file=sys.stderr)"""
    return cast(dict[str, str], ast.literal_eval(stderr_after(statements)[-1]))


def loaded_after(statements: str, modules: set[str], arguments: Sequence[str] = ()) -> str:
    """Which of some modules Python has loaded after some statements."""
    return stderr_after(f"{statements}\nprint(sorted({modules} & sys.modules.keys()), file=sys.stderr)", arguments)[-1]


def stderr_after(statements: str, arguments: Sequence[str] = ()) -> list[str]:
    """What a process writes to stderr that loads nothing by itself: without site, as its .pth files may load anything."""
    code = f"import sys\nsys.path[:] = {sys.path}\n{statements}"
    line = [sys.executable, "-S", "-c", code, *arguments]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stderr.splitlines()
