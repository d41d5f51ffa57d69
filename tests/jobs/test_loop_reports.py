"""What `ortbench loop` leaves for people and programs, and the loop that `ortbench inspect` suggests: real runs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.conftest import MODELS, ortbench

pytestmark = pytest.mark.process

SUGGESTED = {
    "recurrent_cell": "--feedback hidden_out=hidden",
    "decoder": "",
    "decoder_shared": "",
    "denoiser": "--feedback denoised=latent",
    "loop_on_device": "--feedback state_out=state",
    "growing_on_device": "--feedback present=past",
}


@pytest.mark.parametrize("model", SUGGESTED)
def test_the_loop_that_inspect_suggests_is_one(model: str, tmp_path: Path) -> None:
    path = MODELS / f"{model}.onnx"
    answer = json.loads(ortbench("inspect", path, "--json", "-").out)["loop"]
    assert answer["command"] == f"ortbench loop {shlex.quote(str(path))} {SUGGESTED[model]}".rstrip()
    generates = not SUGGESTED[model]
    assert answer["sure"] == (model != "denoiser")
    command = [
        *shlex.split(answer["command"])[1:],
        "--ep",
        "cpu",
        "--mode",
        "cpu-tensors",
        *(("--prompt-length", 1, "--generate") if generates else ("--steps",)),
        3,
        "--iterations",
        1,
    ]
    ran = ortbench(*command, "--warmup", 1, "--out", tmp_path, "--json", tmp_path / "result.json")
    assert ran.code == 0, ran.err
    assert json.loads((tmp_path / "result.json").read_text())["loop"]["feedback"] == answer["feedback"]


def test_inspect_prints_the_loop_and_nothing_of_one_where_there_is_none() -> None:
    ran = ortbench("inspect", MODELS / "recurrent_cell.onnx", COLUMNS="200")
    lines = ran.out.splitlines()
    at = lines.index("  loop    hidden_out → hidden (by their names); to measure it:")
    model = shlex.quote(str(MODELS / "recurrent_cell.onnx"))
    assert lines[at + 1].strip() == f"ortbench loop {model} --feedback hidden_out=hidden"
    ran = ortbench("inspect", MODELS / "denoiser.onnx", COLUMNS="200")
    assert "  loop    denoised → latent (maybe: the only pair of one type and shape); to measure it:\n" in ran.out
    assert "  loop    " not in ortbench("inspect", MODELS / "multi_output.onnx").out


def test_a_cache_that_begins_empty_is_no_guess(tmp_path: Path) -> None:
    """A size of 1 is one, the length of 0 from which trial steps showed it to grow is not."""
    decoder = (
        "decoder", "--dim", "total_length=past_length+sequence", "--fill", "attention_mask=1", "--fill", "position_ids=past_length",
        "--feedback", "present.*=past_key_values.*",
    )  # fmt: skip
    for name, *line in (("growing_on_device", "--feedback", "present=past"), decoder):
        json_out = tmp_path / f"{name}.json"
        line += ["--ep", "cpu", "--mode", "cpu-tensors", "--steps", "3", "--iterations", "1", "--warmup", "1"]
        ran = ortbench("loop", MODELS / f"{name}.onnx", *line, "--out", tmp_path, "--json", json_out)
        assert ran.code == 0, ran.err
        found = json.loads(json_out.read_text())
        assert found["loop"]["state_shapes"][0][0][2] == 0
        told = [it["message"] for it in found["warnings"] if it["code"] == "dims-set-to-1"]
        assert told == (
            ["symbolic dimensions set to 1: sequence, batch; give others with --dim or --shape"] * (name == "decoder")
        )
