"""The commands of the run, in the order of their weight: how long each may take, and what it must show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ortbench.model.modes import CPU, DEVICE, DEVICE_PINNED, MODES, RESIDENT, modes_that
from tests.gpu import checks
from tests.gpu.checks import Check, Result

COPY = "copy_4k"
BATCHED = "resnet50_batch"  # whose batch is a symbolic dimension
LLAMA = "llama"  # the folder of a decoder that generates

# The EPs that NVIDIA's CUPTI sees, as they are typed.
NVIDIA_EPS = ("cuda", "tensorrt", "nv-tensorrt-rtx")
ENGINE_EPS = ("tensorrt", "nv-tensorrt-rtx")
_ABSENT = ("is not installed", " is missing", "finds no device", "Please install TensorRT libraries")
_NO_STREAM = ("--stream: ", "has no EP device here", "the package cuda-python does not load")
_NO_GRAPHS = ("--cuda-graph: ", "cannot use the graph capture feature")

# CUDA's matrix products are in TF32 unless that is switched off. Of the outputs here, which are of size 1, that is some
# 0.001 off (emulated).
TF32 = "--rtol 1e-2 --atol 5e-3"
_HALF = "--rtol 5e-2 --atol 5e-2"  # half precision, whose kernels differ with the length of the cache

# What a command costs besides what it measures, in seconds, generously: Python, ONNX Runtime, the EP and the model;
# setting one mode up, which for 100 MB each way is mostly comparing.
_START_S, _MODE_S, _LARGE_MODE_S = 2.5, 1.0, 2.0
_MODELS_S, _DECODER_S = 10.0, 25.0
# The longest answer of a worker, so that a mode that hangs does not cost the others: of the first step, which may load
# gigabytes of libraries from a cold disk, and of the others.
_FIRST_ANSWER_S, _ANSWER_S = 90.0, 40.0

Show = Callable[[str, Result], Check]


@dataclass(frozen=True)
class Step:
    """One command.

    Attributes:
        name: of it, and of the folder that it fills.
        line: what follows ``python -m``; paths are relative to the folder of the whole run.
        shows: the checks of what it left, by what each shows.
        planned_s: how long it takes, generously.
        leaves: its main file, which is JSON, in its folder.
        refusals: what ortbench's last line has in it where the machine or the EP cannot do this. Anything else that leaves no file
            has failed.
        modules, programs: that must be installed.
        basic: that the EP works at all; without it the others are not tried.
    """

    name: str
    line: tuple[str, ...]
    shows: Mapping[str, Show]
    planned_s: float
    leaves: str = "result.json"
    refusals: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    basic: bool = False

    @property
    def title(self) -> str:
        """The first thing that it shows."""
        return next(iter(self.shows))

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
    """How much is measured: seconds of a mode of the first model, and of one that tries an option, or so many runs of either; seconds of
    what no command measures; and sizes."""

    model_s: float = 5.0
    option_s: float = 0.7
    runs: int | None = None
    direct_s: float = 12.0
    batches: str = "1,8,64"
    memcpy: str = "1000000,16000000,256000000"
    generated: tuple[int, int] = (512, 256)  # tokens of the prompt, and behind it


FULL = Scale()
QUICK = Scale(runs=8, option_s=0.3, direct_s=2.0, batches="1,2", memcpy="65536,1000000", generated=(8, 6))


_COPIES: dict[str, Show] = {
    f"{COPY}: outputs equal in all modes": checks.outputs,
    "host-accessible: zero-copy proved, or the reason": checks.zero_copy,
    "CUPTI's copies against h2d and d2h of device-tensors-pinned": partial(checks.cupti_phases, mode=DEVICE_PINNED),
    "CUPTI's copies against h2d and d2h of device-tensors": partial(checks.cupti_phases, mode=DEVICE),
    "cpu-tensors less device-resident agrees with copies in device-tensors, and CUPTI's are no longer": checks.derived_copies,
    "NVML before, during and after: clocks, temperature, power, throttle reasons": checks.gpu_state,
}
_COSTS: dict[str, Show] = {
    "--measure-memory: what each mode holds": checks.memory,
    "--measure-energy: what a run draws": checks.drawn,
}


class Steps:
    """Makes the steps for one EP, as it is typed, or for the library of a plugin EP that is no package."""

    def __init__(self, ep: str, library: str | None, scale: Scale) -> None:
        self._ep, self._scale, self._cupti = ep, scale, library is None and ep in NVIDIA_EPS
        # What words of commands stand for.
        target = ("--ep", ep) if library is None else ("--ep-library", library)
        self._words = {"TARGET": target, "DEVICE": (ep, library or "-")}

    def parts(self) -> dict[str, list[Step]]:
        """Every step, by the part of the run that it is in, in the order of what it is worth a minute."""
        return {"1": [*self._models(), *self._measurements()], "2": [*self._options(), *self._engines()]}

    def _step(self, name: str, text: str, shows: Mapping[str, Show], planned_s: float, **more: Any) -> Step:
        """A step of a command, which writes into the step's folder."""
        line = [word for it in text.split() for word in self._words.get(it, (it,))]
        line += ["--out", name] if line[0] == "ortbench" else [f"{name}/figures.json"]
        return Step(name, tuple(line), shows, planned_s, **more)

    def _models(self) -> Iterator[Step]:
        """A model that mostly copies, and a real one at several batches, in all modes; a decoder that generates; CUDA graphs."""
        scale, amount, copies = self._scale, self._amount(), "--measure-copies" if self._cupti else ""
        shows: dict[str, Show]
        line = f"ortbench run models/{COPY}.onnx --input models/{COPY} TARGET --mode all --depth 3 {copies}"
        planned = _START_S + len(MODES) * (scale.model_s + _LARGE_MODE_S)
        yield self._step(COPY, f"{line} {self._amount(scale.model_s, _FIRST_ANSWER_S)}", _COPIES, planned, basic=True)
        for model, dim in ((BATCHED, "--dim batch=1"), (COPY, "")):
            shows = {f"ortbench profile: under Nsight Systems, {model}": checks.profile}
            line = f"ortbench profile models/{model}.onnx TARGET {dim} {TF32}"
            planned = 8 * _START_S
            yield self._step(f"profile-{model}", line, shows, planned, leaves="profile.json", programs=("nsys",))
        line = f"ortbench sweep models/{BATCHED}.onnx TARGET --dim batch={scale.batches} {TF32} {amount}"
        each_s = scale.option_s + _MODE_S
        title, cases = f"{BATCHED} at batches {scale.batches}", scale.batches.count(",") + 1
        planned = _START_S + cases * len(MODES) * each_s
        yield self._step(BATCHED, f"{line} --mode all", {f"{title}: outputs equal": checks.outputs}, planned)
        shows, graph = {f"{title} as a CUDA graph: outputs equal": checks.graph}, f"--cuda-graph --mode {RESIDENT}"
        yield self._step(f"{BATCHED}-graph", f"{line} {graph}", shows, _START_S + cases * each_s, refusals=_NO_GRAPHS)
        prompt, tokens = scale.generated
        past = prompt + tokens - 1
        line = f"ortbench loop models/{LLAMA} TARGET {_HALF} --mode default --mode shared --prompt-length {prompt} --generate {tokens}"
        shows = {
            f"ortbench loop: {tokens} tokens after {prompt} by {LLAMA}, the state stays on the device": checks.loop
        }
        planned = 100.0 if scale.runs is None else 20.0
        yield self._step(f"generate-{LLAMA}", f"{line} --duration {scale.option_s * 3:g} --timeout 120", shows, planned)
        line = f"ortbench run models/{LLAMA}/model.onnx TARGET {_HALF} {graph} {amount} --dim batch=1 --dim sequence=1"
        line += f" --dim past_length={past} --dim total_length={past + 1}"
        shows = {f"one step of {LLAMA} behind {past} tokens as a CUDA graph": checks.graph}
        yield self._step(f"step-{LLAMA}-cuda-graph", line, shows, 4 * _START_S, refusals=_NO_GRAPHS)

    def _measurements(self) -> Iterator[Step]:
        """Those of `tests.gpu.direct`: ortbench's figures beside CUPTI's, cudaMemcpy's and runs that are waited for once."""
        seconds, batch = self._scale.direct_s, f"batch={self._scale.batches.rpartition(',')[2]}"
        planned, figures = 2 * _START_S + seconds / 2, {"leaves": "figures.json"}
        for model, dims in ((COPY, "-"), (BATCHED, batch)) if self._ep == "cuda" else ():
            line = f"tests.gpu.direct launch models/{model}.onnx DEVICE {seconds / 2:g} {dims}"
            shows = {f"a resident inference against CUPTI's kernels and their launch, {model}": checks.launch}
            cupti: dict[str, Any] = {"modules": ("cupti",), "refusals": ("CUPTI refuses",)}
            yield self._step(f"launch-{model}", line, shows, planned, **cupti, **figures)
        if self._ep == "cuda":
            line = f"tests.gpu.direct memcpy DEVICE {seconds:g} {self._scale.memcpy}"
            shows = {"copies against cudaMemcpy of the same sizes": checks.plain_copies}
            yield self._step("memcpy", line, shows, _START_S + seconds * 1.5, **figures)
        line = f"tests.gpu.direct fence models/{BATCHED}.onnx DEVICE {seconds / 2:g} batch=1"
        shows = {"the fence holds: N runs with one readback take N times the median": checks.fence}
        yield self._step("fence", line, shows, planned, refusals=("computes in host memory",), **figures)

    def _options(self) -> Iterator[Step]:
        """Streams and memory of others, what a mode costs besides time, and which node launches which kernels."""
        copies, image = f"models/{COPY}.onnx --input models/{COPY}", f"models/{BATCHED}.onnx --dim batch=8 {TF32}"
        stream = partial(checks.stream, kind="cuda-python")
        shows: dict[str, Show] = {"--stream cuda-python: a stream of the user's, outputs equal": stream}
        line, modes = f"{copies} --stream cuda-python", modes_that(lambda mode: mode.name in (DEVICE, RESIDENT))
        yield self._option("stream-cuda-python", line, shows, modes, refusals=_NO_STREAM)
        modes = modes_that(lambda mode: mode.external_inputs)
        for library in ("torch", "cupy"):
            shows = {f"--input-memory {library}: its memory is read in place, outputs equal": checks.external}
            line, refusal = (
                f"{copies} --input-memory {library}",
                f"--input-memory {library}: it cannot be imported here",
            )
            yield self._option(f"external-{library}", line, shows, modes, refusals=(refusal,))
        yield self._option("costs", f"{image} --measure-memory --measure-energy", _COSTS, (CPU, RESIDENT), 20.0)
        shows = {"--measure-nodes --measure-copies: the node of each kernel": checks.kernels}
        if self._cupti:
            yield self._option("kernels", f"{image} --measure-nodes --measure-copies", shows, (CPU, RESIDENT))

    def _engines(self) -> Iterator[Step]:
        """An engine is built, and then taken from the cache."""
        for ep in ENGINE_EPS:
            for name, title, more_s in (("cold", "engine built", 60.0), ("warm", "engine from the cache", 0.0)):
                shows = {f"--ep {ep}: {title}": partial(checks.engine, warm=name == "warm")}
                line = f"models/{BATCHED}.onnx --dim batch=8 {TF32} --engine-cache models/engines-{ep} --ep {ep}"
                yield self._option(f"{ep}-{name}", line, shows, (RESIDENT,), more_s, _ABSENT, target="")

    def _option(
        self, name: str, text: str, shows: Mapping[str, Show], modes: Sequence[str], more_s: float = 0.0,
        refusals: tuple[str, ...] = (), target: str = "TARGET",
    ) -> Step:  # fmt: skip
        """`ortbench run` of some modes with an option."""
        amount = self._amount(answer_s=_ANSWER_S + more_s)
        line = f"ortbench run {text} {target} {' '.join(f'--mode {mode}' for mode in modes)} {amount}"
        planned = _START_S + len(modes) * (self._scale.option_s + _LARGE_MODE_S) + more_s
        return self._step(name, line, shows, planned, refusals=refusals)

    def _amount(self, seconds: float | None = None, answer_s: float = _ANSWER_S) -> str:
        """How much of each mode is measured."""
        amount = f"--duration {seconds or self._scale.option_s:g}"
        if self._scale.runs is not None:
            amount = f"--iterations {self._scale.runs} --warmup 2"
        return f"{amount} --timeout {answer_s:g}"


def planned_s(steps: Sequence[Step]) -> float:
    """How long all of them take, generously, in seconds, with the writing of the models."""
    models = _MODELS_S + (_DECODER_S if any(step.generates for step in steps) else 0)
    return models + sum(step.planned_s for step in steps)
