"""Which outputs look as if they were fed back: names as exporters write them, and names that only look like it."""

from __future__ import annotations

from functools import partial

import pytest

from ortbench.analysis.advice import loop_command
from ortbench.analysis.feedback_pairs import patterns, suggest_loop
from ortbench.model.schema import SuggestedLoop, Tensor
from ortbench.plan.next_command import CarriedOut
from tests.expect import there

Dims = list[int | str | None]
X: Dims = [1, 4]


def tensor(name: str, shape: Dims, kind: str = "tensor(float)") -> Tensor:
    return {"name": name, "type": kind, "model_shape": shape, "shape": None, "bytes": None}


def suggested(inputs: list[Tensor], outputs: list[Tensor]) -> SuggestedLoop | None:
    return suggest_loop(inputs, outputs, partial(loop_command, CarriedOut((), "m.onnx", inputs)))


def caches(name: str, length: str, of: str = "") -> list[Tensor]:
    """Keys and values of both layers."""
    parts = [f"{layer}.{of}{kind}" for layer in range(2) for kind in ("key", "value")]
    return [tensor(f"{name}.{part}", ["batch", 8, length, 64]) for part in parts]


def masks(total: str) -> list[Tensor]:
    return [
        tensor("hidden", ["batch", "sequence", 64]),
        tensor("attention_mask", ["batch", total], "tensor(int64)"),
        tensor("position_ids", ["batch", "sequence"], "tensor(int64)"),
    ]


LOGITS = tensor("logits", ["batch", "sequence", 100])
PAST, PRESENT = ([tensor(f"{it}_{kind}", [1, 2, 64, 16]) for kind in ("key", "value")] for it in ("past", "present"))


def test_lengths_of_caches() -> None:
    for inputs, outputs, options in (
        ([*masks("total_length"), *caches("past_key_values", "past_length")], [LOGITS, *caches("present", "total_length")],
         "--feedback 'present.*=past_key_values.*' --dim total_length=past_length+sequence --fill attention_mask=1 "
         "--fill position_ids=past_length+index"),
        ([*masks("past_sequence_length + 1"), *caches("past_key_values", "past_sequence_length")], [LOGITS, *caches("present", "past_sequence_length + 1")],
         "--feedback 'present.*=past_key_values.*' --fill attention_mask=1 --fill position_ids=past_sequence_length+index"),
        ([tensor("position_ids", [1, 1], "tensor(int64)"), *PAST], PRESENT, "--feedback 'present_*=past_*' --fill position_ids=step"),
    ):  # fmt: skip
        assert there(suggested(inputs, outputs))["command"] == f"ortbench loop m.onnx {options}"


def test_the_encoders_part_of_a_cache_that_is_not_given_back_is_no_state() -> None:
    past = [it for of in ("decoder.", "encoder.") for it in caches("past_key_values", "past_length", of)]
    found = there(suggested(past, [LOGITS, *caches("present", "past_length + 1", "decoder.")]))
    parts = [f"{layer}.decoder.{kind}" for layer in range(2) for kind in ("key", "value")]
    assert found["feedback"] == [[f"present.{it}", f"past_key_values.{it}"] for it in parts]
    assert suggested(masks("latency")[1:2], [LOGITS, *caches("present", "length")]) is None


@pytest.mark.parametrize(
    ("before", "behind"),
    [
        ("hidden", "hidden_out"), ("X_in", "X_out"), ("X", "new_X"), ("X", "next_X"), ("h0", "h1"), ("h", "hn"), ("state", "stateN"),
        ("r1i", "r1o"), ("past", "present"), ("past_0", "present_0"), ("prev_state", "next_state"),
    ],
)  # fmt: skip
def test_names_that_are_alike(before: str, behind: str) -> None:
    found = there(suggested([tensor("k", X), tensor(before, X)], [tensor("q", X), tensor(behind, X)]))
    assert (found["feedback"], found["sure"]) == ([[behind, before]], True)
    assert found["command"] == f"ortbench loop m.onnx --feedback {behind}={before}"


def test_what_is_a_maybe_and_what_cannot_be_fed_back() -> None:
    inputs, outputs = [tensor("latent", X), tensor("timestep", [1])], [tensor("denoised", X)]
    found = there(suggested(inputs, outputs))
    assert (found["feedback"], found["sure"]) == ([["denoised", "latent"]], False)
    assert suggested([*inputs, tensor("noise", X)], outputs) is None
    for into, out in (
        (tensor("h", X), tensor("h_out", X, "tensor(float16)")),
        (tensor("h", X), tensor("h_out", [1, 5])),
        (tensor("h*", X), tensor("h*_out", X)),
        (tensor("h", X, "seq(tensor(float))"), tensor("h_out", X, "seq(tensor(float))")),
    ):
        assert suggested([into], [out]) is None


def test_pairs_in_few_words() -> None:
    for pairs, others, shown in (
        ([("h1_out", "h1"), ("h2_out", "h2")], ["y_out"], [("h*_out", "h*")]),
        ([("new_a", "a"), ("new_b", "b")], ["new_c"], [("new_a", "a"), ("new_b", "b")]),  # which * would stand for too
        ([(f"present_{it}", f"past_{it}") for it in range(12)], [], [("present_*", "past_*")]),
    ):
        assert patterns(pairs, [*others, *(out for out, _ in pairs)], [into for _, into in pairs]) == shown
