"""Decoders in folders as people have them, and what a plain loop of `session.run` generates, without anything of ortbench's."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime

from models.decoders import decoder, llama_like
from models.parts import Seeded

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
    (folder / "genai_config.json").write_text(
        json.dumps(genai_config(name, VOCAB, context, shared, providers=providers))
    )
    return folder


def genai_config(
    name: str,
    words: int,
    context: int,
    shared: bool,
    layers: int = 1,
    width: int = 32,
    heads: int = 4,
    key_heads: int = 2,
    head: int = 16,
    providers: Sequence[object] = (),
) -> dict[str, Any]:
    """What onnxruntime-genai wants to know of a decoder, ``gpt`` (with an input for positions) or ``llama``."""
    inputs = {"input_ids": "input_ids", "attention_mask": "attention_mask", "position_ids": "position_ids"}
    kinds = ("key", "value")
    return {
        "model": {
            "type": name,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "pad_token_id": 2,
            "context_length": context,
            "vocab_size": words,
            "decoder": {
                "filename": "model.onnx",
                "head_size": head,
                "hidden_size": width,
                "num_attention_heads": heads,
                "num_key_value_heads": key_heads,
                "num_hidden_layers": layers,
                "session_options": {"provider_options": [*providers]},
                "inputs": {
                    **{role: it for role, it in inputs.items() if name == "gpt" or role != "position_ids"},
                    **{f"past_{kind}_names": f"past_key_values.%d.{kind}" for kind in kinds},
                },
                "outputs": {"logits": "logits", **{f"present_{kind}_names": f"present.%d.{kind}" for kind in kinds}},
            },
        },
        "search": {"past_present_share_buffer": shared, "max_length": context},
    }


# Tiny decoders of onnxruntime-genai's own tests, which are fetched when they are tested.
GENAI_MODELS = (
    "https://raw.githubusercontent.com/microsoft/onnxruntime-genai/a0c04eb1313b886c963e415bbd974748cb89a4eb/test/models"
)
FROM = "ORTBENCH_TESTS_GENAI_MODELS"  # names another place of the same: a URL, or a folder
_TIMEOUT_S = 20


def fetched(name: str, folder: Path) -> Path:
    """The folder of a decoder with its file and its configuration. Raises `OSError`: it cannot be fetched."""
    folder.mkdir()
    place = os.environ.get(FROM, GENAI_MODELS)
    place = place if "://" in place else Path(place).absolute().as_uri()
    files = ["genai_config.json"]
    for file in files:
        with urllib.request.urlopen(f"{place}/{name}/{file}", timeout=_TIMEOUT_S) as source:
            (folder / file).write_bytes(source.read())
        if file == files[0]:
            files.append(json.loads((folder / file).read_text())["model"]["decoder"]["filename"])
    return folder


_TYPES = {"int64": np.int64, "int32": np.int32, "float": np.float32, "float16": np.float16}


def plain_by_names(path: str, prompt: Array, count: int) -> Plain:
    """The same as `plain` of any decoder whose states are called past… and present…, by what the session says of its inputs."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    ins, outs = {it.name: it for it in session.get_inputs()}, [it.name for it in session.get_outputs()]
    present = {name: name.replace("past_key_values", "present").replace("past", "present") for name in ins}
    types = {name: _TYPES[it.type.removeprefix("tensor(").removesuffix(")")] for name, it in ins.items()}
    batch = len(prompt)
    cache = {
        name: np.zeros(
            [dim if isinstance(dim, int) else batch if "batch" in str(dim) else 0 for dim in ins[name].shape],
            types[name],
        )
        for name in ins
        if "past" in name and present[name] in outs
    }
    ids, past, logits, tokens = prompt, 0, [], []
    for _ in range(count):
        total = past + ids.shape[1]
        feeds = {**cache, "input_ids": ids.astype(types["input_ids"])}
        for name in ins.keys() - feeds.keys():
            if "mask" in name:
                feeds[name] = np.ones((batch, total), types[name])
            elif "position" in name:
                shape = (*[3] * (len(ins[name].shape) - 2), *ids.shape)
                feeds[name] = np.broadcast_to(np.arange(past, total, dtype=types[name]), shape)
        found = dict(zip(outs, session.run(None, feeds), strict=True))
        cache = {name: found[present[name]] for name in cache}
        logits.append(found["logits"])
        tokens.append(found["logits"].reshape(batch, -1, found["logits"].shape[-1])[:, -1].argmax(-1))
        ids, past = tokens[-1][:, None], total
    return Plain(logits, np.stack(tokens, 1), cache)


