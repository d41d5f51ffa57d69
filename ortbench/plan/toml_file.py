"""A suite's TOML file: its content, the line and key of every mistake in it, and what its tables say of options: layers, which are
laid over each other. Pure but for reading the file."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from ortbench.core.eps import NVIDIA_EPS, SHORT_NAMES
from ortbench.core.errors import BadInput
from ortbench.core.files import Kind, kind_of
from ortbench.plan.baseline import live_options, setting
from ortbench.plan.option_types import AMOUNTS, SWITCH, TEXT, WHOLE, text_of
from ortbench.plan.options import (
    BASELINE,
    BASELINE_SET,
    LIMIT,
    RUNS,
    Option,
    declared_options,
    exclusions,
    not_negative,
    option,
    options_for,
    options_of,
    owners_in_features,
)
from ortbench.plan.plan import PLAN, Plan

Where = tuple[str | int, ...]  # keys and indices from the top of the file


_MOST_BYTES = 4_000_000
# Of which tomllib takes a time that grows with the square of its parts.
_LONG_KEY = re.compile(r"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){100}")


class SuiteFile:
    """A TOML file that can say on which line something is; every other path in it is relative to its folder.

    `environ` is what ``${NAME}`` stands for, in any text. `data` is its content with that put in, `sha256` of its text, whatever
    its line ends. Raises `BadInput` where it cannot be read, is not TOML, or names a variable that is not set.
    """

    def __init__(self, path: Path, environ: Mapping[str, str]) -> None:
        self.path = path
        if kind_of(path) is Kind.DEVICE:
            raise BadInput(f"cannot read {path}: it is a device")
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES + 1)
            if len(content) > _MOST_BYTES:
                raise BadInput(f"{path} has more than {_MOST_BYTES:,} bytes, the most that is read")
            self._text = content.decode("utf-8-sig").replace("\r\n", "\n")
            if _LONG_KEY.search(self._text):
                raise BadInput(f"{path} has a key of more than 100 parts")
            data = tomllib.loads(self._text)
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from None
        except tomllib.TOMLDecodeError as error:
            raise BadInput(self._syntax(str(error))) from None
        except (ValueError, RecursionError):  # no UTF-8, a number of thousands of digits, lists in lists
            raise BadInput(f"{path} is not a TOML file") from None
        self.sha256 = hashlib.sha256(self._text.encode()).hexdigest()
        self.data: dict[str, Any] = self._with_variables(data, (), environ)

    def mistake(self, where: Where, message: str) -> BadInput:
        """The error for something in the file: its line, its key, and what is wrong with it."""
        return BadInput(f"{self.describe(where)}: {message}")

    def describe(self, where: Where) -> str:
        """The line and the key of something in the file, as a message begins with it."""
        return f"{self.path}:{self._line(where)}: {dotted_key(where)}"

    @contextmanager
    def blaming_key(self, where: Where) -> Iterator[None]:
        """Bad input inside the block is a mistake at this place; an option's name is not said twice."""
        try:
            yield
        except BadInput as error:
            raise self.mistake(where, error.bare) from None

    @contextmanager
    def blaming_option(self, keys: Mapping[str, Where], otherwise: Where) -> Iterator[None]:
        """Bad input inside the block is a mistake where the option that it names was given, or `otherwise`."""
        try:
            yield
        except BadInput as error:
            raise self.mistake(keys.get(error.option or "", otherwise), error.bare) from None

    def _syntax(self, message: str) -> str:
        found = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", message, re.DOTALL)
        if found:
            return f"{self.path}:{found[2]}: {found[1]}"
        return f"{self.path}:{len(self._text.splitlines())}: {message}"

    def _line(self, where: Where) -> int:
        """The line on which a key, or what holds it, begins."""
        return next((self._lines[key] for end in range(len(where), 0, -1) if (key := where[:end]) in self._lines), 1)

    @cached_property
    def _lines(self) -> dict[Where, int]:
        """The line on which the statement begins that gives each key.

        The parser keeps no lines. But any statement is a file in itself, below the header before it.
        """
        found: dict[Where, int] = {}
        last: dict[Where, int] = {}  # of each list of tables, the number of the last one
        lines, start = self._text.split("\n"), 0
        table: Where = ()
        for end, line in enumerate(lines, 1):
            if line.rstrip().endswith(",") and "#" not in line:  # a list goes on
                continue
            try:
                data = tomllib.loads("\n".join(lines[start:end]))
            except tomllib.TOMLDecodeError:
                continue  # ends inside a value that goes on
            if lines[start].lstrip().startswith("["):
                table = _header(data, last)
                for depth in range(len(table)):
                    found.setdefault(table[: depth + 1], start + 1)
            else:
                found |= {(*table, *where): start + 1 for where in _keys(data)}
            start = end
        return found

    def _with_variables(self, value: Any, where: Where, environ: Mapping[str, str]) -> Any:
        if isinstance(value, dict):
            return {key: self._with_variables(item, (*where, key), environ) for key, item in value.items()}
        if isinstance(value, list):
            return [self._with_variables(item, (*where, number), environ) for number, item in enumerate(value)]
        if not isinstance(value, str):
            return value

        def variable(match: re.Match[str]) -> str:
            if match[1] not in environ:
                raise self.mistake(where, f"the environment variable {match[1]} is not set")
            return environ[match[1]]

        return re.sub(r"\$\{(\w+)\}", variable, value)


