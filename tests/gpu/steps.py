"""The commands of the run, in the order of their weight: what each is for, how long it may take, what it must show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ortbench.core.errors import REGRESSION
from ortbench.model.modes import CPU, DEVICE, DEVICE_PINNED, MODES, RESIDENT, modes_that
from tests.gpu import checks
from tests.gpu.checks import Check, Result

COPY, IMAGE, TRANSFORMER = "copy_4k", "resnet50", "transformer"
BATCHED = "resnet50_batch"  # whose batch is a symbolic dimension
SLOWER = "resnet50_slower"  # with nodes in it that do nothing
LLAMA = "llama"  # the folder of a decoder that generates

# The EPs that NVIDIA's CUPTI sees, as they are typed.
NVIDIA_EPS = ("cuda", "tensorrt", "nv-tensorrt-rtx")
ENGINE_EPS = ("tensorrt", "nv-tensorrt-rtx")
_ABSENT = ("is not installed", " is missing", "finds no device", "Please install TensorRT libraries")
_NO_GRAPHS = ("--cuda-graph: ", "cannot use the graph capture feature")

# CUDA's matrix products are in TF32 unless that is switched off. Of the outputs here, which are of size 1, that is some
# 0.001 off (emulated); the outputs of the other two big models are not touched by it.
TF32 = ("--rtol", "1e-2", "--atol", "5e-3")
_HALF = ("--rtol", "5e-2", "--atol", "5e-2")  # half precision, whose kernels differ with the length of the cache

# What a command costs besides what it measures, in seconds, generously: Python, ONNX Runtime, the EP and the model;
# setting one mode up, which for 100 MB each way is mostly comparing.
_START_S, _MODE_S, _LARGE_MODE_S = 2.5, 1.0, 2.0
_MODELS_S, _DECODER_S = 10.0, 25.0
# The longest answer of a worker, so that a mode that hangs does not cost the others: of the first steps, which may load
# gigabytes of libraries from a cold disk, and of the others.
_FIRST_ANSWER_S, _ANSWER_S = 90.0, 40.0


@dataclass(frozen=True)
class Left:
    """What a step left: its main file, parsed; `streamed`: Nsight Systems left what it recorded, and no report."""

    title: str
    data: Result
    streamed: bool = False


Show = Callable[[Left], Check]


def _outputs(left: Left) -> Check:
    return checks.outputs(left.title, left.data)


def _engine_show(is_warm: bool) -> Show:
    return lambda left: checks.engine(left.title, left.data, is_warm)


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        name: of it, and of the folder that it fills.
        title: of what it is to show.
        line: what follows ``python -m``; paths are relative to the folder of the whole run.
        shows: the checks of what it left.
        planned_s: how long it takes, generously.
        leaves: its main file, which is JSON, in its folder.
        refusals: what ortbench's last line has in it where the machine or the EP cannot do this. Anything else that
            leaves no file has failed.
        modules, programs: that must be installed.
        basic: that the EP works at all; without any of these the others are not tried.
        codes: exit codes with which it may end where it has shown all that it was to show.
    """

    name: str
    title: str
    line: tuple[str, ...]
    shows: tuple[Show, ...]
    planned_s: float
    leaves: str = "result.json"
    refusals: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    basic: bool = False
    codes: tuple[int, ...] = (0,)

    @property
    def generates(self) -> bool:
        """Whether it needs the decoder, which is gigabytes."""
        return any(word.startswith(f"models/{LLAMA}") for word in self.line)

    @property
    def limit_s(self) -> float:
        """When it is stopped, in seconds: what takes so much longer than planned has hung."""
        return max(30.0, 2 * self.planned_s)


@dataclass(frozen=True)
class Scale:
    """How much is measured: seconds of a mode of a model that is measured in all of them, and of one that tries an option, or so
    many runs of either; seconds of what no command measures, of the bandwidth curve, of the gate and of fresh processes; and sizes."""

    model_s: float = 2.5
    option_s: float = 0.7
    runs: int | None = None
    direct_s: float = 12.0
    curve: tuple[str, ...] = ("--duration", "15")
    gate_s: float = 10.0
    start_s: float = 12.0
    batches: str = "1,8,64"
    memcpy: str = "1000000,16000000,256000000"
    generated: tuple[int, int] = (512, 256)  # tokens of the prompt, and behind it


