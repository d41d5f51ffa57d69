"""What a report of several configurations says first of a machine that was busy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ortbench.analysis.comparison import are_one_run
from ortbench.analysis.noise import is_busy, join_noise
from ortbench.facts.findings import shown
from ortbench.facts.shared import noise_facts
from ortbench.model.result import Result
from ortbench.report.model import Block, Findings


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
        found = [it._replace(next="") for it in found]
    return [[Findings(shown(found))]]
