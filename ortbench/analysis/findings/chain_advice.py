"""What the figures of a chain mean, from the result alone."""

from __future__ import annotations

from ortbench.analysis.findings.phrases import NO_DIFFERENCE, NOTHING, first_of, is_told, quickest, times_as_fast
from ortbench.analysis.steps_and_stages import LINKED, crosses, crossing_ns, saved_ns
from ortbench.core.units import count, duration, ratio, share, size
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import OK, Result
from ortbench.model.schema import Chain

_MOST = 5  # links that a sentence names


def chain_sentences(result: Result, chain: Chain) -> list[str]:
    return [*_on_host(chain), *_kept(result, chain), *_through_host(chain), *_copied(chain), *_slowest(result)]


def chain_headline(result: Result, chain: Chain) -> str:
    resident = result.case(LINKED)
    if resident is not None and resident.speedup is not None and not _is_on_host(chain):
        return f"The chain is {ratio(resident.speedup.value)} times as fast with its links on the device"
    found = quickest(result)
    return NOTHING if found is None else f"The chain takes {duration(found[1])} with {found[0].mode}"


def _is_on_host(chain: Chain) -> bool:
    return all(stage["memory"]["kind"] == "host" for stage in chain["stages"])


def _on_host(chain: Chain) -> list[str]:
    if not _is_on_host(chain):
        return []
    return [
        "All stages compute in host memory: no link crosses to a device. The other mode is IO binding with values handed on, so "
        "the difference shows the cost of calls and of allocating outputs, not of a transfer."
    ]


def _kept(result: Result, chain: Chain) -> list[str]:
    """What it brings that links stay on the device."""
    cpu, resident, saved = result.case(CPU), result.case(LINKED), saved_ns(result)
    if cpu is None or resident is None or resident.speedup is None or saved is None or _is_on_host(chain):
        return []
    said = f"{LINKED} is {times_as_fast(resident.speedup, CPU)}"
    if (interval := resident.speedup.ci95) is not None and not is_told(interval):
        return [f"{said}: {NO_DIFFERENCE}"]
    if saved <= 0:
        return [f"{said}."]
    staying = [link for link in chain["links"] if link["stays"] and crosses(link)]
    moved, stay = sum(link["bytes"] for link in staying), "stays" if len(staying) == 1 else "stay"
    what = f": {count(len(staying), 'link')} ({size(moved)}) {stay} on the device" if staying else ""
    whole = cpu.median(LATENCY) or 1
    return [f"{said}{what}, which saves {duration(saved)} a chain, {share(saved / whole)} of it."]


def _through_host(chain: Chain) -> list[str]:
    """What each link costs where it goes through the host, by its copies alone."""
    costs = [(crossing_ns(link), link) for link in chain["links"] if link["stays"]]
    known = sorted(((ns, link["from"], link["to"]) for ns, link in costs if ns), reverse=True)
    if not known:
        return []
    named = first_of([f"{one} → {other} {duration(ns)}" for ns, one, other in known], _MOST)
    return [f"Through the host the copies of a link alone take: {named}."]


def _copied(chain: Chain) -> list[str]:
    """The links that cannot stay, and why."""
    links = [link for link in chain["links"] if not link["stays"]]
    found = [
        f"{link['from']} → {link['to']} ({size(link['bytes'])}) is copied in every mode: {link['why']}."
        for link in links
    ]
    return found[:_MOST] + ([f"{count(len(links) - _MOST, 'link')} more are copied too."] if len(links) > _MOST else [])


def _slowest(result: Result) -> list[str]:
    measured = [case for case in result.cases if case.status == OK and len(case.stages) > 1]
    if not measured:
        return []
    case = min(measured, key=lambda it: it.median(LATENCY) or 0)
    whole = sum(stats.median for stats in case.stages.values())
    name, stats = max(case.stages.items(), key=lambda item: item[1].median)
    return [f"{name} takes {share(stats.median / max(whole, 1))} of the chain's time with {case.mode}."]
