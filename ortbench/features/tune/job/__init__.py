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
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core import __version__, output
from ortbench.core.errors import INTERRUPTED, BadInput, OrtbenchError
from ortbench.core.files import write_or_note
from ortbench.core.parts import text
from ortbench.core.safe_text import complain
from ortbench.core.stats import FEW
from ortbench.core.units import at_most, count
from ortbench.features.load.plan import LoadPlan
from ortbench.features.tune.analysis import ALPHA, Search
from ortbench.features.tune.job.tuning import (
    PLANNED,
    TO_CHOOSE,
    LoadTuning,
    Said,
    Stored,
    Tuning,
    hold_race,
    measure_in_turns,
    measure_under_load,
)
from ortbench.features.tune.model import FIRST, Configuration
from ortbench.features.tune.plan import INTERACTING, NEWER_ENTRIES, TuneOptions, name_of, space_of
from ortbench.jobs import Measured, check_wanted, publish_results
from ortbench.jobs.run import observer_for, publish_configurations
from ortbench.measure.environment import core_limit, free_memory, usable_cores
from ortbench.measure.process import ask_once
from ortbench.measure.progress import TimeLeft
from ortbench.model.result import OK
from ortbench.model.result_file import discard_if_empty, new_folder
from ortbench.plan.options import RawOptions, options_of
from ortbench.plan.plan import PLAN, PROCESSES, Observer, OutputOptions, check
from ortbench.plan.plan_builder import run_name

if TYPE_CHECKING:
    from ortbench.facts import Fact
    from ortbench.report.model import Report

TUNE_FILE = "tune.json"
_SHOWN = ("latency", "cpu_time", "host_memory")  # of the best ones
_COPIES = 3  # of a model's files that a session has in memory, before one was measured


def tune(model: str, given: RawOptions, asked: TuneOptions, command: tuple[str, ...], wanted: OutputOptions) -> int:
    cores = available_cores()
    space = space_of(given, cores)
    check_wanted(wanted)
    first = space.plan(model, FIRST, command)
    check(first)
    if first.target.optimized_model is not None:
        raise BadInput("--optimized-model: every configuration would write it: leave it out", "--optimized-model")
    began = time.monotonic()
    is_loaded = space.load is not None
    if is_loaded:
        space = space_of(
            given, cores, ask_once(first.timeout_s, first.target.python, "known_entries", entries=[*NEWER_ENTRIES])
        )
    search = Search(space.names, space.is_idle, space.joined_settings, INTERACTING, space.has_room, is_loaded)
    ends = began + asked.max_time_s * PLANNED
    now = (LoadTuning if is_loaded else Tuning)(model, space, command, search, began, ends)
    longest_s = asked.max_time_s
    if isinstance(now, LoadTuning):
        now.is_short = now.ends < began + now.enough_s
        now.ends = min(now.ends, began + now.enough_s)
        longest_s = min(longest_s, now.enough_s / PLANNED)
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
            f"tuning {told} takes {at_most(longest_s)} at most (--max-time); --resume {folder} goes on if it is interrupted"
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
    return (_publish_under_load if is_loaded else _publish)(now, done, stored, folder, wanted)


def available_cores() -> int:
    """How many cores this process may use, whole ones of a container's limit."""
    limit = core_limit()
    usable = usable_cores() or 1
    return usable if limit is None else max(1, min(usable, int(limit)))


def _search_best(now: Tuning, stored: Stored, folder: Path, quiet: bool) -> Measured | None:
    """The best ones measured, when races have found them; None where one was interrupted."""
    with ExitStack() as stack:
        seen = observer_for(stack, quiet)
        whole = TimeLeft(seen, now.ends) if seen is not None and sys.stderr.isatty() else Observer()
        while len(found := _next(now)) > 1:
            race = hold_race(now, found, whole)
            if race is None:
                return None
            now.search.tell(race)
            _save(folder, stored)
        return (_measure_best if now.space.load is None else measure_under_load)(now, folder, whole)


def _next(now: Tuning) -> list[Configuration]:
    """What is raced next: as many as can be open at the same time, and as there is time for."""
    fitting = min(now.together, _room(now), int(now.left_s() / (now.open_s + now.least_race_s)))
    return now.search.candidates()[: max(1, fitting)]


