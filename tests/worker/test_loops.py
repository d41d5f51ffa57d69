"""Loops on the CPU EP, in this process: what goes in, what comes out, and that wrong loops are found out."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.core.errors import BadInput, BenchmarkFailed, Unsupported
from ortbench.features.loop.plan import Steps
from ortbench.features.loop.worker import CpuLoop, ResidentLoop, data, make_loop
from ortbench.features.loop.worker.base import LoopMode
from ortbench.features.loop.worker.bound import Links
from ortbench.features.loop.worker.data import LoopData
from ortbench.model.modes import LATENCY, LOOP_MODES
from ortbench.plan.target import Inputs
from ortbench.worker.proofs import check_outputs
from ortbench.worker.session import Model
from tests import worker
from tests.conftest import MODELS
from tests.expect import refusal
from tests.truth import in_fork
from tests.worker import saved
from tests.wrong_loops import CASES, READS_LATE, RIGHT

CACHE = (("present.*", "past_key_values.*"),)
GROWN: dict[str, int | str] = {"total_length": "past_length+sequence"}
FILL = {"attention_mask": "1", "position_ids": "past_length+index"}
LOOPS: dict[str, tuple[Steps, Inputs]] = {
    "recurrent_cell": (Steps((("hidden_out", "hidden"),), 6), Inputs()),
    "decoder": (Steps(CACHE, 6, fill=FILL), Inputs(dims=GROWN)),
    "decoder_shared": (Steps(CACHE, 6, fill={"position_ids": "step"}), Inputs()),
    "denoiser": (Steps((("denoised", "latent"),), 6, fill={"timestep": "step"}), Inputs()),
    "loop_on_device": (Steps((("state_out", "state"),), 6), Inputs()),
    "growing_on_device": (Steps((("present", "past"),), 6), Inputs()),
}
MODES = [name for name, mode in LOOP_MODES.items() if not mode.extra]
opened = cache(worker.opened)


def made_of(path: Path, request: Inputs, steps: Steps) -> LoopData:
    return data.make_loop_data(str(path), opened(path), request, steps)


def loop_of(name: str) -> tuple[Model, LoopData, Steps, Inputs]:
    """A loop of a model of ours, compared with the recorded outputs of every step."""
    steps, request = LOOPS[name]
    path = MODELS / f"{name}.onnx"
    given = replace(request, path=str(MODELS / f"{name}.loop.inputs.npz"), expect=str(MODELS / f"{name}.loop.npz"))
    return opened(path), made_of(path, given, steps), steps, given


def check_mode(name: str, model: Model, loop: LoopData, steps: Steps, request: Inputs) -> LoopMode:
    """A mode whose steps give what they should."""
    made = make_loop(name, model, loop, steps, request)
    check_outputs(made, None, None)
    made.compare_steps(None, None)
    return made


def check_modes(path: Path, loop: LoopData, steps: Steps, request: Inputs) -> None:
    for mode in MODES:
        check_mode(mode, opened(path), loop, steps, request)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("mode", MODES)
def test_every_step_of_every_model_gives_what_is_expected(name: str, mode: str) -> None:
    model, loop, steps, request = loop_of(name)
    assert loop.single.expected
    made = check_mode(mode, model, loop, steps, request)
    call, a, b = made.phases()[LATENCY]
    made.take_times(0)
    for _ in range(3):
        call(a, b)
    times = made.take_times(2)
    assert len(times) == 2 * 6
    assert all(time > 0 for time in times)
    assert made.take_times(0) == []
    count = 6 * (len(model.outputs) - len(loop.pairs)) + len(loop.pairs)  # each step's outputs, and the last state
    assert len(made.outputs()) == len(made.expected_outputs()) == count


def test_a_prompt_comes_first() -> None:
    path, (steps, request) = MODELS / "decoder.onnx", LOOPS["decoder"]
    with np.load(MODELS / "decoder.prefill.npz") as recorded:
        ids = recorded["step0/in/input_ids"]
    plan = replace(steps, first_dims={"sequence": 5})
    loop = made_of(path, request, plan)
    assert ids.shape == loop.feeds[0]["input_ids"].shape == (1, 5)
    assert [step["input_ids"].shape for step in loop.feeds[1:]] == [(1, 1)] * 5
    assert loop.feeds[0]["position_ids"].tolist() == [[0, 1, 2, 3, 4]]
    assert [step["position_ids"].tolist() for step in loop.feeds[1:]] == [[[at]] for at in range(5, 10)]
    assert [step["attention_mask"].shape for step in loop.feeds] == [(1, n) for n in range(5, 11)]
    assert [shapes[0] for shapes in loop.shapes] == [(1, 2, n, 16) for n in (0, *range(5, 11))]
    check_modes(path, loop, plan, request)


def test_the_state_begins_with_zeros_or_with_what_is_given(tmp_path: Path) -> None:
    path, steps = MODELS / "growing_on_device.onnx", Steps((("present", "past"),), 2)
    assert made_of(path, Inputs(), steps).first[0].shape == (1, 2, 0, 16)
    long = made_of(path, Inputs(dims={"past_length": 3}), steps)
    assert long.first[0].shape == (1, 2, 3, 16)
    assert not long.first[0].any()
    assert [shapes[0][2] for shapes in long.shapes] == [3, 4, 5]
    np.savez(tmp_path / "first.npz", past=np.full((1, 2, 4, 16), 0.5, np.float32))
    given = made_of(path, Inputs(path=str(tmp_path / "first.npz")), steps)
    np.testing.assert_array_equal(given.last[0][:, :, :4], np.full((1, 2, 4, 16), 0.5, np.float32))
    assert [shapes[0][2] for shapes in given.shapes] == [4, 5, 6]


CELL = "g (float[{0},4] x, float[{1},4] s) => (float[{2},4] o) {{ t = Add(x, s)  o = Tanh(t) }}"
JOIN = "g (float[{0}] x, float[{1}] s) => (float[{2}] o) {{ o = Concat<axis={3}>(s, x) }}"
LAST = """g (float[1,{0}] x, float[1,{1}] s) => (float[1,{2}] o) {{
    begin = Constant<value_ints=[{3}]>()  end = Constant<value_ints=[{4}]>()  axis = Constant<value_ints=[1]>()
    both = Concat<axis=1>(s, x)  o = Slice(both, begin, end, axis) }}"""
LSTM = """g (float[1,{0},2] x, float[1,{1},3] h, float[1,{2},3] c) => (float[1,{3},3] hn, float[1,{4},3] cn) {{
    w = ConstantOfShape(ws)  r = ConstantOfShape(rs)  y, hn, cn = LSTM<hidden_size=3>(x, w, r, , , h, c) }}"""
LSTM = LSTM.replace("{{\n    w", "<int64[3] ws = {{1, 12, 2}}, int64[3] rs = {{1, 12, 3}}> {{\n    w")
MEAN = "g (float[{0},4] x, float[{1},4] s) => (float[{2},4] o) {{ m = ReduceMean<axes=[0]>(s)  o = Add(x, m) }}"
CACHE_AND_MASK = """g (float[1,n] x, float[1,past] s, float[1,total] mask) => (float[1,total_out] o) {
    both = Concat<axis=1>(s, x)  o = Mul(both, mask) }"""


@pytest.mark.parametrize(
    ("text", "dims", "first", "last"),
    [
        (CELL.format("x_dynamic_axes_1", "s_dynamic_axes_1", "o_dynamic_axes_1"), {"x_dynamic_axes_1": 3}, (3, 4), (3, 4)),
        (CELL.format("?", "?", "?"), {"x[0]": 5}, (5, 4), (5, 4)),
        (MEAN.format("n", "m", "k"), {}, (1, 4), (1, 4)),  # what is behind a step does not depend on what was before
        (JOIN.format("1,n", "1,past", "1,total", 1), {"past": 2}, (1, 2), (1, 5)),  # as was asked for
        (JOIN.format("1,n", "1,past", "1,total", 1), {"n": 5}, (1, 0), (1, 15)),
        (JOIN.format("1,n,2", "1,?,2", "1,?,2", 1), {}, (1, 0, 2), (1, 3, 2)),
        (JOIN.format("1,n,2", "1,m,2", "1,m,2", 1), {}, (1, 0, 2), (1, 3, 2)),  # one name before and behind, and grows
        (JOIN.format("n,2", "rows,2", "more,2", 0), {}, (0, 2), (3, 2)),
        (JOIN.format("b,n,2", "c,past,2", "d,total,2", 1), {}, (1, 0, 2), (1, 3, 2)),  # a batch beside what grows
        (LAST.format("n", "before", "behind", -2, 9999), {}, (1, 0), (1, 2)),  # a window that fills up
        (LAST.format("n", "before", "behind", -4, 9999), {"n": 4}, (1, 4), (1, 4)),  # one that rolls
    ],
)  # fmt: skip
def test_a_step_says_which_dimensions_grow(
    text: str, dims: dict[str, int | str], first: tuple[int, ...], last: tuple[int, ...], tmp_path: Path
) -> None:
    loop = made_of(saved(tmp_path / "m.onnx", text), Inputs(dims=dims), Steps((("o", "s"),), 3))
    assert (loop.shapes[0][0], loop.shapes[-1][0]) == (first, last)
    check_modes(tmp_path / "m.onnx", loop, Steps((("o", "s"),), 3), Inputs(dims=dims))


def test_dimensions_that_trial_steps_have_sized_are_told(tmp_path: Path) -> None:
    path = saved(tmp_path / "lstm.onnx", LSTM.format("n", "a", "b", "c", "d"))
    loop = made_of(path, Inputs(), Steps((("hn", "h"), ("cn", "c")), 3))
    assert [array.shape for array in loop.first] == [(1, 1, 3)] * 2
    assert loop.single.guessed_dims == {"n": 1, "a": 1, "b": 1}
    path = saved(tmp_path / "cache.onnx", CACHE_AND_MASK)
    steps, request = Steps((("o", "s"),), 3, fill={"mask": "1"}), Inputs(dims={"total": "past+n"})
    loop = made_of(path, request, steps)
    assert (loop.shapes[-1], loop.single.guessed_dims) == ([(1, 3)], {"past": 0, "n": 1})
    loop = made_of(path, request, replace(steps, first_dims={"n": 5}))
    assert [shapes[0] for shapes in loop.shapes] == [(1, 0), (1, 5), (1, 6), (1, 7)]
    places = saved(tmp_path / "places.onnx", CACHE_AND_MASK.replace("[1,n]", "[1,?]").replace("[1,past]", "[1,?]"))
    given = replace(steps, fill={"mask": "s[1]+1-s[1]"}, first_dims={"x[1]": 5})
    loop = made_of(places, Inputs(dims={"total": "s[1]+x[1]"}), given)
    assert [shapes[0] for shapes in loop.shapes] == [(1, 0), (1, 5), (1, 6), (1, 7)]


def test_a_model_that_does_not_let_past_and_present_be_one_buffer(tmp_path: Path) -> None:
    path = saved(tmp_path / "late.onnx", READS_LATE)
    first = tmp_path / "first.npz"
    np.savez(first, state=np.ones(8, np.float32))
    request, steps = Inputs(path=str(first)), Steps((("state_out", "state"),), 4)
    loop = made_of(path, request, steps)
    why = r"^with past and present in one buffer, 8 of 8 values of output y of step 0 differ"
    with pytest.raises(Unsupported, match=why):
        make_loop("shared", opened(path), loop, steps, request)
    make_loop("device-resident", opened(path), loop, steps, request).compare_steps(None, None)


@pytest.mark.process
def test_wrong_loops_are_found_out(library: Path, tmp_path: Path) -> None:
    """All of them in one process on the reference device, which returns before it is done."""
    found = in_fork("tests.wrong_loops:main", tmp_path, library)
    right = {f"{kind.__name__} {name}" for kind, name in CASES if kind in RIGHT}
    assert {name for name, wrong in found.items() if wrong is None} == right
    assert len(found) == len(CASES) > len(right) == 6
    for name in found.keys() - right - {"GrownOnce grow"}:
        assert re.match(
            r"(\d+ of \d+ values of )?output \w+ (of step \d|after the last step) (differ|was not written)", found[name]
        )
    assert "shape" in found["GrownOnce grow"] or "failed" in found["GrownOnce grow"]


def test_a_step_that_fails_is_named() -> None:
    model, loop, steps, request = loop_of("recurrent_cell")
    made = make_loop("cpu-tensors", model, loop, steps, request)

    def fails() -> None:
        raise BenchmarkFailed("there is no room")

    call, a, b = made.phases()[LATENCY]
    for broken in (3, 0):
        made._calls[broken] = fails
        with pytest.raises(BenchmarkFailed, match=f"^step {broken + 1} of 6 failed: there is no room$"):
            call(a, b)


@pytest.mark.parametrize("links", [(), (Links({}, (), ()),)])
def test_a_first_state_that_the_session_wants_on_the_host_is_copied_to_no_device(links: tuple[Links, ...]) -> None:
    """Before a loop, and before a stage of a chain."""
    model, loop, steps, _ = loop_of("recurrent_cell")
    other, (pair,) = replace(model), loop.pairs
    inputs = [replace(place, is_host_only=number == pair.into) for number, place in enumerate(model.locations.inputs)]
    other.locations = model.locations._replace(inputs=inputs)
    every, less = (ResidentLoop(it, loop, steps, *links).bytes_in for it in (model, other))
    assert (every or 0) - (less or 0) == loop.first[0].nbytes


@pytest.mark.parametrize(
    ("name", "pairs", "more", "dims", "message"),
    [
        ("recurrent_cell", (("hidden_out", "x"),), {}, {},
         "--feedback hidden_out=x: step 1 gives [1, 128], and the model takes tensor(float) [1, 64]"),
        ("decoder", (("logits", "input_ids"),), {}, {},
         "--feedback logits=input_ids: the output is tensor(float) [batch, sequence, 128], and the input tensor(int64) [batch, "
         "sequence]"),
        ("decoder_shared", CACHE, {"fill": {"position_ids": "step/2"}}, {},
         "--fill position_ids=step/2: the input holds int64, and that is 0.5"),
        ("decoder_shared", CACHE, {"fill": {"position_ids": "other"}}, {},
         "--fill position_ids=other: 'other' is not known here; known are index, step"),
        ("recurrent_cell", LOOPS["recurrent_cell"][0].feedback, {"keep": ("z",)}, {}, "--keep z: the model has no such output; it has y, hidden_out"),
        ("recurrent_cell", LOOPS["recurrent_cell"][0].feedback, {"fill": {"nothing": "1"}}, {},
         "--fill nothing: the model has no such input; it has hidden …"),
        ("recurrent_cell", LOOPS["recurrent_cell"][0].feedback, {"keep": ("hidden_out",)}, {},
         "--keep hidden_out: is a state, and outputs that are none are meant"),
        ("denoiser", (("denoised", "latent"),), {"fill": {"timestep": "step"}, "resident": ("timestep",)}, {},
         "--resident timestep: its values in step 1 are not those of step 0, so it has to be copied again"),
        ("decoder", CACHE, {"fill": FILL}, {"total_length": "past_length-3"}, "--dim total_length=past_length-3: -2 is no size"),
    ],
)  # fmt: skip
def test_what_a_loop_cannot_be(name: str, pairs: Any, more: dict[str, Any], dims: Any, message: str) -> None:
    assert refusal(BadInput, made_of, MODELS / f"{name}.onnx", Inputs(dims=dims), Steps(pairs, **more)) == message


@pytest.mark.parametrize(
    ("text", "pairs", "dims", "message"),
    [
        (JOIN.format("1", "2", "N", 0), (("o", "s"),), {}, "--feedback o=s: step 1 gives [3], and the model takes tensor(float) [2]"),
        (CELL.format("x", "state", "next"), (("o", "s"),), {"state": 0},
         "--feedback o=s: the state s (0x4) has no elements in any step; give a size: --dim state=N"),
        ("g (float[4] x) => (float[4] y, float[4] x) { y = Relu(x) }", (("x", "x"),), {},
         "--feedback x=x: x is an input that the model passes through; feed back another output"),
    ],
)  # fmt: skip
def test_what_is_no_state(text: str, pairs: Any, dims: Any, message: str, tmp_path: Path) -> None:
    assert refusal(BadInput, made_of, saved(tmp_path / "m.onnx", text), Inputs(dims=dims), Steps(pairs, 3)) == message


def test_expected_outputs_of_steps(tmp_path: Path) -> None:
    path, file = MODELS / "recurrent_cell.onnx", tmp_path / "e.npz"
    keys = "keys are step0/NAME and so on, as many steps as there are"
    for name, said in (
        ("step0/z", f"{file} has 'step0/z', which is not known: its {keys}"),
        ("step6/y", f"{file} has 'step6/y', which is not known: its {keys}"),
        ("step0/in/x", f"{file} holds no outputs; its {keys}"),
        ("step2/y", "the outputs are not the expected ones: 32 of 32 values of output y of step 2 differ"),
    ):
        np.savez(file, **{name: np.zeros((1, 32), np.float32)})  # type: ignore[arg-type]
        with pytest.raises((BadInput, BenchmarkFailed), match=f"^{re.escape(said)}"):
            made_of(path, Inputs(expect=str(file)), LOOPS["recurrent_cell"][0])


def test_outputs_that_are_too_many_to_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_MOST_BYTES", 5 * 65536)  # an output y of loop_on_device has 64 KiB
    said = "--steps 16: the outputs of 6 steps take 0.0 GB; fewer steps, please"
    steps = Steps((("state_out", "state"),))
    assert refusal(BadInput, made_of, MODELS / "loop_on_device.onnx", Inputs(), steps) == said


def test_values_that_do_not_fit_the_input(tmp_path: Path) -> None:
    path = saved(tmp_path / "b.onnx", "g (float[4] s, uint8[4] u, bool[4] b) => (float[4] o) { f = Cast<to=1>(u) h = Cast<to=1>(b) t = Add(s, f) o = Add(t, h) }")  # fmt: skip
    fed = (("o", "s"),)
    loop = made_of(path, Inputs(), Steps(fed, 2, fill={"u": "250+index", "b": "index%2"}))
    assert loop.feeds[0]["u"].tolist() == [250, 251, 252, 253]
    assert loop.feeds[0]["b"].tolist() == [False, True, False, True]
    for name, expression, said in (
        ("u", "254+index", "the input holds uint8, and that is 256"),
        ("u", "0-1", "the input holds uint8, and that is -1"),
        ("b", "2", "the input holds bool, and that is 2"),
    ):
        wrong = refusal(BadInput, made_of, path, Inputs(), Steps(fed, 2, fill={name: expression}))
        assert wrong == f"--fill {name}={expression}: {said}"


@pytest.mark.parametrize(
    ("kind", "expression"), [("int64", "step"), ("float", "step/2"), ("bool", "1"), ("uint8", "3")]
)
def test_what_fills_a_scalar_is_a_scalar(kind: str, expression: str, tmp_path: Path) -> None:
    text = f"g (float[4] s, {kind}[] t) => (float[4] o) {{ f = Cast<to=1>(t) o = Add(s, f) }}"
    path, steps = saved(tmp_path / "scalar.onnx", text), Steps((("o", "s"),), 3, fill={"t": expression})
    loop = made_of(path, Inputs(), steps)
    assert [step["t"].shape for step in loop.feeds] == [()] * 3
    assert [array.shape for array in loop.last] == [(4,)]
    check_modes(path, loop, steps, Inputs())


def test_no_more_than_the_last_state_is_kept() -> None:
    """With numpy's arrays, which a loop of `run` could keep by mistake: they are all the memory there is."""
    path, steps = MODELS / "growing_on_device.onnx", Steps((("present", "past"),), 40)
    loop = made_of(path, Inputs(), steps)
    made = CpuLoop(opened(path), loop)
    call, a, b = made.phases()[LATENCY]
    call(a, b)
    kept = [array for step in made._got for array in step if array is not None]
    assert {array.shape for array in kept} == {(1, 2, 1, 16)}
    assert made.state(39)[0].shape == (1, 2, 40, 16)
