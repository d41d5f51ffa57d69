"""Ctrl-C: what was measured is kept, and said to be cut short, by every command that measures several things in turns."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortbench.features.load.analysis import has_figures, load_cases
from ortbench.model.result import Result
from ortbench.model.result_file import load
from tests.conftest import MODELS, Ran, command

pytestmark = [pytest.mark.process, pytest.mark.wide]

TINY, IDS, CELL = MODELS / "tiny.onnx", MODELS / "transformer_ids.onnx", MODELS / "recurrent_cell.onnx"
LINES: dict[str, list[object]] = {
    "loop": ["loop", CELL, "--feedback", "hidden_out=hidden", "--precision", 0],
    "sweep": ["sweep", IDS, "--dim", "batch=1,2", "--mode", "cpu-tensors", "--precision", 0],
    "load": ["load", TINY, "--mode", "cpu-tensors", "--concurrency", "1,2"],
    "gate": ["gate", "--model", TINY, "--mode", "cpu-tensors", "--baseline-set", "intra-op-threads=1", "--load", "--concurrency", "1,2",
             "--max-regression", "0.01%"],
}  # fmt: skip


def interrupted(line: list[str], is_ready: Callable[[], object], **named: Any) -> Ran:
    """Run a command until something is so, press Ctrl-C, and wait for its end."""
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **named)
    try:
        while not is_ready():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    return Ran(process.returncode, out, errors)


@pytest.mark.parametrize("name", LINES)
def test_what_was_measured_is_kept(name: str, tmp_path: Path) -> None:
    line = command(*LINES[name], "--ep", "cpu", "--duration", 3600, "--warmup", 1, "--out", tmp_path)
    files, count = ("*/*/result.json", 2) if name == "gate" else ("*/result.json", 1)

    def results() -> list[Result]:
        return [load(path) for path in tmp_path.glob(files)]

    ran = interrupted(line, lambda: len(results()) == count and all(map(is_measured, results())))
    assert ran.code == 130, ran.err
    for result in results():
        assert is_measured(result)
        assert result.stopped == {"reason": "interrupted"}
        check(name, result)
    if name == "gate":
        assert ran.err.splitlines()[-1] == "ortbench: interrupted before the gate was decided"
        return
    (folder,) = tmp_path.glob("[!.]*")
    assert "Interrupted in " in ran.out  # on the default screen
    assert "".join(ran.out.split()).endswith(f"Savedin{folder}")  # a long path is broken where the line ends
    assert (folder / "load-samples.npz").exists() == (name == "load")


def is_measured(result: Result) -> bool:
    return any(map(has_figures, load_cases(result))) or any(case.samples.get("latency") for case in result.cases)


def check(name: str, result: Result) -> None:
    """What is in a result that was cut short."""
    assert result.kind == ("load" if name == "gate" else name)
    assert [it.name for it in result.shapes] == (["batch=1", "batch=2"] if name == "sweep" else [])
    for case in result.cases if name == "loop" else []:
        assert len(case.samples["step"]) == 16 * len(case.samples["latency"]) > 0
    assert {(it.status, it.reason) for it in load_cases(result) if not has_figures(it)} <= {
        ("not_measured", "the load was ended before its turn came")
    }
