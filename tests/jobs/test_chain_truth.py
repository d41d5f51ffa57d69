"""The times of chains and of their stages against the reference device's own trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.test_chain_command import BETWEEN, STAGES, defaults, run
from tests.loop_truth import plain_checks
from tests.refdevice import HONESTY, Config, Honesty, Trace
from tests.truth import Check, wrong_in_all

ATTEMPTS = 5
RUNS = {"first": 1, "middle": 3, "last": 1}


@pytest.mark.timing
@pytest.mark.parametrize("honesty", [HONESTY[0], HONESTY[-1]])
def test_stages_and_whole_chains_agree_with_the_devices_trace(honesty: Honesty, library: Path, tmp_path: Path) -> None:
    """Runs of 40 ms, of which the host's own time, with cold caches some 0.2 ms, is less than a hundredth."""

    def attempts() -> Iterator[list[Check]]:
        for attempt in range(ATTEMPTS):
            place = tmp_path / str(attempt)
            place.mkdir()
            config = Config(trace=place / "trace", spin_us=1e6, honesty=honesty, compute_us=40_000)
            text = defaults(library) + STAGES + BETWEEN
            result, _ = run(place, text, "--iterations", 5, "--warmup", 1, **config.environ())
            found = plain_checks(result, Trace.read(place / "trace"), RUNS)
            assert {check.what for check in found} == {
                (mode, what) for mode in ("cpu", "device-resident") for what in ("total", *RUNS)
            }
            yield found

    assert wrong_in_all(attempts()) == {}
