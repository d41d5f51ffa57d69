"""What the tables of a suite say of options: layers, which are laid over each other. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ortbench.gate.baseline import LIVE_BASELINE, STORED_BASELINE
from ortbench.gate.limits import Limits
from ortbench.plan.load_plan import LoadPlan
from ortbench.plan.option_types import TEXT
from ortbench.plan.options import Option, options_of
from ortbench.plan.plan import PLAN
from ortbench.plan.sweep_plan import IN_SUITES
from ortbench.suite.needs import NEEDS
from ortbench.suite.toml_file import SuiteFile, Where


@dataclass(frozen=True)
class Value:
    """An option's value, and where the file gives it."""

    given: Any
    where: Where


Layer = Mapping[str, Value | None]  # None takes back what an earlier layer gave

# The options of `ortbench run`, and what `ortbench gate` holds a candidate against; an EP is a case's own.
LOADS = tuple(it for it in options_of(LoadPlan) if it.suite)
OPTIONS = {it.flag: it.of("suite") for it in options_of(*PLAN, LOADS, IN_SUITES) if it.suite}
# An SLO stays text until it is known whether it is that of a load or of a sweep.
OPTIONS["slo"] = OPTIONS["slo"]._replace(kind=TEXT)
GATE = {it.flag: it for it in options_of(Limits, STORED_BASELINE, LIVE_BASELINE) if it.suite}
ALL = {**GATE, **OPTIONS, **NEEDS}
KEYS = (*OPTIONS, *NEEDS, "gate")  # of every table with options


class Tables:
    """Reads the tables of a suite's file, which have some options; what is wrong in them is `BadInput` with its
    place."""

    def __init__(self, file: SuiteFile, options: Mapping[str, Option] = OPTIONS) -> None:
        self._file, self._options = file, options

    def table(self, value: Any, where: Where) -> dict[str, Any]:
        """Refuse what is no table."""
        if not isinstance(value, dict):
            raise self._file.mistake(where, "must be a table")
        return value

    def tables(self, data: Mapping[str, Any], key: str) -> list[tuple[dict[str, Any], Where]]:
        """Every ``[[key]]``, and where it is."""
        found = data.get(key, [])
        if not isinstance(found, list):
            raise self._file.mistake((key,), f"must be written as [[{key}]]")
        return [(self.table(table, (key, number)), (key, number)) for number, table in enumerate(found)]

    def known(self, table: Mapping[str, Any], where: Where, known: Sequence[str]) -> None:
        """Refuse keys that do nothing."""
        limits = [f"gate.{name}" for name in GATE] if "gate" in known else []  # one outside its gate is a likely slip
        for key in table:
            if key not in known:
                close = get_close_matches(key.replace("_", "-"), [*known, *limits], 1)
                hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                raise self._file.mistake((*where, key), f"no such key; {hint}")

    def layer(self, table: Mapping[str, Any], where: Where) -> dict[str, Value | None]:
        """The options and limits of a table."""
        layer = self._values(table, where, {**self._options, **NEEDS})
        gate, place = table.get("gate", {}), (*where, "gate")
        if gate is False:
            layer.update(dict.fromkeys(GATE))
        else:
            self.known(self.table(gate, place), place, list(GATE))
            layer.update(self._values(gate, place, GATE))
        if layer.get("iterations") and (layer.get("duration") or layer.get("precision")):
            message = "fixes how much is measured: leave duration and precision out"
            raise self._file.mistake((*where, "iterations"), message)
        return layer

    def _values(self, table: Mapping[str, Any], where: Where, options: Mapping[str, Option]) -> dict[str, Value | None]:
        return {
            key: None if value is False else Value(self._given(options[key], value, (*where, key)), (*where, key))
            for key, value in table.items()
            if key in options
        }

    def _given(self, option: Option, value: Any, place: Where) -> Any:
        if option.kind.entries is None:
            with self._file.at(place):
                return option.read(option.kind.data(value, option.name))
        found = {}
        for name, item in self.table(value, place).items():
            with self._file.at((*place, name)):
                found[name] = option.entry(name, option.text_of_entry(name, item))
        return found


def places_of(given: Mapping[str, Value], prefix: str = "") -> dict[str, Where]:
    """Where options are given, by their names as errors have them: those with a prefix, with it and without it."""
    own = {flag: value.where for flag, value in given.items() if flag.startswith(prefix)}
    own = {
        **{f"{flag}-library": own[flag] for flag in ("ep", "baseline-ep") if flag in own},
        **own,
    }  # an EP can be a path
    return {f"--{name}": where for flag, where in own.items() for name in (flag, flag.removeprefix(prefix))}


def merged(layers: Sequence[Layer], options: Mapping[str, Option] = ALL) -> dict[str, Value]:
    """What holds when all layers are laid over each other, the last one on top."""
    found: dict[str, Value] = {}
    for layer in layers:
        # A number of iterations and a time to stop at exclude each other: the later one holds.
        if layer.get("iterations"):
            found.pop("duration", None)
            found.pop("precision", None)
        if layer.get("duration") or layer.get("precision"):
            found.pop("iterations", None)
        for key, value in layer.items():
            option = options.get(key)
            if value is None:
                found.pop(key, None)
            elif key in found and option is not None and option.kind.entries is not None:
                found[key] = Value({**found[key].given, **value.given}, value.where)
            else:
                found[key] = value
    return found
