"""The request to open a chain: the sessions of all its stages in one process, its links, and a plain run of the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ortbench.analysis.placement import nodes_stay
from ortbench.core.errors import BenchmarkFailed, Unsupported
from ortbench.features.chain.model import ChainLink, ChainStage, OpenedChain
from ortbench.features.chain.plan import chain_from
from ortbench.features.chain.worker.stages import (
    ChainData,
    Joint,
    OpenStage,
    blaming,
    hold_expected,
    join,
    main_of,
    make_chain,
    open_stages,
    run,
)
from ortbench.features.loop.worker.data import LoopData
from ortbench.model import protocol, schema
from ortbench.plan.target import Target, inputs_from
from ortbench.worker import Stages, State, memory
from ortbench.worker.libraries import set_up_onnxruntime
from ortbench.worker.mode_base import Mode
from ortbench.worker.modes import Opened
from ortbench.worker.opening import count_copies, describe_input, describe_loaded_ep, describe_opened, describe_output
from ortbench.worker.session import Model, describe_device, describe_placement, session_ep
from ortbench.worker.tensors import TensorSpec, Value, nbytes

if TYPE_CHECKING:
    from ortbench.features.memory.worker import Forms, Sessions


@dataclass(kw_only=True)
class ChainInWorker(Opened):
    """A chain, of whose stages the rest is the main one's."""

    chain: ChainData

    def make(self, mode: str, depth: int) -> Mode:
        return make_chain(mode, self.chain)

    @property
    def loops(self) -> list[LoopData]:
        return [stage.loop for stage in self.chain.stages]

    def references(self) -> tuple[Sequence[TensorSpec], Sequence[Value]]:
        if not self.data.reference:
            return super().references()
        specs, arrays = zip(*self.chain.outputs(), strict=True)
        return specs, arrays

    def session(self, stage: int | None) -> tuple[str, Target, Model, dict[str, Value]]:
        if stage is None:
            return super().session(stage)
        opened = self.chain.stages[stage]
        return opened.asked.model, opened.model.target, opened.model, opened.loop.single.arrays


def open_chain(state: State, chain: dict[str, Any], inputs: dict[str, Any]) -> OpenedChain:
    """Load the EPs, create the sessions of all stages of a `Chain` as data, join them, and run the whole once with plain arrays."""
    parts = Stages()
    set_up_onnxruntime()
    asked, request = chain_from(chain), inputs_from(inputs)
    parts.end("loading")
    stages = []
    for stage in open_stages(asked):
        stages.append(stage)
        parts.end(f"creating the session of {stage.name}")
    data = ChainData(stages, join(asked, stages))
    main = main_of(stages)
    first = stages[main]
    # Also where the first run fails: the sessions then end with the process.
    opened = ChainInWorker(first.asked.model, first.asked.target, request, first.model, chain=data)
    state.opened = opened
    unsupported, expected = None, None
    try:
        for stage in stages:
            run(stage, data.taken_by(stage))
            parts.end(f"inputs and first run of {stage.name}")
        expected = hold_expected(stages, request)
        opened.data = first.loop.single
    except Unsupported as error:
        unsupported = str(error)
    where = [_placement(it, unsupported is None) for it in stages]
    placed = _join_placements(where)
    described = [describe_loaded_ep(it.asked.target, it.model.provider, parts) for it in stages]
    notes = [note for ep in described for note in ep["notes"]]
    parts.end("where nodes are")
    loops = [] if unsupported else [it.loop for it in stages]
    described_main: protocol.LoadedEp = {
        **described[main],
        "notes": [note for number, note in enumerate(notes) if note not in notes[:number]],
    }
    return {
        **describe_opened(opened, described_main, placed, unsupported, parts, _eps(stages, where)),
        "ep_options": dict(first.model.target.options),
        "inputs": [] if unsupported else _inputs(data),
        "outputs": [] if unsupported else _outputs(data),
        "guessed_dims": {
            f"{stage.name}.{dim}": size
            for stage, loop in zip(stages, loops, strict=False)
            for dim, size in loop.single.guessed_dims.items()
        },
        "expected": expected,
        "session_ns": sum(it.model.session_ns for it in stages),
        "first_inference_ns": sum(loop.first_ns for loop in loops),
        "chain": {
            "stages": [_stage(it, described[n], unsupported is None) for n, it in enumerate(stages)],
            "links": [] if unsupported else [_link(it) for it in data.joints],
            "main": main,
        },
    }


def _placement(stage: OpenStage, has_run: bool) -> schema.Placement:
    """Where the nodes of a stage are. Raises `BenchmarkFailed`: nodes stay on the CPU where none may."""
    asked, model = stage.asked, stage.model
    found = describe_placement(model)
    operators = found["cpu_operators"]
    if operators and asked.target.no_cpu_fallback:
        with blaming(asked):
            listed = ", ".join(f"{name} ({n})" if n > 1 else name for name, n in operators.items())
            raise BenchmarkFailed(f"--no-cpu-fallback: {nodes_stay(sum(operators.values()))} on the CPU: {listed}")
    return count_copies(found, asked.model, model, stage.loop.single.arrays) if has_run else found


