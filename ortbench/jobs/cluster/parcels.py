"""The files that a job needs, known by their content, so that each goes to a machine once; and the job as it is there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from ortbench.core.files import sha256
from ortbench.jobs.fingerprint import Put, with_files
from ortbench.suite.job import Job


@dataclass(eq=False)
class Piece:
    """A file of a parcel."""

    name: str  # its path in the parcel, with slashes
    source: str  # its path on the machine that the parcel comes from
    sha256: str
    parts: list[Any] = field(default_factory=list)  # of its content, by their names in Ray's object store, once there


@dataclass(eq=False)
class Parcel:
    """A file with what belongs beside it, or a folder."""

    path: str  # as the job names it
    top: str  # the name of the file in the parcel; of a folder its own name
    pieces: list[Piece]

    @property
    def id(self) -> str:
        """What tells it from others: the names and the content of its files."""
        listed = "".join(f"{piece.sha256} {piece.name}\n" for piece in self.pieces)
        return hashlib.sha256(listed.encode()).hexdigest()

    def place(self, folder: Path) -> str:
        """Where it is once its files are in a folder."""
        return str(folder / self.id / self.top)


def paths_of(job: Job, base: str) -> list[str]:
    """The files and folders that a job names, as it names them, as far as they are there."""
    paths: dict[str, None] = {}

    def collected(path: str) -> str:
        paths[path] = None
        return path

    moved(job, collected)
    return [path for path in paths if Path(base, path).exists()]


def parcel_of(path: str, base: str) -> Parcel:
    """The parcel of a file, with the files beside it that it names if it is a model, or of a folder."""
    place = Path(base, path)
    if place.is_dir():
        inner = {PurePosixPath(place.name, *it.relative_to(place).parts): it for it in sorted(place.rglob("*"))}
    else:
        inner = {PurePosixPath(name): place.parent / name for name in (place.name, *sorted(_beside(place)))}
    pieces = [Piece(str(name), str(it.absolute()), sha256(it)) for name, it in inner.items() if it.is_file()]
    return Parcel(path, place.name, pieces)


def _beside(model: Path) -> set[str]:
    """The files that a model has part of itself in, as it names them: tensors, and an EP's compiled part."""
    if model.suffix != ".onnx":
        return set()
    import onnx

    with suppress(Exception):  # what is no model has none, and the worker says so
        return {name for name in _named(onnx.load(model, load_external_data=False)) if _is_inside(model, name)}
    return set()


def _is_inside(model: Path, name: str) -> bool:
    place = PurePosixPath(name)
    return bool(name) and not place.is_absolute() and ".." not in place.parts and (model.parent / name).is_file()


def _named(message: Any) -> Iterator[str]:
    """The files that a message of ONNX's format names, wherever in it: a model, or what one is made of."""
    if hasattr(message, "external_data"):
        yield from (entry.value for entry in message.external_data if entry.key == "location")
        return
    if getattr(message, "op_type", "") == "EPContext":
        with suppress(UnicodeDecodeError):  # the compiled part itself
            yield from (it.s.decode() for it in message.attribute if it.name == "ep_cache_context")
    for about, value in message.ListFields():
        if about.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _named(inner)


def moved(job: Job, to: Put, python: Put = str) -> Job:
    """A job whose files, and the interpreters that it names, are elsewhere; results call a model as it was called before."""

    def plan_there(plan: Any) -> Any:
        return with_files(replace(plan, called=plan.called or str(Path(plan.model))), to, python)

    return replace(
        job,
        plans=tuple(map(plan_there, job.plans)),
        shapes=tuple(replace(it, plan=plan_there(it.plan)) for it in job.shapes),
        load=job.load if job.load is None or job.load.file is None else replace(job.load, arrivals=to(job.load.file)),
        baseline=None if job.baseline is None else Path(to(str(job.baseline))),
    )
