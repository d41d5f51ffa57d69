"""Extra inferences, behind all blocks, for a timeline, nodes, copies and threads that spin.

What goes wrong costs the result nothing but a warning or a part of the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from ortbench.analysis.copies import put_recorded
from ortbench.analysis.derive import cpu_time_ns, put_spin_share
from ortbench.analysis.node_times import TOO_MANY
from ortbench.core.errors import BenchmarkFailed, OrtbenchError
from ortbench.core.stats import FEWEST
from ortbench.measure.configuration import Configuration
from ortbench.measure.passes import COPIES_NOT_MEASURED, NODES_FAILED, SPIN_NOT_MEASURED, without_passes
from ortbench.measure.process import WorkerLost, request_of, worker_for
from ortbench.model.modes import CPU_CORES, CPU_SYSTEM, CPU_TIME, CPU_USER, LATENCY, MODES, NO_SPIN, modes_that
from ortbench.model.protocol import Node, ProfiledNodes, Recorded, Span, StepTimes, Timeline
from ortbench.model.result import Result
from ortbench.model.schema import Measured
from ortbench.plan.plan import NO_SPIN as SETTINGS
from ortbench.plan.plan import Pace, Plan

# Enough profiled runs for a median, and not much more than a second of them.
_PROFILED_NS = 1_000_000_000
_PROFILED_RUNS = (3, 20)
# Of nodes up to so many runs where a graph is small: more than others hold up at a stretch.
_NODES_PROFILED, _MOST_PROFILED = 20_000, 100
_LONGEST_S = 1.0  # of a mode without threads that spin: CPU time needs no more

Tell = Callable[[str], None]


def look_closer(configuration: Configuration, tell: Tell) -> None:
    """For the timeline only: a close-up of every mode, and ONNX Runtime's own profile. The timeline says what it lacks."""
    timeline = configuration.timeline
    assert timeline is not None
    if not configuration.modes:
        timeline.missing.append("close-ups and profiled runs: no mode is left to look at")
        return
    passes = [
        (f"close-up of {mode}", partial(_close_up, configuration, timeline, mode)) for mode in configuration.modes
    ]
    if not configuration.plan.nodes:  # else `profile_nodes` profiles them all the same
        passes.append(("profiled runs", partial(_profile, configuration, timeline)))
    for name, go in passes:
        tell(f"{name} ({configuration.plan.target.ep})")
        try:
            with configuration.stage(name):
                go()
        except OrtbenchError as error:
            timeline.missing.append(f"{name}: {error}")
            if isinstance(error, WorkerLost):
                return


def _close_up(configuration: Configuration, timeline: Timeline, mode: str) -> None:
    answer: StepTimes = configuration.ask("time_steps", mode=mode)
    timeline.close_ups[mode] = [[Span(*step) for step in steps] for steps in answer["inferences"]]


def _profile(configuration: Configuration, timeline: Timeline) -> None:
    for of, which in configuration.plan.work.sessions():
        _show_profile(timeline, configuration.ask("profile", **which), of)


def _show_profile(timeline: Timeline, answer: Recorded, of: str = "") -> None:
    runs = enumerate(answer["runs"], 1)
    timeline.profiled_runs += [Span(f"profiled run {number}{of}", *run) for number, run in runs]
    timeline.nodes += [Node.from_event(event) for event in answer["nodes"]]


def measure_copies(configuration: Configuration, _: Tell) -> None:
    """Have CUPTI look into some runs, when all figures are there; what goes wrong is a warning."""
    modes = [mode for mode in configuration.modes if MODES[mode].recorded]
    try:
        if not modes:
            raise BenchmarkFailed(f"none of {', '.join(modes_that(lambda mode: mode.recorded))} was measured")
        answer: dict[str, Measured] = configuration.ask(
            "measure_copies", modes=modes, runs=_profiled_runs(configuration)
        )
        for mode, recorded in answer.items():
            put_recorded(configuration.cases[mode], recorded)
    except OrtbenchError as error:
        configuration.result.warn(COPIES_NOT_MEASURED, f"--measure-copies gave nothing: {error}")


def profile_nodes(configuration: Configuration, _: Tell) -> None:
    """Profile some runs, in a worker of their own and when all figures are there: nothing of them may enter one."""
    nodes = sum((configuration.result.placement["nodes"] or {}).values())
    most = min(_MOST_PROFILED, _NODES_PROFILED // nodes) if nodes else 0
    runs, timeline = _profiled_runs(configuration, most), configuration.timeline
    try:
        with (
            configuration.stage("profiling nodes"),
            configuration.same_model(),
            worker_for(configuration.plan) as client,
        ):
            request = request_of(configuration.plan)
            kernels = configuration.plan.measure_copies
            answer: ProfiledNodes = client.ask(
                "nodes", **request, runs=runs, timeline=timeline is not None, kernels=kernels
            )
        configuration.result.nodes = answer["found"]
        if timeline is not None and answer["profile"] is not None:
            _show_profile(timeline, answer["profile"])
        elif timeline is not None:
            timeline.missing.append(f"profiled runs: {TOO_MANY}")
    except OrtbenchError as error:
        configuration.result.warn(NODES_FAILED, f"--measure-nodes gave nothing: {error}")
        if timeline is not None:
            timeline.missing.append(f"profiled runs: {error}")
    configuration.keep()


def _profiled_runs(configuration: Configuration, more: int = 0) -> int:
    medians = [median for case in configuration.result.cases if (median := case.median(LATENCY))]
    slowest = max(medians, default=configuration.first_ns)
    least, most = _PROFILED_RUNS
    return int(max(least, min(max(most, more), _PROFILED_NS // max(slowest, 1))))


def without_spin(plan: Plan, modes: Sequence[str]) -> Plan:
    """A short plan that differs in that and times whole inferences alone."""
    loop = replace(
        plan.loop,
        duration_s=min(plan.loop.duration_s, _LONGEST_S),
        phases=(LATENCY,),
        in_order=False,
        processes=1,
        until_agreed=False,
    )
    config = {**plan.target.session_config, **SETTINGS}
    target = replace(plan.target, session_config=config, optimized_model=None)
    return replace(without_passes(plan), target=target, modes=tuple(modes), loop=loop, pace=Pace())


def take_spin(result: Result, still: Result) -> None:
    """Put into a result what its modes take where threads do not spin, and warn of those of which that is not known."""
    for case in result.cases:
        same, timed = next((it for it in still.cases if it.mode == case.mode), None), still.case(case.mode)
        total, spent = (None, None) if timed is None else (timed.median(LATENCY), timed.stats(CPU_TIME))
        if timed is not None and total is not None and spent is not None and (each := cpu_time_ns(timed)) is not None:
            case.set_metric(f"{LATENCY}_{NO_SPIN}", total)
            # A few blocks are no measure of their noise.
            case.set_metric(f"{CPU_TIME}_{NO_SPIN}", each, [*spent.ci95] if spent.n >= FEWEST else None)
            for key in (CPU_USER, CPU_SYSTEM, CPU_CORES):
                case.set_metric(f"{key}_{NO_SPIN}", timed.value(key))
            put_spin_share(case)
        elif same is not None:
            result.warn(
                SPIN_NOT_MEASURED, f"--measure-spin gave nothing of {case.mode}: {same.reason or 'it was interrupted'}"
            )
