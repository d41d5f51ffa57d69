"""What the first run on a card left open, and which part of the run each step is in."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core.errors import REGRESSION
from ortbench.model.modes import CPU, MODES, RESIDENT
from tests.gpu import checks, further
from tests.gpu.steps import (
    ANSWER_S,
    BATCHED,
    COPY,
    GPT,
    IMAGE,
    LLAMA,
    MODE_S,
    SLOWER,
    START_S,
    TF32,
    TRANSFORMER,
    FirstPart,
    Show,
    Step,
)

_SWITCHED = BATCHED[0]  # calls that change its batch took 27 to 33 times as long on the first card
# What may end it, and settings that are worth a search, as they are typed; of the CUDA EP.
_REMEDIES = {
    "search": ("cudnn_conv_algo_search=HEURISTIC",),
    "arena": ("arena_extend_strategy=kSameAsRequested",),
    "workspace": ("cudnn_conv_use_max_workspace=0",),
}
_TUNE_S = 90.0
_TUNED = {
    "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
    "use_tf32": ("1", "0"),
    "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
    "prefer_nhwc": ("0", "1"),
    "cudnn_conv_use_max_workspace": ("1", "0"),
}
# What makes a start on the card slower or faster: options, and what is set for the process.
_STARTS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "start": ((), {}),
    "start-heuristic": (("--ep-option", "cudnn_conv_algo_search=HEURISTIC"), {}),
    "start-no-jit-cache": ((), {"CUDA_CACHE_DISABLE": "1"}),
    "start-eager": ((), {"CUDA_MODULE_LOADING": "EAGER"}),
}
# What one command of nine minutes is best spent on, and what takes long and is worth less.
_FIRST = (
    COPY, f"profile-{IMAGE}", f"profile-{COPY}", IMAGE, TRANSFORMER, *(f"{model}{graph}" for model in BATCHED for graph in ("", "-graph")),
    f"generate-{LLAMA}", f"step-{LLAMA}", f"step-{LLAMA}-cuda-graph", "report", f"launch-{COPY}", f"launch-{BATCHED[1]}", "memcpy",
    "fence-and-loop", "devices",
)  # fmt: skip
_TWICE = tuple(f"{which}-{name}" for name in (IMAGE, TRANSFORMER, COPY, "load") for which in ("once", "again"))
_LAST = (f"generate-{GPT}", f"step-{GPT}", f"step-{GPT}-cuda-graph", "genai", "webgpu", "soak", *_TWICE, "tune")
_DECODED = ("--rtol", "5e-2", "--atol", "5e-2")  # half precision, whose kernels differ with the length of the cache
_REFUSES_GRAPHS = ("--cuda-graph: ", "cannot use the graph capture feature")


class Steps(FirstPart):
    """Makes all steps for one EP."""

    def parts(self) -> dict[str, list[Step]]:
        """Every step, by the part of the run that it is in, in the order of what it is worth a minute."""
        made = [
            *self._validations(), *self._switches(), *self._starts(), self._why(), *self.first(), *self._profiles(), *self._batches(), *self._decoders(),
            *self._tuned(), self._soak(), *self._webgpu(), *self._twice(),
        ]  # fmt: skip
        named = {step.name: step for step in made}
        first, last = ([named.pop(name) for name in names if name in named] for names in (_FIRST, _LAST))
        return {"1": first, "2": list(named.values()), "3": last}

    def all(self) -> list[Step]:
        """The steps of all parts."""
        return [step for part in self.parts().values() for step in part]

    def _validations(self) -> list[Step]:
        """ONNX Runtime's bug, and ortbench's figures beside those of plain programs and CUPTI."""
        scale, ep = self._scale, (self._ep, self._library or "-")
        clients = ("threads", f"models/{self._real}.onnx", f"models/{self._real}", *ep, f"{scale.direct_s:g}", "4")
        plain = self._direct(
            "threads",
            "ortbench load against plain threads that call session.run, 4 clients in one session",
            clients,
            (lambda left: further.plain_threads(left.title, left.data, scale.runs is None),),
            3 * START_S + scale.direct_s,
        )
        if self._ep != "cuda":
            return [plain]
        return [
            self._direct(
                "report",
                "reports/host-accessible-outputs.md: ONNX Runtime refuses HOST_ACCESSIBLE outputs",
                ("report",),
                (lambda left: further.reported(left.title, left.data),),
                START_S,
            ),
            self._direct(
                "memcpy",
                "copies against cudaMemcpy of the same sizes",
                ("memcpy", *ep, f"{scale.direct_s:g}", scale.memcpy),
                (lambda left: further.plain_copies(left.title, left.data),),
                START_S + scale.direct_s * 1.5,
            ),
            *(
                self._direct(
                    f"launch-{model}",
                    f"a resident inference against CUPTI's kernels and their launch, {model}",
                    ("launch", f"models/{model}.onnx", *ep, f"{scale.direct_s / 2:g}", dims),
                    (lambda left: further.launch(left.title, left.data),),
                    2 * START_S + scale.direct_s / 2,
                    modules=("cupti",),
                    refusals=("CUPTI refuses",),
                )
                for model, dims in ((COPY, ""), (BATCHED[1], f"batch={scale.batches.rpartition(',')[2]}"))
            ),
            plain,
        ]

    def _direct(
        self,
        name: str,
        title: str,
        words: Sequence[str],
        shows: tuple[Show, ...],
        planned_s: float,
        modules: tuple[str, ...] = (),
        refusals: tuple[str, ...] = (),
    ) -> Step:
        """A measurement of `tests.gpu.direct`."""
        line = ("tests.gpu.direct", *words, f"{name}/figures.json")
        return Step(name, title, line, "figures.json", shows, planned_s, refusals, modules=modules)

    def _profiles(self) -> list[Step]:
        """Nsight's sums by range beside ours, of a model with much to compute and of one with much to copy."""
        return [
            Step(
                f"profile-{model}",
                f"ortbench profile: under Nsight Systems, {model}",
                (
                    "ortbench", "profile", f"models/{model}.onnx", *self._target, *self._inputs(model), "--out", f"profile-{model}",
                ),
                "profile.json",
                (lambda left: checks.profile(left.title, left.data, left.streamed),),
                8 * START_S,
                programs=("nsys",),
            )
            for model in (IMAGE, COPY)
        ]  # fmt: skip

    def _batches(self) -> list[Step]:
        """Real models at several batches in all modes: what pageable, pinned and zero-copy memory, a pipeline and a graph bring."""
        seconds, shapes = self._scale.option_s, self._scale.batches.count(",") + 1
        amount = (*self._amount(seconds), "--timeout", f"{ANSWER_S:g}")
        return [
            Step(
                f"{model}{'-graph' if graph else ''}",
                f"{model} at batches {self._scale.batches}{' as a CUDA graph' if graph else ''}: outputs equal",
                (
                    "ortbench", "sweep", f"models/{model}.onnx", *self._target, "--dim", f"batch={self._scale.batches}",
                    *TF32, *(("--cuda-graph", "--mode", RESIDENT) if graph else ("--mode", "all")), *amount,
                    "--out", f"{model}{'-graph' if graph else ''}",
                ),
                "result.json",
                (lambda left: further.shapes(left.title, left.data), lambda left: further.by_batch(left.title, left.data)),
                START_S + shapes * (1 if graph else len(MODES)) * (seconds + MODE_S),
                refusals=_REFUSES_GRAPHS if graph else (),
            )
            for model in BATCHED
            for graph in (False, True)
        ]  # fmt: skip

    def _starts(self) -> list[Step]:
        """Fresh processes: as they are, without cuDNN's search, without CUDA's cache of compiled kernels, all kernels loaded at once."""
        line = ("ortbench", "start", f"models/{self._real}.onnx", *self._inputs(self._real), *self._target)
        duration = ("--duration", f"{self._scale.start_s:g}")
        return [
            Step(
                name,
                f"ortbench start: {' '.join([*given[1:], *(f'{key}={it}' for key, it in environ.items())]) or 'default options'}, {self._real}",
                (*line, *given, *duration, "--out", name),
                "result.json",
                (lambda left: further.starts(left.title, left.data, left.results.get("start")),),
                2 * START_S + self._scale.start_s,
                environ=environ,
            )
            for name, (given, environ) in _STARTS.items()
            if self._ep == "cuda" or name == "start"
        ]

    def _twice(self) -> list[Step]:
        """Commands that users type first, and the same once more: what the first says of the second."""
        amount = () if self._scale.runs is None else self._amount(0)
        plain = {
            model: ("run", f"models/{model}.onnx", *self._inputs(model), *self._target, *amount)
            for model in (IMAGE, TRANSFORMER, COPY)
        }
        clients = (
            "--mode",
            RESIDENT,
            "--concurrency",
            "1,2,4",
            *(() if self._scale.runs is None else ("--duration", "0.3")),
        )
        lines = {**plain, "load": ("load", f"models/{IMAGE}.onnx", *self._inputs(IMAGE), *self._target, *clients)}
        return [
            Step(
                f"{which}-{name}",
                f"{name} {'once more' if which == 'again' else 'as users type it'}: intervals have a value in common",
                ("ortbench", *line, "--out", f"{which}-{name}"),
                "result.json",
                (
                    lambda left: further.again(
                        left.title, left.data, left.results.get(f"once-{left.name.partition('-')[2]}")
                    ),
                ),
                25.0,
            )
            for name, line in lines.items()
            for which in ("once", "again")
        ]

    def _why(self) -> Step:
        models = ("--model", f"models/{SLOWER}.onnx", "--baseline-model", f"models/{IMAGE}.onnx")
        loop = (
            "--mode",
            RESIDENT,
            "--duration",
            f"{self._scale.gate_s:g}",
            "--max-regression",
            "1%",
        )  # it is 5 % on an H100, where workers differ more
        return Step(
            "why",
            f"ortbench gate: finds the nodes that make {SLOWER} slower",
            ("ortbench", "gate", *models, *self._target, *loop, "--out", "why"),
            "gate.json",
            (lambda left: further.why(left.title, left.data),),
            4 * START_S + 3 * self._scale.gate_s,
            modules=("scipy",),
            codes=(0, REGRESSION),  # it is to fail
        )

    def _switches(self) -> list[Step]:
        """What a change of shapes costs with each option that may make it cheaper."""
        modes = ("--mode", CPU, "--mode", RESIDENT)
        line = (
            "ortbench",
            "sweep",
            f"models/{_SWITCHED}.onnx",
            *self._target,
            *modes,
            "--dim",
            f"batch={self._scale.batches}",
        )
        options = {
            "switching": (),
            **({f"switching-{name}": it for name, it in _REMEDIES.items()} if self._ep == "cuda" else {}),
        }
        return [
            Step(
                name,
                f"what a change of shapes costs, {' '.join(given) or 'default options'}",
                (
                    *line, *(word for it in given for word in ("--ep-option", it)), "--duration", f"{self._scale.option_s:g}",
                    "--timeout", f"{ANSWER_S:g}", "--out", name,
                ),
                "result.json",
                (lambda left: further.switching(left.title, left.data),),
                3 * START_S + 6 * self._scale.option_s,
            )
            for name, given in options.items()
        ]  # fmt: skip

    def _decoders(self) -> list[Step]:
        """Two decoders that generate in all modes, one step of each as a CUDA graph, and onnxruntime-genai on one of their folders."""
        prompt, tokens = self._scale.generated
        made = (
            "--prompt-length",
            prompt,
            "--generate",
            tokens,
            "--timeout",
            "120",
            "--duration",
            f"{self._scale.option_s * 3:g}",
        )
        past = str(int(prompt) + int(tokens) - 1)
        dims = ("batch=1", "sequence=1", f"past_length={past}", f"total_length={int(past) + 1}")
        one = (
            *(word for it in dims for word in ("--dim", it)),
            "--mode",
            RESIDENT,
            *self._amount(self._scale.option_s),
        )
        found = []
        # Modes whose state is in host memory would take minutes more of the larger cache, in single precision.
        for name, modes, tolerances in (
            (LLAMA, ("default", "shared"), _DECODED),
            (GPT, (CPU, RESIDENT), TF32),
        ):  # fmt: skip
            wanted = tuple(word for mode in modes for word in ("--mode", mode))
            run = (
                "ortbench",
                "run",
                f"models/{name}/model.onnx",
                *self._target,
                *tolerances,
                *one,
            )
            found += [
                Step(
                    f"generate-{name}",
                    f"ortbench loop: {name} generates, {prompt} tokens of prompt and {tokens} more",
                    (
                        "ortbench",
                        "loop",
                        f"models/{name}",
                        *self._target,
                        *wanted,
                        *tolerances,
                        *made,
                        "--out",
                        f"generate-{name}",
                    ),
                    "result.json",
                    (
                        lambda left: checks.loop(left.title, left.data),
                        lambda left: further.generated(f"{left.name}: tokens/s", left.data),
                    ),
                    self._scale.generate_s,
                ),
                *(
                    Step(
                        f"step-{name}{more[1:]}",
                        f"one step of {name} behind {past} tokens{' as a CUDA graph' if more else ''}",
                        (*run, *((more,) if more else ()), "--out", f"step-{name}{more[1:]}"),
                        "result.json",
                        (
                            (
                                lambda left: checks.graph(
                                    left.title, left.data, left.results.get(left.name.removesuffix("-cuda-graph"))
                                )
                            )
                            if more
                            else (lambda left: checks.outputs(left.title, left.data)),
                        ),
                        4 * START_S,
                        refusals=_REFUSES_GRAPHS if more else (),
                    )
                    for more in ("", "--cuda-graph")
                ),
            ]
        if self._ep in ("cuda", "cpu"):
            found.insert(
                3,
                self._direct(
                    "genai",
                    f"onnxruntime-genai on the same folder, {LLAMA}",
                    ("genai", f"models/{LLAMA}", self._ep, prompt, tokens),
                    (lambda left: further.genai(left.title, left.data, left.results.get(f"generate-{LLAMA}")),),
                    15.0,
                    modules=("onnxruntime_genai",),
                    refusals=("Cuda interface not available",),
                ),
            )
        return found

    def _soak(self) -> Step:
        """Device memory over thousands of inferences whose shapes change."""
        scale = self._scale
        batches, lengths = scale.soaked_shapes
        model = (
            TRANSFORMER if scale.runs is None or self._ep != "cuda" else COPY
        )  # which the software CUDA runtime can do
        shapes = ("--dim", f"batch={batches}", "--dim", f"sequence={lengths}") if model == TRANSFORMER else ()
        line = ("ortbench", "soak", f"models/{model}.onnx", *self._target, *shapes, "--mode", CPU)
        return Step(
            "soak",
            f"ortbench soak: memory over {scale.soaked:,} inferences of mixed shapes, {model}",
            (*line, "--iterations", str(scale.soaked), "--timeout", "120", "--out", "soak"),
            "result.json",
            (lambda left: further.soaked(left.title, left.data, scale.soaked),),
            scale.soak_s,
        )

    def _webgpu(self) -> list[Step]:
        """The clock of the card while WebGPU's kernels run, which were slow on the first one."""
        line = (
            "ortbench",
            "run",
            f"models/{IMAGE}.onnx",
            *self._inputs(IMAGE),
            *TF32,
            "--ep",
            "webgpu",
            "--mode",
            CPU,
            "--mode",
            RESIDENT,
        )
        return (
            [
                Step(
                    "webgpu",
                    f"--ep webgpu, {IMAGE}: outputs equal",
                    (*line, *self._amount(self._scale.option_s * 4), "--timeout", f"{ANSWER_S:g}", "--out", "webgpu"),
                    "result.json",
                    (
                        lambda left: checks.outputs(left.title, left.data),
                        lambda left: checks.gpu_state(left.data, "--ep webgpu: clocks in its blocks"),
                    ),
                    4 * START_S + self._scale.option_s * 8,
                    refusals=("finds no device",),
                    modules=("onnxruntime_ep_webgpu",),
                )
            ]
            if self._ep == "cuda"
            else []
        )

    def _tuned(self) -> list[Step]:
        """The settings that are best, of those that the CUDA EP has for convolutions and matrix products."""
        if self._ep != "cuda":
            return []
        options = (f"{key}={value}" for key, values in _TUNED.items() for value in values)
        line = (
            "ortbench",
            "tune",
            f"models/{IMAGE}.onnx",
            *self._inputs(IMAGE),
            *TF32,
            *self._target,
            "--mode",
            RESIDENT,
        )
        line += (
            *(word for it in options for word in ("--ep-option", it)),
            "--intra-op-threads",
            "1",
            "--opt-level",
            "all",
        )
        line += ("--max-time", f"{_TUNE_S:g}s", "--duration", "1", "--out", "tune")
        return [
            Step(
                "tune",
                f"ortbench tune: the best options of the EP, {IMAGE}",
                line,
                "tune.json",
                (lambda left: further.tuned(left.title, left.data),),
                4 * START_S + _TUNE_S,
                modules=("scipy",),
            )
        ]
