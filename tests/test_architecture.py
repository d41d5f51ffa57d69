"""Which room may know which, and what quick commands never load."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import cast

import pytest

from ortbench.core.features import features
from tests.conftest import ROOT
from tests.sources import PACKAGE, nodes

# Each package knows those before it, but for what is said below.
ROOMS = ("core", "model", "plan", "analysis", "worker", "measure", "facts", "report", "jobs", "cli", "api")
KNOWS = {room: set(ROOMS[: number + 1]) - {"worker", "measure"} for number, room in enumerate(ROOMS)}
KNOWS["analysis"] -= {"plan"}  # conclusions follow from results alone
KNOWS["worker"], KNOWS["measure"] = ({"core", "model", "plan", "analysis", room} for room in ("worker", "measure"))
KNOWS["jobs"] |= {"measure"}
KNOWS["api"] -= {"cli"}  # two faces of the same
KNOWS["api"] |= {"root"}
KNOWS["root"] = {"root"}
# The modules of a feature are called after the room whose law they keep, or after what they contain, as those of `measure`.
LAYERS = {"__init__": "core", "gates": "facts", "job": "jobs", "page": "report", "toml": "plan", "pytest_plugin": "api"}
# The worker is started before the command line is loaded; the package offers what `api` has, and loads it when it is used.
EXCEPTIONS = {("__main__.py", f"ortbench{module}") for module in ("", ".cli", ".core", ".core.processes")}
EXCEPTIONS |= {("__init__.py", f"ortbench.core{module}") for module in ("", ".errors", ".features")}
EXCEPTIONS |= {("__init__.py", f"ortbench.api.{module}") for module in ("calls", "commands", "results")}
# Commands to copy are written in options.
EXCEPTIONS |= {("analysis/advice.py", "ortbench.plan.next_command")}
# The only rooms that load a library, whenever they do.
HOME = {
    "onnxruntime": ("worker",),
    "msgspec": ("model",),
    "typer": ("cli",),
    "rich": tuple(f"report/{it}.py" for it in ("console", "progress", "terminal")),
    "pandas": ("report", "api/results.py", "api/api.py"),  # which names the types of what it gives
    "matplotlib": ("features/page", "api/results.py", "api/api.py"),
    "jinja2": ("features/page", "features/code"),
    "scipy": ("analysis",),
    "pytest": ("api/pytest_plugin.py",),
    "ray": ("features/cluster",),
}
# Longer than 500 lines, for they are declarations and no code, or must be one file, which programs load that have no ortbench.
TABLES = {"model/protocol.py", "model/schema.py", "facts/sentences.py", "features/watch/shim.py"}


def room_of(parts: tuple[str, ...]) -> str:
    return parts[0] if parts and parts[0] in (*ROOMS, "features") else "root"


def layer_of(place: Path) -> str:
    """The room whose law a file keeps: that it is in, or of a feature's that it is called after."""
    if place.parts[0] != "features" or len(place.parts) == 2:
        return room_of(place.parts[:-1])
    own = Path(place.parts[2]).stem  # a module of the feature, or a folder of several of one layer
    layer = LAYERS.get(own, own)
    if layer in ROOMS:
        return layer
    return "worker" if "onnxruntime" in {module for module, _ in imports(nodes()[place])} else "root"


def modules() -> dict[Path, str]:
    """The names of all modules by their files."""
    names = {place: ".".join(("ortbench", *place.with_suffix("").parts)) for place in nodes()}
    return {place: name.removesuffix(".__init__") for place, name in names.items()}


def modules_of(tree: list[ast.AST], known: Collection[str]) -> set[str]:
    """The package's modules that a file imports, wherever in it, for type checkers alone too."""
    return {inner if (inner := f"{module}.{name}") in known else module for module, name in imports(tree)} & {*known}


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
        room = layer_of(place)
        wheres = (f"{room}/{place.name}" if place.parts[0] == "features" else str(place), str(place))
        for module, name in imports(tree):
            library, *inner = module.split(".")
            is_own = library == "ortbench" and (str(place), module) not in EXCEPTIONS
            is_at_home = room == "worker" or any(where.startswith(HOME.get(library, ("",))) for where in wheres)
            if not is_at_home or (is_own and not may_know(place, room, (*inner, name))):
                wrong.append(f"{place} imports {module}.{name}")
    assert wrong == []


def may_know(place: Path, room: str, module: tuple[str, ...]) -> bool:
    """Whether a file may import a module of the package: of a feature its own folder may, and those that need it."""
    if room_of(module) != "features":
        return room_of(module) in KNOWS[room]
    if place.parts[0] != "features":
        return False
    record = features()[place.parts[1]]
    return module[1] in {place.parts[1], *record.needs, *record.uses}


def test_every_folder_is_a_room() -> None:
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == {*ROOMS, "features"}


def test_no_modules_import_each_other_in_a_circle() -> None:
    names = modules()
    graph = {names[place]: modules_of(tree, names.values()) - {names[place]} for place, tree in nodes().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" → ".join(circle.args[1]))


def test_folders_and_modules_can_be_taken_in() -> None:
    folders = Counter(place.parent for place in nodes())
    assert {str(folder): count for folder, count in folders.items() if count > 25} == {}
    lengths = {str(place): len((PACKAGE / place).read_text(encoding="utf-8").splitlines()) for place in nodes()}
    assert {place for place, lines in lengths.items() if lines > 500} <= TABLES