# A decoder that attends to itself and to what an encoder gave, with and without branches as Optimum merges them.
_WIDE = 8
_ENCODE = "hidden = Gather (words, ids)  keys0 = MatMul (hidden, wk)  values0 = MatMul (hidden, wv)"
_ENCODE += "  behind = Constant <value = int64[1] {1}> ()  keys = Unsqueeze (keys0, behind)  values = Unsqueeze (values0, behind)"
_DECODE = """
    axis = Constant <value = int64[1] {1}> ()
    x0 = Gather (words, ids)  x = Unsqueeze (x0, axis)
    query = MatMul (x, wq)  key = MatMul (x, wk)  value = MatMul (x, wv)
    present_key = Concat <axis = 2> (past_key, key)  present_value = Concat <axis = 2> (past_value, value)
    turned = Transpose <perm = [0, 1, 3, 2]> (present_key)  scores = MatMul (query, turned)
    share = Softmax <axis = -1> (scores)  own = MatMul (share, present_value)
    cross = Transpose <perm = [0, 1, 3, 2]> (cross_key)  seen = MatMul (query, cross)
    weight = Softmax <axis = -1> (seen)  other = MatMul (weight, cross_value)
    y0 = Add (x, own)  y1 = Add (y0, other)  y = Squeeze (y1, axis)
    turn = Transpose <perm = [1, 0]> (words)  logits = MatMul (y, turn)"""
_SELF = f"float[batch,1,past,{_WIDE}] past_key, float[batch,1,past,{_WIDE}] past_value"
_PRESENT = f"float[batch,1,total,{_WIDE}] present_key, float[batch,1,total,{_WIDE}] present_value"
_CROSS = f"float[batch,1,length,{_WIDE}]"


def _weighted(graph: str, names: dict[str, str]) -> onnx.ModelProto:
    """A model of a text, with weights, whose inputs and outputs have other names."""
    seeded = Seeded(5)
    weights = {
        "words": seeded.values(VOCAB, _WIDE),
        **{name: seeded.values(_WIDE, _WIDE) for name in ("wq", "wk", "wv")},
    }
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {graph}')
    used = {name for node in model.graph.node for name in node.input} | {
        name for node in model.graph.node for it in node.attribute for inner in it.g.node for name in inner.input
    }
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(it, name) for name, it in weights.items() if name in used
    )
    for holder in [*model.graph.input, *model.graph.output]:
        for node in model.graph.node:
            graphs = [node, *(inner for it in node.attribute for inner in it.g.node)]
            for one in graphs:
                for side in (one.input, one.output):
                    side[:] = [names.get(name, name) for name in side]
        holder.name = names.get(holder.name, holder.name)
    return model