def _join_placements(placed: Sequence[schema.Placement]) -> schema.Placement:
    nodes = [it["nodes"] for it in placed if it["nodes"] is not None]
    copies = [it["memcpy_nodes"] for it in placed if it["memcpy_nodes"] is not None]
    operators = sum((Counter(it["cpu_operators"]) for it in placed), Counter[str]())
    return {
        "nodes": dict(sum(map(Counter, nodes), Counter[str]())) if len(nodes) == len(placed) else None,
        "memcpy_nodes": sum(copies) if len(copies) == len(placed) else None,
        "cpu_operators": dict(operators.most_common()),
    }


def _eps(stages: Sequence[OpenStage], placed: Sequence[schema.Placement]) -> list[schema.EpOfSession]:
    """Every EP that stages are on, with its part of the nodes, where there are several; else none."""
    nodes = sum((Counter(it["nodes"] or {}) for it in placed), Counter[str]())
    found = {
        stage.model.provider.name: session_ep(stage.model.provider, describe_device(stage.model), nodes)
        for stage in stages
    }
    return list(found.values()) if len(found) > 1 else []


def _stage(stage: OpenStage, described: protocol.LoadedEp, has_run: bool) -> ChainStage:
    """A stage for the result; the digest of its model and its settings are the other side's to say."""
    steps, model = stage.asked.steps, stage.model
    pairs = stage.loop.pairs if has_run else []
    return {
        "name": stage.name,
        "model": stage.asked.model,
        "sha256": "",
        "ep": described["ep"],
        "ep_version": described["version"],
        "device": describe_device(stage.model),
        "memory": memory.describe_memory(stage.model.provider),
        "repeat": steps.count,
        "feedback": [[model.outputs[pair.out].name, model.inputs[pair.into].name] for pair in pairs],
        "keep": list(steps.keep),
        "session_ns": stage.model.session_ns,
        "first_inference_ns": stage.loop.first_ns if has_run else 0,
        "settings": {},
    }


def _link(joint: Joint) -> ChainLink:
    out, into = joint.locations()
    why = joint.why_copied()
    is_state = joint.target.loop.state_of_input(joint.into) is not None
    return {
        "from": joint.ends[0],
        "to": joint.ends[1],
        "bytes": nbytes(joint.source.last(joint.out)),
        "stays": why is None,
        "why": why,
        "memory": "" if out.own is None else out.own.label,
        "downloads": 0 if out.is_on_host else 1,
        "uploads": 0 if into.is_on_host else 1 if is_state else joint.target.loop.count,
        "d2h_ns": None,
        "h2d_ns": None,
    }


def _inputs(data: ChainData) -> list[schema.Tensor]:
    """What goes into the chain: the inputs that no link gives."""
    found: list[schema.Tensor] = []
    for stage in data.stages:
        taken = {joint.into for joint in data.taken_by(stage)}
        first = {pair.into: array for pair, array in zip(stage.loop.pairs, stage.loop.first, strict=True)}
        for index, spec in enumerate(stage.model.inputs):
            if index not in taken:
                array = first[index] if index in first else stage.loop.feeds[0][spec.name]
                named = f"{stage.name}.{spec.name}"
                found.append({**describe_input(spec, array, stage.loop.single), "name": named})
    return found


def _outputs(data: ChainData) -> list[schema.Tensor]:
    """What comes of the chain: the outputs that no link takes and that are not left where they are."""
    found: list[schema.Tensor] = []
    for stage in data.stages:
        given = {joint.out for joint in data.joints_from(stage)}
        for index, spec in enumerate(stage.model.outputs):
            if index not in given and spec.name not in stage.asked.steps.keep:
                described = describe_output(spec, stage.last(index), stage.loop.single)
                found.append({**described, "name": f"{stage.name}.{spec.name}"})
    return found


def open_without_run(asked: dict[str, Any], known: Sequence[Forms], prefix: str | None) -> Sessions:
    """The sessions of all stages; see `ortbench.features.memory.worker`."""
    from ortbench.features.memory.worker import known_outputs

    chain = chain_from(asked["chain"])
    stages = list(open_stages(chain, prefix))
    for stage, runs in zip(stages, known, strict=True):
        stage.model.known_outputs = known_outputs(runs)

    def make(name: str, depth: int) -> tuple[Mode, list[dict[str, Value]]]:
        data = ChainData(stages, join(chain, stages))
        for stage in stages:
            run(stage, data.taken_by(stage))
        return make_chain(name, data), [stage.loop.single.arrays for stage in stages]

    return [stage.model for stage in stages], make
