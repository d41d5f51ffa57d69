"""`ortbench loop FOLDER` as its users have it; in virtual time its figures are those of the reference device's own trace."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from ortbench.core.errors import BadInput
from ortbench.core.stats import Value
from ortbench.features.loop.analysis import put_figures
from ortbench.features.loop.plan import found_in
from ortbench.model.modes import USUAL_LOOP_MODES
from ortbench.model.result import Result
from tests.conftest import ONCE, modes, ortbench
from tests.decoders import genai_folder
from tests.expect import refusal, there
from tests.jobs.reports import result_in
from tests.loop_truth import differences
from tests.refdevice import Config, Honesty, Trace
from tests.results import drawing, generating
from tests.truth import What, run_on_device
from tests.virtual import CALL_NS
from tests.worker import saved

PROMPT, TOKENS, VOCAB = 4, 6, 8
COPY_NS = 10_000  # what a copy takes beside its bytes
# The next token is the one behind, by nodes of the CPU; the device has the logits and the cache.
COUNTS_UP = f"""g (int64[batch,sequence] input_ids, float[batch,1,past,{VOCAB}] past) =>
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
    model = saved(folder / "model.onnx", COUNTS_UP)
    (folder / "ids.json").write_text(str([*ids]))
    config = Config(trace=folder / "trace", honesty=honesty, compute_us=3000, upload_gbps=0.0001, download_gbps=0.0001)
    arguments = ("--generate", TOKENS, "--tokens", folder / "ids.json", "--iterations", 4, "--warmup", 1, *line)
    code, result, _, errors = run_on_device(library, model, config, folder, *arguments, command="loop")
    assert code == 0, errors
    return result, Trace.read(folder / "trace")


@pytest.mark.parametrize("honesty", ["sync", "async-old-api"])
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
        assert case.value("decode_tokens_per_s") == round((TOKENS - 1) * 1e9 / sum(samples[1:TOKENS]), 3)
        assert case.value("sequence_tokens_per_s") is None
    if honesty == "sync":  # what chooses the token takes the copy of its logits
        copy = round(VOCAB * 4 / 0.0001) + COPY_NS
        assert [case.value("next_token") for case in result.cases[:2]] == [CALL_NS, copy + 2 * CALL_NS]


def test_a_cache_that_is_filled_before_is_copied_in_each_step_and_exact(library: Path, tmp_path: Path) -> None:
    line = ("--context", 7, "--prompt-length", PROMPT, *modes("cpu-tensors", "device-resident"))
    result, trace = generated(library, tmp_path, "async-wait", *line, ids=(*range(7), 3, 1, 4, 1))
    assert (result.part["generation"]["context"], result.part["generation"]["prompt"]) == (7, PROMPT)
    parts = {f"step {number}": 1 for number in range(TOKENS)}
    row = VOCAB * 4
    cpu, resident = result.cases
    calls: dict[What, int] = {(case.mode, name): 1 for case in result.cases for name in parts}
    calls |= {(case.mode, "latency"): 3 for case in result.cases}
    assert differences(result, trace, parts, calls, first_bytes=7 * row) == {}
    assert cpu.step_copies("state_h2d") == [7 * row, *((7 + PROMPT + step) * row for step in range(TOKENS - 1))]
    assert resident.step_copies("state_h2d") == 0


def test_the_energy_of_a_token_is_that_of_a_loop_by_its_tokens() -> None:
    result = generating()
    case = drawing(result.cases[0], 12.0)
    result.part["generation"]["batch"] = 2  # sequences of 8 tokens
    put_figures(case, result.part)
    assert case.metrics["token_energy"] == Value(0.75, (0.735, 0.765), derived=True)


def loop(folder: Path, *arguments: object) -> tuple[Result, str]:
    """What a loop of the model in a folder gave, and what was printed, on one line."""
    ran = ortbench("loop", folder, *arguments, "--out", folder.parent / "out")
    assert ran.code == 0, ran.err
    return result_in(folder.parent / "out"), " ".join(ran.out.split())


# A folder whose decoder is one of several models: its files, and what runs before the decoder.
STAGED: list[tuple[dict[str, Any], str]] = [
    ({"genai_config.json": {"encoder": {"filename": "encoder.onnx"}}}, "an encoder"),
    ({"config.json": {"is_encoder_decoder": True}}, "an encoder"),  # of Optimum
    ({"config.json": {}, "embed_tokens.onnx": {}}, "an embedding model"),  # of Transformers.js
]


@pytest.mark.parametrize(("files", "before"), STAGED)
def test_a_folder_with_other_stages(files: dict[str, Any], before: str, tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "gpt")
    genai = json.loads((folder / "genai_config.json").read_text())
    (folder / "genai_config.json").unlink()
    for name, content in files.items():
        more = {"model": {**genai["model"], **content}} if name == "genai_config.json" else content
        (folder / name).write_text(json.dumps(more))
    begin, end = f"{before} runs before the decoder; type ", " for the decoder, or ortbench chain for the stages"
    message = refusal(BadInput, found_in, str(folder))
    assert (begin in message, message.endswith(end)) == (True, True)
    command = shlex.split(message.removesuffix(end).split(begin)[1])
    assert command[:3] == ["ortbench", "loop", str(folder / "model.onnx")]
    if (files, before) == STAGED[0]:
        short = ("--ep", "cpu", "--mode", "cpu-tensors", "--steps", 2, *ONCE, "--out", tmp_path / "out")
        ran = ortbench(*command[1:], *short)
        assert (ran.code, "loop of 2 steps: present.0.key → past_key_values.0.key" in ran.out) == (0, True), ran.err


def test_a_folder_alone_is_measured_as_its_file_says(tmp_path: Path) -> None:
    folder = genai_folder(tmp_path / "model", "llama", shared=True, context=128)
    result, text = loop(folder, "--iterations", 3, "--warmup", 1, "--measure-memory")
    assert "64 prompt tokens (pp64), 64 generated tokens (tg64); random prompt, argmax on the host; " in text
    assert "TTFT ITL ITL p95 ITL p99 prefill tokens/s decode tokens/s" in text
    assert "ortbench code" not in text
    assert [case.mode for case in result.cases] == ["cpu-tensors", "device-resident", "host-accessible", "shared"]
    assert {(case.status, case.checks["outputs"]["verdict"]) for case in result.cases} == {("ok", "passed")}
    assert result.part["generation"]["fixed_cache"]
    assert [case.own["memory"]["failed"] for case in result.cases] == [None] * 4
    ran = ortbench("code", folder)
    assert (ran.code, "no program is written of a model that generates; name its .onnx file" in ran.err) == (2, True)
