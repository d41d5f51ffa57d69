"""The models that are complete in one run. Each function gives one and is named like its file."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from models.parts import Array, Case, Seeded, build, picture


def tiny() -> Case:
    model = build("tiny (float[16] x) => (float[16] y) { y = Relu (x) }")
    return Case(model, {"x": np.arange(-8, 8, dtype=np.float32) / 4})


def copy_bound() -> Case:
    # Scale and bias are short binary fractions: the outputs are exact, and compress as well as the inputs.
    model = build("""
        copy_bound (float[1,3,1080,1920] image) => (float[1,3,1080,1920] adjusted) {
            scale = Constant <value = float[3,1,1] {1.5, 1.25, 0.75}> ()
            bias = Constant <value = float[3,1,1] {-0.25, -0.125, 0.0625}> ()
            low = Constant <value = float {0.0}> ()
            high = Constant <value = float {1.0}> ()
            scaled = Mul (image, scale)
            shifted = Add (scaled, bias)
            adjusted = Clip (shifted, low, high)
        }""")
    return Case(model, {"image": picture(1080, 1920)})


def compute_bound() -> Case:
    """129 MFLOP for 16 kB in and 16 kB out. The groups of 4 channels keep off the fastest path of CPU libraries."""
    seeded, channels, kernel, layers = Seeded(1), 64, 4 * 7 * 7, 20
    weights: dict[str, Array] = {
        "stem": seeded.weight(channels, 16, 1, 1, fan_in=16),
        "head": seeded.weight(16, channels, 1, 1, fan_in=channels),
        "scale": np.float32(np.sqrt(3 / kernel)).reshape(1),
        "shape": np.array([channels, 4, 7, 7], np.int64),
    }
    body = ""
    for n in range(layers):
        # Stored, these weights would take 1 MB. The sines of an outer product take two vectors, and look random.
        weights[f"row{n}"] = 8 * seeded.values(channels, 1)
        weights[f"column{n}"] = 2 * seeded.values(1, kernel)
        body += f"""
            angle{n} = Mul (row{n}, column{n})
            sine{n} = Sin (angle{n})
            scaled{n} = Mul (sine{n}, scale)
            weight{n} = Reshape (scaled{n}, shape)
            conv{n} = Conv <group = 16, pads = [3, 3, 3, 3]> (x{n}, weight{n})
            x{n + 1} = Tanh (conv{n})"""
    model = build(
        f"""
        compute_bound (float[1,16,16,16] x) => (float[1,16,16,16] y) {{
            x0 = Conv (x, stem)
            {body}
            y = Conv (x{layers}, head)
        }}""",
        weights,
    )
    return Case(model, {"x": seeded.values(1, 16, 16, 16)})


def transformer_ids() -> Case:
    """One self-attention block. Reshape's 0 keeps a dimension, so no shape is computed and any size works."""
    seeded, vocab, types, hidden = Seeded(2), 500, 2, 32
    weights = {
        "words": seeded.values(vocab, hidden),
        "types": seeded.values(types, hidden),
        **{name: seeded.weight(hidden, hidden, fan_in=hidden) for name in ("wq", "wk", "wv", "wo")},
        "w1": seeded.weight(hidden, 2 * hidden, fan_in=hidden),
        "w2": seeded.weight(2 * hidden, hidden, fan_in=2 * hidden),
        **{name: 1 + seeded.values(hidden) / 8 for name in ("gain0", "gain1", "gain2")},
        **{name: seeded.values(hidden) / 8 for name in ("bias0", "bias1", "bias2")},
    }
    model = build(
        """
        transformer_ids (
            int64[batch,sequence] input_ids, int64[batch,sequence] token_type_ids, int64[batch,sequence] attention_mask
        ) => (float[batch,sequence,32] hidden_state) {
            word = Gather (words, input_ids)
            type = Gather (types, token_type_ids)
            sum0 = Add (word, type)
            x = LayerNormalization <axis = -1> (sum0, gain0, bias0)

            one = Constant <value = float {1.0}> ()
            penalty = Constant <value = float {-10000.0}> ()
            head_axes = Constant <value = int64[2] {1, 2}> ()
            mask = Cast <to = 1> (attention_mask)
            absent = Sub (one, mask)
            flat_mask = Mul (absent, penalty)
            score_mask = Unsqueeze (flat_mask, head_axes)

            split = Constant <value = int64[4] {0, 0, 2, 16}> ()
            join = Constant <value = int64[3] {0, 0, 32}> ()
            root = Constant <value = float {0.25}> ()
            q0 = MatMul (x, wq)
            q1 = Reshape (q0, split)
            q = Transpose <perm = [0, 2, 1, 3]> (q1)
            k0 = MatMul (x, wk)
            k1 = Reshape (k0, split)
            k = Transpose <perm = [0, 2, 3, 1]> (k1)
            v0 = MatMul (x, wv)
            v1 = Reshape (v0, split)
            v = Transpose <perm = [0, 2, 1, 3]> (v1)
            products = MatMul (q, k)
            scores = Mul (products, root)
            masked = Add (scores, score_mask)
            attention = Softmax <axis = -1> (masked)
            mixed = MatMul (attention, v)
            heads = Transpose <perm = [0, 2, 1, 3]> (mixed)
            joined = Reshape (heads, join)
            attended = MatMul (joined, wo)
            sum1 = Add (x, attended)
            y = LayerNormalization <axis = -1> (sum1, gain1, bias1)

            up = MatMul (y, w1)
            active = Relu (up)
            down = MatMul (active, w2)
            sum2 = Add (y, down)
            hidden_state = LayerNormalization <axis = -1> (sum2, gain2, bias2)
        }""",
        weights,
    )
    batch, sequence = 2, 16
    mask = np.ones((batch, sequence), np.int64)
    mask[1, 11:] = 0  # the second sentence is shorter, as in a padded batch
    inputs = {
        "input_ids": seeded.ids(vocab, batch, sequence),
        "token_type_ids": seeded.ids(types, batch, sequence),
        "attention_mask": mask,
    }
    return Case(model, inputs)


