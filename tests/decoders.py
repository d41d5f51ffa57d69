"""Decoders in folders as people have them, and what a plain loop of `session.run` generates, without anything of ortbench's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from models.decoders import decoder, llama_like

Array = npt.NDArray[Any]
VOCAB = 128


def gpt_like() -> onnx.ModelProto:
    """A decoder whose cache grows, with an input for positions."""
    return decoder().model


MODELS = {"gpt": gpt_like, "llama": llama_like}


def genai_folder(
    folder: Path, name: str, shared: bool = False, context: int = 512, providers: Sequence[object] = ()
) -> Path:
    """A decoder with the ``genai_config.json`` of onnxruntime-genai."""
    folder.mkdir()
    onnx.save(MODELS[name](), folder / "model.onnx")
    config = genai_config(name, VOCAB, context, shared, providers=providers)
    (folder / "genai_config.json").write_text(json.dumps(config))
    return folder


def genai_config(
    name: str, words: int, context: int, shared: bool, layers: int = 1, width: int = 32, heads: int = 4, key_heads: int = 2,
    head: int = 16, providers: Sequence[object] = (),
) -> dict[str, Any]:  # fmt: skip
    """What onnxruntime-genai wants to know of a decoder, ``gpt`` (with an input for positions) or ``llama``."""
    roles = ("input_ids", "attention_mask", *(["position_ids"] if name == "gpt" else []))
    kinds = ("key", "value")
    return {
        "model": {
            "type": name, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "context_length": context, "vocab_size": words,
            "decoder": {
                "filename": "model.onnx", "head_size": head, "hidden_size": width, "num_attention_heads": heads,
                "num_key_value_heads": key_heads, "num_hidden_layers": layers,
                "session_options": {"provider_options": [*providers]},
                "inputs": {role: role for role in roles} | {f"past_{it}_names": f"past_key_values.%d.{it}" for it in kinds},
                "outputs": {"logits": "logits", **{f"present_{it}_names": f"present.%d.{it}" for it in kinds}},
            },
        },
        "search": {"past_present_share_buffer": shared, "max_length": context},
    }  # fmt: skip


class Plain(NamedTuple):
    logits: list[Array]  # by step
    tokens: Array  # that each step chose [batch, steps]
    cache: dict[str, Array]  # after the last step, by the names of the inputs


def plain(model: onnx.ModelProto, prompt: Array, count: int, forced: Array | None = None) -> Plain:
    """Generate with arrays alone: the prompt [batch, n], then one token after the other."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [it.name for it in session.get_inputs()]
    batch, length = prompt.shape
    cache = {name: np.zeros((batch, 2, 0, 16), np.float32) for name in names if name.startswith("past")}
    ids, past, logits, tokens = prompt, 0, [], []
    for number in range(count):
        total = past + ids.shape[1]
        feeds = {"input_ids": ids, "attention_mask": np.ones((batch, total), np.int64), **cache}
        if "position_ids" in names:
            feeds["position_ids"] = np.tile(np.arange(past, total), (batch, 1))
        found = dict(zip((it.name for it in session.get_outputs()), session.run(None, feeds), strict=True))
        cache = {name: found[name.replace("past_key_values", "present")] for name in cache}
        logits.append(found["logits"])
        tokens.append(found["logits"][:, -1].argmax(-1))
        ids = (tokens[-1] if forced is None else forced[:, number])[:, None]
        past = total
    assert past == length + count - 1
    return Plain(logits, np.stack(tokens, 1), cache)
