"""The times of loops against the reference device's own trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest

from tests.loop_truth import FED, checks, loop_model, plain_checks
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


GROWS = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,65536] past, float[2,65536] x) => (float[M,65536] present) { present = Concat<axis=0>(past, x) }"""
FIRST_BYTES = 4 * 65536


@pytest.mark.timing
@pytest.mark.parametrize("honesty", ["sync", "async-wait"])
def test_steps_of_a_state_that_grows_agree_with_the_devices_trace(
    honesty: Honesty, library: Path, tmp_path: Path
) -> None:
    """Steps of 30 ms, beside which the host's own time is nothing, and copies of up to 3 ms, which are not."""
    model = tmp_path / "grows.onnx"
    onnx.save(onnx.parser.parse_model(GROWS), model)
    line = ("--feedback", "present=past", "--first-dim", "N=1", "--steps", STEPS, "--iterations", 5, "--warmup", 1,
            "--mode", "cpu", "--mode", "device-resident")  # fmt: skip

    def attempts() -> Iterator[list[Check]]:
        for attempt in range(ATTEMPTS):
            place = tmp_path / str(attempt)
            place.mkdir()
            config = Config(
                trace=place / "trace", spin_us=1e6, honesty=honesty, compute_us=30_000, upload_gbps=1, download_gbps=1
            )
            code, result, _, errors = run_on_device(library, model, config, place, *line, command="loop")
            assert code == 0, errors
            assert result.loop is not None
            assert result.loop["grows"] == ["past"]
            counts = {f"step {it}": 1 for it in range(STEPS)}
            yield plain_checks(result, Trace.read(place / "trace"), counts, FIRST_BYTES)

    assert wrong_in_all(attempts()) == {}
