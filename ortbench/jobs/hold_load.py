"""Holds a live gate of loads once: see `ortbench.jobs.hold`, which does so for inferences."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from ortbench.core import signals
from ortbench.gate.checks import check_alone
from ortbench.gate.live_load import LiveLoadGate, planned
from ortbench.gate.verdict import SIDES
from ortbench.jobs.hold import Asked, Held
from ortbench.jobs.launch import keep, load_the_rest, make_places
from ortbench.jobs.progress import observed
from ortbench.measure.process import open_worker
from ortbench.model.result import Result
from ortbench.plan.load_plan import LoadPlan


def hold_load(asked: Asked, folder: Callable[[], Path] | None, put: LoadPlan) -> Held | None:
    """Hold a gate of a load.

    Args:
        asked: what to hold.
        folder: makes the folder that everything is saved in; None where nothing is to be saved.
        put: the load that is put on every side, checked.

    Returns:
        None if it was interrupted.

    Raises:
        BadInput, BenchmarkFailed, NotComparable: before anything could be measured, or nothing could be.
    """
    with ExitStack() as stack:
        client = stack.enter_context(open_worker(asked.plans[0]))

        from ortbench.measure.folder import discard_if_empty
        from ortbench.measure.load import LoadBench
        from ortbench.measure.load_in_turns import LoadInTurns
        from ortbench.measure.load_samples import write as write_samples
        from ortbench.measure.side import Side, nowhere
        from ortbench.report.folder import write_run

        signals.hold()  # from here on there is a folder, and soon something in it
        names = SIDES[: len(asked.plans)]
        parent = None if folder is None else folder()
        try:
            folders = [] if parent is None else [parent] if len(names) == 1 else make_places(parent, names)
            keeps: list[Callable[[Result], None]] = [
                partial(keep, path=place / "result.json") for place in folders
            ] or [nowhere for _ in names]
            sides = [
                Side(plan, client if number == 0 else None, keeps[number], name)
                for number, (plan, name) in enumerate(zip(asked.plans, names, strict=True))
            ]
            observer = observed(stack, asked.quiet, asked.observer)
            live = LiveLoadGate(asked.limits, planned(asked.plans[0].modes, put))
            bench: LoadBench | LoadInTurns
            if len(sides) == 1:
                bench = LoadBench(sides[0], put, observer, load_the_rest)
                bench.run()
                taken = [bench.taken]
            else:
                bench = LoadInTurns(sides, put, live, observer, load_the_rest, asked.check_inputs())
                bench.run()
                taken = bench.taken
        except BaseException:
            if parent is not None:
                discard_if_empty(parent)
            raise
    results = [side.result for side in sides]
    for result, of_side, place in zip(results, taken, folders, strict=False):  # there are none of what is not saved
        write_samples(of_side, place)
        write_run(result, place)
    if bench.interrupted:
        return None
    checks = live.checks(results) if len(results) > 1 else check_alone(results[0], asked.limits)
    return Held(results, folders, checks, live.regressions(checks))
