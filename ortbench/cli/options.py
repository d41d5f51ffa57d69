"""Commands take their options from where these are declared: Typer's signature is built of them, and help shows panels."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from ortbench.cli import HELP_ALL, commands
from ortbench.core import features
from ortbench.core.errors import BadInput
from ortbench.core.files import may
from ortbench.model.modes import EVERY, USUAL
from ortbench.plan.option_types import FLAG, MODE_NAMES, SWITCH
from ortbench.plan.options import OTHERS, PANELS, Option, RawOptions, collect_values, options_for

if TYPE_CHECKING:
    from ortbench.plan.plan import OutputOptions, Plan

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model, an .onnx or .ort file.")]
ModelOrFolder = Annotated[str, typer.Argument(metavar="MODEL", help="The model, or the folder of a decoder.")]
GIVEN = "given"  # the parameter of a command that takes what was given
PREFIX = "ORTBENCH_PREFIX"
FEW = 16  # options, at most, that --help shows


def command_line() -> tuple[str, ...]:
    """The command that was typed, quoted for a shell, behind what a wrapper says in a variable that it was started by."""
    before = os.environ.get(PREFIX, "").split()
    return (*map(shlex.quote, before), "ortbench", *(shlex.quote(argument) for argument in sys.argv[1:]))


def refuse_json(plans: Sequence[Plan], wanted: OutputOptions) -> None:
    """Refuse one file for the results of several sides."""
    if len(plans) > 1 and wanted.json is not None:
        raise BadInput("--json is for one result: every side has a result.json in a folder of its own", "--json")


def declared_for(name: str) -> dict[str, Option]:
    """The declared options of a command, as it has them, by the names of their parameters."""
    return {it.parameter: it.for_command(name) for it in options_for(name)}


def function_of(name: str) -> Callable[..., None]:
    """The function of a command as Typer takes it, with a parameter for each of its options.

    What is declared keeps its defaults to itself: `given` holds what was typed and nothing else.
    """
    function = getattr(import_module(commands()[name].module), name.replace(" ", "_"))
    options = declared_for(name)

    def command(help_all: bool, **values: Any) -> None:
        typed = [(it, values.pop(parameter)) for parameter, it in options.items()]
        values_given = ((it, value) for it, value in typed if value is not None and value != [])
        given: RawOptions = collect_values(
            [(it, it.read(value)) for it, value in values_given if value is not False or it.kind is SWITCH]
        )
        function(**{GIVEN: given}, **values)

    hints = get_type_hints(function, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != GIVEN
    ]
    parameters = [*own, *(_parameter(parameter, it) for parameter, it in options.items()), _HELP_ALL]
    command.__name__, command.__doc__ = name, f"{commands()[name].sentence}\n\n{inspect.getdoc(function)}"
    command.__annotations__ = {it.name: it.annotation for it in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _parameter(parameter: str, option: Option) -> inspect.Parameter:
    default_text = option.default_text
    info = typer.Option(
        *option.names,
        metavar=option.texts.metavar or None,
        help=option.sentence + (f"  [default: {default_text}]" if default_text else ""),
        show_default=False,
        rich_help_panel=option.texts.panel,
        autocompletion=_completer_for(option),
    )
    kind = option.kind
    nothing: Any = [] if kind.repeatable else False if kind is FLAG else None
    annotation: Any = list[kind.word] if kind.repeatable else kind.word if kind is FLAG else kind.word | None  # type: ignore[name-defined]
    return inspect.Parameter(
        parameter, inspect.Parameter.KEYWORD_ONLY, default=nothing, annotation=Annotated[annotation, info]
    )


def _show_all(ctx: typer.Context, asked: bool) -> None:
    if asked:
        ctx.meta[HELP_ALL] = True
        print(ctx.get_help())
        raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option(HELP_ALL, is_eager=True, callback=_show_all, hidden=True)],
)


def _path(word: str) -> Path:
    """A path; a ValueError where it is there and cannot be read, which Typer has a message for."""
    if os.path.exists(word) and not may(word, os.R_OK):
        raise ValueError
    return Path(word)


_WORDS: dict[Any, Callable[[str], Any]] = {str: str, int: int, float: float, Path: _path}
_READERS = {kind: read for word, read in _WORDS.items() for kind in (word, word | None, list[word])}  # type: ignore[valid-type]


class _PlainWords:
    """Reads texts, numbers and paths for a parameter of Typer (0.29), which hands every value to pydantic: its import and adapters
    take longer than all else before a run begins. What is wrong still goes there, for its message."""

    def coerce(self, value: Any, *, param: Any, ctx: Any) -> Any:
        read = _READERS.get(param.type_descriptor.annotation)
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        with suppress(ValueError):
            if read is not None:
                return read(value) if isinstance(value, str) else [read(word) for word in value]
        param._runtime_param = None  # Typer makes its own then
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


class _PlainHelp:
    """What Typer's own ``--help`` needs for that, of a program or a command."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option._runtime_param = _PlainWords()
        return option


