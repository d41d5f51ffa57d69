"""The decoder in a folder, and what the folder says of it: onnxruntime-genai's ``genai_config.json``, or Optimum's layout."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.core.paths import check_readable, is_folder
from ortbench.plan.loop_plan import Decoder

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
    from ortbench.model import door  # a model by itself need not wait for its msgspec

    found = door.parse(door.content_of(path), str(path))
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
