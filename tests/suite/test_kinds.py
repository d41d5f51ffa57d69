"""Loads, loops and sweeps in suites: their keys, what a case is, when it is measured again, and the summary."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ortbench.core import parts
from ortbench.features.gate.plan import Limits
from ortbench.features.load.plan import LoadPlan
from ortbench.features.loop.plan import Steps
from ortbench.features.soak.plan import Soak
from ortbench.features.suite.job.jobs import Job
from ortbench.features.suite.job.record import Record, figures, record_from
from ortbench.features.suite.report import across_cards, case_table, csv
from ortbench.model.metric_names import Slo
from ortbench.model.modes import Part
from ortbench.model.result import Result
from tests.expect import there
from tests.results import (
    MS,
    closed,
    drawing,
    failed_level,
    level,
    load_result,
    loop_result,
    measured,
    opened,
    result_of,
    serving,
    slo_rate,
    steady,
    sweep_result,
    weighed,
)
from tests.suite.test_suite import jobs, mark, mistake

PLAIN = '[[bench]]\nmodel = "a.onnx"\n'
LOAD = f'\n{PLAIN}ep = "cpu"\n'
SWEEP = f"{LOAD}sweep = true\n"
SOAK = f"{LOAD}soak = true\n"
LOOP = f'\n{PLAIN}feedback = ["present.*=past_key_values.*"]\n'


def job_of(folder: Path, text: str) -> Job:
    (job,) = jobs(folder, text).values()
    return job


def load_in(job: Job) -> LoadPlan | None:
    """The load that a case puts on its model."""
    return part if isinstance(part := job.plans[0].part, LoadPlan) else None


def test_keys_that_make_a_bench_a_load(tmp_path: Path) -> None:
    (tmp_path / "monday.txt").write_text("0\n0.5\n1\n")
    own = LoadPlan(concurrency=(4,), sessions="own", duration_s=0.5)
    for keys, load in [
        ("concurrency = [1, 2, 4]", LoadPlan(concurrency=(1, 2, 4))),
        ("concurrency = 4\nsessions = 'own'\nduration = 0.5", own),
        ("concurrency = '1,8'", LoadPlan(concurrency=(1, 8))),
        ("rate = [10, 20.5]\narrivals = 'uniform'", LoadPlan(rate=(10.0, 20.5), arrivals="uniform")),
        ("rate = 'auto'\nslo = 'p99=20ms'", LoadPlan(rate="auto", slo={"p99": 20 * MS})),
        ("sessions = 'process'", LoadPlan(sessions="process")),
        ("duration = 1", None),
    ]:
        assert load_in(job_of(tmp_path, LOAD + keys)) == load
    load = load_in(job_of(tmp_path, f"{LOAD}rate = 10\narrivals = 'monday.txt'"))
    assert there(load).file == str(tmp_path / "monday.txt")
    text = f"{LOAD}concurrency = 2\nduration = 3\ngate = {{baseline-set.intra-op-threads = 1, metric = 'latency.p99'}}"
    job = job_of(tmp_path, text)
    assert [plan.target.intra_op_threads for plan in job.plans] == [None, 1]
    assert load_in(job) == LoadPlan(concurrency=(2,), duration_s=1.5)


def test_lists_are_the_shapes_of_a_sweep(tmp_path: Path) -> None:
    (tmp_path / "recorded").mkdir()
    for name in ("monday", "tuesday"):
        np.savez(tmp_path / "recorded" / f"{name}.npz", x=np.zeros(3))
    for keys, names in [
        ('dim = {batch = "1,2,4..16", sequence = 32}', ["batch=1", "batch=2", "batch=4", "batch=8", "batch=16"]),
        ("dim = {b = [1, 2], s = [3, 4]}", ["b=1 s=3", "b=1 s=4", "b=2 s=3", "b=2 s=4"]),
        ('shape = {x = ["1x3", "8x3"]}', ["x=1x3", "x=8x3"]),
        ("sequence-tensors = {x = [1, 2]}", ["x=1", "x=2"]),
        ('data = "recorded"', ["monday", "tuesday"]),
    ]:
        job = job_of(tmp_path, f"{SWEEP}{keys}")
        assert [shape.data or shape.name for shape in job.shapes] == names
        assert job.plans == (job.shapes[0].plan,)
        assert {(shape.plan.name, shape.plan.loop.duration_s) for shape in job.shapes} == {("a--cpu", 2.0)}
        assert (load_in(job), job.slo, job.limits.any) == (None, None, False)
    assert job.shapes[0].plan.inputs.path == str(tmp_path / "recorded" / "monday.npz")
    text = f'[defaults]\ndim = {{batch = [1, 2], s = 9}}\n{SWEEP}[[override]]\nwhere = {{ep = "cpu"}}\ndim = {{batch = [4, 8]}}'
    job = job_of(tmp_path, text)
    assert [shape.plan.inputs.dims for shape in job.shapes] == [{"batch": 4, "s": 9}, {"batch": 8, "s": 9}]
    gate = 'slo = "latency=20ms"\ngate = {max-host-memory = "1GB", require-mode = "cpu-tensors-pinned"}'
    job = job_of(tmp_path, f"{SWEEP}dim = {{batch = [1, 8]}}\n{gate}")
    assert job.slo == Slo("latency", 20 * MS)
    assert job.limits == Limits(slo={"latency": 20 * MS}, max_host_memory=10**9, require_modes=("cpu-tensors-pinned",))
    plans = [shape.plan for shape in job.shapes]
    assert all(it.has_pass("measure-memory") and "cpu-tensors-pinned" in it.modes for it in plans)


def test_defaults_of_one_kind_are_not_for_the_others(tmp_path: Path) -> None:
    other = '[[bench]]\nmodel = "b.onnx"\nep = "cpu"\n'
    common = (
        '[defaults]\nslo = "p99=20ms"\nworkers = 2\nsteps = 8\nfill = {mask = 1}\nreopen = 2\nmeasure-memory = true\n'
    )
    growth = 'gate.max-growth = "1kB"\n'
    steps = Steps(count=8, feedback=(("present.*", "past_key_values.*"),), fill={"mask": "1"})
    for bench, part, slo, limit, has_memory in (
        (f"{LOAD}rate = 30\n", LoadPlan(rate=(30.0,), workers=2, slo={"p99": 20 * MS}), {"p99": 20 * MS}, None, False),
        (f'{LOOP}ep = "cpu"\n', steps, {}, None, True),
        (SOAK, Soak(reopen=2), {}, 1000, False),
        (f"{SWEEP}dim = {{batch = [1, 2]}}\n", Part(), {"p99": 20 * MS}, None, True),
    ):
        found = jobs(tmp_path, common + growth + bench + other)
        job, run = found["a--cpu"], found["b--cpu"]
        assert job.plans[0].part == part
        assert (job.limits.slo, job.limits.own.get("max-growth")) == (slo, limit)
        assert job.plans[0].has_pass("measure-memory") == has_memory
        assert (run.plans[0].part, run.shapes, run.limits.own) == (Part(), (), {})
        assert run.plans[0].has_pass("measure-memory")


def test_a_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    load, shapes = f"{LOAD}concurrency = 2\n", f"{SWEEP}dim = {{batch = [1, 2]}}\n"
    one_shape = "is for a sweep: write sweep = true, or, for a case each, shapes"
    for text, message in [
        (LOAD + "concurrency = true", "5: bench[0].concurrency: must be a number, a list of numbers or text"),
        (load + "mode = 'shared'", "6: bench[0].mode: 'shared': is no mode of single inferences"),
        (load + "gate = {baseline-set.intra-op-threads = 1, metric = 'latency.p99@rate=30'}", "6: bench[0].gate.metric: "
         "latency.p99@rate=30: no such load point is to be measured; there are concurrency=2"),
        (load + "gate = {baseline-set.depth = 4}", "6: bench[0].gate.baseline-set.depth: is not for a load"),
        (load + "dim = {batch = [1, 8]}", f"6: bench[0].dim: {one_shape}"),
        (LOAD + "concurency = 2", "5: bench[0].concurency: no such key; did you mean concurrency?"),
        (LOOP + "gate = {max-copy-share = 0.1}", "5: bench[0].gate.max-copy-share: is of single inferences; of a loop say"),
        (LOOP + "gate = {baseline-model = 'b.onnx', metric = 'h2d'}", "5: bench[0].gate.metric: h2d.median: a loop has step, loop"),
        (PLAIN + "steps = 4", "3: bench[0].steps: is for a loop: say what is fed back with --feedback OUT=IN"),
        (shapes + "gate = {baseline-set.intra-op-threads = 1}", "7: bench[0].gate.baseline-set.intra-op-threads: a sweep is compared with an earlier suite"),
        (PLAIN + "reopen = 2", "3: bench[0].reopen: is for a soak: write soak = true"),
        (SOAK + "precision = '1%'", "6: bench[0].precision: is not for a soak; 'ortbench soak --help' lists what is"),
        (SOAK + "gate = {baseline-set.intra-op-threads = 1}", "6: bench[0].gate.baseline-set.intra-op-threads: a soak is compared with an earlier suite"),
    ]:  # fmt: skip
        assert mistake(tmp_path, text).startswith(f"bench.toml:{message}"), text


def test_what_is_changed_is_measured_again(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("0\n1\n")
    two = f"{SWEEP}dim = {{batch = [1, 2]}}"
    rate = f"{LOAD}rate = 30"
    texts = [PLAIN, f"{LOAD}concurrency = 2", f"{LOAD}concurrency = [2, 4]", rate, f"{rate}\narrivals = 't.txt'"]
    texts += [two, f"{SWEEP}dim = {{batch = [1, 4]}}", f"{two}\nslo = 'p99=1ms'", SOAK, f"{SOAK}reopen = 2"]
    assert len({mark(tmp_path, text) for text in texts}) == len(texts)
    assert mark(tmp_path, f"{SWEEP}dim = {{batch = '1,2'}}") == mark(tmp_path, two)


# The summary


def record(name: str, result: Result) -> Record:
    return Record(name, "m", "e", "", "f", "measured", **figures(result))


PLAIN_RECORD = record("plain", result_of(measured("cpu-tensors", latency=steady([MS] * 24))))


def test_loads_have_their_figures_in_the_summary() -> None:
    paced = load_result(opened("cpu-tensors", 10, 5.0), slo={"p99": MS}, found={"cpu": slo_rate(210.0, 216.0)})
    failed = load_result(failed_level(closed("cpu-tensors", 1, 1, 1.0)))
    records = [record("many", serving()), record("paced", paced), PLAIN_RECORD, record("none", failed)]
    assert record_from(parts.text(records[0]).encode(), "case.json") == records[0]
    table = case_table(records)
    names = "case|cpu-tensors|mode|latency|peak inf/s|clients|knee|highest rate in SLO|verdict"
    assert "|".join(column.name for column in table.columns) == names
    assert table.rows == (
        ("many", "–", "cpu-tensors", "–", "400", "8", "4", "–", "measured"),
        ("paced", "–", "–", "–", "–", "–", "–", "210/s", "measured"),
        ("plain", "1.00 ms", "cpu-tensors", "1.00 ms", "–", "–", "–", "–", "measured"),
        ("none", "–", "–", "–", "–", "–", "–", "–", "measured"),
    )
    head, first, *_ = csv(records).splitlines()
    assert (head.endswith(",throughput_per_s,clients,knee,slo_rate"), first.endswith(",400.0,8,4,")) == (True, True)


def test_a_loop_has_its_figures_in_the_summary() -> None:
    records = [record("cell", loop_result(level("device-resident"))), PLAIN_RECORD]
    assert records[0].step_throughput_per_s == 999.625  # by the mean of its loops
    assert case_table(records).rows == (
        ("cell", "–", "device-resident", "4.00 ms", "4", "1.00k", "measured"),
        ("plain", "1.00 ms", "cpu-tensors", "1.00 ms", "–", "–", "measured"),
    )
    head, first, second = csv(records).splitlines()
    assert head.endswith(",speedup,cpu_time_ns,steps,step_throughput_per_s")
    assert (first.endswith(",4,999.625"), second.endswith(",,")) == (True, True)
    data = json.loads(parts.text(PLAIN_RECORD))
    del data["steps"], data["step_throughput_per_s"]
    assert record_from(json.dumps(data).encode(), "case.json").steps is None


def test_a_sweep_has_its_best_shape_in_the_summary() -> None:
    on_host = sweep_result()
    on_host.target["memory"] = {"kind": "host", "default": "host memory", "host_accessible": None}
    none = sweep_result(failed={1: "no", 2: "no"})
    records = [record("swept", sweep_result()), record("none", none), PLAIN_RECORD, record("host", on_host)]
    lines = [it.line(was_done=True) for it in records]
    best = "best batch=4, device-resident 1.07× if"
    assert lines[0] == f"swept: measured, {best} tensors never cross the link between inferences, done before"
    assert f"{best} the host writes no inputs and reads no outputs between inferences" in lines[3]
    assert [record_from(parts.text(it).encode(), "case.json") for it in records] == records
    table = case_table(records)
    at = [column.name for column in table.columns].index("best shape")
    assert [row[at] for row in table.rows] == ["batch=4", "–", "–", "batch=4"]
    assert csv(records).splitlines()[1].endswith(",4,2500.0,400000.0,device-resident,1500000,1.0667,batch=4")


def test_what_the_mode_of_a_case_costs_is_in_the_summary() -> None:
    case = drawing(weighed(measured("cpu-tensors", latency=steady([MS] * 24)), 12_300, 68_300_000), 0.25)
    costly = record("costly", result_of(case))
    assert (costly.device_memory_bytes, costly.host_memory_bytes, costly.energy_j) == (12_300, 68_300_000, 0.25)
    table = case_table([costly, PLAIN_RECORD])
    assert [column.name for column in table.columns][-4:] == ["device memory", "host memory", "energy", "verdict"]
    assert [row[-4:-1] for row in table.rows] == [("12.3 kB", "68.3 MB", "250 mJ"), ("–",) * 3]
    head, first, _ = csv([costly, PLAIN_RECORD]).splitlines()
    assert head.endswith(",device_memory_bytes,host_memory_bytes,energy_j")
    assert first.endswith(",12300,68300000,0.25")


def test_a_case_is_compared_across_cards_by_its_rate_or_else_by_its_fastest_mode() -> None:
    def on(card: str, **figures: Any) -> Record:
        node: Any = {"name": f"host-{card}", "card": card, "resources": {}}
        whole = Record(card, "m.onnx", "cpu-tensors", "", "f", "passed", node=node, fastest="cpu-tensors")
        return replace(whole, **figures)

    # A load has both: its fastest inference says nothing of what it serves.
    loads = [on("a", throughput_per_s=100.0, fastest_ns=1), on("b", throughput_per_s=300.0, fastest_ns=2)]
    runs = [on("a", fastest_ns=4_000_000), on("b", fastest_ns=2_000_000)]
    for records, ratio in ((loads, "3.00×"), (runs, "2.00×")):
        found = [(row[1], row[-1]) for row in there(across_cards(records)).rows]
        assert found == [("b", ratio), ("a", "1.00×")]
    assert across_cards([on("a", fastest_ns=1), on("b")]) is None
