"""What a run is asked to do: frozen, plain data that the command line makes and every later step reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.core import features
from ortbench.core.errors import BadInput
from ortbench.core.files import check_readable, is_folder, is_same_file, model_files
from ortbench.core.safe_text import LONGEST_NAME
from ortbench.model import modes as io_modes
from ortbench.model.modes import Part, Work
from ortbench.model.settings import WHOLES
from ortbench.plan.option_types import (
    CLOCK,
    FLAG,
    ITEMS,
    MODE_NAMES,
    NUMBER,
    PATH_OR_FOLDER,
    PRECISION,
    TEXT,
    TEXTS,
    TIME,
    WHOLE,
    check_modes,
    check_seconds,
)
from ortbench.plan.options import (
    CHAINED,
    IN_MODES,
    INPUT,
    MEASURED,
    MODE,
    OFTEN,
    PYTHON,
    SINGLE,
    WRITTEN,
    at_least,
    check_text,
    check_values,
    declared_options,
    new_option,
    not_negative,
    option,
)
from ortbench.plan.target import PARALLEL, POLICIES, Inputs, Stream, Target

if TYPE_CHECKING:
    from ortbench.model.schema import Warned

# Entries of the session's configuration by which threads sleep at once where they wait for work.
NO_SPIN = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0"}
MAX_DEPTH = 64  # of the pipeline: a sample is a round of so many inferences

PROCESSES = 5  # that a run is measured in, unless told otherwise
SAME = "2%"  # up to which difference two results are called the same, unless told otherwise
_MOST_RATE = 1e6  # a second: above that the clock's own cost is what is measured
_PACED = ("run", "loop")  # the commands that can measure what begins at set moments
_OF_ONE_SHAPE = {"sweep": "looks into runs of one shape: 'ortbench run' with that shape takes it"}
_measured = partial(option, panel=MEASURED, is_live_only=True)
_PASSES = tuple(
    new_option(flag, "", part.help, MEASURED, FLAG, default=False, commands=part.commands, is_live_only=True)
    for flag, (_, part) in features.passes().items()
)


def _depth(value: int, option: str) -> None:
    if not 1 <= value <= MAX_DEPTH:
        raise BadInput(f"{option} {value}: from 1 (one inference after the other) to {MAX_DEPTH} in flight", option)


def _name(value: str, option: str) -> None:
    if not any(character.isprintable() and not character.isspace() for character in value):
        raise BadInput(f"{option}: is empty; leave it out, or give it something to read", option)
    if len(value) > LONGEST_NAME:
        reason = f"has {len(value)} characters, and a name at most {LONGEST_NAME}; --note takes longer texts"
        raise BadInput(f"{option}: {reason}", option)


def _measure(known: Collection[str], shown: str) -> dict[str, Any]:
    """The option --mode of a command that knows these modes."""
    text = f"Measure these I/O modes: {', '.join(known)}, {io_modes.EVERY} or {io_modes.USUAL}."
    return {"help": text, "shown": shown, "choices": [*known]}


_FIRST = f"the first {len(io_modes.USUAL_MODES)}"


def _processes(value: int, option: str) -> None:
    from ortbench.core.stats import FEW  # which help does not need

    if value != 1 and value < FEW:
        raise BadInput(f"{option} {value}: it takes 1, or {FEW} or more that tell how far they differ", option)


def _rate(value: float, option: str) -> None:
    if not 0 < value <= _MOST_RATE:
        raise BadInput(f"{option} {value:g}: must be above zero, and at most {_MOST_RATE:g} a second", option)


def timeout() -> Any:
    """The field for the longest wait, of a run and of a sweep."""
    return _measured(
        "timeout", "TIME", "Give up if the worker does not answer for TIME.", kind=TIME, default=600.0, check=check_seconds,
        commands=CHAINED,
    )  # fmt: skip


def wait_quiet() -> Any:
    """The field for how long a quiet machine is waited for, of a run and of a bandwidth curve."""
    return _measured(
        "wait-quiet", "TIME", "Wait up to TIME (60s) until the machine is quiet.", kind=TIME,
        commands=CHAINED, common=OFTEN,
    )  # fmt: skip


def require_quiet() -> Any:
    return _measured(
        "require-quiet", "", "Measure only on a quiet machine: end with an error (1) if it is busy.", kind=FLAG,
        default=False, commands=CHAINED,
    )  # fmt: skip


@dataclass(frozen=True)
class Loop:
    """What to measure and for how long: see `ortbench.measure.schedule.StopRule`.

    Attributes:
        warmup: None means for `warmup_ns`, what proofs have run counted.
        phases: which phases to time; None means all that a mode has.
        in_order: for a timeline: one block a phase, mode after mode, inside an NVTX capture range; see
            `ortbench.measure.schedule.InOrder`. Duration and precision do not matter then.
        until_agreed: end when processes agree; see `ortbench.measure.progress`.
    """

    warmup: int | None = _measured(
        "warmup", "N", "Warm each mode up with N inferences.", kind=WHOLE, check=not_negative, shown="0.5 s",
        commands=IN_MODES,
    )  # fmt: skip
    duration_s: float = _measured(
        "duration", "TIME", "Measure each mode for at most TIME.", kind=TIME, default=5.0, check=check_seconds,
        commands=("run", "sessions", "searches"), common=OFTEN,
        by_command={"run": {"shown": "until processes agree"}},
    )  # fmt: skip
    iterations: int | None = _measured(
        "iterations", "N", "Measure N inferences per mode instead of --duration.", kind=WHOLE, commands=("run",),
        replaces=("duration", "precision"), check=at_least(1, "at least one iteration must be measured"), common=("run",),
    )  # fmt: skip
    precision: float | None = _measured(
        "precision", "P", "Stop when the 95% CI of each median is within P of it; 0: never.", kind=PRECISION, default=0.01, shown="1%",
        commands=("run",),
    )  # fmt: skip
    processes: int | None = _measured(
        "processes", "N", "Measure in N worker processes, one after the other.", kind=WHOLE, check=_processes, most=1000,
        shown=f"up to {PROCESSES}, 1 where starting them takes too long", commands=("run",),
        by_command={"run": {"shown": f"3, {PROCESSES} where these differ"}},
    )  # fmt: skip
    phases: tuple[str, ...] | None = None
    depth: int = option(
        "depth", "N", f"Keep N inferences in flight in mode {' and '.join(io_modes.IN_FLIGHT)}.", MODE, kind=WHOLE, default=io_modes.DEPTH, is_live_only=True,
        check=_depth, is_in_baselines=True, lists=WHOLES._replace(example="2,4"), commands=SINGLE,
    )  # fmt: skip
    in_order: bool = False
    until_agreed: bool = False
    is_cold: bool = False  # the machine may be: only sessions are warmed up

    @property
    def warmup_ns(self) -> int:
        """How long the machine is warmed up by default: half a second, or a tenth of the duration where that is less."""
        return self.warmup_again_ns if self.is_cold else round(min(0.5, self.duration_s / 10) * 1e9)

    @property
    def warmup_again_ns(self) -> int:
        """How long a mode is warmed up where the machine is warm and the session alone is not."""
        return round(min(0.1, self.duration_s / 50) * 1e9)


@dataclass(frozen=True)
class Pace:
    """Starts at set moments, in turns with inferences, or loops, back to back."""

    every_s: float | None = _measured(
        "every", "TIME", "Also measure one inference, or step of a loop, each TIME (32ms).", kind=TIME, check=check_seconds,
        commands=_PACED, common=_PACED, is_in_suites=False,
    )  # fmt: skip
    rate: float | None = _measured(
        "rate", "R", "Also measure R inferences, or steps of a loop, a second.", kind=NUMBER, check=_rate,
        commands=_PACED, common=_PACED, is_in_suites=False,
    )  # fmt: skip

    @property
    def every_ns(self) -> int | None:
        """From one start to the next; None where nothing is paced."""
        every_s = self.every_s if self.rate is None else 1 / self.rate
        return None if every_s is None else max(1, round(every_s * 1e9))


@dataclass(frozen=True)
class Plan:
    """One run of one model on one EP, of single inferences or of what its `part` says; of several models `model` is the file that lists them, and `target` that of the first. `items` None looks for a dimension that is called a batch. `called` is what the
    result has in place of the model's path, where that is a file that soon is gone."""

    model: str
    target: Target = field(default_factory=Target)
    inputs: Inputs = field(default_factory=Inputs)
    modes: tuple[str, ...] = option(
        "mode", "NAME", panel=MODE, kind=MODE_NAMES, default=io_modes.USUAL_MODES, check=check_modes, **_measure(io_modes.MODES, _FIRST), commands=(*IN_MODES, "compare"),
        common=OFTEN,
        by_command={
            "compare": {"help": f"Compare these I/O modes: {', '.join(io_modes.ALL_MODES)}.", "shown": io_modes.EVERY, "choices": io_modes.ALL_MODES},
            "loaded": _measure(io_modes.LOAD_MODES, f"{_FIRST}, on the CPU EP {io_modes.CPU}"),
            "in one mode": {"help": f"Measure in this I/O mode: {', '.join(io_modes.MODES)}.", "shown": io_modes.CPU},
        },
    )  # fmt: skip
    loop: Loop = field(default_factory=Loop)
    pace: Pace = field(default_factory=Pace)
    timeout_s: float = timeout()
    wait_quiet_s: float | None = wait_quiet()
    require_quiet: bool = require_quiet()
    command: tuple[str, ...] = ()
    part: Part = field(default_factory=Part)
    stream: Stream | None = None  # of shapes, of which `inputs` has the first
    called: str | None = None
    remarks: tuple[Warned, ...] = ()  # warnings of its results
    beside: str = ""  # what it is called beside others that differ by settings
    on_host: tuple[str, ...] = ()  # the modes that are measured in place of those where the EP computes in host memory
    nodes: bool = _measured(
        "measure-nodes", "", "Measure the time of each node, in extra inferences.", kind=FLAG, default=False,
        commands=("run",), common=("run",), is_in_suites=False, instead=_OF_ONE_SHAPE,
    )  # fmt: skip
    measure_copies: bool = _measured(
        "measure-copies", "", "Measure copies with NVIDIA's CUPTI, in extra inferences.", kind=FLAG, default=False,
        commands=("run",), is_in_suites=False, instead=_OF_ONE_SHAPE,
    )  # fmt: skip
    spin: bool = _measured(
        "measure-spin", "", "Measure the CPU time that threads spend spinning.", kind=FLAG,
        default=False, commands=("run",), is_in_suites=False,
    )  # fmt: skip
    # By the options of features, how often each measures.
    passes: Mapping[str, int] = field(default_factory=dict, metadata={"options": _PASSES})
    lock_clocks: str | int | None = _measured(
        "lock-clocks", "base/MHZ", "Lock the NVIDIA GPU's clocks during the run (needs permission).", kind=CLOCK,
        commands=("run",),
    )  # fmt: skip
    record_env: tuple[str, ...] = option(
        "record-env", "PATTERN", "Record environment variables, such as 'SOMEEP_*'.", WRITTEN, kind=TEXTS,
        default=(), is_live_only=True, commands=CHAINED,
    )  # fmt: skip
    name: str | None = option(
        "name", "TEXT", "Name the result, in its folder and in every report.", WRITTEN, check=_name,
        is_live_only=True, commands=CHAINED, is_in_suites=False,
    )  # fmt: skip
    note: str | None = option(
        "note", "TEXT", "Keep a note in the result and its heading.", WRITTEN, is_live_only=True, commands=CHAINED
    )
    items: int | str | None = option(
        "items", "N/DIM", "Set the items of an inference: a number, or a dimension.", INPUT, kind=ITEMS,
        shown="the dimension batch, batch_size or N", commands=("run",), is_live_only=True, is_in_baselines=True,
    )  # fmt: skip

    def has_pass(self, option: str) -> bool:
        """Whether what a feature's option measures is wanted."""
        return self.passes.get(option, 0) > 0

    @property
    def stages(self) -> tuple[Any, ...]:
        """Those of a chain, none without one."""
        return self.part.models

    @property
    def work(self) -> Work:
        return self.part.work

    @property
    def targets(self) -> list[Target]:
        """Of its sessions: one, or those of a chain's stages."""
        return [stage.target for stage in self.stages] or [self.target]

    @property
    def paced_block_s(self) -> float:
        """How long a block of what is paced takes at most, s, whatever the model takes: a whole loop and some starts more."""
        return 0.0 if self.pace.every_ns is None else 1 + self.pace.every_ns / 1e9 * (self.work.count + 8)

    def worker_request(self) -> dict[str, Any]:
        """What the worker needs to open the model, as JSON-ready data."""
        return {**self.part.request(self.model, asdict(self.target)), "inputs": asdict(self.inputs)}

    def models_of(self, request: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
        """Each model that is opened, with what `worker_request` has of it."""
        return [*zip(self.stages, self.part.stage_requests(request), strict=True)] or [(self, request)]


WHICH_MODES = (
    declared_options(Plan)["modes"],
    declared_options(Loop)["depth"],
)  # first in help, and before those of inputs
# All that says what is measured, and how; what features declare besides is in `ortbench.plan.options`.
PLAN = (Target, WHICH_MODES, Inputs, Stream, Pace, Loop, Plan)


def check(plan: Plan) -> None:
    """Refuse a plan that cannot be carried out, before anything is started (`BadInput`)."""
    if is_folder(plan.model):
        raise BadInput(f"{plan.model} is not a file: name the .onnx file itself")
    check_readable(plan.model)
    check_text(plan.model, "the model's path")
    known = plan.part.known_modes
    for name in plan.modes:
        if name not in known:
            raise BadInput(f"--mode {io_modes.no_such(name, known, plan.work.name)}", "--mode")
    if not plan.part.takes_empty_dims:
        check_sizes(plan.inputs.dims, "--dim")
    for values in filter(None, (plan, plan.loop, plan.pace, plan.part, plan.stream, plan.target, plan.inputs)):
        check_values(values)
    plan.part.check(plan)
    if plan.pace.every_s is not None and plan.pace.rate is not None:
        raise BadInput("--rate: says the same as --every: give one of them", "--rate")
    if plan.pace.every_ns is not None and all(io_modes.is_rate(mode, io_modes.LATENCY) for mode in plan.modes):
        option = "--every" if plan.pace.rate is None else "--rate"
        raise BadInput(f"{option}: is for modes with one inference at a time: add one with --mode", option)
    target = plan.target
    if (written := target.optimized_model) is not None and any(
        map(is_same_file(written), model_files(Path(plan.model)))
    ):
        raise BadInput(
            f"--optimized-model {written}: is a file of the measured model: name a new file", "--optimized-model"
        )
    copying = io_modes.modes_that(lambda mode: mode.recorded and (mode.of_cpu_tensors or mode.times_copies))
    if plan.measure_copies and not {*copying} & {*plan.modes}:
        reason = f"looks into runs of {' and '.join(copying)}: add one of them with --mode"
        raise BadInput(f"--measure-copies {reason}", "--measure-copies")
    if target.cuda_graph and target.dynamic_outputs:
        raise BadInput("--cuda-graph needs outputs at fixed addresses: leave --dynamic-outputs out", "--cuda-graph")
    if target.inter_op_threads is not None and target.execution_mode != PARALLEL:
        reason = f"operators run one at a time, unless --execution-mode {PARALLEL} is given too"
        raise BadInput(f"--inter-op-threads: {reason}", "--inter-op-threads")
    still, off = next(iter(NO_SPIN.items()))
    if plan.spin and target.session_config.get(still) == off:
        raise BadInput(
            f"--measure-spin: nothing spins with --session-config {still}={off}: leave one of them out",
            "--measure-spin",
        )
    if target.ep in POLICIES:
        for option, given in (
            ("--device", target.device is not None),
            ("--ep-option", bool(target.options)),
            ("--cuda-graph", target.cuda_graph),
            ("--stream", target.stream is not None),
        ):
            if given:
                raise BadInput(f"{option}: with --ep {target.ep} ONNX Runtime chooses the EP, so leave it out", option)
    if target.stream is not None and "user_compute_stream" in {name.rpartition(".")[2] for name in target.options}:
        reason = "makes a stream, and --ep-option user_compute_stream names another: leave one out"
        raise BadInput(f"--stream {reason}", "--stream")
    bound_as_they_are = io_modes.modes_that(lambda mode: mode.external_inputs)
    if target.input_memory is not None and not {*bound_as_they_are} & {*plan.modes}:
        reason = f"is for the modes {' and '.join(bound_as_they_are)}: ask for one of them"
        raise BadInput(f"--input-memory {reason}", "--input-memory")


def check_sizes(dims: Mapping[str, int | str], option: str) -> None:
    """Refuse dimensions of 0, sizes or sums by name, which only a loop begins with."""
    for name, size in dims.items():
        if size == 0:
            reason = "a dimension of 0 leaves nothing to measure; a model that needs one takes it by --input"
            raise BadInput(f"{option} {name}=0: {reason}", option)


class Observer:
    """What a run tells while it goes on; the default says nothing."""

    shows_estimates = False  # `estimates` is of use, which takes some time between blocks

    def forecast(self, seconds: float) -> None:
        """How long it will take at most, about; called once, when a mode of every model is prepared."""

    def estimates(self, rows: Sequence[tuple[str, str]]) -> None:
        """What is known so far: of what, and how much. Called between blocks only."""

    def stage(self, text: str) -> None:
        """A step before the measurement begins, in words."""

    def show_time_left(self, seconds: float) -> None:
        """How long it will still take, about; called from the beginning on, between blocks, and each second of a longer one."""


REPORTS = Path("reports")

_MEASURES = ("run", "measures")
_OUT_IN_PYTHON = "The folder in which a folder of its own is made for what is measured; by default nothing is written."
_written = partial(option, panel=WRITTEN, kind=TEXT, is_in_suites=False, is_in_python=False)
_FILES = tuple(
    new_option(
        flag,
        "PATH",
        writer.help,
        WRITTEN,
        commands=writer.commands,
        common=writer.common,
        by_command=writer.by_command,
        is_in_suites=False,
        is_in_python=False,
    )
    for flag, writer in features.writers().items()
)


@dataclass(frozen=True)
class OutputOptions:
    """What is to be written and shown; a path of ``-`` is standard output, None is not wanted."""

    out: Path = _written(
        "out", "DIR", "Write the result's folder in DIR.", kind=PATH_OR_FOLDER, default=REPORTS, commands=_MEASURES,
        is_in_python=True, is_live_only=True, common=OFTEN, by_command={PYTHON: {"help": _OUT_IN_PYTHON, "default": None}},
    )  # fmt: skip
    json: str | None = _written(
        "json", "PATH", "Write the result as JSON; '-' is standard output.",
        commands=(*_MEASURES, "compare"),
    )  # fmt: skip
    files: Mapping[str, str] = field(default_factory=dict, metadata={"options": _FILES})  # by the options of features
    markdown: str | None = _written(
        "markdown", "PATH", "Write the report as Markdown; '-' is standard output.", commands=("compare",)
    )
    quiet: bool = _written(
        "quiet", "", "Print only errors; files are still written.", kind=FLAG, default=False, short="q",
        commands=_MEASURES,
    )  # fmt: skip
    verbose: bool = _written(
        "verbose", "", "Print the whole report, not one screen.", kind=FLAG, default=False, short="v",
        commands=(*_MEASURES, "compare"), common=OFTEN,
    )  # fmt: skip

    @property
    def paths(self) -> dict[str, str]:
        """All files that are written, by their options."""
        own = {"json": self.json, "markdown": self.markdown}
        return {flag: path for flag, path in own.items() if path is not None} | dict(self.files)

    @property
    def on_stdout(self) -> list[str]:
        """The options whose files are standard output, where nothing else may go."""
        return [flag for flag, path in self.paths.items() if path == "-"]

    @property
    def of_timelines(self) -> bool:
        """Whether timelines have to be recorded."""
        return any(features.writers()[flag].of_timelines for flag in self.files)
