"""``--spin``: the plan of its pass, and what becomes of what that gives."""

from __future__ import annotations

from ortbench.measure.spin import take_spin, without_spin
from ortbench.plan import Loop, Plan, Target
from tests.results import broken, host_time, measured, result_of, stats, steady


def test_the_pass_is_short_and_differs_in_the_threads_alone() -> None:
    target = Target("cpu", threads=2, session_config={"session.intra_op.allow_spinning": "1", "k": "v"})
    loop = Loop(duration_s=5, precision=0.02, warmup=3)
    plan = Plan("m.onnx", target, modes=("cpu", "device"), loop=loop, nodes=True, spin=True, note="n")
    still = without_spin(plan, ["cpu"])
    off = {"session.intra_op.allow_spinning": "0", "session.inter_op.allow_spinning": "0", "k": "v"}
    assert still.target == Target("cpu", threads=2, session_config=off)
    assert (still.modes, still.nodes, still.spin, still.note) == (("cpu",), False, False, "n")
    assert still.loop == Loop(duration_s=1, precision=0.02, warmup=3, phases=("total",))
    assert without_spin(Plan("m.onnx", loop=Loop(duration_s=0.2)), ["cpu"]).loop.duration_s == 0.2


def test_what_it_gives() -> None:
    result = result_of(*(measured(mode, total=steady([1])) for mode in ("cpu", "device", "device-resident")))
    cpu = measured("cpu", total=steady([7_000]))
    cpu.host, cpu.phases["cpu_time"] = host_time(10, 7_000, 3_000, 500), stats(3_500)
    take_spin(result, result_of(cpu, broken("device", reason="out of memory"), measured("device-resident")))
    assert [case.spin for case in result.cases] == [
        {"runs": 10, "wall_ns": 70_000, "user_ns": 30_000, "system_ns": 5_000, "total_ns": 7_000,
         "cpu_time_ci95_ns": [3_465, 3_535]},
        None,
        None,
    ]  # fmt: skip
    cpu.phases["cpu_time"] = stats(3_500, n=5)
    take_spin(result, result_of(cpu))
    assert result.cases[0].spin is not None
    assert result.cases[0].spin["cpu_time_ci95_ns"] is None  # of so few blocks
    assert [(it["code"], it["message"]) for it in result.warnings] == [
        ("spin-not-measured", "--spin gave nothing of device: out of memory"),
        ("spin-not-measured", "--spin gave nothing of device-resident: it was interrupted"),
    ]
