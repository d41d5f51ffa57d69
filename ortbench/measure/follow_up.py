"""What is asked of workers once everything is measured: close-ups and profiled runs, profiled nodes, CUPTI's records.

Nothing of it may enter a figure, and what goes wrong costs the result nothing but a warning or a part of the timeline.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ortbench.analysis.nodes.gpu_activity import put_recorded
from ortbench.core.errors import BenchmarkFailed, OrtbenchError
from ortbench.measure.process import WorkerLost, request_of, worker_for
from ortbench.measure.side import Side
from ortbench.model.modes import LATENCY, MODES, modes_that
from ortbench.model.protocol import ClosedUp, ProfiledNodes, Recorded
from ortbench.model.schema import Measured
from ortbench.model.timeline import Node, Span, Timeline

# Enough profiled runs for a median, and not much more than a second of them.
_PROFILED_NS = 1_000_000_000
_PROFILED_RUNS = (3, 20)
# Codes of warnings.
NODES_FAILED = "nodes-failed"
COPIES_NOT_MEASURED = "copies-not-measured"


def look_closer(side: Side, tell: Callable[[str], None]) -> None:
    """For the timeline only: a close-up of every mode, and ONNX Runtime's own profile. The timeline says what it lacks.

    Args:
        side: with a timeline.
        tell: what is going on, in words.
    """
    timeline = side.timeline
    assert timeline is not None
    if not side.modes:
        timeline.missing.append("close-ups and profiled runs: no mode is left to look at")
        return
    passes = [(f"close-up of {mode}", partial(_close_up, side, timeline, mode)) for mode in side.modes]
    if not side.plan.nodes:  # else `profile_nodes` profiles them all the same
        passes.append(("profiled runs", partial(_profile, side, timeline)))
    for name, go in passes:
        tell(f"{name} ({side.plan.target.ep})")
        try:
            with side.stage(name):
                go()
        except OrtbenchError as error:
            timeline.missing.append(f"{name}: {error}")
            if isinstance(error, WorkerLost):
                return


def _close_up(side: Side, timeline: Timeline, mode: str) -> None:
    answer: ClosedUp = side.ask("close_up", mode=mode)
    timeline.close_ups[mode] = [[Span(*step) for step in steps] for steps in answer["inferences"]]


def _profile(side: Side, timeline: Timeline) -> None:
    for of, which in side.plan.work.sessions():
        _show_profile(timeline, side.ask("profile", **which), of)


def _show_profile(timeline: Timeline, answer: Recorded, of: str = "") -> None:
    runs = enumerate(answer["runs"], 1)
    timeline.profiled_runs += [Span(f"profiled run {number}{of}", *run) for number, run in runs]
    timeline.nodes += [Node.of(event) for event in answer["nodes"]]


def measure_copies(side: Side) -> None:
    """Have CUPTI look into some runs, when all figures are there; what goes wrong is a warning."""
    modes = [mode for mode in side.modes if MODES[mode].recorded]
    try:
        if not modes:
            raise BenchmarkFailed(f"none of {', '.join(modes_that(lambda mode: mode.recorded))} was measured")
        answer: dict[str, Measured] = side.ask("measure_copies", modes=modes, runs=_profiled_runs(side))
        for mode, found in answer.items():
            put_recorded(side.cases[mode], found)
    except OrtbenchError as error:
        side.result.warn(COPIES_NOT_MEASURED, f"--measure-copies gave nothing: {error}")


def profile_nodes(side: Side) -> None:
    """Profile some runs, in a worker of their own and when all figures are there: nothing of them may enter one."""
    runs, timeline = _profiled_runs(side), side.timeline
    try:
        with side.stage("profiling nodes"), worker_for(side.plan) as client:
            request = request_of(side.plan)
            answer: ProfiledNodes = client.ask("nodes", **request, runs=runs, timeline=timeline is not None)
        side.result.nodes = answer["found"]
        if timeline is not None and answer["profile"] is not None:
            _show_profile(timeline, answer["profile"])
    except OrtbenchError as error:
        side.result.warn(NODES_FAILED, f"--nodes gave nothing: {error}")
        if timeline is not None:
            timeline.missing.append(f"profiled runs: {error}")
    side.keep()


def _profiled_runs(side: Side) -> int:
    medians = [median for case in side.result.cases if (median := case.median(LATENCY))]
    slowest = max(medians, default=side.result.setup["first_inference_ns"])
    least, most = _PROFILED_RUNS
    return int(max(least, min(most, _PROFILED_NS // max(slowest, 1))))