def _room(now: Tuning) -> int:
    """How many sessions have room in the host's memory: by what those before took, or by the model's files."""
    model = Path(now.model)
    files = sum(it.stat().st_size for it in model.parent.glob(f"{glob.escape(model.name)}*") if it.is_file())
    each = max([_COPIES * files, 1, *now.search.memory.values()])
    return max(2, free_memory() // each)


def _measure_best(now: Tuning, folder: Path, told: Observer) -> Measured:
    """The fastest ones side by side, and then with fresh workers those of them that are better than the first.

    A worker's memory lies where it happens to, which can make a tenth of its latency, and the best of several owes some of its
    figure to that. So the figures that are kept are not those by which it was chosen.
    """
    from ortbench.facts.comparison import bests

    chosen = now.search.finalists()
    fitting = int((now.ends - time.monotonic()) * TO_CHOOSE / (now.open_s + now.least_s))
    if len(chosen) > 2 and fitting > 2:
        made = {name_of(it): it for it in chosen[:fitting]}
        found = measure_in_turns(now, list(made.values()), folder, told, TO_CHOOSE)
        now.compared = list(made)
        better = dict.fromkeys(it.number for it in bests(found.results, found.names) if it.number)
        if found.interrupted or not better:
            return found
        for path in folder.iterdir():
            if path.name not in (TUNE_FILE, output.FILE_NAME):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        chosen = [FIRST, *(made[found.names[number]] for number in better)]
    return measure_in_turns(now, chosen if fitting > 2 else chosen[:2], folder, told)


def _stored_search(now: Tuning) -> Stored:
    flags = {it.flag for it in options_of(*PLAN, LoadPlan)}
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
    earlier = file_reading.decode(file_reading.content_of(file), str(file), Stored)
    other = [key for key in ("sha256", "given", "settings") if earlier[key] != stored[key]]
    if other:
        reason = "searched another model, or with other options or cores: type the same command"
        raise BadInput(f"--resume {folder}: {reason}", "--resume")
    if earlier["best"]:
        raise BadInput(f"--resume {folder}: the search is over: 'ortbench report {folder}' shows it", "--resume")
    for race in earlier["races"]:
        search.tell(race)
    return folder


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
    from ortbench.facts import record
    from ortbench.facts.comparison import bests
    from ortbench.facts.sentences import sentence
    from ortbench.plan.next_command import session_lines

    found = bests(done.results, done.names)
    for best in found:
        name = None if best.number is None else done.names[best.number]
        python, cpp = ([], []) if best.number is None else session_lines(done.results[best.number].target)
        stored["best"].append(
            Said(goal=best.what, configuration=name, text=sentence(best.fact), python=python, cpp=cpp)
        )
    lacking = [*thread_findings(done), *_not_done(now, done)]
    stored["findings"] = [record(it) for it in (*(best.fact for best in found), *lacking)]
    _save(folder, stored)
    before = _left_out(now, done, lacking)
    return publish_configurations(
        done, [now.plan(FIRST)] * len(done.results), wanted, before, lambda: text(stored), _SHOWN
    )


def thread_findings(done: Measured) -> list[Fact]:
    """That the first configuration has more threads than there are cores, which no other one has."""
    from ortbench.facts import thread_facts

    return [it._replace(next="") for it in thread_facts(done.results[0])]


def _left_out(now: Tuning, done: Measured, lacking: Sequence[Fact] = ()) -> list[Report]:
    from ortbench.facts.run import findings_of
    from ortbench.features.tune.report import left_out

    others = [it for it in now.search.tried_configurations if name_of(it) not in done.names]
    finalists = now.search.finalists() if now.space.load is None else []
    why = {name_of(it): f"time for {len(now.compared or done.names)} only" for it in finalists}
    why |= dict.fromkeys(now.compared, "measured longer, no better")
    return left_out(
        {name_of(it): now.search.against_first(it) for it in others},
        {name_of(it): why for it, why in now.search.failures.items()},
        why,
        findings_of(lacking),
    )


def _publish_under_load(now: Tuning, done: Measured, stored: Stored, folder: Path, wanted: OutputOptions) -> int:
    from ortbench.analysis.advice import command
    from ortbench.facts import record
    from ortbench.facts.sentences import sentence
    from ortbench.features.tune.facts import load_answers, search_facts, serving_lines
    from ortbench.features.tune.report import load_report

    assert now.space.load is not None
    untried = [name_of(it) for it in now.search.candidates()[1:]] if now.is_short else []
    more = ["--max-time", f"{now.needed_s(now.most_s):.0f}s"]
    next_ = command(done.results[0], "tune", *more) or f"give {' '.join(more)}"
    lacking = search_facts(untried, is_compared=len(done.results) > 1, has_memory=True, one_process="", next_=next_)
    answers = load_answers(done.results, done.names or [name_of(FIRST)], now.space.load.slo or {})
    for best in answers:
        name = None if best.number is None else done.names[best.number]
        python = [] if best.number is None else serving_lines(done.results[best.number])
        stored["best"].append(Said(goal=best.what, configuration=name, text=sentence(best.fact), python=python, cpp=[]))
    facts = [*thread_findings(done), *(it.fact for it in answers), *lacking]
    stored["findings"] = [*map(record, facts)]
    _save(folder, stored)
    tried = f"tried {len(now.search.tried_configurations)} of {len(now.search.every())}"
    report = load_report(done.results, done.names or [name_of(FIRST)], answers, facts, tried, str(folder))
    return publish_results(
        done, now.model, wanted, [*_left_out(now, done), report], labels=done.names, json=lambda: text(stored)
    )
