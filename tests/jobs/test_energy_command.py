"""`--measure-energy` from the command line on, with a meter of the test's own in place of a card's, and one by files for RAPL."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import pytest

from ortbench.features.energy import measure as energy
from tests.conftest import ONCE, modes, ortbench
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
def test_every_mode_of_a_loop_has_a_stretch_of_whole_loops_and_the_energy_of_a_token(tmp_path: Path) -> None:
    line = ("loop", genai_folder(tmp_path / "model", "gpt"), "--prompt-length", 4, "--generate", 5, "--ep", "cpu")
    files = ("--measure-energy", "--out", tmp_path / "out", "--json", "-")
    function = f"{__name__}:{main_with_a_steady_meter.__name__}"
    ran = ortbench(*line, *modes("cpu-tensors", "device-resident"), *ONCE, *files, ORTBENCH_TESTS_MAIN=function)
    assert ran.code == 0, ran.err
    result: dict[str, Any] = json.loads(ran.out)
    assert len(result["cases"]) == 2
    for case in result["cases"]:
        drawn, figures = case["energy"], {key: it.get("value") for key, it in case["metrics"].items()}
        assert (drawn["how"], drawn["of"]) == ("counter", "the test")
        runs, seconds, joules = (sum(column) for column in zip(*drawn["parts"], strict=True))
        assert runs > 0
        assert figures["power"] == pytest.approx(joules / seconds, rel=1e-3)
        beyond = (joules - figures["idle_power"] * seconds) / runs
        assert figures["energy"] == pytest.approx(beyond, abs=1e-2 * joules / runs)
        assert figures["token_energy"] == pytest.approx(figures["energy"] / 5)
        assert len(drawn["idle"]) >= 2
