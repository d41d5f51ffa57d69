"""Options: each is declared once, on the field that it sets, and all else follows from that.

The signatures and the help of commands, a suite's keys, what is refused, what a result records as a setting and
`ortbench compare` calls a difference, and the documentation. Nothing here knows how a command line is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from functools import cache
from importlib import import_module
from keyword import iskeyword
from typing import Any, NamedTuple, TypeVar, cast

from ortbench.core import features
from ortbench.core.errors import BadInput
from ortbench.core.features import part_of
from ortbench.core.files import check_readable
from ortbench.model.settings import OF_SESSION, REPEATED, Listed, Setting, Several, split_lists
from ortbench.plan.option_types import SWITCH, TEXT, TEXTS, TIME, OptionType, or_default

# The panels, in the order in which help shows them.
RUNS, MODE, LOOP, LOAD, INPUT = "What runs", "Modes", "Loop", "Load", "Inputs"
MEASURED, COMPARED, LIMIT, BASELINE = "How it is measured", "What is compared", "Gate", "Baseline"
WRITTEN = "What is written"
OTHERS = "Options"  # the panel of those of one command
PANELS = (RUNS, MODE, LOOP, LOAD, INPUT, MEASURED, COMPARED, LIMIT, BASELINE, WRITTEN)
# Groups of commands that take the same options; a feature's command is in those whose last word its record has.
SINGLE = ("run", "single")  # the commands that measure single inferences
SESSIONS = (*SINGLE, "sessions")  # those that measure a model
LOADED = (*SESSIONS, "loaded")  # those and one that puts a load on it
OPENED = (*LOADED, "opened")  # those that open one
CHAINED = (*LOADED, "chained")  # those and the one that measures several models one after the other
IN_MODES = (*(it for it in CHAINED if it != "sessions"), "modes")  # those that measure modes of a session that is open
# Those in which the same options are `common`.
OFTEN = ("run", "often")
OF_CONFIGURATIONS = ("run", "side by side")  # those that measure several settings side by side
SHAPED = ("shaped",)  # those to which a list is of shapes
SHAPED_IN_PYTHON = "shaped in Python"  # the group of those to which it is in a call from Python
SEARCHES = "searches"  # the group of those that search settings, of lists among these values
PYTHON = "python"  # in `per`: what is declared otherwise for `import ortbench`
BASELINE_SET = "baseline-set"  # the option of a live gate that gives its baseline other values of options

RawOptions = Mapping[str, Any]  # by their long names without dashes the values of what was given, and no more
Check = Callable[[Any, str], None]  # of a value and its option's name
Choices = Sequence[str] | Callable[[], Sequence[str]]
Owner = type | Sequence[Any]  # a dataclass whose fields declare options, or owners and options


class Rules(NamedTuple):
    """Where an option is besides commands, and how its values come together there."""

    is_in_suites: bool = True
    is_in_python: bool = True  # `import ortbench` has it: its calls write and print nothing
    is_live_only: bool = False  # says how to measure, so that it is nothing for a result that has been measured
    is_in_baselines: bool = False  # the baseline of a live gate can have another one, by ``--baseline-set``
    is_of_shapes: bool = False  # says how inputs look, so that a sweep and a soak take several values, each for a shape
    is_of_one_ep: bool = False  # means something for the EP alone that it was given for
    replaces: tuple[
        str, ...
    ] = ()  # options that cannot be given with it; one of a suite's defaults gives way to it, and it to them


class Texts(NamedTuple):
    metavar: str  # what stands for its value
    help: str  # a sentence or two
    panel: str  # one of `PANELS`
    shown: str | None = None  # the default in words, where the field's says nothing
    short: str | None = None  # a name of one letter


class Takers(NamedTuple):
    """The commands that take an option."""

    commands: tuple[str, ...] = LOADED
    # those whose ``--help`` shows it; where there are many options, ``--help-all`` alone shows the others
    common: tuple[str, ...] = ()
    by_command: Mapping[str, Mapping[str, Any]] = {}  # what is declared otherwise there
    instead: Mapping[str, str] = {}  # by command that does not take it, what to do in its place


class Option(NamedTuple):
    flag: str  # its long name without the dashes; the key in a suite
    texts: Texts
    kind: OptionType = TEXT  # what it takes
    default: Any = None  # of its field
    check: Check | None = None  # refuses a value by itself
    most: int = 1_000_000_000  # of whole numbers
    alone: str = ""  # the value that it has where none follows; "" where one must
    # How `ortbench run` takes several values, each for a configuration of its own; None without.
    lists: Listed | None = None
    choices: Choices = ()  # all values that it can have; for completion alone those of which it can have others
    takers: Takers = Takers()
    rules: Rules = Rules()

    def with_values(self, **changes: Any) -> Option:
        """With other values of its fields, and of those of its parts."""
        parts: dict[str, Any] = {}
        for name, part in (("texts", self.texts), ("takers", self.takers), ("rules", self.rules)):
            own = {key: changes.pop(key) for key in part._fields if key in changes}
            parts[name] = part._replace(**own)
        return self._replace(**changes, **parts)

    @property
    def name(self) -> str:
        """As it is typed: ``--ep-option``; ``--baseline-set ep-option`` of a baseline's."""
        return f"--{self.flag.replace('.', ' ')}"

    @property
    def names(self) -> list[str]:
        """All that it is typed as: one that is on by default by ``--no-…`` too, and the short name."""
        long = f"{self.name}/--no-{self.flag}" if self.kind is SWITCH else self.name
        return [long, f"-{self.texts.short}"] if self.texts.short else [long]

    @property
    def parameter(self) -> str:
        name = self.flag.replace("-", "_")
        return f"{name}_" if iskeyword(name) else name

    @property
    def default_text(self) -> str | None:
        """The default as help shows it; None where there is nothing to say."""
        shown = self.texts.shown
        if shown is not None or self.default is None or self.default is False or self.default in ((), {}):
            return shown
        if self.default is True:
            return "on"
        unit = "s" if self.kind is TIME else ""
        return f"{self.default:g}{unit}" if isinstance(self.default, float) else str(self.default)

    @property
    def sentence(self) -> str:
        """Its help, with whether it may be given several times, and whether it takes a list."""
        listed, again = "", "Repeatable." if self.kind.repeatable else ""
        if self.lists is not None and self.lists.example:
            listed = f"A list ({self.lists.example}) is measured in turns."
        elif self.lists is REPEATED and self.kind.entries is not None:
            again = "Repeatable; several V of one K are measured in turns."
        return " ".join(filter(None, (self.texts.help, listed, again)))

    def is_taken_by(self, command: str) -> bool:
        return (
            not names_of(command).isdisjoint(self.takers.commands) or self.flag in features.record_of(command).options
        )

    def is_shown_by(self, command: str) -> bool:
        """Whether a command's ``--help`` shows it, also where there are many."""
        return not names_of(command).isdisjoint(self.takers.common)

    def for_command(self, command: str, one_result: bool = False) -> Option:
        """As a command has it, or a suite. `OF_CONFIGURATIONS` take lists of settings, `SHAPED` those of shapes, and a call from Python, which
        gives `one_result`, the latter alone."""
        names = names_of(command) | ({PYTHON} if one_result else set())
        changes: dict[str, Any] = {}
        for name in filter(names.__contains__, self.takers.by_command):
            changes |= self.takers.by_command[name]
        here = self.with_values(**(changes | {**features.record_of(command).options.get(self.flag, {})}))
        if here.lists is None:
            return here
        listed, takes_several = here.lists._replace(example=""), not names.isdisjoint(OF_CONFIGURATIONS)
        if here.rules.is_of_shapes and (not names.isdisjoint(SHAPED) or {PYTHON, SHAPED_IN_PYTHON} <= names):
            return here.with_values(
                help=f"{here.texts.help} Each of a list ({here.lists.example}) is a shape.", lists=listed
            )
        if here.rules.is_of_shapes and command == "suite":  # for its sweeps
            return here._replace(lists=listed)
        if one_result:
            return here._replace(lists=None)
        if here.lists is REPEATED and here.kind.entries is None and takes_several:
            return here.with_values(kind=TEXTS, help=f"{here.texts.help} Several take turns.")
        searches = SEARCHES in names and not here.rules.is_of_shapes
        if searches and here.lists is not REPEATED:
            told = f"{here.texts.help} Each of a list ({here.lists.example}) is tried."
            return here.with_values(help=told, kind=here.kind._replace(word=str), lists=listed)
        several = takes_several or (searches and here.kind.entries is not None)
        return here._replace(kind=here.kind._replace(word=str)) if several else here._replace(lists=None)

    def read(self, given: Any) -> Any:
        """The value, from what a command line gives; `BadInput`: it cannot be read, or two entries have one name."""
        entries = self.kind.entries
        if entries is None:
            if self.lists is None:
                return self.kind.parse(given, self.name)
            several = self.lists.each(given, given, self.name)
            return several[0] if len(several) == 1 else Several(several)
        found: dict[str, Any] = {}
        for word in (
            filter(None, given) if self.texts.panel == BASELINE else given
        ):  # an empty one leaves a baseline none
            name, text = entries.split(word, self.name)
            value = self.entry(name, text)
            if name in found and (self.lists is not REPEATED or value in split_lists(found[name])):
                raise BadInput(f"{self.name} {name}: was given twice; give it once", self.name)
            found[name] = Several((*split_lists(found[name]), value)) if name in found else value
        return found

    def entry(self, name: str, text: str) -> Any:
        """The value of an entry, from the text behind its name; `BadInput`: it cannot be read."""
        assert self.kind.entries is not None
        if not name:
            self.kind.entries.split(self.word(name, text), self.name)  # which refuses it
        texts = [text] if self.lists in (None, REPEATED) else self.lists.each(text, self.word(name, text), self.name)
        values = [self.kind.entries.item(name, it, self.name) for it in texts]
        return values[0] if len(values) == 1 else Several(values)

    def word(self, name: str, text: str) -> str:
        assert self.kind.entries is not None
        return f"{name}{self.kind.entries.joint}{text}"

    def text_of_entry(self, name: str, value: Any) -> str:
        """The text of an entry, from its value in TOML or Python; `BadInput`: there is no such value."""
        assert self.kind.entries is not None
        return self.kind.entries.text(name, value, self.name)


