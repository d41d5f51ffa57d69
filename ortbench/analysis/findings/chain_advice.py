"""What the figures of a chain mean, from the result alone."""

from __future__ import annotations

from ortbench.analysis.comparing.claims import FASTER, MARGIN, NOISY, UNKNOWN, claim_of
from ortbench.analysis.comparing.pairs import TOO_FEW
from ortbench.analysis.findings.finding import Finding, Weight, merged
from ortbench.analysis.findings.phrases import NOTHING, quickest, times, times_as_fast
from ortbench.analysis.findings.speedups import condition, is_on_host, unsure
from ortbench.analysis.steps_and_stages import LINKED, crosses, crossing_ns, saved_ns
from ortbench.core.safe_text import first_of
from ortbench.core.units import count, duration, share, size
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result import OK, Result
from ortbench.model.schema import Chain

_MOST = 5  # links that a finding names
_HOW = "bind each output's OrtValue as the next stage's input, see ortbench explain --more chains"


def chain_findings(result: Result, chain: Chain) -> list[Finding]:
    return [*_kept(result, chain), *_slowest(result), *_through_host(chain), *_copied(chain)]


def chain_headline(result: Result, chain: Chain) -> str:
    resident, noisy = result.case(LINKED), ""
    if resident is not None and resident.speedup is not None and not is_on_host(result):
        verdict = claim_of(resident)
        if verdict in (FASTER, UNKNOWN):
            unsure = f"; {TOO_FEW}" if verdict == UNKNOWN else ""
            return f"The chain is {times(resident.speedup)} as fast with its links on the device{unsure}"
        noisy = f"; {NOISY} whether links on the device make it faster" if verdict == NOISY else ""
    found = quickest(result)
    if found is None:
        return NOTHING
    return f"The chain takes {duration(found[1])} with {found[0].mode}{noisy}"


def _kept(result: Result, chain: Chain) -> list[Finding]:
    """What it brings that links stay on the device; where all stages compute in host memory, that values are handed on."""
    cpu, resident, saved = result.case(CPU), result.case(LINKED), saved_ns(result)
    if cpu is None or resident is None or resident.speedup is None or saved is None:
        return []
    host, verdict = is_on_host(result), claim_of(resident)
    what, whole = f"{LINKED} is {times_as_fast(resident.speedup, CPU)}", cpu.median(LATENCY) or 1
    if verdict in (UNKNOWN, NOISY):
        return [unsure(result, resident, what)]
    if verdict != FASTER:
        kept = "handing tensors on in host memory" if host else "keeping intermediate tensors on the device"
        top = 0.0 if resident.speedup.ci95 is None else resident.speedup.ci95[1]
        told = f"{kept} does not make the median of a chain more than {MARGIN:.0%} shorter"
        if top > 1 + MARGIN:
            told = f"it cannot be told whether {kept} makes the median of a chain more than {MARGIN:.0%} shorter"
        return [Finding(what, told, weight=Weight.ANSWER)]
    saves = f"saves {duration(saved)} per chain, {share(saved / whole)} of it"
    if host:
        evidence = f"{saves}; all stages compute in host memory: calls and allocations, not copies over a link"
        return [Finding(what, evidence, _HOW, Weight.ANSWER, "good")]
    staying = [link for link in chain["links"] if link["stays"] and crosses(link)]
    stay = f"keeping {count(len(staying), 'link')} ({size(sum(link['bytes'] for link in staying))}) on the device"
    return [
        Finding(
            f"{what},{condition(result, LINKED)}", f"{stay} {saves}" if staying else saves, _HOW, Weight.ANSWER, "good"
        )
    ]


def _through_host(chain: Chain) -> list[Finding]:
    """What each link costs where it goes through the host, by its copies alone."""
    costs = [(crossing_ns(link), link) for link in chain["links"] if link["stays"]]
    known = sorted(((ns, link["from"], link["to"]) for ns, link in costs if ns), reverse=True)
    if not known:
        return []
    named = first_of([f"{one} → {other} {duration(ns)}" for ns, one, other in known], _MOST)
    return [Finding("Copies of links through the host, each measured alone", named, weight=Weight.DETAIL)]


def _copied(chain: Chain) -> list[Finding]:
    """The links that cannot stay, and why."""
    links = [
        (f"{it['from']} → {it['to']} ({size(it['bytes'])})", it["why"]) for it in chain["links"] if not it["stays"]
    ]
    return [
        Finding(f"{names} {'is' if many == 1 else 'are'} copied in every mode", str(why), weight=Weight.COST)
        for names, many, why in merged(links)
    ]


def _slowest(result: Result) -> list[Finding]:
    measured = [case for case in result.cases if case.status == OK and len(case.stages) > 1]
    if not measured:
        return []
    case = min(measured, key=lambda it: it.median(LATENCY) or 0)
    whole = case.median(LATENCY) or 1
    name, stats = max(case.stages.items(), key=lambda item: item[1].median)
    what = f"Stage {name} takes {share(stats.median / whole)} of the chain with {case.mode}"
    return [Finding(what, f"{duration(stats.median)} of {duration(whole)}")]
