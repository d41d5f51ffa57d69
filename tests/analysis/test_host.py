"""What is said of the host's own work."""

from __future__ import annotations

import sys

import pytest

from ortbench.analysis.resource_usage import cpu_time_ns
from ortbench.core.eps import CAPTURING_EPS, CUDA_EP, SHORT_NAMES
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import Items
from ortbench.report.run import heading
from ortbench.worker.session import loaded_libraries, software_renderer
from tests.conftest import ROOT
from tests.results import (
    MS,
    US,
    case,
    fact,
    following,
    hosted,
    keys,
    measured,
    result_of,
    stats,
    steady,
    values,
)

BATCH: Items = {"count": 8, "dim": "batch"}


def resident(*submit: int, latency: int = 2 * MS, blocks: int = 6) -> Case:
    """Of so many blocks, in which submit takes these times in turns."""
    return following(
        measured(
            "device-resident",
            enqueue=steady(submit[number % len(submit)] for number in range(blocks)),
            latency=steady([latency] * blocks),
        )
    )


def bound(*cases: Case, ep: str = "SomeExecutionProvider", items: Items | None = None, **target: object) -> Result:
    made = result_of(*cases, target__ep=ep)
    made.target.update(target)  # type: ignore[typeddict-item]
    made.items = items
    made.command = ["ortbench", "run", "m.onnx"]
    return made


def is_told(made: Result) -> bool:
    return "host-bound" in [code for code, *_ in keys(made)]


def test_host_bound_says_what_helps_as_far_as_it_is_there() -> None:
    found = hosted(case("cpu-tensors", latency=100), 10, 2_000, 3_000, 500)
    assert (cpu_time_ns(found), found.value("cpu_cores")) == (3_500, 1.75)
    for of, share in [
        (resident(500 * US), 0.25),
        (case("device-tensors", enqueue=1, inference=4, latency=100), 0.25),
        (case("device-resident-async", enqueue=1, latency=2), 0.5),
        (case("cpu-tensors", latency=100), None),
    ]:
        assert of.value("enqueue_share") == share
    graph, batch = "ortbench run m.onnx --cuda-graph", "ortbench run m.onnx --dim batch=16"
    late = resident(1920 * US)
    for made, after in [
        (bound(late), ""), (bound(late, ep=CUDA_EP), graph), (bound(late, ep=CUDA_EP, items=BATCH), graph),
        (bound(late, ep=CUDA_EP, items=BATCH, cuda_graph=True), batch),
        (bound(late, ep=CUDA_EP, items={"count": 8, "dim": None}, cuda_graph=True), ""),
    ]:  # fmt: skip
        told = fact(made, "host-bound")
        assert (told.verdict, told.mode, told.next) == ("enqueues", "device-resident", after)
        assert values(told)["share"] == pytest.approx(0.96)
    shared = following(measured("host-accessible", enqueue=steady([9900 * US] * 6), latency=steady([10 * MS] * 6)))
    assert fact(bound(shared, ep=CUDA_EP), "host-bound").next == ""
    many = following(measured("device-resident-async", enqueue=steady([199 * US] * 6), latency=steady([200 * US] * 6)))
    many.inferences_per_sample = 100
    assert fact(bound(resident(1920 * US), many), "host-bound").mode == "device-resident-async"


def test_from_where_on_it_is_host_bound() -> None:
    for submit, is_bound in [(1799 * US, False), (1800 * US, True), (1979 * US, True), (1981 * US, False)]:
        assert is_told(bound(resident(submit))) is is_bound
    # By the interval over pairs of blocks: not of five of them, nor where one in four is below the share.
    late, early = 1920 * US, 1700 * US
    assert not is_told(bound(resident(late, blocks=5)))
    assert not is_told(bound(resident(late, late, late, early, blocks=8)))
    assert is_told(bound(resident(late, late, late, early, blocks=40)))
    blocks = {"enqueue": steady([910 * US] * 6), "inference": steady([MS] * 6), "latency": steady([MS] * 6)}
    sure = following(measured("device-tensors", **blocks))
    assert fact(bound(resident(late, blocks=5), sure), "host-bound").mode == "device-tensors"
    # What is waited for behind it is then no more than the sync takes by itself.
    waits = resident(1138 * US, latency=1143 * US)
    assert not is_told(bound(waits))
    waits = resident(1120 * US, latency=1143 * US)
    assert is_told(bound(waits))
    waits.sync = {"kind": "synchronize_outputs", "cost_ns": 1 * US, "how": "", "h2d": None, "d2h": None}
    assert not is_told(bound(waits))


