"""The files that a job needs, known by their content, so that each goes to a machine once; and the job as it is there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from ortbench.core.files import sha256
from ortbench.plan.chain_plan import Chain
from ortbench.plan.plan import Plan
from ortbench.plan.target import Inputs, Target
from ortbench.suite.job import Job

Put = Callable[[str], str]  # gives another path for one


@dataclass(frozen=True)
class Piece:
    """A file of a parcel.

    Attributes:
        name: its path in the parcel, with slashes.
        source: its path on the machine that the parcel comes from.
        sha256: of its content.
    """

    name: str
    source: str
    sha256: str


@dataclass(frozen=True)
class Parcel:
    """A file with what belongs beside it, or a folder.

    Attributes:
        path: as the job names it.
        top: the name of the file in the parcel; of a folder its own name.
        pieces: the files.
    """

    path: str
    top: str
    pieces: tuple[Piece, ...]

    @property
    def id(self) -> str:
        """What tells it from others: the names and the content of its files."""
        listed = "".join(f"{piece.sha256} {piece.name}\n" for piece in self.pieces)
        return hashlib.sha256(listed.encode()).hexdigest()

    def place(self, folder: Path) -> str:
        """Where it is once its files are in a folder."""
        return str(folder / self.id / self.top)


def parcels_of(job: Job, base: str) -> tuple[Parcel, ...]:
    """The parcels of a job.

    Args:
        job: to be carried out.
        base: the folder that its paths are relative to.

    Raises:
        OSError: a file cannot be read.
    """
    paths: dict[str, None] = {}

    def collected(path: str) -> str:
        paths[path] = None
        return path

    moved(job, collected)
    return tuple(parcel_of(path, base) for path in paths if Path(base, path).exists())


@cache
def parcel_of(path: str, base: str) -> Parcel:
    """The parcel of a file, with the files beside it that it names if it is a model, or of a folder.

    Raises:
        OSError: a file cannot be read.
    """
    place = Path(base, path)
    if place.is_dir():
        inner = {PurePosixPath(place.name, *it.relative_to(place).parts): it for it in sorted(place.rglob("*"))}
    else:
        inner = {PurePosixPath(name): place.parent / name for name in (place.name, *sorted(_beside(place)))}
    pieces = [Piece(str(name), str(it.absolute()), sha256(it)) for name, it in inner.items() if it.is_file()]
    return Parcel(path, place.name, tuple(pieces))


def _beside(model: Path) -> set[str]:
    """The files that a model has part of itself in, as it names them: tensors, and an EP's compiled part."""
    if model.suffix != ".onnx":
        return set()
    import onnx

    with suppress(Exception):  # what is no model has none, and the worker says so
        found = onnx.load(model, load_external_data=False)
        graphs = [found.graph, *found.functions]
        return {name for graph in graphs for name in _named(graph) if _is_inside(model, name)}
    return set()


def _is_inside(model: Path, name: str) -> bool:
    place = PurePosixPath(name)
    return bool(name) and not place.is_absolute() and ".." not in place.parts and (model.parent / name).is_file()


def _named(graph: Any) -> Iterator[str]:
    """The files that a graph of a model, or a function, names."""
    for tensor in getattr(graph, "initializer", ()):
        yield from _of_tensor(tensor)
    for sparse in getattr(graph, "sparse_initializer", ()):
        yield from _of_tensor(sparse.values)
        yield from _of_tensor(sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "EPContext" and attribute.name == "ep_cache_context":
                with suppress(UnicodeDecodeError):  # the compiled part itself
                    yield attribute.s.decode()
            for tensor in (attribute.t, *attribute.tensors):
                yield from _of_tensor(tensor)
            for inner in (attribute.g, *attribute.graphs):
                yield from _named(inner)


def _of_tensor(tensor: Any) -> Iterator[str]:
    yield from (entry.value for entry in tensor.external_data if entry.key == "location")


def moved(job: Job, to: Put, python: Put = str) -> Job:
    """A job whose files are elsewhere.

    Args:
        job: to be carried out.
        to: gives the path of a file or a folder there.
        python: gives the path of an interpreter there.
    """
    return replace(
        job,
        plans=tuple(_plan(plan, to, python) for plan in job.plans),
        shapes=tuple(replace(it, plan=_plan(it.plan, to, python)) for it in job.shapes),
        load=job.load if job.load is None or job.load.file is None else replace(job.load, arrivals=to(job.load.file)),
        baseline=None if job.baseline is None else Path(to(str(job.baseline))),
    )


def _plan(plan: Plan, to: Put, python: Put) -> Plan:
    return replace(
        plan,
        model=to(plan.model),
        called=plan.called or str(Path(plan.model)),
        target=_target(plan.target, to, python),
        inputs=_inputs(plan.inputs, to),
        chain=None if plan.chain is None else _chain(plan.chain, to, python),
    )


def _target(target: Target, to: Put, python: Put) -> Target:
    return replace(
        target,
        library=None if target.library is None else to(target.library),
        python=None if target.python is None else python(target.python),
    )


def _inputs(inputs: Inputs, to: Put) -> Inputs:
    path, expect = (None if it is None else to(it) for it in (inputs.path, inputs.expect))
    return replace(inputs, path=path, expect=expect)


def _chain(chain: Chain, to: Put, python: Put) -> Chain:
    stages = (
        replace(it, model=to(it.model), target=_target(it.target, to, python), inputs=_inputs(it.inputs, to))
        for it in chain.stages
    )
    return replace(chain, stages=tuple(stages))
