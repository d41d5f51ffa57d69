"""What the outcome of a suite's case depends on, as one number: a case with the same one need not be run again."""

from __future__ import annotations

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
from ortbench.core import __version__
from ortbench.core.eps import key
from ortbench.core.files import files_named_in, sha256
from ortbench.core.processes import packages_of
from ortbench.features.suite.job.jobs import Job
from ortbench.plan.option_types import LIBRARIES
from ortbench.plan.plan import Plan
from ortbench.plan.target import Inputs, Target

Put = Callable[[str], str]  # gives something in place of a path


def fingerprint(job: Job) -> str:
    """SHA-256 over everything that a case's outcome depends on, as far as it is known before, wherever it is carried out: its plans and
    limits, the content of their files, variables that they record, versions of packages. `OSError`: a file cannot be read."""
    essence = with_plans(with_files(job, _content), _essence)
    data = {it: asdict(essence)[it] for it in ("plans", "limits", "force", "why", "shapes", "slo", "baseline")}
    variables = [recorded_variables(plan.record_env, os.environ)[0] for plan in job.plans]
    text = json.dumps(
        {"ortbench": __version__, **data, "variables": variables, **_installed(job)}, sort_keys=True, default=str
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _installed(job: Job) -> dict[str, Any]:
    """What a job's outcome depends on of this machine's packages; EPs and custom operators can be named by theirs."""
    targets = [target for plan in job.plans for target in plan.targets]
    named = {key(name) for target in targets for name in (target.ep, *target.custom_ops)}
    return {
        "packages": [it for it in _packages() if it.startswith("onnxruntime") or key(it.split(" ")[0]) in named],
        "elsewhere": [packages_of(plan.target.python) for plan in job.plans if plan.target.python is not None],
    }


@cache
def _packages() -> list[str]:
    return sorted(f"{package.metadata['Name']} {package.version}" for package in metadata.distributions())


def _essence(plan: Plan) -> Plan:
    """A plan without what enters no figure: where engines are kept, names, and how a chain's file is written."""
    model, target = "" if plan.part.models else plan.model, replace(plan.target, engine_cache=None)
    return replace(plan, model=model, target=target, part=plan.part.essence(), command=(), name=None)


def with_plans(job: Job, change: Callable[[Plan], Plan]) -> Job:
    """A job with others in place of its plans."""
    shapes = tuple(replace(it, plan=change(it.plan)) for it in job.shapes)
    return replace(job, plans=tuple(map(change, job.plans)), shapes=shapes)


def with_files(job: Job, to: Put, python: Put = str) -> Job:
    """A job with something else in place of the paths of its files and folders, and of interpreters."""

    def given(path: str | None) -> str | None:
        return None if path is None else to(path)

    def target(it: Target) -> Target:
        custom_ops, interpreter = LIBRARIES.with_paths(it.custom_ops, to), it.python and python(it.python)
        return replace(it, library=given(it.library), custom_ops=custom_ops, python=interpreter)

    def inputs(it: Inputs) -> Inputs:
        return replace(it, path=given(it.path), expect=given(it.expect))

    def plan(it: Plan) -> Plan:
        part = it.part.map_models(
            lambda stage: replace(
                stage, model=to(stage.model), target=target(stage.target), inputs=inputs(stage.inputs)
            )
        ).with_files(to)
        return replace(it, model=to(it.model), target=target(it.target), inputs=inputs(it.inputs), part=part)

    return replace(with_plans(job, plan), baseline=job.baseline and Path(to(str(job.baseline))))


@cache
def _content(path: str) -> str:
    """Names and hashes of what is at a path, see `files_at`."""
    return " ".join(f"{name} {sha256(file)}" for name, file in files_at(Path(path)).items())


def files_at(place: Path) -> dict[str, Path]:
    """The files of a folder, or a file with those beside it that it names if it is a model, by their paths from the folder above; none
    where nothing is."""
    if not place.exists():
        return {}
    files = place.rglob("*") if place.is_dir() else [place, *(place.parent / name for name in files_named_in(place))]
    return {it.relative_to(place.parent).as_posix(): it for it in sorted(files) if it.is_file()}
