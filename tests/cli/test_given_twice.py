"""An option that can be given once is not given twice, whatever command takes it: the first one would be lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from ortbench.cli import commands
from ortbench.cli.options import Command, function_of
from tests.conftest import MODELS, mostly_wide, ortbench_here

MULTI = str(MODELS / "multi_output.onnx")


def options() -> list[tuple[str, str, bool, bool]]:
    """Every option of every command: the command, its name, whether it takes a word, whether it is repeatable."""
    found = []
    for name in commands():
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command(cls=Command)(function_of(name))
        for param in typer.main.get_command(app).params:
            if param.param_type_name == "option":
                takes_word = not getattr(param, "is_flag", False)
                found.append((name, param.opts[0], takes_word, bool(getattr(param, "multiple", False))))
    return found


OPTIONS = options()


@pytest.mark.parametrize(("command", "name", "takes_word", "repeatable"), mostly_wide(OPTIONS, 3))
def test_an_option_that_can_be_given_once(
    command: str, name: str, takes_word: bool, repeatable: bool, tmp_path: Path
) -> None:
    word = ["1"] if takes_word else []
    ran = ortbench_here(command, name, *word, name, *word, cwd=tmp_path)  # JUnit XML is written there
    assert ran.code == 2
    assert (ran.error_line == f"{name}: was given twice; give it once") is not repeatable


def test_there_are_options_of_both_kinds_and_of_commands_alone() -> None:
    names = {(command, name) for command, name, _, repeatable in OPTIONS if not repeatable}
    assert {("gate", "--model"), ("compare", "--equivalence-margin"), ("suite", "--list"), ("run", "--quiet")} <= names
    assert {("run", "--dim"), ("suite", "--only")}.isdisjoint(names)
