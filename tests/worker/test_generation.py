"""Loops that generate on the CPU EP, in this process, compared with a plain loop that is written without ortbench."""

from __future__ import annotations

import json
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
from ortbench.worker.proofs import check_outputs, find_difference
from ortbench.worker.session import Model
from tests import worker
from tests.decoders import MODELS, VOCAB, Array, Plain, genai_folder, gpt_like, plain
from tests.expect import refusal, there
from tests.worker import opened

PROMPT, COUNT = 5, 7
BATCHES = (1, 2)
FORMS = [("gpt", False), ("llama", False), ("llama", True)]


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
    mode = make_loop(name, model, loop, steps, Inputs())
    check_outputs(mode, None, None)
    mode.compare_steps(None, None)
    for got, logits in zip(after_each_step(mode, steps.count), wanted.logits, strict=True):
        np.testing.assert_allclose(got, logits[:, -got.shape[1] :], rtol=1e-4, atol=1e-5)
    call, a, b = mode.phases()[LATENCY]
    call(a, b)
    assert find_difference(mode, None, None) is None
    assert there(mode._chosen).tolist() == wanted.tokens.tolist()
    for pair, state in zip(loop.pairs, mode.state(steps.count - 1), strict=True):
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
    told = there(loop.generated)
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


@pytest.mark.parametrize(("batch", "prompt", "forced"), [(1, PROMPT, False), (2, 1, True)])
@pytest.mark.parametrize(("name", "shared"), FORMS)
def test_behind_a_context_the_tokens_are_those_of_one_long_prompt(
    name: str, shared: bool, batch: int, prompt: int, forced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "PART", 4)  # so that the cache is filled in several runs, the last a short one
    context, begun = 10, 10 + prompt
    folder, tokens = genai_folder(tmp_path / "model", name), ids(batch, begun + COUNT - 1)
    file = saved(tmp_path / "tokens.npy", tokens if forced else tokens[:, :begun])
    model, loop, steps = made(folder, batch, shared, tokens=file, context=context, prompt_length=prompt)
    told = there(loop.generated)
    assert (told.forced_count, told.describe()["context"]) == (COUNT - 1 if forced else 0, context)
    assert loop.feeds[0]["input_ids"].shape == (batch, prompt)
    assert loop.feeds[1]["attention_mask"].shape == (batch, begun + 1)
    rest = np.hstack([tokens[:, begun:], np.zeros((batch, 1), np.int64)]) if forced else None
    wanted = plain(MODELS[name](), tokens[:, :begun], COUNT, rest)
    for mode in LOOP_MODES:
        if mode != "shared" or shared:
            check_mode(mode, model, loop, steps, wanted)


@pytest.mark.parametrize("kind", ["npy", "npz", "json"])
def test_tokens_of_a_file_are_the_prompt_and_what_is_forced(kind: str, tmp_path: Path) -> None:
    folder, tokens, path = genai_folder(tmp_path / "model", "gpt"), ids(1, PROMPT + 2), tmp_path / f"tokens.{kind}"
    if kind == "json":
        path.write_text(json.dumps(tokens[0].tolist()))
    else:
        np.save(path, tokens[0]) if kind == "npy" else np.savez(path, tokens=tokens[0])
    told = there(made(folder, tokens=str(path))[1].generated)
    first = plain(gpt_like(), tokens, COUNT - 2)  # the first own token comes behind those of the file
    assert (told.forced_count, told.tokens[0, 2:].tolist()) == (2, first.tokens[0].tolist()[: COUNT - 2])
    alone = there(made(folder, tokens=str(path), prompt_length=None)[1].generated)
    assert (alone.prompt, alone.forced_count) == (PROMPT + 2, 0)


