"""Has every mode weighed, when everything is measured: each in a worker of its own, or several, which do nothing else.

A second worker runs the mode in profiled sessions, for what ONNX Runtime's profile has on arenas: a profile takes memory
itself. What goes wrong is said of the mode that it is of; nothing that was measured is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from ortbench.analysis.memory import KEY
from ortbench.core.errors import OrtbenchError
from ortbench.core.features import part_of
from ortbench.core.resampling import FEW, student
from ortbench.features.memory.analysis import device_total
from ortbench.features.memory.model import CaseMemory, Weighed, WeighedArenas, WeighedHost, lacking
from ortbench.measure.configuration import Configuration
from ortbench.measure.gpus import held_by_process, read_cards
from ortbench.measure.process import request_of, worker_for
from ortbench.model.hardware_names import is_on_nvidia
from ortbench.model.kinds import kind_of
from ortbench.model.modes import DEVICE_MEMORY, HOST_MEMORY
from ortbench.model.result import OK, Case, Result

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
    plan, asked = configuration.plan, request_of(configuration.plan)
    part_of(configuration.result.kind, "measure", "complete_request", lambda *_: None)(configuration.result, asked)
    asked["do"] = plan.part.opened_by
    request = {"mode": mode, "depth": plan.loop.depth, "asked": asked, "known": configuration.kept[_OPTION]}
    on_card = _uses_card(configuration.result)
    before = read_cards() if on_card else []
    with worker_for(plan) as client:
        client.while_waiting = configuration.while_waiting
        weighed: Weighed = client.ask("memory", **request)
        card, card_how = held_by_process(before, read_cards() if on_card else [], client.pid)
    memory: CaseMemory = {
        "failed": None,
        "device": None,
        "host": _how(weighed["host"], plan.passes[_OPTION]),
        "arenas": [],
        "arenas_how": "",
    }
    case.put(f"{HOST_MEMORY}_before", weighed["host"]["before"])
    case.put(f"{HOST_MEMORY}_session", weighed["host"]["session"])
    _put_peaks(case, [weighed["host"]["peak"], *_other_peaks(configuration, request)])
    case.put("pinned_memory", weighed["host"]["pinned"])
    _add_arenas(memory, configuration, request)
    if arenas := memory["arenas"]:
        case.put("arena_held", sum(it["held"] for it in arenas))
        case.put("arena_in_use", sum(it["in_use"] for it in arenas))
    if weighed["bound"] is not None:
        total, memory["device"] = device_total(weighed["bound"], arenas, card, card_how)
        case.put(DEVICE_MEMORY, total)
        case.put(f"{DEVICE_MEMORY}_bound", weighed["bound"])
        case.put(f"{DEVICE_MEMORY}_process", card)
    return memory


def _other_peaks(configuration: Configuration, request: dict[str, Any]) -> list[int | None]:
    """What further workers take at most; in each of them memory lies elsewhere."""
    peaks = []
    for _ in range(configuration.plan.passes[_OPTION] - 1):
        with worker_for(configuration.plan) as client:
            client.while_waiting = configuration.while_waiting
            weighed: Weighed = client.ask("memory", **request)
            peaks.append(weighed["host"]["peak"])
    return peaks


def _put_peaks(case: Case, peaks: Sequence[int | None]) -> None:
    """The median of what workers take at most, and its interval where they are enough."""
    known = [it for it in peaks if it is not None]
    peak = round(median(known)) if known else None
    case.put(HOST_MEMORY, peak, student(known, peak) if peak is not None and len(known) >= FEW else None)


def _how(weighed: WeighedHost, workers: int) -> str:
    how = "the worker's resident set size (RSS) before the session, with it, and at its peak (host memory)"
    how += f"; its peak is the median of {workers} workers" if workers > 1 else ""
    if weighed["peak"] is None:
        how = "not known: the system does not tell"
    elif not weighed["restarted"]:
        how += "; its peak is that since the worker began"
    return how


def _add_arenas(memory: CaseMemory, configuration: Configuration, request: dict[str, Any]) -> None:
    if configuration.plan.target.cuda_graph:
        memory["arenas_how"] = "not known: a graph that is replayed shows no nodes"
        return
    try:
        with worker_for(configuration.plan) as client:
            client.while_waiting = configuration.while_waiting
            weighed: WeighedArenas = client.ask("arenas", **request, nodes=configuration.plan.nodes)
    except OrtbenchError as error:
        memory["arenas_how"] = f"not known: {error}"
        return
    memory["arenas"], memory["arenas_how"] = (
        weighed["arenas"],
        _OF_STAGES if kind_of(configuration.result.kind).of_stages else _PROFILE,
    )
    if not weighed["arenas"]:
        memory["arenas_how"] = (
            f"not known: the profile of ONNX Runtime {weighed['version']} has nothing of it (it has since 1.28, where the EP's "
            "allocator tells)"
        )
    if weighed["nodes"] is not None:
        memory["nodes"] = weighed["nodes"]


def _uses_card(result: Result) -> bool:
    stages = result.part["stages"] if kind_of(result.kind).of_stages else []
    return any(is_on_nvidia(it) for it in (result.target, *result.target.get("eps", ()), *stages))
