"""A run of which nothing says how much is measured: how many processes it takes, and which modes are in each, in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ortbench.__main__ import main
from ortbench.measure.driver import Driver
from ortbench.measure.progress import disagreeing_modes
from ortbench.model.modes import CPU, DEVICE, RESIDENT
from ortbench.model.result import Case, Result
from ortbench.model.schema import Stopped
from tests.conftest import modes
from tests.refdevice import Config
from tests.results import measured, steady
from tests.truth import relu_model, run_on_device
from tests.virtual import Clock

SECOND = 0.42, 0.66  # the readings of the clock in the second process, as shares of those in three
AGREED: Stopped = {"reason": "agreement", "value": 0.02}


def start_quickly() -> None:
    """ortbench on a machine where a process starts in 10 ms, as it takes it."""
    Driver.start_s = property(lambda _: 0.01)  # type: ignore[assignment]
    main()


def run(library: Path, folder: Path) -> tuple[dict[str, int], Result, str]:
    """In how many processes each mode was measured, the result, and what was printed."""
    folder.mkdir()
    config = Config(compute_us=2000, upload_gbps=0.2, download_gbps=0.2)
    line = modes(CPU, DEVICE, RESIDENT)
    model, function = relu_model(folder / "relu.onnx", 1 << 16), f"{__name__}:start_quickly"
    code, result, out, errors = run_on_device(library, model, config, folder, *line, ORTBENCH_TESTS_MAIN=function)
    assert (code, errors) == (0, "")
    return {case.mode: len(case.first_rounds) for case in result.cases}, result, out


def in_processes(mode: str, *medians: int) -> Case:
    """A case whose processes have two rounds each."""
    case = measured(mode, latency=steady([ns for ns in medians for _ in range(2)]))
    case.processes = [2 * number for number in range(len(medians))]
    return case


@pytest.mark.pure
@pytest.mark.parametrize(
    ("medians", "more"),
    [
        ({CPU: (1000, 1000, 1000), RESIDENT: (500, 500, 500)}, []),
        ({CPU: (1000, 1500, 2000), RESIDENT: (500, 750, 1000)}, []),  # a machine that gets slower, for both
        ({CPU: (1000, 1000), RESIDENT: (500, 500)}, [CPU, RESIDENT]),  # two cannot tell
        ({CPU: (1000, 1000, 1000), RESIDENT: (1000, 1020, 981)}, []),  # within 2 % of their middle
        ({CPU: (1000, 1000, 1000), RESIDENT: (1000, 1021, 979)}, [CPU, RESIDENT]),
        ({CPU: (1000, 1000, 1000, 1000), DEVICE: (900, 900, 900), RESIDENT: (500, 600, 500, 500)}, [CPU, RESIDENT]),
        ({CPU: (1000, 1000, 1030)}, []),
        ({CPU: (1000, 1000, 1050)}, [CPU]),
        ({DEVICE: (1000, 1000, 1000), RESIDENT: (500, 600, 500)}, [RESIDENT]),  # nothing to compare with
    ],
)
def test_modes_go_on_while_processes_disagree(medians: dict[str, Sequence[int]], more: list[str]) -> None:
    assert disagreeing_modes([in_processes(mode, *of) for mode, of in medians.items()]) == more


def test_a_mode_that_processes_agree_on_is_settled(library: Path, clock: Clock, tmp_path: Path) -> None:
    """As much longer for each call in one process makes another ratio of modes that differ, and the same of those that do not."""
    processes, result, text = run(library, tmp_path / "quiet")
    assert (processes, result.stopped) == ({CPU: 3, DEVICE: 3, RESIDENT: 3}, AGREED)
    assert " in 3 processes: processes agree within ±2 %" in text
    begin, end = (round(share * clock.readings) for share in SECOND)
    clock.restart(dict.fromkeys(range(begin, end), 1_000_000))
    processes, result, text = run(library, tmp_path / "slower")
    assert (processes, result.stopped) == ({CPU: 5, DEVICE: 3, RESIDENT: 5}, {"reason": "processes", "value": 0.02})
    assert " in 5 processes: processes do not agree within ±2 %" in text
