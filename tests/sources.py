"""The source of the package: every node of every file, for tests of what it says and what it loads."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.conftest import ROOT

PACKAGE = ROOT / "ortbench"


@cache
def nodes() -> dict[Path, list[ast.AST]]:
    """By the file's path in the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {it.relative_to(PACKAGE): [*ast.walk(ast.parse(it.read_text(encoding="utf-8")))] for it in paths}
