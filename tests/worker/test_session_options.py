"""ONNX Runtime's session options: what a session is made with, what a result and its heading say, and what a program sets."""

from __future__ import annotations

from pathlib import Path

import onnxruntime as ort
import pytest

from ortbench.model.settings import OF_SESSION
from ortbench.plan.target import Target
from ortbench.worker import opening, providers
from ortbench.worker.session import open_model
from tests.conftest import MODELS, ONCE, ortbench

TINY = str(MODELS / "tiny.onnx")
# What a session has by default, and other values of everything.
PLAIN = {
    "intra_op_num_threads": 0,
    "inter_op_num_threads": 0,
    "execution_mode": ort.ExecutionMode.ORT_SEQUENTIAL,
    "enable_cpu_mem_arena": True,
    "enable_mem_pattern": True,
    "graph_optimization_level": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
SET = {
    "intra_op_num_threads": 2,
    "inter_op_num_threads": 3,
    "execution_mode": ort.ExecutionMode.ORT_PARALLEL,
    "enable_cpu_mem_arena": False,
    "enable_mem_pattern": False,
    "graph_optimization_level": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
}
OTHER = Target(
    ep="cpu", intra_op_threads=2, inter_op_threads=3, execution_mode="parallel", cpu_mem_arena=False, mem_pattern=False,
    opt_level="basic",
)  # fmt: skip
TYPED = (
    "--intra-op-threads", "2", "--inter-op-threads", "3", "--execution-mode", "parallel", "--no-cpu-mem-arena",
    "--no-mem-pattern", "--opt-level", "basic",
)  # fmt: skip


@pytest.mark.parametrize(("target", "expected"), [(Target(ep="cpu"), PLAIN), (OTHER, SET)])
def test_a_session_is_made_with_them(target: Target, expected: dict[str, object]) -> None:
    options = open_model(TINY, target, providers.find(target)).session.get_session_options()
    assert {name: getattr(options, name) for name in expected} == expected
    assert {it.attribute for it in OF_SESSION if it.attribute} == {*expected, "optimized_model_filepath"}


@pytest.mark.process
def test_an_ep_that_compiles_has_no_graph_to_write(library: Path, tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "copy_bound.onnx", "--ep-library", library, *ONCE, "--optimized-model", tmp_path / "o.onnx",
                   "--out", tmp_path)  # fmt: skip
    reason = "compiled parts of the graph, which ONNX Runtime then writes to no file; leave it out"
    assert (ran.code, ran.error_line) == (1, f"--optimized-model: RefDeviceExecutionProvider {reason}")


@pytest.mark.process
def test_a_program_sets_them(tmp_path: Path) -> None:
    file = tmp_path / "o.onnx"
    ran = ortbench("code", TINY, "--ep", "cpu", "--mode", "cpu-tensors", *TYPED, "--optimized-model", file)
    assert ran.code == 0, ran.err
    lines = [line.removeprefix("options.") for line in ran.out.splitlines() if line.startswith("options.")]
    values = {name: repr(value) for name, value in SET.items()} | {
        "execution_mode": "ort.ExecutionMode.ORT_PARALLEL",
        "graph_optimization_level": "ort.GraphOptimizationLevel.ORT_ENABLE_BASIC",
        "optimized_model_filepath": f'"{file}"',
    }
    assert sorted(lines) == sorted(f"{name} = {value}" for name, value in values.items())
    assert not file.exists()  # that is for the program to do


def test_entries_about_threads_between_operators_do_something_where_there_are_some() -> None:
    for mode, codes in (("sequential", ["session-config-ignored"]), ("parallel", [])):
        target = Target(ep="cpu", execution_mode=mode, session_config={"session.inter_op.allow_spinning": "0"})
        assert [it["code"] for it in opening.option_warnings(target, providers.find(target))] == codes
