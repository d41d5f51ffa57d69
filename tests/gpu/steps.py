"""The commands of the run, in the order of their weight: what each is for, how long it may take, what it must show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ortbench.model.modes import (
    CPU,
    DEVICE,
    DEVICE_PINNED,
    HOST_ACCESSIBLE,
    MODES,
    RESIDENT,
    SHARED,
    USUAL_LOOP_MODES,
    modes_that,
)
from tests.gpu import checks, further
from tests.gpu.checks import Check, Result

COPY, IMAGE, TRANSFORMER = "copy_4k", "resnet50", "transformer"
LOOPS = ("recurrent_cell", "decoder", "decoder_shared")  # as they are in models/, with what a loop of them gives
BATCHED = ("resnet50_batch", "vit")  # whose batch is a symbolic dimension
SLOWER = "resnet50_slower"  # with nodes in it that do nothing
LLAMA, GPT = "llama", "gpt"  # folders of decoders that generate
SMALL = ("image_classifier", "tiny")  # as they are in models/

# The EPs that NVIDIA's CUPTI sees, as they are typed.
NVIDIA_EPS = ("cuda", "tensorrt", "nv-tensorrt-rtx")
ENGINE_EPS = ("tensorrt", "nv-tensorrt-rtx")

# CUDA's matrix products are in TF32 unless that is switched off. Of the outputs here, which are of size 1, that is some
# 0.001 off (emulated); the outputs of the other two big models are not touched by it.
TF32 = ("--rtol", "1e-2", "--atol", "5e-3")

# What a command costs besides what it measures, in seconds, generously: Python, ONNX Runtime, the EP and the model;
# setting one mode up, which for 100 MB each way is mostly comparing.
START_S, MODE_S, _LARGE_MODE_S = 2.5, 1.0, 2.0
_MODELS_S, _DECODERS_S = 10.0, 30.0
_LOOP_STEPS = 6  # of which models/ has the outputs
# The longest answer of a worker, so that a mode that hangs does not cost the others: of the first steps, which may load
# gigabytes of libraries from a cold disk, and of the others.
_FIRST_ANSWER_S, ANSWER_S = 90.0, 40.0

Show = Callable[["Left"], Check]


@dataclass(frozen=True)
class Left:
    """What a step left.

    Attributes:
        name, title: of the step.
        data: its main file, parsed.
        results: those of the steps before it, by name.
        streamed: Nsight Systems left what it recorded, and no report.
    """

    name: str
    title: str
    data: Result
    results: Mapping[str, Result]
    streamed: bool = False


def _ready(_: Mapping[str, Result]) -> str | None:
    return None


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        name: of it, and of the folder that it fills.
        title: of what it is to show.
        line: what follows ``python -m``; paths are relative to the folder of the whole run.
        leaves: its main file, which is JSON, in its folder.
        shows: the checks of what it left.
        planned_s: how long it takes, generously.
        refusals: what ortbench's last line has in it where the machine or the EP cannot do this. Anything else that
            leaves no file has failed.
        lacks: why it cannot be run, by the results so far; None where it can.
        modules, programs: that must be installed.
        basic: that the EP works at all; without any of these the others are not tried.
        environ: what is set for it.
        codes: exit codes with which it may end where it has shown all that it was to show.
    """

    name: str
    title: str
    line: tuple[str, ...]
    leaves: str
    shows: tuple[Show, ...]
    planned_s: float
    refusals: tuple[str, ...] = ()
    lacks: Callable[[Mapping[str, Result]], str | None] = _ready
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    basic: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    codes: tuple[int, ...] = (0,)

    @property
    def generates(self) -> bool:
        """Whether it needs the decoders, which are gigabytes."""
        return any(word.startswith((f"models/{LLAMA}", f"models/{GPT}")) for word in self.line)

    @property
    def limit_s(self) -> float:
        """When it is stopped, in seconds: what takes so much longer than planned has hung."""
        return max(30.0, 2 * self.planned_s)


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        seconds: per mode, of the models that are measured in all modes.
        option_s: per mode, of the steps that try an option.
        runs: where not None, so many runs of each mode in place of seconds.
        sweep: options of the bandwidth sweep; `sweep_s`: how long it takes.
        direct_s: of each measurement that no command makes.
        gate_s: of the gate.
        batches: of the models whose batch can be chosen.
        start_s: of fresh processes.
        memcpy: bytes of the copies that are compared with cudaMemcpy.
        generated: tokens of prompts, and behind them; `generate_s`: how long a generation is planned to take.
        soaked: inferences of the soak, whose shapes have `soaked_shapes`, batches and lengths; `soak_s`: how long it takes.
    """

    seconds: Mapping[str, float] = field(default_factory=lambda: {COPY: 5.0, IMAGE: 2.5, TRANSFORMER: 2.5})
    option_s: float = 0.7
    runs: int | None = None
    sweep: tuple[str, ...] = ("--duration", "15")
    sweep_s: float = 15.0
    direct_s: float = 12.0
    gate_s: float = 10.0
    batches: str = "1,8,64"
    start_s: float = 12.0
    memcpy: str = "1000000,16000000,256000000"
    generated: tuple[str, str] = ("512", "256")
    generate_s: float = 100.0
    soaked: int = 5000
    soaked_shapes: tuple[str, str] = ("1..16", "16..512")
    soak_s: float = 8.0


FULL = Scale()
QUICK = Scale(
    runs=8, sweep=("--max-size", "1MB", "--duration", "1"), sweep_s=1.0, direct_s=2.0, gate_s=4.0, option_s=0.3,
    batches="1,2", start_s=3.0, memcpy="65536,1000000", generated=("8", "6"), generate_s=20.0, soaked=200, soaked_shapes=("1..2", "16..32"), soak_s=15.0,
)  # fmt: skip


class FirstPart:
    """Makes the steps for one EP that the first run on a card had; `tests.gpu.later.Steps` has the others.

    Args:
        ep: as it is typed.
        library: of a plugin EP that is no package, or None.
        scale: how much is measured.
    """

    def __init__(self, ep: str, library: str | None, scale: Scale) -> None:
        self._ep, self._library, self._scale = ep, library, scale
        self._target = ("--ep", ep) if library is None else ("--ep-library", library)
        self._cupti = library is None and ep in NVIDIA_EPS
        # A real model, so that launching it is nothing beside it; a device whose arithmetic is slow would drown in noise.
        self._real = IMAGE if scale.runs is None else "tiny"

    def first(self) -> list[Step]:
        """In this order, where nothing else decides; at its end what needs more than ONNX Runtime and CUDA."""
        measured = [*self._models(), *self._measurements(), *self._loops(), *self._options(), self._costs()]
        engines = [step for ep in ENGINE_EPS for step in self._engines(ep)]
        return [*measured, self._devices(), *engines]

    def _models(self) -> list[Step]:
        """Three models in all modes."""
        more = ("--mode", "all", "--depth", "3", *(["--measure-copies"] if self._cupti else []))

        of_all: tuple[Show, ...] = (
            lambda left: checks.outputs(left.title, left.data),
            lambda left: checks.pipelined(left.name, left.data),
            lambda left: checks.pinned(left.name, left.data),
            lambda left: checks.asynchronous(left.name, left.data),
        )
        of_copies: tuple[Show, ...] = (
            lambda left: checks.ep_device(left.data),
            lambda left: checks.zero_copy(left.data),
            lambda left: checks.cupti_phases(left.data, DEVICE_PINNED),
            lambda left: checks.cupti_phases(left.data, DEVICE),
            lambda left: checks.derived_copies(left.data),
            lambda left: checks.published_sample(left.data),
            lambda left: checks.gpu_state(left.data),
            lambda left: checks.first_process(left.data),
        )
        shows = {COPY: (*of_all, *of_copies), IMAGE: of_all, TRANSFORMER: of_all}
        return [
            self._run(name, name, f"{name}: outputs equal in all modes", shows[name], tuple(MODES), more, basic=True)
            for name in (COPY, IMAGE, TRANSFORMER)
        ]

    def _measurements(self) -> list[Step]:
        scale, ep = self._scale, (self._ep, self._library or "-")
        direct = ("tests.gpu.direct", "fence-and-loop", f"models/{self._real}.onnx", "models/tiny.onnx", *ep)
        return [
            Step(
                "fence-and-loop",
                "the fence holds, loop cost",
                (*direct, str(scale.direct_s), "fence-and-loop/figures.json"),
                "figures.json",
                (lambda left: checks.fence(left.data["sync"]), lambda left: checks.loop_cost(left.data["loop"])),
                2 * START_S + scale.direct_s,
                basic=True,
            ),
            Step(
                "bandwidth",
                "copy bandwidth over sizes",
                ("ortbench", "bandwidth", *self._target, *scale.sweep, "--out", "bandwidth"),
                "bandwidth.json",
                (lambda left: checks.bandwidth(left.title, left.data),),
                START_S + scale.sweep_s,
                refusals=("bandwidth is unsupported: ",),
            ),
        ]

    def _loops(self) -> list[Step]:
        """States of fixed size, that grow, and whose past and present are one buffer."""
        cache = ("--feedback", "present.*=past_key_values.*")
        growing = ("--dim", "total_length=past_length+sequence", "--fill", "attention_mask=1")
        cell, decoder, shared = LOOPS
        return [
            self._loop(cell, ("--feedback", "hidden_out=hidden")),
            self._loop(decoder, (*cache, *growing, "--fill", "position_ids=past_length+index")),
            self._loop(
                shared, (*cache, "--fill", "position_ids=step", "--mode", "default", "--mode", "shared"), (SHARED.name,)
            ),
        ]

    def _loop(self, model: str, options: Sequence[str], more: Sequence[str] = ()) -> Step:
        """`ortbench loop` of a model, held against the outputs of every step."""
        modes = (*USUAL_LOOP_MODES, *more)
        given = ("--input", f"models/{model}.loop.inputs.npz", "--expect", f"models/{model}.loop.npz", *TF32)
        line = (
            "ortbench",
            "loop",
            f"models/{model}.onnx",
            *given,
            *self._target,
            *options,
            "--steps",
            str(_LOOP_STEPS),
        )
        line += (*self._amount(self._scale.option_s), "--timeout", f"{ANSWER_S:g}", "--out", f"loop-{model}")
        return Step(
            f"loop-{model}",
            f"loop of {model}: outputs of every step equal, the state stays on the device",
            line,
            "result.json",
            (lambda left: checks.loop(left.title, left.data),),
            START_S + len(modes) * (self._scale.option_s + MODE_S),
        )

    def _amount(self, seconds: float) -> tuple[str, ...]:
        """How much of each mode is measured."""
        runs = self._scale.runs
        return ("--duration", f"{seconds:g}") if runs is None else ("--iterations", str(runs), "--warmup", "2")

    def _options(self) -> list[Step]:
        """What else a run can be asked for, a short run each.

        Of the big models the one with much to copy, where nothing has to do with copies the ones with much to launch.
        """
        return [
            self._graph(IMAGE),
            self._graph(TRANSFORMER),
            self._stream("ort"),
            self._stream("cuda-python"),
            self._external("torch"),
            self._external("cupy"),
            self._run(
                "prefer-gpu",
                COPY,
                "--ep prefer-gpu: what ONNX Runtime chose",
                (lambda left: checks.chosen(left.title, left.data),),
                (CPU, DEVICE, RESIDENT),
                target=("--ep", "prefer-gpu", *(() if self._library is None else ("--ep-library", self._library))),
            ),
            self._named_device(),
        ]

    def _graph(self, model: str) -> Step:
        return self._run(
            f"cuda-graph-{model}",
            model,
            f"--cuda-graph, {model}: replayed, outputs equal",
            (lambda left: checks.graph(left.title, left.data, left.results.get(model)),),
            modes_that(lambda mode: mode.captured),
            ("--cuda-graph",),
            refusals=("--cuda-graph: ", "cannot use the graph capture feature"),
        )

    def _stream(self, kind: str) -> Step:
        return self._run(
            f"stream-{kind}",
            COPY,
            f"--stream {kind}: kernels on a stream of the user's, outputs equal",
            (lambda left: checks.stream(left.title, left.data, kind, left.results.get(COPY)),),
            (DEVICE, RESIDENT, HOST_ACCESSIBLE),
            ("--stream", kind),
            refusals=("--stream: ", "has no EP device here", "the package cuda-python does not load"),
        )

    def _external(self, library: str) -> Step:
        return self._run(
            f"external-{library}",
            COPY,
            f"--input-memory {library}: its memory is read in place, outputs equal",
            (lambda left: checks.external(left.title, left.data),),
            modes_that(lambda mode: mode.external_inputs),
            ("--input-memory", library),
            refusals=(f"--input-memory {library}: it cannot be imported here",),
        )

    def _named_device(self) -> Step:
        model = (f"models/{TRANSFORMER}.onnx", f"models/{TRANSFORMER}")
        return Step(
            "named-device",
            "without an EP device, by name alone: outputs equal",
            ("tests.gpu.direct", "named-device", *model, self._ep, self._library or "-", "named-device/figures.json"),
            "figures.json",
            (lambda left: checks.named_device(left.title, left.data),),
            2 * START_S,
        )

    def _costs(self) -> Step:
        """What a mode costs besides time."""
        return self._run(
            "costs",
            IMAGE,
            "--measure-spin: CPU time with threads that do not spin",
            (
                lambda left: further.without_spin(left.title, left.data),
                lambda left: further.memory("--measure-memory: what each mode holds", left.data),
                lambda left: further.drawn("--measure-energy: what a run draws", left.data),
            ),
            (CPU, RESIDENT),
            ("--measure-memory", "--measure-energy", "--measure-spin"),
            starts=6,
            more_s=8.0,
        )

    def _devices(self) -> Step:
        library = () if self._library is None else ("--ep-library", self._library)
        return Step(
            "devices",
            "ortbench devices: the device, its memory and streams, and modes as measured",
            ("ortbench", "devices", *library, "--json", "devices/devices.json"),
            "devices.json",
            (lambda left: checks.devices(left.title, left.data, left.results.get(COPY)),),
            START_S,
        )

    def _engines(self, ep: str) -> list[Step]:
        cold, warm, stream = f"{ep}-cold", f"{ep}-warm", f"{ep}-stream"
        absent = ("is not installed", " is missing", "finds no device", "Please install TensorRT libraries")

        def built(results: Mapping[str, Result]) -> str | None:
            return None if cold in results else "no engine was built"

        def engine(
            name: str, title: str, shows: tuple[Show, ...], *options: str, wait_s: float = 0.0, **more: Any
        ) -> Step:
            return self._run(
                name,
                "image_classifier",
                f"--ep {ep}: {title}",
                shows,
                (RESIDENT,),
                ("--engine-cache", f"models/engines-{ep}", *options),
                target=("--ep", ep),
                refusals=absent,
                more_s=wait_s,
                **more,
            )

        return [
            engine(cold, "engine built", (lambda left: checks.engine(left.title, left.data, warm=False),), wait_s=15.0),
            engine(
                warm,
                "engine from the cache",
                (lambda left: checks.engine(left.title, left.data, warm=True, before=left.results.get(cold)),),
                lacks=built,
            ),
            engine(
                stream,
                "--stream ort",
                (lambda left: checks.stream(left.title, left.data, "ort", left.results.get(warm)),),
                "--stream",
                "ort",
                lacks=built,
            ),
        ]

    def _inputs(self, model: str) -> tuple[str, ...]:
        tolerances = () if model in (COPY, IMAGE) else TF32
        return ("--input", f"models/{model}", *tolerances)

    def _run(
        self,
        name: str,
        model: str,
        title: str,
        shows: tuple[Show, ...],
        modes: Sequence[str],
        options: Sequence[str] = (),
        target: Sequence[str] = (),
        starts: int = 1,
        more_s: float = 0.0,
        basic: bool = False,
        **more: Any,
    ) -> Step:
        """`ortbench run` of a model; `starts`: how many workers it has, one after the other."""
        scale = self._scale
        seconds = scale.seconds[model] if basic else scale.option_s
        wanted = () if basic else tuple(word for mode in modes for word in ("--mode", mode))
        answer = _FIRST_ANSWER_S if basic else ANSWER_S + more_s
        line = ("ortbench", "run", f"models/{model}.onnx", *self._inputs(model), *(target or self._target), *wanted)
        line += (*options, *self._amount(seconds), "--timeout", f"{answer:g}", "--out", name)
        mode_s = seconds + (_LARGE_MODE_S if model == COPY else MODE_S)
        planned = starts * START_S + len(modes) * mode_s + more_s
        return Step(name, title, line, "result.json", shows, planned, basic=basic, **more)


def planned_s(steps: Sequence[Step]) -> float:
    """How long all of them take, generously, in seconds, with the writing of the models."""
    models = _MODELS_S + (_DECODERS_S if any(step.generates for step in steps) else 0)
    return models + sum(step.planned_s for step in steps)
