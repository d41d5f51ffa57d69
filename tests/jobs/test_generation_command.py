"""`ortbench loop FOLDER` as its users have it; in virtual time its figures are those of the reference device's own trace."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from statistics import median
from typing import Any

import onnx
import pytest

from ortbench.model.modes import USUAL_LOOP_MODES
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from tests.conftest import ONCE, ortbench
from tests.decoders import genai_folder
from tests.expect import there
from tests.loop_truth import differences
from tests.refdevice import HONESTY, Config, Honesty, Trace
from tests.truth import What, run_on_device
from tests.virtual import CALL_NS

pytestmark = pytest.mark.process

PROMPT, TOKENS, VOCAB = 4, 6, 8
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


@pytest.mark.parametrize("honesty", ["sync", "async-wait"])
def test_a_cache_that_is_filled_before_is_copied_in_each_step_and_exact(
    honesty: Honesty, library: Path, tmp_path: Path
) -> None:
    line = ("--context", 7, "--prompt-length", PROMPT, "--mode", "cpu-tensors", "--mode", "device-resident")
    result, trace = generated(library, tmp_path, honesty, *line, ids=(*range(7), 3, 1, 4, 1))
    assert (result.part["generation"]["context"], result.part["generation"]["prompt"]) == (7, PROMPT)
    parts = {f"step {number}": 1 for number in range(TOKENS)}
    row = VOCAB * 4
    cpu, resident = result.cases
    calls: dict[What, int] = {(case.mode, name): 1 for case in result.cases for name in parts}
    calls |= {(case.mode, "latency"): 3 for case in result.cases}
    assert differences(result, trace, parts, calls, first_bytes=7 * row) == {}
    assert cpu.step_copies("state_h2d") == [7 * row, *((7 + PROMPT + step) * row for step in range(TOKENS - 1))]
    assert resident.step_copies("state_h2d") == 0


def test_what_is_chosen_alone_is_the_copy_of_its_logits(library: Path, tmp_path: Path) -> None:
    result, _ = generated(library, tmp_path, "sync", "--mode", "cpu-tensors", "--mode", "device-resident")
    cpu, resident = result.cases
    copy = round(VOCAB * 4 / 0.0001) + COPY_NS
    assert cpu.value("next_token") == CALL_NS
    assert resident.value("next_token") == copy + 2 * CALL_NS


GATED = ("--prompt-length", 8, "--generate", 4, "--mode", "cpu-tensors", "--duration", 4)


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
    assert (result.part["generation"].get("eps"), result.part["generation"].get("ep_used")) == (
        [it.lower() for it in asked],
        "CPU" in asked,
    )


# A folder whose decoder is one of several models: its files, and what runs before the decoder.
_STAGED: dict[str, tuple[dict[str, Any], str]] = {
    "encoder of genai": ({"genai_config.json": {"encoder": {"filename": "encoder.onnx"}}}, "an encoder"),
    "embedding of genai": ({"genai_config.json": {"embedding": {"filename": "embedding.onnx"}}}, "an embedding model"),
    "vision of genai": ({"genai_config.json": {"vision": {"filename": "vision.onnx"}}}, "a vision model"),
    "speech of genai": ({"genai_config.json": {"speech": {"filename": "speech.onnx"}}}, "a speech model"),
    "encoder of Optimum": ({"config.json": {"is_encoder_decoder": True}}, "an encoder"),
    "embedding of Transformers.js": ({"config.json": {}, "embed_tokens.onnx": {}}, "an embedding model"),
}


@pytest.mark.parametrize("staged", _STAGED)
def test_a_folder_with_other_stages_says_how_to_measure_the_decoder(staged: str, tmp_path: Path) -> None:
    files, before = _STAGED[staged]
    folder = genai_folder(tmp_path / "model", "gpt")
    genai = json.loads((folder / "genai_config.json").read_text())
    (folder / "genai_config.json").unlink()
    for name, content in files.items():
        more = {"model": {**genai["model"], **content}} if name == "genai_config.json" else content
        (folder / name).write_text(json.dumps(more))
    done = ortbench("loop", folder)
    assert done.code == 2
    begin, end = f"{before} runs before the decoder; type ", " for the decoder, or ortbench chain for the stages"
    assert (begin in done.error_line, done.error_line.endswith(end)) == (True, True)
    name, command, path, *fed = shlex.split(done.error_line.removesuffix(end).split(begin)[1])
    assert (name, command, path) == ("ortbench", "loop", str(folder / "model.onnx"))
    if before != "an encoder" or "genai" in staged:  # the names of Optimum's others are those of this model
        short = ("--ep", "cpu", "--mode", "cpu-tensors", "--steps", 2, "--iterations", 2, "--out", tmp_path / "out")
        done = ortbench("loop", path, *fed, *short)
        assert done.code == 0, done.err
        assert "loop of 2 steps: present.0.key → past_key_values.0.key" in done.out


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
    ]:
        assert said in text
    assert "ortbench code" not in text
    (path,) = (tmp_path / "out").glob("*/result.json")
    result = load(path)
    assert [case.mode for case in result.cases] == ["cpu-tensors", "device-resident", "host-accessible", "shared"]
    assert {(case.status, case.checks["outputs"]["verdict"]) for case in result.cases} == {("ok", "passed")}
    assert result.part["generation"]["fixed_cache"]
    assert case_of(result, "shared").stats("inter_token_latency") is not None


@pytest.mark.parametrize(("name", "fixed"), [("gpt", False), ("llama", True)])
def test_memory_is_weighed_with_the_cache_that_was_measured(name: str, fixed: bool, tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", name)
    modes = ("--mode", "device-resident", "--mode", "shared", "--measure-memory")
    line = ("--prompt-length", 4, "--generate", 3, *modes, "--iterations", 3, "--warmup", 1)
    done = ortbench("loop", folder, *line, "--out", tmp_path / "out")
    assert done.code == 0, done.err
    (path,) = (tmp_path / "out").glob("*/result.json")
    result = load(path)
    assert result.part["generation"]["fixed_cache"] is fixed
    assert [(case.status, case.own["memory"]["failed"]) for case in result.cases if case.status == "ok"] == [
        ("ok", None)
    ] * (1 + fixed)


MERGED = """<ir_version: 8, opset_import: ["" : 17]>
g (int64[batch,sequence] input_ids, int64[batch,length] encoder_attention_mask, float[batch,1,past,2] past_0_decoder_key,
   float[batch,1,crossed,2] past_0_encoder_key, bool[1] use_cache_branch)
