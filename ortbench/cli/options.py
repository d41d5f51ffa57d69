"""Commands take their options from where these are declared: Typer's signature is built of them, and help shows panels."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from ortbench.cli import HELP_ALL, commands
from ortbench.core import features
from ortbench.core.errors import BadInput
from ortbench.core.paths import may
from ortbench.model.modes import ALL_MODES, CHAIN_MODES, EVERY, LOAD_MODES, LOOP_MODES, MODES, USUAL
from ortbench.plan.option_types import FLAG, SWITCH
from ortbench.plan.options import BASELINE_SET, OTHERS, PANELS, Option, RawOptions, given_by
from ortbench.plan.registry import options_for

if TYPE_CHECKING:
    from ortbench.plan.output_options import OutputOptions
    from ortbench.plan.plan import Plan

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


def written(name: str) -> Any:
    """The function of a command as its module has it."""
    return getattr(import_module(commands()[name].module), name.replace(" ", "_"))


def declared_for(name: str) -> dict[str, Option]:
    """The declared options of a command, as it has them, by the names of their parameters."""
    return {it.parameter: it.of(name) for it in options_for(name)}


def function_of(name: str) -> Callable[..., None]:
    """The function of a command as Typer takes it, with a parameter for each of its options.

    What is declared keeps its defaults to itself: `given` holds what was typed and nothing else.
    """
    function = written(name)
    options = declared_for(name)

    def command(help_all: bool, **values: Any) -> None:
        typed = [(it, values.pop(parameter)) for parameter, it in options.items()]
        given: RawOptions = given_by((it, it.read(value)) for it, value in typed if not _is_nothing(it, value))
        function(**{GIVEN: given}, **values)

    hints = get_type_hints(function, include_extras=True)
    own = [
        it.replace(annotation=hints[it.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for it in inspect.signature(function).parameters.values()
        if it.name != GIVEN
    ]
    parameters = [*own, *(_parameter(parameter, it, name) for parameter, it in options.items()), _HELP_ALL]
    command.__name__, command.__doc__ = name, f"{commands()[name].sentence}\n\n{inspect.getdoc(function)}"
    command.__annotations__ = {it.name: it.annotation for it in parameters}
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return command


def _is_nothing(option: Option, value: Any) -> bool:
    """Whether the command line has this where an option was not typed."""
    return value is None or value == [] or (value is False and option.kind is not SWITCH)


def _parameter(parameter: str, option: Option, command: str) -> inspect.Parameter:
    default_text = option.default_text
    info = typer.Option(
        *option.names,
        metavar=option.metavar or None,
        help=option.sentence + (f"  [default: {default_text}]" if default_text else ""),
        show_default=False,
        rich_help_panel=option.panel,
        autocompletion=_completed(option.flag, command),
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
_TO_READ = object()  # what in_full has to read


def _path(word: str) -> Path:
    """A path; a ValueError where it is there and cannot be read, which Typer has a message for."""
    if os.path.exists(word) and not may(word, os.R_OK):
        raise ValueError
    return Path(word)


_WORDS: dict[Any, Callable[[str], Any]] = {str: str, int: int, float: float, Path: _path}
_PLAIN = {kind: read for word, read in _WORDS.items() for kind in (word, word | None)}
_PLAIN_LISTS = {list[word]: read for word, read in _WORDS.items()}  # type: ignore[valid-type]


def _read_plainly(param: Any) -> Any:
    """The same parameter, which reads texts, numbers and paths itself, and takes it as it is that it was not typed.

    Typer (0.29) hands every value to pydantic, whose import and adapters take longer than all else before a run begins.
    What is wrong still goes there, for its message.
    """
    kind, in_full = getattr(param, "type_descriptor", None), param.process_value
    if kind is None or "process_value" in vars(param):
        return param

    def plain(value: Any) -> Any:
        if value is None and not param.required:
            return () if param.multiple or param.nargs == -1 else None
        with suppress(ValueError):
            if isinstance(value, str) and kind.annotation in _PLAIN:
                return _PLAIN[kind.annotation](value)
            if isinstance(value, list | tuple) and kind.annotation in _PLAIN_LISTS and (value or not param.required):
                return [_PLAIN_LISTS[kind.annotation](word) for word in value]
        return _TO_READ

    def process_value(ctx: Any, value: Any) -> Any:
        read = plain(value)
        if read is _TO_READ:
            return in_full(ctx, value)
        return read if param.callback is None else param.callback(ctx, param, read)

    param.process_value = process_value
    return param


class _HelpReadPlainly:
    """What Typer's own ``--help`` needs for that, of a program or a command."""

    def get_help_option(self, ctx: Any) -> Any:
        """``--help``; None where there is none."""
        option = super().get_help_option(ctx)  # type: ignore[misc]
        return option and _read_plainly(option)


