"""Features: what the core knows of one, and which are there. Whatever a feature needs lies in its folder of `ortbench.features`.

A record is plain data and quick to import; what it names is loaded when it is wanted. Without its folder a feature is nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, NamedTuple

from ortbench.core.errors import BadInput

MEASURE, COMPARE, INSPECT, EXPORT = "Measure", "Compare", "Inspect", "Export"
_FOLDER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "features")
# Those whose results are written for other programs too; other features' commands are in the group of the last word.
REPORTED = ("run", "reported")
GROUPS = (MEASURE, COMPARE, INSPECT, EXPORT)  # in which help and the README list commands


class Command(NamedTuple):
    group: str  # one of `GROUPS`
    order: int  # in its group
    sentence: str  # what it does, for help
    page: str  # of the documentation
    module: str = "cli"  # of the feature's folder, that has a function of the command's name
    option_groups: tuple[str, ...] = ()  # of the core that it takes, named in `ortbench.plan.options`
    # Others that it takes, by flag; and what is declared otherwise for it.
    options: Mapping[str, Mapping[str, Any]] = {}
    # Whether a model and its inputs are all that it needs, so that findings of other commands may name it.
    from_inputs: bool = False
    input_suffix: str = ""  # of files of inputs, where it does not read all that other commands do
    # Of one that measures a model: the function of `plan.py` that makes its plan, of which the command and its function in Python come.
    plan: str = ""
    plans_of: str = ""  # the function that makes of it the plans to measure side by side, in place of lists
    takes_folder: bool = False  # of a decoder in place of a model
    note: str = ""  # behind the sentence in help
    returns: str = ""  # what its function in Python gives, for its docstring
    # The function of its module that says with which code it ends, of what is typed and the code that it had.
    exit_code: str = ""


class Writer(NamedTuple):
    """Writes what a command came to into the file that an option names: a function of a module, called after the option (``html_file``),
    gives the content, of an `ortbench.report.records.Publication` and the path."""

    module: str  # of the feature's folder
    order: int  # of the option in help
    help: str
    commands: tuple[str, ...] = REPORTED
    common: tuple[str, ...] = ()  # of them, those whose ``--help`` shows it
    by_command: Mapping[str, Mapping[str, Any]] = {}  # by command, what is declared otherwise there
    after_screen: bool = False  # as it takes a while
    to_stdout: bool = True  # whether it may be written there
    of_errors: bool = False  # whether an error that ends a command is written too
    of_timelines: bool = False  # whether timelines have to be recorded
    of_stored: str = ""  # what `ortbench report` writes by default, beside the results
    message: str = ""  # about the file, where {path} is its path


class Pass(NamedTuple):
    """What an option has measured of each configuration once its blocks are: a function of `measure.py` with the option's name gives each case
    a `CasePart` of `model.py`, or what `lacking` there gives of a reason; of `report.py` `cost_blocks` shows them and `problem` says why
    a case lacks it."""

    key: str  # of what cases have of it, which heads its tables
    order: int  # of the option in help
    help: str
    text: str = ""  # what is said when it begins
    is_apart: bool = False  # a function with `_apart` behind the name goes on when the workers have ended
    is_forecast: bool = False  # it takes a forecast's time for each mode
    commands: tuple[str, ...] = ("run",)


class Feature(NamedTuple):
    commands: Mapping[str, Command] = {}
    needs: tuple[str, ...] = ()  # other features
    uses: tuple[str, ...] = ()  # others that it can do without: it asks `is_there` before it imports their modules
    api: tuple[str, ...] = ()  # what `import ortbench` has from its module `api`
    when_open: str = ""  # the module whose function of this name gives results what is known before they are measured
    requests: Mapping[str, str] = {}  # to a worker: the module of the folder that has a function of that name
    stateless_requests: tuple[str, ...] = ()  # those that no later one rests on
    # The module whose function of this name gives what makes the difference of two results, where options ask for it.
    explain_difference: str = ""
    # The module whose function of this name gives, of what was given, what carries the cases of a suite out in place of this process.
    case_runner: str = ""
    # What declares options in `plan.py`, dataclasses and tuples of options, with the commands, or groups of them, that take some; suites take
    # all.
    options: Mapping[str, tuple[str, ...]] = {}
    # Kinds of plans, which are keys of a suite's benches, with the functions of `plan.py` that make them.
    plans: Mapping[str, str] = {}
    # The module whose function of this name gives the modes and the planner of a model that options or its path make one of the kind; else None.
    planner_of: str = ""
    # The module whose function of this name gives, for a plan whose model is a folder, that of a model in it; None of folders of another kind.
    resolve_model: str = ""
    writers: Mapping[str, Writer] = {}  # by option
    # By the option of a gate that names a file of them, which is a key of a suite's benches too, what is measured in place of a model: the
    # module that has `candidate_of`, `baseline_of` and `is_for`, whether it has an option. The baseline's option is ``baseline-`` with it.
    candidates: Mapping[str, str] = {}
    # By a variable of the environment that asks for it: the module of the folder whose `take_report` gets every report, as Markdown.
    report_takers: Mapping[str, str] = {}
    passes: Mapping[str, Pass] = {}  # by option
    # Kinds of result files that no command reads, with what such a file is and who shows it.
    unread: Mapping[str, str] = {}
    views: Mapping[str, str] = {}  # of results in Python: the module of the folder that has a function of that name


@cache
def features() -> dict[str, Feature]:
    """The records of all features that are there, by the names of their folders."""
    folders = sorted(it.name for it in os.scandir(_FOLDER) if os.path.exists(f"{it.path}/__init__.py"))
    return {name: import_module(f"ortbench.features.{name}").FEATURE for name in folders}


def is_there(feature: str) -> bool:
    return feature in features()


def module_of(feature: str, module: str) -> str:
    return f"ortbench.features.{feature}.{module}"


def part_of(feature: str, module: str, name: str, default: Any = None) -> Any:
    """What a feature has by a name in one of its modules; `default` where it has no such module, or the module no such name."""
    return getattr(_module(module_of(feature, module)), name, default)


@cache
def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):  # it, or the folder
            return None
        raise


def hooks(name: str) -> Iterator[Callable[..., Any]]:
    """The functions of a name that features have in the modules that their records name for it."""
    for feature, record in features().items():
        if module := getattr(record, name):
            yield getattr(import_module(module_of(feature, module)), name)


@cache
def api() -> dict[str, str]:
    """What `import ortbench` has from features, with the modules that have it."""
    named = ((feature, name) for feature, record in features().items() for name in record.api)
    return {
        name: "ortbench.api.commands" if record_of(name).plan else module_of(feature, "api") for feature, name in named
    }


@cache
def commands() -> dict[str, Command]:
    """The commands of all features, with their modules' whole names; none of those that their plans say all of."""
    return {
        name: command._replace(module="" if command.plan else module_of(feature, command.module))
        for feature, record in features().items()
        for name, command in record.commands.items()
    }