FULL = Scale()
QUICK = Scale(
    runs=8, option_s=0.3, direct_s=2.0, curve=("--max-size", "1MB", "--duration", "1"), gate_s=4.0, start_s=3.0, batches="1,2",
    memcpy="65536,1000000", generated=(8, 6),
)  # fmt: skip


class Steps:
    """Makes the steps for one EP.

    Args:
        ep: as it is typed.
        library: of a plugin EP that is no package, or None.
        scale: how much is measured.
    """

    def __init__(self, ep: str, library: str | None, scale: Scale) -> None:
        self._ep, self._scale = ep, scale
        self._target = ("--ep", ep) if library is None else ("--ep-library", library)
        self._direct_target = (ep, library or "-")
        self._cupti = library is None and ep in NVIDIA_EPS

    def parts(self) -> dict[str, list[Step]]:
        """Every step, by the part of the run that it is in, in the order of what it is worth a minute."""
        copy, image, transformer = (self._model(name) for name in (COPY, IMAGE, TRANSFORMER))
        profiles = [self._profile(name) for name in (IMAGE, COPY)]
        batched = [self._batched(graph) for graph in (False, True)]
        first = [copy, *profiles, image, transformer, *batched, *self._decoder(), *self._measurements()]
        options = [self._stream(), *map(self._external, ("torch", "cupy")), self._costs()]
        options += [self._kernels()] if self._cupti else []
        engines = [step for ep in ENGINE_EPS for step in self._engines(ep)]
        return {"1": first, "2": [self._curve(), self._start(), self._why(), *options, *engines]}

    def all(self) -> list[Step]:
        """The steps of all parts."""
        return [step for part in self.parts().values() for step in part]

    def _model(self, name: str) -> Step:
        """A model in all modes, with CUPTI's copies."""
        shows: tuple[Show, ...] = (_outputs,)
        if name == COPY:
            shows += (
                lambda left: checks.zero_copy(left.data),
                lambda left: checks.cupti_phases(left.data, DEVICE_PINNED),
                lambda left: checks.cupti_phases(left.data, DEVICE),
                lambda left: checks.derived_copies(left.data),
                lambda left: checks.gpu_state(left.data),
            )
        more = ("--mode", "all", "--depth", "3", *(["--measure-copies"] if self._cupti else []))
        return self._run(name, name, f"{name}: outputs equal in all modes", shows, (), more, basic=True)

    def _profile(self, model: str) -> Step:
        """Nsight's sums by range beside ours."""
        name = f"profile-{model}"
        line = ("ortbench", "profile", f"models/{model}.onnx", *self._target, *self._inputs(model), "--out", name)
        shows = (lambda left: checks.profile(left.title, left.data, left.streamed),)
        title = f"ortbench profile: under Nsight Systems, {model}"
        return Step(name, title, line, shows, 8 * _START_S, "profile.json", programs=("nsys",))

    def _batched(self, graph: bool) -> Step:
        """A real model at several batches: in all modes, and as CUDA graphs."""
        scale, name = self._scale, f"{BATCHED}-graph" if graph else BATCHED
        modes = ("--cuda-graph", "--mode", RESIDENT) if graph else ("--mode", "all")
        dims = ("--dim", f"batch={scale.batches}", *TF32, *self._amount(scale.option_s))
        line = ("ortbench", "sweep", f"models/{BATCHED}.onnx", *self._target, *dims, *modes, "--out", name)
        title = f"{BATCHED} at batches {scale.batches}{' as a CUDA graph' if graph else ''}: outputs equal"
        show: Show = (lambda left: checks.graph(left.title, left.data)) if graph else _outputs
        cases = (scale.batches.count(",") + 1) * (1 if graph else len(MODES))
        planned = _START_S + cases * (scale.option_s + _MODE_S)
        return Step(name, title, line, (show,), planned, refusals=_NO_GRAPHS if graph else ())

    def _decoder(self) -> list[Step]:
        """A decoder that generates in all modes, and one step of it, alone and as a CUDA graph."""
        prompt, tokens = self._scale.generated
        model, past, amount = f"models/{LLAMA}", prompt + tokens - 1, self._amount(self._scale.option_s)
        generate = ("--mode", "default", "--mode", "shared", "--prompt-length", str(prompt), "--generate", str(tokens))
        once = ("--duration", f"{self._scale.option_s * 3:g}", "--timeout", "120", "--out", f"generate-{LLAMA}")
        dims = ("batch=1", "sequence=1", f"past_length={past}", f"total_length={past + 1}")
        step = ("--mode", RESIDENT, *(word for it in dims for word in ("--dim", it)))
        alone = (
            "ortbench",
            "run",
            f"{model}/model.onnx",
            *self._target,
            *_HALF,
            *step,
            *amount,
            "--out",
            f"step-{LLAMA}",
        )
        return [
            Step(
                f"generate-{LLAMA}",
                f"ortbench loop: {LLAMA} generates, {prompt} tokens of prompt and {tokens} more, the state stays on the device",
                ("ortbench", "loop", model, *self._target, *_HALF, *generate, *once),
                (lambda left: checks.loop(left.title, left.data),),
                100.0 if self._scale.runs is None else 20.0,
            ),
            Step(f"step-{LLAMA}", f"one step of {LLAMA} behind {past} tokens", alone, (_outputs,), 4 * _START_S),
            Step(
                f"step-{LLAMA}-cuda-graph",
                f"one step of {LLAMA} behind {past} tokens as a CUDA graph",
                (*alone[:-1], f"step-{LLAMA}-cuda-graph", "--cuda-graph"),
                (lambda left: checks.graph(left.title, left.data),),
                4 * _START_S,
                refusals=_NO_GRAPHS,
            ),
        ]

    def _measurements(self) -> list[Step]:
        """ortbench's figures beside those of CUPTI, cudaMemcpy and of runs that are waited for once."""
        seconds, batch = self._scale.direct_s, f"batch={self._scale.batches.rpartition(',')[2]}"
        launches = [
            self._direct(
                f"launch-{model}",
                f"a resident inference against CUPTI's kernels and their launch, {model}",
                ("launch", f"models/{model}.onnx", *self._direct_target, f"{seconds / 2:g}", dims),
                lambda left: checks.launch(left.title, left.data),
                2 * _START_S + seconds / 2,
                modules=("cupti",),
                refusals=("CUPTI refuses",),
            )
            for model, dims in ((COPY, ""), (BATCHED, batch))
        ]
        memcpy = self._direct(
            "memcpy",
            "copies against cudaMemcpy of the same sizes",
            ("memcpy", *self._direct_target, f"{seconds:g}", self._scale.memcpy),
            lambda left: checks.plain_copies(left.title, left.data),
            _START_S + seconds * 1.5,
        )
        fence = self._direct(
            "fence",
            "the fence holds: N runs with one readback take N times the median",
            ("fence", f"models/{IMAGE}.onnx", *self._direct_target, f"{seconds / 2:g}"),
            lambda left: checks.fence(left.title, left.data),
            2 * _START_S + seconds / 2,
            refusals=("computes in host memory",),
        )
        return [*([*launches, memcpy] if self._ep == "cuda" else []), fence]

    def _direct(self, name: str, title: str, words: Sequence[str], show: Show, planned_s: float, **more: Any) -> Step:
        """A measurement of `tests.gpu.direct`."""
        line = ("tests.gpu.direct", *words, f"{name}/figures.json")
        return Step(name, title, line, (show,), planned_s, "figures.json", **more)

    def _curve(self) -> Step:
        line = ("ortbench", "bandwidth", *self._target, *self._scale.curve, "--out", "bandwidth")
        shows = (lambda left: checks.bandwidth(left.title, left.data),)
        refusals = ("bandwidth is unsupported: ",)
        return Step("bandwidth", "copy bandwidth over sizes", line, shows, 18.0, "bandwidth.json", refusals)

    def _start(self) -> Step:
        line = ("ortbench", "start", f"models/{IMAGE}.onnx", *self._inputs(IMAGE), *self._target)
        more = ("--duration", f"{self._scale.start_s:g}", "--out", "start")
        planned = 2 * _START_S + self._scale.start_s
        return Step("start", f"ortbench start, {IMAGE}: outputs equal", (*line, *more), (_outputs,), planned)

    def _why(self) -> Step:
        models = ("--model", f"models/{SLOWER}.onnx", "--baseline-model", f"models/{IMAGE}.onnx")
        # The nodes take 5 % on an H100, where workers differ more.
        loop = ("--mode", RESIDENT, "--duration", f"{self._scale.gate_s:g}", "--max-regression", "1%", "--out", "why")
        return Step(
            "why",
            f"ortbench gate: finds the nodes that make {SLOWER} slower",
            ("ortbench", "gate", *models, *self._target, *loop),
            (lambda left: checks.why(left.title, left.data),),
            4 * _START_S + 3 * self._scale.gate_s,
            "gate.json",
            modules=("scipy",),
            codes=(0, REGRESSION),  # it is to fail
        )

    def _stream(self) -> Step:
        return self._run(
            "stream-cuda-python",
            COPY,
            "--stream cuda-python: kernels on a stream of the user's, outputs equal",
            (lambda left: checks.stream(left.title, left.data, "cuda-python"),),
            (DEVICE, RESIDENT),
            ("--stream", "cuda-python"),
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

    def _kernels(self) -> Step:
        """Which node launches which kernels."""
        title = "--measure-nodes --measure-copies: the node of each kernel"
        shows = (lambda left: checks.kernels(left.title, left.data),)
        return self._run("kernels", TRANSFORMER, title, shows, (CPU, RESIDENT), ("--measure-nodes", "--measure-copies"))

    def _costs(self) -> Step:
        """What a mode costs besides time."""
        return self._run(
            "costs",
            IMAGE,
            "--measure-memory: what each mode holds",
            (
                lambda left: checks.memory(left.title, left.data),
                lambda left: checks.drawn("--measure-energy: what a run draws", left.data),
            ),
            (CPU, RESIDENT),
            ("--measure-memory", "--measure-energy"),
            more_s=20.0,
        )

    def _engines(self, ep: str) -> list[Step]:
        """An engine is built, and then taken from the cache."""
        options, target = ("--engine-cache", f"models/engines-{ep}"), ("--ep", ep)
        return [
            self._run(
                name, IMAGE, f"--ep {ep}: {title}", (_engine_show(is_warm),), (RESIDENT,), options, target, more_s, refusals=_ABSENT
            )
            for name, title, is_warm, more_s in (
                (f"{ep}-cold", "engine built", False, 60.0),
                (f"{ep}-warm", "engine from the cache", True, 0.0),
            )
        ]  # fmt: skip

    def _amount(self, seconds: float, answer_s: float = _ANSWER_S) -> tuple[str, ...]:
        """How much of each mode is measured."""
        runs = self._scale.runs
        amount = ("--duration", f"{seconds:g}") if runs is None else ("--iterations", str(runs), "--warmup", "2")
        return (*amount, "--timeout", f"{answer_s:g}")

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
        more_s: float = 0.0,
        basic: bool = False,
        refusals: tuple[str, ...] = (),
    ) -> Step:
        """`ortbench run` of a model."""
        scale = self._scale
        seconds = (2 * scale.model_s if model == COPY else scale.model_s) if basic else scale.option_s
        wanted = tuple(word for mode in modes for word in ("--mode", mode))
        amount = self._amount(seconds, _FIRST_ANSWER_S if basic else _ANSWER_S + more_s)
        line = ("ortbench", "run", f"models/{model}.onnx", *self._inputs(model), *(target or self._target), *wanted)
        mode_s = seconds + (_LARGE_MODE_S if model == COPY else _MODE_S)
        planned = _START_S + (len(modes) or len(MODES)) * mode_s + more_s
        return Step(
            name, title, (*line, *options, *amount, "--out", name), shows, planned, refusals=refusals, basic=basic
        )


def planned_s(steps: Sequence[Step]) -> float:
    """How long all of them take, generously, in seconds, with the writing of the models."""
    models = _MODELS_S + (_DECODER_S if any(step.generates for step in steps) else 0)
    return models + sum(step.planned_s for step in steps)
