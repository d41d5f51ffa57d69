"""What ONNX Runtime or an EP ignores is named: in the result, on the terminal, in a gate and its Markdown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, ROOT, measure, ortbench

TINY = MODELS / "tiny.onnx"
THREADS = (
    "--session-config session.intra_op_num_threads does nothing: it is an attribute of SessionOptions and no entry; "
    "--intra-op-threads sets it"
)
MISSPELT = (
    "--session-config session.intra_op.allow_spining probably does nothing: ONNX Runtime {version} knows no such entry; "
    "the nearest that it knows is session.intra_op.allow_spinning"
)


def said(result: dict[str, object], code: str) -> list[str]:
    warnings: list[dict[str, str]] = result["warnings"]  # type: ignore[assignment]
    return [it["message"] for it in warnings if it["code"] == code]


@pytest.mark.process
def test_a_run_names_entries_that_do_nothing_and_no_others(tmp_path: Path) -> None:
    entries = ["session.intra_op_num_threads=1", "session.intra_op.allow_spining=0", "session.intra_op.allow_spinning=0",
               "ep.some.key=1", "mlas.disable_kleidiai=1"]  # fmt: skip
    typed = [word for entry in entries for word in ("--session-config", entry)]
    arguments = [TINY, "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, *typed, "--run-config", "hurga=1"]
    found = measure(*arguments, out=tmp_path / "out")
    version = found["environment"]["onnxruntime"]
    assert said(found, "session-config-ignored") == [THREADS, MISSPELT.format(version=version)]
    assert said(found, "run-config-ignored") == [
        f"--run-config hurga probably does nothing: ONNX Runtime {version} knows no such entry"
    ]
    ran = ortbench("run", *arguments, "--out", tmp_path / "again", COLUMNS="300")
    assert ran.code == 0
    lines = [line for line in ran.out.splitlines() if line.startswith("! warning: --session-config")]
    assert lines == [f"! warning: {THREADS}", f"! warning: {MISSPELT.format(version=version)}"]


@pytest.mark.process
def test_inspect_names_them(tmp_path: Path) -> None:
    typed = ["inspect", TINY, "--ep", "cpu", "--session-config", "session.intra_op_num_threads=1"]
    assert f"! warning: {THREADS}" in ortbench(*typed, COLUMNS="200").out.splitlines()
    found = json.loads(ortbench(*typed, "--json", "-").out)
    assert found["warnings"] == [{"code": "session-config-ignored", "message": THREADS}]


@pytest.mark.process
def test_an_ep_option_that_is_taken_without_a_word_and_named_nowhere(
    software_gpu: tuple[str, ...], tmp_path: Path
) -> None:
    found = measure(
        TINY, "--ep", "webgpu", "--mode", "cpu-tensors", *ONCE, "--ep-option", "nonsense=1", "--ep-option", "validationMode=disabled",
        out=tmp_path / "out", prefix=software_gpu,
    )  # fmt: skip
    assert said(found, "ep-option-ignored") == [
        "--ep-option nonsense probably does nothing: WebGpuExecutionProvider took it without a word, and its library does "
        "not hold that name"
    ]


@pytest.mark.process
def test_an_ep_that_refuses_unknown_options_says_so_itself(library: Path, tmp_path: Path) -> None:
    ran = ortbench("run", TINY, "--ep", library, "--ep-option", "nonsense=1", *ONCE, "--out", tmp_path / "out")
    assert ran.code == 1
    assert "nonsense" in ran.error_line


@pytest.mark.process
def test_names_are_found_whole_or_in_the_pieces_of_machine_code(tmp_path: Path) -> None:
    (tmp_path / "library.so").write_bytes(b"\0whole_name\0 disable_\x01dynamic_\x02shapes\0 short")
    names = ["whole_name", "disable_dynamic_shapes", "enable_dynamic_shapes", "short", "shor_", "whole_nam_"]
    code = (
        "import sys; from ortbench.worker.session.config_keys import _names_in_library\n"
        "print(sorted(_names_in_library(sys.argv[1], sys.argv[2:])), _names_in_library('/nowhere.so', ['a']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "library.so", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "['disable_dynamic_shapes', 'short', 'whole_name'] None\n"
