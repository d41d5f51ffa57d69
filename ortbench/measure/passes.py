"""What is measured once all blocks are: passes over each configuration, only where an option asks for them.

Nothing of them may enter a figure of blocks. What goes wrong costs the result nothing but a warning or a part of the timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from ortbench.analysis.host import cpu_time_ns, put_spin_share
from ortbench.analysis.memory import failed
from ortbench.analysis.nodes.gpu_activity import put_recorded
from ortbench.analysis.nodes.node_times import TOO_MANY
from ortbench.core.errors import BenchmarkFailed, OrtbenchError
from ortbench.core.stats import FEWEST
from ortbench.measure.configuration import Configuration
from ortbench.measure.energy import measure_energy
from ortbench.measure.forecast import Step
from ortbench.measure.memory import learn_forms, weigh_modes
from ortbench.measure.process import WorkerLost, request_of, worker_for
from ortbench.model.modes import CPU_CORES, CPU_SYSTEM, CPU_TIME, CPU_USER, LATENCY, MODES, NO_SPIN, modes_that
from ortbench.model.protocol import ClosedUp, ProfiledNodes, Recorded
from ortbench.model.result import OK, Result
from ortbench.model.schema import Measured
from ortbench.model.timeline import Node, Span, Timeline
from ortbench.plan.plan import NO_SPIN as SETTINGS
from ortbench.plan.plan import Plan

# Enough profiled runs for a median, and not much more than a second of them.
_PROFILED_NS = 1_000_000_000
_PROFILED_RUNS = (3, 20)
# Of nodes up to so many runs where a graph is small: more than others hold up at a stretch.
_NODES_PROFILED, _MOST_PROFILED = 20_000, 100
_LONGEST_S = 1.0  # of a mode without threads that spin: CPU time needs no more
# Codes of warnings.
NODES_FAILED = "nodes-failed"
COPIES_NOT_MEASURED = "copies-not-measured"
SPIN_NOT_MEASURED = "spin-not-measured"

Tell = Callable[[str], None]


def look_closer(side: Configuration, tell: Tell) -> None:
    """For the timeline only: a close-up of every mode, and ONNX Runtime's own profile. The timeline says what it lacks."""
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


def _close_up(side: Configuration, timeline: Timeline, mode: str) -> None:
    answer: ClosedUp = side.ask("close_up", mode=mode)
    timeline.close_ups[mode] = [[Span(*step) for step in steps] for steps in answer["inferences"]]


def _profile(side: Configuration, timeline: Timeline) -> None:
    for of, which in side.plan.work.sessions():
        _show_profile(timeline, side.ask("profile", **which), of)


def _show_profile(timeline: Timeline, answer: Recorded, of: str = "") -> None:
    runs = enumerate(answer["runs"], 1)
    timeline.profiled_runs += [Span(f"profiled run {number}{of}", *run) for number, run in runs]
    timeline.nodes += [Node.of(event) for event in answer["nodes"]]


def measure_copies(side: Configuration) -> None:
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


