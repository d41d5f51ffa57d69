"""Strange execution providers: each command gives right figures or one line, and `devices` and `run` say the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ortbench.core.errors import BENCHMARK_FAILED, DONE
from ortbench.model.modes import MODES
from ortbench.model.result import FAILED, OK, UNSUPPORTED
from tests.strange import COMMANDS, COMPUTE_US, STRANGE, Cell, Mode, make_files, run
from tests.virtual import Clock

pytestmark = pytest.mark.process

Get = Callable[[str, str], Cell]
OTHERS = [it for it in COMMANDS if it not in ("run", "devices")]
FOREIGN = {"host-default", "only-host-accessible", "only-host-accessible-cpu"}  # whose memory has other copies
THROUGHOUT = {"plain", "host-default", "hang-at-run-2600"}
HARMLESS = {
    *FOREIGN, "plain", "aligned-0", "aligned-64", "skewed", "second-device-null", "first-device-no-session-unused", "two-eps",
    "two-eps-second", "other-names", "one-session", "one-session-abort",
}  # fmt: skip
OF_DEFAULT = {"device-tensors", "device-resident", "device-tensors-pinned", "pipelined", "device-resident-async"}
OF_HOST_ACCESSIBLE = {"host-accessible", "cpu-tensors-pinned", "device-tensors-pinned", "pipelined"}
LACKING = {
    "host-default": {"cpu-tensors-pinned", "device-tensors-pinned", "pipelined", "device-resident-async"},
    "only-host-accessible": {"pipelined"},
    "only-host-accessible-cpu": {"pipelined"},
    "null-host-accessible": OF_HOST_ACCESSIBLE,
    "second-device-null-used": OF_DEFAULT | OF_HOST_ACCESSIBLE,
    **{f"{what}-at-copy": OF_DEFAULT | OF_HOST_ACCESSIBLE for what in ("abort", "hang")},
    **{key: {*MODES} for key in ("no-copies", "uploads-only", "downloads-only")},
    **dict.fromkeys(("null-default", "error-at-copy", "failing-uploads", "failing-downloads"), OF_DEFAULT),
}  # the modes that an EP's memory makes impossible
_plain: dict[str, Cell] = {}


@pytest.fixture
def get(library: Path, clock: Clock, tmp_path: Path) -> Get:
    """Runs a command on an EP."""

    def got(name: str, command: str) -> Cell:
        clock.restart()
        folder = tmp_path / name / command
        folder.mkdir(parents=True)
        return run(STRANGE[name], command, make_files(tmp_path), folder)

    return got


def check(name: str, command: str, get: Get) -> Cell:
    """Run a command on an EP, and hold what it says against its contract."""
    if command not in _plain:
        _plain[command] = get("plain", command)
    cell = _plain[command] if name == "plain" else get(name, command)
    lines = cell.ran.err.splitlines()
    assert "Traceback" not in (said := cell.ran.out + cell.ran.err), said
    assert [line for line in lines if not line.startswith("ortbench: ")] == []
    assert len({*lines}) == len(lines)
    assert cell.ran.code == (BENCHMARK_FAILED if lines else DONE)
    if cell.result is not None:
        check_result(name, command, cell)
    elif cell.program is not None:
        assert cell.program.code == DONE, cell.program.err
        assert [median(it) for it in (cell, _plain[command])] == [COMPUTE_US + 68.5] * 2 or name in FOREIGN
    elif not cell.modes and not (command == "code" and STRANGE[name].hangs):
        assert len(lines) == 1
    return cell


def median(cell: Cell) -> float:
    """What the program says of its runs, µs."""
    assert cell.program is not None
    found = re.search(
        r"^device-tensors: median ([\d.]+) µs of \d+ runs; outputs are those of a plain run$", cell.program.out, re.M
    )
    assert found is not None, cell.program.out
    return float(found[1])


def check_result(name: str, command: str, cell: Cell) -> None:
    """Hold a result against what the device is by definition."""
    assert cell.result is not None
    failed = any(case.status == FAILED for case in cell.result.cases)
    assert failed or command == "gate" or cell.ran.code == DONE  # in a gate the baseline may have failed
    assert not failed or cell.ran.code == BENCHMARK_FAILED
    for case in cell.result.cases:
        assert (case.reason is None) == (case.status == OK)
        assert case.status != OK or (case.checks["outputs"]["verdict"] == "passed" and (case.samples or case.point))
        assert case.reason is None or case.status == UNSUPPORTED or case.reason in cell.ran.err
    usual = _plain[command].medians
    for key, found in cell.medians.items():
        if name not in FOREIGN:
            assert found == usual[key], key
        elif key[1] == "latency":
            assert COMPUTE_US * 1000 <= found <= usual["cpu-tensors", "latency"] * 1.1, key
    if name.endswith("run-2600"):
        assert any(mode.kept for mode in cell.modes.values())
        kept = any(mode.kept for mode in cell.modes.values() if mode.status == FAILED)
        assert kept or command == "run" or name.startswith("error")


def is_same(listed: Mode, measured: Mode) -> bool:
    """Whether `devices` and `run` say the same of a mode, but for what the model's tensors or runs add."""
    if listed.status == OK:
        return measured.status != UNSUPPORTED
    return measured.status == UNSUPPORTED or (measured.status, measured.reason) == (FAILED, listed.reason)


@pytest.mark.wide
@pytest.mark.parametrize("name", STRANGE)
def test_commands_give_right_figures_or_one_line_and_devices_says_what_run_says(name: str, get: Get) -> None:
    measured, listed = check(name, "run", get), check(name, "devices", get)
    does_no_harm = name in HARMLESS or name.startswith("print") or name.endswith("at-release")
    assert measured.ran.code == (DONE if does_no_harm else BENCHMARK_FAILED)
    if listed.modes:
        assert {mode for mode, it in listed.modes.items() if it.status != OK} == LACKING.get(name, set())
    if measured.modes:
        different = {mode for mode, it in listed.modes.items() if not is_same(it, measured.modes[mode])}
        assert different == set()
    # Of the others each EP has one.
    for command in OTHERS if name in THROUGHOUT else [OTHERS[[*STRANGE].index(name) % len(OTHERS)]]:
        check(name, command, get)
