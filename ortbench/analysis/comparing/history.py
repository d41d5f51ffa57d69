"""Results of many days: which of them are one series, where its figures step to another level, and what changed there. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median

from ortbench.analysis.comparing.change_points import Shift, certain_steps
from ortbench.analysis.comparing.comparable import MACHINE, MODEL, changes, depths_of, differences, settings_of, short
from ortbench.analysis.comparing.series import Key, Selection, ordered
from ortbench.analysis.comparing.series import series as series_of
from ortbench.analysis.loads.levels import RATE, kept
from ortbench.analysis.outputs import doubt
from ortbench.core.errors import BadInput
from ortbench.model.metrics import Figure as FigureName
from ortbench.model.modes import SLO_RATE
from ortbench.model.result import Result

FEWEST = 12  # results of a series in which steps are looked for: in fewer none can be told from chance
_COMMIT = 7  # characters, as git shows them


@dataclass(frozen=True)
class Run:
    """A result, without its samples; when it was measured, and where it is."""

    result: Result
    at: datetime
    place: str


@dataclass(frozen=True)
class Figure:
    """What a run found: a figure and its 95 % interval, where it has one, in the metric's unit."""

    run: Run
    value: float
    ci95: tuple[float, float] | None


@dataclass(frozen=True)
class Step:
    at: int  # the number of the first figure of the new level
    # before, after: the medians of both levels
    before: float
    after: float
    runs: tuple[int, int]  # how many figures each has
    size: Shift  # how many times as bad it is: above 1 is slower, or more of a cost
    changed: tuple[str, ...]  # what differs between the last run before and the first one after, in words


@dataclass(frozen=True)
class Series:
    """The figures of one metric of a mode at a point in the order in which they were measured, one at least."""

    key: Key
    figures: tuple[Figure, ...]
    steps: tuple[Step, ...]

    @property
    def is_searched(self) -> bool:
        """Whether there are enough figures to look for steps."""
        return len(self.figures) >= FEWEST

    @property
    def levels(self) -> list[tuple[Figure, ...]]:
        bounds = [0, *(step.at for step in self.steps), len(self.figures)]
        return [self.figures[a:b] for a, b in pairwise(bounds)]

    @property
    def scatter(self) -> float | None:
        """By which share runs of one level differ from its median: a standard deviation, robust; None for too few.

        It is 1.4826 median absolute deviations, which for a normal distribution is the standard deviation.
        """
        if len(self.figures) < 4:
            return None
        middles = [(level, median(it.value for it in level)) for level in self.levels]
        return 1.4826 * median(abs(it.value - middle) / max(middle, 1e-9) for level, middle in middles for it in level)


def run_of(result: Result, place: str) -> Run:
    """A result as part of a history; `BadInput` where it does not say when it was measured, or its figures are doubtful."""
    if (found := doubt(result)) is not None:
        reason = f"{found['ep']} is likely to compute in a lower precision than the model's; {found['mends']}"
        raise BadInput(f"{place}: its figures are doubtful: {reason}")
    try:
        at = datetime.fromisoformat(result.created)
    except ValueError:
        raise BadInput(f"{place} does not say when it was measured: {result.created!r}") from None
    light = replace(
        result, cases=[replace(case, samples={}, blocks={}) for case in result.cases], nodes=None, link=None
    )
    return Run(light, at if at.tzinfo else at.replace(tzinfo=UTC), place)


# Which results belong together


def groups(runs: Sequence[Run], force: bool = False) -> list[list[Run]]:
    """Runs that measured the same thing, each group by time, by their first ones; `force`: on whatever machine.

    A model is the same one if its content or its path is: when it was changed in its place is what a history can show.
    """
    found: list[list[Run]] = []
    models = _models(runs)
    for run in sorted(runs, key=lambda it: it.at):
        for group in found:
            first = group[0].result
            if models[_keys(first)[0]] == models[_keys(run.result)[0]] and _is_same(first, run.result, force):
                group.append(run)
                break
        else:
            found.append([run])
    return found


def _keys(result: Result) -> tuple[str, str]:
    return f"content {result.model['sha256']}", f"path {result.model['path']}"


def _models(runs: Sequence[Run]) -> dict[str, str]:
    """By content and path of every model, which one it is."""
    found: dict[str, str] = {}
    for content, path in dict.fromkeys(_keys(run.result) for run in runs):
        old, new = found.setdefault(content, content), found.setdefault(path, content)
        found = {key: new if it == old else it for key, it in found.items()}
    return found


def _is_same(one: Result, other: Result, force: bool) -> bool:
    """Whether two results of one model are of the same thing, with the same settings."""
    if one.target["ep"] != other.target["ep"]:  # most of the time that is all, and told at once
        return False
    free = {MODEL, *(MACHINE if force else ())}
    if any(name not in free for name, _, _ in differences(one, other)):
        return False
    set_otherwise = (a != b for _, a, b in settings_of(one, other, versions=False))
    depths, others = depths_of(one), depths_of(other)
    return not any(set_otherwise) and all(others.get(mode, depth) == depth for mode, depth in depths.items())


# What becomes of their figures


def series(group: Sequence[Run], only: Selection, same: float) -> list[Series]:
    """The series of a group, in the usual order of modes; `same`: up to which share two levels are called the same."""
    found: dict[Key, list[Figure]] = {}
    for run in group:
        searched = {} if run.result.slo is None else run.result.slo["found"]
        for key, it in series_of(run.result, lambda view: view.history, only).items():
            if only.metrics or key.mode not in searched or RATE not in dict(key.point):  # or else a try of a search
                found.setdefault(key, []).append(Figure(run, it.value, it.ci95))
        for mode, rate in kept(run.result).items():
            wanted = not only.metrics or any(name.metric == SLO_RATE for name in only.metrics)
            if wanted and (not only.modes or mode in only.modes):
                found.setdefault(Key(mode, (), FigureName(SLO_RATE, "")), []).append(Figure(run, rate["rate"], None))
    return [Series(key, tuple(found[key]), tuple(_steps(key, found[key], same))) for key in ordered(found)]


def _steps(key: Key, figures: Sequence[Figure], same: float) -> Iterator[Step]:
    """The steps beyond `same` and beyond the noise for certain."""
    if len(figures) < FEWEST:
        return
    least = key.metric.unit.least
    values = [max(it.value, least) for it in figures]
    places, sizes = certain_steps(values, same, turned=key.metric.better == "higher")
    levels = [values[a:b] for a, b in pairwise([0, *places, len(values)])]
    for place, size, (before, after) in zip(places, sizes, pairwise(levels), strict=True):
        changed = tuple(_changes(figures[place - 1].run.result, figures[place].run.result))
        yield Step(place, median(before), median(after), (len(before), len(after)), size, changed)


def _changes(one: Result, other: Result) -> Iterator[str]:
    """What differs between two results of one series, in words."""
    for name, mine, theirs in differences(one, other):
        yield f"{name}: {short(mine)} → {short(theirs)}"
    yield from changes(one, other)
    versions = one.tool["version"], other.tool["version"]
    if versions[0] != versions[1]:
        yield f"ortbench: {versions[0]} → {versions[1]}"
    commits = [(it.environment.get("git_commit") or "")[:_COMMIT] for it in (one, other)]
    if all(commits) and commits[0] != commits[1]:
        yield f"checkout: {commits[0]} → {commits[1]}"
