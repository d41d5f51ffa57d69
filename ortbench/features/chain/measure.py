"""What a result says of a chain besides its figures."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from ortbench.core.files import ModelFiles
from ortbench.features.chain.model import FinishedChain, OpenedChain
from ortbench.model.result import Case, Result
from ortbench.plan.options import settings
from ortbench.plan.plan import Plan


def describe_opened(result: Result, plan: Plan, files: ModelFiles, answer: OpenedChain) -> Plan:
    """Describe a chain that is open; returns the plan with the target of the stage that the chain's EP is named after."""
    opened = answer["chain"]
    for stage, asked in zip(opened["stages"], plan.stages, strict=True):
        stage["sha256"], stage["settings"] = files.digest(asked.model), settings(asked.target)
    result.kind = plan.work.kind
    result.own["chain"] = {"stages": opened["stages"], "links": opened["links"]}
    # The same chain has the same models, which run as often and hand on the same; its file's text and EPs may differ.
    stages = [(it["name"], it["sha256"], it["repeat"], it["feedback"], it["keep"]) for it in opened["stages"]]
    links = [(it["from"], it["to"]) for it in opened["links"]]
    result.model["sha256"] = hashlib.sha256(json.dumps([stages, links]).encode()).hexdigest()
    return replace(plan, target=plan.stages[opened["main"]].target)


def describe_finished(result: Result, case: Case, answer: FinishedChain) -> None:
    """What the copies of each link take alone."""
    for link, times in zip(result.part["links"], answer["links"], strict=True) if "links" in answer else ():
        link["d2h_ns"], link["h2d_ns"] = times["d2h_ns"], times["h2d_ns"]
        if taken := [ns for ns in (times["d2h_ns"], times["h2d_ns"]) if ns is not None]:
            case.set_metric(f"link.{link['from']} → {link['to']}", sum(taken))
