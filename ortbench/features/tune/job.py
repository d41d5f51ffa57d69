"""What `ortbench tune` does: race configurations until none is faster, measure the fastest side by side, and once more those that
came out as best.

The folder of a search has ``tune.json`` from its first race on: what is searched, and what each race found. An interrupted search
goes on from there; its last race, which was not over, begins anew.
"""

from __future__ import annotations

import glob
import math
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

from ortbench.core import __version__, output
from ortbench.core.errors import INTERRUPTED, BadInput, BenchmarkFailed, OrtbenchError
from ortbench.core.files import ModelFiles, write_or_note
from ortbench.core.parts import text
from ortbench.core.safe_text import complain
from ortbench.core.stats import FEW
from ortbench.core.units import at_most, count
from ortbench.features.tune.analysis import ALPHA, FINALISTS, GOALS, TOGETHER, Search
from ortbench.features.tune.model import FIRST, Configuration, Ratio, Tried, failed_try
from ortbench.features.tune.plan import INTERACTING, Space, TuneOptions, name_of, space_of
from ortbench.jobs.publishing import Measured, check_wanted
from ortbench.jobs.run import measure, observer_for, publish_configurations, saving
from ortbench.measure.environment import free_memory, usable_cores
from ortbench.measure.process import open_worker
from ortbench.model.result import OK
from ortbench.model.result_file import discard_if_empty, new_folder
from ortbench.model.schema import Finding as FindingRecord
from ortbench.plan.options import RawOptions, options_of
from ortbench.plan.plan import PLAN, PROCESSES, Observer, OutputOptions, Plan, check
from ortbench.plan.plan_builder import run_name

if TYPE_CHECKING:
    from ortbench.facts.common import Fact

TUNE_FILE = "tune.json"
_SHOWN = ("latency", "cpu_time", "host_memory")  # of the best ones
_COPIES = 3  # of a model's files that a session has in memory, before one was measured
_RACE_S = 1.0  # for which a configuration is measured in a race, at most
_LEAST_RACE_S = 0.5  # and where there is no time for that
_LEAST_S = 1.0  # for which each of the best is measured at the end
_OPEN_S, _BLOCK_S = 1.5, 0.02  # that a configuration takes to open and prepare, and a block of it, before one did
_MORE = 1.5  # times as long as it had, a search is told to have at least, where that was too short
_SPARE = 1.25  # times what processes take by the races
_PLANNED = 0.95  # of the time: workers end and reports are written in the rest
_FOR_BEST = 0.4  # of the whole time, what is kept for the best ones at most
_TO_CHOOSE = 0.6  # of the time for the best ones, the part in which they are chosen


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


class _Whole(Observer):
    """Tells how long the whole search still takes, whichever race goes on."""

    def __init__(self, told: Observer, ends: float) -> None:
        self._told, self._ends = told, ends
        self.shows_estimates = told.shows_estimates

    def stage(self, text: str) -> None:
        self._told.stage(text)

    def show_time_left(self, seconds: float) -> None:
        self._told.show_time_left(max(0.0, self._ends - time.monotonic()))


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

    def __post_init__(self) -> None:
        self.files = ModelFiles([self.model])

    def plan(self, of: Configuration) -> Plan:
        return self.space.plan(self.model, of, self.command)

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
        return (FINALISTS + 3) / _TO_CHOOSE * (self.open_s + each_s + self.weigh_s)

    def needed_s(self, each_s: float) -> float:
        """The `--max-time` in which all that is known now can be tried and each of the best measured for so long, whole 10 s; the
        usual one where no race has said how long that takes."""
        tried = [*self.search.candidates()[1:], *(it for race in self.search.races for it in race)]
        known_s = (len(tried) * (self.open_s + _RACE_S) + self.last_of_s(each_s)) / _PLANNED
        found_s = known_s if self.search.races else TuneOptions().max_time_s
        return math.ceil(max(found_s, _MORE * (self.ends - self.began)) / 10) * 10


def tune(model: str, given: RawOptions, asked: TuneOptions, command: tuple[str, ...], wanted: OutputOptions) -> int:
    space = space_of(given, usable_cores() or 1)
    check_wanted(wanted)
    search = Search(space.names, space.is_idle, space.joined_settings, INTERACTING)
    first = space.plan(model, FIRST, command)
    check(first)
    if first.target.optimized_model is not None:
        raise BadInput("--optimized-model: every configuration would write it: leave it out", "--optimized-model")
    began = time.monotonic()
    now = Tuning(model, space, command, search, began, began + asked.max_time_s * _PLANNED)
    stored = _stored_search(now)
    folder = (
        _resume_search(asked.resume, stored, search)
        if asked.resume
        else new_folder(wanted.out, run_name([first], "tune"))
    )
    _save(folder, stored)
    output.keep_in(folder)
    told = f"{count(sum(map(len, space.names.values())), 'value')} of settings"
    if not wanted.quiet:
        complain(
            f"tuning {told} takes {at_most(asked.max_time_s)} at most (--max-time); --resume {folder} goes on if it is interrupted"
        )
    try:
        done = _search_best(now, stored, folder, wanted.quiet)
    except KeyboardInterrupt:  # while models were opened
        done = None
    except OrtbenchError:
        if not stored["races"]:  # there is nothing to go on from
            (folder / TUNE_FILE).unlink(missing_ok=True)
            output.discard(folder)
            discard_if_empty(folder)
        raise
    if done is None or done.interrupted:
        complain(f"interrupted: the same command with --resume {folder} goes on")
        return INTERRUPTED
    return _publish(now, done, stored, folder, wanted)


