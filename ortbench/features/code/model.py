"""What the worker says of a program that runs a mode: ``program``."""

from __future__ import annotations

from typing import TypedDict

from ortbench.model import schema


class CustomOps(TypedDict):
    module: str | None
    path: str


class ProgramSession(TypedDict):
    """How a session is made: ``module`` and ``bundled`` (a package with the EP's library, a file beside onnxruntime's) or
    ``path`` say where that is, all None where there is none to register; ``preload``: NVIDIA's libraries come first;
    ``device``: the number of the EP's device; ``by_name``: the EP has no EP device, and ``named`` is ONNX Runtime's name of its
    memory; ``options``: of the EP, without those of a ``stream``, of which the kind is told and CUDA's number of its device;
    ``engines``: the folder of an engine cache; ``captures``: graphs; ``device_type``: as ``gpu``; ``by_vendor``: an ONNX Runtime
    before 1.28 names its memory so; ``custom_ops``: of each library of custom operators the ``module`` with its path, or None, and the ``path``."""

    ep: str
    module: str | None
    bundled: str | None
    path: str | None
    preload: bool
    device: int | None
    named: str | None
    by_name: bool
    options: dict[str, str]
    stream: str | None
    cuda_device: int
    engines: str | None
    captures: bool
    device_type: str | None
    by_vendor: bool
    custom_ops: list[CustomOps]
    onnxruntime: str


class ProgramTensor(TypedDict):
    """An input or output; ``memory``: ``stays`` (the session wants it in ordinary host memory), ``array`` (host memory of an EP
    that computes there), ``default``, ``shared`` (HOST_ACCESSIBLE) or ``named``; ``tolerance``: relative and absolute, None for
    what must be the same; ``unshaped``: an output that is bound without a shape; ``length``: of an input that is a sequence, how many tensors it has; ``nested``: a sequence or an
    optional; ``number``: ONNX's of a type that numpy has not, else None."""

    name: str
    dtype: str
    nested: bool
    length: int | None
    number: int | None
    shape: list[int]
    memory: str
    tolerance: list[float] | None
    unshaped: bool


class ProgramWait(TypedDict):
    """A proved sync; ``by_token``: reading one small value back waits too."""

    kind: str
    by_token: bool


class StepInput(TypedDict):
    """An input of a step; ``fill``: its first value and by how much each along the last dimension grows, None for a random one."""

    shape: list[int]
    fill: list[float] | None


class ProgramLoop(TypedDict):
    """``shapes``: of the states before each step and after the last one; ``feeds``: by input that is no state, step by step;
    ``gives``: by step the shapes of the outputs that are none; ``given``: inputs that are in a
    file; ``left_to_ort``: it allocates a state that grows."""

    shapes: list[list[list[int]]]
    feeds: dict[str, list[StepInput]]
    gives: list[list[list[int]]]
    given: list[str]
    left_to_ort: bool


class Program(TypedDict):
    """``program``: what a program does that runs a mode; ``by_address``: outputs are bound as if they were the EP's own memory;
    ``captured``: runs of the mode are captured as a graph; ``external``: the
    library that its inputs are in, ``dlpack`` whether ONNX Runtime takes them by a call that is public."""

    session: ProgramSession
    inputs: list[ProgramTensor]
    outputs: list[ProgramTensor]
    has_pinned: bool
    wait: ProgramWait
    wait_upload: ProgramWait | None
    wait_download: ProgramWait | None
    by_address: bool
    captured: bool
    external: schema.LibraryMemory | None
    dlpack: bool
    loop: ProgramLoop | None
