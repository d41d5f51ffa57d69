"""A note is kept in the result, and every report shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.core.errors import CANNOT_TELL, DONE, REGRESSION
from ortbench.report.phrases import heading
from tests.conftest import MODELS, ortbench
from tests.results import measured, result_of, steady

TINY = str(MODELS / "tiny.onnx")
NOTE = "fans at full speed | <b>second</b> try"


@pytest.mark.process
def test_a_live_gate_and_a_suite_keep_it_for_both_sides(tmp_path: Path) -> None:
    short = ["--ep", "cpu", "--mode", "cpu-tensors", "--warmup", 1, "--duration", 0.2, "--note", NOTE]
    ran = ortbench("gate", "--model", TINY, "--baseline-model", TINY, *short, "--out", tmp_path, COLUMNS="200")
    assert ran.code in (DONE, REGRESSION, CANNOT_TELL), ran.err  # as a busy machine has it
    assert [json.loads(path.read_text())["note"] for path in tmp_path.glob("*/*/result.json")] == [NOTE] * 2
    assert ran.out.count(NOTE) == 1  # what both have in common is said once
    (tmp_path / "s.toml").write_text(
        f'[[bench]]\nmodel = "{TINY}"\nep = "cpu"\nmode = "cpu-tensors"\niterations = 1\nwarmup = 1\nnote = "{NOTE}"\n'
    )
    ran = ortbench("suite", tmp_path / "s.toml", "--out", tmp_path / "suite")
    assert ran.code == 0, ran.err
    (saved,) = (tmp_path / "suite").glob("*/result.json")
    assert json.loads(saved.read_text())["note"] == NOTE


def test_it_takes_one_line() -> None:
    result = result_of(measured("cpu-tensors", latency=steady([1000] * 20)))
    plain = heading(result)
    result.note = " one\n two\t"
    assert heading(result) == [f"{plain[0]}: one two", *plain[1:]]
    result.note = ""
    assert heading(result) == plain
