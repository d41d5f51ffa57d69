"""A sweep of a device whose inference costs a + b·batch, and more where the shape is another one: all three come back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.jobs.test_sweep_command import batched
from tests.refdevice import Config
from tests.truth import run_on_device

A_US, B_US, SWITCH_US = 8_000, 1_000, 5_000
ATTEMPTS = 4  # noise makes one figure of an attempt wrong, or another; a tool that is wrong is so in each
MODES = ("device-resident", "host-accessible")


@pytest.mark.timing
def test_the_law_of_sizes_and_the_price_of_switching_come_back(library: Path, tmp_path: Path) -> None:
    config = Config(compute_us=A_US, item_us=B_US, switch_us=SWITCH_US)
    wrong: dict[str, float] | None = None  # in all attempts so far
    for attempt in range(ATTEMPTS):
        place = tmp_path / str(attempt)
        place.mkdir()
        modes = [word for mode in MODES for word in ("--mode", mode)]
        line = ("--dim", "batch=1,4,8", *modes, "--iterations", 31, "--warmup", 2)
        code, result, _, errors = run_on_device(
            library, batched(place / "m.onnx"), config, place, *line, command="sweep"
        )
        assert code == 0, errors
        now: dict[str, float] = {}
        for mode in MODES:
            sizes = [point.shape["batch"] for point in result.points or []]
            medians = [case.median("total") for point in result.points or [] if (case := point.case(mode))]
            b, a = np.polyfit(sizes, np.array(medians, float) / 1000, 1)
            (switching,) = [it for it in result.switching or [] if it["mode"] == mode]
            found = {"a": a / A_US, "b": b / B_US, "switching": switching["cost_ns"] / 1000 / SWITCH_US}
            now |= {f"{mode} {name}": share for name, share in found.items() if not 0.98 <= share <= 1.02}
        wrong = now if wrong is None else {what: share for what, share in now.items() if what in wrong}
        if not wrong:
            break
    assert wrong == {}
