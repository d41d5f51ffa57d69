"""A transformer decoder block with a cache of keys and values, once growing, once of fixed length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import parser

from models.parts import Array, Case, Loop, Seeded, build, weighted

VOCAB, HIDDEN, QUERY_HEADS, KEY_HEADS, HEAD, WIDE = 128, 32, 4, 2, 16, 64
SLOTS = 64  # of the cache of fixed length
POSITIONS = 1024  # that the growing one knows
STEPS = 6

NAMES = {
    f"{when}_{kind}": f"{at}.0.{kind}" for when, at in (("past", "past_key_values"), ("present", "present"))
    for kind in ("key", "value")
}  # fmt: skip
FEEDBACK = {f"present.0.{kind}": f"past_key_values.0.{kind}" for kind in ("key", "value")}

# The position table is computed, which ONNX Runtime does once: stored, it would be the largest part of the model.
EMBED = """
    angles = Mul (positions, rates)
    shifted = Add (angles, phases)
    places = Sin (shifted)
    word = Gather (words, input_ids)
    place = Gather (places, position_ids)
    x = Add (word, place)"""

# Reshape's 0 keeps a dimension, so no shape is computed and any size works. Queries are in groups, one for each head of
# the keys; MatMul broadcasts, so that no key is repeated.
PROJECT = """
    zero = Constant <value = float {0.0}> ()
    one = Constant <value = float {1.0}> ()
    penalty = Constant <value = float {-10000.0}> ()
    third = Constant <value = int64[1] {2}> ()
    head_axes = Constant <value = int64[2] {1, 2}> ()
    normal0 = LayerNormalization <axis = -1> (x, gain0, bias0)
    grouped = Constant <value = int64[5] {0, 0, 2, 2, 16}> ()
    split = Constant <value = int64[4] {0, 0, 2, 16}> ()
    query0 = MatMul (normal0, wq)
    query1 = Reshape (query0, grouped)
    query = Transpose <perm = [0, 2, 3, 1, 4]> (query1)
    key0 = MatMul (normal0, wk)
    key1 = Reshape (key0, split)
    new_key = Transpose <perm = [0, 2, 1, 3]> (key1)
    value0 = MatMul (normal0, wv)
    value1 = Reshape (value0, split)
    new_value = Transpose <perm = [0, 2, 1, 3]> (value1)
    query_position0 = Cast <to = 1> (position_ids)
    query_position = Unsqueeze (query_position0, third)"""

# A key is hidden from the queries before it, and from all where the mask is 0. It has the position that the mask gives it,
# so that sentences may be padded on the left, where generated ones are.
GROW = """
    present_key = Concat <axis = 2> (past_key, new_key)
    present_value = Concat <axis = 2> (past_value, new_value)
    kept = Cast <to = 1> (attention_mask)
    along = Constant <value = int64 {1}> ()
    second = Constant <value = int64[1] {1}> ()
    counted = CumSum (kept, along)
    key_position0 = Sub (counted, one)
    key_position = Unsqueeze (key_position0, second)
    ahead0 = Sub (key_position, query_position)
    ahead = Clip (ahead0, zero, one)
    absent0 = Sub (one, kept)
    absent = Unsqueeze (absent0, second)
    hidden = Add (ahead, absent)"""

# Nothing reads the past but the write of one entry, so that past and present may be the same memory.
WRITE = """
    offset = Mul (position_ids, third_index)
    cell = Add (cells, offset)
    present_key = ScatterND (past_key, cell, new_key)
    present_value = ScatterND (past_value, cell, new_value)
    ahead0 = Sub (slots, query_position)
    hidden = Clip (ahead0, zero, one)"""

ATTEND = """
    score_mask0 = Mul (hidden, penalty)
    score_mask = Unsqueeze (score_mask0, head_axes)
    root = Constant <value = float {0.25}> ()
    join = Constant <value = int64[3] {0, 0, 64}> ()
    keys0 = Unsqueeze (present_key, third)
    keys = Transpose <perm = [0, 1, 2, 4, 3]> (keys0)
    products = MatMul (query, keys)
    scores = Mul (products, root)
    masked = Add (scores, score_mask)
    attention = Softmax <axis = -1> (masked)
    values = Unsqueeze (present_value, third)
    mixed = MatMul (attention, values)
    heads = Transpose <perm = [0, 3, 1, 2, 4]> (mixed)
    joined = Reshape (heads, join)
    attended = MatMul (joined, wo)
    y = Add (x, attended)
    normal1 = LayerNormalization <axis = -1> (y, gain1, bias1)
    gate0 = MatMul (normal1, w1)
    gate1 = Sigmoid (gate0)
    gate = Mul (gate0, gate1)
    up = MatMul (normal1, w2)
    gated = Mul (gate, up)
    down = MatMul (gated, w3)
    z = Add (y, down)
    normal2 = LayerNormalization <axis = -1> (z, gain2, bias2)
    vocabulary = Transpose <perm = [1, 0]> (words)
    logits = MatMul (normal2, vocabulary)"""


def decoder() -> Case:
    model = build(
        f"""
        decoder (
            int64[batch,sequence] input_ids, int64[batch,total_length] attention_mask,
            int64[batch,sequence] position_ids, float[batch,2,past_length,16] past_key,
            float[batch,2,past_length,16] past_value
        ) => (
            float[batch,sequence,128] logits, float[batch,2,total_length,16] present_key,
            float[batch,2,total_length,16] present_value
        ) {{
            {EMBED}{PROJECT}{GROW}{ATTEND}
        }}""",
        _weights(POSITIONS),
        NAMES,
    )
    seeded = Seeded(11)
    batch, sequence, past = 2, 3, 6
    mask = np.ones((batch, past + sequence), np.int64)
    mask[1, :2] = 0  # the second sentence is shorter: padded on the left
    inputs = {
        "input_ids": seeded.ids(VOCAB, batch, sequence),
        "attention_mask": mask,
        "position_ids": (mask.cumsum(1) - 1)[:, past:],
        **_cache(batch, past, seeded),
    }
    prompt, token = seeded.ids(VOCAB, 1, 5), _token()
    loop = Loop(FEEDBACK, _cache(1, 0), [_after(past, token) for past in range(STEPS)])
    prefill = Loop(FEEDBACK, _cache(1, 0), [_after(0, prompt), *(_after(5 + step, token) for step in range(STEPS - 1))])
    return Case(model, inputs, {"loop": loop, "prefill": prefill})


def decoder_shared() -> Case:
    model = build(
        f"""
        decoder_shared (
            int64[1,1] input_ids, int64[1,1] position_ids, float[1,2,{SLOTS},16] past_key,
            float[1,2,{SLOTS},16] past_value
        ) => (float[1,1,128] logits, float[1,2,{SLOTS},16] present_key, float[1,2,{SLOTS},16] present_value) {{
            third_index = Constant <value = int64[3] {{0, 0, 1}}> ()
            cells = Constant <value = int64[1,2,1,3] {{0, 0, 0, 0, 1, 0}}> ()
            {EMBED}{PROJECT}{WRITE}{ATTEND}
        }}""",
        {**_weights(SLOTS), "slots": np.arange(SLOTS, dtype=np.float32)},
        NAMES,
    )
    seeded, position = Seeded(12), 9
    cache = _cache(1, SLOTS, seeded)
    for array in cache.values():
        array[:, :, position:] = 0  # where nothing was written yet
    inputs = {"input_ids": seeded.ids(VOCAB, 1, 1), "position_ids": np.array([[position]], np.int64), **cache}
    steps = [{"input_ids": _token(), "position_ids": np.array([[step]], np.int64)} for step in range(STEPS)]
    return Case(model, inputs, {"loop": Loop(FEEDBACK, _cache(1, SLOTS), steps)})


# The attention of Llama as onnxruntime-genai exports it: rotary positions, and a cache that is written in place where past and
# present are one buffer.
GROUPED = """
    one = Constant <value = int64 {1}> ()
    along = Constant <value = int64[1] {1}> ()
    x = Gather (words, input_ids)
    normal0 = LayerNormalization <axis = -1> (x, gain0, bias0)
    query = MatMul (normal0, wq)
    key = MatMul (normal0, wk)
    value = MatMul (normal0, wv)
    counted = ReduceSum <keepdims = 0> (attention_mask, along)
    behind = Sub (counted, one)
    seqlens = Cast <to = 6> (behind)
    sizes = Shape (attention_mask)
    total0 = Gather (sizes, one)
    total = Cast <to = 6> (total0)
    joined, present_key, present_value = com.microsoft.GroupQueryAttention <
        num_heads = 4, kv_num_heads = 2, do_rotary = 1
    > (query, key, value, past_key, past_value, seqlens, total, cosines, sines)"""


def llama_like() -> onnx.ModelProto:
    """A decoder with GroupQueryAttention, which takes a cache that grows as well as one of a fixed length."""
    angles = np.outer(np.arange(POSITIONS), 10000.0 ** -(np.arange(HEAD // 2) / (HEAD // 2)))
    tables = {"cosines": np.cos(angles).astype(np.float32), "sines": np.sin(angles).astype(np.float32)}
    unused = ("positions", "rates", "phases")
    weights = {name: array for name, array in _weights(POSITIONS).items() if name not in unused}
    model = parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1], producer_name: "ortbench">
        llama_like (
            int64[batch,sequence] input_ids, int64[batch,total_length] attention_mask,
            float[batch,2,past_length,16] past_key, float[batch,2,past_length,16] past_value
        ) => (
            float[batch,sequence,128] logits, float[batch,2,total_length,16] present_key,
            float[batch,2,total_length,16] present_value
        ) {{{GROUPED}{ATTEND[ATTEND.index("    attended") :]}
        }}"""
    )
    return weighted(model, {**weights, **tables}, NAMES)