def names_of(command: str) -> set[str]:
    """A command, and the groups that its record says it is in."""
    return {command, *features.record_of(command).option_groups}


def new_option(flag: str, metavar: str, help: str, panel: str, kind: OptionType = TEXT, **more: Any) -> Option:
    """An option; for the arguments see `Option` and its parts."""
    if (choices := more.get("choices")) and not callable(choices):
        more.setdefault("check", one_of(choices))
    return Option(flag, Texts(metavar, help, panel), kind).with_values(**more)


def option(flag: str, metavar: str, help: str, panel: str, **more: Any) -> Any:
    """A dataclass's field that an option sets."""
    declared = new_option(flag, metavar, help, panel, **more)
    if isinstance(declared.default, dict):
        return field(default_factory=dict, metadata={"option": declared})
    return field(default=declared.default, metadata={"option": declared})


def declared_options(owner: type) -> dict[str, Option]:
    """The options that a dataclass declares, by the names of their fields."""
    return {it.name: it.metadata["option"] for it in fields(owner) if "option" in it.metadata}


def options_of(*owners: Owner) -> list[Option]:
    """The options of dataclasses, and those that are declared by themselves, each once."""
    found: dict[str, Option] = {}
    for owner in owners:
        if isinstance(owner, Option):
            own: Iterable[Option] = (owner,)
        elif isinstance(owner, type):
            parts = [it.metadata for it in fields(owner)]
            own = [it for part in parts for it in part.get("options", [part["option"]] if "option" in part else [])]
        else:
            own = options_of(*owner)
        for option in own:
            found.setdefault(option.flag, option)
    return list(found.values())


