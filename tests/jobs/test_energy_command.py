"""`--measure-energy` from the command line on, with a meter of the test's own in place of a card's, and one by files for RAPL."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import pytest

from ortbench.features.energy import measure as energy
from tests.conftest import MODELS, ONCE, cases, measure, ortbench
from tests.decoders import genai_folder

pytestmark = pytest.mark.process


class Steady:
    """Something that draws 50 W, whatever it does."""

    how: Literal["counter"] = "counter"
    of = "the test"
    poll_s = 0.005
    settle_s = 0.05

    def joules(self) -> float:
        return 50 * time.perf_counter()


def main_with_a_steady_meter() -> None:
    from ortbench.__main__ import main

    with (
        patch.object(energy, "meter_for", lambda *_: Steady()),
        patch.object(energy, "SHORTEST_S", 0.4),
        patch.object(energy, "IDLE_S", 0.2),
    ):
        main()


@pytest.mark.wide
def test_every_mode_of_a_loop_has_a_stretch_of_whole_loops(tmp_path: Path) -> None:
    line = ("loop", MODELS / "recurrent_cell.onnx", "--ep", "cpu", "--feedback", "hidden_out=hidden", "--steps", 2)
    function = f"{main_with_a_steady_meter.__module__}:{main_with_a_steady_meter.__name__}"
    modes = ("--mode", "cpu-tensors", "--mode", "device-resident")
    files = ("--measure-energy", "--out", tmp_path, "--json", "-")
    ran = ortbench(*line, *modes, *ONCE, *files, ORTBENCH_TESTS_MAIN=function)
    assert ran.code == 0, ran.err
    result: dict[str, Any] = json.loads(ran.out)
    found = {mode: case for mode, case in cases(result).items() if case["status"] == "ok"}
    assert len(found) == 2
    for mode, case in found.items():
        drawn, figures = case["energy"], {key: it.get("value") for key, it in case["metrics"].items()}
        assert (drawn["how"], drawn["of"]) == ("counter", "the test"), mode
        runs, seconds, joules = (sum(column) for column in zip(*drawn["parts"], strict=True))
        assert runs > 0
        assert figures["power"] == pytest.approx(joules / seconds, rel=1e-3)
        beyond = (joules - figures["idle_power"] * seconds) / runs
        assert figures["energy"] == pytest.approx(beyond, abs=1e-2 * joules / runs)
        assert len(drawn["idle"]) >= 2


@pytest.mark.timing
def test_a_loop_that_generates_has_the_energy_of_a_token(tmp_path: Path) -> None:
    function = f"{main_with_a_steady_meter.__module__}:{main_with_a_steady_meter.__name__}"
    line = (
        "loop",
        genai_folder(tmp_path / "model", "gpt"),
        "--prompt-length",
        4,
        "--generate",
        5,
        "--mode",
        "cpu-tensors",
    )
    files = ("--measure-energy", "--out", tmp_path, "--json", "-")
    ran = ortbench(*line, "--iterations", 5, "--warmup", 1, *files, ORTBENCH_TESTS_MAIN=function)
    assert ran.code == 0, ran.err
    (case,) = json.loads(ran.out)["cases"]
    whole, each = case["metrics"]["energy"], case["metrics"]["token_energy"]
    assert each["value"] == whole["value"] / 5
    assert each["derived"]
    assert "energy per token" in next(tmp_path.glob("*/table.md")).read_text()


def test_on_a_cpu_without_counters_it_is_unsupported(tmp_path: Path) -> None:
    """This is so where RAPL is not there, or not for this user; where it is, there are joules."""
    result = measure(
        MODELS / "tiny.onnx", "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--measure-energy", out=tmp_path
    )
    case = cases(result)["cpu-tensors"]
    found = case["energy"]
    if "unsupported" in found:
        assert "/sys/class/powercap" in found["unsupported"]
        assert [*found] == ["unsupported"]
    else:
        assert found["how"] == "rapl"
        assert case["metrics"]["power"]["value"] > 0