def genai_encoder_decoder(folder: Path) -> Path:
    """As onnxruntime-genai has them: the encoder gives the keys and values that the decoder attends to."""
    folder.mkdir()
    encoder = _weighted(
        f"g (int64[batch,length] ids, int64[batch,length] attention_mask) => (float[batch,length,{_WIDE}] hidden, {_CROSS} keys, "
        f"{_CROSS} values) {{ {_ENCODE} }}",
        {
            "ids": "input_ids",
            "hidden": "encoder_hidden_states",
            "keys": "present_key_cross_0",
            "values": "present_value_cross_0",
        },
    )
    decoder = _weighted(
        f"g (int64[batch,sequence] ids, {_SELF}, {_CROSS} cross_key, {_CROSS} cross_value) => "
        f"(float[batch,sequence,{VOCAB}] logits, {_PRESENT}) {{ {_DECODE} }}",
        {
            "ids": "input_ids", "past_key": "past_key_self_0", "past_value": "past_value_self_0", "cross_key": "past_key_cross_0",
            "cross_value": "past_value_cross_0", "present_key": "present_key_self_0", "present_value": "present_value_self_0",
        },
    )  # fmt: skip
    onnx.save(encoder, folder / "encoder.onnx")
    onnx.save(decoder, folder / "decoder.onnx")
    both = {"key": "key", "value": "value"}
    config = {
        "model": {
            "decoder_start_token_id": 3,
            "context_length": 64,
            "encoder": {
                "filename": "encoder.onnx",
                "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask"},
                "outputs": {
                    "encoder_hidden_states": "encoder_hidden_states",
                    **{f"cross_present_{it}_names": f"present_{it}_cross_%d" for it in both},
                },
            },
            "decoder": {
                "filename": "decoder.onnx",
                "inputs": {
                    "input_ids": "input_ids",
                    **{f"past_{it}_names": f"past_{it}_self_%d" for it in both},
                    **{f"cross_past_{it}_names": f"past_{it}_cross_%d" for it in both},
                },
                "outputs": {"logits": "logits", **{f"present_{it}_names": f"present_{it}_self_%d" for it in both}},
            },
        }
    }
    (folder / "genai_config.json").write_text(json.dumps(config))
    return folder


def optimum_encoder_decoder(folder: Path) -> Path:
    """As Optimum exports them: the first step makes keys and values of what the encoder gave, later ones give empty ones."""
    folder.mkdir()
    encoder = _weighted(
        f"g (int64[batch,length] ids, int64[batch,length] attention_mask) => (float[batch,length,{_WIDE}] hidden) "
        "{ word = Gather (words, ids)  hidden = MatMul (word, wq) }",
        {"ids": "input_ids", "hidden": "last_hidden_state"},
    )
    branches = f"""
        cross_key, cross_value, crossed_key, crossed_value = If (use_cache_branch) <
            then_branch = later () => (float[b,1,l,{_WIDE}] a, float[b,1,l,{_WIDE}] c, float[n,1,l,{_WIDE}] d, float[n,1,l,{_WIDE}] e) {{
                a = Identity (kept_key)  c = Identity (kept_value)
                nought = Constant <value = int64[1] {{0}}> ()
                d = Slice (kept_key, nought, nought, nought)  e = Slice (kept_value, nought, nought, nought)
            }},
            else_branch = first () => (float[b,1,l,{_WIDE}] f, float[b,1,l,{_WIDE}] g, float[b,1,l,{_WIDE}] h, float[b,1,l,{_WIDE}] i) {{
                one = Constant <value = int64[1] {{1}}> ()
                masked = Cast <to = 1> (encoder_attention_mask)  two = Constant <value = int64[1] {{2}}> ()
                ones = Unsqueeze (masked, two)  real = Mul (hidden, ones)
                k = MatMul (real, wk)  v = MatMul (real, wv)
                f = Unsqueeze (k, one)  g = Unsqueeze (v, one)  h = Identity (f)  i = Identity (g)
            }}
        >"""
    names = {f"past_{it}": f"past_key_values.0.decoder.{it}" for it in ("key", "value")}
    names |= {f"present_{it}": f"present.0.decoder.{it}" for it in ("key", "value")}
    names |= {f"kept_{it}": f"past_key_values.0.encoder.{it}" for it in ("key", "value")}
    names |= {f"crossed_{it}": f"present.0.encoder.{it}" for it in ("key", "value")}
    decoder = _weighted(
        f"g (int64[batch,length] encoder_attention_mask, int64[batch,sequence] ids, float[batch,length,{_WIDE}] hidden, {_SELF}, "
        f"float[batch,1,crossed,{_WIDE}] kept_key, float[batch,1,crossed,{_WIDE}] kept_value, bool[1] use_cache_branch) => "
        f"(float[batch,sequence,{VOCAB}] logits, {_PRESENT}, float[batch,1,crossed,{_WIDE}] crossed_key, "
        f"float[batch,1,crossed,{_WIDE}] crossed_value) {{ {branches} {_DECODE} }}",
        {**names, "ids": "input_ids", "hidden": "encoder_hidden_states"},
    )
    onnx.save(encoder, folder / "encoder_model.onnx")
    onnx.save(decoder, folder / "decoder_model_merged.onnx")
    (folder / "config.json").write_text(json.dumps({"is_encoder_decoder": True, "decoder_start_token_id": 3}))
    return folder


