"""What there is to say of EPs that build an engine, from the result alone. Apart from what workers need of engines."""

from __future__ import annotations

from ortbench.analysis.engines import BUILDERS
from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.program import again
from ortbench.core.units import duration
from ortbench.model.result import Result


def engine_findings(result: Result) -> list[Finding]:
    """How long the engine took; empty for EPs that build none."""
    if result.target["ep"] not in BUILDERS:
        return []
    took, first = (duration(result.setup[key]) for key in ("session_ns", "first_inference_ns"))
    cache, evidence = result.setup.get("engine_cache"), f"the first inference took {first}"
    if cache is None:
        return [
            Finding(f"The engine was built in {took}", evidence, again(result, "--engine-cache", "DIR"), Weight.COST)
        ]
    if cache["warm"]:
        return [Finding(f"The engine was loaded from the cache in {took}", evidence, weight=Weight.DETAIL)]
    evidence = f"cold cache, {evidence}; the next session loads it"
    return [Finding(f"The engine was built in {took}", evidence, weight=Weight.DETAIL)]
