"""What is said of the host's own work."""

from __future__ import annotations

from ortbench.analysis.host import cpu_time_ns
from ortbench.analysis.host import host_findings as findings
from ortbench.analysis.nodes.gpu_activity import put_recorded
from ortbench.core.ep_names import CAPTURING_EPS, CUDA_EP, SHORT_NAMES
from ortbench.model.result import Case, Result
from ortbench.model.schema import Items
from tests.results import MS, US, case, copied, following, hosted, measured, result_of, said, sentences, stats, steady

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


def host_findings(result: Result) -> list[str]:
    result.command = ["ortbench", "run", "m.onnx"]
    return said(findings(result))


def bound(*cases: Case, ep: str = "SomeExecutionProvider", items: Items | None = None, **target: object) -> Result:
    made = result_of(*cases, target__ep=ep)
    made.target.update(target)  # type: ignore[typeddict-item]
    made.items = items
    return made


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
    what = "device-resident is host-bound: enqueue takes 96% of an inference."
    graph, batch = "Next: ortbench run m.onnx --cuda-graph", "Next: ortbench run m.onnx --dim batch=16"
    late = resident(1920 * US)
    assert host_findings(bound(late)) == [what]
    assert host_findings(bound(late, ep=CUDA_EP)) == [what, graph]
    assert host_findings(bound(late, ep=CUDA_EP, items=BATCH)) == [what, graph]
    assert host_findings(bound(late, ep=CUDA_EP, items=BATCH, cuda_graph=True)) == [what, batch]
    assert host_findings(bound(late, ep=CUDA_EP, items={"count": 8, "dim": None}, cuda_graph=True)) == [what]
    assert what in sentences(bound(late))
    shared = following(measured("host-accessible", enqueue=steady([9900 * US] * 6), latency=steady([10 * MS] * 6)))
    assert host_findings(bound(shared, ep=CUDA_EP)) == [
        "host-accessible is host-bound: enqueue takes 99% of an inference."
    ]
    many = following(measured("device-resident-async", enqueue=steady([199 * US] * 6), latency=steady([200 * US] * 6)))
    many.inferences_per_sample = 100
    assert host_findings(bound(resident(1920 * US), many)) == [
        "device-resident-async is host-bound: enqueue takes 100% of an inference."
    ]


def test_from_where_on_it_is_host_bound() -> None:
    for submit, is_bound in [(1799 * US, False), (1800 * US, True), (1979 * US, True), (1981 * US, False)]:
        assert bool(host_findings(bound(resident(submit)))) is is_bound
    # By the interval over pairs of blocks: not of five of them, nor where one in four is below the share.
    late, early = 1920 * US, 1700 * US
    assert host_findings(bound(resident(late, blocks=5))) == []
    assert host_findings(bound(resident(late, late, late, early, blocks=8))) == []
    assert host_findings(bound(resident(late, late, late, early, blocks=40)))
    blocks = {"enqueue": steady([910 * US] * 6), "inference": steady([MS] * 6), "latency": steady([MS] * 6)}
    sure = following(measured("device-tensors", **blocks))
    assert host_findings(bound(resident(late, blocks=5), sure)) == [
        "device-tensors is host-bound: enqueue takes 91% of an inference."
    ]
    # What is waited for behind it is then no more than the sync takes by itself.
    waits = resident(1138 * US, latency=1143 * US)
    assert host_findings(bound(waits)) == []
    waits = resident(1120 * US, latency=1143 * US)
    assert host_findings(bound(waits))
    waits.sync = {"kind": "synchronize_outputs", "cost_ns": 1 * US, "how": "", "h2d": None, "d2h": None}
    assert host_findings(bound(waits)) == []


def test_a_device_that_waits_for_launches_is_known_by_its_kernels() -> None:
    """The run itself waits, so that nothing else tells how long it submits."""
    for kernels, is_told in [(700 * US, True), (701 * US, False), (0, False)]:
        case = measured("device-tensors", inference=steady([1 * MS] * 6), latency=steady([2 * MS] * 6))
        put_recorded(case, copied(1, 1, kernels))
        expected = [
            "The GPU computes for 70% of an inference with device-tensors, the rest it waits for the host: 700 µs of 1.00 ms, measured "
            "by CUPTI.",
            "Next: ortbench run m.onnx --cuda-graph",
        ]
        assert host_findings(bound(case, ep=CUDA_EP)) == expected * is_told


def test_the_eps_that_capture_are_those_of_the_worker() -> None:
    from ortbench.worker.session.session import _CAPTURE

    assert {*_CAPTURE} == CAPTURING_EPS <= {*SHORT_NAMES.values()}


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
        what = "The GPU seems to be a software renderer: the CPU computes with 1.92 cores during an inference"
        more = " with device-resident, a host that waits for a GPU keeps one busy at most; the name above is of ONNX Runtime's list of devices."
        assert host_findings(made) == ([f"{what}{more}"] if told else [])


def test_how_much_of_the_cpu_time_is_spinning() -> None:
    cpu, device = spinning("cpu-tensors", 2 * MS, 500 * US), spinning("device-tensors", 2 * MS, 1 * MS)
    assert tuple(it.value("spin_share") for it in (cpu, device, resident(1))) == (0.75, 0.5, None)
    assert host_findings(result_of(device, cpu)) == [
        "Spinning threads of ONNX Runtime take ≈75% of the CPU time of cpu-tensors back to back: without spinning CPU time is 500 µs instead of "
        "2.00 ms, latency 1.20 ms instead of 1.00 ms.",
        "Next: ortbench run m.onnx --session-config session.intra_op.allow_spinning=0",
    ]
    known, few, unknown = (spinning("cpu-tensors", 2 * MS, 500 * US) for _ in range(3))
    few.metrics["cpu_time"] = stats(2 * MS, n=5)
    unknown.put("cpu_time_spin_off", 500 * US)
    cannot_tell = [
        "Too few blocks to tell how much CPU time threads spend spinning.",
        "Next: measure again; a measurement now takes 9 rounds or more",
    ]
    assert host_findings(result_of(few)) == host_findings(result_of(unknown)) == cannot_tell
    assert host_findings(result_of(few, known))[0].startswith(
        "Spinning threads of ONNX Runtime take ≈75% of the CPU time"
    )
    for off, within in [(3 * MS, 0), (2 * MS, 0), (1950 * US, 30 * US)]:
        made = result_of(spinning("cpu-tensors", 2 * MS, off, within))
        assert host_findings(made) == [
            "Back to back, spinning threads of ONNX Runtime take no measurable part of the CPU time: ortbench load --rate measures what they "
            "take between requests."
        ]
