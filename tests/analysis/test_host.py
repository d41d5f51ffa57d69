"""What is said of the host's own work."""

from __future__ import annotations

from ortbench.analysis.findings.advice import sentences
from ortbench.analysis.host import cpu_time_ns, host_sentences
from ortbench.analysis.nodes.gpu_activity import put_recorded
from ortbench.core.ep_names import CAPTURING_EPS, CUDA_EP, SHORT_NAMES
from ortbench.model.result import Case, Result
from ortbench.model.schema import Items
from tests.results import MS, US, case, copied, following, hosted, measured, result_of, stats, steady

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
    said = "Host-bound: enqueue is 96% of an inference with device-resident"
    graph = "--cuda-graph, which submits a run in one call"
    batch = "a bigger batch (--dim batch=N), which gives the device more to do for each call"
    late = resident(1920 * US)
    assert host_sentences(bound(late)) == [f"{said}."]
    assert host_sentences(bound(late, ep=CUDA_EP)) == [f"{said}; what helps: {graph}."]
    assert host_sentences(bound(late, ep=CUDA_EP, items=BATCH)) == [f"{said}; what helps: {graph}, {batch}."]
    assert host_sentences(bound(late, ep=CUDA_EP, items={"count": 8, "dim": None}, cuda_graph=True)) == [f"{said}."]
    assert f"{said}." in sentences(bound(late))
    shared = following(measured("host-accessible", enqueue=steady([9900 * US] * 6), latency=steady([10 * MS] * 6)))
    assert host_sentences(bound(shared, ep=CUDA_EP)) == [
        "Host-bound: enqueue is 99% of an inference with host-accessible."
    ]
    many = following(measured("device-resident-async", enqueue=steady([199 * US] * 6), latency=steady([200 * US] * 6)))
    many.inferences_per_sample = 100
    assert host_sentences(bound(resident(1920 * US), many)) == [
        "Host-bound: enqueue is 100% of a run with device-resident-async."
    ]


def test_from_where_on_it_is_host_bound() -> None:
    for submit, is_bound in [(1799 * US, False), (1800 * US, True), (1979 * US, True), (1981 * US, False)]:
        assert bool(host_sentences(bound(resident(submit)))) is is_bound
    # By the interval over pairs of blocks: not of five of them, nor where one in four is below the share.
    late, early = 1920 * US, 1700 * US
    assert host_sentences(bound(resident(late, blocks=5))) == []
    assert host_sentences(bound(resident(late, late, late, early, blocks=8))) == []
    assert host_sentences(bound(resident(late, late, late, early, blocks=40)))
    blocks = {"enqueue": steady([910 * US] * 6), "inference": steady([MS] * 6), "latency": steady([MS] * 6)}
    sure = following(measured("device-tensors", **blocks))
    assert host_sentences(bound(resident(late, blocks=5), sure)) == [
        "Host-bound: enqueue is 91% of an inference with device-tensors."
    ]
    # What is waited for behind it is then no more than the fence takes by itself.
    waits = resident(1138 * US, latency=1143 * US)
    assert host_sentences(bound(waits)) == []
    waits = resident(1120 * US, latency=1143 * US)
    assert host_sentences(bound(waits))
    waits.sync = {"kind": "synchronize_outputs", "cost_ns": 1 * US, "how": "", "h2d": None, "d2h": None}
    assert host_sentences(bound(waits)) == []


def test_a_device_that_waits_for_launches_is_known_by_its_kernels() -> None:
    """The run itself waits, so that nothing else tells how long it submits."""
    for kernels, said in [(700 * US, True), (701 * US, False), (0, False)]:
        case = measured("device-tensors", inference=steady([1 * MS] * 6), latency=steady([2 * MS] * 6))
        put_recorded(case, copied(1, 1, kernels))
        found = host_sentences(bound(case, ep=CUDA_EP))
        assert (
            found
            == [
                "In device-tensors the GPU computes for 700 µs of an inference of 1.00 ms (70%) by CUPTI: the rest it waits for the host; "
                "what helps: --cuda-graph, which submits a run in one call."
            ]
            * said
        )


def test_the_eps_that_capture_are_those_of_the_worker() -> None:
    from ortbench.worker.session.session import _CAPTURE

    assert {*_CAPTURE} == CAPTURING_EPS <= {*SHORT_NAMES.values()}


# Threads that spin


def spinning(mode: str, on: int, off: int, within: int = 0) -> Case:
    """A mode whose runs take 1 ms, and 1.2 ms with threads that do not spin."""
    made = case(mode, latency=1 * MS)
    made.metrics["cpu_time"] = stats(on)
    return hosted(made, 100, 1 * MS, on, still=(off, 1200 * US, within))


def test_how_much_of_the_cpu_time_is_spinning() -> None:
    cpu, device = spinning("cpu-tensors", 2 * MS, 500 * US), spinning("device-tensors", 2 * MS, 1 * MS)
    assert tuple(it.value("spin_share") for it in (cpu, device, resident(1))) == (0.75, 0.5, None)
    assert host_sentences(result_of(device, cpu)) == [
        "≈75% of the CPU time with cpu-tensors is threads of ONNX Runtime that spin: with --session-config "
        "session.intra_op.allow_spinning=0 a run has 500 µs of it in place of 2.00 ms, and takes 1.20 ms in place of 1.00 ms."
    ]
    known, few, unknown = (spinning("cpu-tensors", 2 * MS, 500 * US) for _ in range(3))
    few.metrics["cpu_time"] = stats(2 * MS, n=5)
    unknown.put("cpu_time_spin_off", 500 * US)
    said = ["How much of the CPU time is threads that spin does not show in so few blocks."]
    assert host_sentences(result_of(few)) == host_sentences(result_of(unknown)) == said
    assert host_sentences(result_of(few, known))[0].startswith("≈75% of the CPU time with cpu-tensors is threads")
    for off, within in [(3 * MS, 0), (2 * MS, 0), (1950 * US, 30 * US)]:
        made = result_of(spinning("cpu-tensors", 2 * MS, off, within))
        assert host_sentences(made) == ["That threads of ONNX Runtime spin is no measurable part of the CPU time."]
