"""Has every mode weighed, when everything is measured: each in a worker of its own, or several, which do nothing else.

A second worker runs the mode in profiled sessions, for what ONNX Runtime's profile has on arenas: a profile takes memory
itself. What goes wrong is said of the mode that it is of; nothing that was measured is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from ortbench.analysis.derive import KEY
from ortbench.core.errors import OrtbenchError
from ortbench.core.features import part_of
from ortbench.core.stats import FEW, student
from ortbench.features.memory.analysis import device_total
from ortbench.features.memory.model import Arena, CaseMemory, NodeMemory, Weighed, WeighedArenas, lacking
from ortbench.measure.configuration import Configuration
from ortbench.measure.gpus import held_by_process, read_cards
from ortbench.measure.process import Client, request_of, worker_for
from ortbench.model.kinds import kind_of
from ortbench.model.modes import DEVICE_MEMORY, HOST_MEMORY
from ortbench.model.result import OK, Case
from ortbench.model.schema import is_on_nvidia

_OPTION = "measure-memory"
_PROFILE = "ONNX Runtime's profile of the same inferences in another worker"
_OF_STAGES = f"{_PROFILE}; the sum of what each stage's had at most, which need not be at the same time"


def measure_memory(configuration: Configuration, _: Callable[[str], None]) -> None:
    """Keep what the worker that has measured knows of the outputs; where it cannot be asked any more the modes say so."""
    try:
        configuration.kept[_OPTION] = configuration.ask("forms")
    except OrtbenchError as error:
        for mode in configuration.modes:
            configuration.cases[mode].own[KEY] = lacking(str(error))


def measure_memory_apart(configuration: Configuration, tell: Callable[[str], None]) -> None:
    """Weigh every mode that is ok, of a configuration whose worker has ended, so that the card is free of it."""
    for mode, case in configuration.cases.items():
        if case.status != OK:
            continue
        tell(f"memory of {mode} ({configuration.name})")
        with configuration.stage(f"memory of {mode}"):
            try:
                with configuration.same_model():
                    case.own[KEY] = _weigh(configuration, mode, case)
            except OrtbenchError as error:
                case.own[KEY] = lacking(str(error))
        configuration.keep()


def _weigh(configuration: Configuration, mode: str, case: Case) -> CaseMemory:
    plan, result, asked = configuration.plan, configuration.result, request_of(configuration.plan)
    part_of(result.kind, "measure", "complete_request", lambda *_: None)(result, asked)
    asked["do"] = plan.part.opened_by
    request = {"mode": mode, "depth": plan.loop.depth, "asked": asked, "known": configuration.kept[_OPTION]}
    workers, stages = plan.passes[_OPTION], result.part["stages"] if kind_of(result.kind).of_stages else []
    on_card = any(is_on_nvidia(it) for it in (result.target, *result.target.get("eps", ()), *stages))
    before = read_cards() if on_card else []
    with _worker(configuration) as client:
        weighed: Weighed = client.ask("memory", **request)
        card, card_how = held_by_process(before, read_cards() if on_card else [], client.pid)
    peaks = [weighed["peak"]]
    for _ in range(workers - 1):  # in each of them memory lies elsewhere
        with _worker(configuration) as client:
            peaks.append(client.ask("memory", **request)["peak"])
    known = [it for it in peaks if it is not None]
    peak = round(median(known)) if known else None
    case.set_metric(f"{HOST_MEMORY}_before", weighed["before"])
    case.set_metric(f"{HOST_MEMORY}_session", weighed["session"])
    case.set_metric(HOST_MEMORY, peak, student(known, peak) if peak is not None and len(known) >= FEW else None)
    case.set_metric("pinned_memory", weighed["pinned"])
    arenas, arenas_how, nodes = _ask_arenas(configuration, request)
    host = _host_how(weighed, workers)
    memory: CaseMemory = {"failed": None, "device": None, "host": host, "arenas": arenas, "arenas_how": arenas_how}
    if nodes is not None:
        memory["nodes"] = nodes
    if arenas:
        case.set_metric("arena_held", sum(it["held"] for it in arenas))
        case.set_metric("arena_in_use", sum(it["in_use"] for it in arenas))
    if weighed["bound"] is not None:
        total, memory["device"] = device_total(weighed["bound"], arenas, card, card_how)
        case.set_metric(DEVICE_MEMORY, total)
        case.set_metric(f"{DEVICE_MEMORY}_bound", weighed["bound"])
        case.set_metric(f"{DEVICE_MEMORY}_process", card)
    return memory


@contextmanager
def _worker(configuration: Configuration) -> Iterator[Client]:
    with worker_for(configuration.plan) as client:
        client.while_waiting = configuration.while_waiting
        yield client


def _host_how(weighed: Weighed, workers: int) -> str:
    if weighed["peak"] is None:
        return "not known: the system does not tell"
    how = "the worker's resident set size (RSS) before the session, with it, and at its peak (host memory)"
    how += f"; its peak is the median of {workers} workers" if workers > 1 else ""
    return how if weighed["restarted"] else f"{how}; its peak is that since the worker began"


def _ask_arenas(
    configuration: Configuration, request: dict[str, Any]
) -> tuple[list[Arena], str, list[NodeMemory] | None]:
    """The arenas, how they are known or why not, and the nodes that hold most where they are wanted."""
    if configuration.plan.target.cuda_graph:
        return [], "not known: a graph that is replayed shows no nodes", None
    try:
        with _worker(configuration) as client:
            weighed: WeighedArenas = client.ask("arenas", **request, nodes=configuration.plan.nodes)
    except OrtbenchError as error:
        return [], f"not known: {error}", None
    how = _OF_STAGES if kind_of(configuration.result.kind).of_stages else _PROFILE
    if not weighed["arenas"]:
        since = "it has since 1.28, where the EP's allocator tells"
        how = f"not known: the profile of ONNX Runtime {weighed['version']} has nothing of it ({since})"
    return weighed["arenas"], how, weighed["nodes"]
