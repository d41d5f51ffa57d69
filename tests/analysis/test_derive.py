"""What is derived: copies, remainders, the host's own work, items and memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ortbench.analysis.derive import (
    REMAINDER,
    computes_on_host,
    cpu_time_ns,
    derive,
    figure,
    put_host,
    put_spin_share,
    why_unknown,
)
from ortbench.analysis.items import items_of, put_throughput
from ortbench.analysis.speedups import COPIED, HANDED_ON, UNCLEAR, handing_on
from ortbench.core.eps import CAPTURING_EPS, CPU_EP, CUDA_EP, SHORT_NAMES
from ortbench.core.errors import BadInput
from ortbench.features.memory.analysis import arenas, device_total, heaviest
from ortbench.model.modes import DEVICE, RESIDENT, STAGE, STEP
from ortbench.model.result import Case, Result
from ortbench.model.result_file import load
from ortbench.model.schema import Items
from ortbench.report.run import heading
from ortbench.worker.session import _CAPTURE_OPTIONS, loaded_libraries, software_renderer
from tests.conftest import ROOT
from tests.expect import refusal, there
from tests.results import (
    EP,
    MS,
    US,
    broken,
    case,
    chain,
    fact,
    hosted,
    keys,
    loop_of,
    loop_result,
    measured,
    nvidia_result,
    result_of,
    stats,
    steady,
    values,
    weighed,
    with_bytes,
)

# Arrays that ONNX Runtime passes through or copies, and what parts leave of the whole


SHARED = {"kind": "ep-device", "default": None, "host_accessible": "Shared (HOST_ACCESSIBLE)"}


def with_times(
    cpu: int, resident: int, copies: int, memory: Mapping[str, str | None] = SHARED, verified: bool = True
) -> Result:
    """Modes with these medians, ns; the copies are half up and half down."""
    half = steady([copies // 2] * 9)
    shared = measured("host-accessible", latency=steady([resident] * 9))
    shared.checks["zero_copy"] = {"verdict": "passed" if verified else "unclear", "how": "seen"}
    made = nvidia_result(
        measured("cpu-tensors", latency=steady([cpu] * 9)),
        measured(DEVICE, h2d=half, inference=half, d2h=half, latency=half),
        measured(RESIDENT, latency=steady([resident] * 9)),
        shared,
        memory=memory,
    )
    derive(made)
    return made


def test_whether_arrays_are_passed_through() -> None:
    for cpu, resident, copies, verdict in (
        (10 * MS, 10 * MS, 4 * MS, HANDED_ON),
        (9 * MS, 10 * MS, 4 * MS, HANDED_ON),
        (10_999 * US, 10 * MS, 4 * MS, HANDED_ON),
        (11 * MS, 10 * MS, 4 * MS, UNCLEAR),  # a quarter of the copies
        (12 * MS, 10 * MS, 4 * MS, COPIED),
        (8 * US, 6 * US, 1 * US, UNCLEAR),  # what a call costs is not a copy
    ):
        made = with_times(cpu, resident, copies)
        assert there(handing_on(made)).verdict == verdict
        assert ("copies" in made.cases[0].metrics) == (verdict == COPIED)
        assert bool({code for code, *_ in keys(made)} & {"arrays", "copies"}) == (verdict != UNCLEAR)
        own = with_times(cpu, resident, copies, {**SHARED, "default": "Own (DEFAULT)"})
        assert handing_on(own) is None
        assert ("copies" in own.cases[0].metrics) == (cpu > resident)


def test_facts_of_arrays() -> None:
    made = with_times(10 * MS, 10 * MS, 4 * MS)
    made.cases[0].samples["latency"] = [7 * MS, 10 * MS, 14 * MS] * 9  # which spread too far
    derive(made)
    assert there(handing_on(made)).verdict == UNCLEAR
    made = with_times(10 * MS, 10 * MS, 4 * MS)
    assert keys(made)[0] == ("arrays", "in-place", "cpu-tensors")
    figures = {"ep": "SomeExecutionProvider", "with": 10 * MS, "without": 10 * MS, "copies": 4 * MS}
    assert values(fact(made, "arrays")) == figures
    assert fact(with_times(10 * MS, 10 * MS, 4 * MS, verified=False), "arrays").verdict == "passed"
    assert values(fact(with_times(14 * MS, 10 * MS, 4 * MS), "copies"))["share"] == pytest.approx(4 / 14)


def of_parts(whole: int, parts: Sequence[int], name: str) -> Case:
    """Nine loops or chains in blocks of one, with the times of their parts, ns."""
    case = measured(RESIDENT, latency={number: [whole] for number in range(9)})
    case.samples[name] = [*parts] * 9
    case.blocks[name] = [[number, len(parts), 0] for number in range(9)]
    return case


def test_what_is_between_the_parts_is_a_part_of_its_own() -> None:
    loop, stages = loop_result(of_parts(11 * MS, [41_600] * 64, STEP), loop=loop_of(64)), chain()
    stages.cases = [of_parts(9 * MS, [2 * MS, 3 * MS], STAGE)]
    phases = {"latency": 6750, "h2d": 2000, "inference": 1000, "d2h": 1970}  # timed apart from latency
    case = with_bytes(measured(DEVICE, **{it: steady([us * US] * 12) for it, us in phases.items()}), 1000, 1000)
    for result, remainder in ((loop, 11 * MS - 64 * 41_600), (stages, 4 * MS), (result_of(case), 1780 * US)):
        derive(result)
        assert result.cases[0].value(REMAINDER) == remainder


# The host's own work


def resident(*enqueue: int, latency: int = 2 * MS, blocks: int = 6, mode: str = "device-resident") -> Case:
    """Of so many blocks, in which enqueueing takes these times in turns."""
    times = steady(enqueue[number % len(enqueue)] for number in range(blocks))
    return measured(mode, enqueue=times, latency=steady([latency] * blocks))


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
    put_host(found, None)
    assert (cpu_time_ns(found), found.value("cpu_cores"), found.value("enqueue_share")) == (3_500, 1.75, None)
    for of, share in (
        (resident(500 * US), 0.25),
        (case("device-tensors", enqueue=1, inference=4, latency=100), 0.25),
        (case("device-resident-async", enqueue=1, latency=2), 0.5),
    ):
        put_host(of, None)
        assert of.value("enqueue_share") == share


def test_host_bound_says_what_helps_as_far_as_it_is_there() -> None:
    for dim, graph, command in (
        ("batch", False, "ortbench run m.onnx --cuda-graph"),
        ("batch", True, "ortbench run m.onnx --dim batch=16"),
        (None, True, ""),
    ):
        told = fact(bound(resident(LATE), ep=CUDA_EP, items={"count": 8, "dim": dim}, cuda_graph=graph), "host-bound")
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
        (resident(1800 * US), True),
        (resident(1981 * US), False),
        (resident(LATE, blocks=5), False),
        (resident(LATE, LATE, LATE, EARLY, blocks=40), True),
        (resident(1138 * US, latency=1143 * US), False),  # what is waited for behind it is the sync itself
        (resident(1120 * US, latency=1143 * US), True),
    ):
        assert is_told(of) is is_bound
    waits = resident(1120 * US, latency=1143 * US)
    waits.sync = {"kind": "synchronize_outputs", "cost_ns": 1 * US, "how": "", "h2d": None, "d2h": None}
    assert not is_told(waits)
    blocks = {"enqueue": steady([910 * US] * 6), "inference": steady([MS] * 6), "latency": steady([MS] * 6)}
    sure = measured("device-tensors", **blocks)
    assert fact(bound(resident(LATE, blocks=5), sure), "host-bound").mode == "device-tensors"


def test_a_gpu_that_the_cpu_computes_for_is_none() -> None:
    alone, mixed = {EP: 3}, {EP: 3, "CPUExecutionProvider": 1}
    for cores, nodes, kind, told in (
        (1.13, alone, "GPU", False),
        (1.92, alone, "GPU", True),
        (1.92, mixed, "GPU", False),
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


def spinning(mode: str, on: int, off: int, within: int = 0, n: int = 200) -> Case:
    """A mode whose runs take 1 ms, and 1.2 ms with threads that do not spin."""
    made = case(mode, latency=1 * MS)
    made.metrics["cpu_time"] = stats(on, n)
    return hosted(made, 100, 1 * MS, on, still=(off, 1200 * US, within))


def test_how_much_of_the_cpu_time_is_spinning() -> None:
    cpu, device = spinning("cpu-tensors", 2 * MS, 500 * US), spinning("device-tensors", 2 * MS, 1 * MS)
    for of, share in ((cpu, 0.75), (device, 0.5), (resident(1), None)):
        put_spin_share(of)
        assert of.value("spin_share") == share
    burns = fact(bound(device, cpu), "spinning")
    assert (burns.verdict, burns.mode, values(burns)["share"]) == ("burns", "cpu-tensors", 0.75)
    assert burns.next == "ortbench run m.onnx --session-config session.intra_op.allow_spinning=0"
    assert ("spinning", "burns", "cpu-tensors") not in keys(bound(spinning("cpu-tensors", 2 * MS, 500 * US, n=5)))
    for off, within in ((3 * MS, 0), (2 * MS, 0), (1950 * US, 30 * US)):
        assert "spinning" not in [it[0] for it in keys(bound(spinning("cpu-tensors", 2 * MS, off, within)))]


# Items


def takes(name: str, model_shape: list[Any], shape: list[int] | None) -> Any:
    return {"name": name, "type": "tensor(float)", "model_shape": model_shape, "shape": shape, "bytes": None}


def test_which_dimension_is_a_batch_by_its_name() -> None:
    for name in ("batch", "Batch", "BATCH", "batch_size", "BatchSize", "batch-size", "N", "n"):
        assert items_of([takes("x", [name, 3], [8, 3])], None, []) == {"count": 8, "dim": name}
    for other in ("b", "rows", "sequence", "batches_of", "nodes", "unk__1", "", None, 8):
        assert items_of([takes("x", [other, 3], [8, 3])], None, []) is None


@pytest.mark.parametrize(
    ("inputs", "dim"),
    [
        ([takes("x", [3, "batch"], [3, 8])], "batch"),  # wherever it is
        ([takes("x", ["n", "batch"], [3, 8])], "batch"),
        ([takes("x", ["batch", 3], [8, 3]), takes("y", ["batch", 3], [8, 3])], "batch"),
        ([takes("x", ["batch", 3], [8, 3]), takes("y", ["Batch", 3], [4, 3])], None),
        # n only where batches stand.
        ([takes("x", ["n", 512], [8, 512]), takes("state", [2, "n", 128], [2, 8, 128]), takes("sr", [], [])], "n"),
        ([takes("x", ["n", 3, "h"], [8, 3, 4])], "n"),
        ([takes("x", ["n", 3], [8, 3]), takes("y", ["n", 4], [8, 4])], "n"),
        ([takes("x", [1, "n"], [1, 16000])], None),
        ([takes("a", ["n", "k"], [8, 4]), takes("b", ["k", "m"], [4, 2])], None),
        ([takes("x", [None, 3], [2, 3]), takes("h", ["n", 4], [8, 4])], None),
    ],
)
def test_which_dimension_is_a_batch_by_where_it_stands(inputs: list[Any], dim: str | None) -> None:
    assert items_of(inputs, None, []) == (dim and {"count": 8, "dim": dim})


def test_what_was_asked_for_counts() -> None:
    inputs = [takes("x", ["batch", "frames"], [8, 30])]
    assert items_of(inputs, 5, []) == {"count": 5, "dim": None}
    assert items_of(inputs, "frames", []) == {"count": 30, "dim": "frames"}
    assert items_of([takes("x", ["batch", 3], [1, 3])], None, ["batch"]) == {"count": 1, "dim": "batch"}
    for inputs, guessed, message in [
        ([takes("x", ["batch", "time"], [8, 3])], [], "the model's inputs have no such dimension; they have batch, time"),
        ([takes("x", [8, 3], [8, 3])], [], "the model's inputs have no such dimension; all of them are fixed, so give a number"),
        ([takes("x", ["frames", 3], [1, 3])], ["frames"], "nobody says how large it is: add --dim frames=N"),
        ([takes("x", ["frames"], [8]), takes("y", ["frames"], [4])], [], "is 4 and 8 in different inputs: give a number"),
    ]:  # fmt: skip
        assert refusal(BadInput, items_of, inputs, "frames", guessed) == f"--items frames: {message}"


def test_the_rate_is_by_the_mean_and_the_time_of_each_by_the_median() -> None:
    made = measured("cpu-tensors", latency=steady([MS, MS, 2 * MS, 2 * MS, 2 * MS, 4 * MS]))
    failed, without = broken("cpu-tensors", latency=steady([MS])), case("cpu-tensors", h2d=MS)
    for of, count, rates in (
        (made, 8, (500.0, 4000.0, 250_000.0)),
        (made, 3, (500.0, 1500.0, 666_666.667)),
        (made, None, (500.0, None, None)),
        (failed, 8, (None, None, None)),
        (without, 8, (None, None, None)),
    ):
        put_throughput(of, None if count is None else {"count": count, "dim": None})
        assert tuple(map(of.value, ("throughput", "item_throughput", "item_time"))) == rates


# Memory


def event(name: str, ep: str = EP, **args: int) -> tuple[str, dict[str, Any]]:
    """A node event as ONNX Runtime writes it: numbers are texts."""
    return name, {"provider": ep, "op_name": "Conv", "node_index": "0", **{key: str(n) for key, n in args.items()}}


USED: dict[str, Any] = {"mem_in_use_delta": 512, "mem_requested_in_use_delta": 500, "output_size": 500}
FIRST = event("a", mem_arena_held=1000, mem_in_use_peak=600, **USED)
LATER = event("a", mem_arena_held=2000, mem_in_use_peak=900, mem_in_use_delta=0, output_size=500)
OLD = event("a", output_size=500, parameter_size=7)


def test_an_arena_is_what_it_was_at_most_by_ep() -> None:
    there = event("b", CPU_EP, mem_arena_held=10, mem_in_use_peak=5)
    assert arenas([([FIRST, LATER, there, OLD], [])]) == [
        {"ep": EP, "held": 2000, "in_use": 900},
        {"ep": CPU_EP, "held": 10, "in_use": 5},
    ]
    assert arenas([([OLD], [])]) == []
    assert arenas([([FIRST], [LATER]), ([FIRST], []), ([], [])]) == [{"ep": EP, "held": 2000, "in_use": 1200}]


def test_nodes_are_ordered_by_what_they_allocate_in_the_run_where_that_is_most() -> None:
    rounded = event("b", mem_in_use_delta=4096, output_size=4000, parameter_size=3)
    assert [(it["name"], it["allocated"], it["output"], it["weights"]) for it in heaviest([FIRST, LATER, rounded])] == [
        ("b", 4096, 4000, 3),
        ("a", 500, 500, 0),
    ]
    assert heaviest([OLD]) == [{"name": "a", "op": "Conv", "ep": EP, "allocated": None, "output": 500, "weights": 7}]
    assert heaviest([event("c", mem_in_use_delta=0, output_size=9)]) == []
    assert len(heaviest([event(str(n), output_size=n) for n in range(1, 30)])) == 10


def test_the_devices_figure_is_the_best_that_is_known() -> None:
    bound, host = "what ortbench bound and what the EP's arena held", {"ep": CPU_EP, "held": 9, "in_use": 9}
    for held, nvml, found in (
        (50, 999, (999, "why")),
        (50, None, (150, bound)),
        (0, None, (120, bound)),
        (None, None, (None, "not known: why, and the EP's allocator neither")),
    ):
        known: list[Any] = [host] if held is None else [host, {"ep": EP, "held": held, "in_use": 20}]
        assert device_total(100, known, nvml, "why") == found


def test_why_a_figure_is_not_known() -> None:
    case = measured("cpu-tensors", latency=steady([1]))
    assert (figure(case, "device"), why_unknown(case, "device")) == (None, "was not measured (--measure-memory)")
    weighed(case, failed="out of memory")
    assert (figure(case, "host"), why_unknown(case, "host")) == (None, "could not be measured: out of memory")
    assert not computes_on_host(case)
    weighed(case, device=None, host=None)
    reasons = [why_unknown(case, it) for it in ("device", "host")]
    assert reasons == ["the EP computes in host memory", "the system does not tell"]
    assert computes_on_host(case)
