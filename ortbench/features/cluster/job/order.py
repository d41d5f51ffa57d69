"""What a case takes with it to a machine of a cluster, and what it takes of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ortbench.core.files import files_named_in
from ortbench.features.suite.job.fingerprint import with_files
from ortbench.features.suite.job.jobs import Job
from ortbench.toml.layers import Demand

CPU, GPU = "CPU", "GPU"
Amounts = Mapping[str, float]  # of resources, by their names


def amounts_for(demand: Demand, machines: Iterable[Amounts]) -> Amounts | None:
    """What a case takes: with GPUs one CPU, else all CPUs of the largest machine that can take it, so that no other case is beside
    it; None where no machine can."""
    least = {CPU: 1, **({GPU: demand.gpus} if demand.gpus else {}), **demand.resources}
    cpus = [machine[CPU] for machine in machines if has(machine, least)]
    return {**least, CPU: 1 if demand.gpus else max(cpus)} if cpus else None


def has(machine: Amounts, amounts: Amounts) -> bool:
    return all(amount <= machine.get(name, 0) for name, amount in amounts.items())


def files_of(job: Job) -> dict[str, dict[str, Path]]:
    """The files at each path that a job names, as `files_at` has them."""
    files: dict[str, dict[str, Path]] = {}

    def collect(path: str) -> str:
        if Path(path).exists():
            files[path] = files_at(Path(path))
        return path

    with_files(job, collect)
    return files


def files_at(place: Path) -> dict[str, Path]:
    """The files of a folder, or a file with those beside it that it names if it is a model, by their paths from the folder above."""
    files = place.rglob("*") if place.is_dir() else [place, *(place.parent / name for name in files_named_in(place))]
    return {it.relative_to(place.parent).as_posix(): it for it in sorted(files) if it.is_file()}
