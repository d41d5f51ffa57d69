"""Which node launched which kernels: CUPTI's records and ONNX Runtime's profile, matched by correlation and time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortbench.analysis.copies import KERNEL, LAUNCH, Activity, Moment
from ortbench.analysis.kernels import LaunchedKernel, NodeSpan, kernels_by_node, launched_kernels
from ortbench.model.modes import H2D
from tests.conftest import MODELS, ROOT, measure
from tests.softcuda import Config, records

GEMM, LOOP, ADD = ("g", "Gemm", "CUDA"), ("l", "Loop", "CPU"), ("a", "Add", "CUDA")
# Two runs: a Gemm, then a Loop with an Add in its body.
RUNS = [
    [NodeSpan(*GEMM, at, at + 100), NodeSpan(*ADD, at + 120, at + 140), NodeSpan(*LOOP, at + 100, at + 200)]
    for at in (1000, 2000)
]


def launched(*moments: int | None, began: int = 3000) -> list[LaunchedKernel]:
    return [LaunchedKernel(at, began, 10) for at in moments]


def test_a_kernel_is_of_the_node_that_ran_when_it_was_launched() -> None:
    for kernels, expected in (
        (launched(1050, 2050, 2099), [("g", 1.5, 15)]),
        (launched(1100, 2200), [("l", 0.5, 5), (None, 0.5, 5)]),  # a node ends where the next begins
        (launched(1119, 1120, 1139, 1140, 1141), [("l", 1.5, 15), ("a", 1, 10)]),  # the innermost
        (launched(1500, None, 2050), [("g", 0.5, 5), (None, 1, 10)]),  # between runs, and not known
        ([*launched(500, None, began=999), *launched(2050)], [("g", 0.5, 5)]),  # before the first run
        ([], []),
    ):
        found = kernels_by_node(RUNS, kernels)
        assert [(it["name"], it["kernels"], it["ns"]) for it in found] == expected
        assert sum(it["share"] for it in found) == pytest.approx(1 if found else 0)
        at_once = [[NodeSpan(*GEMM, 0, 20_000), NodeSpan(*ADD, 10_000, 30_000)]]  # on two threads: none is guessed
        found = kernels_by_node(at_once, launched(5_000, 15_000, 25_000))
        assert {it["name"]: it["kernels"] for it in found} == {"g": 1, "a": 1, None: 1}


def test_a_kernel_was_launched_by_the_call_of_its_correlation() -> None:
    activities = [
        Activity(KERNEL, 13_000, 13_050, correlation=7),
        Activity(LAUNCH, 12_000, 12_100, correlation=7),
        Activity(LAUNCH, 12_020, 12_040, correlation=7),  # the driver's, which the runtime called
        Activity(H2D, 12_500, 12_600, 4, correlation=8),
        Activity(KERNEL, 14_000, 14_001, correlation=9),
    ]
    found = launched_kernels(activities, Moment(10_000, 0), Moment(20_000, 10_000))
    assert found == [LaunchedKernel(2050, 3000, 50), LaunchedKernel(None, 4000, 1)]


@pytest.mark.wide
@pytest.mark.process
@pytest.mark.parametrize("forgotten", ["none", "softmax"])
def test_on_the_cuda_ep_each_kernel_is_found(forgotten: str, software_cuda: tuple[str, ...], tmp_path: Path) -> None:
    """The kernels of each node are known; those whose launch CUPTI has no record of are of no node."""
    knobs = Config(kernel_us=300, trace=tmp_path / "trace").environ() | {"CUPTI_STAND_IN_FORGETS": forgotten}
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    knobs["PYTHONPATH"] = f"{ROOT / 'tests' / 'cupti'}:{tmp_path}"
    prefix = ("env", *(f"{name}={value}" for name, value in knobs.items()), *software_cuda)
    options = ("--ep", "cuda", "--mode", "cpu-tensors", "--measure-nodes", "--measure-copies", "--iterations", 3)
    result: dict[str, Any] = measure(MODELS / "cpu_island.onnx", *options, out=tmp_path / "out", prefix=prefix)
    found = {it["name"]: (it["op"], it["kernels"]) for it in result["nodes"]["kernels"]}
    softmax = "Softmax_7" if forgotten == "none" else None
    assert found == {
        "MatMul_0/MatMulAddFusion": ("Gemm", 2), "Relu_2": ("Relu", 1), "MatMul_5/MatMulAddFusion": ("Gemm", 2),
        softmax: ("Softmax" if softmax else None, 1),
    }  # fmt: skip
    row = next(it for it in result["nodes"]["kernels"] if it["name"] == softmax)
    did = [it for it in records(tmp_path / "trace") if it.engine == "compute" and "softmax" in it.name]
    took = [it.end_ns - it.begin_ns for it in did][-3:]  # the last that were profiled
    assert row["ns"] == pytest.approx(sum(took) / len(took), rel=1e-4)  # the clock of records is fast
    (table,) = (tmp_path / "out").glob("*/table.md")
    assert ("of no node" in table.read_text()) == (softmax is None)
