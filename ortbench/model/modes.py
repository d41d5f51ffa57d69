"""The I/O modes: one record each, which says what can be timed of it, what its figures mean and what it has in common with others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from ortbench.model import modes
from ortbench.model.metrics import PER_BLOCK

if TYPE_CHECKING:
    from typing import Self  # newer than the oldest Python of a worker

    from ortbench.model.schema import Direction


RUN, SYNCHRONIZE, READBACK = SYNCS = (
    "run",
    "synchronize_outputs",
    "readback",
)  # what ends samples of inferences, from the cheapest on
CPU, DEVICE, RESIDENT, HOST_ACCESSIBLE = "cpu-tensors", "device-tensors", "device-resident", "host-accessible"
CPU_PINNED, DEVICE_PINNED = "cpu-tensors-pinned", "device-tensors-pinned"
PIPELINED, ASYNC = "pipelined", "device-resident-async"

LATENCY = "latency"  # the phase of whole inferences, which every mode has
PHASE_NAMES = ("h2d", "inference", "d2h", LATENCY)
# What is timed of a loop. A whole loop is what its latency is, under which it is measured and compared.
STEP, WHOLE_LOOP = "step", "loop"
LOOP_PHASES = (STEP, WHOLE_LOOP)
# The first step of a loop that generates, and the later ones.
TOKEN_PHASES = ("time_to_first_token", "inter_token_latency")
# What is timed of a chain: all stages of all chains, one after the other; `stage_phase` is one of them. A whole chain is what
# its latency is.
STAGE, WHOLE_CHAIN = "stage", "chain"
# What is timed of a start, a fresh process: its parts in their order, which add up to the whole. The whole is what its latency is.
WHOLE_START, SECOND_INFERENCE, START_MEMORY = "start.ready", "start.second_inference", "start.memory"
START_PARTS = (
    "start.interpreter",
    "start.import",
    "start.ep_load",
    "start.session",
    "start.inputs",
    "start.first_inference",
)
# What the latency of a unit of work is called that is more than an inference.
WHOLES = (WHOLE_LOOP, WHOLE_CHAIN, WHOLE_START)
# What the host takes: no parts of an inference, and timed in the blocks of another phase, see `comes_with`.
ENQUEUE, CPU_TIME = "enqueue", "cpu_time"
COSTS = (ENQUEUE, *PER_BLOCK)
# What begins at set moments, one each ``--every``: its time, its CPU time with all that threads spin until the next, by block, the share of
# starts that had to wait for the one before, by block, and how many times as long as back to back it takes.
PACED, PACED_CPU_TIME, MISSED_STARTS, PACED_RATIO = "paced", "paced_cpu_time", "missed_starts", "paced_ratio"
# One number each: times an item and of all copies in a run, what is copied, what a mode takes.
THROUGHPUT, ITEM_THROUGHPUT, ITEM_TIME, COPY_TIME = "throughput", "item_throughput", "item_time", "copies"
SLO_RATE = "slo_rate"  # what a search for the highest rate of a load finds
BYTES_H2D, BYTES_D2H, COPY_SHARE, COPY_RATE = "bytes_h2d", "bytes_d2h", "copy_share", "copy_rate"
COPIES_HIDDEN, HIDDEN_SHARE, PIPELINE_SPEEDUP = "copies_hidden", "hidden_share", "pipeline_speedup"
HOST_GROWTH, DEVICE_GROWTH = "host_growth", "device_growth"
DEVICE_MEMORY, HOST_MEMORY, ENERGY = "device_memory", "host_memory", "energy"
CPU_USER, CPU_SYSTEM, CPU_CORES = "cpu_user", "cpu_system", "cpu_cores"
ENQUEUE_SHARE, SPIN_SHARE = "enqueue_share", "spin_share"
NO_SPIN = "spin_off"  # ends the key of a metric of inferences whose threads do not spin
# Of a load.
QUEUE_DELAY, SERVICE_TIME, GENERATOR_LAG, LATE_SHARE = "queue_delay", "service_time", "generator_lag", "late_share"
UTILISATION, GIL_WAIT, FAIRNESS, SM_CLOCK = "utilisation", "gil_wait", "fairness", "sm_clock"
# Of a load of several shapes, with the name of one behind a dot: its latency in the mix, apart, and the ratio of their p99.
MIXED, APART, MIXING, ALL_SHAPES = "mixed", "apart", "mixing", "all"
SWITCHING_COST = "switching_cost"
# Copies alone, as a bandwidth curve has them: both directions, and the kinds of host memory.
COPY = "copy"
H2D: Final = "h2d"
D2H: Final = "d2h"
DIRECTIONS: tuple[Direction, ...] = (H2D, D2H)
ORDINARY = "ordinary"
MEMORIES = (ORDINARY, HOST_ACCESSIBLE)
MEMORY_OWNERS = ("device", "host")

# What the latency of a mode is.
PER_INFERENCE = "latency"  # of one inference
PER_ITEM = "time per item"  # of several in flight, which go through their phases one after the other
PER_RUN = "time per run"  # of many with one wait, which have no phases


@dataclass(frozen=True)
class Mode:
    name: str  # as it is asked for, and in results
    sentence: str = ""  # what it does, in a few words
    # what can be timed of it; inside a run with CPU tensors the phases cannot be told apart
    phases: tuple[str, ...] = (LATENCY,)
    # the phase that is all there is to an inference, which is timed as its latency; "" where there is more
    only: str = ""
    figure: str = PER_INFERENCE  # what its latency is: `PER_INFERENCE`, `PER_ITEM` or `PER_RUN`
    extra: bool = False  # is measured only where --mode names it
    like: str = ""  # the mode that it is like in all but one thing, and is compared with; "" where there is none
    # of a mode of CPU tensors: the mode whose latency is this one's without its copies, which are known by that
    # difference only; "" for other modes
    without_copies: str = ""
    # its tensors stay on the device between inferences, so that it can replace another mode only in a program that needs no new
    # inputs from the host and no outputs on it each time
    on_device: bool = False
    pinned: bool = False  # the host's side of its copies is in memory that the device reaches itself
    dynamic_outputs: bool = False  # its outputs can be left for ONNX Runtime to allocate in each run
    external_inputs: bool = False  # its inputs can be in memory of another library
    captured: bool = False  # its addresses are fixed and on the device, so that its runs can be captured as a graph
    recorded: bool = False  # CUPTI looks into its runs where it is asked to: they copy, or must not
    # its point in pictures, as matplotlib calls it, and what else has its colour
    mark: tuple[str, str] = ("o", "muted")

    @property
    def is_rate(self) -> bool:
        """Whether a call is of several inferences, so that its latency says how often one is done, not how long one takes."""
        return self.figure != PER_INFERENCE

    @property
    def in_bursts(self) -> bool:
        """Whether a call is a burst of runs, whose parts are no parts of an inference."""
        return self.figure == PER_RUN

    @property
    def of_cpu_tensors(self) -> bool:
        """Whether it hands CPU tensors to a run, which copies them inside."""
        return bool(self.without_copies)

    @property
    def times_copies(self) -> bool:
        return "h2d" in self.phases

    def timed_as(self, phase: str) -> str:
        """Under which phase samples of a phase are taken."""
        return LATENCY if phase == self.only else phase


_RECORDS = (
    Mode(
        CPU,
        "session.run with arrays in host memory; if the EP computes on a device, ONNX Runtime copies inputs and outputs inside every call",
        without_copies=RESIDENT,
        recorded=True,
        mark=("o", "ink"),
    ),
    Mode(
        DEVICE,
        "inputs copied to device tensors, run through IO binding, outputs copied back, in every inference",
        phases=PHASE_NAMES,
        dynamic_outputs=True,
        external_inputs=True,
        captured=True,
        recorded=True,
        mark=("s", "h2d"),
    ),
    Mode(
        RESIDENT,
        "as device-tensors, but inputs are copied once before all inferences and outputs once after them",
        phases=("inference", LATENCY),
        only="inference",
        on_device=True,
        dynamic_outputs=True,
        external_inputs=True,
        captured=True,
        mark=("^", "accent"),
    ),
    Mode(
        HOST_ACCESSIBLE,
        "the host writes inputs and reads outputs where they are bound, which only a loop's times include: in the EP's HOST_ACCESSIBLE "
        "memory, or in host memory, if the EP computes there",
        phases=("inference", LATENCY),
        only="inference",
        recorded=True,
        mark=("D", "d2h"),
    ),
    Mode(
        CPU_PINNED,
        "as cpu-tensors, with the input arrays in the EP's pinned memory",
        extra=True,
        like=CPU,
        without_copies=RESIDENT,
        pinned=True,
        recorded=True,
        mark=("v", "ink"),
    ),
    Mode(
        DEVICE_PINNED,
        "as device-tensors, copied from and to the EP's pinned memory",
        phases=PHASE_NAMES,
        extra=True,
        like=DEVICE,
        pinned=True,
        dynamic_outputs=True,
        captured=True,
        recorded=True,
        mark=("P", "h2d"),
    ),
    Mode(
        PIPELINED,
        "as device-tensors, but with several inferences in flight: the H2D copy of the next and the D2H copy of the last overlap "
        "this inference, on streams of their own",
        phases=PHASE_NAMES,
        figure=PER_ITEM,
        extra=True,
        like=DEVICE,
    ),
    Mode(
        ASYNC,
        "as device-resident, with one synchronization for many inferences",
        figure=PER_RUN,
        extra=True,
        like=RESIDENT,
        on_device=True,
        captured=True,
    ),
)
MODES = {it.name: it for it in _RECORDS}  # in their usual order

# Of a loop, whose outputs are inputs of the next step; see `ortbench.features.loop.plan`.
SHARED = Mode(
    "shared",
    "in a loop, as device-resident, with one buffer for a state's past and present",
    extra=True,
    like=RESIDENT,
    on_device=True,
    mark=("s", "h2d"),
)
LOOP_MODES = {name: MODES.get(name, SHARED) for name in (CPU, RESIDENT, HOST_ACCESSIBLE, SHARED.name)}
USUAL_LOOP_MODES = tuple(name for name, mode in LOOP_MODES.items() if not mode.extra)
ALL_MODES = {**MODES, **LOOP_MODES}
# Of a load: a client has one inference after the other.
LOAD_MODES = tuple(name for name, mode in MODES.items() if not mode.is_rate)


# In the place of a mode: every mode that a command has, and those that it measures where none is named.
EVERY, USUAL = "all", "default"


def named_modes(names: Iterable[str], known: Collection[str]) -> tuple[str, ...]:
    """The modes that names stand for, each once, of those that a command has; without names the usual ones."""
    usual = [name for name in known if not mode_of(name).extra]
    groups = {EVERY: [*known], USUAL: usual}
    return tuple(dict.fromkeys(mode for name in [*names] or [USUAL] for mode in groups.get(name, [name])))


def no_such(name: str, known: Collection[str] = tuple(ALL_MODES), what: str = "") -> str:
    """What to say of a name that is no mode's of those to choose from; `what` they are modes of, where that is not
    everything."""
    several = "," in name and all(part.strip() in ALL_MODES for part in name.split(","))
    instead = (
        "give each by itself, as in --mode cpu-tensors --mode device-tensors"
        if several
        else f"choose from {', '.join(known)}"
    )
    reason = f"is no mode of {what}" if what and name in ALL_MODES else "there is no such mode"
    return f"{name!r}: {reason}; {instead}"


def mode_of(name: str) -> Mode:
    """The record of a mode; of one that is not known, as a stored result may name it, one without anything special."""
    return ALL_MODES.get(name) or Mode(name)


def stage_phase(name: str) -> str:
    """What the time of a stage is called among phases: ``stage.NAME``."""
    return f"{STAGE}.{name}"


def stage_in(phase: str) -> str | None:
    """The stage whose time a phase is; None for other phases."""
    word, dot, name = phase.partition(".")
    return name if dot and name and word == STAGE else None


def comes_with(phase: str) -> str:
    """The phase that has to be timed for one that is taken in its blocks; any other is timed by itself."""
    return LATENCY if phase in PER_BLOCK else "inference" if phase == ENQUEUE else phase


def taken_in(mode: str, phase: str) -> tuple[str, ...]:
    """What else there may be samples of in the blocks of a phase of a mode."""
    known = mode_of(mode)
    submitted = known.timed_as("inference") if "inference" in known.phases else LATENCY
    if phase == PACED:
        return PACED_CPU_TIME, MISSED_STARTS
    return (*((STEP, STAGE, *PER_BLOCK) if phase == LATENCY else ()), *((ENQUEUE,) if phase == submitted else ()))


def modes_that(hold: Callable[[Mode], object]) -> tuple[str, ...]:
    """The names of the modes of which something holds, in their usual order."""
    return tuple(name for name, mode in MODES.items() if hold(mode))


def is_rate(mode: str, phase: str) -> bool:
    """Whether a time says how often an inference is done, and not how long one takes."""
    return phase == LATENCY and mode_of(mode).is_rate


USUAL_MODES = modes_that(lambda mode: not mode.extra)  # what is measured where nothing is asked for
# Those of which several are in flight, as many as --depth says.
IN_FLIGHT = modes_that(lambda mode: mode.figure == PER_ITEM)
DEPTH = 3  # where it says nothing
IN_BURSTS = modes_that(lambda mode: mode.in_bursts)

# What each does, for a reader of a program who knows no other mode; and what it does in a loop.
MODES_DO = {
    CPU: "Arrays in, arrays out: ONNX Runtime copies them to the device and back inside every call.",
    CPU_PINNED: "Arrays in, arrays out, the inputs in host memory that the device reaches itself (pinned).",
    DEVICE: "Inputs are copied to device tensors, which are bound; outputs are copied back: in every inference.",
    DEVICE_PINNED: "Inputs are copied from pinned memory to device tensors and outputs back to it, in every inference.",
    RESIDENT: "Tensors stay on the device: copied in once before all inferences, and out once after them.",
    HOST_ACCESSIBLE: "Tensors are bound in memory that host and device both reach: the host writes inputs and reads outputs there, without copies.",
    PIPELINED: "Several inferences are in flight: copies of the others overlap the one that runs, on streams of their own.",
    ASYNC: "Tensors stay on the device; one synchronization waits for many inferences.",
}
LOOPS_DO = {
    CPU: "A loop with arrays: its state goes to the device and back in every step.",
    RESIDENT: "A loop whose state stays on the device; what is no state is copied in and out in every step.",
    HOST_ACCESSIBLE: "A loop in memory that host and device both reach: the host writes and reads there, without copies.",
    SHARED.name: "A loop whose state stays on the device, in one buffer that a step reads and writes.",
}


@dataclass(frozen=True)
class Work:
    """An inference; loops and chains have classes of their own."""

    steps: int | None = None  # of a loop, else None
    stages: tuple[str, ...] = ()  # the names of those of a chain, else none
    tokens: bool = False  # the steps of a loop give tokens
    kind: ClassVar[str] = "run"  # of the results
    whole: ClassVar[str] = modes.LATENCY  # what all of it is called where its parts are too
    part: ClassVar[str] = modes.STEP  # under which name the samples of its parts are
    name: ClassVar[str] = "single inferences"  # what it is, in a message

    @property
    def parts(self) -> tuple[str, ...]:
        """What there is of a loop or a chain besides its latency, the whole of it among them; nothing of an inference."""
        return ()

    @property
    def count(self) -> int:
        """How many parts of a sample are timed in it."""
        return 1

    def phases(self, mode: str) -> tuple[str, ...]:
        known = modes.mode_of(mode)
        return (*known.phases, *PER_BLOCK) if known.of_cpu_tensors else (*known.phases, *modes.COSTS)

    def why_without(self, metric: str) -> str:
        """Why no mode has a metric, where that is so of this work; else nothing."""
        if metric in modes.LOOP_PHASES:
            return "single inferences have no steps; say what is fed back with --feedback OUT=IN"
        if metric == modes.WHOLE_CHAIN or modes.stage_in(metric):
            return f"{self.name} have no stages, which chains have"
        return ""

    def per_sample(self, metric: str) -> int | None:
        """How many samples of a metric a block of one sample gives at least; None where there is no saying."""
        return None

    def common_work(self, other: Work) -> Work:
        """What two of a kind have in common: of two chains the stages of one name."""
        return self

    def sessions(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Of each session what a text adds for it, and how the worker is asked for it."""
        yield "", {}

    def part_at(self, index: int) -> tuple[str, dict[str, Any]]:
        """What a part is called, and its numbers, by its place among the parts of all samples of a block."""
        return modes.STEP, {modes.STEP: index % self.count, "iteration": index}