def _weights(positions: int) -> dict[str, Array]:
    """The same of both, whatever the number of positions that the table has."""
    seeded = Seeded(10)
    wide = QUERY_HEADS * HEAD
    frequencies = np.repeat(2.0 ** -np.arange(HIDDEN // 2), 2)
    return {
        "words": seeded.values(VOCAB, HIDDEN),
        "wq": seeded.weight(HIDDEN, wide, fan_in=HIDDEN),
        "wk": seeded.weight(HIDDEN, KEY_HEADS * HEAD, fan_in=HIDDEN),
        "wv": seeded.weight(HIDDEN, KEY_HEADS * HEAD, fan_in=HIDDEN),
        "wo": seeded.weight(wide, HIDDEN, fan_in=wide),
        "w1": seeded.weight(HIDDEN, WIDE, fan_in=HIDDEN),
        "w2": seeded.weight(HIDDEN, WIDE, fan_in=HIDDEN),
        "w3": seeded.weight(WIDE, HIDDEN, fan_in=WIDE),
        **{f"gain{n}": 1 + seeded.values(HIDDEN) / 8 for n in range(3)},
        **{f"bias{n}": seeded.values(HIDDEN) / 8 for n in range(3)},
        "positions": np.arange(positions, dtype=np.float32).reshape(-1, 1),
        "rates": np.asarray(frequencies, np.float32).reshape(1, -1),
        "phases": np.tile(np.array([0, np.pi / 2], np.float32), HIDDEN // 2).reshape(1, -1),
    }


def _cache(batch: int, length: int, seeded: Seeded | None = None) -> dict[str, Array]:
    shape = (batch, KEY_HEADS, length, HEAD)
    return {name: seeded.values(*shape) if seeded else np.zeros(shape, np.float32) for name in FEEDBACK.values()}


def _token() -> Array:
    return np.array([[7]], np.int64)


def _after(past: int, ids: Array) -> dict[str, Array]:
    """The inputs of a step that is given `ids` [1, n] int64 behind as many tokens as `past` says."""
    total = past + ids.shape[1]
    return {
        "input_ids": ids,
        "attention_mask": np.ones((1, total), np.int64),
        "position_ids": np.arange(past, total).reshape(1, -1),
    }


CASES: tuple[Callable[[], Case], ...] = (decoder, decoder_shared)
