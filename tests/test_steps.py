"""What a loop is asked to do: patterns of what is fed back, the options that go with them, and sums of dimensions and of the step."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.core.errors import BadInput
from ortbench.core.expressions import match_pairs, names_in, nearest, value_of
from ortbench.features.loop.plan import Decoder, Steps, loop_of, steps_from
from ortbench.model.modes import USUAL_LOOP_MODES, Part
from ortbench.plan.option_types import parse_pairings
from ortbench.plan.options import RawOptions
from ortbench.plan.plan import Plan, check
from ortbench.plan.plan_builder import modes_to_measure, plan_of, planner_of
from ortbench.plan.target import Inputs
from tests.conftest import MODELS
from tests.decoders import genai_folder
from tests.expect import refusal
from tests.typed import typed

TINY = str(MODELS / "tiny.onnx")
PARTS = [f"{layer}.{kind}" for layer in (0, 1) for kind in ("key", "value")]
OUTS = ["logits", *(f"present.{it}" for it in PARTS)]
INS = ["ids", *(f"past_key_values.{it}" for it in PARTS)]
FED = (("y", "x"),)


def test_pairings() -> None:
    assert parse_pairings(["y=x", "p.*=q.*", "a=b=c"]) == (("y", "x"), ("p.*", "q.*"), ("a", "b=c"))
    for item in ["y", "y=", "=x", "=", "", "y=q.*", "p.*.*=q.*"]:
        refusal(BadInput, parse_pairings, [item])


def test_patterns_stand_for_pairs_in_the_order_of_the_outputs() -> None:
    for pattern in (["*"], ["*.*"], ["*.value", "*.key"], ["1.*", "0.key", "0.value"]):
        feedback = [(f"present.{it}", f"past_key_values.{it}") for it in pattern]
        assert match_pairs(feedback, OUTS, INS) == list(zip(OUTS[1:], INS[1:], strict=True))
    assert match_pairs([("*.*", "*_*")], ["h.c", "g.d"], ["g_d", "h_c"]) == [("h.c", "h_c"), ("g.d", "g_d")]
    assert match_pairs([("*", "in_*")], ["a", "b"], ["in_b", "in_a"]) == [("a", "in_a"), ("b", "in_b")]


def test_patterns_that_fit_nothing_or_too_much() -> None:
    feedback: list[tuple[list[tuple[str, str]], str]] = [
        ([("present", "ids")], "present=ids: the model has no such output; it has present.1.key"),
        ([("zzz.*", "ids.*")], "zzz.*=ids.*: the model has no such output; it has logits"),
        (
            [("present.*", "past.*")],
            "present.*=past.*: the model has no input 'past.0.key'; it has past_key_values.0.key",
        ),
        ([("logits", "ids"), ("logits", "ids")], "logits=ids: 'logits' is fed back already"),
        ([("logits", "ids"), ("present.0.key", "ids")], "present.0.key=ids: 'ids' is fed already"),
    ]
    for pairs, message in feedback:
        assert refusal(BadInput, match_pairs, pairs, OUTS, INS).startswith(f"--feedback {message}")
    dot = refusal(BadInput, match_pairs, [("a.c", "x")], ["abc"], ["x"])
    assert dot == "--feedback a.c=x: the model has no such output; it has abc"
    assert (nearest("hiden", ["x", "hidden"]), nearest("x", [])) == ("; it has hidden …", "")
    assert nearest("zzz", [f"name{n}" for n in range(9)]) == f"; it has {', '.join(f'name{n}' for n in range(8))} …"


# Options


def steps_of(given: RawOptions) -> Part:
    return planner_of(TINY, given)[1](TINY, given).part


EVERYTHING = {
    "feedback": ["y=x"], "steps": 5, "first-dim": ["sequence=7"], "fill": ["mask=1", "ids=past+index"], "keep": ["logits"],
    "resident": ["condition"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        (EVERYTHING, Steps(FED, 5, {"sequence": 7}, {"mask": "1", "ids": "past+index"}, ("logits",), ("condition",))),
        ({"feedback": ["y=x"]}, Steps(FED, 16)),
        ({"prompt-length": "8", "generate": "4", "tokens": "t.npy"}, Steps(count=4, prompt_length=8, generate=4, tokens="t.npy", decoder=Decoder())),
        ({"feedback": ["y=x"], "generate": "9"}, Steps(FED, 9, generate=9, decoder=Decoder())),
    ],
)  # fmt: skip
def test_the_options_of_a_loop(given: dict[str, Any], steps: Steps) -> None:
    assert steps_of(typed(given, "loop")) == steps == steps_from(json.loads(json.dumps(asdict(steps))))


def test_options_of_what_is_no_loop() -> None:
    assert (steps_of({}), loop_of(TINY, {}).part) == (Part(), Steps(count=64, decoder=Decoder()))
    for flag in ("first-dim", "keep", "resident"):  # others are in tests/cli/refusals.txt
        said = refusal(BadInput, steps_of, {flag: 3})
        assert said == f"--{flag} is for a loop: say what is fed back with --feedback OUT=IN"
    check(Plan(TINY, part=Steps(FED), modes=("cpu-tensors",), inputs=Inputs(dims={"past_length": 0})))  # nothing yet


def test_modes_of_a_loop() -> None:
    usual = ("cpu-tensors", "device-resident", "host-accessible")
    for given, found in (
        ({}, usual),
        ({"mode": ["all"]}, (*usual, "shared")),
        ({"mode": ["shared", "default"]}, ("shared", *usual)),
    ):
        assert modes_to_measure({"feedback": FED, **given}) == found
    assert "shared" not in modes_to_measure({})
    plan = loop_of(TINY, {"feedback": FED, "steps": 3})
    assert plan.worker_request()["steps"] == asdict(Steps(FED, 3))
    assert "steps" not in plan_of(TINY, {}).worker_request()
    check(plan)


@pytest.mark.parametrize("shared", [False, True])
def test_a_folder_whose_cache_is_shared_is_measured_so(shared: bool, tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt", shared)
    usual = (*USUAL_LOOP_MODES, *["shared"] * shared)
    asked: list[tuple[dict[str, Any], tuple[str, ...], bool | None]] = [
        ({}, usual, shared), ({"mode": ["cpu-tensors"]}, ("cpu-tensors",), False), ({"mode": ["shared"]}, ("shared",), True),
        ({"feedback": FED}, usual, None),
    ]  # fmt: skip
    for given, modes, fixed in asked:
        plan = loop_of(str(folder), given)
        assert (plan.model, plan.modes) == (str(folder / "model.onnx"), modes)
        assert isinstance(plan.part, Steps)
        assert (plan.part.decoder and plan.part.decoder.shared) == fixed
        check(plan)


# Sums of dimensions and of the step


def test_the_names_in_an_expression() -> None:
    for text, names in [
        (" past + sequence ", {"past", "sequence"}),
        ("(a-b)*c//d%e/f", {"a", "b", "c", "d", "e", "f"}),
        ("-step", {"step"}),
        ("past.0.key[2]-x:0[1]*m[0]", {"past.0.key[2]", "x:0[1]", "m[0]"}),  # dimensions without a name
        ("p2o.DynamicDimension.1//2+1e3", {"p2o.DynamicDimension.1"}),
        ("0.5", set()),
        ("1//0", set()),  # which is not looked at yet
    ]:
        assert names_in(text) == names
    for text in [
        "", " ", "a b", "a+", "1_x", "a**2", "a@b", "a<<1", "a&b", "a and b", "not a", "a if b else c", "f(a)", "a.", "a:", "1.5x", "a[b]", "a [0]", "[0]",
        "'a'", "True", "None", "1j", "...", "a,b", "[a]", "lambda: a", "x:=1", "~a", "+a", "a<b", "{a}", "b''", "f'{a}'",
        "a\nb", "(" * 250 + "a" + ")" * 250, "a+" * 100 + "a", "\0",
    ]:  # fmt: skip
        assert names_in(text) is None


def test_values() -> None:
    for text, value in [
        ("past+1", 8), ("2*past-sequence", 9), ("past//2", 3), ("past/2", 3.5), ("past%4", 3), ("-past", -7),
        ("(past+1)*sequence", 40), ("past+1*sequence", 12), ("1-2-3", -4), ("0.5", 0.5), ("1000-500*step", -500),
    ]:  # fmt: skip
        assert value_of(text, {"past": 7, "sequence": 5, "step": 3}, "--x") == value
    assert value_of("2*past.0.key[2]+m[0]-m[0]", {"past.0.key[2]": 7, "m[0]": 3}, "--x") == 14
    index = np.arange(4)
    np.testing.assert_array_equal(value_of("past+index%2", {"past": 6, "index": index}, "--x"), [6, 7, 6, 7])
    with np.errstate(divide="raise"), pytest.raises(BadInput, match=r"^--x: divides by zero$"):
        value_of("1/index", {"index": np.arange(3)}, "--x")


def test_what_has_no_value() -> None:
    unknown: list[tuple[str, dict[str, int], str]] = [
        ("a+b", {"b": 1, "step": 0}, "'a' is not known here; known are b, step"),
        ("1+m[0]", {"a": 1}, "'m[0]' is not known here; known are a"),
        ("a", {}, "'a' is not known here; known are nothing"),
        ("1//a", {"a": 0}, "divides by zero"),
        ("1/(a-2)", {"a": 2}, "divides by zero"),
        ("1%a", {"a": 0}, "divides by zero"),
        ("a/1", {"a": 10**400}, "is beyond all bounds"),
    ]
    for text, known, message in unknown:
        assert refusal(BadInput, value_of, text, known, f"--x {text}") == f"--x {text}: {message}"