def test_the_eps_that_capture_are_those_of_the_worker() -> None:
    from ortbench.worker.session import _CAPTURE_OPTIONS

    assert {*_CAPTURE_OPTIONS} == CAPTURING_EPS <= {*SHORT_NAMES.values()}


# Threads that spin


def spinning(mode: str, on: int, off: int, within: int = 0) -> Case:
    """A mode whose runs take 1 ms, and 1.2 ms with threads that do not spin."""
    made = case(mode, latency=1 * MS)
    made.metrics["cpu_time"] = stats(on)
    return hosted(made, 100, 1 * MS, on, still=(off, 1200 * US, within))


def test_a_gpu_that_the_cpu_computes_for_is_none() -> None:
    """Of each inference `hosted` has its time and its CPU time, ns."""
    gpu, ep = {"type": "GPU", "name": "GPU", "index": 0}, "SomeExecutionProvider"
    for cores, nodes, device, told in [
        (1.13, {ep: 3}, gpu, False),
        (1.92, {ep: 3}, gpu, True),
        (1.92, {ep: 3, "CPUExecutionProvider": 1}, gpu, False),
        (1.92, {ep: 3}, {**gpu, "type": "CPU"}, False),
    ]:
        one = hosted(case("device-resident", latency=1000), 10, 10_000, round(cores * 10_000))
        made = bound(one, ep=ep, device=device)
        made.placement["nodes"] = nodes
        assert (("software-gpu", "likely", "device-resident") in keys(made)) is told


def test_a_software_renderer_is_known_by_its_library_where_no_gpu_has_a_driver() -> None:
    vulkan = ["libvulkan.so.1.3.239", "libc.so.6"]
    for libraries, renderer in [
        (["libvk_swiftshader.so"], "SwiftShader"), (["libvulkan_lvp.so"], "lavapipe"), (["swrast_dri.so"], "llvmpipe"), ([], None),
        (["libvulkan_lvp.so", "libvulkan_radeon.so"], None), (["libvulkan_lvp.so", "libGLX_nvidia.so.0"], None),
        (["libvulkan_lvp.so", "libcuda.so.1"], None), (["libvk_swiftshader.so", "libvulkan_lvp.so"], None),
    ]:  # fmt: skip
        assert software_renderer([*vulkan, *libraries]) == renderer
    assert (
        any(name.startswith("libpython") or name.startswith("python") for name in loaded_libraries())
        or sys.platform != "linux"
    )
    made = load(ROOT / "reports" / "copy_bound-webgpu-swiftshader" / "result.json")
    made.target["device"]["software"] = "SwiftShader"
    assert keys(made)[0] == ("software-gpu", "known", "")
    assert heading(made)[1].startswith("WebGpu EP on software GPU (SwiftShader), ")


def test_how_much_of_the_cpu_time_is_spinning() -> None:
    cpu, device = spinning("cpu-tensors", 2 * MS, 500 * US), spinning("device-tensors", 2 * MS, 1 * MS)
    assert tuple(it.value("spin_share") for it in (cpu, device, resident(1))) == (0.75, 0.5, None)
    made = result_of(device, cpu)
    made.command = ["ortbench", "run", "m.onnx"]
    burns = fact(made, "spinning")
    assert (burns.verdict, burns.mode, values(burns)["share"]) == ("burns", "cpu-tensors", 0.75)
    assert burns.next == "ortbench run m.onnx --session-config session.intra_op.allow_spinning=0"
    known, few, unknown = (spinning("cpu-tensors", 2 * MS, 500 * US) for _ in range(3))
    few.metrics["cpu_time"] = stats(2 * MS, n=5)
    unknown.set_metric("cpu_time_spin_off", 500 * US)
    for case_, is_said in ((few, False), (known, True)):
        assert (("spinning", "burns", "cpu-tensors") in keys(result_of(case_))) is is_said
    assert fact(result_of(few, known), "spinning").verdict == "burns"
    for off, within in [(3 * MS, 0), (2 * MS, 0), (1950 * US, 30 * US)]:
        assert "spinning" not in [it[0] for it in keys(result_of(spinning("cpu-tensors", 2 * MS, off, within)))]
