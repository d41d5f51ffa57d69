"""The decoder in a folder, and what the folder says of it: onnxruntime-genai's ``genai_config.json``, or Optimum's layout."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.core.paths import check_readable, is_folder
from ortbench.plan.loop_plan import Decoder, Embedding, Encoder, Features

GENAI, OPTIMUM = "genai_config.json", "config.json"
_OPTIMUM_FILES = ("decoder_model_merged.onnx", "decoder_with_past_model.onnx", "model.onnx")
_NO_CACHE = "decoder_model.onnx"
_CONTEXT = ("max_position_embeddings", "n_positions", "n_ctx")
_FEATURES = {"vision": "image_token_id", "speech": "audio_token_id"}
_SPECIAL = ("image_token_id", "audio_token_id", "video_token_id")
_ENCODER, _EMBED = "encoder_model.onnx", "embed_tokens.onnx"
_EPS = {"nvtensorrtrtx": "nv-tensorrt-rtx"}  # others are called alike but for capitals
_ROLES = {
    "input_ids": "ids", "attention_mask": "mask", "position_ids": "positions", "past_sequence_length": "past",
    "current_sequence_length": "total", "total_sequence_length": "total", "logits": "logits",
}  # fmt: skip


def found_in(path: str) -> tuple[str, Decoder]:
    """The decoder's file, and what is known of it before it is loaded; of a file nothing; `BadInput`: a folder without one, whose
    stages cannot be run, or whose description cannot be read."""
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
    names = {role: name for key, role in _ROLES.items() if isinstance(name := {**ins, **outs}.get(key), str)}
    shared = _table(config, "search").get("past_present_share_buffer") is True
    heads = _whole(decoder, "num_key_value_heads"), _whole(decoder, "head_size")
    context = _whole(model, "context_length")
    encoder, embedding = _genai_encoder(folder, model, ins), _genai_embedding(folder, model, ins)
    if encoder is not None and embedding is not None:
        raise BadInput(f"{folder / GENAI}: a decoder behind an encoder and an embedding model is not measured")
    return str(folder / file), Decoder(
        GENAI, tuple(feedback), names, context, shared, *heads, encoder, embedding, _providers(decoder)
    )


def _providers(decoder: Mapping[str, Any]) -> tuple[tuple[str, dict[str, str]], ...]:
    """The EPs of ``session_options.provider_options``, the first one first, with their options."""
    listed = _table(decoder, "session_options").get("provider_options")
    named = [it for each in listed if isinstance(each, dict) for it in each.items()] if isinstance(listed, list) else []
    return tuple(
        (_EPS.get(ep.lower(), ep.lower()), {key: str(value) for key, value in options.items()})
        for ep, options in named
        if isinstance(options, dict)
    )


def _genai_encoder(folder: Path, model: Mapping[str, Any], taken: Mapping[str, Any]) -> Encoder | None:
    """The encoder, and which of its outputs the decoder's inputs take."""
    encoder = _table(model, "encoder")
    if not isinstance(file := encoder.get("filename"), str):
        return None
    start = model.get("decoder_start_token_id", model.get("bos_token_id"))
    return Encoder(str(folder / file), _links(encoder, taken), start if type(start) is int else 0)


def _genai_embedding(folder: Path, model: Mapping[str, Any], taken: Mapping[str, Any]) -> Embedding | None:
    """The embedding model, and which of its outputs the decoder's inputs take."""
    embedding = _table(model, "embedding")
    features = [stage for stage in _FEATURES if _table(model, stage)]
    if not isinstance(file := embedding.get("filename"), str):
        if features:
            reason = f"{' and '.join(features)} without an embedding model; name the decoder's .onnx file"
            raise BadInput(f"{folder / GENAI}: the model has {reason}")
        return None
    ins = _table(embedding, "inputs")
    ids = ins.get("input_ids")
    special = tuple(token for key in _SPECIAL if (token := _whole(model, key)) is not None)
    stages = tuple(_genai_features(folder, model, stage, ins) for stage in features)
    return Embedding(str(folder / file), _links(embedding, taken), ids if isinstance(ids, str) else "", special, stages)


def _genai_features(folder: Path, model: Mapping[str, Any], name: str, taken: Mapping[str, Any]) -> Features:
    stage = _table(model, name)
    file = stage.get("filename")
    path = str(folder / file) if isinstance(file, str) and not stage.get("pipeline") else ""
    return Features(name, path, _links(stage, taken), _whole(model, _FEATURES[name]))


def _links(stage: Mapping[str, Any], taken: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The outputs of a stage and the inputs that take them, as patterns: those whose keys are alike but for present and past."""
    return tuple(
        (out.replace("%d", "*"), into.replace("%d", "*"))
        for key, out in _table(stage, "outputs").items()
        if isinstance(out, str) and isinstance(into := taken.get(key.replace("present", "past", 1)), str)
    )


def _optimum(folder: Path, inside: Path) -> tuple[str, Decoder]:
    config = _read(folder / OPTIMUM)
    encoder: Encoder | None = None
    files: tuple[str, ...] = _OPTIMUM_FILES
    if config.get("is_encoder_decoder") is True:
        files = files[:1]
        if not (inside / _ENCODER).is_file():
            raise BadInput(f"{folder}: {OPTIMUM} says that there is an encoder, and {_ENCODER} is not there")
        start = config.get("decoder_start_token_id")
        links = (("last_hidden_state", "encoder_hidden_states"),)
        encoder = Encoder(str(inside / _ENCODER), links, start if type(start) is int else 0)
    file = next((it for it in files if (inside / it).is_file()), None)
    if file is None:
        what = f"{_NO_CACHE} has no KV cache: export it with one" if (inside / _NO_CACHE).is_file() else "none is there"
        raise BadInput(f"{folder}: {OPTIMUM} stands beside one of {', '.join(files)}; {what}")
    context = next((size for key in _CONTEXT if (size := _whole(config, key))), None)
    embedding = Embedding(str(inside / _EMBED)) if encoder is None and (inside / _EMBED).is_file() else None
    return str(inside / file), Decoder(f"{OPTIMUM} and {file}", context=context, encoder=encoder, embedding=embedding)


def _whole(table: Mapping[str, Any], key: str) -> int | None:
    found = table.get(key)
    return found if type(found) is int and found > 0 else None