def _header(data: Mapping[str, Any], last: dict[Where, int]) -> Where:
    """Where the keys behind a table's header belong; `last` is kept."""
    where: Where = ()
    node: Any = data
    while node:
        ((key, node),) = node.items()
        where = (*where, key)
        if isinstance(node, list):
            last[where], node = last.get(where, -1) + 1, node[0]
        if where in last:
            where = (*where, last[where])
    return where


def _keys(data: Any) -> Iterator[Where]:
    """All keys and indices in what a statement gives."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield (key,)
        if isinstance(value, (dict, list)):
            yield from ((key, *inner) for inner in _keys(value))


def dotted_key(where: Where) -> str:
    """A key as people write it: ``bench[0].gate.max-regression``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in where).removeprefix(".")


# What a case needs of a machine in a cluster, where a suite is spread over one

# A cluster hides all cards from their processes but those that a case was given. Others can see them all, so that a case has
# its machine to itself.
_ON_GIVEN_CARDS = {*NVIDIA_EPS, "MIGraphXExecutionProvider", "ROCMExecutionProvider"}
_COUNTED_OTHERWISE = {
    "CPU": "a case has all CPUs of its machine, or one CPU beside its GPUs",
    "GPU": "that is num-gpus",
}


def _resources(amounts: dict[str, float], option: str) -> None:
    for name in amounts.keys() & _COUNTED_OTHERWISE.keys():
        raise BadInput(f"{option} {name}: {_COUNTED_OTHERWISE[name]}; leave it out", option)


@dataclass(frozen=True)
class Needs:
    # GPUs that a case has to itself; None for one where its EP runs on one, else none
    gpus: int | None = option(
        "num-gpus", "N", "Give the case N GPUs to itself.", RUNS, kind=WHOLE, check=not_negative, commands=("suite",)
    )
    # of the cluster, and how much of each a case takes
    resources: dict[str, float] = option(
        "resources", "NAME=N", "Take this much of the cluster's resources.", RUNS, kind=AMOUNTS, default={},
        check=_resources, commands=("suite",),
    )  # fmt: skip


NEEDS = {it.flag: it for it in declared_options(Needs).values()}


@dataclass(frozen=True)
class Demand:
    gpus: int = 0  # cards; with none it takes every CPU, so that nothing else runs beside it
    resources: dict[str, float] = field(default_factory=dict)  # others by name

    def __str__(self) -> str:
        cards = [] if not self.gpus else ["a GPU" if self.gpus == 1 else f"{self.gpus} GPUs"]
        named = [f"{amount:g} {name}" for name, amount in sorted(self.resources.items())]
        return ", ".join([*cards, *named]) or "a CPU"


def demand_of(needs: Needs, plans: tuple[Plan, ...]) -> Demand:
    on_cards = any(SHORT_NAMES.get(it.ep, it.ep) in _ON_GIVEN_CARDS for plan in plans for it in plan.targets)
    return Demand(int(on_cards) if needs.gpus is None else needs.gpus, needs.resources)


# Layers


@dataclass(frozen=True)
class Value:
    given: Any
    where: Where


Layer = Mapping[str, Value | None]  # None takes back what an earlier layer gave

# The options of `ortbench run`, and what `ortbench gate` holds a candidate against; an EP is a case's own.
_IN_SUITES = [
    option
    for owner in (*PLAN, *owners_in_features())
    for option in options_of(owner)
    if option.rules.is_in_suites and option.texts.panel not in (LIMIT, BASELINE)
]
OPTIONS = {it.flag: it.for_command("suite") for it in options_of(*_IN_SUITES)}
# An SLO stays text until it is known whether it is that of a load or of a sweep.
OPTIONS |= {flag: it._replace(kind=TEXT) for flag, it in OPTIONS.items() if flag == "slo"}
GATE = {it.flag: it for it in options_for("gate") if it.rules.is_in_suites and it.texts.panel in (LIMIT, BASELINE)}
# A key of the table ``baseline-set`` is a layer's ``baseline-set.KEY``.
_LIVE = {it.flag: it for it in live_options()}
ALL = {**GATE, **_LIVE, **OPTIONS, **NEEDS}
_EXCLUDES = exclusions(ALL.values())
KEYS = (*OPTIONS, *NEEDS, "gate")  # of every table with options


