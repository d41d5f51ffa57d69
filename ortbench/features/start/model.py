"""The kind of starts, what one is of, and what a result has of them."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from ortbench.model import modes
from ortbench.model.kinds import RUN, Kind, View, figures, tails
from ortbench.model.modes import WorkOfParts
from ortbench.model.settings import Setting

KIND = Kind(
    "start", "starts", "start",
    (View(
        compared=figures(modes.WHOLE_START, *modes.START_PARTS, modes.SECOND_INFERENCE, modes.START_MEMORY),
        several=figures(modes.WHOLE_START, "start.session", modes.START_MEMORY), gated=figures(modes.WHOLE_START),
        columns=(tails(modes.WHOLE_START), (f"{modes.WHOLE_START}.n",), modes.START_PARTS, (modes.SECOND_INFERENCE, modes.START_MEMORY)),
        screen=("time to ready", "import", "EP load", "session", "1st inference"),
    ),),
    charts=("starts", "distribution", "drift"),
    checks=("require-mode", "max-cpu-nodes"),
    derives_copies=False,
    needed=(*RUN.needed, "start"),
)  # fmt: skip
SETTINGS = (
    Setting("file_cache", "file cache", "file-cache", "warm"),
    Setting("compile_cache", "compile cache", "compile-cache"),
)


class StartWork(WorkOfParts):
    """A start: a fresh process, from before it exists to its second inference."""

    kind = "start"
    whole = modes.WHOLE_START
    name = "a start"

    @property
    def parts(self) -> tuple[str, ...]:
        return (modes.WHOLE_START, *modes.START_PARTS, modes.SECOND_INFERENCE, modes.START_MEMORY)

    def phases(self, mode: str) -> tuple[str, ...]:
        return (modes.LATENCY, *self.parts)


def work_of(_: Any) -> StartWork:
    return StartWork()


class Compiled(TypedDict):
    """A model that was compiled ahead of time: how long that took, and the bytes of its files; ``context_nodes``, which the EP opens
    without compiling; ``other_nodes`` of the EP, which each start leaves to it."""

    compile_ns: int
    bytes: int
    context_nodes: int
    other_nodes: int


class Kept(TypedDict):
    """What the EP kept of what it compiled: ``files`` and their ``bytes`` in the end; of ``starts`` that were timed, how many were
    ``reading`` any of them (null where the file system does not tell), and how many were ``changing`` them."""

    files: int
    bytes: int
    starts: int
    reading: int | None
    changing: int


class Start(TypedDict):
    """How processes were started: ``program``, what each ran; ``launch_ns``, the median time in which ortbench had the system
    make the process, which is inside of ``start.interpreter``; ``file_cache`` and ``compile_cache`` (null where the EP kept nothing)
    as they were asked for; ``cached``, the median share of the model's files that was in the system's cache right before a start, null
    where the system does not tell; ``compiled``, the model that was compiled ahead of time, if it was; ``kept``, with a compile cache."""

    program: str
    launch_ns: int
    file_cache: str
    compile_cache: str | None
    cached: float | None
    compiled: NotRequired[Compiled]
    kept: NotRequired[Kept]


class Parts(TypedDict, total=False):
    start: Start
