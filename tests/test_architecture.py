"""What each layer may import, and what quick commands never load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "ortbench"
# From the lowest layer up: a module may import from its own layer and those before it.
LAYERS = [
    ["errors", "units", "stats"],
    ["plan", "schedule", "result"],
    ["advice"],
    ["table"],
    ["runtime"],
    ["worker", "client", "environment"],
    ["bench"],
    ["reports", "terminal", "listing"],
    ["cli"],
    ["__main__"],
]
PURE = {"errors", "units", "stats", "plan", "schedule", "result", "advice", "table"}
HOME = {"typer": {"cli"}, "rich": {"terminal", "listing"}, "pandas": {"table"}, "onnxruntime": set[str]()}


def layer_of(module: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if module in names)


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def module_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if module_of(path) != "__init__"]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    module = module_of(path)
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "ortbench" and len(parts) > 1 and not parts[1].startswith("__"):
            assert layer_of(parts[1]) <= layer_of(module), f"{module} imports {name}"
        if module in PURE:
            assert parts[0] not in ("onnxruntime", "rich", "typer"), f"{module} is pure and imports {name}"
        if parts[0] in HOME and module not in ("runtime", "worker"):
            assert module in HOME[parts[0]], f"{module} imports {name}"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"], ["run", "nowhere.onnx"]])
def test_quick_commands_load_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom ortbench.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'onnxruntime', 'onnx', 'pandas', 'rich.table', 'numpy', 'scipy'} & sys.modules.keys()\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == "[]"
