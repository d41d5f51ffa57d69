"""The pass behind `--measure-memory`: one mode in a worker of its own, and what it takes of memory.

The worker makes the session, then the mode's buffers, then runs, and nothing else: no plain run with arrays, whose tensors
an arena would keep. What such a run gives is known from the worker that measured, in shape.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from ortbench.core import features
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, ort_text
from ortbench.core.files import temporary_folder
from ortbench.features.memory import analysis
from ortbench.features.memory.analysis import READ, Event
from ortbench.features.memory.model import Weighed, WeighedArenas
from ortbench.model.modes import LATENCY
from ortbench.plan.target import Inputs, Target, inputs_from, target_from, with_own
from ortbench.worker import State, first_run, providers, session
from ortbench.worker.libraries import set_up_onnxruntime
from ortbench.worker.memory import DEVICE, PINNED, count_allocations
from ortbench.worker.mode_base import Mode
from ortbench.worker.modes import Opened as OpenedModel
from ortbench.worker.nodes import KERNEL_TIME, NO_RUN, read_events
from ortbench.worker.session import Model
from ortbench.worker.tensors import Form, TensorSpec, Value, get_form

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): sets the peak back to what there is now


def resident_bytes() -> int | None:
    """The process's resident set, bytes; None where the system does not tell."""
    return _read_status("VmRSS") if _STATUS.exists() else _read_psutil("rss")


def peak_bytes() -> int | None:
    """The most since the process began, or since `restart_peak`, bytes; None where the system does not tell."""
    if _STATUS.exists():
        return _read_status("VmHWM")
    if sys.platform == "win32":
        return _read_psutil("peak_wset")
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def restart_peak() -> bool:
    """Have the peak begin anew; false where that cannot be, so that it is that of the process from its beginning."""
    with suppress(OSError):
        _CLEAR.write_text(_RESET_PEAK)
        return True
    return False


