"""Requests for a look at something that is not measured: nodes, GPU activity, steps, devices, models, packages."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from ortbench.analysis.packages import MISNAMED, SHARED
from ortbench.plan.chain_plan import chain_from
from ortbench.plan.target import inputs_from, target_from
from ortbench.worker.looks import cuda, cupti
from ortbench.worker.looks import devices as look_devices
from ortbench.worker.looks import memory as look_memory
from ortbench.worker.looks import model as look_model
from ortbench.worker.looks import nodes as look_nodes
from ortbench.worker.modes.base import Mode
from ortbench.worker.session import distributions, ep_by_name, runtime
from ortbench.worker.session.runtime import begin, versions
from ortbench.worker.state import State

if TYPE_CHECKING:
    from ortbench.model import protocol
    from ortbench.model.doctor_schema import Installed
    from ortbench.model.schema import Measured, Nodes, Warned

_PROFILED_RUNS = 3
_CLOSE_UPS, _CLOSE_UP_NS = 8, 1_000_000_000  # a slow model is looked at fewer times


def nodes(
    state: State, model: str, target: dict[str, Any], inputs: dict[str, Any], runs: int, timeline: bool = False
) -> protocol.ProfiledNodes:
    """Profile some runs in a session of their own; see `ortbench.worker.looks.nodes`. A timeline shows the last of them."""
    begin()
    found, profile = look_nodes.profile_nodes(model, target_from(target), inputs_from(inputs), runs)
    return {"found": found, "profile": _recorded(profile.last(_PROFILED_RUNS)) if timeline else None}


def nodes_begin(state: State, model: str, target: dict[str, Any], inputs: dict[str, Any]) -> dict[str, object]:
    """Open a session whose runs are profiled, in turns with those of another worker."""
    begin()
    state.profiling = look_nodes.Profiling(model, target_from(target), inputs_from(inputs))
    return {}


def nodes_run(state: State, runs: int) -> dict[str, object]:
    """A round of runs; the first, with which others had the processor before, does not count."""
    state.profiling.run(runs, warmup=1)
    return {}


def nodes_end(state: State, graph: str) -> Nodes:
    """What was profiled; the graph is a file to write where this environment cannot read models."""
    return state.profiling.end(graph)[0]


def nodes_read(state: State, found: Nodes, model: str, graph: str) -> Nodes:
    """What was profiled in an environment that cannot read models, with what that could not say."""
    return look_nodes.read_elsewhere(found, model, graph)


def forms(state: State) -> list[look_memory.Forms]:
    """What the plain runs of each session gave, in form; see `ortbench.worker.looks.memory`."""
    return look_memory.forms(state.opened)


def memory(state: State, mode: str, depth: int, asked: dict[str, Any], known: list[Any]) -> protocol.Weighed:
    """What a mode takes of memory, in a worker that has done nothing before; `asked` is what `open` is asked for."""
    begin()
    state.modes[mode], found = look_memory.weigh(_opening(asked, known), mode, depth)
    return found


def arenas(
    state: State, mode: str, depth: int, asked: dict[str, Any], known: list[Any], nodes: bool
) -> protocol.WeighedArenas:
    """What the arenas of its sessions held, by ONNX Runtime's profile; with `nodes`, also the nodes that hold most."""
    begin()
    return look_memory.profile(_opening(asked, known), mode, depth, nodes)


def _opening(asked: dict[str, Any], known: list[Any]) -> look_memory.Open:
    if "chain" in asked:
        return partial(look_memory.open_chain, chain_from(asked["chain"]), known)
    steps = asked.get("steps")
    target, inputs = target_from(asked["target"]), inputs_from(asked["inputs"])
    return partial(look_memory.open_model, asked["model"], target, inputs, steps, known)


def measure_copies(state: State, modes: list[str], runs: int) -> dict[str, Measured]:
    return cupti.measure_copies([state.modes[mode] for mode in modes], runs)


def close_up(state: State, mode: str) -> protocol.ClosedUp:
    return {"inferences": step_times(state.modes[mode])}


def step_times(
    mode: Mode, most: int = _CLOSE_UPS, budget_ns: int = _CLOSE_UP_NS, clock: Callable[[], int] = time.perf_counter_ns
) -> list[list[tuple[str, int, int]]]:
    """Time the steps of some inferences, after one that is not timed: name, start and duration in ns of each.

    It is a pass of its own, for a timeline only. The clock is read between the work and its sync, which no sample may have
    inside it, so none of these times is a measurement. No inference is begun once the budget is spent, but one is always timed.
    """
    steps = mode.steps()
    for _, call in steps:
        call()
    begun = clock()
    inferences: list[list[tuple[str, int, int]]] = []
    while not inferences or (len(inferences) < most and clock() - begun < budget_ns):
        taken = []
        for name, call in steps:
            start = clock()
            kept = call()
            taken.append((name, start, clock() - start))
            del kept  # freed outside the clock, as in a sample
        inferences.append(taken)
    return inferences


def profile(state: State, stage: int | None = None) -> protocol.Recorded:
    """Some runs in a session with ONNX Runtime's profiler, and what it recorded of their nodes; of a chain those of a stage."""
    opened = state.opened
    path, target, model, arrays = opened.session(stage)
    return _recorded(look_nodes.profile_runs(path, target, model.provider, arrays, _PROFILED_RUNS))


def devices(state: State, library: str | None = None) -> protocol.Listed:
    begin()
    eps = look_devices.list_devices(library)
    shared: list[Warned] = [{"code": SHARED, "message": sentence} for sentence in ep_by_name.all_shared()]
    wrong: list[Warned] = [{"code": MISNAMED, "message": sentence} for sentence in ep_by_name.all_misnamed()]
    return {
        "eps": eps,
        "runtime": versions(),
        "abilities": runtime.abilities(),
        "warnings": [*distributions.warnings(), *shared, *wrong],
    }


def check_device(state: State, library: str, number: int) -> list[protocol.Check]:
    begin()
    return look_devices.check_device(library, number)


def check_runs(state: State, threads: int, own: bool, runs: int) -> dict[str, str | None]:
    """What goes wrong in runs of several threads at a time, in words, or null."""
    return {"wrong": look_devices.check_runs(state.opened, threads, own, runs)}


def inspect(state: State, model: str, target: dict[str, Any] | None, inputs: dict[str, Any]) -> protocol.Inspected:
    begin()
    return look_model.inspect_model(model, None if target is None else target_from(target), inputs_from(inputs))


def _recorded(profile: look_nodes.Profile) -> protocol.Recorded:
    return {"runs": profile.runs, "nodes": [cast("protocol.NodeEvent", event._asdict()) for event in profile.events]}


def examine(state: State) -> Installed:
    """Every EP and whether it loads, and the libraries of CUDA that came with them."""
    found = devices(state)
    package, built_for = cuda.built()
    return {**found, "package": package, "cuda": None if built_for is None else cuda.cuda(built_for)}