def fp16() -> Case:
    """The sigmoid keeps the outputs off zero, where the rounding of a float16 sum would be a large relative error."""
    seeded = Seeded(3)
    weights = {
        "w1": seeded.weight(128, 256, fan_in=128).astype(np.float16),
        "b1": seeded.values(256).astype(np.float16),
        "w2": seeded.weight(256, 128, fan_in=256).astype(np.float16),
    }
    model = build(
        """
        fp16 (float16[64,128] x) => (float16[64,128] y) {
            product = MatMul (x, w1)
            biased = Add (product, b1)
            hidden = Relu (biased)
            logits = MatMul (hidden, w2)
            y = Sigmoid (logits)
        }""",
        weights,
    )
    return Case(model, {"x": seeded.values(64, 128).astype(np.float16)})


def multi_output() -> Case:
    seeded = Seeded(4)
    weights = {
        "w1": seeded.weight(64, 256, fan_in=64),
        "b1": seeded.values(256),
        # 4 times the usual size, for scores that differ clearly: then the indices and the mask are the same everywhere.
        "w2": 4 * seeded.weight(256, 10, fan_in=256),
    }
    model = build(
        """
        multi_output (float[batch,64] x) => (
            float[batch,256] features, float[batch,10] scores, int64[batch,3] top_indices, int64[batch] label,
            bool[batch,10] likely
        ) {
            product = MatMul (x, w1)
            biased = Add (product, b1)
            features = Relu (biased)
            logits = MatMul (features, w2)
            scores = Softmax <axis = -1> (logits)
            three = Constant <value = int64[1] {3}> ()
            top_scores, top_indices = TopK (scores, three)
            label = ArgMax <axis = -1, keepdims = 0> (scores)
            even = Constant <value = float {0.1}> ()
            likely = Greater (scores, even)
        }""",
        weights,
    )
    return Case(model, {"x": seeded.values(2, 64)})


def cpu_island() -> Case:
    """Det has a kernel for the CPU and none for CUDA or WebGPU, so the data crosses to the CPU and back."""
    seeded = Seeded(5)
    weights = {
        "w1": seeded.weight(64, 64, fan_in=64),
        "b1": seeded.values(64),
        "w2": seeded.weight(16, 64, fan_in=16),
        "b2": seeded.values(64),
    }
    model = build(
        """
        cpu_island (float[256,64] x) => (float[256,64] y) {
            product1 = MatMul (x, w1)
            biased1 = Add (product1, b1)
            hidden = Relu (biased1)
            shape = Constant <value = int64[4] {256, 16, 2, 2}> ()
            matrices = Reshape (hidden, shape)
            determinants = Det (matrices)
            product2 = MatMul (determinants, w2)
            biased2 = Add (product2, b2)
            y = Softmax <axis = -1> (biased2)
        }""",
        weights,
    )
    return Case(model, {"x": seeded.values(256, 64)})


def image_classifier() -> Case:
    seeded = Seeded(6)
    weights: dict[str, Array] = {"classes": seeded.weight(64, 10, fan_in=256), "offset": seeded.values(10)}
    body, last = "", "image"
    for n, (before, after, stride) in enumerate(((3, 16, 2), (16, 32, 2), (32, 32, 1), (32, 64, 2))):
        weights |= {
            f"kernel{n}": seeded.weight(after, before, 3, 3, fan_in=before * 3 * 3),
            f"gain{n}": 1.5 + seeded.values(after) / 4,
            f"bias{n}": seeded.values(after) / 2,
            f"mean{n}": seeded.values(after) / 4,
            f"variance{n}": 0.5 + seeded.values(after) / 4,
        }
        body += f"""
            conv{n} = Conv <pads = [1, 1, 1, 1], strides = [{stride}, {stride}]> ({last}, kernel{n})
            norm{n} = BatchNormalization (conv{n}, gain{n}, bias{n}, mean{n}, variance{n})
            relu{n} = Relu (norm{n})"""
        last = f"relu{n}"
    model = build(
        f"""
        image_classifier (float[1,3,224,224] image) => (float[1,10] probabilities) {{
            {body}
            average = GlobalAveragePool ({last})
            features = Flatten (average)
            logits = Gemm (features, classes, offset)
            probabilities = Softmax <axis = -1> (logits)
        }}""",
        weights,
    )
    return Case(model, {"image": picture(224, 224)})


CASES: tuple[Callable[[], Case], ...] = (
    tiny,
    copy_bound,
    compute_bound,
    transformer_ids,
    fp16,
    multi_output,
    cpu_island,
    image_classifier,
)