def _read_status(key: str) -> int | None:
    found = re.search(rf"^{key}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return None if found is None else int(found[1]) * 1024


def _read_psutil(key: str) -> int | None:
    try:
        import psutil  # another environment may lack it
    except ImportError:
        return None
    found: int | None = getattr(psutil.Process().memory_info(), key, None)
    return found


def known_outputs(runs: Sequence[Sequence[Form]]) -> Callable[[Sequence[TensorSpec]], list[Value]]:
    """Zeros in the forms that plain runs are known to give, run by run; behind the last of these all are like it."""
    left = [*runs]

    def take(specs: Sequence[TensorSpec]) -> list[Value]:
        forms = left.pop(0) if len(left) > 1 else left[0]
        return [_zeros(spec, form) for spec, form in zip(specs, forms, strict=True)]

    return take


def _zeros(spec: TensorSpec, form: Form) -> Value:
    if form is None:
        return None
    if spec.is_sequence:
        return [np.zeros(shape, spec.dtype) for shape in form]
    return np.full(form, "", object) if spec.is_string else np.zeros(form, spec.dtype)


RUNS = 3  # the first finds a memory pattern out, the second makes use of it
Forms = Sequence[Sequence[Form]]  # of each plain run of a session the outputs' forms


def forms(state: State) -> list[Forms]:
    """Of each session of an open model, a loop or a chain, what its plain runs gave, in form."""
    opened = state.opened
    return [_loop_forms(it) for it in opened.loops] or [[[get_form(it) for it in opened.data.reference]]]


def _loop_forms(loop: Any) -> Forms:
    states = {pair.out: number for number, pair in enumerate(loop.pairs)}
    found = []
    begin = [(loop.outputs[0], loop.shapes[0])] if loop.generated is None else []  # of what finds the first state
    for outputs, after in (*begin, *zip(loop.outputs, loop.shapes[1:], strict=True)):
        free = iter(outputs)
        numbers = range(len(outputs) + len(states))
        found.append([list(after[states[it]]) if it in states else get_form(next(free)) for it in numbers])
    return found


# Sessions that have made no run; and what sets a mode up, by its name and the depth of a pipeline, which also gives the inputs of a
# plain run of each session.
Sessions = tuple[list[Model], Callable[[str, int], tuple[Mode, list[dict[str, Value]]]]]


def _open_mode(asked: dict[str, Any], known: Sequence[Forms], prefix: str | None = None) -> Sessions:
    """What `open`, or another request that opens something, was asked for (``do`` says which); with the prefix of the files of ONNX
    Runtime's profile it is profiled."""
    module = features.requests().get(asked["do"])
    open_it: Callable[..., Sessions] = import_module(module).open_without_run if module else open_model
    return open_it(asked, known, prefix)


def open_model(
    asked: dict[str, Any],
    known: Sequence[Forms],
    prefix: str | None,
    target: Target | None = None,
    kind: Callable[[str, Target, Inputs, Model], OpenedModel] = OpenedModel,
) -> Sessions:
    """The session of one model, and a `kind` of what can be open for its modes."""
    path, request = asked["model"], inputs_from(asked["inputs"])
    target = target or target_from(asked["target"])
    provider = providers.find(target)
    model = session.open_model(path, with_own(target, provider.name), provider, profile_prefix=prefix)
    model.known_outputs = known_outputs(known[0])

    def make(name: str, depth: int) -> tuple[Mode, list[dict[str, Value]]]:
        one = kind(path, target, request, model)
        one.run_first()
        return one.make(name, depth), [one.data.arrays]

    return [model], make


def memory(state: State, mode: str, depth: int, asked: dict[str, Any], known: list[Any]) -> Weighed:
    """Set a mode up as the first thing that this process does, run it, and say what memory it takes. `asked` is what `open` is asked
    for, `known_outputs` what `forms` gave. Raises `OrtbenchError`: it cannot be set up or run."""
    set_up_onnxruntime()
    counted = count_allocations()
    before = resident_bytes()
    restarted = restart_peak()
    models, make = _open_mode(asked, known)
    with_session = resident_bytes()
    state.modes[mode], _ = make(mode, depth)
    _run(state.modes[mode])
    on_host = all(model.provider.computes_on_host for model in models)
    return {
        "bound": None if on_host else counted.most[DEVICE],
        "pinned": counted.most[PINNED],
        "before": before,
        "session": with_session,
        "peak": peak_bytes(),
        "restarted": restarted,
    }


def arenas(state: State, mode: str, depth: int, asked: dict[str, Any], known: list[Any], nodes: bool) -> WeighedArenas:
    """Run a mode in sessions that are profiled, and say what their arenas held; with `nodes`, which nodes hold most."""
    set_up_onnxruntime()
    with temporary_folder() as folder:
        models, make = _open_mode(asked, known, str(Path(folder) / "profile"))
        made, arrays_of = make(mode, depth)
        _run(made)
        sessions = [_events(*it) for it in zip(models, arrays_of, strict=True)]
    return {
        "arenas": analysis.arenas(sessions),
        "version": ort.__version__,
        "nodes": analysis.heaviest(event for own, _ in sessions for event in own) if nodes else None,
    }


def _run(made: Mode) -> None:
    call, a, b = made.phases()[LATENCY]
    try:
        for _ in range(RUNS):
            call(a, b)
        made.wait_idle()
    except OrtbenchError:
        raise
    except Exception as error:
        raise BenchmarkFailed(ort_text(error)) from None


def _events(model: Model, arrays: dict[str, Value]) -> tuple[list[Event], list[Event]]:
    """What the profile of a session, which it ends, has on the nodes so far, and on those of one plain run more.

    Of an allocator that nothing was asked of, ONNX Runtime records as little as of one that does not tell. A plain run asks it
    for room for its inputs, and so shows which it is.
    """
    model.known_outputs, is_plain = None, False
    with suppress(Exception):
        first_run.run_once(model, arrays)
        is_plain = True
    runs: list[list[Event]] = [[]]
    for event in read_events(model.session.end_profiling()):
        if event.get("cat") == "Node" and event["name"].endswith(KERNEL_TIME):
            args = event.get("args", {})
            runs[-1].append((event["name"].removesuffix(KERNEL_TIME), {key: args[key] for key in READ if key in args}))
        elif event.get("cat") == "Session" and event["name"] == "model_run":  # recorded when it ends, as nodes are
            runs.append([])
    if not runs[:-1]:
        raise BenchmarkFailed(NO_RUN)
    *own, plain = runs[:-1] if is_plain else runs
    return [event for run in own for event in run], plain
