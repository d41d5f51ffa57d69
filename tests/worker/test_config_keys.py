"""Entries of the configuration and EP options that do nothing: what is said of each, in the result and by inspect."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ortbench.worker.opening import RUN, SESSION, sentences, undocumented_keys
from tests.conftest import MODELS, ONCE, ROOT, measure, ortbench


def test_an_entry_that_does_nothing_is_named_with_what_does_it() -> None:
    for option, key, said in [
        (SESSION, "session.intra_op_num_threads", "does nothing: it is an attribute of SessionOptions and no entry; --intra-op-threads sets it"),
        (SESSION, "intra_op_num_threads", "does nothing: it is an attribute of SessionOptions and no entry; --intra-op-threads sets it"),
        (SESSION, "session.graph_optimization_level", "does nothing: it is an attribute of SessionOptions and no entry; --opt-level sets it"),
        (SESSION, "session.enable_cpu_mem_arena", "does nothing: it is an attribute of SessionOptions and no entry; --no-cpu-mem-arena sets it"),
        (SESSION, "inter_op_num_threads", "does nothing: it is an attribute of SessionOptions and no entry; --inter-op-threads sets it"),
        (SESSION, "session.log_severity_level", "does nothing: it is an attribute of SessionOptions and no entry; ortbench has no option for it"),
        (SESSION, "session.inter_op.allow_spinning", "does nothing: it is about threads between operators, which --execution-mode parallel alone has"),
        (SESSION, "memory.enable_memory_arena_shrinkage", "does nothing: it is an entry of RunOptions, which --run-config sets"),
        (SESSION, "ep.dynamic.workload_type", "does nothing: it is set on a session that is open (set_ep_dynamic_options); ortbench has no option for it"),
        (SESSION, "session.intra_op.allow_spining", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest that it knows is session.intra_op.allow_spinning"),
        (SESSION, "allow_spinning", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest that it knows is session.intra_op.allow_spinning"),
        (SESSION, "ep.contxt_enable", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest that it knows is ep.context_enable"),
        (SESSION, "session.intra_op_num_thread", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest is session.intra_op_num_threads, which is an attribute of SessionOptions and no entry; --intra-op-threads sets it"),
        (SESSION, "k", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry"),
        (RUN, "session.disable_prepacking", "does nothing: it is an entry of SessionOptions, which --session-config sets"),
        (RUN, "terminate", "does nothing: it is an attribute of RunOptions and no entry; ortbench has no option for it"),
        (RUN, "memory.enable_arena_shrinkage", "probably does nothing: ONNX Runtime 1.31.1 knows no such entry; the nearest that it knows is memory.enable_memory_arena_shrinkage"),
    ]:  # fmt: skip
        assert sentences(option, {key: "1"}, (), "1.31.1") == [f"{option} {key} {said}"]


def test_documented_entries_and_those_that_a_library_holds_are_not_judged() -> None:
    for option, key in [
        (SESSION, "session.intra_op.allow_spinning"),
        (SESSION, "ep.context_enable"),
        (SESSION, "ep.someexecutionprovider.any_key"),
        (SESSION, "ep.cuda.use_arena"),
        (RUN, "memory.enable_memory_arena_shrinkage"),
        (RUN, "qnn.htp_perf_mode"),
    ]:
        assert undocumented_keys(option, [key]) == []
        assert sentences(option, {key: "1"}, (), "1.31.1") == []
    entries = {"session.brand_new": "1", "session.brand_ne": "1"}
    assert undocumented_keys(SESSION, entries) == [*entries]
    assert sentences(SESSION, entries, {"session.brand_new"}, "1.40.0") == [
        "--session-config session.brand_ne probably does nothing: ONNX Runtime 1.40.0 knows no such entry; "
        "the nearest that it knows is session.brand_new"
    ]
    assert sentences(SESSION, {"session.enable_profiling": "1"}, {"session.enable_profiling"}, "1.40.0") == [
        "--session-config session.enable_profiling does nothing: it is an attribute of SessionOptions and no entry; "
        "ortbench run --measure-nodes profiles some runs"
    ]


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
def test_names_are_found_whole_or_in_the_pieces_of_machine_code(tmp_path: Path) -> None:
    (tmp_path / "library.so").write_bytes(b"\0whole_name\0 disable_\x01dynamic_\x02shapes\0 short")
    names = ["whole_name", "disable_dynamic_shapes", "enable_dynamic_shapes", "short", "shor_", "whole_nam_"]
    code = (
        "import sys; from ortbench.worker.opening import _names_in_library\n"
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
