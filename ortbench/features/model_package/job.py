"""The plan of a model package: that of the variant which ONNX Runtime chooses."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from ortbench.features.model_package.model import Selected
from ortbench.measure.process import ask_once
from ortbench.plan.plan import Plan

MANIFEST = "manifest.json"


def resolve_model(plan: Plan) -> Plan | None:
    """The same of the chosen variant's model, with the settings that come with it unless options say otherwise; None of another folder."""
    if not (Path(plan.model) / MANIFEST).is_file():
        return None
    target = plan.target
    found: Selected = ask_once(
        plan.timeout_s, target.python, "select_variant", folder=plan.model, target=asdict(target)
    )
    entries, options = {**found["session_config"], **target.session_config}, {**found["options"], **target.options}
    return replace(
        plan,
        model=found["path"],
        target=replace(target, session_config=entries, options=options),
        remarks=(*plan.remarks, found["note"]),
    )
