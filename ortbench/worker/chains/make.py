"""How a mode of a chain is set up by its name."""

from __future__ import annotations

from ortbench.core.errors import OrtbenchError, Unsupported
from ortbench.model.modes import CPU, LATENCY
from ortbench.worker.chains.cpu import CpuStage, Taken
from ortbench.worker.chains.data import ChainData, OpenStage, of_stage
from ortbench.worker.chains.mode import ChainMode
from ortbench.worker.chains.resident import Links, ResidentStage
from ortbench.worker.loops.base import LoopMode


def make_chain(name: str, data: ChainData) -> ChainMode:
    """Set a mode of a chain up.

    Args:
        name: of the mode.
        data: the chain.

    Raises:
        Unsupported: an EP or a model cannot do it.
    """
    made: dict[int, LoopMode] = {}  # by the id of the stage
    for stage in data.stages:
        try:
            made[id(stage)] = _cpu(stage, data, made) if name == CPU else _resident(stage, data, made)
        except OrtbenchError as error:
            raise of_stage(stage.name, error) from None
    return ChainMode(name, data, list(made.values()), main_of(data.stages))


def main_of(stages: list[OpenStage]) -> int:
    """The number of the stage that a chain's EP is named after: the first one on a device, or the first one."""
    on_device = (number for number, stage in enumerate(stages) if not stage.model.provider.computes_on_host)
    return next(on_device, 0)


def _cpu(stage: OpenStage, data: ChainData, made: dict[int, LoopMode]) -> CpuStage:
    taken = []
    for joint in data.taken_by(stage):
        source = made[id(joint.source)]
        assert isinstance(source, CpuStage)
        taken.append(Taken(joint.into, source, joint.out))
    return CpuStage(stage.model, stage.loop, taken)


def _resident(stage: OpenStage, data: ChainData, made: dict[int, LoopMode]) -> ResidentStage:
    if (reason := ResidentStage.single.refusal(stage.model.provider)) is not None:
        raise Unsupported(reason)
    for spec in (*stage.model.inputs, *stage.model.outputs):
        spec.check_binding()
    taken = {}
    for joint in data.taken_by(stage):
        source = made[id(joint.source)]
        assert isinstance(source, ResidentStage)
        taken[joint.taken.name] = source.handed(joint.out, stays=joint.why_copied() is None)
    given = data.given_by(stage)
    crossing = [joint for joint in given if joint.why_copied() is not None]
    read = {it.given.name for it in crossing if it.given.is_packed or not it.places()[0].on_host}
    links = Links(taken, {joint.given.name for joint in given}, read)
    made_stage = ResidentStage(stage.model, stage.loop, stage.asked.steps, links)
    made_stage.phases()[LATENCY][0](None, None)  # so that the next is set up with something to take
    return made_stage