def plain_encoder_decoder(folder: Path, prompt: Array, count: int, forced: Array | None = None) -> Plain:
    """Encode the prompt [batch, n], and generate from token 3 on, with arrays alone."""
    merged = (folder / "encoder_model.onnx").exists()
    files = ("encoder_model.onnx", "decoder_model_merged.onnx") if merged else ("encoder.onnx", "decoder.onnx")
    encoder, decoder = (
        onnxruntime.InferenceSession(str(folder / file), providers=["CPUExecutionProvider"]) for file in files
    )
    ones, batch = np.ones_like(prompt), len(prompt)
    encoded = encoder.run(None, {"input_ids": prompt, "attention_mask": ones})
    names, outs = ([it.name for it in side] for side in (decoder.get_inputs(), decoder.get_outputs()))
    pasts = [name for name in names if name.startswith("past") and "cross" not in name]
    cache = {name: np.zeros((batch, 1, 1 if "encoder" in name else 0, _WIDE), np.float32) for name in pasts}
    fixed = dict(zip(("past_key_cross_0", "past_value_cross_0"), encoded[1:], strict=False))
    if merged:
        fixed = {"encoder_hidden_states": encoded[0], "encoder_attention_mask": ones}
    ids, logits, tokens = np.full((batch, 1), 3, np.int64), [], []
    for number in range(count):
        branch = {"use_cache_branch": np.array([number > 0])} if merged else {}
        found = dict(zip(outs, decoder.run(None, {"input_ids": ids, **cache, **fixed, **branch}), strict=True))
        for name in pasts:
            if number == 0 or "encoder" not in name:
                cache[name] = found[name.replace("past_key_values", "present").replace("past", "present")]
        logits.append(found["logits"])
        tokens.append(found["logits"][:, -1].argmax(-1))
        ids = (tokens[-1] if forced is None else forced[:, number])[:, None]
    return Plain(logits, np.stack(tokens, 1), cache)


# A decoder whose embeddings are a model of their own, which puts the features of an image where its tokens are.
IMAGE = VOCAB - 1
_MERGE = f"""
    image = Constant <value = int64 {{{IMAGE}}}> ()  words_end = Constant <value = int64 {{{VOCAB - 1}}}> ()
    flat = Constant <value = int64[1] {{-1}}> ()  axis = Constant <value = int64 {{0}}> ()  shape = Shape (input_ids)
    ids = Reshape (input_ids, flat)  here = Equal (ids, image)  ones = Cast <to = 7> (here)  behind = CumSum (ones, axis)
    places = Add (behind, words_end)  rows = Where (here, places, ids)  picked = Reshape (rows, shape)
    table = Concat <axis = 0> (words, image_features)  inputs_embeds = Gather (table, picked)"""


