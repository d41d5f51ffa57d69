"""The functions of `import ortbench` are the commands, and the page about them says what they say."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest

import ortbench
from ortbench.api import commands
from ortbench.api.given import options_for, parameter
from ortbench.cli.options import declared_for
from tests.api_commands import CALLS, source
from tests.api_page import document
from tests.conftest import ROOT

NOT_FOR_PYTHON = {"json", "junit", "action_json", "bmf", "trace", "html", "markdown", "quiet"}


def test_the_module_of_the_functions_is_what_the_declarations_say() -> None:
    assert (ROOT / "ortbench" / "api" / "commands.py").read_text(encoding="utf-8") == source()


def test_the_page_is_what_the_docstrings_say() -> None:
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == document()


@pytest.mark.parametrize("name", CALLS)
def test_a_function_has_the_options_of_its_command(name: str) -> None:
    typed = declared_for(name)
    mine = options_for(name)
    assert {*mine} == {parameter(it) for it in typed.values() if it.parameter not in NOT_FOR_PYTHON}
    for it in typed.values():
        if it.parameter not in NOT_FOR_PYTHON:
            one = mine[parameter(it)]
            assert (one.flag, one.default, one.default_text, one.check) == (
                it.flag,
                it.default,
                it.default_text,
                it.check,
            )
    taken = inspect.signature(getattr(ortbench, name)).parameters
    assert {it for it in taken if it in mine} == {*mine}
    assert all(taken[it].default in (None, False) for it in mine)


def test_the_surface() -> None:
    assert ortbench.__all__ == [
        "run", "loop", "chain", "load", "sweep", "gate", "compare", "bandwidth", "devices", "inspect",
        "Bandwidth", "Comparison", "Result", "Verdict", "read", "Interrupted", "NotSaved", "Progress",
        "BadInput", "BenchmarkFailed", "NotComparable", "OrtbenchError", "__version__",
    ]  # fmt: skip
    for name in ortbench.__all__:
        found: Any = getattr(ortbench, name)
        assert name == "__version__" or inspect.getdoc(found), name
        assert name in dir(ortbench)
    with pytest.raises(AttributeError, match="module 'ortbench' has no attribute 'nothing'"):
        ortbench.nothing  # noqa: B018


def test_type_checkers_see_what_python_finds() -> None:
    tree = ast.parse((ROOT / "ortbench" / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {it.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for it in node.names}
    assert {name: str(module).removeprefix("ortbench.") for name, module in seen.items()} == ortbench._HOME


def test_gate_is_the_function_whatever_was_imported_before() -> None:
    import ortbench.gate.limits
    from ortbench.gate import verdict

    assert ortbench.gate is commands.gate
    assert verdict.SIDES == ("candidate", "baseline")
