"""`--processes`: a run that goes on in fresh workers, what it keeps of each, and what fails in a later one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ortbench.__main__ import main
from ortbench.core.errors import BenchmarkFailed
from ortbench.measure import configuration
from ortbench.model.result_file import load
from tests.conftest import MODELS, measure, ortbench

pytestmark = pytest.mark.process

TINY = MODELS / "tiny.onnx"
SHORT = ("--ep", "cpu", "--mode", "cpu-tensors", "--mode", "device-tensors", "--warmup", 1)


def test_a_run_is_measured_in_several_processes(tmp_path: Path) -> None:
    ran = ortbench("run", TINY, *SHORT, "--iterations", 10, "--processes", 3, "--out", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert "in 3 processes: iterations done (10 per mode)" in ran.out
    (file,) = tmp_path.glob("*/result.json")
    for case in load(file).cases:
        assert case.processes == [0, 1, 2]  # a block holds all of a part
        assert [n for _, n, _ in case.blocks["latency"]] == [4, 3, 3]
        assert case.speedup is not None
        assert case.speedup.ci95 is not None  # of three rounds, each of a process of its own


def refuse_the_second() -> None:
    """ortbench, whose second worker cannot open the model."""

    def open_worker(_: Any) -> Any:  # the first one was started before there was a plan
        raise BenchmarkFailed("no memory is left")

    configuration.open_worker = open_worker  # type: ignore[assignment, attr-defined]
    main()


def test_what_does_not_start_again_fails_and_keeps_what_was_measured(tmp_path: Path) -> None:
    prefix = ("env", f"ORTBENCH_TESTS_MAIN={__name__}:refuse_the_second")
    line = (TINY, *SHORT, "--iterations", 6, "--processes", 3)
    result = measure(*line, out=tmp_path, prefix=prefix, code=1)
    for case in result["cases"]:
        assert case["reason"] == "in process 2 the model could not be opened again: no memory is left"
        assert len(case["samples"]["latency"]) == 2
