"""Loads, loops and sweeps in suites: their keys, what a case is, when it is measured again, and the summary."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ortbench.core import parts
from ortbench.features.gate.plan import Limits
from ortbench.features.load.plan import LoadPlan
from ortbench.features.loop.plan import Steps
from ortbench.features.soak.plan import Soak
from ortbench.features.suite.job.jobs import Job
from ortbench.features.suite.job.record import Record, figures, record_from
from ortbench.features.suite.report import across_cards, build, case_table, csv
from ortbench.model.metric_names import Slo
from ortbench.model.modes import Part
from ortbench.model.result import Result
from ortbench.report.records import markdown
from tests.analysis.test_sweep import sweep_result
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
    noise_of,
    opened,
    result_of,
    serving,
    slo_rate,
    steady,
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
    return part if isinstance(part := job.plans[0].part, LoadPlan) else None


def test_keys_that_make_a_bench_a_load(tmp_path: Path) -> None:
    (tmp_path / "monday.txt").write_text("0\n0.5\n1\n")
    for keys, load in [
        ("concurrency = [1, 2, 4]", LoadPlan(concurrency=(1, 2, 4))),
        ("concurrency = 4\nsessions = 'own'", LoadPlan(concurrency=(4,), sessions="own")),
        ("rate = [10, 20.5]\narrivals = 'uniform'", LoadPlan(rate=(10.0, 20.5), arrivals="uniform")),
        ("rate = 'auto'\nslo = 'p99=20ms'", LoadPlan(rate="auto", slo={"p99": 20 * MS})),
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
        ('shape = {x = ["1x3", "8x3"]}', ["x=1x3", "x=8x3"]),
        ('data = "recorded"', ["monday", "tuesday"]),
    ]:
        job = job_of(tmp_path, f"{SWEEP}{keys}")
        assert [shape.data or shape.name for shape in job.shapes] == names
        assert job.plans == (job.shapes[0].plan,)
        assert {(shape.plan.name, shape.plan.loop.duration_s) for shape in job.shapes} == {("a--cpu", 2.0)}
        assert (load_in(job), job.slo, job.limits.any) == (None, None, False)
    assert job.shapes[0].plan.inputs.path == str(tmp_path / "recorded" / "monday.npz")
    gate = 'slo = "latency=20ms"\ngate = {max-host-memory = "1GB", require-mode = "cpu-tensors-pinned"}'
    job = job_of(tmp_path, f"{SWEEP}dim = {{batch = [1, 8]}}\n{gate}")
    assert job.slo == Slo("latency", 20 * MS)
    assert job.limits == Limits(slo={"latency": 20 * MS}, max_host_memory=10**9, require_modes=("cpu-tensors-pinned",))
    plans = [shape.plan for shape in job.shapes]
    assert all(it.has_pass("measure-memory") and "cpu-tensors-pinned" in it.modes for it in plans)


def test_defaults_of_one_kind_are_not_for_the_others(tmp_path: Path) -> None:
    other = '[[bench]]\nmodel = "b.onnx"\nep = "cpu"\n'
    common = '[defaults]\nslo = "p99=20ms"\nworkers = 2\nsteps = 8\nfill = {mask = 1}\nreopen = 2\n'
    common += 'measure-memory = true\ngate.max-growth = "1kB"\n'
    steps = Steps(count=8, feedback=(("present.*", "past_key_values.*"),), fill={"mask": "1"})
    for bench, part, slo, limit, has_memory in (
        (f"{LOAD}rate = 30\n", LoadPlan(rate=(30.0,), workers=2, slo={"p99": 20 * MS}), {"p99": 20 * MS}, None, False),
        (f'{LOOP}ep = "cpu"\n', steps, {}, None, True),
        (SOAK, Soak(reopen=2), {}, 1000, False),
        (f"{SWEEP}dim = {{batch = [1, 2]}}\n", Part(), {"p99": 20 * MS}, None, True),
    ):
        found = jobs(tmp_path, common + bench + other)
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
        (load + "gate = {baseline-set.depth = 4}", "6: bench[0].gate.baseline-set.depth: is not for a load"),
        (load + "dim = {batch = [1, 8]}", f"6: bench[0].dim: {one_shape}"),
        (shapes + "gate = {baseline-set.intra-op-threads = 1}", "7: bench[0].gate.baseline-set.intra-op-threads: a sweep is compared with an earlier suite"),
        (PLAIN + "reopen = 2", "3: bench[0].reopen: is for a soak: write soak = true"),
        (SOAK + "precision = '1%'", "6: bench[0].precision: is not for a soak; 'ortbench soak --help' lists what is"),
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


COSTLY = drawing(weighed(measured("cpu-tensors", latency=steady([MS] * 24)), 12_300, 68_300_000), 0.25)
RATE = load_result(opened("cpu-tensors", 10, 5.0), slo={"p99": MS}, found={"cpu": slo_rate(210.0, 216.0)})
USUAL = {"cpu-tensors": "1.00 ms", "mode": "cpu-tensors", "latency": "1.00 ms"}
SUMMARIES: list[tuple[Result, dict[str, str], str]] = [
    (serving(), {"mode": "cpu-tensors", "peak inf/s": "400", "clients": "8", "knee": "4"}, ",400.0,8,4"),
    (RATE, {"highest rate in SLO": "210/s"}, ",,,,210.0"),
    (load_result(failed_level(closed("cpu-tensors", 1, 1, 1.0))), {}, ",,"),
    (loop_result(level("device-resident")), {"mode": "device-resident", "latency": "4.00 ms", "steps": "4", "steps/s": "1.00k"},
     ",4,999.625"),
    (sweep_result(failed={1: "no", 2: "no"}), {}, ",,"),
    (result_of(COSTLY), {**USUAL, "device memory": "12.3 kB", "host memory": "68.3 MB", "energy": "250 mJ"}, ",12300,68300000,0.25"),
]  # fmt: skip


@pytest.mark.parametrize(("result", "cells", "row"), SUMMARIES)
def test_what_was_measured_has_its_figures_in_the_summary(result: Result, cells: dict[str, str], row: str) -> None:
    whole = record("it", result)
    assert record_from(parts.text(whole).encode(), "case.json") == whole
    table = case_table([whole, PLAIN_RECORD])
    names = [column.name for column in table.columns]
    found, plain = (dict(zip(names, cells, strict=True)) for cells in table.rows)
    assert {name: cell for name, cell in found.items() if cell != "–"} == cells | {"case": "it", "verdict": "measured"}
    as_usual = USUAL | {"case": "plain", "verdict": "measured"}
    assert {name: cell for name, cell in plain.items() if cell != "–"} == as_usual
    assert csv([whole, PLAIN_RECORD]).splitlines()[1].endswith(row)


def test_cases_on_a_busy_machine_are_named() -> None:
    busy = result_of(measured("cpu-tensors", latency=steady([MS] * 24)))
    busy.noise = noise_of(others=1.22)
    text = markdown(build("two", [record("it", busy), PLAIN_RECORD]))
    assert "\n- The machine was busy in 1 of 2 cases: it.\n" in text
    assert 'set wait-quiet = "60s" under [defaults] in the suite\'s file' in text


def test_a_sweep_has_its_best_shape_in_the_summary() -> None:
    on_host = sweep_result()
    on_host.target["memory"] = {"kind": "host", "default": "host memory", "host_accessible": None}
    best = "it: measured, best batch=4, device-resident 1.07× if"
    for result, condition in (
        (sweep_result(), "tensors never cross the link between inferences"),
        (on_host, "the host writes no inputs and reads no outputs between inferences"),
    ):
        whole = record("it", result)
        assert whole.line(was_done=True) == f"{best} {condition}, done before"
        assert csv([whole]).splitlines()[1].endswith(",4,2500.0,400000.0,device-resident,1500000,1.0667,batch=4")


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
