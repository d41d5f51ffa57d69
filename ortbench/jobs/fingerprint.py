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
from ortbench.files import sha256
from ortbench.interpreters import packages
from ortbench.jobs.suite_folder import results_in
from ortbench.plan import Plan
from ortbench.suite.job import Job


def fingerprint(job: Job) -> str:
    """SHA-256 over everything that a case's outcome depends on, as far as it is known before.

    That is its plans and limits, the content of the files they name (not where those lie), the environment variables that
    they record, and the versions of ortbench, ONNX Runtime and its EP packages, in other environments too.

    Raises:
        OSError: a file cannot be read.
    """
    eps = {f"{plan.target.ep} " for plan in job.plans}  # an EP can go by the name of its package
    data = {
        "ortbench": __version__,
        "packages": [package for package in _packages() if package.startswith(("onnxruntime", *eps))],
        "elsewhere": [packages(plan.target.python) for plan in job.plans if plan.target.python is not None],
        "plans": [_essence(plan) for plan in job.plans],
        "limits": asdict(job.limits),
        "force": job.force,
        "baseline": job.baseline and [_content(str(path)) for path in results_in(job.baseline)],
    }
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


@cache
def _packages() -> list[str]:
    """Name and version of every installed package."""
    return sorted(f"{package.metadata['Name']} {package.version}" for package in metadata.distributions())


def _essence(plan: Plan) -> dict[str, Any]:
    """A plan with the content of files instead of their paths; neither where engines are kept nor a name enters a figure."""
    target = replace(plan.target, library=_content(plan.target.library), engine_cache=None)
    inputs = replace(plan.inputs, path=_content(plan.inputs.path), expect=_content(plan.inputs.expect))
    model = _content(plan.model) or ""
    essence = asdict(replace(plan, model=model, target=target, inputs=inputs, command=(), name=None))
    return {**essence, "variables": recorded(plan.record_env, os.environ)[0]}


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
