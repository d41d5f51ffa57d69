"""The figures of chains, from the times of their stages and the copies of their links. Pure."""

from __future__ import annotations

from ortbench.core.stats import summarise
from ortbench.model.modes import CHAIN_MODES, CPU, LATENCY, STAGE, WHOLE_CHAIN, stage_phase
from ortbench.model.result import Case, Result
from ortbench.model.schema import Chain, ChainLink

LINKED = CHAIN_MODES[-1]  # the mode in which links stay where they are


def summarise_stages(case: Case, chain: Chain) -> None:
    """Put the statistics of each stage into a case that follow from the times of all stages."""
    if (latency := case.stats(LATENCY)) is not None:
        case.metrics[WHOLE_CHAIN] = latency
    samples, names = case.samples.get(STAGE), [stage["name"] for stage in chain["stages"]]
    if samples:
        sizes = [size // len(names) for _, size, _ in case.blocks[STAGE]]
        case.metrics |= {
            stage_phase(name): summarise(samples[at :: len(names)], sizes) for at, name in enumerate(names)
        }


def crossing_ns(link: ChainLink) -> int | None:
    """What a link costs through the host in one chain: all its copies, each as long as it takes alone; None where that was not
    measured, 0 where there is none."""
    ways = ((link["downloads"], link["d2h_ns"]), (link["uploads"], link["h2d_ns"]))
    times = [count * ns for count, ns in ways if count and ns is not None]
    return sum(times) if len(times) == sum(1 for count, _ in ways if count) else None


def crosses(link: ChainLink) -> bool:
    """Whether a link is copied where it goes through the host."""
    return bool(link["downloads"] or link["uploads"])


def saved_ns(result: Result) -> float | None:
    """What a chain takes less where its links stay on the device; None where one of the modes was not measured."""
    cpu, resident = (None if it is None else it.median(LATENCY) for it in (result.case(CPU), result.case(LINKED)))
    return None if cpu is None or resident is None else cpu - resident
