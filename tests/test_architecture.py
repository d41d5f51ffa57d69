"""Which room may know which, and what quick commands never load."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "ortbench"
# Each room knows those before it, but the worker and the parent's side of a measurement know facts and conclusions alone.
ROOMS = ("root", "analysis", "worker", "measure", "gate", "suite", "report", "jobs", "cli", "api")
KNOWS = {room: set(ROOMS[: number + 1]) - {"worker", "measure"} for number, room in enumerate(ROOMS)}
KNOWS["worker"], KNOWS["measure"] = {"root", "analysis", "worker"}, {"root", "analysis", "measure"}
KNOWS["jobs"] |= {"measure"}
KNOWS["api"] -= {"cli"}  # two faces of the same
# The worker is started before the command line is loaded; the package offers what `api` has, and loads it when it is used.
EXCEPTIONS = {("__main__.py", "ortbench.measure.process"), ("__main__.py", "ortbench")}
EXCEPTIONS |= {("__init__.py", f"ortbench.api.{module}") for module in ("commands", "results", "running")}
# The only rooms that load a library, whenever they do.
HOME = {
    "onnxruntime": ("worker",),
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


def imports(path: Path) -> set[tuple[str, str]]:
    """Module and name of everything that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {(node.module, alias.name) for alias in node.names}
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_know_only_what_is_below_them(path: Path) -> None:
    place = path.relative_to(PACKAGE)
    room = room_of(place.parts[:-1])
    for module, name in imports(path):
        library, *inner = module.split(".")
        if library == "ortbench" and (str(place), module) not in EXCEPTIONS:
            known = room_of((*inner, name))
            assert known in KNOWS[room], f"{place} imports {module}.{name}"
        if library in HOME and room != "worker":
            assert str(place).startswith(HOME[library]), f"{place} imports {module}"


def test_every_folder_is_a_room() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(ROOMS) - {"root"}


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["suite", "--help"],
        ["bandwidth", "--help"],
        ["--version"],
        ["run", "nowhere.onnx"],
        ["bandwidth", "--min-size", "none"],
        ["explain", "fence"],
    ],
)
def test_quick_commands_load_nothing_heavy(arguments: list[str]) -> None:
    heavy = {"onnxruntime", "onnx", "pandas", "rich.table", "numpy", "scipy", "matplotlib", "jinja2", "pydantic"}
    assert loaded(heavy, arguments) == "[]"


@pytest.mark.process
def test_nothing_that_can_be_loaded_later_delays_the_start_of_a_worker() -> None:
    heavy = {"dataclasses", "inspect", "typer", "ortbench.plan", "ortbench.cli"}
    assert loaded_after("import ortbench.measure.process", heavy) == "[]"


@pytest.mark.process
def test_what_figures_need_is_loaded_while_the_model_is() -> None:
    """Until the worker has its request nothing of it can begin."""
    heavy = {"numpy", "scipy", "pandas", "rich", "pydantic", "psutil"}
    assert loaded_after("import ortbench.cli.run, ortbench.jobs.run, ortbench.measure.bench", heavy) == "[]"


@pytest.mark.process
def test_a_worker_loads_only_what_most_runs_need() -> None:
    seldom = {"ortbench.schema", "ortbench.answers", "ortbench.result", "ortbench.worker.looks", "onnx", "pandas"}
    assert loaded_after("from ortbench.worker import blocks, opening, preparing", seldom) == "[]"


def loaded(modules: set[str], arguments: list[str]) -> str:
    """Which of some modules a command has loaded at its end."""
    return loaded_after(
        "from ortbench.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass", modules, arguments
    )


def loaded_after(statements: str, modules: set[str], arguments: Sequence[str] = ()) -> str:
    """Which of some modules Python has loaded after some statements."""
    code = f"import sys\n{statements}\nprint(sorted({modules} & sys.modules.keys()), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()[-1]


REPORT = str(ROOT / "reports" / "copy_bound-refdevice")
FILES_ONLY = [
    ["compare", REPORT, REPORT],
    ["gate", REPORT, "--max-cpu-nodes", "0"],
    ["report", REPORT, "--html", "-"],
    ["history", REPORT],
]


@pytest.mark.process
@pytest.mark.parametrize("arguments", FILES_ONLY, ids=lambda arguments: arguments[0])
def test_commands_that_read_files_never_load_onnxruntime(arguments: list[str]) -> None:
    assert loaded({"onnxruntime", "onnx", "pandas", "pydantic"}, arguments) == "[]"
