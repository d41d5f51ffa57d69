"""What a result says of a chain besides its figures: its stages, its links, and what they are made of."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from ortbench.core.files import sha256
from ortbench.model.protocol import OpenedChain
from ortbench.model.result import CHAIN, Result
from ortbench.plan.options import settings
from ortbench.plan.plan import Plan


def describe_chain(result: Result, plan: Plan, opened: OpenedChain) -> Plan:
    """Describe the chain of a run that is open.

    Returns:
        The plan with the target of the stage that the chain's EP is named after.
    """
    digests: dict[str, str] = {}
    for stage, asked in zip(opened["stages"], plan.stages, strict=True):
        if asked.model not in digests:
            digests[asked.model] = sha256(Path(asked.model))
        stage["sha256"], stage["settings"] = digests[asked.model], settings(asked.target)
    result.kind, result.chain = CHAIN, {"stages": opened["stages"], "links": opened["links"]}
    result.model["sha256"] = _digest(result)
    return replace(plan, target=plan.stages[opened["main"]].target)


def _digest(result: Result) -> str:
    """What makes a chain the same as another: its models, how often they run, what they hand on, and nothing of its file's
    text or of the EPs."""
    stages = [(it["name"], it["sha256"], it["repeat"], it["feedback"], it["keep"]) for it in result.part["stages"]]
    links = [(it["from"], it["to"]) for it in result.part["links"]]
    return hashlib.sha256(json.dumps([stages, links]).encode()).hexdigest()
