"""`--energy` from the command line on, with a meter of the test's own in place of a card's."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from ortbench.measure import energy
from tests.conftest import MODELS, ONCE, cases, measure, ortbench_here

pytestmark = pytest.mark.process


class Steady:
    """Something that draws 50 W, whatever it does."""

    how: Literal["counter"] = "counter"
    of = "the test"
    poll_s = 0.005
    settle_s = 0.05

    def joules(self) -> float:
        return 50 * time.perf_counter()


def test_every_mode_of_a_loop_has_a_stretch_of_whole_loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "meter_for", lambda *_: Steady())
    monkeypatch.setattr(energy, "SHORTEST_S", 0.4)
    monkeypatch.setattr(energy, "IDLE_S", 0.2)
    ran = ortbench_here("loop", MODELS / "denoiser.onnx", "--ep", "cpu", "--feedback", "denoised=latent", "--steps", 2, *ONCE, "--energy",
                        "--out", tmp_path, "--json", "-")  # fmt: skip
    assert ran.code == 0, ran.err
    result: dict[str, Any] = json.loads(ran.out)
    found = {mode: case["energy"] for mode, case in cases(result).items() if case["status"] == "ok"}
    assert len(found) >= 2
    for mode, drawn in found.items():
        assert (drawn["how"], drawn["of"]) == ("counter", "the test"), mode
        runs, seconds, joules = (sum(column) for column in zip(*drawn["parts"], strict=True))
        assert runs > 0
        assert drawn["watts"] == pytest.approx(joules / seconds, rel=1e-3)
        assert drawn["joules"] == pytest.approx(
            (joules - drawn["idle_watts"] * seconds) / runs, abs=1e-2 * joules / runs
        )
        assert len(drawn["idle"]) >= 2


def test_on_a_cpu_without_counters_it_is_unsupported(tmp_path: Path) -> None:
    """This is so where RAPL is not there, or not for this user; where it is, there are joules."""
    result = measure(MODELS / "tiny.onnx", "--ep", "cpu", "--mode", "cpu", *ONCE, "--energy", out=tmp_path)
    found = cases(result)["cpu"]["energy"]
    if "unsupported" in found:
        assert "/sys/class/powercap" in found["unsupported"]
        assert [*found] == ["unsupported"]
    else:
        assert found["how"] == "rapl"
        assert found["watts"] > 0
