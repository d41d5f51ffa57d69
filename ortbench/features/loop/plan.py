"""What a loop is asked to do: which outputs are fed back as inputs, for how many steps, and what the other inputs are; and the decoder in
a folder, with what the folder says of it: onnxruntime-genai's ``genai_config.json``, or Optimum's layout."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ortbench.core.errors import BadInput
from ortbench.core.expressions import INDEX, names_in
from ortbench.core.files import check_readable, is_folder
from ortbench.core.parts import typed_value
from ortbench.model.modes import LOOP_MODES, MODES, SHARED, Mode, Part, Work
from ortbench.model.settings import WHOLES
from ortbench.plan.option_types import DIMS, PAIRINGS, PAIRS, PATH, TEXTS, WHOLE
from ortbench.plan.options import LOOP, RawOptions, at_least, build, declared_options, exists, option

if TYPE_CHECKING:
    from ortbench.plan.plan import Plan

LOOPS = ("loops",)  # the commands that can measure one
_MOST_STEPS, _MOST_TOKENS = 1_000_000, 100_000_000  # each step has samples of its own
_steps = partial(option, panel=LOOP, commands=LOOPS, is_live_only=True)


def _fill(entries: dict[str, str], option: str) -> None:
    for name, text in entries.items():
        if names_in(text) is None:
            reason = f"{text!r} is neither a number nor a sum of numbers, dimensions, step and {INDEX}"
            raise BadInput(f"{option} {name}={text}: {reason}", option)


_generating = partial(_steps, common=("loop",), is_in_suites=False)


@dataclass(frozen=True)
class Decoder:
    """What is known of a model that generates before it is loaded; its own names say the rest."""

    said_by: str = ""  # the file that says so; "" for none
    feedback: tuple[tuple[str, str], ...] = ()  # as of `Steps`, where the file has some
    names: dict[str, str] = field(default_factory=dict)  # of its inputs and of its logits, by what they are
    context: int | None = None  # how many tokens it can hold
    shared: bool = False  # its cache has a fixed length, so that past and present can be one buffer
    heads: int | None = None  # of its keys and values
    head_size: int | None = None
    # the EPs that it asks for, as `Target.ep` names them, with their options
    providers: tuple[tuple[str, dict[str, str]], ...] = ()


@dataclass(frozen=True)
class Steps(Part):
    """A loop; `decoder` is what is known of a model that generates, None of a loop that generates nothing. Its first step takes the
    prompt, and each gives a token."""

    feedback: tuple[tuple[str, str], ...] = _steps(
        "feedback", "OUT=IN", "Feed an output to an input of the next step; * matches in both.",
        kind=PAIRINGS, default=(), common=("loop",),
    )  # fmt: skip
    count: int = _steps(
        "steps", "N", "Run N steps in a loop.", kind=WHOLE, default=16, check=at_least(1, "a loop has at least one step"), most=_MOST_STEPS,
    )  # fmt: skip
    first_dims: dict[str, int | str] = _steps(
        "first-dim", "NAME=N", "Set the size of a dimension in the first step, as of a prompt.", kind=DIMS, default={}
    )
    fill: dict[str, str] = _steps(
        "fill", "INPUT=EXPR", f"Fill an input: a number, or a sum of dimensions, step and {INDEX}.", kind=PAIRS, default={},
        check=_fill,
    )  # fmt: skip
    keep: tuple[str, ...] = _steps(
        "keep",
        "OUT",
        "Leave an output on the device until the last step.",
        kind=TEXTS,
        default=(),
        is_in_baselines=True,
    )
    resident: tuple[str, ...] = _steps(
        "resident", "IN", "Copy an input to the device only once.", kind=TEXTS, default=(), is_in_baselines=True
    )

    prompt_length: int | None = _generating(
        "prompt-length", "N", "Set the prompt's length in tokens.", kind=WHOLE, shown="512, or all of --tokens",
        check=at_least(1, "a prompt has at least one token"), most=_MOST_TOKENS, lists=WHOLES._replace(example="64,512"),
    )  # fmt: skip
    generate: int = _generating(
        "generate", "N", "Generate N tokens after the prompt.", kind=WHOLE, default=64,
        check=at_least(2, "at least two tokens, so that one is generated from the cache"), most=_MOST_STEPS,
        lists=WHOLES._replace(example="64,256"),
    )  # fmt: skip
    context: int = _generating(
        "context", "N", "Fill the cache with N tokens before the prompt.", kind=WHOLE, default=0,
        check=at_least(0, "a cache holds no fewer than 0 tokens"), most=_MOST_TOKENS, lists=WHOLES._replace(example="0,2048"), common=(),
    )  # fmt: skip
    tokens: str | None = _generating(
        "tokens",
        "PATH",
        "Read token ids (.npy, .npz, .json): --context, the prompt, then forced tokens.",
        kind=PATH,
        check=exists,
        common=(),
    )
    decoder: Decoder | None = None

    known_modes = LOOP_MODES
    opened_by = "open_loop"
    takes_empty_dims = True

    @property
    def work(self) -> Work:
        from ortbench.features.loop.model import LoopWork  # newer than the oldest Python of a worker

        return LoopWork(self.count, tokens=self.decoder is not None)

    def request(self, model: str, target: dict[str, Any]) -> dict[str, Any]:
        return {**super().request(model, target), "steps": asdict(self)}

    def check(self, plan: Plan) -> None:
        target = plan.target
        for name, given in (
            ("--dynamic-outputs", target.dynamic_outputs),
            ("--input-memory", target.input_memory is not None),
            ("--cuda-graph", target.cuda_graph),
            ("--sequence-tensors", bool(plan.inputs.lengths)),
        ):
            if given:
                raise BadInput(f"{name}: is for single inferences, leave it out of a loop", name)

    def for_baseline(self, model: str, candidate: str, changes: Mapping[str, Any]) -> tuple[str, Part]:
        if self.decoder is not None and model != candidate:
            model, own = found_in(model)
            changes = {**changes, "decoder": replace(own, shared=self.decoder.shared)}
        return super().for_baseline(model, candidate, changes)


GENERATION = ("prompt-length", "generate", "context", "tokens")  # the options of a loop that generates
_ELSE = ("steps", "first-dim")  # those of one that does not

steps_from: Callable[[dict[str, Any]], Steps] = partial(typed_value, Steps)


def planner_of(model: str, given: RawOptions) -> tuple[Mapping[str, Mode], Callable[..., Plan]] | None:
    """The modes and the planner of a loop: something is fed back, or the model generates, which a folder does; refused are (`BadInput`)
    options of a loop without what makes it one."""
    if given.get("feedback") or os.path.isdir(model) or any(it in given for it in GENERATION):
        return LOOP_MODES, _loop_of
    stray = next((it.name for it in declared_options(Steps).values() if it.flag in given), None)
    return None if stray is None else (MODES, partial(_refuse, stray))


def _refuse(name: str, *_: Any) -> Plan:
    raise BadInput(f"{name} is for a loop: say what is fed back with --feedback OUT=IN", name)


def loop_of(model: str, given: RawOptions, command: tuple[str, ...] = (), needed: Collection[str] = ()) -> Plan:
    """The plan of `ortbench loop`, whose steps may be paced."""
    from ortbench.plan.plan_builder import with_pace  # which workers have no use for

    return with_pace(_loop_of(model, given, command, needed), given)


def _loop_of(model: str, given: RawOptions, command: tuple[str, ...] = (), needed: Collection[str] = ()) -> Plan:
    """The plan of a loop: of what is fed back, or of a model that generates, which may be a folder; see `plan_of`."""
    from ortbench.plan.plan_builder import modes_to_measure, plan_of

    file, decoder = found_in(model)
    asked = modes_to_measure(given, LOOP_MODES)
    shared = SHARED.name in asked
    if decoder.shared and "mode" not in given and not shared:
        needed = (*needed, SHARED.name)
    steps = _steps_of(given, replace(decoder, shared=shared or SHARED.name in needed))
    return plan_of(file, given, command, needed, LOOP_MODES, steps)


def _steps_of(given: RawOptions, decoder: Decoder) -> Steps:
    """What is fed back, else what the decoder generates; `BadInput`: options of the one beside the other."""
    if given.get("feedback") and not any(it in given for it in GENERATION):
        return build(Steps, given)
    for flag in _ELSE:
        if flag in given:
            instead = "give --feedback OUT=IN too; a model that generates takes --generate and --prompt-length"
            raise BadInput(f"--{flag}: {instead}", f"--{flag}")
    return build(
        Steps, given, decoder=decoder, count=given.get("generate", declared_options(Steps)["generate"].default)
    )


GENAI, OPTIMUM = "genai_config.json", "config.json"
_OPTIMUM_FILES = ("decoder_model_merged.onnx", "decoder_with_past_model.onnx", "model.onnx")
_NO_CACHE = "decoder_model.onnx"
_CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx")
_STAGES = {
    "encoder": "an encoder",
    "embedding": "an embedding model",
    "vision": "a vision model",
    "speech": "a speech model",
}
_EMBED = "embed_tokens.onnx"
_EPS = {"nvtensorrtrtx": "nv-tensorrt-rtx"}  # others are called alike but for capitals
_ROLES = {
    "input_ids": "ids", "attention_mask": "mask", "position_ids": "positions", "past_sequence_length": "past",
    "current_sequence_length": "total", "total_sequence_length": "total", "logits": "logits",
}  # fmt: skip


def found_in(path: str) -> tuple[str, Decoder]:
    """The decoder's file, and what is known of it before it is loaded; of a file nothing; `BadInput`: a folder without one, with
    other stages beside it, or whose description cannot be read."""
    folder = Path(path)
    if not is_folder(folder):
        return path, Decoder()
    check_readable(folder, folders=True)
    if (folder / GENAI).is_file():
        return _genai(folder)
    inside = next((it for it in (folder, folder / "onnx") if any(map(str, it.glob("*.onnx")))), folder)
    if (folder / OPTIMUM).is_file():
        return _optimum(folder, inside)
    models = sorted(map(str, inside.glob("*.onnx")))
    if len(models) != 1:
        there = f"{len(models)} models: name one of them" if models else "no .onnx file"
        raise BadInput(f"{path}: a folder without {GENAI} and {OPTIMUM}, and with {there}")
    return models[0], Decoder()


def _read(path: Path) -> dict[str, Any]:
    from ortbench.model import file_reading  # a model by itself need not wait for its msgspec

    found = file_reading.parse(file_reading.content_of(path), str(path))
    if not isinstance(found, dict):
        raise BadInput(f"{path} is no JSON object")
    return found


def _table(holder: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def _genai(folder: Path) -> tuple[str, Decoder]:
    config = _read(folder / GENAI)
    model = _table(config, "model")
    decoder = _table(model, "decoder")
    file = decoder.get("filename")
    if not isinstance(file, str) or decoder.get("pipeline"):
        raise BadInput(f"{folder / GENAI}: the decoder is not in one file; ortbench loop takes one model")
    ins, outs = _table(decoder, "inputs"), _table(decoder, "outputs")
    feedback = [
        (outs[present].replace("%d", "*"), past.replace("%d", "*"))
        for key, past in ins.items()
        if key.startswith("past") and isinstance(past, str) and "%d" in past
        if isinstance(outs.get(present := key.replace("past", "present", 1)), str)
    ]
    for stage, before in _STAGES.items():
        if _table(model, stage):
            _refuse_stages(folder / GENAI, before, folder / file, feedback)
    names = {role: name for key, role in _ROLES.items() if isinstance(name := {**ins, **outs}.get(key), str)}
    shared = _table(config, "search").get("past_present_share_buffer") is True
    heads = _whole(decoder, "num_key_value_heads"), _whole(decoder, "head_size")
    context = _whole(model, "context_length")
    return str(folder / file), Decoder(GENAI, tuple(feedback), names, context, shared, *heads, _providers(decoder))


def _providers(decoder: Mapping[str, Any]) -> tuple[tuple[str, dict[str, str]], ...]:
    """The EPs of ``session_options.provider_options``, the first one first, with their options."""
    listed = _table(decoder, "session_options").get("provider_options")
    named = [it for each in listed if isinstance(each, dict) for it in each.items()] if isinstance(listed, list) else []
    return tuple(
        (_EPS.get(ep.lower(), ep.lower()), {key: str(value) for key, value in options.items()})
        for ep, options in named
        if isinstance(options, dict)
    )


def _refuse_stages(what: Path, before: str, decoder: Path, feedback: Sequence[tuple[str, str]]) -> None:
    """Refuse (`BadInput`) a folder whose decoder is one of several models."""
    fed = [part for pair in feedback for part in ("--feedback", "=".join(pair))]
    alone = shlex.join(["ortbench", "loop", str(decoder), *fed])
    raise BadInput(
        f"{what}: {before} runs before the decoder; type {alone} for the decoder, or ortbench chain for the stages"
    )


def _optimum(folder: Path, inside: Path) -> tuple[str, Decoder]:
    config = _read(folder / OPTIMUM)
    file = next((it for it in _OPTIMUM_FILES if (inside / it).is_file()), None)
    if file is None:
        what = f"{_NO_CACHE} has no KV cache: export it with one" if (inside / _NO_CACHE).is_file() else "none is there"
        raise BadInput(f"{folder}: {OPTIMUM} stands beside one of {', '.join(_OPTIMUM_FILES)}; {what}")
    if config.get("is_encoder_decoder") is True:
        feedback = [("present.*.decoder.*", "past_key_values.*.decoder.*")]
        _refuse_stages(folder / OPTIMUM, _STAGES["encoder"], inside / file, feedback)
    if (inside / _EMBED).is_file():
        _refuse_stages(inside / _EMBED, _STAGES["embedding"], inside / file, [("present.*", "past_key_values.*")])
    context = next((size for key in _CONTEXT if (size := _whole(config, key))), None)
    return str(inside / file), Decoder(f"{OPTIMUM} and {file}", context=context)


def _whole(table: Mapping[str, Any], key: str) -> int | None:
    found = table.get(key)
    return found if type(found) is int and found > 0 else None