def test_a_mode_that_takes_the_wrong_token_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, loop, steps = made(genai_folder(tmp_path / "model", "gpt"))
    mode = make_loop("device-resident", model, loop, steps, Inputs())
    right = mode.logits
    monkeypatch.setattr(mode, "logits", lambda number: -right(number) if number == 3 else right(number))
    with pytest.raises(WrongOutputs, match="values of output tokens after the last step differ"):
        check_outputs(mode, None, None)
    there(loop.generated).near[:, 3] = True  # the two best are as good as each other: what follows cannot be compared
    check_outputs(mode, None, None)


def test_what_genai_config_says(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt", shared=True)
    assert found_in(str(folder)) == (str(folder / "model.onnx"), Decoder(
        "genai_config.json",
        (("present.*.key", "past_key_values.*.key"), ("present.*.value", "past_key_values.*.value")),
        {"ids": "input_ids", "mask": "attention_mask", "positions": "position_ids", "logits": "logits"},
        512, True, 2, 16,
    ))  # fmt: skip


def asking(folder: Path, providers: list[Any]) -> Decoder:
    return found_in(str(genai_folder(folder, "gpt", providers=providers)))[1]


def test_eps_that_genai_config_asks_for(tmp_path: Path) -> None:
    asked = [{"NvTensorRtRtx": {"device_id": 0}}, {"cuda": {"enable_cuda_graph": "1"}}, {"CPU": {}}]
    decoder = asking(tmp_path / "model", asked)
    assert decoder.providers == (
        ("nv-tensorrt-rtx", {"device_id": "0"}), ("cuda", {"enable_cuda_graph": "1"}), ("cpu", {}),
    )  # fmt: skip
    steps = asdict(Steps(decoder=decoder))
    assert steps_from(json.loads(json.dumps(steps))).decoder == decoder
    assert with_ep_of_folder(Target(), steps) == Target(ep="cpu")  # the others are not here
    assert with_ep_of_folder(Target(ep="webgpu"), steps) == Target(ep="webgpu")
    other = asdict(Steps(decoder=asking(tmp_path / "other", asked[:2])))
    assert with_ep_of_folder(Target(), other) == with_ep_of_folder(Target(), None) == Target()


def test_a_folder_loads_no_code(tmp_path: Path) -> None:
    """Its EPs are none that a package or a library brings, and its options name no libraries, files or addresses."""
    asked = [{str(tmp_path / "evil.so"): {}}, {"numpy": {}}, {"CPU": {"backend_path": "evil.so"}}, {"CPU": {}}]
    decoder = asking(tmp_path / "model", asked)
    steps = asdict(Steps(decoder=replace(decoder, providers=decoder.providers[:2])))
    assert with_ep_of_folder(Target(), steps) == Target()
    for key, value in (
        *((key, "a") for key in ("backend_path", "trt_extra_plugin_lib_paths", "op_packages", "load_config")),
        *((key, "1") for key in ("gpu_external_alloc", "user_compute_stream", "webgpuDevice")),
        ("anything", "./evil"),
    ):
        steps = asdict(Steps(decoder=replace(decoder, providers=(("cpu", {key: value}),))))
        with pytest.raises(BadInput, match=f"sets {key} of EP cpu, .* give it yourself .--ep-option '?{key}="):
            with_ep_of_folder(Target(), steps)
        assert with_ep_of_folder(Target(ep="cpu"), steps) == Target(ep="cpu")


@pytest.mark.parametrize("name", ["onnx/model.onnx", "decoder_with_past_model.onnx"])
def test_an_export_of_optimum(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    onnx.save(gpt_like(), path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "n_positions": 64}')
    assert found_in(str(tmp_path)) == (str(path), Decoder(f"config.json and {path.name}", context=64))


def test_a_merged_decoder_is_told_which_branch_it_takes(tmp_path: Path) -> None:
    text = """g (int64[batch,sequence] input_ids, bool[1] use_cache_branch, float[batch,1,past,2] past)
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
    worker.saved(tmp_path / "decoder_model_merged.onnx", text)
    (tmp_path / "config.json").write_text("{}")
    tokens = saved(tmp_path / "tokens.npy", np.array([0, 3, 1, 2, 2]))
    _, loop, _ = made(tmp_path, tokens=tokens, prompt_length=None)
    assert [bool(step["use_cache_branch"][0]) for step in loop.feeds] == [False] + [True] * (COUNT - 1)
    assert there(loop.generated).tokens.tolist() == [[2, 3, 0, 1, 2, 3, 0]]  # each one more, but for the prompt's


def test_folders_that_are_not_taken(tmp_path: Path) -> None:
    genai = tmp_path / "genai_config.json"
    for file, text, said in (
        (None, "", "and with no .onnx file"),
        ("a.onnx", "", ""),
        ("b.onnx", "", "and with 2 models: name one of them"),
        ("config.json", "{}", "model.onnx; none is there"),
        ("decoder_model.onnx", "", "decoder_model.onnx has no KV cache: export it with one"),
        (genai.name, '{"model": {"decoder": {"pipeline": [{}]}}}', "the decoder is not in one file; ortbench loop takes one model"),
        (genai.name, "[]", f"{genai} is no JSON object"),
        (genai.name, "{", "is not JSON: it ends too early"),
    ):  # fmt: skip
        if file is not None:
            (tmp_path / file).write_text(text)
        if said:
            assert said in refusal(BadInput, found_in, str(tmp_path))


def test_what_cannot_be_generated(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt", context=32)
    tokens, text = saved(tmp_path / "tokens.npy", ids(3, 4)), tmp_path / "text.json"
    text.write_text('"no"')
    most = "--generate 7 more than the 32 tokens of the model's context"
    for batch, more, message in (
        (1, {"prompt_length": 30}, f"--prompt-length 30: with {most}"),
        (1, {"context": 21}, f"--prompt-length 5: with --context 21 and {most}"),
        (1, {"tokens": tokens}, f"--tokens {tokens}: 3 sequences, and the batch is 1"),
        (3, {"tokens": tokens}, f"--tokens {tokens}: 4 tokens, and --prompt-length is 5"),
        (3, {"tokens": tokens, "context": 4, "prompt_length": None},
         f"--tokens {tokens}: 4 tokens, and --context 4 and --prompt-length is 1"),
        (1, {"tokens": str(text)}, f"--tokens {text}: is no .npy, .npz or .json with rows of token ids of one length"),
        (1, {"keep": ("logits",)}, "--keep logits: the host chooses the next token by it"),
        (1, {"fill": {"attention_mask": "1"}},
         "--fill attention_mask: the prompt and the tokens generated say what it holds"),
        (1, {"dims": {"past_length": 3}},
         "--dim past_length: the prompt and the tokens generated say how long the cache is"),
    ):  # fmt: skip
        assert refusal(BadInput, made, folder, batch, **more) == message
    assert there(made(folder, prompt_length=None)[1].generated).prompt == 32 - COUNT
    # A cache that nobody gives is random.
    _, loop, _ = made(folder, context=9)
    assert {array.shape[2] for array in loop.first} == {9}
    assert len(np.unique(loop.first[0][0, 0, :, 0])) > 1


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ("(float[1,4] x) => (float[1,4] y) { y = Relu(x) }",
         "no output looks like the next step's state; if one is, say so with --feedback OUT=IN"),
        ("(int64[4] input_ids, float[1,4] past) => (float[4] logits, float[1,4] present) "
         "{ logits = Cast<to=1>(input_ids)  present = Relu(past) }", "input_ids is not [batch, sequence]; measure a loop: --feedback present=past"),
    ],
)  # fmt: skip
def test_models_that_do_not_generate(graph: str, message: str, tmp_path: Path) -> None:
    path = worker.saved(tmp_path / "model.onnx", f"g {graph}")
    assert refusal(BadInput, made, path) == f"{path}: {message}"
