"""What the outcome of a suite's case depends on, as one number: a case with the same one need not be run again."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from dataclasses import asdict, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ortbench import __version__
from ortbench.analysis.variables import recorded
from ortbench.chain_plan import Chain
from ortbench.files import sha256
from ortbench.interpreters import packages
from ortbench.jobs.suite_folder import results_in
from ortbench.load_plan import LoadPlan
from ortbench.plan import Inputs, Plan, Target
from ortbench.suite.job import Job


def fingerprint(job: Job) -> str:
    """SHA-256 over everything that a case's outcome depends on, as far as it is known before.

    That is its plans and limits, the content of the files they name (not where those lie), the environment variables that
    they record, and the versions of ortbench, ONNX Runtime and its EP packages, in other environments too.

    Raises:
        OSError: a file cannot be read.
    """
    targets = [
        target
        for plan in job.plans
        for target in ([plan.target] if plan.chain is None else [stage.target for stage in plan.chain.stages])
    ]
    eps = {f"{target.ep} " for target in targets}  # an EP can go by the name of its package
    data = {
        "ortbench": __version__,
        "packages": [package for package in _packages() if package.startswith(("onnxruntime", *eps))],
        "elsewhere": [packages(plan.target.python) for plan in job.plans if plan.target.python is not None],
        "plans": [_essence(plan) for plan in job.plans],
        "limits": asdict(job.limits),
        "force": job.force,
        **({} if job.load is None else {"load": _load(job.load)}),
        **({} if not job.shapes else {"shapes": [[it.name, _essence(it.plan)] for it in job.shapes], "slo": job.slo}),
        "baseline": job.baseline and [_content(str(path)) for path in results_in(job.baseline)],
    }
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


@cache
def _packages() -> list[str]:
    """Name and version of every installed package."""
    return sorted(f"{package.metadata['Name']} {package.version}" for package in metadata.distributions())


def _essence(plan: Plan) -> dict[str, Any]:
    """A plan with the content of files instead of their paths; neither where engines are kept nor a name enters a figure.

    Of a chain it is what its file says, and no matter how that is written.
    """
    chain = None if plan.chain is None else _chain(plan.chain)
    model = (_content(plan.model) or "") if chain is None else ""
    target, inputs = _target(plan.target), _inputs(plan.inputs)
    essence = asdict(replace(plan, model=model, target=target, inputs=inputs, chain=chain, command=(), name=None))
    return {**essence, "variables": recorded(plan.record_env, os.environ)[0]}


def _load(load: LoadPlan) -> dict[str, Any]:
    """A load with the content of its file of arrivals."""
    return asdict(load if load.file is None else replace(load, arrivals=_content(load.file) or ""))


def _target(target: Target) -> Target:
    return replace(target, library=_content(target.library), engine_cache=None)


def _inputs(inputs: Inputs) -> Inputs:
    return replace(inputs, path=_content(inputs.path), expect=_content(inputs.expect))


def _chain(chain: Chain) -> Chain:
    stages = (
        replace(it, model=_content(it.model) or "", target=_target(it.target), inputs=_inputs(it.inputs), where={})
        for it in chain.stages
    )
    return Chain(tuple(stages), tuple(replace(link, where={}) for link in chain.links))


@cache
def _content(path: str | None) -> str | None:
    """Names and hashes of a folder's files, or of a file and those beside it that go on from its name.

    A model's external weights are usually called so: ``model.onnx.data``, ``model.onnx_data``.
    """
    if path is None:
        return None
    place = Path(path)
    found = place.rglob("*") if place.is_dir() else place.parent.glob(glob.escape(place.name) + "*")
    return " ".join(f"{file.name} {sha256(file)}" for file in sorted(found) if file.is_file())