class WorkOfParts(Work):
    def phases(self, mode: str) -> tuple[str, ...]:
        return (modes.LATENCY, *self.parts, *PER_BLOCK)

    def why_without(self, metric: str) -> str:
        return "" if metric in self.phases("") else f"{self.name} has {', '.join(self.phases('')[1:])} only"


INFERENCE = Work()


@dataclass(frozen=True)
class Part:
    """What a plan takes a sample of: an inference; loops, chains and the kinds of features have classes of their own."""

    opened_by: ClassVar[str] = "open"  # the worker's command
    folder: ClassVar[str] = ""  # what the name of its folder begins with
    known_modes: ClassVar[Mapping[str, modes.Mode]] = modes.MODES  # in which it can be measured
    takes_empty_dims: ClassVar[bool] = False  # a dimension may be 0, of a state that has nothing yet

    @property
    def work(self) -> Work:
        return INFERENCE

    @property
    def models(self) -> tuple[Any, ...]:
        """The stages of a chain, else none."""
        return ()

    def check(self, plan: Any) -> None:
        """Refuse (`BadInput`) a plan of it that cannot be carried out, beside what is refused of any, before anything is started."""

    def for_baseline(self, model: str, candidate: str, changes: Mapping[str, Any]) -> tuple[str, Part]:
        """The model and the part of a baseline that has values of its own, beside the `candidate`'s model."""
        return model, replace(self, **changes)

    def with_files(self, to: Callable[[str], str]) -> Self:
        """The same with something else in place of the paths of files of its own."""
        return self

    def request(self, model: str, target: dict[str, Any]) -> dict[str, Any]:
        """What the worker needs to open it besides the inputs, as JSON-ready data."""
        return {"model": model, "target": target}

    def stage_requests(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        """What a request has of each of `models`."""
        return []

    def map_models(self, change: Callable[[Any], Any]) -> Part:
        """The same with others in place of `models`."""
        return self

    def essence(self) -> Part:
        """The same without what enters no figure."""
        return self
