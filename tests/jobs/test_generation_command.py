"""`ortbench loop FOLDER` as its users have it; in virtual time its figures are those of the reference device's own trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import pytest

from ortbench.analysis.loads.levels import load_cases
from ortbench.analysis.steps_and_stages import jumps
from ortbench.core.units import duration
from ortbench.model.modes import USUAL_LOOP_MODES
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from tests.conftest import MODELS, mostly_wide, ortbench
from tests.decoders import embedded_folder, genai_encoder_decoder, genai_folder, optimum_encoder_decoder
from tests.expect import there
from tests.loop_truth import differences
from tests.refdevice import HONESTY, Config, Honesty, Trace
from tests.truth import What, run_on_device
from tests.virtual import CALL_NS

pytestmark = pytest.mark.process

PROMPT, TOKENS, VOCAB = 4, 6, 8
CACHE_BYTES = PROMPT * VOCAB * 4  # behind the prompt
COPY_NS = 10_000  # what a copy takes beside its bytes
# The next token is the one behind, by nodes of the CPU; the device has the logits and the cache.
COUNTS_UP = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (int64[batch,sequence] input_ids, float[batch,1,past,{VOCAB}] past) =>
      (float[batch,sequence,{VOCAB}] logits, float[batch,1,total,{VOCAB}] present) {{
        one = Constant <value = int64 {{1}}> ()
        size = Constant <value = int64 {{{VOCAB}}}> ()
        ends = Constant <value = float[2] {{0.0, 1.0}}> ()
        axis = Constant <value = int64[1] {{1}}> ()
        behind = Add (input_ids, one)
        next = Mod (behind, size)
        hot = OneHot <axis = -1> (next, size, ends)
        logits = Relu (hot)
        wide = Unsqueeze (hot, axis)
        present = Concat <axis = 2> (past, wide)
    }}"""


def generated(
    library: Path, folder: Path, honesty: Honesty, *line: object, ids: tuple[int, ...] = (3, 1, 4, 1)
) -> tuple[Result, Trace]:
    onnx.save(onnx.parser.parse_model(COUNTS_UP), folder / "model.onnx")
    (folder / "ids.json").write_text(str([*ids]))
    config = Config(trace=folder / "trace", honesty=honesty, compute_us=3000, upload_gbps=0.0001, download_gbps=0.0001)
    arguments = ("--generate", TOKENS, "--tokens", folder / "ids.json", "--iterations", 4, "--warmup", 1, *line)
    code, result, _, errors = run_on_device(library, folder / "model.onnx", config, folder, *arguments, command="loop")
    assert code == 0, errors
    return result, Trace.read(folder / "trace")