class Tables:
    """Reads the tables of a file, which have some options; what is wrong in them is `BadInput` with its place."""

    def __init__(self, file: SuiteFile, options: Mapping[str, Option] = OPTIONS) -> None:
        self._file, self._options = file, options

    def table(self, value: Any, where: Where, known: Sequence[str] | None = None) -> dict[str, Any]:
        """A value that must be a table, of keys that are `known` where that is said here."""
        if not isinstance(value, dict):
            raise self._file.mistake(where, "must be a table")
        if known is not None:
            self.check_keys(value, where, known)
        return value

    def text(self, table: Mapping[str, Any], where: Where, key: str, default: str | None = None) -> str:
        with self._file.blaming_key((*where, key)):
            return text_of(table.get(key, default))

    def require_key(self, table: Mapping[str, Any], where: Where, key: str, hint: str) -> Where:
        if key not in table:
            raise self._file.mistake((*where, key), f"is missing: {hint}")
        return (*where, key)

    def tables(self, data: Mapping[str, Any], key: str) -> list[tuple[dict[str, Any], Where]]:
        found = data.get(key, [])
        if not isinstance(found, list):
            raise self._file.mistake((key,), f"must be written as [[{key}]]")
        return [(self.table(table, (key, number)), (key, number)) for number, table in enumerate(found)]

    def check_keys(self, table: Mapping[str, Any], where: Where, known: Sequence[str]) -> None:
        limits = [f"gate.{name}" for name in GATE] if "gate" in known else []  # one outside its gate is a likely slip
        for key in table:
            if key not in known:
                close = get_close_matches(key.replace("_", "-"), [*known, *limits], 1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                raise self._file.mistake((*where, key), f"no such key; {hint}")

    def layer(self, table: Mapping[str, Any], where: Where) -> dict[str, Value | None]:
        layer = self._values(table, where, {**self._options, **NEEDS})
        gate, inside = table.get("gate", {}), (*where, "gate")
        if gate is False:
            layer.update(dict.fromkeys([*GATE, *_LIVE]))
        else:
            layer.update(self._values(self.table(gate, inside, list(GATE)), inside, GATE))
        for key, known in self._options.items():
            if layer.get(key) and any(layer.get(other) for other in known.rules.replaces):
                message = f"fixes how much is measured: leave {' and '.join(known.rules.replaces)} out"
                raise self._file.mistake((*where, key), message)
        return layer

    def _values(self, table: Mapping[str, Any], where: Where, options: Mapping[str, Option]) -> dict[str, Value | None]:
        layer: dict[str, Value | None] = {}
        for key, value in table.items():
            if (option := options.get(key)) is None:
                continue
            if key == BASELINE_SET:
                layer |= self._set(value, (*where, key))
            elif value is False and option.kind is not SWITCH:
                layer[key] = None
            else:
                layer[key] = Value(self._read_value(option, value, (*where, key)), (*where, key))
        return layer

    def _set(self, value: Any, where: Where) -> dict[str, Value | None]:
        """What a baseline has of its own; false takes all of it back."""
        if value is False:
            return {flag: None for flag in _LIVE if flag.startswith(f"{BASELINE_SET}.")}
        layer: dict[str, Value | None] = {}
        for key, item in self.table(value, where).items():
            inside = (*where, key)
            with self._file.blaming_key(where):
                option = setting(key, "")
            layer[option.flag] = Value(self._read_value(option, item, inside), inside)
        return layer

    def _read_value(self, option: Option, value: Any, where: Where) -> Any:
        if option.kind.entries is None:
            with self._file.blaming_key(where):
                return option.read(option.kind.data(value, option.name))
        found = {}
        for name, item in self.table(value, where).items():
            with self._file.blaming_key((*where, name)):
                found[name] = option.entry(name, option.text_of_entry(name, item))
        return found


def keys_by_option(given: Mapping[str, Value], prefix: str = "") -> dict[str, Where]:
    """Where options are given, by their names as errors have them: those with a prefix, with it and without it."""
    own = {flag: value.where for flag, value in given.items() if flag.startswith(prefix)}
    # An EP can be a path.
    own = {**{f"{flag}-library": own[flag] for flag in ("ep", f"{BASELINE_SET}.ep") if flag in own}, **own}
    names = {name: where for flag, where in own.items() for name in (flag, re.sub(f"^{prefix}(set[.])?", "", flag))}
    return {f"--{name.replace('.', ' ')}": where for name, where in names.items()}


def merge_layers(layers: Sequence[Layer], options: Mapping[str, Option] = ALL) -> dict[str, Value]:
    """What holds when all layers are laid over each other, the last one on top."""
    found: dict[str, Value] = {}
    for layer in layers:
        for other in {other for key, value in layer.items() if value for other in _EXCLUDES.get(key, ())}:
            found.pop(other, None)  # of what excludes each other the later one holds
        for key, value in layer.items():
            option = options.get(key)
            if value is None:
                found.pop(key, None)
            elif key in found and option is not None and option.kind.entries is not None:
                found[key] = Value({**found[key].given, **value.given}, value.where)
            else:
                found[key] = value
    return found
