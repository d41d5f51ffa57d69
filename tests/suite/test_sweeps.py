"""Sweeps in suites: their keys, their shapes, when one is measured again, and the summary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ortbench.gate.limits import Limits
from ortbench.report.suite import case_table, csv
from ortbench.slo import Slo
from ortbench.suite.job import Job
from ortbench.suite.record import Record, figures, record_from
from tests.made_sweeps import sweep_result
from tests.results import MS, measured, result_of, steady
from tests.suite.test_suite import jobs, mark, mistake

SWEEP = """
[[bench]]
model = "a.onnx"
ep = "cpu"
"""


def job_of(folder: Path, text: str) -> Job:
    (job,) = jobs(folder, text).values()
    return job


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        ("dim = {batch = [1, 8]}", ["batch=1", "batch=8"]),
        ('dim = {batch = "1,2,4..16", sequence = 32}', ["batch=1", "batch=2", "batch=4", "batch=8", "batch=16"]),
        ("dim = {b = [1, 2], s = [3, 4]}", ["b=1 s=3", "b=1 s=4", "b=2 s=3", "b=2 s=4"]),
        ('shape = {x = ["1x3", "8x3"]}', ["x=1x3", "x=8x3"]),
        ("length = {x = [1, 2]}", ["x=1", "x=2"]),
    ],
)
def test_lists_are_the_shapes_of_a_sweep(keys: str, names: list[str], tmp_path: Path) -> None:
    job = job_of(tmp_path, f"{SWEEP}sweep = true\n{keys}")
    assert [shape.name for shape in job.shapes] == names
    assert job.plans == (job.shapes[0].plan,)
    assert {shape.plan.name for shape in job.shapes} == {"a--cpu"}
    assert {shape.plan.loop.duration_s for shape in job.shapes} == {2.0}
    assert (job.load, job.slo, job.limits.any) == (None, None, False)


def test_a_later_list_replaces_an_earlier_one(tmp_path: Path) -> None:
    text = f'[defaults]\ndim = {{batch = [1, 2], s = 9}}\n{SWEEP}sweep = true\n[[override]]\nwhere = {{ep = "cpu"}}\ndim = {{batch = [4, 8]}}'
    job = job_of(tmp_path, text)
    assert [shape.plan.inputs.dims for shape in job.shapes] == [{"batch": 4, "s": 9}, {"batch": 8, "s": 9}]


def test_real_inputs_are_beside_the_suite(tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    for name in ("monday", "tuesday"):
        np.savez(tmp_path / "recorded" / f"{name}.npz", x=np.zeros(3))
    job = job_of(tmp_path, f'{SWEEP}sweep = true\ndata = "recorded"')
    assert [shape.data for shape in job.shapes] == ["monday", "tuesday"]
    assert job.shapes[0].plan.inputs.path == str(tmp_path / "recorded" / "monday.npz")


def test_an_slo_is_for_the_best_shape_and_for_the_gate(tmp_path: Path) -> None:
    keys = 'sweep = true\ndim = {batch = [1, 8]}\nslo = "total=20ms"\ngate = {max-host-memory = "1GB", require-mode = "cpu-pinned"}'
    job = job_of(tmp_path, SWEEP + keys)
    assert job.slo == Slo("total", 20 * MS)
    assert job.limits == Limits(slo={"total": 20 * MS}, max_host_memory=10**9, require_modes=("cpu-pinned",))
    assert all(shape.plan.memory and "cpu-pinned" in shape.plan.modes for shape in job.shapes)


def test_defaults_of_loads_and_loops_are_not_for_sweeps_and_theirs_not_for_others(tmp_path: Path) -> None:
    text = f"""
[defaults]
callers = 2
steps = 4
data = "nowhere"
slo = "p99=20ms"
{SWEEP}sweep = true
data = false
dim = {{batch = [1, 2]}}
[[bench]]
model = "b.onnx"
ep = "cpu"
"""
    found = jobs(tmp_path, text)
    assert len(found["a--cpu"].shapes) == 2
    assert (found["b--cpu"].shapes, found["b--cpu"].load, found["b--cpu"].plans[0].steps) == ((), None, None)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("dim = {batch = [1, 8]}", "bench.toml:5: bench[0].dim: is for a sweep: write sweep = true, or, for a case each, shapes"),
        ("data = 'x'", "bench.toml:5: bench[0].data: is for a sweep: write sweep = true, or, for a case each, shapes"),
        ("sweep = true\ndim = {batch = [1, 1]}", "bench.toml:6: bench[0].dim.batch: batch=1,1: '1' is in the list twice"),
        ("sweep = true\ndim = {batch = [1, true]}", "bench.toml:6: bench[0].dim.batch: must be a whole number"),
        ("sweep = true\ndim = {batch = [1, 2]}\nrate = 30", "bench.toml:7: bench[0].rate: is not for a sweep; 'ortbench sweep --help' "
         "lists what is"),
        ("sweep = true\ndim = {batch = [1, 2]}\nslo = 'p98=1ms'", "bench.toml:7: bench[0].slo: 'p98': there is no such statistic; choose "
         "from total, p50, mean, p90, p95, p99, max"),
        ("sweep = true\ndim = {batch = [1, 2]}\ngate = {baseline-threads = 1}", "bench.toml:7: bench[0].gate.baseline-threads: a sweep is "
         "held against an earlier suite: write baseline, its folder, in its place"),
        ("sweep = true\ndata = 'nothing'", "bench.toml:6: bench[0].data: no such file or folder: nothing"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(more: str, message: str, tmp_path: Path) -> None:
    assert mistake(tmp_path, SWEEP + more) == message


def test_a_sweep_needs_several_shapes(tmp_path: Path) -> None:
    assert "bench[0].dim: a sweep needs several shapes" in mistake(
        tmp_path, f"{SWEEP}sweep = true\ndim = {{batch = 8}}"
    )


def test_a_changed_sweep_is_measured_again(tmp_path: Path) -> None:
    keys = ["dim = {batch = [1, 2]}", "dim = {batch = [1, 4]}", "dim = {batch = [1, 2]}\nslo = 'p99=1ms'",
            "dim = {batch = [1, 2]}\nduration = 1"]  # fmt: skip
    marks = [mark(tmp_path, f"{SWEEP}sweep = true\n{more}") for more in keys]
    assert len(set(marks)) == len(marks)
    assert mark(tmp_path, f"{SWEEP}sweep = true\ndim = {{batch = '1,2'}}") == marks[0]


# The summary


def test_a_sweep_has_its_best_shape_in_the_summary() -> None:
    results = {
        "swept": sweep_result(),
        "none": sweep_result(failed={1: "no", 2: "no"}),
        "plain": result_of(measured("cpu", total=steady([MS] * 24))),
    }
    records = [Record(name, "m", "e", "", "f", "measured", **figures(it)) for name, it in results.items()]
    assert (records[0].best_shape, records[0].fastest, records[0].items_per_s) == (
        "batch=2",
        "device-resident",
        3333.333,
    )
    assert record_from(records[0].to_dict()) == records[0]
    assert records[0].line(was_done=True) == "swept: measured, best batch=2 with device-resident 2.00× cpu, done before"
    table = case_table(records)
    at = [column.name for column in table.columns].index("best shape")
    assert [row[at] for row in table.rows] == ["batch=2", "–", "–"]
    head, first, *_ = csv(records).splitlines()
    assert head.endswith(",items,items_per_s,item_ns,best_shape")
    assert first.endswith(",2,3333.333,300000.0,batch=2")
