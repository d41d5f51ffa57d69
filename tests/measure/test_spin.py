"""``--measure-spin``: the plan of its pass, and what becomes of what that gives."""

from __future__ import annotations

from ortbench.core.stats import Value
from ortbench.measure.extra_inferences import take_spin, without_spin
from ortbench.plan.plan import Loop, Plan
from ortbench.plan.target import Target
from tests.results import broken, hosted, measured, result_of, stats, steady


def test_the_pass_is_short_and_differs_in_the_threads_alone() -> None:
    target = Target("cpu", intra_op_threads=2, session_config={"session.intra_op.allow_spinning": "1", "k": "v"})
    loop = Loop(duration_s=5, precision=0.02, warmup=3)
    asked = {"nodes": True, "spin": True, "passes": {"measure-energy": True}, "measure_copies": True}
    plan = Plan("m.onnx", target, modes=("cpu-tensors", "device-tensors"), loop=loop, note="n", **asked)  # type: ignore[arg-type]
    still = without_spin(plan, ["cpu-tensors"])
    off = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0", "k": "v"}
    assert still.target == Target("cpu", intra_op_threads=2, session_config=off)
    assert (still.modes, still.note) == (("cpu-tensors",), "n")
    assert [key for key in asked if getattr(still, key)] == []
    assert still.loop == Loop(duration_s=1, precision=0.02, warmup=3, phases=("latency",), processes=1)
    assert without_spin(Plan("m.onnx", loop=Loop(duration_s=0.2)), ["cpu-tensors"]).loop.duration_s == 0.2


def test_what_it_gives() -> None:
    modes = ("cpu-tensors", "device-tensors", "device-resident")
    result = result_of(*(measured(mode, latency=steady([1])) for mode in modes))
    cpu = measured("cpu-tensors", latency=steady([7_000]))
    cpu.metrics["cpu_time"] = stats(3_500)
    hosted(cpu, 10, 7_000, 3_000, 500)
    take_spin(result, result_of(cpu, broken("device-tensors", reason="out of memory"), measured("device-resident")))
    figures = {
        "latency_spin_off": 7_000, "cpu_time_spin_off": 3_500, "cpu_user_spin_off": 3_000, "cpu_system_spin_off": 500,
        "cpu_cores_spin_off": 0.5,
    }  # fmt: skip
    nothing = dict.fromkeys(figures)
    assert [{key: case.value(key) for key in figures} for case in result.cases] == [figures, nothing, nothing]
    for n, ci95 in [(200, (3_465, 3_535)), (5, None)]:  # of so few blocks
        cpu.metrics["cpu_time"] = stats(3_500, n=n)
        take_spin(result, result_of(cpu))
        assert result.cases[0].metrics["cpu_time_spin_off"] == Value(3_500, ci95)
    assert [(it["code"], it["message"]) for it in result.warnings] == [
        ("spin-not-measured", "--measure-spin gave nothing of device-tensors: out of memory"),
        ("spin-not-measured", "--measure-spin gave nothing of device-resident: it was interrupted"),
    ]
