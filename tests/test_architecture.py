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
    ["errors", "units", "bars", "streams", "stats"],
    ["plan", "copyplan", "schedule", "result", "sequential"],
    ["pairs", "overlap"],
    ["islands", "nodetimes", "trace", "activity", "engines"],
    ["advice", "compare", "nodes", "bandwidth", "link"],
    ["gate"],
    ["table", "livegate"],
    ["verdict", "exports", "summary", "profile", "figures", "svg", "rates"],
    ["sheet"],
    ["copyplot", "sampleplot", "splitplot", "sweepplot", "totalplot"],
    ["plots"],
    ["runtime"],
    ["gpus"],
    ["bootstrap", "worker", "client", "environment"],
    ["side"],
    ["bench", "sweep"],
    ["console"],
    ["grid"],
    ["reports", "terminal", "listing", "suitefile", "nsight"],
    ["page"],
    ["launch", "suite"],
    ["gating"],
    ["suiterun"],
    ["cli"],
    ["__main__"],
]
PURE = {name for layer in LAYERS[: LAYERS.index(["runtime"])] for name in layer}
HOME = {
    "typer": {"cli"},
    "rich": {"console", "grid", "terminal"},
    "pandas": {"table"},
    "scipy": {"sequential"},
    "junitparser": {"exports"},
    "matplotlib": {"copyplot", "plots", "sampleplot", "sheet", "splitplot", "sweepplot", "totalplot"},
    "jinja2": {"page"},
    "onnxruntime": set[str](),
}


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
    ],
)
def test_quick_commands_load_nothing_heavy(arguments: list[str]) -> None:
    heavy = {"onnxruntime", "onnx", "pandas", "rich.table", "numpy", "scipy", "matplotlib", "jinja2"}
    assert loaded(heavy, arguments) == "[]"


def loaded(modules: set[str], arguments: list[str]) -> str:
    """Which of some modules a command has loaded at its end."""
    code = (
        "import sys\nfrom ortbench.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print(sorted({modules} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stderr.splitlines()[-1]


REPORT = str(ROOT / "reports" / "copy_bound-refdevice")
FILES_ONLY = [
    ["compare", REPORT, REPORT],
    ["gate", REPORT, "--max-cpu-nodes", "0"],
    ["report", REPORT, "--html", "-"],
]


@pytest.mark.parametrize("arguments", FILES_ONLY, ids=lambda arguments: arguments[0])
def test_commands_that_read_files_never_load_onnxruntime(arguments: list[str]) -> None:
    assert loaded({"onnxruntime", "onnx", "pandas"}, arguments) == "[]"