def baseline_option(one: Option) -> Option:
    """The option as the baseline of a live gate has it; an empty one gives it the default."""
    kind = one.kind if one.kind.entries else or_default(one.kind, one.default)
    texts = Texts(one.texts.metavar, one.texts.help, BASELINE)
    return Option(f"{BASELINE_SET}.{one.flag}", texts, kind, check=one.check, most=one.most, takers=Takers(("gate",)))


def collect_values(values: Sequence[tuple[Option, Any]]) -> dict[str, Any]:
    """What was given, by option; `BadInput`: options that exclude each other."""
    given: dict[str, Any] = {}
    for option, value in values:
        given |= value if option.kind.of_options else {option.flag: value}
    for option, _ in values:
        if not given.keys().isdisjoint(option.rules.replaces):
            others = " and ".join(f"--{other}" for other in option.rules.replaces)
            raise BadInput(f"{option.name} fixes how much is measured: leave {others} out", option.name)
    return given


def exclusions(options: Iterable[Option]) -> dict[str, set[str]]:
    """By option, those that cannot be given with it."""
    found: dict[str, set[str]] = {}
    for option in options:
        for other in option.rules.replaces:
            found.setdefault(option.flag, set()).add(other)
            found.setdefault(other, set()).add(option.flag)
    return found


T = TypeVar("T")


def build(owner: type[T], given: RawOptions, **more: Any) -> T:
    """An object of a dataclass with what was given of its options, and fields by their names; the rest has its defaults."""
    values = {name: given[it.flag] for name, it in declared_options(owner).items() if it.flag in given}
    for several in (it for it in fields(cast(Any, owner)) if "options" in it.metadata):
        values[several.name] = {it.flag: given[it.flag] for it in several.metadata["options"] if it.flag in given}
    return owner(**{**values, **more})


