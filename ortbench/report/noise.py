"""What a report of several configurations says first of a machine that was busy; of a live gate what noise means to its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.analysis.comparing.comparable import settings_of
from ortbench.analysis.comparing.ratio import are_one_run
from ortbench.analysis.noise import is_busy, join_noise
from ortbench.facts.fact import Fact
from ortbench.facts.findings import shown
from ortbench.facts.shared import noise_facts
from ortbench.model.kinds import kind_of
from ortbench.model.result import Result
from ortbench.report.model import Block, Findings

# What configurations differ in that decides how much of the CPU they use at a time, so that noise is not the same for both.
_OF_THREADS = ("intra-op threads", "inter-op threads", "execution mode", "session config")


def noise_part(results: Sequence[Result], of_gate: bool = False) -> list[Sequence[Block]]:
    """The part that stands first; none where the machine was quiet, or nobody knows. Blocks of one run took turns: what disturbed one
    disturbed all."""
    busy = next((it for it in results if is_busy(it)), results[0])
    if all(are_one_run(results[0], it) for it in results):
        busy = replace(results[0], noise=join_noise(it.noise for it in results))
    found = list(noise_facts(busy))
    if not found:
        return []
    if of_gate:
        grows = not kind_of(results[0].kind).live
        verdict = "growth" if grows else "unequal" if _are_unlike(results[0], results[-1]) else "holds"
        found = [it._replace(next="") for it in found] + [Fact("gate-noise", verdict)]
    return [[Findings(shown(found))]]


def _are_unlike(one: Result, other: Result) -> bool:
    changed = [name for name, a, b in settings_of(one, other, versions=False) if a != b]
    return one.target["ep"] != other.target["ep"] or any(name in _OF_THREADS for name in changed)