def record_of(command: str) -> Command:
    """What a feature says of its command; of one of the core nothing."""
    return commands().get(command, Command("", 0, "", ""))


def exit_code(typed: Sequence[str], code: int) -> int:
    """With which code a command ends that came to a code."""
    record = record_of(typed[0] if typed else "")
    return import_module(record.module).__dict__[record.exit_code](typed, code) if record.exit_code else code


def plan_function(command: str, name: str) -> Callable[..., Any]:
    """The function of `plan.py` that the record of a command names."""
    feature = next(it for it, record in features().items() if command in record.commands)
    function: Callable[..., Any] = part_of(feature, "plan", name)
    return function


@cache
def requests() -> dict[str, str]:
    """The modules that answer requests to a worker, by request."""
    return {
        request: module_of(name, module)
        for name, record in features().items()
        for request, module in record.requests.items()
    }


@cache
def candidates() -> dict[str, str]:
    """The modules of what gates and suites can measure in place of a model, by the options that name it."""
    return {flag: module_of(name, it) for name, record in features().items() for flag, it in record.candidates.items()}


@cache
def stateless_requests() -> set[str]:
    return {request for record in features().values() for request in record.stateless_requests}


@cache
def writers() -> dict[str, Writer]:
    """Those of all features, by option, in the order of help."""
    found = [
        (flag, writer._replace(module=module_of(name, writer.module)))
        for name, record in features().items()
        for flag, writer in record.writers.items()
    ]
    return dict(sorted(found, key=lambda it: it[1].order))


@cache
def passes() -> dict[str, tuple[str, Pass]]:
    """Those of all features, by option, with the feature's name."""
    found = [(option, (name, it)) for name, record in features().items() for option, it in record.passes.items()]
    return dict(sorted(found, key=lambda it: it[1][1].order))


def unread_result(kind: object) -> str | None:
    """What a result file of a kind is, if no command reads it."""
    return next((it.unread[kind] for it in features().values() if isinstance(kind, str) and kind in it.unread), None)


def view(name: str) -> Callable[..., Any]:
    """The function of a feature that shows results in Python; `BadInput`: no feature has it."""
    for feature, record in features().items():
        if name in record.views:
            return function_of(module_of(feature, record.views[name]), name)
    raise BadInput(f"no feature is here that gives {name.replace('_', ' ')} results")


def function_of(module: str, name: str) -> Callable[..., Any]:
    """A function that is called as something that people type or see."""
    found: Callable[..., Any] = getattr(import_module(module), name.translate(str.maketrans("-. ", "___")))
    return found
