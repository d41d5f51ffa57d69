"""What a loop is asked to do: patterns of what is fed back, and the options that go with them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput
from ortbench.core.expressions import match_pairs, nearest
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
OUTS = ["logits", "present.0.key", "present.0.value", "present.1.key", "present.1.value"]
INS = ["ids", "past_key_values.0.key", "past_key_values.0.value", "past_key_values.1.key", "past_key_values.1.value"]
PAIRS = list(zip(OUTS[1:], INS[1:], strict=True))
FED = (("y", "x"),)


# Patterns


def test_pairings() -> None:
    assert parse_pairings(["y=x", "p.*=q.*", "a=b=c"]) == (("y", "x"), ("p.*", "q.*"), ("a", "b=c"))
    for item in ["y", "y=", "=x", "=", "", "y=q.*", "p.*.*=q.*"]:
        refusal(BadInput, parse_pairings, [item])


def test_patterns_stand_for_pairs_in_the_order_of_the_outputs() -> None:
    for feedback in [
        [("present.*", "past_key_values.*")],
        [("present.*.*", "past_key_values.*.*")],
        [("present.*.value", "past_key_values.*.value"), ("present.*.key", "past_key_values.*.key")],
        [("present.1.*", "past_key_values.1.*"), ("present.0.key", "past_key_values.0.key"), ("present.0.value", "past_key_values.0.value")],
    ]:  # fmt: skip
        assert match_pairs(feedback, OUTS, INS) == PAIRS
    assert match_pairs([("*.*", "*_*")], ["h.c", "g.d"], ["g_d", "h_c"]) == [("h.c", "h_c"), ("g.d", "g_d")]
    assert match_pairs([("*", "in_*")], ["a", "b"], ["in_b", "in_a"]) == [("a", "in_a"), ("b", "in_b")]
    assert (
        refusal(BadInput, match_pairs, [("a.c", "x")], ["abc"], ["x"])
        == "--feedback a.c=x: the model has no such output; it has abc"
    )


def test_patterns_that_fit_nothing_or_too_much() -> None:
    for feedback, message in [
        ([("present", "ids")], "--feedback present=ids: the model has no such output; it has present.1.key, present.0.key, "
                               "present.1.value …"),
        ([("zzz.*", "ids.*")], "--feedback zzz.*=ids.*: the model has no such output; it has logits, present.0.key, "
                               "present.0.value, present.1.key, present.1.value"),
        ([("present.*", "past.*")], "--feedback present.*=past.*: the model has no input 'past.0.key'; it has "
                                    "past_key_values.0.key, past_key_values.1.key, past_key_values.1.value …"),
        ([("logits", "ids"), ("logits", "ids")], "--feedback logits=ids: 'logits' is fed back already"),
        ([("logits", "ids"), ("present.0.key", "ids")], "--feedback present.0.key=ids: 'ids' is fed already"),
    ]:  # fmt: skip
        assert refusal(BadInput, match_pairs, feedback, OUTS, INS) == message
    assert nearest("hiden", ["x", "hidden"]) == "; it has hidden …"
    assert nearest("x", []) == ""
    assert nearest("zzz", [f"name{n}" for n in range(9)]) == f"; it has {', '.join(f'name{n}' for n in range(8))} …"


# Options


def steps_of(given: RawOptions) -> Part:
    return planner_of(TINY, given)[1](TINY, given).part


def test_the_options_of_a_loop() -> None:
    given = {
        "feedback": ["y=x"], "steps": 5, "first-dim": ["sequence=7"], "fill": ["mask=1", "ids=past+index"],
        "keep": ["logits"], "resident": ["condition"],
    }  # fmt: skip
    steps = Steps(FED, 5, {"sequence": 7}, {"mask": "1", "ids": "past+index"}, ("logits",), ("condition",))
    assert steps_of(typed(given, "loop")) == steps
    assert steps_from(json.loads(json.dumps(asdict(steps)))) == steps
    assert steps_of({"feedback": FED}) == Steps(FED) == steps_from(json.loads(json.dumps(asdict(Steps(FED)))))
    assert Steps().count == 16
    assert steps_of({}) == Part()
    for flag in ["steps", "first-dim", "fill", "keep", "resident"]:
        assert (
            refusal(BadInput, steps_of, {flag: 3})
            == f"--{flag} is for a loop: say what is fed back with --feedback OUT=IN"
        )
    generation = {"prompt-length": "8", "generate": "4", "tokens": "t.npy"}
    made = Steps(count=4, prompt_length=8, generate=4, tokens="t.npy", decoder=Decoder())
    assert steps_of(typed(generation, "loop")) == made == steps_from(json.loads(json.dumps(asdict(made))))
    assert loop_of(TINY, {}).part == Steps(count=64, decoder=Decoder())
    assert steps_of({"feedback": FED, "generate": 9}) == Steps(FED, 9, generate=9, decoder=Decoder())
    for flag in ["steps", "first-dim"]:
        assert (
            refusal(BadInput, loop_of, TINY, {flag: 3})
            == f"--{flag}: give --feedback OUT=IN too; a model that generates takes --generate and --prompt-length"
        )


def test_modes_of_a_loop() -> None:
    assert modes_to_measure({"feedback": FED}) == ("cpu-tensors", "device-resident", "host-accessible")
    assert modes_to_measure({"feedback": FED, "mode": ["all"]}) == (*modes_to_measure({"feedback": FED}), "shared")
    assert modes_to_measure({"feedback": FED, "mode": ["shared", "default"]}) == (
        "shared",
        *modes_to_measure({"feedback": FED}),
    )
    assert "shared" not in modes_to_measure({})
    plan = loop_of(TINY, {"feedback": FED, "steps": 3})
    assert plan.part == Steps(FED, 3)
    assert plan.worker_request()["steps"] == asdict(Steps(FED, 3))
    assert "steps" not in plan_of(TINY, {}).worker_request()
    check(plan)


def test_a_folder_whose_cache_is_shared_is_measured_so(tmp_path: Path) -> None:
    for shared in (False, True):
        folder = genai_folder(tmp_path / f"model-{shared}", "gpt", shared)
        asked: list[tuple[dict[str, Any], tuple[str, ...], bool | None]] = [
            ({}, (*USUAL_LOOP_MODES, *["shared"] * shared), shared),
            ({"mode": ["cpu-tensors"]}, ("cpu-tensors",), False),
            ({"mode": ["shared"]}, ("shared",), True),
            ({"feedback": FED}, (*USUAL_LOOP_MODES, *["shared"] * shared), None),
        ]
        for given, modes, fixed in asked:
            plan = loop_of(str(folder), given)
            assert plan.model == str(folder / "model.onnx")
            assert plan.modes == modes
            assert isinstance(plan.part, Steps)
            assert (plan.part.decoder and plan.part.decoder.shared) == fixed
            check(plan)


def test_a_state_may_have_nothing_yet() -> None:
    check(Plan(TINY, part=Steps(FED), modes=("cpu-tensors",), inputs=Inputs(dims={"past_length": 0})))
