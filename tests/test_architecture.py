"""Which room may know which, and what quick commands never load."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import cast

import pytest

from ortbench.core.features import features
from tests.conftest import ROOT
from tests.sources import PACKAGE, nodes

# Each package knows those before it, but for what is said below.
ROOMS = (
    "core",
    "model",
    "plan",
    "analysis",
    "worker",
    "measure",
    "facts",
    "report",
    "jobs",
    "cli",
    "api",
)
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
    if parts and parts[0] == "features":
        return "features"
    return parts[0] if parts and parts[0] in ROOMS else "root"


def layer_of(place: Path) -> str:
    """The room whose law a file keeps: that it is in, or of a feature's that it is called after."""
    if place.parts[0] != "features" or len(place.parts) == 2:
        return room_of(place.parts[:-1])
    own = Path(place.parts[2]).stem  # a module of the feature, or a folder of several of one layer
    layer = LAYERS.get(own, own)
    return (
        layer if layer in ROOMS else "worker" if "onnxruntime" in {it for it, _ in imports(nodes()[place])} else "root"
    )


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
        where = f"{room}/{place.name}" if place.parts[0] == "features" else str(place)
        for module, name in imports(tree):
            library, *inner = module.split(".")
            own = library == "ortbench" and (str(place), module) not in EXCEPTIONS
            elsewhere = (
                library in HOME
                and room != "worker"
                and not any(it.startswith(HOME[library]) for it in (where, str(place)))
            )
            if elsewhere or (own and not may_know(place, room, (*inner, name))):
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
    names = {place: ".".join(("ortbench", *place.with_suffix("").parts)).removesuffix(".__init__") for place in nodes()}
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


@pytest.mark.process
def test_quick_commands_load_nothing_heavy() -> None:
    heavy = {"onnxruntime", "onnx", "pandas", "rich.table", "numpy", "scipy", "matplotlib", "jinja2", "pydantic"}
    heavy |= {"msgspec", "ortbench.model.result"}
    quick = [["--help"], ["run", "--help"], ["suite", "--help"], ["bandwidth", "--help"], ["--version"]]
    quick += [
        ["run", "nowhere.onnx"],
        ["bandwidth", "--min-size", "none"],
    ]
    assert loaded_by_commands(quick, heavy) == dict.fromkeys(map(" ".join, quick), "")
    explain = [["explain", "sync"], ["explain", "--more", "sync"]]  # which has the sentences of facts
    assert loaded_by_commands(explain, heavy - {"ortbench.model.result"}) == dict.fromkeys(map(" ".join, explain), "")
    listing = "import sys\nsys.argv[1:] = ['--help']\nfrom ortbench.__main__ import main\ntry: main()\nexcept SystemExit: pass"
    assert loaded_after(listing, {"typer", "dataclasses", "ortbench.plan", "ortbench.model"}) == "[]"


@pytest.mark.process
def test_a_run_loads_nothing_that_only_readers_of_files_and_loads_need(tmp_path: Path) -> None:
    command = [
        "run",
        str(ROOT / "models" / "tiny.onnx"),
        "--ep",
        "cpu",
        "--iterations",
        "1",
        "--quiet",
        "--out",
        str(tmp_path),
    ]
    heavy = {
        "msgspec",
        "onnxruntime",
        "pandas",
        "scipy",
        "matplotlib",
        "ortbench.features.load.measure.schedule",
        "ortbench.features.load.analysis.samples",
    }
    assert loaded_by_commands([command], heavy) == {" ".join(command): ""}


# Of the package, in all processes of a command together, without the records of features and their folders, which are all loaded.
MOST_MODULES = {"run": 113, "compare": 82}


@pytest.mark.process
def test_a_run_and_a_comparison_load_few_modules_of_the_package(tmp_path: Path) -> None:
    finder = """import os, sys
class Noting:
    def find_spec(name, *_):
        if name.startswith("ortbench"):
            os.write(note, f"{name}\\n".encode())
note = os.open(os.environ["NOTED"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
sys.meta_path.insert(0, Noting)
"""
    (tmp_path / "sitecustomize.py").write_text(finder)
    modules = {".".join(("ortbench", *place.with_suffix("").parts)).removesuffix(".__init__") for place in nodes()}
    known = {it for it in modules if not re.fullmatch(r"ortbench\.features(\.\w+(\.feature)?)?", it)}
    stored, more = (
        ROOT / "reports" / "copy_bound-refdevice",
        ("--ep", "cpu", "--iterations", "1", "--out", str(tmp_path)),
    )
    for name, *rest in (("run", ROOT / "models" / "tiny.onnx", *more), ("compare", stored, stored)):
        env = {**os.environ, "PYTHONPATH": str(tmp_path), "NOTED": str(tmp_path / name)}
        subprocess.run([sys.executable, "-m", "ortbench", name, *rest], env=env, check=True, stdout=subprocess.DEVNULL)
        loaded = {*(tmp_path / name).read_text().split()} & known
        assert len(loaded) <= MOST_MODULES[name], sorted(loaded)