class Program(_PlainHelp, TyperGroup):
    """All commands."""


class Command(_PlainHelp, TyperCommand):
    """A command that takes no option twice, whose help shows its options panel by panel, as plain text, and which knows
    where JUnit XML is awaited."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for param in self.params:
            param._runtime_param = _PlainWords()  # type: ignore[attr-defined]

    def make_parser(self, ctx: Any) -> Any:
        """Typer's parser, which also refuses (`BadInput`) an option that is there twice and can be given once: it takes the last one."""
        parser = super().make_parser(ctx)
        parse: Callable[..., Any] = parser.parse_args

        def parse_args(args: list[str]) -> Any:
            if ctx.resilient_parsing:  # a shell asks what could follow, and nothing can be wrong yet
                return parse(args=args)
            args = _with_values(args, declared_for(str(self.name)).values() if self.name in commands() else ())
            try:
                values, rest, order = parse(args=[*args])
            except Exception:  # only files for CI matter now, which are named beside what cannot be read
                parser.ignore_unknown_options = True
                with suppress(Exception):
                    self._await_error_files(parse(args=[*args])[0])
                raise
            self._await_error_files(values)
            for param, times in Counter(order).items():
                if times > 1 and param.param_type_name == "option" and not param.multiple:
                    name = max(param.opts, key=len)
                    count = "twice" if times == 2 else f"{times} times"
                    raise BadInput(f"{name}: was given {count}; give it once", name)
            return values, rest, order

        parser.parse_args = parse_args  # type: ignore[method-assign]
        return parser

    def _await_error_files(self, values: Mapping[str, Any]) -> None:
        """Note the files that CI looks into for errors too."""
        flags = {flag.replace("-", "_"): flag for flag, it in features.writers().items() if it.of_errors}
        if any(param.name in flags for param in self.params):
            from ortbench.jobs import await_error_files

            await_error_files({flag: values[name] for name, flag in flags.items() if values.get(name)})

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options that most people need, or with ``--help-all`` every panel."""
        records = [(param, param.get_help_record(ctx)) for param in self.get_params(ctx)]
        shown = [(param, record) for param, record in records if record is not None]
        rare = set() if HELP_ALL in ctx.meta else self._rare([param.name for param, _ in shown])
        panels: dict[str, list[tuple[str, str]]] = {}
        for param, record in shown:
            if param.name not in rare:
                is_argument = param.param_type_name == "argument"
                panel = OTHERS if rare else getattr(param, "rich_help_panel", None) or OTHERS
                panels.setdefault("Arguments" if is_argument else panel, []).append(record)
        for panel in ("Arguments", *PANELS, OTHERS):
            if panel in panels:
                with formatter.section(panel):
                    formatter.write_dl(panels[panel])
        if rare:
            formatter.write_paragraph()
            formatter.write_text(f"{HELP_ALL} shows {len(rare)} more.")

    def _rare(self, names: Sequence[str]) -> set[str]:
        """The parameters that only ``--help-all`` shows; none where there are few options."""
        if self.name not in commands() or len(options := declared_for(self.name)) <= FEW:
            return set()
        return {name for name in names if name in options and not options[name].is_shown_by(self.name)}


def _with_values(args: Sequence[str], options: Iterable[Option]) -> list[str]:
    """What was typed, with its value behind each option that is alone and has one then."""
    alone = {it.name: it.alone for it in options if it.alone}
    rest = [*args, "-"][1:]
    words = (
        [word, alone[word]] if word in alone and after.startswith("-") else [word]
        for word, after in zip(args, rest, strict=True)
    )
    return [word for several in words for word in several]


def _completer_for(option: Option) -> Callable[[str], list[str]] | None:
    """What gives a shell the values of an option that begin with a text; None where it is left to files, or nothing is known."""

    def complete(incomplete: str) -> list[str]:
        known = option.choices() if callable(option.choices) else option.choices
        several = (EVERY, USUAL) if option.kind is MODE_NAMES else ()
        return [word for word in (*known, *several) if word.startswith(incomplete)]

    return complete if option.choices else None