class Program(_HelpReadPlainly, TyperGroup):
    """All commands."""


class Command(_HelpReadPlainly, TyperCommand):
    """A command that takes no option twice, whose help shows its options panel by panel, as plain text, and which knows
    where JUnit XML is awaited."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for param in self.params:
            _read_plainly(param)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line; what is wrong in it is written for CI too, where an option says so; `BadInput`: an option is
        there twice that can be given once; the parser itself would take the last one."""
        if ctx.resilient_parsing:  # a shell asks what could follow, and nothing can be wrong yet
            return super().parse_args(ctx, args)
        of_errors = {flag.replace("-", "_"): flag for flag, it in features.writers().items() if it.of_errors}
        if any(param.name in of_errors for param in self.params):
            from ortbench.jobs.publishing import await_error_files

            await_error_files({})
            parser = self.make_parser(ctx)
            parser.ignore_unknown_options = True
            with suppress(Exception):  # what cannot be read at all is said below
                values = parser.parse_args(args=list(args))[0]
                await_error_files({flag: values[name] for name, flag in of_errors.items() if values.get(name)})
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])
        for param, times in Counter(order).items():
            if times > 1 and param.param_type_name == "option" and not param.multiple:
                name = max(param.opts, key=len)
                raise BadInput(f"{name}: was given {'twice' if times == 2 else f'{times} times'}; give it once", name)
        return super().parse_args(ctx, args)

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
        return {name for name in names if name in options and not options[name].is_common(self.name)}


# What a shell completes the value of an option by

_COMPLETED = ("mode", "ep", "opt-level", "execution-mode", "input-memory", "stream", "sessions", BASELINE_SET)
# Of the commands that know other modes than most.
_MODES = {
    "loop": LOOP_MODES, "chain": CHAIN_MODES, "load": LOAD_MODES, **dict.fromkeys(("code", "compare"), ALL_MODES)
}  # fmt: skip


def _completed(flag: str, command: str) -> Callable[[str], list[str]] | None:
    """What gives the values of an option that begin with a text; None where a shell is left to files, or nothing is known."""
    if flag not in _COMPLETED:
        return None
    return lambda incomplete: [word for word in _values(flag, command) if word.startswith(incomplete)]


def _values(flag: str, command: str) -> Iterable[str]:
    if flag == "mode":
        known = _MODES.get(command, MODES)
        return known if command == "code" else [*known, EVERY, USUAL]
    if flag == BASELINE_SET:
        from ortbench.gates.baseline import SETTABLE

        return [f"{key}=" for key in SETTABLE]
    from ortbench.plan import load_plan, target

    if flag == "ep":  # EPs whose libraries or packages are installed, and what ONNX Runtime can choose by
        from ortbench.core.ep_packages import installed_eps

        return ["auto", *installed_eps(), *target.POLICIES]
    words = {
        "opt-level": target.OPT_LEVELS, "execution-mode": target.EXECUTION_MODES, "input-memory": target.EXTERNAL_LIBRARIES,
        "stream": target.STREAMS, "sessions": load_plan.SESSIONS,
    }  # fmt: skip
    return words[flag]
