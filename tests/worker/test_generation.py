"""Loops that generate on the CPU EP, in this process, compared with a plain loop that is written without ortbench."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from models.parts import Seeded
from ortbench.core.errors import BadInput, Unsupported, WrongOutputs
from ortbench.features.loop.plan import Decoder, Steps, found_in, steps_from
from ortbench.features.loop.worker import data, generation, make_loop, with_ep_of_folder
from ortbench.features.loop.worker.base import LoopMode
from ortbench.features.loop.worker.data import LoopData
from ortbench.model.modes import LATENCY, LOOP_MODES
from ortbench.plan.target import Inputs, Target
from ortbench.worker import providers, session
from ortbench.worker.proofs import check_outputs, find_difference
from ortbench.worker.session import Model
from tests.decoders import (
    MODELS,
    VOCAB,
    Array,
    Plain,
    genai_folder,
    gpt_like,
    plain,
)

PROMPT, COUNT = 5, 7
BATCHES = (1, 2)
FORMS = [("gpt", False), ("llama", False), ("llama", True)]


def opened(path: str) -> Model:
    target = Target(ep="cpu")
    return session.open_model(path, target, providers.find(target))


def made(
    folder: Path, batch: int = 1, shared: bool = False, dims: dict[str, int | str] | None = None, **more: Any
) -> tuple[Model, LoopData, Steps]:
    path, decoder = found_in(str(folder))
    steps = Steps(prompt_length=PROMPT, count=COUNT, generate=COUNT, decoder=replace(decoder, shared=shared))
    steps = replace(steps, **more)
    model = opened(path)
    return model, data.make_loop_data(path, model, Inputs(dims=dims or {"batch": batch}), steps), steps


def ids(batch: int, count: int) -> Array:
    return Seeded(3).ids(VOCAB, batch, count)


def saved(path: Path, tokens: Array) -> str:
    if path.suffix == ".json":
        path.write_text(json.dumps(tokens.tolist()))
    elif path.suffix == ".npz":
        np.savez(path, tokens=tokens)
    else:
        np.save(path, tokens)
    return str(path)


def after_each_step(mode: LoopMode, count: int) -> list[Array]:
    """The logits of each step of a loop, as the mode leaves them on the host."""
    mode.begin()
    found = []
    for number, (_, call) in enumerate(mode.steps()[1:]):
        call()
        found.append(mode.logits(number).copy())
    assert len(found) == count
    return found


def check_mode(name: str, model: Model, loop: LoopData, steps: Steps, wanted: Plain) -> None:
    count = steps.count
    check_loop(make_loop(name, model, loop, steps, Inputs()), model, loop, count, wanted)


def check_loop(mode: LoopMode, model: Model, loop: LoopData, count: int, wanted: Plain) -> None:
    check_outputs(mode, None, None)
    mode.compare_steps(None, None)
    for got, logits in zip(after_each_step(mode, count), wanted.logits, strict=True):
        np.testing.assert_allclose(got, logits[:, -got.shape[1] :], rtol=1e-4, atol=1e-5)
    call, a, b = mode.phases()[LATENCY]
    call(a, b)
    assert find_difference(mode, None, None) is None
    assert mode._chosen is not None
    assert mode._chosen.tolist() == wanted.tokens.tolist()
    for pair, state in zip(loop.pairs, mode.state(count - 1), strict=True):
        cache = wanted.cache[model.inputs[pair.into].name]
        np.testing.assert_allclose(state[:, :, : cache.shape[2]], cache, rtol=1e-4, atol=1e-5)
    assert mode.time_separately(3)["next_token_ns"] > 0


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize(("name", "shared"), FORMS)
def test_own_tokens_are_those_of_a_plain_loop_in_every_mode(
    name: str, shared: bool, batch: int, tmp_path: Path
) -> None:
    folder = genai_folder(tmp_path / "model", name)
    model, loop, steps = made(folder, batch, shared)
    told = loop.generated
    assert told is not None
    prompt = loop.feeds[0]["input_ids"]
    assert prompt.shape == (batch, PROMPT)
    wanted = plain(MODELS[name](), prompt, COUNT)
    assert told.tokens.tolist() == wanted.tokens.tolist()
    assert not told.near.any()
    assert told.fixed == shared
    for mode in LOOP_MODES:
        if mode == "shared" and not shared:
            with pytest.raises(Unsupported, match="changes its shape"):
                make_loop(mode, model, loop, steps, Inputs())
        else:
            check_mode(mode, model, loop, steps, wanted)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize(("batch", "prompt"), [(1, PROMPT), (2, 1)])
@pytest.mark.parametrize(("name", "shared"), FORMS)
def test_behind_a_context_the_tokens_are_those_of_one_long_prompt(
    name: str, shared: bool, batch: int, prompt: int, forced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "PART", 4)  # so that the cache is filled in several runs, the last a short one
    context, begun = 10, 10 + prompt
    folder, tokens = genai_folder(tmp_path / "model", name), ids(batch, begun + COUNT - 1)
    file = saved(tmp_path / "tokens.npy", tokens if forced else tokens[:, :begun])
    model, loop, steps = made(folder, batch, shared, tokens=file, context=context, prompt_length=prompt)
    assert loop.generated is not None
    assert loop.generated.forced_count == (COUNT - 1 if forced else 0)
    assert loop.generated.describe()["context"] == context
    assert loop.feeds[0]["input_ids"].shape == (batch, prompt)
    assert loop.feeds[1]["attention_mask"].shape == (batch, begun + 1)
    rest = np.hstack([tokens[:, begun:], np.zeros((batch, 1), np.int64)]) if forced else None
    wanted = plain(MODELS[name](), tokens[:, :begun], COUNT, rest)
    for mode in LOOP_MODES:
        if mode != "shared" or shared:
            check_mode(mode, model, loop, steps, wanted)


def test_a_context_is_random_without_a_file(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt")
    _, loop, _ = made(folder, context=9)
    assert {array.shape[2] for array in loop.first} == {9}
    assert len(np.unique(loop.first[0][0, 0, :, 0])) > 1
    _, again, _ = made(folder, context=9)
    assert all(np.array_equal(one, other) for one, other in zip(loop.first, again.first, strict=True))


@pytest.mark.parametrize("kind", ["npy", "npz", "json"])
def test_tokens_of_a_file_are_the_prompt_and_what_is_forced(kind: str, tmp_path: Path) -> None:
    folder, tokens = genai_folder(tmp_path / "model", "gpt"), ids(1, PROMPT + 2)
    path = saved(tmp_path / f"tokens.{kind}", tokens[0])
    _, loop, _ = made(folder, tokens=path)
    assert loop.generated is not None
    assert loop.generated.forced_count == 2
    first = plain(gpt_like(), tokens, COUNT - 2)  # the first own token comes behind those of the file
    assert loop.generated.tokens[0, 2:].tolist() == first.tokens[0].tolist()[: COUNT - 2]
    _, alone, _ = made(folder, tokens=path, prompt_length=None)
    assert alone.generated is not None
    assert (alone.generated.prompt, alone.generated.forced_count) == (PROMPT + 2, 0)


def test_a_mode_that_takes_the_wrong_token_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, loop, steps = made(genai_folder(tmp_path / "model", "gpt"))
    mode = make_loop("device-resident", model, loop, steps, Inputs())
    right = mode.logits
    monkeypatch.setattr(mode, "logits", lambda number: -right(number) if number == 3 else right(number))
    with pytest.raises(WrongOutputs, match="values of output tokens after the last step differ"):
        check_outputs(mode, None, None)
    assert loop.generated is not None
    loop.generated.near[:, 3] = True  # the two best are as good as each other: what comes behind cannot be compared
    check_outputs(mode, None, None)
    assert [name for name, _ in mode.expected_outputs()] == ["tokens after the last step"]


# What the model is


def test_names_alone_say_as_much_as_a_file(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt")
    _, loop, _ = made(folder)
    (folder / "genai_config.json").unlink()
    assert found_in(str(folder)) == (str(folder / "model.onnx"), Decoder())
    _, other, _ = made(folder)
    assert other.pairs == loop.pairs
    assert other.generated is not None
    assert loop.generated is not None
    assert other.generated.tokens.tolist() == loop.generated.tokens.tolist()
    assert (other.generated.said_by, loop.generated.said_by) == ("", "genai_config.json")


def test_what_genai_config_says(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt", shared=True)
    path, decoder = found_in(str(folder))
    assert path == str(folder / "model.onnx")
    assert decoder == Decoder(
        "genai_config.json",
        (("present.*.key", "past_key_values.*.key"), ("present.*.value", "past_key_values.*.value")),
        {"ids": "input_ids", "mask": "attention_mask", "positions": "position_ids", "logits": "logits"},
        512, True, 2, 16,
    )  # fmt: skip


def test_eps_that_genai_config_asks_for(tmp_path: Path) -> None:
    asked = [{"NvTensorRtRtx": {"device_id": 0}}, {"cuda": {"enable_cuda_graph": "1"}}, {"CPU": {}}]
    _, decoder = found_in(str(genai_folder(tmp_path / "model", "gpt", providers=asked)))
    assert decoder.providers == (
        ("nv-tensorrt-rtx", {"device_id": "0"}),
        ("cuda", {"enable_cuda_graph": "1"}),
        ("cpu", {}),
    )
    steps = asdict(Steps(decoder=decoder))
    assert steps_from(json.loads(json.dumps(steps))).decoder == decoder
    assert with_ep_of_folder(Target(), steps) == Target(ep="cpu")  # the others are not here
    assert with_ep_of_folder(Target(ep="webgpu"), steps) == Target(ep="webgpu")
    _, other = found_in(str(genai_folder(tmp_path / "other", "gpt", providers=asked[:2])))
    assert with_ep_of_folder(Target(), asdict(Steps(decoder=other))) == Target()
    assert with_ep_of_folder(Target(), None) == Target()


def test_a_folder_loads_no_code(tmp_path: Path) -> None:
    """Its EPs are none that a package or a library brings, and its options name no libraries, files or addresses."""
    asked = [{str(tmp_path / "evil.so"): {}}, {"numpy": {}}, {"CPU": {"backend_path": "evil.so"}}, {"CPU": {}}]
    _, decoder = found_in(str(genai_folder(tmp_path / "model", "gpt", providers=asked)))
    steps = asdict(Steps(decoder=replace(decoder, providers=decoder.providers[:2])))
    assert with_ep_of_folder(Target(), steps) == Target()
    for key, value in {
        "backend_path": "evil",
        "trt_extra_plugin_lib_paths": "a",
        "op_packages": "a",
        "load_config": "a",
        "gpu_external_alloc": "1",
        "user_compute_stream": "1",
        "webgpuDevice": "1",
        "anything": "./evil",
    }.items():
        steps = asdict(Steps(decoder=replace(decoder, providers=(("cpu", {key: value}),))))
        with pytest.raises(BadInput, match=f"sets {key} of EP cpu, .* give it yourself .--ep-option '?{key}="):
            with_ep_of_folder(Target(), steps)
        assert with_ep_of_folder(Target(ep="cpu"), steps) == Target(ep="cpu")


@pytest.mark.parametrize(("file", "inside"), [("model.onnx", "onnx"), ("decoder_with_past_model.onnx", ".")])
def test_an_export_of_optimum(file: str, inside: str, tmp_path: Path) -> None:
    (tmp_path / inside).mkdir(exist_ok=True)
    onnx.save(gpt_like(), tmp_path / inside / file)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "n_positions": 64}')
    path, decoder = found_in(str(tmp_path))
    assert path == str(tmp_path / inside / file)
    assert decoder == Decoder(f"config.json and {file}", context=64)
    assert steps_from(json.loads(json.dumps(asdict(Steps(decoder=decoder))))).decoder == decoder


def test_a_merged_decoder_is_told_which_branch_it_takes(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (int64[batch,sequence] input_ids, bool[1] use_cache_branch, float[batch,1,past,2] past)
        => (float[batch,sequence,4] logits, float[batch,1,total,2] present) {
            four = Constant <value = int64 {4}> ()  zero = Constant <value = float[2] {0.0, 1.0}> ()
            later = Cast <to = 7> (use_cache_branch)  moved = Add (input_ids, later)  kept = Mod (moved, four)
            logits = OneHot <axis = -1> (kept, four, zero)
            ones = Cast <to = 1> (input_ids)
            one = Constant <value = int64[2] {1, 3}> ()
            wide = Unsqueeze (ones, one)
            two = Concat <axis = 3> (wide, wide)
            present = Concat <axis = 2> (past, two)
        }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "decoder_model_merged.onnx")
    (tmp_path / "config.json").write_text("{}")
    tokens = saved(tmp_path / "tokens.npy", np.array([0, 3, 1, 2, 2]))
    _, loop, _ = made(tmp_path, tokens=tokens, prompt_length=None)
    assert [bool(step["use_cache_branch"][0]) for step in loop.feeds] == [False] + [True] * (COUNT - 1)
    assert loop.generated is not None
    assert loop.generated.tokens.tolist() == [[2, 3, 0, 1, 2, 3, 0]]  # each one more, but for the prompt's


def refusal(call: Any, *arguments: Any, **more: Any) -> str:
    with pytest.raises(BadInput) as caught:
        call(*arguments, **more)
    return str(caught.value)


def test_folders_that_are_not_taken(tmp_path: Path) -> None:
    assert refusal(found_in, str(tmp_path)).endswith("and with no .onnx file")
    (tmp_path / "a.onnx").touch()
    (tmp_path / "b.onnx").touch()
    assert refusal(found_in, str(tmp_path)).endswith("and with 2 models: name one of them")
    config = tmp_path / "config.json"
    config.write_text("{}")
    assert refusal(found_in, str(tmp_path)).endswith("model.onnx; none is there")
    (tmp_path / "decoder_model.onnx").touch()
    assert refusal(found_in, str(tmp_path)).endswith("decoder_model.onnx has no KV cache: export it with one")
    genai = tmp_path / "genai_config.json"
    genai.write_text('{"model": {"decoder": {"pipeline": [{}]}}}')
    assert refusal(found_in, str(tmp_path)) == f"{genai}: the decoder is not in one file; ortbench loop takes one model"
    genai.write_text("[]")
    assert refusal(found_in, str(tmp_path)) == f"{genai} is no JSON object"
    genai.write_text("{")
    assert refusal(found_in, str(tmp_path)).startswith(f"{genai} is not JSON: ")


def test_what_cannot_be_generated(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt", context=32)
    tokens = saved(tmp_path / "tokens.npy", ids(3, 4))
    refused: list[tuple[dict[str, Any], str]] = [
        ({"prompt_length": 30}, "--prompt-length 30: with --generate 7 more than the 32 tokens of the model's context"),
        (
            {"context": 21},
            "--prompt-length 5: with --context 21 and --generate 7 more than the 32 tokens of the model's context",
        ),
        ({"tokens": tokens}, f"--tokens {tokens}: 3 sequences, and the batch is 1"),
        ({"keep": ("logits",)}, "--keep logits: the host chooses the next token by it"),
        (
            {"fill": {"attention_mask": "1"}},
            "--fill attention_mask: the prompt and the tokens generated say what it holds",
        ),
    ]
    for more, message in refused:
        assert refusal(made, folder, **more) == message
    _, _, steps = made(folder)
    path = str(folder / "model.onnx")
    assert (
        refusal(data.make_loop_data, path, opened(path), Inputs(dims={"past_length": 3}), steps)
        == "--dim past_length: the prompt and the tokens generated say how long the cache is"
    )
    assert refusal(made, folder, 3, tokens=tokens) == f"--tokens {tokens}: 4 tokens, and --prompt-length is 5"
    reason = "4 tokens, and --context 4 and --prompt-length is 1"
    assert refusal(made, folder, 3, tokens=tokens, context=4, prompt_length=None) == f"--tokens {tokens}: {reason}"
    (tmp_path / "text.json").write_text('"no"')
    text = tmp_path / "text.json"
    reason = "is no .npy, .npz or .json with rows of token ids of one length"
    assert refusal(made, folder, tokens=str(text)) == f"--tokens {text}: {reason}"
    _, usual, _ = made(folder, prompt_length=None)
    assert usual.generated is not None
    assert usual.generated.prompt == 32 - COUNT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }", "no output looks like the next step's state"),
        (
            "g (float[1,4] x, float[1,4] past) => (float[1,4] logits, float[1,4] present) "
            "{ logits = Relu(x)  present = Relu(past) }",
            "the model has no input of token ids (input_ids), so it is no decoder",
        ),
        (
            "g (int64[4] input_ids, float[1,4] past) => (float[4] logits, float[1,4] present) "
            "{ logits = Cast<to=1>(input_ids)  present = Relu(past) }",
            "input_ids is not [batch, sequence]",
        ),
    ],
)
def test_models_that_do_not_generate(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), path)
    with pytest.raises(BadInput, match=re.escape(f"{path}: {message}; say what is fed back with --feedback OUT=IN")):
        made(path)