def embedded_folder(folder: Path, name: str, shared: bool = False, vision: bool = False, own_ids: bool = False) -> Path:
    """A decoder of `MODELS` as onnxruntime-genai has it with an embedding model; `own_ids`: both take token ids."""
    genai_folder(folder, name, shared)
    model = onnx.load(folder / "model.onnx")
    graph = model.graph
    (lookup,) = (node for node in graph.node if node.op_type == "Gather" and "input_ids" in node.input)
    words = next(it for it in graph.initializer if it.name == "words")
    table = onnx.numpy_helper.to_array(words)
    width = table.shape[1]
    embeds = onnx.helper.make_tensor_value_info("inputs_embeds", 1, ["batch", "sequence", width])
    ids = graph.input.pop(0)
    graph.input.insert(0, embeds)
    lookup.op_type, lookup.input[:] = "Identity", ["inputs_embeds"]
    if own_ids:
        graph.input.insert(0, ids)
    onnx.save(model, folder / "model.onnx")
    inputs, body = "int64[rows,words_each] input_ids", "inputs_embeds = Gather (words, input_ids)"
    if vision:
        inputs, body = f"{inputs}, float[image_tokens,{width}] image_features", _MERGE
    embedding = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({inputs}) => (float[rows,words_each,{width}] inputs_embeds) {{ {body} }}"""
    )
    embedding.graph.initializer.append(words)
    onnx.save(embedding, folder / "embedding.onnx")
    config = json.loads((folder / "genai_config.json").read_text())
    stage = {
        "filename": "embedding.onnx",
        "inputs": {"input_ids": "input_ids"},
        "outputs": {"inputs_embeds": "inputs_embeds"},
    }
    more: dict[str, Any] = {"embedding": stage}
    if vision:
        stage["inputs"]["image_features"] = "image_features"  # type: ignore[index]
        more["image_token_id"] = IMAGE
        more["vision"] = {"filename": "vision.onnx", "outputs": {"image_features": "image_features"}}
        seen = onnx.parser.parse_model(
            f"""<ir_version: 8, opset_import: ["" : 17]>
            g (float[images,pixels,4] pixel_values) => (float[image_tokens,{width}] image_features) {{
                flat = Constant <value = int64[2] {{-1, 4}}> ()
                rows = Reshape (pixel_values, flat)  image_features = MatMul (rows, patch)
            }}"""
        )
        seen.graph.initializer.append(onnx.numpy_helper.from_array(Seeded(8).values(4, width), "patch"))
        onnx.save(seen, folder / "vision.onnx")
    config["model"] |= more
    config["model"]["decoder"]["inputs"]["inputs_embeds"] = "inputs_embeds"
    (folder / "genai_config.json").write_text(json.dumps(config))
    return folder


class Plain(NamedTuple):
    logits: list[Array]  # by step
    tokens: Array  # that each step chose [batch, steps]
    cache: dict[str, Array]  # after the last step, by the names of the inputs


def plain(
    model: onnx.ModelProto,
    prompt: Array,
    count: int,
    forced: Array | None = None,
    folder: Path | None = None,
    image: Array | None = None,
) -> Plain:
    """Generate with arrays alone: the prompt [batch, n], then one token after the other; with the embedding model of a `folder`,
    and what its vision gives of an `image`."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    embedding, vision = (
        None if folder is None or not (folder / file).exists()
        else onnxruntime.InferenceSession(str(folder / file), providers=["CPUExecutionProvider"])
        for file in ("embedding.onnx", "vision.onnx")
    )  # fmt: skip
    features = None if vision is None or image is None else vision.run(None, {"pixel_values": image})[0]
    names = [it.name for it in session.get_inputs()]
    batch, length = prompt.shape
    cache = {name: np.zeros((batch, 2, 0, 16), np.float32) for name in names if name.startswith("past")}
    ids, past, logits, tokens = prompt, 0, [], []
    for number in range(count):
        total = past + ids.shape[1]
        feeds = {"attention_mask": np.ones((batch, total), np.int64), **cache}
        if embedding is not None:
            wide = embedding.get_outputs()[0].shape[-1]
            seen = np.zeros((0, wide), np.float32) if features is None or past else features
            fed = {"input_ids": ids} | ({"image_features": seen} if vision is not None else {})
            feeds["inputs_embeds"] = embedding.run(None, fed)[0]
        if "input_ids" in names:
            feeds["input_ids"] = ids
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
