"""From plans to saved results: folder, workers, progress, bench. What every command that measures goes through.

Heavy imports wait until the first worker has been started: it has more to import, and can do so meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.core import files, signals
from ortbench.core.errors import BadInput, OrtbenchError
from ortbench.core.safe_text import plain_name
from ortbench.jobs.progress import observed
from ortbench.measure.process import open_worker

if TYPE_CHECKING:
    from ortbench.measure.bench import Judge
    from ortbench.model.result import Result
    from ortbench.model.timeline import Timeline
    from ortbench.plan.plan import Observer, Plan


@dataclass(frozen=True)
class Launched:
    """What came of a run.

    Attributes:
        results: of the sides that opened.
        names: of these sides; none for one that has no name of its own.
        folders: where each was saved; none where nothing is to be saved.
        interrupted: by Ctrl-C or its like, see `ortbench.core.signals`.
        not_opened: name and error of each side that did not open.
        timelines: of the results, where they were asked for.
    """

    results: list[Result]
    names: list[str]
    folders: list[Path]
    interrupted: bool
    not_opened: list[tuple[str, OrtbenchError]]
    timelines: list[Timeline]


def launch(
    plans: Sequence[Plan],
    folder: Callable[[], Path] | None,
    names: Sequence[str] | None = None,
    judge: Judge | None = None,
    after_open: Callable[[Sequence[Result]], None] | None = None,
    quiet: bool = False,
    traced: bool = False,
    observer: Observer | None = None,
) -> Launched:
    """Measure plans side by side and save what comes of them, also after Ctrl-C.

    Args:
        plans: checked, at least one; with several their blocks alternate.
        folder: makes the run's folder; several sides have a folder each in it. None where nothing is to be saved.
        names: of the sides, in messages and, made plain, as folders; needed for several.
        judge, after_open: see `ortbench.measure.bench.Bench`.
        quiet: show no progress.
        traced: keep a timeline of every side.
        observer: told what happens, in place of a progress on the terminal.

    Raises:
        BadInput, BenchmarkFailed, NotComparable: before anything could be measured.
    """
    with ExitStack() as stack:
        client = stack.enter_context(open_worker(plans[0]))

        from ortbench.measure.bench import Bench
        from ortbench.measure.folder import discard_if_empty
        from ortbench.measure.side import Side, nowhere
        from ortbench.model.timeline import Timeline
        from ortbench.report.folder import write_run

        signals.hold()  # from here on there is a folder, and soon something in it
        parent = None if folder is None else folder()
        try:
            places = [] if parent is None else [parent] if len(plans) == 1 else make_places(parent, names or ())
            keeps: list[Callable[[Result], None]] = [partial(keep, path=place / "result.json") for place in places]
            sides = [
                Side(
                    plan,
                    client if number == 0 else None,
                    keeps[number] if keeps else nowhere,
                    names[number] if names else None,
                    Timeline() if traced else None,
                )
                for number, plan in enumerate(plans)
            ]
            bench = Bench(sides, observed(stack, quiet, observer), load_the_rest, judge, after_open)
            bench.run()
        except BaseException:
            if parent is not None:
                discard_if_empty(parent)
            raise
    left_out = [side for side, _ in bench.not_opened]  # one can be open all the same, with nodes where none may be
    kept = [side for side in sides if side not in left_out]
    for side, place in zip(sides, places, strict=False):  # of what is not to be saved there are no places
        if side in left_out:
            discard_if_empty(place)
        else:
            write_run(side.result, place)
    return Launched(
        [side.result for side in kept],
        [side.name for side in kept] if names else [],
        [place for side, place in zip(sides, places, strict=False) if side in kept],
        bench.interrupted,
        [(side.name, error) for side, error in bench.not_opened],
        [side.timeline for side in kept if side.timeline is not None],
    )


def make_places(parent: Path, names: Sequence[str]) -> list[Path]:
    """A folder for each side."""
    places = [parent / plain_name(name) for name in names]
    try:
        for place in places:
            place.mkdir(exist_ok=True)
    except OSError as error:
        raise BadInput(f"{parent}: cannot be written: {error.strerror}") from None
    return places


def keep(result: Result, path: Path) -> None:
    """Save a result, or note that it could not be."""
    from ortbench.model.result_file import save

    with files.noting(path):
        save(result, path)


def load_the_rest() -> None:
    """Load what is needed when there are figures, while the worker is busy, so that nobody waits for it."""
    import numpy  # noqa: F401

    import ortbench.report.terminal.print  # noqa: F401