def profile_nodes(side: Configuration) -> None:
    """Profile some runs, in a worker of their own and when all figures are there: nothing of them may enter one."""
    nodes = sum((side.result.placement["nodes"] or {}).values())
    most = min(_MOST_PROFILED, _NODES_PROFILED // nodes) if nodes else 0
    runs, timeline = _profiled_runs(side, most), side.timeline
    try:
        with side.stage("profiling nodes"), side.same_model(), worker_for(side.plan) as client:
            request = request_of(side.plan)
            answer: ProfiledNodes = client.ask("nodes", **request, runs=runs, timeline=timeline is not None)
        side.result.nodes = answer["found"]
        if timeline is not None and answer["profile"] is not None:
            _show_profile(timeline, answer["profile"])
        elif timeline is not None:
            timeline.missing.append(f"profiled runs: {TOO_MANY}")
    except OrtbenchError as error:
        side.result.warn(NODES_FAILED, f"--measure-nodes gave nothing: {error}")
        if timeline is not None:
            timeline.missing.append(f"profiled runs: {error}")
    side.keep()


def _profiled_runs(side: Configuration, more: int = 0) -> int:
    medians = [median for case in side.result.cases if (median := case.median(LATENCY))]
    slowest = max(medians, default=side.first_ns)
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
    return replace(without_passes(plan), target=target, modes=tuple(modes), loop=loop)


def without_passes(plan: Plan) -> Plan:
    """A plan of blocks alone, whose configurations are looked at no closer afterwards."""
    return replace(plan, nodes=False, measure_copies=False, memory=False, energy=False, spin=False)


def take_spin(result: Result, still: Result) -> None:
    """Put into a result what its modes take where threads do not spin, and warn of those of which that is not known."""
    for case in result.cases:
        other, found = next((it for it in still.cases if it.mode == case.mode), None), still.case(case.mode)
        total, spent = (None, None) if found is None else (found.median(LATENCY), found.stats(CPU_TIME))
        if found is not None and total is not None and spent is not None and (each := cpu_time_ns(found)) is not None:
            case.put(f"{LATENCY}_{NO_SPIN}", total)
            case.put(
                f"{CPU_TIME}_{NO_SPIN}", each, [*spent.ci95] if spent.n >= FEWEST else None
            )  # a few blocks are no measure of their noise
            for key in (CPU_USER, CPU_SYSTEM, CPU_CORES):
                case.put(f"{key}_{NO_SPIN}", found.value(key))
            put_spin_share(case)
        elif other is not None:
            result.warn(
                SPIN_NOT_MEASURED, f"--measure-spin gave nothing of {case.mode}: {other.reason or 'it was interrupted'}"
            )


class Pass(NamedTuple):
    """A pass: `wanted` says whether a configuration is to have it, and `carry_out` does it. It begins with `text`, unless it
    tells that itself, and the forecast counts on the time of `step` for each of its words."""

    wanted: Callable[[Configuration], bool]
    carry_out: Callable[[Configuration, Tell], None]
    text: str = ""
    step: Step | None = None


def wanted(passes: Iterable[Pass], sides: Sequence[Configuration]) -> Iterator[tuple[Pass, Configuration]]:
    """What is to be carried out on which configuration, one pass after the other; asked when it is its turn."""
    return ((it, side) for it in passes for side in sides if it.wanted(side))


# In the workers that have measured. CUPTI is the last that looks into runs, as it stays in their processes.
IN_WORKERS = (
    Pass(lambda side: side.timeline is not None and side.has_close_ups, look_closer),
    Pass(lambda side: side.plan.energy and bool(side.modes), measure_energy, "measuring the idle draw", "energy"),
    Pass(lambda side: side.plan.measure_copies, lambda side, _: measure_copies(side), "measuring copies with CUPTI"),
    Pass(lambda side: side.plan.memory and bool(side.modes), lambda side, _: learn_forms(side)),
)

# In workers of their own, when those have ended.
APART = (
    Pass(lambda side: side.plan.nodes, lambda side, _: profile_nodes(side), "profiling nodes"),
    Pass(lambda side: side.forms is not None, weigh_modes),
)


def give_up(side: Configuration) -> None:
    """Say of what was asked of a configuration and has not come that it was interrupted."""
    plan, result, why = side.plan, side.result, "it was interrupted"
    done = [case for case in result.cases if case.status == OK]
    for case in done:
        if plan.memory and case.memory is None:
            case.memory = failed(why)
        if plan.energy and case.energy is None:
            case.energy = {"unsupported": why}
    for option, code, lacking in (
        ("nodes", NODES_FAILED, plan.nodes and result.nodes is None),
        ("measure-copies", COPIES_NOT_MEASURED, plan.measure_copies and all(case.recorded is None for case in done)),
        ("spin", SPIN_NOT_MEASURED, plan.spin and all(f"{CPU_TIME}_{NO_SPIN}" not in case.metrics for case in done)),
    ):
        if lacking and done and all(warning["code"] != code for warning in result.warnings):
            result.warn(code, f"--{option} gave nothing: {why}")
    side.keep()