@pytest.mark.process
def test_commands_that_read_files_never_load_onnxruntime() -> None:
    report = str(ROOT / "reports" / "copy_bound-refdevice")
    reading = [["compare", report, report], ["gate", report, "--max-cpu-nodes", "0"]]
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
        "ortbench.worker.inspection",
        "ortbench.worker.nodes",
        "onnx",
        "pandas",
    }
    assert loaded_after("from ortbench.worker import measuring, opening", seldom) == "[]"
    # What figures need is loaded while the model is: until the worker has its request nothing of it can begin.
    heavy = {"numpy", "scipy", "pandas", "rich", "pydantic", "psutil"}
    assert loaded_after("import ortbench.cli.measure, ortbench.jobs.run, ortbench.measure.driver", heavy) == "[]"


def loaded_by_commands(commands: list[list[str]], modules: set[str]) -> dict[str, str]:
    """Which of some modules are loaded at the end of each command, of which one process carries out one after the other."""
    statements = f"""from ortbench.cli.program import app, main
own, found = [*app.registered_commands], {{}}
for arguments in {commands}:
    sys.argv, app.registered_commands = ["ortbench", *arguments], [*own]
    try:
        main(arguments)
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


PARTS_OF_KINDS = {"loop", "chain", "load", "sweep", "shapes", "stages", "steps"}  # of results, cases, plans and jobs
KINDS = {"RUN", "LOOP", "CHAIN", "LOAD", "SWEEP", "BANDWIDTH"}
# Of another thing: load average, a suggested loop, change points, kinds of options and of folders.
OTHER_PARTS = {
    "options.py",
    "doctor/machine.py",
    "inspect/report.py",
    "measure/processor.py",
    "page/report/charts.py",
}
MOST_KIND_TESTS = 32


def test_the_kind_of_a_measurement_is_asked_in_few_lines_outside_its_record() -> None:
    found = [f"{place}:{line}" for place, tree in nodes().items() for line in kind_tests(place.as_posix(), tree)]
    assert len(found) <= MOST_KIND_TESTS, found


def kind_tests(place: str, tree: list[ast.AST]) -> list[int]:
    """The lines of a file that compare a kind, or ask whether something has what only one kind has."""
    lines = set()
    for node in tree:
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            against_kind = any(is_kind(side) for side in sides)
            if against_kind and any(called(side) == "kind" for side in sides):
                lines.add(node.lineno)
            if any(called(side) == "kind" and of_result(side) for side in sides):
                lines.add(node.lineno)
            if any(isinstance(side, ast.Constant) and side.value is None for side in sides):
                lines |= {node.lineno for side in sides if called(side) in PARTS_OF_KINDS}
        if isinstance(node, ast.Call) and called(node.func) == "isinstance":
            lines |= {
                node.lineno
                for side in node.args
                if called(side) in {"LoopInWorker", "ChainInWorker", "LoopWork", "ChainWork"}
            }
        lines |= {asked.lineno for asked in asked_for_truth(node) if called(asked) in PARTS_OF_KINDS}
    return [] if place.endswith(tuple(OTHER_PARTS)) else sorted(lines)


def called(node: ast.AST) -> str:
    """The last name of an expression; of a collection of one for each of several, that one's."""
    if isinstance(node, ast.NamedExpr):
        return called(node.value)
    if isinstance(node, (ast.SetComp, ast.ListComp, ast.GeneratorExp)):
        return called(node.elt)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args:
        return str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else ""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def is_kind(node: ast.AST) -> bool:
    """Whether an expression is one of the kinds, or several."""
    if isinstance(node, (ast.Set, ast.Tuple, ast.List)):
        return any(map(is_kind, node.elts))
    if isinstance(node, ast.Attribute) and node.attr == "key":
        return is_kind(node.value)
    return called(node) in KINDS or (isinstance(node, ast.Constant) and node.value in {it.lower() for it in KINDS})


def of_result(node: ast.AST) -> bool:
    """Whether a kind is asked of something that holds a result."""
    return isinstance(node, ast.Attribute) and called(node.value) in {"result", "one", "other", "baseline", "candidate"}


def asked_for_truth(node: ast.AST) -> list[ast.expr]:
    """Expressions that a node takes as true or false."""
    if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
        return [node.test]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    if isinstance(node, ast.comprehension):
        return node.ifs
    return node.args if isinstance(node, ast.Call) and called(node.func) == "bool" else []
