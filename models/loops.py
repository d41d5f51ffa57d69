"""Models whose outputs are fed back as inputs, and the two around the denoiser in the chain text_to_image.toml."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from models.parts import Array, Case, Loop, Seeded, build

STEPS = 6


def recurrent_cell() -> Case:
    """A gated recurrent unit, of basic operators."""
    seeded, width, state = Seeded(20), 64, 128
    weights: dict[str, Array] = {
        "bias": seeded.values(3 * state) / 4,
        "hidden_bias": seeded.values(3 * state) / 4,
        "head": seeded.weight(state, 32, fan_in=state),
        "head_bias": seeded.values(32) / 4,
    }
    body = ""
    for name, rows in (("input", width), ("state", state)):
        # Stored, these weights would take 300 kB. The sines of an outer product take two vectors, and look random.
        weights |= {
            f"{name}_row": 8 * seeded.values(rows, 1),
            f"{name}_column": 2 * seeded.values(1, 3 * state),
            f"{name}_scale": np.float32(np.sqrt(3 / rows)).reshape(1),
        }
        body += f"""
            {name}_angle = Mul ({name}_row, {name}_column)
            {name}_sine = Sin ({name}_angle)
            {name}_weight = Mul ({name}_sine, {name}_scale)"""
    model = build(
        f"""
        recurrent_cell (float[1,64] x, float[1,128] hidden) => (float[1,32] y, float[1,128] hidden_out) {{
            {body}
            from_x0 = MatMul (x, input_weight)
            from_x = Add (from_x0, bias)
            from_hidden0 = MatMul (hidden, state_weight)
            from_hidden = Add (from_hidden0, hidden_bias)
            x_reset, x_update, x_new = Split <axis = -1> (from_x)
            hidden_reset, hidden_update, hidden_new = Split <axis = -1> (from_hidden)
            reset0 = Add (x_reset, hidden_reset)
            reset = Sigmoid (reset0)
            update0 = Add (x_update, hidden_update)
            update = Sigmoid (update0)
            remembered = Mul (reset, hidden_new)
            new0 = Add (x_new, remembered)
            new = Tanh (new0)
            change = Sub (hidden, new)
            part = Mul (update, change)
            hidden_out = Add (new, part)
            score = MatMul (hidden_out, head)
            y = Add (score, head_bias)
        }}""",
        weights,
    )
    x = seeded.values(1, width)
    loop = Loop({"hidden_out": "hidden"}, {"hidden": np.zeros((1, state), np.float32)}, [{"x": x}] * STEPS)
    return Case(model, {"x": x, "hidden": seeded.values(1, state)}, {"loop": loop})


def _silu(name: str) -> str:
    """NAME, times how far its gate is open, is NAME_on."""
    return f"""
            {name}_gate = Sigmoid ({name})
            {name}_on = Mul ({name}, {name}_gate)"""


def denoiser() -> Case:
    """Rows and columns tell the convolutions where they are, as the first latent, of zeros, does not."""
    seeded, channels, size = Seeded(21), 8, 32
    weights: dict[str, Array] = {
        "rates": seeded.values(1, channels) / 2,
        "phases": seeded.values(1, channels),
        "wc": seeded.weight(16, channels, fan_in=16),
        "ws": seeded.weight(channels, channels, fan_in=channels),
        "rows": seeded.values(1, channels, size, 1) / 2,
        "columns": seeded.values(1, channels, 1, size) / 2,
    }
    for name, before, after in (("first", 4, channels), ("a", channels, channels), ("b", channels, channels),
                                ("last", channels, 4)):  # fmt: skip
        weights[f"kernel_{name}"] = seeded.weight(after, before, 3, 3, fan_in=9 * before)
        weights[f"bias_{name}"] = seeded.values(after) / 4
    model = build(
        f"""
        denoiser (float[1,4,32,32] latent, float[1] timestep, float[1,16] condition) => (float[1,4,32,32] denoised) {{
            angle = Mul (timestep, rates)
            phase = Add (angle, phases)
            time = Tanh (phase)
            wish = MatMul (condition, wc)
            guide = Add (time, wish)
            {_silu("guide")}
            shift0 = MatMul (guide_on, ws)
            image_axes = Constant <value = int64[2] {{2, 3}}> ()
            shift = Unsqueeze (shift0, image_axes)
            {_conv("conv0", "latent", "first")}
            in_rows = Add (conv0, rows)
            in_place = Add (in_rows, columns)
            x = Add (in_place, shift)
            {_silu("x")}
            {_conv("a", "x_on", "a")}
            {_silu("a")}
            {_conv("b", "a_on", "b")}
            sum = Add (x_on, b)
            {_silu("sum")}
            {_conv("noise", "sum_on", "last")}
            most = Constant <value = float {{0.75}}> ()
            rest = Constant <value = float {{0.25}}> ()
            bounded = Tanh (noise)
            kept = Mul (latent, most)
            change = Mul (bounded, rest)
            denoised = Add (kept, change)
        }}""",
        weights,
    )
    shape, condition = (1, 4, size, size), seeded.values(1, 16)
    steps = [{"timestep": np.array([step], np.float32), "condition": condition} for step in range(STEPS)]
    inputs = {"latent": seeded.values(*shape), **steps[3]}
    return Case(model, inputs, {"loop": Loop({"denoised": "latent"}, {"latent": np.zeros(shape, np.float32)}, steps)})


def _conv(output: str, x: str, weights: str) -> str:
    return f"{output} = Conv <pads = [1, 1, 1, 1]> ({x}, kernel_{weights}, bias_{weights})"


def text_encoder() -> Case:
    seeded, vocab, length, hidden, condition = Seeded(22), 128, 8, 32, 16
    weights = {
        "words": seeded.values(vocab, hidden),
        "places": seeded.values(length, hidden),
        "w1": seeded.weight(hidden, 2 * hidden, fan_in=hidden),
        "w2": seeded.weight(2 * hidden, condition, fan_in=hidden // 4),
    }
    model = build(
        f"""
        text_encoder (int64[1,8] ids) => (float[1,16] condition) {{
            word = Gather (words, ids)
            x = Add (word, places)
            up = MatMul (x, w1)
            {_silu("up")}
            mean = ReduceMean <axes = [1], keepdims = 0> (up_on)
            score = MatMul (mean, w2)
            condition = Tanh (score)
        }}""",
        weights,
    )
    return Case(model, {"ids": seeded.ids(vocab, 1, length)})


def image_decoder() -> Case:
    """Twice as high and wide at the end: four channels become the four pixels of a square."""
    seeded, channels = Seeded(23), 8
    weights: dict[str, Array] = {}
    for name, before, after in (("first", 4, channels), ("last", channels, 12)):
        weights[f"kernel_{name}"] = seeded.weight(after, before, 3, 3, fan_in=9 * before)
        weights[f"bias_{name}"] = seeded.values(after) / 4
    model = build(
        f"""
        image_decoder (float[1,4,32,32] latent) => (float[1,3,64,64] image) {{
            {_conv("x", "latent", "first")}
            {_silu("x")}
            {_conv("squares", "x_on", "last")}
            pixels = DepthToSpace <blocksize = 2> (squares)
            image = Sigmoid (pixels)
        }}""",
        weights,
    )
    return Case(model, {"latent": seeded.values(1, 4, 32, 32)})


def loop_on_device() -> Case:
    """Much state and little work, of operators that the reference device has; exact, as no digit is ever rounded away."""
    size, rows = 1 << 16, 4
    model = build(
        f"""
        loop_on_device (float[1,{size}] state, float[1,{size}] x) => (float[1,{size}] state_out, float[1,16384] y) {{
            half = Constant <value = float {{0.5}}> ()
            low = Constant <value = float {{-1.0}}> ()
            high = Constant <value = float {{1.0}}> ()
            kept = Mul (state, half)
            sum = Add (kept, x)
            state_out = Clip (sum, low, high)
            shape = Constant <value = int64[2] {{{rows}, 16384}}> ()
            mix = Constant <value = float[1,{rows}] {{0.5, -0.25, 0.75, 0.125}}> ()
            lines = Reshape (state_out, shape)
            y = MatMul (mix, lines)
        }}"""
    )
    # Saw teeth in steps of 1/128, shifted from line to line: easy to compress, as is all that comes of them.
    teeth = [(5 * np.arange(size // rows) + 37 * row) % 256 for row in range(rows)]
    x = np.asarray(np.concatenate(teeth) / 128 - 1, np.float32).reshape(1, size)
    zeros = np.zeros((1, size), np.float32)
    loop = Loop({"state_out": "state"}, {"state": zeros}, [{"x": x}] * STEPS)
    return Case(model, {"state": x[:, ::-1].copy(), "x": x}, {"loop": loop})


def growing_on_device() -> Case:
    """A state that grows by an entry in each step, which depends on all before it; of the reference device's operators."""
    model = build("""
        growing_on_device (float[1,2,past_length,16] past, float[1,2,1,16] x) => (
            float[1,2,total_length,16] present, float[1,2,1,16] y
        ) {
            seen = Concat <axis = 2> (past, x)
            mean = GlobalAveragePool (seen)
            sum = Add (x, mean)
            y = Tanh (sum)
            present = Concat <axis = 2> (past, y)
        }""")
    seeded = Seeded(24)
    x = seeded.values(1, 2, 1, 16)
    steps: Sequence[dict[str, Array]] = [{"x": x}] * STEPS
    loop = Loop({"present": "past"}, {"past": np.zeros((1, 2, 0, 16), np.float32)}, steps)
    return Case(model, {"past": seeded.values(1, 2, 6, 16), "x": x}, {"loop": loop})


CASES: tuple[Callable[[], Case], ...] = (
    recurrent_cell,
    denoiser,
    text_encoder,
    image_decoder,
    loop_on_device,
    growing_on_device,
)