def check_values(values: Any) -> None:
    """Refuse what a dataclass's options may not be, each by itself; None is always allowed (`BadInput`)."""
    for name, option in declared_options(type(values)).items():
        value = getattr(values, name)
        if value is not None and option.kind.word is int and value > option.most:
            raise BadInput(f"{option.name}: at most {option.most:,}", option.name)
        if option.check is not None and value is not None:
            option.check(value, option.name)


def settings(values: Any, recorded: Sequence[Setting] = OF_SESSION) -> dict[str, Any]:
    """What a result records of the settings among a dataclass's options."""
    found, keys = {}, {it.option: it.key for it in recorded}
    for name, option in declared_options(type(values)).items():
        if option.flag in keys:
            value = getattr(values, name)
            kind = dict if isinstance(value, Mapping) else list if isinstance(value, tuple) else None
            found[keys[option.flag]] = value if kind is None else kind(value)
    return found


def at_least(low: float, reason: str) -> Check:
    """Of numbers: none below `low`, and none that is no number."""

    def check(value: Any, option: str) -> None:
        if not value >= low:
            raise BadInput(f"{option} {_number(value)}: {reason}", option)

    return check


not_negative = at_least(0, "cannot be negative")


def one_of(choices: Iterable[str]) -> Check:

    def check(value: Any, option: str) -> None:
        if value not in choices:
            raise BadInput(f"{option} {value!r}: choose from {', '.join(choices)}", option)

    return check


def is_text(value: Any, option: str) -> None:
    """Of what ONNX Runtime is given, paths and pairs."""
    for text in [f"{key}={item}" for key, item in value.items()] if isinstance(value, Mapping) else [value]:
        check_text(text, option, option)


def check_text(text: str, what: str, option: str | None = None) -> None:
    """Refuse what ONNX Runtime cannot be given: it takes UTF-8 alone, and a file's name can be any bytes; `BadInput`: bytes that
    are not UTF-8, which are lone surrogates here."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{what} is not UTF-8, and ONNX Runtime takes nothing else: {text}", option) from None


def is_file(value: str, option: str) -> None:
    check_readable(value, option)
    is_text(value, option)


def exists(value: str, option: str) -> None:
    check_readable(value, option, "file or folder", folders=True)


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


# The options of each command, and the plans of the kinds of features


# What declares the options of the core, in the order in which help shows them, and the commands that it is for; none: all.
_OF_CORE: dict[str, tuple[str, ...]] = {
    "plan.plan_builder:COMPARED": ("compare",),
    "plan.plan:PLAN": (),
    "plan.plan:OutputOptions": (),
}


@cache
def options_for(command: str) -> list[Option]:
    """The options that a command takes, as they are declared; `Option.for_command` has them as that command does."""
    of_core = [
        _attribute(*name.split(":")) for name, commands in _OF_CORE.items() if command in commands or not commands
    ]
    found: dict[str, Option] = {}
    for owner in (*owners_in_features(command), *of_core):
        for option in options_of(owner):
            if option.is_taken_by(command):
                found.setdefault(option.flag, option)
    return list(found.values())


@cache
def owners_in_features(command: str = "") -> list[Owner]:
    """What declares the options of features that a command takes; without one those of all."""
    return [
        _of_plan(name, owner)
        for name, record in features.features().items()
        for owner, commands in record.options.items()
        if not command or not names_of(command).isdisjoint(commands)
    ]


@cache
def plans_of_features() -> dict[str, Callable[..., Any]]:
    """By kind, the functions that make a plan from a model, options, the typed command and the modes that are needed."""
    return {
        kind: _of_plan(name, function)
        for name, record in features.features().items()
        for kind, function in record.plans.items()
    }


@cache
def limits_of_kinds() -> dict[str, tuple[str, Option]]:
    """The options of a gate that are limits of a feature's kind, with the kind."""
    tables = (
        (kind, part_of(name, "plan", "LIMITS", ()))
        for name, feature in features.features().items()
        for kind in feature.plans
    )
    return {it.flag: (kind, it) for kind, limits in tables for it in limits}


def flags_of_kinds() -> dict[str, set[str]]:
    """The options that only one kind of a feature has."""
    return {
        kind: {it.flag for owner in record.options for it in options_of(_of_plan(name, owner))}
        for name, record in features.features().items()
        for kind in record.plans
    }


def _of_plan(feature: str, name: str) -> Any:
    return _attribute(f"features.{feature}.plan", name)


def _attribute(module: str, name: str) -> Any:
    return getattr(import_module(f"ortbench.{module}"), name)
