"""What is said of the host's own work."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ortbench.analysis.derive import cpu_time_ns
from ortbench.core.eps import CAPTURING_EPS, CUDA_EP, SHORT_NAMES
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import Items
from ortbench.report.run import heading
from ortbench.worker.session import _CAPTURE_OPTIONS, loaded_libraries, software_renderer
from tests.conftest import ROOT
from tests.results import EP, MS, US, case, fact, following, hosted, keys, measured, result_of, stats, steady, values


def resident(*enqueue: int, latency: int = 2 * MS, blocks: int = 6, mode: str = "device-resident") -> Case:
    """Of so many blocks, in which enqueueing takes these times in turns."""
    times = steady(enqueue[number % len(enqueue)] for number in range(blocks))
    return following(measured(mode, enqueue=times, latency=steady([latency] * blocks)))


def bound(*cases: Case, ep: str = EP, items: Items | None = None, **target: Any) -> Result:
    made = result_of(*cases, target__ep=ep)
    made.target.update(target)  # type: ignore[typeddict-item]
    made.items = items
    made.command = ["ortbench", "run", "m.onnx"]
    return made


def is_told(*cases: Case) -> bool:
    return "host-bound" in [code for code, *_ in keys(bound(*cases))]


LATE, EARLY = 1920 * US, 1700 * US


def test_shares_of_the_hosts_work() -> None:
    found = hosted(case("cpu-tensors", latency=100), 10, 2_000, 3_000, 500)
    assert (cpu_time_ns(found), found.value("cpu_cores"), found.value("enqueue_share")) == (3_500, 1.75, None)
    for of, share in (
        (resident(500 * US), 0.25),
        (case("device-tensors", enqueue=1, inference=4, latency=100), 0.25),
        (case("device-resident-async", enqueue=1, latency=2), 0.5),
    ):
        assert of.value("enqueue_share") == share


@pytest.mark.parametrize(
    ("ep", "items", "graph", "command"),
    [
        (EP, None, False, ""),
        (CUDA_EP, {"count": 8, "dim": "batch"}, False, "ortbench run m.onnx --cuda-graph"),
        (CUDA_EP, {"count": 8, "dim": "batch"}, True, "ortbench run m.onnx --dim batch=16"),
        (CUDA_EP, {"count": 8, "dim": None}, True, ""),
    ],
)
def test_host_bound_says_what_helps_as_far_as_it_is_there(ep: str, items: Any, graph: bool, command: str) -> None:
    told = fact(bound(resident(LATE), ep=ep, items=items, cuda_graph=graph), "host-bound")
    assert (told.verdict, told.mode, told.next) == ("enqueues", "device-resident", command)
    assert values(told)["share"] == pytest.approx(0.96)
    shared = resident(9900 * US, latency=10 * MS, mode="host-accessible")
    assert fact(bound(shared, ep=CUDA_EP), "host-bound").next == ""
    many = resident(199 * US, latency=200 * US, mode="device-resident-async")
    many.inferences_per_sample = 100
    assert fact(bound(resident(LATE), many), "host-bound").mode == "device-resident-async"
    assert {*_CAPTURE_OPTIONS} == CAPTURING_EPS <= {*SHORT_NAMES.values()}


def test_from_where_on_it_is_host_bound() -> None:
    """By the interval over pairs of blocks: not of five of them, nor where one in four is below the share."""
    for of, is_bound in (
        (resident(1799 * US), False),
        (resident(1800 * US), True),
        (resident(1979 * US), True),
        (resident(1981 * US), False),
        (resident(LATE, blocks=5), False),
        (resident(LATE, LATE, LATE, EARLY, blocks=8), False),
        (resident(LATE, LATE, LATE, EARLY, blocks=40), True),
        (resident(1138 * US, latency=1143 * US), False),  # what is waited for behind it is the sync itself
        (resident(1120 * US, latency=1143 * US), True),
    ):
        assert is_told(of) is is_bound
    waits = resident(1120 * US, latency=1143 * US)
    waits.sync = {"kind": "synchronize_outputs", "cost_ns": 1 * US, "how": "", "h2d": None, "d2h": None}
    assert not is_told(waits)
    blocks = {"enqueue": steady([910 * US] * 6), "inference": steady([MS] * 6), "latency": steady([MS] * 6)}
    sure = following(measured("device-tensors", **blocks))
    assert fact(bound(resident(LATE, blocks=5), sure), "host-bound").mode == "device-tensors"


def test_a_gpu_that_the_cpu_computes_for_is_none() -> None:
    alone, mixed = {EP: 3}, {EP: 3, "CPUExecutionProvider": 1}
    for cores, nodes, kind, told in (
        (1.13, alone, "GPU", False),
        (1.92, alone, "GPU", True),
        (1.92, mixed, "GPU", False),
        (1.92, alone, "CPU", False),
    ):
        one = hosted(case("device-resident", latency=1000), 10, 10_000, round(cores * 10_000))
        made = bound(one, device={"type": kind, "name": "GPU", "index": 0})
        made.placement["nodes"] = nodes
        assert (("software-gpu", "likely", "device-resident") in keys(made)) is told


def test_a_software_renderer_is_known_by_its_library() -> None:
    for libraries, renderer in (
        ("libvk_swiftshader.so", "SwiftShader"), ("libvulkan_lvp.so", "lavapipe"), ("swrast_dri.so", "llvmpipe"), ("libc.so.6", None),
        ("libvulkan_lvp.so libvulkan_radeon.so", None), ("libvulkan_lvp.so libGLX_nvidia.so.0", None), ("libvulkan_lvp.so libcuda.so.1", None),
        ("libvk_swiftshader.so libvulkan_lvp.so", None),
    ):  # fmt: skip
        assert software_renderer(["libvulkan.so.1.3.239", *libraries.split()]) == renderer
    known = [name for name in loaded_libraries() if name.startswith(("libpython", "python"))]
    assert known or sys.platform != "linux"


def test_a_software_gpu_is_called_so() -> None:
    made = load(ROOT / "reports" / "copy_bound-webgpu-swiftshader" / "result.json")
    made.target["device"]["software"] = "SwiftShader"
    assert keys(made)[0] == ("software-gpu", "known", "")
    assert heading(made)[1].startswith("WebGpu EP on software GPU (SwiftShader), ")


# Threads that spin


def spinning(mode: str, on: int, off: int, within: int = 0, n: int = 200) -> Case:
    """A mode whose runs take 1 ms, and 1.2 ms with threads that do not spin."""
    made = case(mode, latency=1 * MS)
    made.metrics["cpu_time"] = stats(on, n)
    return hosted(made, 100, 1 * MS, on, still=(off, 1200 * US, within))


def test_how_much_of_the_cpu_time_is_spinning() -> None:
    cpu, device = spinning("cpu-tensors", 2 * MS, 500 * US), spinning("device-tensors", 2 * MS, 1 * MS)
    assert [it.value("spin_share") for it in (cpu, device, resident(1))] == [0.75, 0.5, None]
    burns = fact(bound(device, cpu), "spinning")
    assert (burns.verdict, burns.mode, values(burns)["share"]) == ("burns", "cpu-tensors", 0.75)
    assert burns.next == "ortbench run m.onnx --session-config session.intra_op.allow_spinning=0"
    assert ("spinning", "burns", "cpu-tensors") not in keys(bound(spinning("cpu-tensors", 2 * MS, 500 * US, n=5)))
    for off, within in ((3 * MS, 0), (2 * MS, 0), (1950 * US, 30 * US)):
        assert "spinning" not in [it[0] for it in keys(bound(spinning("cpu-tensors", 2 * MS, off, within)))]