REPORT = "reports/copy_bound-refdevice"
RUN = "run models/tiny.onnx --ep cpu --iterations 1"
HEAVY = "onnxruntime onnx pandas rich.table numpy scipy matplotlib jinja2 pydantic msgspec"
# What commands never load.
COMMANDS = {
    "quick": (
        ["--help", "run --help", "suite --help", "bandwidth --help", "--version", "run nowhere.onnx", "bandwidth --min-size none"],
        f"{HEAVY} ortbench.model.result",
    ),
    "explain": (["explain sync", "explain --more sync"], HEAVY),  # which have the sentences of facts
    "run": (
        [f"{RUN} --quiet --out OUT"],
        "msgspec onnxruntime pandas scipy matplotlib ortbench.features.load.measure.schedule ortbench.features.load.analysis.samples",
    ),
    "readers": (
        [f"compare {REPORT} {REPORT}", f"gate {REPORT} --max-cpu-nodes 0", f"report {REPORT} --html -"],
        "onnxruntime onnx pandas pydantic",
    ),
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize(("commands", "heavy"), COMMANDS.values(), ids=COMMANDS)
def test_commands_load_only_what_they_need(commands: list[str], heavy: str, tmp_path: Path) -> None:
    """One process carries out one after the other."""
    lines = [line.replace("OUT", str(tmp_path)).split() for line in commands]
    statements = f"""from ortbench.cli.program import app, main
own, found = [*app.registered_commands], {{}}
for arguments in {lines}:
    sys.argv, app.registered_commands = ["ortbench", *arguments], [*own]
    try:
        main(arguments)
    except SystemExit:
        pass
    found[" ".join(arguments)] = sorted({{*{heavy.split()}}} & sys.modules.keys())
print(found, file=sys.stderr)"""
    loaded = cast(dict[str, list[str]], ast.literal_eval(stderr_after(statements)[-1]))
    assert loaded == {" ".join(line): [] for line in lines}


@pytest.mark.process
@pytest.mark.parametrize(
    ("statements", "heavy"),
    [
        ("sys.argv[1:] = ['--help']\nfrom ortbench.__main__ import main\ntry: main()\nexcept SystemExit: pass",
         "typer dataclasses ortbench.plan ortbench.model"),
        ("import ortbench", "typing dataclasses inspect numpy pandas importlib.util ortbench.plan.plan ortbench.api"),
        ("import ortbench.api.pytest_plugin", "numpy ortbench.plan.plan ortbench.api.commands"),
        ("import ortbench.measure.process", "dataclasses inspect typer ortbench.plan.plan ortbench.cli"),
        ("import os\nos.environ.update(_ORTBENCH_COMPLETE='complete_bash', COMP_WORDS='ortbench\\nrun\\n--ep\\n', COMP_CWORD='3')\n"
         "from ortbench.cli.program import main\ntry: main([])\nexcept SystemExit: pass",
         "onnxruntime onnx pandas numpy rich.table ortbench.features.suite.cli"),
        # What figures need is loaded while the model is: until the worker has its request nothing of it can begin.
        ("import ortbench.cli.program, ortbench.jobs.run, ortbench.measure.driver", "numpy scipy pandas rich pydantic psutil"),
        ("from ortbench.worker import measuring, opening",
         "msgspec ortbench.model.schema ortbench.model.protocol ortbench.model.result ortbench.worker.inspection ortbench.worker.nodes "
         "onnx pandas"),
    ],
    ids=["help", "api", "plugin", "process", "tab", "run", "worker"],
)  # fmt: skip
def test_modules_load_only_what_most_runs_need(statements: str, heavy: str) -> None:
    found = f"print(sorted({{*{heavy.split()}}} & sys.modules.keys()), file=sys.stderr)"
    assert stderr_after(f"{statements}\n{found}")[-1] == "[]"


# Of the package, in all processes of a command together, without the records of features and their folders, which are all loaded.
MOST_MODULES = {"run": 90, "compare": 80}
FINDER = """import os, sys
class Noting:
    def find_spec(name, *_):
        if name.startswith("ortbench"):
            os.write(note, f"{name}\\n".encode())
note = os.open(os.environ["NOTED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
sys.meta_path.insert(0, Noting)
"""


@pytest.mark.process
@pytest.mark.parametrize("line", [f"{RUN} --out OUT", f"compare {REPORT} {REPORT}"], ids=MOST_MODULES)
def test_a_run_and_a_comparison_load_few_modules_of_the_package(line: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(FINDER)
    known = {it for it in modules().values() if not re.fullmatch(r"ortbench\.features(\.\w+(\.feature)?)?", it)}
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "NOTED": str(tmp_path / "noted")}
    words = [sys.executable, "-m", "ortbench", *line.replace("OUT", str(tmp_path)).split()]
    subprocess.run(words, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    loaded = {*(tmp_path / "noted").read_text().split()} & known
    assert len(loaded) <= MOST_MODULES[line.split()[0]], sorted(loaded)


def stderr_after(statements: str) -> list[str]:
    """What a process writes to stderr that loads nothing by itself: without site, as its .pth files may load anything."""
    code = f"import sys\nsys.path[:] = {sys.path}\n{statements}"
    line = [sys.executable, "-S", "-c", code]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stderr.splitlines()
