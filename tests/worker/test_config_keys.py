"""Entries of the configuration and EP options that do nothing: what is said of each, in the result and by inspect."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ortbench.worker.opening import RUN, SESSION, sentences, undocumented_keys
from tests.conftest import MODELS, ONCE, ROOT, measure, ortbench

NO_ENTRY = "does nothing: it is an attribute of SessionOptions and no entry"
NOT_KNOWN = "probably does nothing: ONNX Runtime 1.31.1 knows no such entry"
SPINNING = f"{NOT_KNOWN}; the nearest that it knows is session.intra_op.allow_spinning"


@pytest.mark.parametrize(
    ("option", "key", "said"),
    [
        (SESSION, "session.intra_op_num_threads", f"{NO_ENTRY}; --intra-op-threads sets it"),
        (SESSION, "intra_op_num_threads", f"{NO_ENTRY}; --intra-op-threads sets it"),
        (SESSION, "session.graph_optimization_level", f"{NO_ENTRY}; --opt-level sets it"),
        (SESSION, "session.enable_cpu_mem_arena", f"{NO_ENTRY}; --no-cpu-mem-arena sets it"),
        (SESSION, "session.log_severity_level", f"{NO_ENTRY}; ortbench has no option for it"),
        (SESSION, "session.enable_profiling", f"{NO_ENTRY}; ortbench run --measure-nodes profiles some runs"),
        (SESSION, "session.inter_op.allow_spinning",
         "does nothing: it is about threads between operators, which --execution-mode parallel alone has"),
        (SESSION, "memory.enable_memory_arena_shrinkage", "does nothing: it is an entry of RunOptions, which --run-config sets"),
        (SESSION, "ep.dynamic.workload_type",
         "does nothing: it is set on a session that is open (set_ep_dynamic_options); ortbench has no option for it"),
        (SESSION, "session.intra_op.allow_spining", SPINNING),
        (SESSION, "allow_spinning", SPINNING),
        (SESSION, "session.intra_op_num_thread",
         f"{NOT_KNOWN}; the nearest is session.intra_op_num_threads, which is an attribute of SessionOptions and no entry; "
         "--intra-op-threads sets it"),
        (SESSION, "k", NOT_KNOWN),
        (RUN, "session.disable_prepacking", "does nothing: it is an entry of SessionOptions, which --session-config sets"),
        (RUN, "terminate", "does nothing: it is an attribute of RunOptions and no entry; ortbench has no option for it"),
        (RUN, "memory.enable_arena_shrinkage",
         f"{NOT_KNOWN}; the nearest that it knows is memory.enable_memory_arena_shrinkage"),
    ],
)  # fmt: skip
def test_an_entry_that_does_nothing_is_named_with_what_does_it(option: str, key: str, said: str) -> None:
    assert sentences(option, {key: "1"}, (), "1.31.1") == [f"{option} {key} {said}"]


@pytest.mark.parametrize(
    ("option", "key"),
    [
        (SESSION, "session.intra_op.allow_spinning"),
        (SESSION, "ep.context_enable"),
        (SESSION, "ep.someexecutionprovider.any_key"),
        (SESSION, "ep.cuda.use_arena"),
        (RUN, "memory.enable_memory_arena_shrinkage"),
        (RUN, "qnn.htp_perf_mode"),
    ],
)
def test_documented_entries_are_not_judged(option: str, key: str) -> None:
    assert undocumented_keys(option, [key]) == []
    assert sentences(option, {key: "1"}, (), "1.31.1") == []


def test_entries_that_a_library_holds_are_not_judged() -> None:
    entries = {"session.brand_new": "1", "session.brand_ne": "1"}
    assert undocumented_keys(SESSION, entries) == [*entries]
    (said,) = sentences(SESSION, entries, {"session.brand_new"}, "1.31.1")
    assert said == f"--session-config session.brand_ne {NOT_KNOWN}; the nearest that it knows is session.brand_new"


TINY = MODELS / "tiny.onnx"


def said(result: dict[str, object], code: str) -> list[str]:
    warnings: list[dict[str, str]] = result["warnings"]  # type: ignore[assignment]
    return [it["message"] for it in warnings if it["code"] == code]


@pytest.mark.process
def test_a_run_and_inspect_name_entries_that_do_nothing_and_no_others(tmp_path: Path) -> None:
    entries = ["session.intra_op_num_threads=1", "session.intra_op.allow_spinning=0", "ep.some.key=1",
               "mlas.disable_kleidiai=1"]  # fmt: skip
    typed = [TINY, "--ep", "cpu", *(word for entry in entries for word in ("--session-config", entry))]
    found = measure(*typed, "--mode", "cpu-tensors", *ONCE, "--run-config", "hurga=1", out=tmp_path / "out")
    threads = f"--session-config session.intra_op_num_threads {NO_ENTRY}; --intra-op-threads sets it"
    assert said(found, "session-config-ignored") == [threads]
    assert [text.partition(" probably")[0] for text in said(found, "run-config-ignored")] == ["--run-config hurga"]
    inspected = json.loads(ortbench("inspect", *typed, "--json", "-").out)
    assert said(inspected, "session-config-ignored") == [threads]


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
