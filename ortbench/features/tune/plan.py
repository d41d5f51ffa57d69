"""What `ortbench tune` searches: settings, the values that make sense of each on a machine, and the plan of a configuration. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.features.tune.model import Configuration
from ortbench.model.modes import CPU
from ortbench.model.settings import Several
from ortbench.plan.option_types import PATH_OR_FOLDER, TIME
from ortbench.plan.options import MEASURED, WRITTEN, Option, RawOptions, option, options_of
from ortbench.plan.plan import NO_SPIN, Plan
from ortbench.plan.plan_builder import modes_to_measure, plan_of
from ortbench.plan.target import PARALLEL, Target

THREADS, SPINNING, EXECUTION, ARENA, PATTERN, OPTIMIZATION = (
    "intra-op-threads", "spinning", "execution-mode", "cpu-mem-arena", "mem-pattern", "opt-level"
)  # fmt: skip
INTERACTING = (THREADS, SPINNING, EXECUTION)  # what each does depends on the others
_INTER = "inter-op-threads"
_CONFIG = "session-config"
_OPTIMIZATIONS = ("disable", "extended", "basic")  # what differs most comes first
_NO_SPINNING = "no spinning"
_SPINS_BETWEEN = "session.inter_op.allow_spinning"  # says nothing where operators run one after the other
_SPINS = (NO_SPIN, {"session.force_spinning_stop": "1"})


@dataclass(frozen=True)
class TuneOptions:
    max_time_s: float = option(
        "max-time", "TIME", "Search for at most TIME.", MEASURED, kind=TIME, default=300.0, shown="5min", commands=("tune",),
        common=("tune",), is_in_suites=False,
    )  # fmt: skip
    resume: Any = option(
        "resume", "DIR", "Continue the interrupted search in this folder.", WRITTEN, kind=PATH_OR_FOLDER, commands=("tune",),
        common=("tune",), is_in_suites=False,
    )  # fmt: skip


@dataclass(frozen=True)
class Space:
    given: RawOptions  # what all configurations have
    # of each setting the options that each value but the first sets; a value is called as it is shown
    values: Mapping[str, Mapping[str, RawOptions]]
    cores: int  # that the machine has for it

    @property
    def names(self) -> dict[str, list[str]]:
        return {name: list(values) for name, values in self.values.items()}

    def options(self, of: Configuration) -> RawOptions:
        made: dict[str, Any] = dict(self.given)
        for name, value in of:
            for flag, one in self.values[name][value].items():
                made[flag] = {**made.get(flag, {}), **one} if isinstance(one, Mapping) else one
        if made.get(EXECUTION) != PARALLEL and dict(of).get(SPINNING) == _NO_SPINNING:
            made[_CONFIG] = {key: value for key, value in made[_CONFIG].items() if key != _SPINS_BETWEEN}
        return made

    def plan(self, model: str, of: Configuration, command: tuple[str, ...]) -> Plan:
        return plan_of(model, self.options(of), command)

    def is_idle(self, settings: Mapping[str, str], name: str) -> bool:
        """Whether a setting does nothing: nothing spins without threads that wait, and parallel execution plans no allocations."""
        options = self.options(tuple(it for it in settings.items() if it[0] != name))
        parallel = options.get(EXECUTION) == PARALLEL
        if name == SPINNING:
            return not parallel and options.get(THREADS, self.cores) == 1
        return name == PATTERN and parallel

    def joined_settings(self, name: str, value: str) -> dict[str, str]:
        """Parallel execution is also tried with so many threads in each operator as leave a core for every thread."""
        if name != EXECUTION:
            return {}
        each = str(max(1, self.cores // int(self.values[name][value].get(_INTER, self.cores))))
        found = f"{THREADS}={each}"
        return {THREADS: found} if found in self.values.get(THREADS, {}) else {}


def space_of(given: RawOptions, cores: int) -> Space:
    """The settings to search on a machine of so many cores. An option that is given is fixed; of a list these values are tried, from
    the first on. `BadInput`: several modes, or nothing to search."""
    fixed: dict[str, Any] = {"mode": (CPU,), **given}
    if len(modes_to_measure(fixed)) > 1:
        raise BadInput("--mode: one mode is tuned at a time, name one", "--mode")
    values: dict[str, dict[str, RawOptions]] = {
        THREADS: {f"{THREADS}={it}": {THREADS: it} for it in _counts(cores)},
        SPINNING: {_describe_entries(it): {_CONFIG: it} for it in _SPINS} if cores > 1 else {},
        EXECUTION: {f"{PARALLEL} {_INTER}={it}": {EXECUTION: PARALLEL, _INTER: it} for it in _counts(cores) if it > 1},
        ARENA: {f"no {ARENA}": {ARENA: False}},
        PATTERN: {f"no {PATTERN}": {PATTERN: False}},
        OPTIMIZATION: {f"{OPTIMIZATION}={it}": {OPTIMIZATION: it} for it in _OPTIMIZATIONS},
    }
    if _INTER in given:
        values.pop(EXECUTION)
    if {*given.get(_CONFIG, {})} & {key for it in _SPINS for key in it}:
        values.pop(SPINNING)
    for known in options_of(Target):
        if known.flag in given:
            values.pop(known.flag, None)
            values |= _listed_settings(known, given[known.flag], fixed)
    found = {name: of_it for name, of_it in values.items() if of_it}
    if not found:
        raise BadInput(
            "nothing to tune: every setting is given; leave some out, or give lists such as --opt-level basic,all"
        )
    return Space(fixed, found, cores)


def _counts(cores: int) -> list[int]:
    """1, 2, 4 … and all cores."""
    return sorted({1 << bit for bit in range(cores.bit_length())} | {cores})


def _describe_entries(entries: Mapping[str, str]) -> str:
    return _NO_SPINNING if entries == NO_SPIN else " ".join(f"{key}={value}" for key, value in entries.items())


def _listed_settings(option: Option, value: Any, fixed: dict[str, Any]) -> dict[str, dict[str, RawOptions]]:
    """The settings that a given option makes of its lists; `fixed` is left with the first value of each."""
    if isinstance(value, Several):
        fixed[option.flag] = value[0]
        return {option.flag: {f"{option.flag}={one}": {option.flag: one} for one in value[1:]}}
    found: dict[str, dict[str, RawOptions]] = {}
    if isinstance(value, Mapping):
        fixed[option.flag] = {key: one[0] if isinstance(one, Several) else one for key, one in value.items()}
        for key, several in value.items():
            if isinstance(several, Several):
                found[key] = {f"{key}={one}": {option.flag: {key: one}} for one in several[1:]}
    return found


def name_of(of: Configuration) -> str:
    """What a configuration is called: that in which it differs from the first."""
    return " + ".join(value for _, value in of) or "default"
