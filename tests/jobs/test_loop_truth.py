"""The times of loops against the reference device's own trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loop_truth import FED, checks, loop_model
from tests.refdevice import HONESTY, Config, Honesty, Trace
from tests.truth import Check, run_on_device, wrong_in_all

ATTEMPTS, STEPS = 5, 5


def attempts(library: Path, folder: Path, honesty: Honesty) -> Iterator[list[Check]]:
    """Loops, each with its medians against the device's trace and the host's own time."""
    model = loop_model(folder / "loop.onnx")
    for attempt in range(ATTEMPTS):
        place = folder / str(attempt)
        place.mkdir()
        # A waiting host that sleeps comes back tens of microseconds late; that is its own time, not the device's.
        config = Config(trace=place / "trace", spin_us=1e6, honesty=honesty, compute_us=3000)
        line = (*FED, "--steps", STEPS, "--share-buffers", "--iterations", 9, "--warmup", 2)
        code, result, _, errors = run_on_device(
            library, model, config, place, *line, program=("tests.loop_truth", place / "bare"), command="loop"
        )
        assert code == 0, errors
        yield checks(result, Trace.read(place / "trace"), place / "bare")


@pytest.mark.timing
@pytest.mark.parametrize("honesty", HONESTY)
def test_steps_and_whole_loops_agree_with_the_devices_trace(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    def complete() -> Iterator[list[Check]]:
        for found in attempts(library, tmp_path, honesty):
            assert {check.what for check in found} == {
                (mode, *what)
                for mode in ("cpu", "device-resident", "host-accessible", "shared")
                for what in (("total",), ("step",), *(("step", number) for number in range(STEPS)))
            }
            yield found

    assert wrong_in_all(complete()) == {}
