"""The pass behind `--memory`: one mode in a worker of its own, and what it takes of memory.

The worker makes the session, then the mode's buffers, then runs, and nothing else: no plain run with arrays, whose tensors
an arena would keep. What such a run gives is known from the worker that measured, in shape.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import onnxruntime as ort

from ortbench.analysis.nodes import node_memory
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, ort_text
from ortbench.model.modes import LATENCY
from ortbench.plan.chain_plan import Chain
from ortbench.plan.ep_options import with_own
from ortbench.plan.loop_plan import Steps
from ortbench.plan.target import Inputs, Target
from ortbench.worker.modes.base import Mode
from ortbench.worker.session import first_run, ledger, providers, resident_set, session
from ortbench.worker.session.known import Form, KnownOutputs, form_of
from ortbench.worker.session.session import Model
from ortbench.worker.session.tensors import Value
from ortbench.worker.state import opened_of

if TYPE_CHECKING:
    from ortbench.model import protocol
    from ortbench.worker import state
    from ortbench.worker.loops.data import LoopData

RUNS = 3  # the first finds a memory pattern out, the second makes use of it
_KERNEL_TIME = "_kernel_time"
Forms = Sequence[Sequence[Form]]  # of each plain run of a session the outputs' forms


def forms(opened: state.Opened) -> list[Forms]:
    """Of each session of an open model, a loop or a chain, what its plain runs gave."""
    return [_of_loop(it) for it in opened.loops] or [[[form_of(it) for it in opened.data.reference]]]


def _of_loop(loop: LoopData) -> Forms:
    held = {pair.out: number for number, pair in enumerate(loop.pairs)}
    found = []
    for number, outputs in enumerate(loop.outputs):
        free = iter(outputs)
        count = len(outputs) + len(held)
        found.append(
            [
                list(loop.shapes[number + 1][held[place]]) if place in held else form_of(next(free))
                for place in range(count)
            ]
        )
    return found


@dataclass
class Opened:
    """What is open, and nothing more: no run has been made.

    Attributes:
        models: the sessions.
        make: sets a mode up, by its name and the depth of a pipeline.
        arrays: for each session the inputs of a plain run; there once a mode is set up.
    """

    models: list[Model]
    make: Callable[[str, int], Mode]
    arrays: list[dict[str, Value]] = field(default_factory=list)


Open = Callable[[str | None], Opened]  # opens, with the prefix of the files of ONNX Runtime's profile, or without one


def open_model(
    path: str, target: Target, request: Inputs, steps: Steps | None, known: Sequence[Forms], prefix: str | None
) -> Opened:
    """Open a model.

    Args:
        path, target, request, steps: see `ortbench.worker.opening.open`.
        known: what plain runs are known to give, see `forms`.
        prefix: where ONNX Runtime's profile goes; None for a session without.
    """
    provider = providers.find(target)
    model = session.open_model(path, with_own(target, provider.name), provider, profile_prefix=prefix)
    model.known = KnownOutputs(known[0])

    def make(name: str, depth: int) -> Mode:
        one = opened_of(path, target, request, model, steps)
        one.run_first()
        opened.arrays.append(one.data.arrays)
        return one.make(name, depth)

    opened = Opened([model], make)
    return opened


def open_chain(chain: Chain, known: Sequence[Forms], prefix: str | None) -> Opened:
    """Open all stages of a chain; see `open_model`."""
    from ortbench.worker.chains.data import ChainData, join, open_stages, run
    from ortbench.worker.chains.make import make_chain

    stages = list(open_stages(chain, prefix))
    for stage, runs in zip(stages, known, strict=True):
        stage.model.known = KnownOutputs(runs)

    def make(name: str, depth: int) -> Mode:
        data = ChainData(stages, join(chain, stages))
        for stage in stages:
            run(stage, data.taken_by(stage))
            opened.arrays.append(stage.loop.single.arrays)
        return make_chain(name, data)

    opened = Opened([stage.model for stage in stages], make)
    return opened


def weigh(opening: Open, mode: str, depth: int) -> tuple[Mode, protocol.Weighed]:
    """Set a mode up as the first thing that this process does, run it, and say what memory it takes.

    Args:
        opening: of what it is of.
        mode: its name.
        depth: of a pipeline.

    Returns:
        The mode, which must live as long as anybody looks at the device, and its figures in bytes.

    Raises:
        OrtbenchError: it cannot be set up or run.
    """
    counted = ledger.begin()
    before = resident_set.now()
    restarted = resident_set.restart_peak()
    opened = opening(None)
    with_session = resident_set.now()
    made = opened.make(mode, depth)
    _run(made)
    host: protocol.WeighedHost = {
        "before": before,
        "session": with_session,
        "peak": resident_set.peak(),
        "pinned": counted.most[ledger.PINNED],
        "restarted": restarted,
    }
    on_host = all(model.provider.computes_on_host for model in opened.models)
    return made, {"bound": None if on_host else counted.most[ledger.DEVICE], "host": host}


def profile(opening: Open, mode: str, depth: int, nodes: bool) -> protocol.WeighedArenas:
    """Run a mode in sessions that are profiled, and say what their arenas held; with `nodes`, which nodes hold most."""
    with tempfile.TemporaryDirectory(prefix="ortbench-") as folder:
        opened = opening(str(Path(folder) / "profile"))
        made = opened.make(mode, depth)
        _run(made)
        sessions = [_events(*it) for it in zip(opened.models, opened.arrays, strict=True)]
    every = [event for own, _ in sessions for event in own]
    return {
        "arenas": node_memory.together(node_memory.arenas(*it) for it in sessions),
        "version": ort.__version__,
        "nodes": node_memory.heaviest(every) if nodes else None,
    }


def _run(made: Mode) -> None:
    call, a, b = made.phases()[LATENCY]
    try:
        for _ in range(RUNS):
            call(a, b)
        made.rest()
    except OrtbenchError:
        raise
    except Exception as error:
        raise BenchmarkFailed(ort_text(error)) from None


def _events(model: Model, arrays: dict[str, Value]) -> tuple[list[node_memory.Event], list[node_memory.Event]]:
    """What the profile of a session, which it ends, has on the nodes so far, and on those of one plain run more.

    Of an allocator that nothing was asked of, ONNX Runtime records as little as of one that does not tell. A plain run asks it
    for room for its inputs, and so shows which it is.
    """
    model.known, is_plain = None, False
    with suppress(Exception):
        first_run.run_once(model, arrays)
        is_plain = True
    text = Path(model.session.end_profiling()).read_text(encoding="utf-8", errors="replace")
    runs: list[list[node_memory.Event]] = [[]]
    for event in json.loads(text, strict=False):
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL_TIME):
            runs[-1].append((event["name"].removesuffix(_KERNEL_TIME), event.get("args", {})))
        elif event.get("cat") == "Session" and event["name"] == "model_run":  # recorded when it ends, as nodes are
            runs.append([])
    *own, plain = runs[:-1] if is_plain else runs
    return [event for run in own for event in run], plain
