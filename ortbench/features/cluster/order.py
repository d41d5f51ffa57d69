"""What a case takes with it to a machine of a cluster, and what it takes of the machine."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path

from ortbench.core.errors import BadInput
from ortbench.core.files import files_named_in
from ortbench.features.suite.job.fingerprint import with_files
from ortbench.features.suite.job.jobs import Job
from ortbench.toml.layers import Demand

OPTION = "--ray"
AUTO = "auto"
CPU, GPU = "CPU", "GPU"
Amounts = Mapping[str, float]  # of resources, by their names


def check_address(address: str) -> None:
    """Refuse with `BadInput` what cannot be a cluster's address, and a cluster where Ray is not installed."""
    if address != AUTO and ":" not in address:
        reason = f"write {AUTO} or a cluster's address, such as 10.0.0.1:6379 or ray://10.0.0.1:10001"
        raise BadInput(f"{OPTION} {address!r}: {reason}", OPTION)
    if importlib.util.find_spec("ray") is None:
        raise BadInput(f"{OPTION}: Ray is not installed; pip install 'ortbench[ray]' brings it", OPTION)


def amounts_for(demand: Demand, machines: Iterable[Amounts]) -> Amounts | None:
    """What a case takes: with GPUs one CPU, else all CPUs of the largest machine that can take it, so that no other case is beside
    it; None where no machine can."""
    least = {CPU: 1, **({GPU: demand.gpus} if demand.gpus else {}), **demand.resources}
    cpus = [it[CPU] for it in machines if fits(least, it)]
    return {**least, CPU: 1 if demand.gpus else max(cpus)} if cpus else None


def fits(taken: Amounts, machine: Amounts) -> bool:
    return all(amount <= machine.get(name, 0) for name, amount in taken.items())


def files_of(job: Job) -> dict[str, dict[str, Path]]:
    """The files at each path that a job names, as `files_at` has them."""
    paths: list[str] = []

    def collected(path: str) -> str:
        paths.append(path)
        return path

    with_files(job, collected)
    return {path: files_at(Path(path)) for path in dict.fromkeys(paths) if Path(path).exists()}


def files_at(place: Path) -> dict[str, Path]:
    """The files of a folder, or a file with those beside it that it names if it is a model, by their paths from the folder above."""
    files = place.rglob("*") if place.is_dir() else [place, *(place.parent / name for name in files_named_in(place))]
    return {it.relative_to(place.parent).as_posix(): it for it in sorted(files) if it.is_file()}
