"""Writes docs/options.md, every option of every command: python -m tests.reference > docs/options.md"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import typer

from ortbench.cli import commands
from ortbench.cli.options import declared_for, function_of
from ortbench.plan.options import OTHERS, PANELS, Option
from ortbench.plan.toml_file import GATE, OPTIONS

HEAD = """\
# Options

Every option of every command, in the groups in which `ortbench COMMAND --help-all` shows them. Of many options `run`,
`load`, `loop` and `start` take a list, whose values are measured in turns, and `tune` tries each value of it ([compare.md](compare.md)).
[modes.md](modes.md) has the modes. A suite takes an option by the key in the third column, `gate.` for one in the table `gate`; see
[suites.md](suites.md). This page is made from where options are declared: `python -m tests.reference > docs/options.md`.
"""


# What a sentence says of some commands alone: which lists and modes they take.
_OF_SOME = re.compile(
    r" (A list \(.*?\) is measured in turns|Each of a list \(.*?\) is tried|Several take turns)\."
    r"|; several V of one K are measured in turns|(?<=I/O mode): [^.]*(?=\.)|(?<=I/O modes): [^.]*(?=\.)"
)


class Line(NamedTuple):
    """An option as some commands have it."""

    panel: str
    name: str
    default: str
    help: str
    flag: str


def lines() -> dict[Line, list[str]]:
    """Every option, and the commands that have it so."""
    found: dict[Line, list[str]] = {}
    for name in commands():
        function = function_of(name)
        app = typer.Typer(rich_markup_mode=None, add_completion=False)
        app.command()(function)
        for line in _lines(typer.main.get_command(app), declared_for(name)):
            found.setdefault(line._replace(help=_OF_SOME.sub("", line.help)), []).append(name)
    return found


def _lines(command: Any, declared: dict[str, Option]) -> Iterator[Line]:
    for param in command.params:
        if param.param_type_name != "option" or param.hidden:
            continue
        option = declared.get(param.name)
        names = " or ".join(f"`{name}`" for name in reversed(param.opts))
        if option is None:
            metavar = f" {param.metavar}" if param.metavar else ""
            default = str(param.default) if isinstance(param.default, str) else ""
            yield Line(param.rich_help_panel or OTHERS, f"{names[:-1]}{metavar}`", default, param.help, "")
            continue
        metavar = f" {option.texts.metavar}" if option.texts.metavar else ""
        text = f"{names[:-1]}{metavar}`"
        yield Line(option.texts.panel, text, option.default_text or "", option.sentence, option.flag)


def suite_key(line: Line, commands: list[str]) -> str:
    """How a suite writes an option; nothing where it has none."""
    option = OPTIONS.get(line.flag) or GATE.get(line.flag)
    if not {"run", "gate"} & {*commands} or (option is None and line.flag != "ep"):
        return ""
    if option is not None and line.flag in OPTIONS and option.texts.panel != line.panel:  # another one of that name
        return ""
    if option is None:
        return "`ep`"
    example = option.kind.example or f'"{option.texts.metavar}"'
    return f"`{'' if line.flag in OPTIONS else 'gate.'}{option.flag} = {example}`"


def document() -> str:
    """The page."""
    found: dict[Line, list[str]] = {}
    defaults: dict[Line, dict[str, None]] = {}
    for line, names_of_commands in lines().items():
        same = line._replace(default="")
        found.setdefault(same, []).extend(names_of_commands)
        defaults.setdefault(same, {})[line.default] = None
    parts = [HEAD]
    for panel in (*PANELS, OTHERS):
        names = [line.name for line in found]
        rows = sorted((line for line in found if line.panel == panel), key=lambda line: names.index(line.name))
        parts.append(f"## {panel if panel != OTHERS else 'Of one command'}\n")
        parts.append("| option | commands | in a suite | default | |\n|---|---|---|---|---|")
        for line in rows:
            told = "; ".join(filter(None, defaults[line]))
            cells = (line.name, ", ".join(found[line]), suite_key(line, found[line]), told, line.help)
            parts.append(f"| {' | '.join(cells)} |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    print(document(), end="")