@pytest.mark.parametrize("honesty", HONESTY)
def test_times_to_tokens_are_exact(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    result, trace = generated(library, tmp_path, honesty)
    parts = {f"step {number}": 1 for number in range(TOKENS)}
    calls: dict[What, int] = {(mode, name): 1 for mode in USUAL_LOOP_MODES for name in parts}
    calls |= {(mode, "latency"): 3 for mode in USUAL_LOOP_MODES}
    for mode in USUAL_LOOP_MODES[1:]:  # ONNX Runtime is asked for a copy of the empty cache where it is bound
        calls[mode, "step 0"] += 1
        calls[mode, "latency"] += 1
    assert [case.mode for case in result.cases] == list(USUAL_LOOP_MODES)
    assert differences(result, trace, parts, calls) == {}
    for case in result.cases:
        samples = case.samples["step"]
        first, later = samples[::TOKENS], [ns for number, ns in enumerate(samples) if number % TOKENS]
        ttft, itl = (there(case.stats(key)) for key in ("time_to_first_token", "inter_token_latency"))
        assert (ttft.n, ttft.median) == (4, median(first))
        assert (itl.n, itl.median, itl.max) == (4 * (TOKENS - 1), median(later), max(later))
        assert case.value("prefill_tokens_per_s") == round(PROMPT * 1e9 / median(first), 3)
        whole = sum(samples[1:TOKENS])
        assert case.value("decode_tokens_per_s") == round((TOKENS - 1) * 1e9 / whole, 3)
        assert case.value("sequence_tokens_per_s") is None


# The same decoder in two files: what looks words up, and what is behind it. And an encoder, whose outputs the decoder reads.
_HOT = f"""one = Constant <value = int64 {{1}}> ()  size = Constant <value = int64 {{{VOCAB}}}> ()
    ends = Constant <value = float[2] {{0.0, 1.0}}> ()  behind = Add (input_ids, one)  next = Mod (behind, size)
    hot = OneHot <axis = -1> (next, size, ends)"""
_CACHE = f"""wider = Constant <value = int64[4] {{0, 1, -1, {VOCAB}}}> ()
    wide = Reshape (VALUE, wider)  present = Concat <axis = 2> (past, wide)"""
_PAST = f"float[batch,1,past,{VOCAB}] past"
_OUT = f"float[batch,sequence,{VOCAB}] logits, float[batch,1,total,{VOCAB}] present"
_BEHIND_EMBEDDING = (
    f"(float[batch,sequence,{VOCAB}] inputs_embeds, {_PAST}) => ({_OUT}) "
    f"{{ logits = Relu (inputs_embeds) {_CACHE.replace('VALUE', 'inputs_embeds')} }}"
)
_STAGES = {
    "embedding": {
        "embedding": f"(int64[batch,sequence] input_ids) => (float[batch,sequence,{VOCAB}] inputs_embeds) "
        f"{{ {_HOT} inputs_embeds = Relu (hot) }}",
        "decoder": _BEHIND_EMBEDDING,
    },
    "vision": {
        "vision": "(float[pixels,4] pixel_values) => (float[pixels,4] image_features) { image_features = Relu (pixel_values) }",
        "embedding": f"(int64[batch,sequence] input_ids, float[pixels,4] image_features) => "
        f"(float[batch,sequence,{VOCAB}] inputs_embeds, int64[2] seen) "
        f"{{ {_HOT} inputs_embeds = Relu (hot) seen = Shape (image_features) }}",
        "decoder": _BEHIND_EMBEDDING,
    },
    "encoder": {
        "encoder": f"(int64[batch,length] input_ids) => (float[batch,length,{VOCAB}] encoder_hidden_states) "
        f"{{ {_HOT} encoder_hidden_states = Relu (hot) }}",
        "decoder": f"(int64[batch,sequence] input_ids, float[batch,length,{VOCAB}] encoder_hidden_states, {_PAST}) => "
        f"({_OUT}, float[batch,length,{VOCAB}] seen) "
        f"{{ {_HOT} logits = Relu (hot) seen = Relu (encoder_hidden_states) {_CACHE.replace('VALUE', 'logits')} }}",
    },
}


@pytest.mark.parametrize("honesty", HONESTY)
@pytest.mark.parametrize("stage", mostly_wide([*_STAGES], len(_STAGES)))
def test_times_to_tokens_behind_another_stage_are_exact(
    stage: str, honesty: Honesty, library: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for name, text in _STAGES[stage].items():
        onnx.save(
            onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}'), folder / f"{name}.onnx"
        )
    (folder / "genai_config.json").write_text(
        json.dumps({"model": {"image_token_id": 7, **{it: {"filename": f"{it}.onnx"} for it in _STAGES[stage]}}})
    )
    config = Config(
        trace=tmp_path / "trace", honesty=honesty, compute_us=3000, upload_gbps=0.0001, download_gbps=0.0001
    )
    line: tuple[object, ...] = ("--prompt-length", PROMPT, "--generate", TOKENS, "--iterations", 4, "--warmup", 1)
    if stage == "vision":
        np.savez(tmp_path / "image.npz", pixel_values=np.ones((2, 4), np.float32))
        line = (*line, "--input", tmp_path / "image.npz")
    code, result, _, errors = run_on_device(library, folder, config, tmp_path, *line, command="loop")
    assert code == 0, errors
    trace = Trace.read(tmp_path / "trace")
    in_each, once = stage != "encoder", stage != "embedding"
    parts = {f"step {number}": 1 + in_each + (once and not number) for number in range(TOKENS)}
    more = int(once)  # what runs once has a clock of its own
    calls: dict[What, int] = {(mode, name): 1 for mode in USUAL_LOOP_MODES for name in parts}
    calls |= {(mode, "latency"): 3 + more for mode in USUAL_LOOP_MODES}
    calls |= {(mode, "step 0"): 1 + more for mode in USUAL_LOOP_MODES}
    if stage == "vision":  # which begins with the copy of the image
        calls["device-resident", "latency"] += 1
        calls["device-resident", "step 0"] += 1
    assert [(case.mode, case.status) for case in result.cases] == [(mode, "ok") for mode in USUAL_LOOP_MODES]
    assert differences(result, trace, parts, calls) == {}
    for case in result.cases:
        samples = case.samples["step"]
        first, later = samples[::TOKENS], [ns for number, ns in enumerate(samples) if number % TOKENS]
        ttft, itl = (there(case.stats(key)) for key in ("time_to_first_token", "inter_token_latency"))
        assert (ttft.n, ttft.median, itl.n, itl.median) == (4, median(first), 4 * (TOKENS - 1), median(later))
        assert case.value("prefill_tokens_per_s") == round(PROMPT * 1e9 / median(first), 3)
    cpu, resident, _ = result.cases
    each, row = PROMPT * VOCAB * 4, VOCAB * 4  # of the prompt, and of a token
    if stage == "embedding":  # logits of a step, and with plain arrays its embeddings both ways
        assert resident.step_copies("step_h2d") == 0
        assert resident.step_copies("step_d2h") == [each, *[row] * (TOKENS - 1)]
        taken, given = (np.array(cpu.step_copies(it)) for it in ("step_h2d", "state_h2d"))
        assert (taken - given).tolist() == [each, *[row] * (TOKENS - 1)]


def test_steps_over_depth_rise_by_what_the_cache_takes_on_the_link(library: Path, tmp_path: Path) -> None:
    result, _ = generated(library, tmp_path, "sync", "--mode", "cpu-tensors", "--mode", "device-resident")
    cpu, resident = result.cases
    row = VOCAB * 4  # bytes that a token adds to the cache, which cross the link twice
    assert cpu.value("step_growth") == pytest.approx(2 * row / 0.0001, rel=1e-6)
    assert resident.value("step_growth") in (None, 0)
    assert cpu.step_copies("state_h2d") == [0, *(CACHE_BYTES + row * step for step in range(TOKENS - 1))]
    assert resident.step_copies("state_h2d") == resident.step_copies("state_d2h") == 0


@pytest.mark.parametrize("honesty", HONESTY)
def test_a_cache_that_is_filled_before_is_copied_in_each_step_and_exact(
    honesty: Honesty, library: Path, tmp_path: Path
) -> None:
    line = ("--context", 7, "--prompt-length", PROMPT, "--mode", "cpu-tensors", "--mode", "device-resident")
    result, trace = generated(library, tmp_path, honesty, *line, ids=(*range(7), 3, 1, 4, 1))
    assert result.generation is not None
    assert (result.generation["context"], result.generation["prompt"]) == (7, PROMPT)
    parts = {f"step {number}": 1 for number in range(TOKENS)}
    row = VOCAB * 4
    cpu, resident = result.cases
    calls: dict[What, int] = {(case.mode, name): 1 for case in result.cases for name in parts}
    calls |= {(case.mode, "latency"): 3 for case in result.cases}
    assert differences(result, trace, parts, calls, first_bytes=7 * row) == {}
    assert cpu.step_copies("state_h2d") == [7 * row, *((7 + PROMPT + step) * row for step in range(TOKENS - 1))]
    assert resident.step_copies("state_h2d") == 0


def test_a_step_over_depth_that_jumps_is_found_where_it_is(library: Path, tmp_path: Path) -> None:
    depth, small, large, count = 64, 1, 1001, 40
    text = COUNTS_UP.replace("float[batch,1,past", "int64[batch,sequence] position_ids, float[batch,1,past")
    text = text.replace("present)", "present, float[n] more)").replace(
        "behind =",
        f"""last = ReduceMax <keepdims = 0> (position_ids)
        place = Constant <value = int64[1] {{0}}> ()
        at = Unsqueeze (last, place)
        bound = Constant <value = int64[1] {{{depth}}}> ()
        is_deep = GreaterOrEqual (at, bound)
        small = Constant <value = int64[1] {{{small}}}> ()
        large = Constant <value = int64[1] {{{large}}}> ()
        length = Where (is_deep, large, small)
        zeros = ConstantOfShape (length)
        more = Relu (zeros)
        behind =""",
    )
    onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
    config = Config(trace=tmp_path / "trace", compute_us=3000, upload_gbps=0.0001, download_gbps=0.0001)
    filled = ("--context", depth - 20, "--prompt-length", 1, "--generate", count)
    line = (*filled, "--mode", "cpu-tensors", "--mode", "device-resident", "--iterations", 3, "--warmup", 1, "-v")
    code, result, out, errors = run_on_device(library, tmp_path / "model.onnx", config, tmp_path, *line, command="loop")
    assert code == 0, errors
    cpu, resident = result.cases
    added = (large - small) * 4 / 0.0001
    for case, slope in ((cpu, 2 * VOCAB * 4 / 0.0001), (resident, 0)):
        assert case.steps_ns is not None
        (jump,) = jumps(case, first=True)
        assert case.steps_ns[jump.step] - case.steps_ns[jump.step - 1] == pytest.approx(added + slope)
        assert jump.step == 20
        assert jump.before == pytest.approx(case.steps_ns[19] + slope)
        assert jump.after == pytest.approx(case.steps_ns[20])
    ends = ", ".join(
        f"from {duration(jumps(case, True)[0].before)} to {duration(jumps(case, True)[0].after)} with {case.mode}"
        for case in result.cases
    )
    assert f"Inter-token latency jumps {ends}, at depth 64" in " ".join(out.split())


def test_what_is_chosen_alone_is_the_copy_of_its_logits(library: Path, tmp_path: Path) -> None:
    result, _ = generated(library, tmp_path, "sync", "--mode", "cpu-tensors", "--mode", "device-resident")
    cpu, resident = result.cases
    copy = round(VOCAB * 4 / 0.0001) + COPY_NS
    assert cpu.value("next_token") == CALL_NS
    assert resident.value("next_token") == copy + 2 * CALL_NS


def test_one_client_of_a_load_has_the_times_of_a_loop(library: Path, tmp_path: Path) -> None:
    modes = ("--mode", "cpu-tensors", "--mode", "device-resident")
    (tmp_path / "loop").mkdir()
    loop, _ = generated(library, tmp_path / "loop", "sync", *modes)
    config = Config(trace=tmp_path / "trace", compute_us=3000, upload_gbps=0.0001, download_gbps=0.0001)
    line = (
        "--generate",
        TOKENS,
        "--tokens",
        tmp_path / "loop" / "ids.json",
        "--concurrency",
        1,
        "--duration",
        0.5,
        *modes,
    )
    model = tmp_path / "loop" / "model.onnx"
    code, result, out, errors = run_on_device(library, model, config, tmp_path, *line, command="load")
    assert code == 0, errors
    points = load_cases(result)
    assert [case.mode for case in points] == ["cpu-tensors", "device-resident"]
    for case, alone in zip(points, loop.cases, strict=True):
        for key in ("time_to_first_token", "inter_token_latency"):
            ours, theirs = case.stats(key), alone.stats(key)
            assert ours is not None
            assert theirs is not None
            assert (ours.min, ours.median, ours.max) == (theirs.min, theirs.median, theirs.max)
        assert case.value("sequence_tokens_per_s") == alone.value("decode_tokens_per_s")
        per_s = case.value("throughput")
        assert per_s is not None
        assert case.value("output_tokens_per_s") == pytest.approx(per_s * TOKENS)
        assert case.value("prefill_slowdown") is None
    assert "tokens/s with 1 client" in out


def test_blocks_of_a_load_have_room_for_two_long_sequences_of_each_client(library: Path, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    onnx.save(onnx.parser.parse_model(COUNTS_UP), model)
    config = Config(trace=tmp_path / "trace", compute_us=100_000)
    line = ("--generate", TOKENS, "--prompt-length", PROMPT, "--concurrency", "1,2", "--duration", 10)
    code, result, _, errors = run_on_device(
        library, model, config, tmp_path, *line, "--mode", "cpu-tensors", command="load"
    )
    assert code == 0, errors
    run_s = TOKENS * 0.1
    for case in load_cases(result):
        assert len(case.load_blocks or ()) == -(-10 // (2 * 2 * run_s))


@pytest.mark.wide  # it takes ten seconds
def test_clients_generate_a_sequence_each(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "llama", shared=True)
    line = ("--prompt-length", 64, "--context", 3, "--generate", 8, "--concurrency", "1,2", "--duration", 0.4, "-v")
    done = ortbench("load", folder, *line, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    (path,) = (tmp_path / "out").glob("*/result.json")
    result = load(path)
    assert result.kind == "load"
    assert result.generation is not None
    points = load_cases(result)
    assert {case.mode for case in points} == {*USUAL_LOOP_MODES, "shared"}
    assert {(case.status, case.checks["outputs"]["verdict"]) for case in points} == {("ok", "passed")}
    for case in points:
        both = case.point["concurrency"] == 2
        found = case.stats("inter_token_latency_beside_prefill")
        assert (found is not None and found.n > 0) is both
        assert (case.value("prefill_slowdown") is not None) is both
    text = " ".join(done.out.split())
    for said in (
        "load in one session: 1, 2 clients; 0.4 s per load point; generation: 64 prompt tokens (pp64 @ d3) behind 3 tokens",
        "mode clients tokens/s tokens/s per sequence TTFT",
        "sequences/s",
        "knee share of peak peak tokens/s tokens/s by clients TTFT p95 by clients ITL p95 by clients",
        "latency (closed loop): a sequence, from its prompt to its last token;",
        "the state stays in place: usable only if the host does not need the state between steps, or reads it in place",
        "p95 of TTFT",
    ):
        assert said in text
    assert "inferences/s" not in text
    assert "inf/s" not in text
    assert "ortbench code" not in text


GATED = ("--prompt-length", 8, "--generate", 4, "--mode", "cpu-tensors", "--duration", 4)


def test_a_live_gate_compares_tokens(library: Path, tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(COUNTS_UP), tmp_path / "model.onnx")
    config = Config(trace=tmp_path / "trace", compute_us=3000)
    metrics = ("time_to_first_token", "inter_token_latency", "decode_tokens_per_s")
    line = ["gate", "--model", tmp_path, "--ep-library", library, *GATED, "--baseline-set", "intra-op-threads=1"]
    for metric in metrics:
        line += ["--metric", metric]
    done = ortbench(*line, "--json", "-", "--out", tmp_path / "out", **config.environ())
    assert done.code == 0, done.err
    verdict = json.loads(done.out)
    assert [(it["name"], it["verdict"], it["ratio"]) for it in verdict["checks"]] == [
        ("cpu-tensors time_to_first_token median", "passed", 1.0),
        ("cpu-tensors inter_token_latency median", "passed", 1.0),
        ("cpu-tensors decode_tokens_per_s", "passed", 1.0),
    ]


@pytest.mark.wide
def test_a_gate_of_two_folders_and_of_stored_results(tmp_path: Path) -> None:
    one, other = (genai_folder(tmp_path / name, "gpt") for name in ("one", "other"))
    live = ortbench(
        "gate", "--model", one, "--baseline-model", other, *GATED, "--max-regression", "900%", "--metric",
        "inter_token_latency", "--out", tmp_path / "live",
    )  # fmt: skip
    assert live.code in (0, 4), live.err  # a busy machine may leave too few rounds
    assert "cpu-tensors inter_token_latency median, candidate to baseline" in " ".join(live.out.split())
    found: list[Path] = []
    for name in ("a", "b"):
        done = ortbench("loop", one, *GATED[:6], "--iterations", 5, "--warmup", 1, "--out", tmp_path / name)
        assert done.code == 0, done.err
        found += (tmp_path / name).glob("*/result.json")
    stored = ("--baseline", found[1], "--metric", "decode_tokens_per_s", "--max-regression", "99%")
    done = ortbench("gate", found[0], *stored)
    assert done.code in (0, 4), done.err
    assert "decode_tokens_per_s" in done.out


def test_a_profile_of_a_generation_and_no_program(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt")
    done = ortbench("profile", folder, "--attach-only", *GATED[:6], "--iterations", 3, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert "8 prompt tokens (pp8)" in " ".join(done.out.split())
    done = ortbench("code", folder)
    assert done.code == 2
    assert (
        "no program is written of a model that generates; name its .onnx file, and --feedback as 'ortbench inspect'"
        in done.err
    )


@pytest.mark.parametrize(
    ("asked", "line", "said"),
    [
        ({"CPU": {}}, (), "(named by genai_config.json; EP by genai_config.json)"),
        ({"cuda": {}}, (), "(named by genai_config.json; its EP cuda is not used)"),
        ({"cuda": {}}, ("--ep", "cpu"), "(named by genai_config.json; its EP cuda is not used)"),
    ],
)
def test_the_ep_of_the_folder_is_used_where_it_is_here(
    asked: dict[str, object], line: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    folder = genai_folder(tmp_path / "model", "gpt", providers=[asked])
    own = ("--generate", 3, "--prompt-length", 4, "--iterations", 3, "--warmup", 1, "--mode", "cpu-tensors")
    done = ortbench("loop", folder, *own, *line, "--measure-memory", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    assert said in " ".join(done.out.split())
    (path,) = (tmp_path / "out").glob("*/result.json")
    result = load(path)
    assert result.target["ep"] == "CPUExecutionProvider"
    assert result.generation is not None
    assert (result.generation.get("eps"), result.generation.get("ep_used")) == (
        [it.lower() for it in asked],
        "CPU" in asked,
    )


@pytest.mark.parametrize("option", [("--rate", 10), ("--sessions", "process")])
def test_sequences_have_clients_in_one_session(option: tuple[object, ...], tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt")
    done = ortbench("load", folder, *option)
    assert done.code == 2
    assert f"{option[0]}: sequences are generated by --concurrency clients in one session" in done.err


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        (["16"], "--prompt-length 16: the model takes 1 token in a step; type --prompt-length 1 --context 15"),
        (["1", "--context", "62"], "; --generate 2 ends before that step"),
    ],
)
def test_a_model_of_fixed_lengths_says_what_fits(prompt: list[str], message: str) -> None:
    done = ortbench("loop", MODELS / "decoder_shared.onnx", "--ep", "cpu", "--generate", 8, "--prompt-length", *prompt)
    assert done.code == 2
    assert done.error_line.endswith(message)


def test_sequences_have_one_shape(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt")
    done = ortbench("load", folder, "--dim", "batch=1,2", "--shape-order", "cycle")
    assert (done.code, done.error_line) == (2, "--shape-order: clients that generate sequences have one shape")


@pytest.mark.parametrize("layout", [genai_encoder_decoder, optimum_encoder_decoder])
def test_an_encoder_runs_once_in_front_and_counts_into_the_first_token(
    layout: Callable[[Path], Path], library: Path, tmp_path: Path
) -> None:
    folder = layout(tmp_path / "model")
    line = ("--ep-library", library, "--prompt-length", 9, "--generate", 4, "--iterations", 3, "--warmup", 1)
    config = Config(trace=tmp_path / "trace", compute_us=3000)
    done = ortbench("loop", folder, *line, "--out", tmp_path / "out", **config.environ())
    assert done.code == 0, done.err
    (path,) = (tmp_path / "out").glob("*/result.json")
    result = load(path)
    made = result.generation
    assert made is not None
    assert (made["prompt"], made.get("encoder"), made["tokens"]) == (9, True, 4)
    assert "9 prompt tokens (pp9), 4 generated tokens (tg4); random prompt, encoded once, argmax" in " ".join(
        done.out.split()
    )
    for case in result.cases:
        assert (case.status, case.checks["outputs"]["verdict"]) == ("ok", "passed"), case.reason


@pytest.mark.parametrize(
    ("layout", "what", "refused"),
    [
        (genai_encoder_decoder, "an encoder", (("--context", 3), ("--measure-memory",))),
        (partial(embedded_folder, name="llama"), "an embedding model", (("--measure-memory",),)),
    ],
)
@pytest.mark.wide
def test_another_stage_is_part_of_a_load_and_of_no_memory(
    layout: Callable[[Path], Path], what: str, refused: tuple[tuple[object, ...], ...], tmp_path: Path
) -> None:
    folder = layout(tmp_path / "model")
    line = (
        "--generate",
        4,
        "--prompt-length",
        5,
        "--concurrency",
        "1,2",
        "--duration",
        0.2,
        "--mode",
        "device-resident",
    )
    done = ortbench("load", folder, *line, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    (path,) = (tmp_path / "out").glob("*/result.json")
    assert {case.status for case in load_cases(load(path))} == {"ok"}
    for option in refused:
        done = ortbench("loop", folder, *option)
        assert done.code == 2
        assert f"{option[0]}: is not for a decoder with {what}" in done.err


@pytest.mark.parametrize("on_device", [False, True])  # where some nodes of both models are, and others on the CPU
@pytest.mark.parametrize("image", [False, True])
def test_an_embedding_model_runs_before_each_step(image: bool, on_device: bool, library: Path, tmp_path: Path) -> None:
    folder = embedded_folder(tmp_path / "model", "llama", shared=True, vision=True)
    np.savez(tmp_path / "image.npz", pixel_values=np.ones((1, 3, 4), np.float32))
    line = ("--prompt-length", "9,12", "--generate", 4, "--iterations", 3, "--warmup", 1, "--out", tmp_path / "out")
    where = ("--ep-library", library) if on_device else ("--ep", "cpu")
    seen = ("--input", tmp_path / "image.npz") if image else ()
    done = ortbench("loop", folder, *line, *where, *seen, **Config(trace=tmp_path / "trace").environ())
    assert done.code == 0, done.err
    before, behind = ("vision before the prompt, ", "") if image else ("", " (vision not run)")
    said = f"random prompt, {before}embedding model before each step{behind}, argmax on the host"
    assert said in " ".join(done.out.split())
    results = [load(path) for path in sorted((tmp_path / "out").rglob("result.json"))]
    assert len(results) == 2
    for result in results:
        assert {(case.status, case.checks["outputs"]["verdict"]) for case in result.cases} == {("ok", "passed")}
        assert result.generation is not None
        made = result.generation
        assert (made.get("embedding"), made.get("features"), made.get("left_out")) == (
            (True, ["vision"], None) if image else (True, None, ["vision"])
        )


def case_of(result: Result, mode: str) -> Case:
    return next(case for case in result.cases if case.mode == mode)


def test_a_folder_alone_prints_the_table(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "llama", shared=True, context=128)
    done = ortbench("loop", folder, "--out", tmp_path / "out", "--iterations", 3, "--warmup", 1)
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    for said in [
        "(last step: input_ids: 1x1, attention_mask: 1x127, 2 inputs of the KV cache: 1x2x128x16)",
        "generation: 64 prompt tokens (pp64), 64 generated tokens (tg64); random prompt, argmax on the host; "
        "no tokenizing, no sampling; cache of fixed length: present.0.key → past_key_values.0.key",
        "(named by genai_config.json)",
        "TTFT ITL ITL p95 ITL p99 prefill tokens/s decode tokens/s",
        "TTFT: the prompt, up to the choice of the first token; ITL: from one token to the next;",
        "pp64 ",
        "tg64 ",
    ]:
        assert said in text
    assert "ortbench code" not in text
    (path,) = (tmp_path / "out").glob("*/result.json")
    result = load(path)
    assert [case.mode for case in result.cases] == ["cpu-tensors", "device-resident", "host-accessible", "shared"]
    assert {(case.status, case.checks["outputs"]["verdict"]) for case in result.cases} == {("ok", "passed")}
    assert result.generation is not None
    assert result.generation["fixed_cache"]
    assert case_of(result, "shared").stats("inter_token_latency") is not None


def test_prompts_of_several_lengths_are_side_by_side(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt")
    line = ("--prompt-length", "8,16", "--generate", 4, "--mode", "cpu-tensors", "--iterations", 3, "--warmup", 1)
    done = ortbench("loop", folder, *line, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    found = [load(path).generation for path in sorted((tmp_path / "out").rglob("result.json"))]
    assert sorted(it["prompt"] for it in found if it) == [8, 16]
    assert "prompt-length=8" in done.out
    assert "prompt-length=16" in done.out
    assert "TTFT" in done.out


def test_caches_of_several_lengths_are_side_by_side(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "llama", shared=True)
    line = ("--context", "0,16", "--prompt-length", 2, "--generate", 3, "--iterations", 3, "--warmup", 1)
    done = ortbench("loop", folder, *line, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    results = [load(path) for path in sorted((tmp_path / "out").rglob("result.json"))]
    assert sorted(it.generation["context"] for it in results if it.generation) == [0, 16]
    assert {case.status for it in results for case in it.cases} == {"ok"}
    assert "context=16" in done.out
    (deep,) = (path for path in (tmp_path / "out").rglob("table.md") if "@ d16" in path.read_text())
    assert (
        "2 prompt tokens (pp2 @ d16) behind 16 tokens in the cache, 3 generated tokens (tg3 @ d16)" in deep.read_text()
    )


def test_a_batch_has_tokens_per_sequence_too(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt")
    np.save(tmp_path / "ids.npy", np.arange(10).reshape(2, 5))
    line = ("--tokens", tmp_path / "ids.npy", "--generate", 4, "--dim", "batch=2", "--mode", "cpu-tensors")
    done = ortbench("loop", folder, *line, "--iterations", 3, "--warmup", 1, "--json", "-", "--out", tmp_path / "out")
    assert done.code == 0, done.err
    result: dict[str, Any] = json.loads(done.out)
    assert result["loop"]["generation"] == {
        "prompt": 5, "context": 0, "tokens": 4, "batch": 2, "forced": 0, "from_file": True, "encoder": False, "embedding": False, "fixed_cache": False,
        "said_by": "genai_config.json",
    }  # fmt: skip
    metrics = result["cases"][0]["metrics"]
    both, each = (metrics[key]["value"] for key in ("decode_tokens_per_s", "sequence_tokens_per_s"))
    assert both == pytest.approx(2 * each)


@pytest.mark.parametrize(("name", "fixed"), [("gpt", False), ("llama", True)])
def test_memory_is_weighed_with_the_cache_that_was_measured(name: str, fixed: bool, tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", name)
    modes = ("--mode", "device-resident", "--mode", "shared", "--measure-memory")
    line = ("--prompt-length", 4, "--generate", 3, *modes, "--iterations", 3, "--warmup", 1)
    done = ortbench("loop", folder, *line, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    (path,) = (tmp_path / "out").glob("*/result.json")
    result = load(path)
    assert result.generation is not None
    assert result.generation["fixed_cache"] is fixed
    assert [(case.status, case.memory and case.memory["failed"]) for case in result.cases if case.status == "ok"] == [
        ("ok", None)
    ] * (1 + fixed)
