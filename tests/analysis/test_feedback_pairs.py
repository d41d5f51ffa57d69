"""Which outputs look as if they were fed back: names as exporters write them, and names that only look like it."""

from __future__ import annotations

from functools import partial

from ortbench.analysis.advice import loop_command
from ortbench.analysis.feedback_pairs import patterns, suggest_loop
from ortbench.model.schema import SuggestedLoop, Tensor
from ortbench.plan.next_command import CarriedOut
from tests.expect import there

Dims = list[int | str | None]
X: Dims = [1, 4]


def tensor(name: str, shape: Dims, kind: str = "float") -> Tensor:
    return {"name": name, "type": f"tensor({kind})", "model_shape": shape, "shape": None, "bytes": None}


def suggested(model: str, inputs: list[Tensor], outputs: list[Tensor]) -> SuggestedLoop | None:
    return suggest_loop(inputs, outputs, partial(loop_command, CarriedOut((), model, inputs)))


def caches(name: str, length: str, layers: int = 2, of: tuple[str, ...] = ("",)) -> list[Tensor]:
    """Keys and values of every layer."""
    return [
        tensor(f"{name}.{layer}.{part}{kind}", ["batch", 8, length, 64])
        for layer in range(layers)
        for part in of
        for kind in ("key", "value")
    ]


def ids(total: str) -> list[Tensor]:
    return [
        tensor("input_ids", ["batch", "sequence"], "int64"),
        tensor("attention_mask", ["batch", total], "int64"),
        tensor("position_ids", ["batch", "sequence"], "int64"),
    ]


LOGITS = tensor("logits", ["batch", "sequence", 100])


def test_lengths_of_caches() -> None:
    state = [tensor("hidden", ["batch", "sequence", 64])]
    masks = ids("total_length")[1:]
    found = there(
        suggested(
            "m.onnx",
            [*state, *masks, *caches("past_key_values", "past_length")],
            [LOGITS, *caches("present", "total_length")],
        )
    )
    assert found["command"] == (
        "ortbench loop m.onnx --feedback 'present.*=past_key_values.*' --dim total_length=past_length+sequence "
        "--fill attention_mask=1 --fill position_ids=past_length+index"
    )
    total = "past_sequence_length + 1"
    found = there(
        suggested(
            "m.onnx",
            [*state, *ids(total)[1:], *caches("past_key_values", "past_sequence_length")],
            [LOGITS, *caches("present", total)],
        )
    )
    assert found["command"] == (
        "ortbench loop m.onnx --feedback 'present.*=past_key_values.*' --fill attention_mask=1 "
        "--fill position_ids=past_sequence_length+index"
    )
    past, present = (
        [tensor(f"{name}_{kind}", [1, 2, 64, 16]) for kind in ("key", "value")] for name in ("past", "present")
    )
    found = there(suggested("m.onnx", [tensor("position_ids", [1, 1], "int64"), *past], present))
    assert found["command"] == "ortbench loop m.onnx --feedback 'present_*=past_*' --fill position_ids=step"


def test_the_encoders_part_of_a_cache_that_is_not_given_back_is_no_state() -> None:
    found = there(suggested(
        "m.onnx",
        [tensor("input_ids", ["batch", 1], "int64"),
         *caches("past_key_values", "past_length", 1, ("decoder.", "encoder."))],
        [LOGITS, *caches("present", "past_length + 1", 1, ("decoder.",))],
    ))  # fmt: skip
    assert found["feedback"] == [
        [f"present.0.decoder.{kind}", f"past_key_values.0.decoder.{kind}"] for kind in ("key", "value")
    ]
    assert suggested("m.onnx", ids("latency")[:1], [LOGITS, *caches("present", "length")]) is None


def test_names_that_are_alike() -> None:
    for before, behind in [
        ("hidden", "hidden_out"),
        ("X_in", "X_out"),
        ("X", "new_X"),
        ("X", "next_X"),
        ("h0", "h1"),
        ("h", "hn"),
        ("state", "stateN"),
        ("r1i", "r1o"),
        ("past", "present"),
        ("past_0", "present_0"),
        ("prev_state", "next_state"),
    ]:
        inputs, outputs = [tensor("k", X), tensor(before, X)], [tensor("q", X), tensor(behind, X)]
        found = there(suggested("m.onnx", inputs, outputs))
        assert (found["feedback"], found["sure"]) == ([[behind, before]], True)
        assert found["command"] == f"ortbench loop m.onnx --feedback {behind}={before}"


def test_what_is_a_maybe_and_what_cannot_be_fed_back() -> None:
    inputs = [tensor("latent", [1, 4, 32, 32]), tensor("timestep", [1])]
    found = there(suggested("m.onnx", inputs, [tensor("denoised", [1, 4, 32, 32])]))
    assert (found["feedback"], found["sure"]) == ([["denoised", "latent"]], False)
    two = [*inputs, tensor("noise", [1, 4, 32, 32])]
    assert suggested("m.onnx", two, [tensor("denoised", [1, 4, 32, 32])]) is None
    cases: list[tuple[Tensor, Tensor]] = [
        (tensor("h", X), tensor("h_out", X, "float16")),
        (tensor("h", X), tensor("h_out", [1, 5])),
        (tensor("h", X), tensor("h_out", [1, 4, 1])),
        (tensor("h*", X), tensor("h*_out", X)),
        ({**tensor("h", X), "type": "seq(tensor(float))"}, {**tensor("h_out", X), "type": "seq(tensor(float))"}),
    ]
    for into, out in cases:
        assert suggested("m.onnx", [into], [out]) is None


def test_pairs_in_few_words() -> None:
    for pairs, others, shown in [
        ([("r1o", "r1i"), ("r2o", "r2i")], (), [("r*o", "r*i")]),
        ([("h1_out", "h1"), ("h2_out", "h2")], ("y_out",), [("h*_out", "h*")]),
        ([("hn", "h"), ("cn", "c")], (), [("hn", "h"), ("cn", "c")]),
        # The * would stand for another output too.
        ([("new_a", "a"), ("new_b", "b")], ("new_c",), [("new_a", "a"), ("new_b", "b")]),
        ([("new_a", "a"), ("new_b", "b")], (), [("new_*", "*")]),
        ([("y", "x")], (), [("y", "x")]),
        ([("y", "x"), ("b", "a")], (), [("y", "x"), ("b", "a")]),
    ]:
        outputs, inputs = [out for out, _ in pairs], [into for _, into in pairs]
        assert patterns(pairs, [*others, *outputs], inputs) == shown


def test_a_pattern_stands_for_states_whose_numbers_have_one_digit_or_more() -> None:
    inputs, outputs = ([tensor(f"{name}_{number}", X) for number in range(12)] for name in ("past", "present"))
    assert there(suggested("m.onnx", inputs, outputs))["patterns"] == [["present_*", "past_*"]]
