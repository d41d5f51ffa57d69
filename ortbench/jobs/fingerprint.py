"""What the outcome of a suite's case depends on, as one number: a case with the same one need not be run again."""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ortbench.analysis.variables import recorded_variables
from ortbench.core.ep_packages import key
from ortbench.core.files import sha256
from ortbench.core.interpreters import packages
from ortbench.core.version import __version__
from ortbench.jobs.suite_folder import results_in
from ortbench.plan.chain_plan import Chain
from ortbench.plan.load_plan import LoadPlan
from ortbench.plan.option_types import LIBRARIES
from ortbench.plan.plan import Plan
from ortbench.plan.target import Inputs, Target
from ortbench.suite.job import Job

Put = Callable[[str], str]  # gives something in place of a path


def fingerprint(job: Job, on_cluster: bool = False) -> str:
    """SHA-256 over everything that a case's outcome depends on, as far as it is known before.

    That is its plans and limits, the content of the files they name (not where those lie), the environment variables that
    they record, the versions of ortbench, ONNX Runtime and its EP packages here, in other environments too, and the resources that a
    cluster gives it.

    Raises:
        OSError: a file cannot be read.
    """
    resources = {"resources": job.case.needs.resources} if on_cluster and job.case.needs.resources else {}
    return _digest({**_everywhere(job), **_installed(job), **resources})


def alike(job: Job) -> str:
    """SHA-256 over the part of that which is no matter of the machine."""
    return _digest(_everywhere(job))


def _digest(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _everywhere(job: Job) -> dict[str, Any]:
    return {
        "ortbench": __version__,
        "plans": [_essence(plan) for plan in job.plans],
        "limits": asdict(job.limits),
        "force": job.force,
        **({} if job.why is None else {"why": job.why}),
        **({} if job.load is None else {"load": _load(job.load)}),
        "shapes": [[it.name, _essence(it.plan)] for it in job.shapes],
        "slo": job.slo,
        "baseline": job.baseline and [_content(str(path)) for path in results_in(job.baseline)],
    }


def _installed(job: Job) -> dict[str, Any]:
    """What a job's outcome depends on of this machine's packages."""
    targets = [target for plan in job.plans for target in plan.targets]
    named = {
        key(name) for target in targets for name in (target.ep, *target.custom_ops)
    }  # which can be those of packages
    return {
        "packages": [it for it in installed_here() if it.startswith("onnxruntime") or key(it.split(" ")[0]) in named],
        "elsewhere": [packages(plan.target.python) for plan in job.plans if plan.target.python is not None],
    }


@cache
def installed_here() -> list[str]:
    return sorted(f"{package.metadata['Name']} {package.version}" for package in metadata.distributions())


def _essence(plan: Plan) -> dict[str, Any]:
    """A plan with the content of files instead of their paths; neither where engines are kept nor a name enters a figure.

    Of a chain it is what its file says, and no matter how that is written.
    """
    there = with_files(plan, _content)
    chain, model = None, there.model
    if there.chain is not None:
        model = ""
        stages = (replace(it, target=replace(it.target, engine_cache=None), where={}) for it in there.chain.stages)
        chain = Chain(tuple(stages), tuple(replace(link, where={}) for link in there.chain.links))
    target = replace(there.target, engine_cache=None)
    essence = asdict(replace(there, model=model, target=target, chain=chain, command=(), name=None))
    return {**essence, "variables": recorded_variables(plan.record_env, os.environ)[0]}


def with_files(plan: Plan, to: Put, python: Put = str) -> Plan:
    """A plan with something else in place of the paths of its files and folders, and of interpreters."""

    def target(it: Target) -> Target:
        library = None if it.library is None else to(it.library)
        custom_ops = LIBRARIES.with_paths(it.custom_ops, to)
        return replace(
            it, library=library, custom_ops=custom_ops, python=None if it.python is None else python(it.python)
        )

    def inputs(it: Inputs) -> Inputs:
        path, expect = (None if path is None else to(path) for path in (it.path, it.expect))
        return replace(it, path=path, expect=expect)

    chain = plan.chain
    if chain is not None:
        stages = (
            replace(it, model=to(it.model), target=target(it.target), inputs=inputs(it.inputs)) for it in chain.stages
        )
        chain = replace(chain, stages=tuple(stages))
    return replace(plan, model=to(plan.model), target=target(plan.target), inputs=inputs(plan.inputs), chain=chain)


def _load(load: LoadPlan) -> dict[str, Any]:
    return asdict(load if load.file is None else replace(load, arrivals=_content(load.file)))


@cache
def _content(path: str) -> str:
    """Names and hashes of a folder's files, or of a file and those beside it that go on from its name.

    A model's external weights are usually called so: ``model.onnx.data``, ``model.onnx_data``.
    """
    place = Path(path)
    found = place.rglob("*") if place.is_dir() else place.parent.glob(glob.escape(place.name) + "*")
    return " ".join(f"{file.name} {sha256(file)}" for file in sorted(found) if file.is_file())
