"""What a report says first of a machine that was busy: why, what mends it, and the figures of the rounds that were quiet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ortbench.analysis.comparing.comparable import settings_of
from ortbench.analysis.comparing.compare import are_one_run
from ortbench.analysis.findings.finding import Finding, merged
from ortbench.analysis.findings.phrases import placed
from ortbench.analysis.loads.levels import INFERENCES, RATE, at
from ortbench.analysis.noise import Quiet, busy_finding, joined, made_by_noise, quiet_cases, rounds
from ortbench.core import units
from ortbench.core.safe_text import first_of, listed
from ortbench.model.kinds import KINDS
from ortbench.model.result import OK, Case, Result
from ortbench.report.model import Block, Findings

_SHOWN = 4  # cases whose quiet figures are shown


def noise_part(result: Result, is_mended: bool = False) -> list[Sequence[Block]]:
    """The part of a report that stands first; none where the machine was quiet, or nobody knows. Without a command where one below
    mends it too."""
    busy = busy_finding(result)
    return [] if busy is None else [[Findings([busy._replace(next="") if is_mended else busy, *_quiet(result)])]]


def _quiet(result: Result) -> Iterator[Finding]:
    """The figures of quiet rounds, and how many of all those are; of a load by number of clients: rates are what was asked for."""
    known = {} if result.noise is None else rounds(result.noise)
    found = [it for it in quiet_cases(result) if it.case.load_blocks is None or at(it.case).kind != RATE]
    if known and not all(known.values()):
        figures = first_of([f"{_name(it.case)} {_figure(it)}" for it in found], _SHOWN)
        if found:
            yield Finding(f"Figures of the quiet rounds ({sum(known.values())} of {len(known)})", figures)
        elif not any(known.values()):
            none = f"None of the {len(known)} rounds was quiet" if len(known) > 1 else "The only round was not quiet"
            assert result.noise is not None
            said = made_by_noise(result.noise, [it for it in result.cases if it.status == OK])
            yield Finding(none, f"all figures include the noise; {said}")


def _name(case: Case) -> str:
    if case.load_blocks is not None:
        return f"{case.mode} {at(case).phrase}"
    return placed(case)


def _figure(found: Quiet) -> str:
    return (
        f"{units.rate(found.figure)} {INFERENCES}"
        if found.case.load_blocks is not None
        else units.duration(found.figure)
    )


def sides_part(results: Sequence[Result], names: Sequence[str], of_gate: bool = False) -> list[Sequence[Block]]:
    """What there is to say of several configurations, each once; of a live gate what noise means to it, whose verdict holds all the
    same."""
    if all(are_one_run(results[0], it) for it in results):  # their blocks took turns: what disturbed one disturbed all
        together = busy_finding(replace(results[0], noise=joined(it.noise for it in results)))
        said = [(listed(names), len(names), together)]
    else:
        said = merged((name, busy_finding(result)) for name, result in zip(names, results, strict=True))
    found = [it if many == len(results) else it._replace(what=f"{of}: {it.what}") for of, many, it in said if it]
    if of_gate:
        holds = f". The gate's verdict holds nevertheless: {_SLOWED if KINDS[results[0].kind].live else _GROWN}"
        if unlike := _unlike(results[0], results[-1]):
            holds = f". The gate's verdict is of a machine as busy as this: noise hits configurations that differ in {listed(unlike)} unequally"
        found = [it._replace(evidence=f"{it.evidence}{holds * (it is found[-1])}", next="") for it in found]
    last = {it.next: it for it in found}
    found = [it if last[it.next] is it else it._replace(next="") for it in found]  # a command once
    return [[Findings(found)]] if found else []


def _unlike(one: Result, other: Result) -> list[str]:
    """What sides differ in that decides how much of the CPU they use at a time, so that noise is not the same for both."""
    settings = [name for name, a, b in settings_of(one, other, versions=False) if a != b and name in _OF_THREADS]
    return [*(["EP"] if one.target["ep"] != other.target["ep"] else []), *settings]


_OF_THREADS = ("intra-op threads", "inter-op threads", "execution mode", "session config")
_SLOWED = 'noise only makes a gate take longer or end with "cannot tell"'
_GROWN = "noise is in times, not in the growth of memory"
