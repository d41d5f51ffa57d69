"""What `ortbench tune` searches: settings, the values that make sense of each on a machine, and the plan of a configuration. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ortbench.core import units
from ortbench.core.errors import BadInput
from ortbench.features.load.model import OWN, PROCESS, SHARED
from ortbench.features.load.plan import AUTO, LoadPlan, load_of
from ortbench.features.tune.model import Configuration
from ortbench.model.modes import CPU
from ortbench.model.settings import Several
from ortbench.plan.option_types import PATH_OR_FOLDER, TIME
from ortbench.plan.options import MEASURED, WRITTEN, Option, RawOptions, build, option, options_of
from ortbench.plan.plan import NO_SPIN, Plan
from ortbench.plan.plan_builder import modes_to_measure, plan_of
from ortbench.plan.target import PARALLEL, Target

THREADS, SPINNING, EXECUTION, ARENA, PATTERN, OPTIMIZATION = (
    "intra-op-threads", "spinning", "execution-mode", "cpu-mem-arena", "mem-pattern", "opt-level"
)  # fmt: skip
WORKERS, SESSIONS, BACKOFF = "workers", "sessions", "backoff"
INTERACTING = (THREADS, SPINNING, EXECUTION, BACKOFF, WORKERS, SESSIONS)  # what each does depends on the others
_INTER = "inter-op-threads"
_CONFIG = "session-config"
_OPTIMIZATIONS = ("disable", "extended", "basic")  # what differs most comes first
_NO_SPINNING = "no spinning"
_SPINS_BETWEEN = "session.inter_op.allow_spinning"  # says nothing where operators run one after the other
_STOP = {"session.force_spinning_stop": "1"}
_SPINS = (NO_SPIN, _STOP)
# Entries that newer versions of ONNX Runtime have, with the values that are tried under load.
_SPIN_DURATION, _SPIN_BACKOFF = "session.intra_op.spin_duration_us", "session.intra_op.spin_backoff_max"
NEWER_ENTRIES = {_SPIN_DURATION: ("100", "1000"), _SPIN_BACKOFF: ("8",)}
_OF_LOAD = ("slo", "arrivals", "workers", "sessions")  # that nothing but a load has
_MOST_THREADS = 2  # of all sessions, times the cores: they are seldom all busy at the same time


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
    load: LoadPlan | None = None  # under which it is searched

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
        return (plan_of if self.load is None else load_of)(model, self.options(of), command)

    def is_idle(self, settings: Mapping[str, str], name: str) -> bool:
        """Whether a setting does nothing: nothing spins without threads that wait, parallel execution plans no allocations, and one worker has
        one session."""
        options = self.options(tuple(it for it in settings.items() if it[0] != name))
        parallel = options.get(EXECUTION) == PARALLEL
        if name in (SPINNING, BACKOFF):
            sleeps = name == BACKOFF and settings.get(SPINNING) == _NO_SPINNING
            return sleeps or (not parallel and options.get(THREADS, self.cores) == 1)
        return (name == PATTERN and parallel) or (name == SESSIONS and self._callers(options) == 1)

    def joined_settings(self, name: str, value: str) -> list[dict[str, str]]:
        """Parallel execution is also tried with so many threads in each operator as leave a core for every thread; and so are several workers,
        with a process or session each too, and sessions of several clients. Numbers of threads are also tried with a process each."""
        options = self.values[name][value]
        if name == THREADS:
            return [it for it in (self._value_name(SESSIONS, PROCESS),) if it]
        if name not in (EXECUTION, WORKERS) and (name != SESSIONS or self.load is None or self.load.is_open):
            return []
        several = int(options.get(_INTER, self.cores)) if name == EXECUTION else self._callers(options)
        found = self._value_name(THREADS, max(1, self.cores // several))
        kinds = (PROCESS, OWN) if name == WORKERS else ()
        apart = [{**found, **it} for it in (self._value_name(SESSIONS, kind) for kind in kinds) if it]
        return [it for it in (found, *apart) if it]

    def _value_name(self, setting: str, value: Any) -> dict[str, str]:
        """The setting with the name of a value that is tried of it; nothing where none is."""
        names = [name for name, it in self.values.get(setting, {}).items() if it.get(setting) == value]
        return {setting: names[0]} if names else {}

    def has_room(self, settings: Mapping[str, str]) -> bool:
        """Whether all sessions together have few enough threads for the cores."""
        options = self.options(tuple(settings.items()))
        if self.load is None or options.get(SESSIONS, self.load.sessions) == SHARED:
            return True
        return self._callers(options) * int(options.get(THREADS, self.cores)) <= _MOST_THREADS * self.cores

    def _callers(self, options: RawOptions) -> int:
        """How many inferences a load has at the same time, at most."""
        if self.load is None:
            return 1
        return int(options.get(WORKERS, self.load.workers)) if self.load.is_open else self.load.client_counts[0]


def space_of(given: RawOptions, cores: int, known_entries: Collection[str] = ()) -> Space:
    """The settings to search on a machine of so many cores, under load with a rate or clients. An option that is given is fixed; of a list
    these values are tried, from the first on. `known_entries` of `NEWER_ENTRIES` ONNX Runtime has. `BadInput`: several modes, or nothing to
    search."""
    fixed: dict[str, Any] = {"mode": (CPU,), **given}
    if len(modes_to_measure(fixed)) > 1:
        raise BadInput("--mode: one mode is tuned at a time, name one", "--mode")
    load = load_asked(given)
    threads: dict[str, RawOptions] = {f"{THREADS}={it}": {THREADS: it} for it in _counts(cores)}
    values = _session_settings(cores, threads) if load is None else _load_settings(load, cores, threads, known_entries)
    if _INTER in given:
        values.pop(EXECUTION, None)
    if {*given.get(_CONFIG, {})} & {*(key for it in _SPINS for key in it), _SPIN_DURATION}:
        values.pop(SPINNING, None)
    if _SPIN_BACKOFF in given.get(_CONFIG, {}):
        values.pop(BACKOFF, None)
    for known in options_of(Target, LoadPlan):
        if known.flag in given:
            values.pop(known.flag, None)
            values |= _listed_settings(known, given[known.flag], fixed)
    found = {name: of_it for name, of_it in values.items() if of_it}
    if not found:
        raise BadInput(
            "nothing to tune: every setting is given; leave some out, or give lists such as --opt-level basic,all"
        )
    return Space(fixed, found, cores, load)


def _session_settings(cores: int, threads: dict[str, RawOptions]) -> dict[str, dict[str, RawOptions]]:
    return {
        THREADS: threads,
        SPINNING: {_describe_entries(it): {_CONFIG: it} for it in _SPINS} if cores > 1 else {},
        EXECUTION: {f"{PARALLEL} {_INTER}={it}": {EXECUTION: PARALLEL, _INTER: it} for it in _counts(cores) if it > 1},
        ARENA: {f"no {ARENA}": {ARENA: False}},
        PATTERN: {f"no {PATTERN}": {PATTERN: False}},
        OPTIMIZATION: {f"{OPTIMIZATION}={it}": {OPTIMIZATION: it} for it in _OPTIMIZATIONS},
    }


def _load_settings(
    load: LoadPlan, cores: int, threads: dict[str, RawOptions], known_entries: Collection[str]
) -> dict[str, dict[str, RawOptions]]:
    spins = {_NO_SPINNING: NO_SPIN, "spin ends with run": _STOP}
    if _SPIN_DURATION in known_entries:
        spins |= {f"spin {it} µs": {_SPIN_DURATION: it} for it in NEWER_ENTRIES[_SPIN_DURATION]}
    backoffs = [it for it in NEWER_ENTRIES[_SPIN_BACKOFF] if _SPIN_BACKOFF in known_entries]
    workers = [it for it in _counts(cores) if it > 1] if load.is_open else []
    has_sessions = bool(workers) or (not load.is_open and load.client_counts[0] > 1)
    return {
        THREADS: {units.count(it[THREADS], "thread"): it for it in threads.values()},
        SPINNING: {name: {_CONFIG: it} for name, it in spins.items() if cores > 1},
        BACKOFF: {f"{BACKOFF} {it}": {_CONFIG: {_SPIN_BACKOFF: it}} for it in backoffs if cores > 1},
        WORKERS: {units.count(it, "worker"): {WORKERS: it} for it in workers},
        SESSIONS: {"processes": {SESSIONS: PROCESS}, "own sessions": {SESSIONS: OWN}} if has_sessions else {},
    }


def load_asked(given: RawOptions) -> LoadPlan | None:
    """The load under which settings are searched; None back to back. `BadInput`: several load points, or what says nothing without one."""
    rate, clients = given.get("rate"), given.get("concurrency")
    if rate is None and clients is None:
        for flag in _OF_LOAD:
            if flag in given:
                raise BadInput(f"--{flag}: is for a search under load; give --rate or --concurrency too", f"--{flag}")
        return None
    if rate is not None and clients is not None:
        raise BadInput(
            "--concurrency: settings are searched at one load point: leave it or --rate out", "--concurrency"
        )
    for flag, value in (("rate", rate), ("concurrency", clients)):
        if value == AUTO or (value is not None and len(value) > 1):
            raise BadInput(f"--{flag}: settings are searched at one load point: give one number", f"--{flag}")
    first = {flag: it[0] if isinstance(it, Several) else it for flag, it in given.items()}
    load = build(LoadPlan, {flag: first[flag] for flag in ("rate", "concurrency", *_OF_LOAD) if flag in first})
    if load.file is not None:
        raise BadInput("--arrivals: settings are searched with poisson or uniform arrivals", "--arrivals")
    return load


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
