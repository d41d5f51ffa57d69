"""A search for the best settings while it goes on: the time that it has, the races that it holds, and what its folder has of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

from ortbench.core.errors import BenchmarkFailed
from ortbench.core.files import ModelFiles
from ortbench.core.stats import FEW
from ortbench.features.load.plan import LoadPlan, load_in
from ortbench.features.tune.analysis import FINALISTS, LOAD_FINALISTS, TOGETHER, Search
from ortbench.features.tune.model import FIRST, Configuration, Ratio, Tried, failed_try
from ortbench.features.tune.plan import Space, TuneOptions, name_of
from ortbench.jobs import Measured
from ortbench.jobs.run import measure, saving
from ortbench.measure.process import open_worker
from ortbench.measure.progress import TO_START
from ortbench.model.schema import Finding as FindingRecord
from ortbench.plan.plan import PROCESSES, Observer, Plan

if TYPE_CHECKING:
    from ortbench.features.tune.measure import InRace, Race

_LOAD_S = 5.0  # for which each of the best is measured under load, or for so many requests, which a p99 takes
_REQUESTS = 300
_FAST = 1000.0  # requests per second of clients, before any were measured
_COMMAND_S = 4.0  # that a command takes which measures one configuration, besides that time
_PART = 1 / 6  # of the time that all configurations would take, for which a search under load goes on at most
_LEAST_SHARE = 0.3  # of the requests of a race under load, where time is short
_RACE_S = 1.0  # for which a configuration is measured in a race, at most
_LEAST_RACE_S = 0.5  # and where there is no time for that
_LEAST_S = 1.0  # for which each of the best is measured at the end
_OPEN_S, _BLOCK_S = 1.5, 0.02  # that a configuration takes to open and prepare, and a block of it, before one did
_MORE = 1.5  # times as long as it had, a search is told to have at least, where that was too short
_SPARE = 1.25  # times what processes take by the races
PLANNED = 0.95  # of the time: workers end and reports are written in the rest
_FOR_BEST = 0.4  # of the whole time, what is kept for the best ones at most
TO_CHOOSE = 0.6  # of the time for the best ones, the part in which they are chosen


class Said(TypedDict):
    """What is best: by which figure, in a sentence, and where the configuration is better than the first its code."""

    goal: str
    configuration: str | None
    text: str
    python: list[str]
    cpp: list[str]


class Stored(TypedDict):
    """``tune.json``: what was searched of which model, what the races found, and what is best."""

    tool: str
    command: list[str]
    model: str
    sha256: str
    given: dict[str, str]  # options that all configurations have
    settings: dict[str, list[str]]  # and the values that were tried of each
    error_rate: float
    races: list[list[Tried]]
    best: list[Said]  # nothing before it is done
    findings: NotRequired[list[FindingRecord]]  # the same as facts


@dataclass
class Tuning:
    model: str
    space: Space
    command: tuple[str, ...]
    search: Search
    began: float  # by `time.monotonic`, as `ends`
    ends: float
    open_s: float = _OPEN_S  # that a configuration takes to open and prepare
    block_s: float = _BLOCK_S  # and a block of it
    files: ModelFiles = field(init=False)
    together: int = TOGETHER  # whose sessions are open at the same time, at most
    compared: list[str] = field(default_factory=list)  # by name, among which the best were chosen
    is_short: bool = True  # whether the time that was given ends it

    def __post_init__(self) -> None:
        self.files = ModelFiles([self.model])

    def plan(self, of: Configuration) -> Plan:
        return self.space.plan(self.model, of, self.command)

    @property
    def race_s(self) -> float:
        """For how long a configuration is measured in a race, at most."""
        return _RACE_S

    @property
    def least_race_s(self) -> float:
        """And where there is no time for that."""
        return _LEAST_RACE_S

    def plan_of_race(self, of: Configuration, race_s: float) -> Plan:
        plan = self.plan(of)
        return replace(plan, loop=replace(plan.loop, duration_s=race_s, precision=None, phases=("latency",)))

    def new_race(self, race_s: float) -> tuple[Race, type[InRace]]:
        """A race, and what takes part in it."""
        from ortbench.features.tune.measure import Race, Racer

        return Race(self.search.alpha, time.monotonic() + self.left_s()), Racer

    def left_s(self) -> float:
        """The time for races, which leaves some to measure the best ones."""
        return self.ends - time.monotonic() - min(self.last_s, (self.ends - self.began) * _FOR_BEST)

    def processes_s(self, processes: int) -> float:
        """For how long a configuration is measured, to be measured in so many processes."""
        from ortbench.measure.progress import duration_for

        return _SPARE * duration_for(processes, self.open_s, self.block_s)

    @property
    def weigh_s(self) -> float:
        """What the memory of a configuration takes: `FEW` workers, and one for its arenas."""
        return (FEW + 1) * self.open_s

    @property
    def most_s(self) -> float:
        """For how long each of the best is measured, if there is time: unless that is given, long enough for `PROCESSES`."""
        asked_s = self.plan(FIRST).loop.duration_s
        return asked_s if "duration" in self.space.given else max(asked_s, self.processes_s(PROCESSES))

    @property
    def least_s(self) -> float:
        """And where there is less: long enough for `FEW`."""
        return min(self.most_s, max(_LEAST_S, self.processes_s(FEW)))

    @property
    def last_s(self) -> float:
        """What it takes to choose among the best ones and to measure them."""
        return self.last_of_s(self.most_s)

    def last_of_s(self, each_s: float) -> float:
        """The same where each of the best is measured for so long."""
        return (FINALISTS + 3) / TO_CHOOSE * (self.open_s + each_s + self.weigh_s)

    def needed_s(self, each_s: float) -> float:
        """The `--max-time` in which all that is known now can be tried and each of the best measured for so long, whole 10 s; the
        usual one where no race has said how long that takes."""
        tried = [*self.search.candidates()[1:], *(it for race in self.search.races for it in race)]
        known_s = (len(tried) * (self.open_s + self.race_s) + self.last_of_s(each_s)) / PLANNED
        found_s = known_s if self.search.races else TuneOptions().max_time_s
        return math.ceil(max(found_s, _MORE * (self.ends - self.began)) / 10) * 10


class LoadTuning(Tuning):
    """The same under load, where the best are measured once and for as long as a p99 takes."""

    @property
    def load(self) -> LoadPlan:
        return load_in(self.plan(FIRST))

    @property
    def rate(self) -> float:
        """About how many requests come per second."""
        return self.load.rates[0] if self.load.is_open else _FAST

    @property
    def race_s(self) -> float:
        from ortbench.features.tune.measure import race_s

        return race_s(self.rate)

    @property
    def least_race_s(self) -> float:
        return self.race_s * _LEAST_SHARE

    def plan_of_race(self, of: Configuration, race_s: float) -> Plan:
        plan = self.plan(of)
        return replace(plan, loop=replace(plan.loop, duration_s=race_s, processes=1))

    def new_race(self, race_s: float) -> tuple[Race, type[InRace]]:
        from ortbench.features.tune.measure import LoadRace, LoadRacer

        share = race_s / self.race_s
        return LoadRace(time.monotonic() + self.left_s(), self.load.slo or {}, share), LoadRacer

    @property
    def most_s(self) -> float:
        asked_s = self.load.duration_s
        return max(_LOAD_S, _REQUESTS / self.rate) if asked_s is None else asked_s

    @property
    def least_s(self) -> float:
        return min(self.most_s, _LEAST_S)

    def last_of_s(self, each_s: float) -> float:
        return LOAD_FINALISTS * (self.open_s + each_s * (1 + TO_START))

    def left_s(self) -> float:
        return self.ends - time.monotonic() - min(self.last_s, (self.ends - self.began) / 2)

    @property
    def enough_s(self) -> float:
        """A part of the time that all configurations would take; where these are few, as long as one race and the best ones take."""
        every_s = len(self.search.every()) * (_COMMAND_S + self.most_s)
        return max(_PART * every_s, self.last_s + TOGETHER * (self.open_s + self.race_s))


def hold_race(now: Tuning, configurations: Sequence[Configuration], told: Observer) -> list[Tried] | None:
    """What a race finds of configurations, the first of which must open; None where it was interrupted."""
    began = time.monotonic()
    race_s = min(now.race_s, max(now.least_race_s, now.left_s() / len(configurations) - now.open_s))
    plans = [now.plan_of_race(it, race_s) for it in configurations]
    names = [name_of(it) for it in configurations]
    client = open_worker(plans[0])

    from ortbench.measure.driver import Driver

    with saving(client, None, observer=told):
        race, racer_class = now.new_race(race_s)
        clients = [client, *[None] * (len(plans) - 1)]
        racers = [racer_class(*of, name=name, race=race) for *of, name in zip(plans, clients, names, strict=True)]
        driver = Driver(racers, race.schedule, told)
        driver.run()
    now.files.check()
    if driver.interrupted:
        return None
    why = {racer.name: str(error) for racer, error in driver.not_opened}
    if names[0] in why:
        raise BenchmarkFailed(why[names[0]])
    raced = {racer.name: racer for racer in racers if racer.is_open}
    now.open_s = (race.opened - began) / len(raced)
    now.block_s = race.block_s if math.isfinite(race.block_s) else _BLOCK_S
    found: list[Tried] = []
    for name, of in zip(names, configurations, strict=True):
        if name not in raced and name not in why:  # there was no time to open it
            continue
        reason = raced[name].failure if name in raced else why[name]
        if reason is not None and of == configurations[0]:
            raise BenchmarkFailed(f"{name}: {reason}")
        if name in why and len(names) > 2:  # maybe there was no room for all: once more, beside fewer
            now.together = len(names) // 2
            continue
        if reason is not None:
            found.append(failed_try(of, reason))
            continue
        known = {goal: race.outcome.ratio(goal, name, names[0]) for goal in race.goals}
        ratios = {goal: cast(Ratio, it._asdict()) for goal, it in known.items() if it is not None}
        left = [goal for goal in race.goals if name in race.outcome.candidates(goal)]
        tried = Tried(
            settings=[list(it) for it in of], ratios=ratios, left=left, memory=raced[name].memory, failed=None
        )
        found.append({**tried, "violates": True} if name in race.violating else tried)
    return found


def measure_in_turns(
    now: Tuning, chosen: Sequence[Configuration], folder: Path, told: Observer, part: float = 1.0
) -> Measured:
    """Configurations in turns and for no longer than a part of the time that is left, with memory where that leaves time for it: in
    several processes all of it, where one can be."""
    each_s = part * (now.ends - time.monotonic()) / len(chosen) - now.open_s
    memory = each_s - now.weigh_s >= now.least_s
    each_s = max(_LEAST_S, each_s - memory * now.weigh_s)
    plans = [replace(now.plan(it), passes={"measure-memory": FEW * memory}) for it in chosen]
    loops = [replace(it.loop, duration_s=min(now.most_s, each_s), precision=None) for it in plans]
    plans = [replace(it, loop=loop) for it, loop in zip(plans, loops, strict=True)]
    return measure(plans, lambda: folder, names_of(chosen), observer=told)


def measure_under_load(now: Tuning, folder: Path, told: Observer) -> Measured:
    """The best ones under load, in turns, for as long as a p99 takes or as the time that is left allows."""
    chosen = now.search.finalists_under_load()
    each_s = ((now.ends - time.monotonic()) / len(chosen) - now.open_s) / (1 + TO_START)
    plans = [now.plan(it) for it in chosen]
    each_s = min(now.most_s, max(_LEAST_S, each_s))
    plans = [replace(plan, part=replace(load_in(plan), duration_s=each_s)) for plan in plans]
    return measure(plans, lambda: folder, names_of(chosen), observer=told)


def names_of(chosen: Sequence[Configuration]) -> list[str]:
    return [name_of(it) for it in chosen] if len(chosen) > 1 else []  # one alone is a run like any other