=> (float[batch,sequence,4] logits, float[batch,1,total,2] present_0_decoder_key, float[batch,1,crossed,2] present_0_encoder_key) {
    mask = Cast <to = 1> (encoder_attention_mask)
    ones = Constant <value = int64[2] {1, 3}> ()
    read = Unsqueeze (mask, ones)
    fresh = Concat <axis = 3> (read, read)
    none = Constant <value = int64[1] {0}> ()
    present_0_encoder_key = If (use_cache_branch) <
        then_branch = cached () => (float[batch,1,crossed,2] a) { a = Slice (past_0_encoder_key, none, none, none) },
        else_branch = first () => (float[batch,1,crossed,2] b) { b = Identity (fresh) }>
    words = Cast <to = 1> (input_ids)
    wide = Unsqueeze (words, ones)
    new = Concat <axis = 3> (wide, wide)
    present_0_decoder_key = Concat <axis = 2> (past_0_decoder_key, new)
    four = Constant <value = int64 {4}> ()  values = Constant <value = float[2] {0.0, 1.0}> ()
    plain = OneHot <axis = -1> (input_ids, four, values)
    sum = ReduceMean <axes = [1, 2, 3], keepdims = 0> (past_0_encoder_key)
    shape = Constant <value = int64[3] {-1, 1, 1}> ()
    cross = Reshape (sum, shape)
    logits = Add (plain, cross)
}"""


def test_the_command_that_inspect_has_for_an_encoder_s_merged_decoder(tmp_path: Path) -> None:
    """Its cached branch gives no keys and values of the encoder back, which every step takes; and the mask is the encoder's."""
    onnx.save(onnx.parser.parse_model(MERGED), tmp_path / "merged.onnx")
    line = json.loads(ortbench("inspect", "merged.onnx", "--json", "-", cwd=tmp_path).out)["loop"]["command"]
    ran = ortbench(*shlex.split(line)[1:], "--ep", "cpu", "--generate", 3, *ONCE, "--json", "-", cwd=tmp_path)
    assert ran.code == 0, ran.err
    loop = json.loads(ran.out)["loop"]
    assert loop["feedback"] == [["present_0_decoder_key", "past_0_decoder_key"]]