def _search_best(now: Tuning, stored: Stored, folder: Path, quiet: bool) -> Measured | None:
    """The best ones measured, when races have found them; None where one was interrupted."""
    with ExitStack() as stack:
        seen = observer_for(stack, quiet)
        whole = _Whole(seen, now.ends) if seen is not None and sys.stderr.isatty() else Observer()
        while len(found := _next(now)) > 1:
            race = _race(now, found, whole)
            if race is None:
                return None
            now.search.tell(race)
            _save(folder, stored)
        return _measure_best(now, folder, whole)


def _next(now: Tuning) -> list[Configuration]:
    """What is raced next: as many as can be open at the same time, and as there is time for."""
    fitting = min(now.together, _room(now), int(now.left_s() / (now.open_s + _LEAST_RACE_S)))
    return now.search.candidates()[: max(1, fitting)]


def _room(now: Tuning) -> int:
    """How many sessions have room in the host's memory: by what those before took, or by the model's files."""
    model = Path(now.model)
    files = sum(it.stat().st_size for it in model.parent.glob(f"{glob.escape(model.name)}*") if it.is_file())
    each = max([_COPIES * files, 1, *now.search.memory.values()])
    return max(2, free_memory() // each)


def _race(now: Tuning, configurations: Sequence[Configuration], told: Observer) -> list[Tried] | None:
    """What a race finds of configurations, the first of which must open; None where it was interrupted."""
    began = time.monotonic()
    race_s = min(_RACE_S, max(_LEAST_RACE_S, now.left_s() / len(configurations) - now.open_s))
    plans = [now.plan(it) for it in configurations]
    loops = [replace(it.loop, duration_s=race_s, precision=None, phases=("latency",)) for it in plans]
    plans = [replace(it, loop=loop) for it, loop in zip(plans, loops, strict=True)]
    names = [name_of(it) for it in configurations]
    client = open_worker(plans[0])

    from ortbench.features.tune.measure import Race, Racer
    from ortbench.measure.driver import Driver

    with saving(client, None, observer=told):
        race = Race(now.search.alpha, time.monotonic() + now.left_s())
        clients = [client, *[None] * (len(plans) - 1)]
        racers = [Racer(*of, name=name, race=race) for *of, name in zip(plans, clients, names, strict=True)]
        driver = Driver(racers, race.schedule, told)
        driver.run()
    now.files.check()
    if driver.interrupted:
        return None
    why = {racer.name: str(error) for racer, error in driver.not_opened}
    if names[0] in why:
        raise BenchmarkFailed(why[names[0]])
    raced = {racer.name: racer for racer in racers if racer.is_open}
    cases = {name: case for name, racer in raced.items() for case in racer.cases.values()}
    now.open_s = (race.opened - began) / len(raced)
    now.block_s = race.block_s if math.isfinite(race.block_s) else _BLOCK_S
    found: list[Tried] = []
    for name, of in zip(names, configurations, strict=True):
        if name not in cases and name not in why:  # there was no time to open it
            continue
        case = cases.get(name)
        reason = why.get(name) if case is None else case.reason
        if reason is not None and of == configurations[0]:
            raise BenchmarkFailed(f"{name}: {reason}")
        if name in why and len(names) > 2:  # maybe there was no room for all: once more, beside fewer
            now.together = len(names) // 2
            continue
        if reason is not None:
            found.append(failed_try(of, reason))
            continue
        known = {goal: race.elimination.ratio(goal, name, names[0]) for goal in GOALS}
        ratios = {goal: cast(Ratio, it._asdict()) for goal, it in known.items() if it is not None}
        left = [goal for goal in GOALS if name in race.elimination.candidates(goal)]
        memory = raced[name].memory
        found.append(Tried(settings=[list(it) for it in of], ratios=ratios, left=left, memory=memory, failed=None))
    return found


def _measure_best(now: Tuning, folder: Path, told: Observer) -> Measured:
    """The fastest ones side by side, and then with fresh workers those of them that are better than the first.

    A worker's memory lies where it happens to, which can make a tenth of its latency, and the best of several owes some of its
    figure to that. So the figures that are kept are not those by which it was chosen.
    """
    from ortbench.facts.comparison import bests

    chosen = now.search.finalists()
    fitting = int((now.ends - time.monotonic()) * _TO_CHOOSE / (now.open_s + now.least_s))
    if len(chosen) > 2 and fitting > 2:
        made = {name_of(it): it for it in chosen[:fitting]}
        found = _measure_in_turns(now, list(made.values()), folder, told, _TO_CHOOSE)
        now.compared = list(made)
        better = dict.fromkeys(it.number for it in bests(found.results, found.names) if it.number)
        if found.interrupted or not better:
            return found
        for path in folder.iterdir():
            if path.name not in (TUNE_FILE, output.FILE_NAME):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        chosen = [FIRST, *(made[found.names[number]] for number in better)]
    return _measure_in_turns(now, chosen if fitting > 2 else chosen[:2], folder, told)


def _measure_in_turns(
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
    if len(plans) == 1:
        return measure(plans, lambda: folder, observer=told)
    return measure(plans, lambda: folder, [name_of(it) for it in chosen], observer=told)


# The folder


def _stored_search(now: Tuning) -> Stored:
    flags = {it.flag for it in options_of(*PLAN)}
    return Stored(
        tool=__version__,
        command=list(now.command),
        model=now.model,
        sha256=now.files.digest(now.model),
        given={flag: str(value) for flag, value in now.space.given.items() if flag in flags},
        settings=now.space.names,
        error_rate=ALPHA,
        races=now.search.races,
        best=[],
    )


def _save(folder: Path, stored: Stored) -> None:
    write_or_note(folder / TUNE_FILE, text(stored))


def _resume_search(folder: Path, stored: Stored, search: Search) -> Path:
    """The folder of an interrupted search, whose races the search is told; `BadInput` where it is none of these settings."""
    from ortbench.model import file_reading

    file = folder / TUNE_FILE
    if not file.is_file():
        raise BadInput(f"--resume {folder}: is not the folder of a search: it has no {TUNE_FILE}", "--resume")
    earlier = file_reading.shape(file_reading.parse(file_reading.content_of(file), str(file)), str(file), Stored)
    other = [key for key in ("sha256", "given", "settings") if earlier[key] != stored[key]]
    if other:
        reason = "searched another model, or with other options or cores: type the same command"
        raise BadInput(f"--resume {folder}: {reason}", "--resume")
    if earlier["best"]:
        raise BadInput(f"--resume {folder}: the search is over: 'ortbench report {folder}' shows it", "--resume")
    for race in earlier["races"]:
        search.tell(race)
    return folder


# What it came to


def _not_done(now: Tuning, done: Measured) -> list[Fact]:
    """What there was no time for, and the command that has it."""
    from ortbench.analysis.advice import command
    from ortbench.features.tune.facts import search_facts

    cases = [case for result in done.results for case in result.cases if case.status == OK]
    one_process, longer_s = "", now.most_s
    if len(done.results) > 1 and not all(case.first_rounds for case in cases):
        one_process = "--max-time"
        if now.most_s < now.processes_s(FEW):
            one_process, longer_s = "--duration", math.ceil(now.processes_s(PROCESSES))
    more = ["--max-time", f"{now.needed_s(longer_s):.0f}s"]
    if one_process == "--duration":
        more += ["--duration", f"{longer_s:.0f}s"]
    return search_facts(
        [name_of(it) for it in now.search.candidates()[1:]],
        is_compared=len(done.results) > 1,
        has_memory=all("memory" in case.own for case in cases),
        one_process=one_process,
        next_=command(done.results[0], "tune", *more) or f"give {' '.join(more)}",
    )


def _publish(now: Tuning, done: Measured, stored: Stored, folder: Path, wanted: OutputOptions) -> int:
    from ortbench.facts.common import record
    from ortbench.facts.comparison import bests
    from ortbench.facts.run import findings_of
    from ortbench.facts.sentences import sentence
    from ortbench.features.tune.report import left_out
    from ortbench.plan.next_command import session_lines

    for best in bests(done.results, done.names):
        name = None if best.number is None else done.names[best.number]
        python, cpp = ([], []) if best.number is None else session_lines(done.results[best.number].target)
        stored["best"].append(
            Said(goal=best.what, configuration=name, text=sentence(best.fact), python=python, cpp=cpp)
        )
        stored.setdefault("findings", []).append(record(best.fact))
    lacking = _not_done(now, done)
    stored.setdefault("findings", []).extend(map(record, lacking))
    _save(folder, stored)
    others = [it for it in now.search.tried_configurations if name_of(it) not in done.names]
    finalists = now.search.finalists()
    why = {name_of(it): f"time for {len(now.compared or done.names)} only" for it in finalists}
    why |= dict.fromkeys(now.compared, "measured longer, no better")
    before = left_out(
        {name_of(it): now.search.against_first(it) for it in others},
        {name_of(it): why for it, why in now.search.failures.items()},
        why,
        findings_of(lacking),
    )
    return publish_configurations(
        done, [now.plan(FIRST)] * len(done.results), wanted, before, lambda: text(stored), _SHOWN
    )
