"""Loops in suites: their keys, what a case is, when it is measured again, and the summary."""

from __future__ import annotations

from pathlib import Path

import pytest

from ortbench.report.markdown import markdown
from ortbench.report.suite import build, case_table, csv
from ortbench.steps import Steps
from ortbench.suite.record import Record, figures, record_from
from tests.made_loops import level, loop_result
from tests.results import measured, result_of, steady
from tests.suite.test_suite import jobs, mark, mistake

LOOP = """
[[bench]]
model = "a.onnx"
feedback = ["present.*=past_key_values.*"]
"""


def test_every_option_of_a_loop_is_a_key(tmp_path: Path) -> None:
    text = f"""{LOOP}
steps = 32
first-dim = {{sequence = 5}}
dim = {{total = "past+sequence"}}
fill = {{attention_mask = 1, position_ids = "past+index"}}
share-buffers = true
keep = "logits"
resident = ["noise", "text"]
"""
    (job,) = jobs(tmp_path, text).values()
    (plan,) = job.plans
    assert plan.steps == Steps(
        feedback=(("present.*", "past_key_values.*"),),
        count=32,
        first_dims={"sequence": 5},
        fill={"attention_mask": "1", "position_ids": "past+index"},
        share_buffers=True,
        keep=("logits",),
        resident=("noise", "text"),
    )
    assert plan.modes == ("cpu", "device-resident", "host-accessible", "shared")
    assert plan.inputs.dims == {"total": "past+sequence"}


def test_defaults_of_loops_are_for_loops(tmp_path: Path) -> None:
    text = f"""
[defaults]
steps = 8
fill = {{mask = 1}}
{LOOP}
ep = "cpu"
[[bench]]
model = "b.onnx"
ep = "cpu"
[[override]]
where = {{model = "a"}}
steps = 4
"""
    plans = {name: job.plans[0].steps for name, job in jobs(tmp_path, text).items()}
    assert plans["b--cpu"] is None
    assert plans["a--cpu"] is not None
    assert (plans["a--cpu"].count, plans["a--cpu"].fill) == (4, {"mask": "1"})


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("steps = 0", "bench.toml:5: bench[0].steps: 0: a loop has at least one step"),
        ("steps = 1.5", "bench.toml:5: bench[0].steps: must be a whole number"),
        ("feedbck = 1", "bench.toml:5: bench[0].feedbck: no such key; did you mean feedback?"),
        ("first_dim = {sequence = 5}", "bench.toml:5: bench[0].first_dim: no such key; did you mean first-dim?"),
        (
            "fill = {mask = 'a+'}",
            "bench.toml:5: bench[0].fill: mask=a+: 'a+' is neither a number nor a sum of numbers, dimensions, step and "
            "index",
        ),
        ("mode = ['device']", "bench.toml:5: bench[0].mode: 'device': is no mode of a loop; choose from cpu, "
         "device-resident, host-accessible, shared"),
        ("share-buffers = 1", "bench.toml:5: bench[0].share-buffers: must be true or false"),
        (
            "gate = {max-copy-share = 0.1}",
            "bench.toml:5: bench[0].gate.max-copy-share: is of single inferences; of a loop say --min-speedup "
            "device-resident=X",
        ),
        (
            "gate = {baseline-model = 'b.onnx', metric = 'upload'}",
            "bench.toml:5: bench[0].gate.metric: upload.median: a loop has step, loop and cpu_time only",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(more: str, message: str, tmp_path: Path) -> None:
    assert mistake(tmp_path, LOOP + more) == message


def test_options_of_a_loop_without_one(tmp_path: Path) -> None:
    said = mistake(tmp_path, '[[bench]]\nmodel = "a.onnx"\nsteps = 4\n')
    assert said == "bench.toml:3: bench[0].steps: is for a loop: say what is fed back with --feedback OUT=IN"


def test_a_changed_loop_is_measured_again(tmp_path: Path) -> None:
    variants = ["", "steps = 8", "fill = {mask = 1}", "keep = 'y'", "resident = 'x'", "first-dim = {n = 2}",
                "share-buffers = true"]  # fmt: skip
    marks = [mark(tmp_path, LOOP + more) for more in variants]
    marks.append(mark(tmp_path, LOOP.replace("present.*=past_key_values.*", "a=b")))
    marks.append(mark(tmp_path, '[[bench]]\nmodel = "a.onnx"\n'))
    assert len(set(marks)) == len(marks)
    assert mark(tmp_path, f"{LOOP}steps = 16") == marks[0]


def test_a_live_gate_of_a_loop_has_both_sides_and_twins(tmp_path: Path) -> None:
    text = f"""{LOOP}keep = "logits"
gate = {{baseline-keep = "", baseline-resident = "x", metric = "device-resident.step.median"}}
"""
    (job,) = jobs(tmp_path, text).values()
    candidate, baseline = job.plans
    assert candidate.steps is not None
    assert baseline.steps is not None
    assert (candidate.steps.resident, baseline.steps.resident) == ((), ("x",))
    assert (candidate.steps.keep, baseline.steps.keep) == (("logits",), ())
    assert candidate.loop.phases == ("step", "total")


# The summary


def record(name: str, result: object) -> Record:
    return Record(name, "m", "e", "", "f", "measured", **figures(result))  # type: ignore[arg-type]


def test_a_loop_has_its_steps_in_the_summary() -> None:
    cell = record("cell", loop_result(level("cpu", 2.0), level("device-resident")))
    plain = record("plain", result_of(measured("cpu", total=steady([1_000_000] * 24))))
    assert (cell.steps, cell.fastest, cell.fastest_ns) == (4, "device-resident", 4_002_000)
    assert cell.steps_per_s == pytest.approx(4e9 / 4_002_000)
    assert (plain.steps, plain.steps_per_s) == (None, None)
    table = case_table([cell, plain])
    assert [column.name for column in table.columns] == [
        "case", "cpu", "fastest mode", "total", "steps", "steps/s", "verdict"
    ]  # fmt: skip
    assert table.rows == (
        ("cell", "8.00 ms", "device-resident", "4.00 ms", "4", "1000", "measured"),
        ("plain", "1.00 ms", "cpu", "1.00 ms", "–", "–", "measured"),
    )
    assert "| steps | steps/s |" in markdown(build("nightly", [cell, plain]))
    head, first, second = csv([cell, plain]).splitlines()
    assert head.endswith(",vs_cpu,cpu_time_ns,steps,steps_per_s")
    assert first.split(",")[-2:] == ["4", str(cell.steps_per_s)]
    assert second.endswith(",,")
    assert "steps" not in csv([plain])
    assert [column.name for column in case_table([plain]).columns] == [
        "case",
        "cpu",
        "fastest mode",
        "total",
        "verdict",
    ]


def test_records_of_before_loops_are_read() -> None:
    data = record("plain", result_of(measured("cpu", total=steady([1_000])))).to_dict()
    del data["steps"], data["steps_per_s"]
    assert record_from(data).steps is None
