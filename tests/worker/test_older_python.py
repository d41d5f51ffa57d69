"""A worker's modules in the oldest Python that they may be read by; see `ortbench.worker.__main__`."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ortbench.core.processes import SCRIPT
from tests.conftest import ROOT
from tests.versions import environment

PACKAGE = ROOT / "ortbench"
OLDEST = (3, 10)
# What the standard library has only since.
NEW_NAMES = {
    "typing": {
        "Self", "NotRequired", "Required", "Never", "LiteralString", "Unpack", "TypeVarTuple", "assert_never",
        "assert_type", "dataclass_transform", "reveal_type", "override", "TypeAliasType",
    },
    "datetime": {"UTC"},
    "enum": {"StrEnum", "ReprEnum", "EnumCheck", "verify", "member", "nonmember", "global_enum"},
    "contextlib": {"chdir"},
    "asyncio": {"TaskGroup", "timeout", "Runner"},
    "itertools": {"batched"},
    "math": {"cbrt", "exp2", "sumprod"},
    "hashlib": {"file_digest"},
    "builtins": {"ExceptionGroup", "BaseExceptionGroup"},
    "": {"tomllib"},
}  # fmt: skip
_NOT_HERE = ("TYPE_CHECKING", "sys.version_info >= (3, 11)")


def _run_imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that are carried out: all but those for the type checker, or for a newer Python, alone."""
    for statement in body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            yield statement
        elif not (isinstance(statement, ast.If) and ast.unparse(statement.test) in _NOT_HERE):
            for name in ("body", "orelse", "finalbody"):
                yield from _run_imports(getattr(statement, name, []))
            for handler in getattr(statement, "handlers", []):
                yield from _run_imports(handler.body)


def _file(module: str) -> Path | None:
    place = ROOT.joinpath(*module.split("."))
    return next((it for it in (place.with_suffix(".py"), place / "__init__.py") if it.is_file()), None)


def _imported(it: ast.Import | ast.ImportFrom) -> tuple[str, set[str]]:
    return "" if isinstance(it, ast.Import) else str(it.module), {alias.name for alias in it.names}


def _loaded_by_workers() -> dict[Path, ast.Module]:
    """Every file of ortbench that a worker can come to load."""
    found: dict[Path, ast.Module] = {}
    waiting = [PACKAGE / "__init__.py", *(PACKAGE / "worker").rglob("*.py")]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = ast.parse(path.read_text(), feature_version=OLDEST)
            for module, names in map(_imported, _run_imports(found[path].body)):
                modules = [module, *(f"{module}.{name}".lstrip(".") for name in names)]
                waiting += [file for it in modules if it.startswith("ortbench") and (file := _file(it))]
    return found


def test_workers_load_nothing_that_the_oldest_python_lacks() -> None:
    loaded = _loaded_by_workers()
    assert {PACKAGE / "plan" / "target.py", PACKAGE / "worker" / "pipelined.py"} <= loaded.keys()
    for path, tree in loaded.items():
        for module, names in map(_imported, _run_imports(tree.body)):
            assert module not in NEW_NAMES[""], path
            assert not names & NEW_NAMES.get(module, set()), f"{path} imports {names} from {module}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.attr not in NEW_NAMES.get(node.value.id, set()), f"{path}: {ast.unparse(node)}"
            if isinstance(node, ast.Name):
                assert node.id not in NEW_NAMES["builtins"], path
            assert type(node).__name__ not in ("TryStar", "TypeAlias"), path


_IMPORT_ALL = """
import importlib, sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
package = Path(sys.argv[1])
spec = spec_from_file_location("ortbench", package / "__init__.py")
sys.modules["ortbench"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["ortbench"])
for path in sorted((package / "worker").rglob("*.py")):
    if path.stem not in ("__main__", "__init__"):
        try:
            importlib.import_module(".".join(path.relative_to(package.parent).with_suffix("").parts))
        except ModuleNotFoundError as error:
            if error.name != "onnx":  # which modules need that change models, and are loaded for nothing else
                raise
print("%d.%d" % sys.version_info[:2], end="")
"""


@pytest.mark.wide
def test_the_oldest_python_loads_all_of_a_workers_modules() -> None:
    python = environment("python3.10") / "bin" / "python"
    installed = Path(SCRIPT).parents[1]
    line = [str(python), "-c", _IMPORT_ALL, str(installed)]
    done = subprocess.run(line, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3.10", "")
