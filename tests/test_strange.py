"""Strange execution providers, builds of the reference device that are unlike any EP that ortbench was written on: each command gives right
figures or one line, and `devices` and `run` say the same."""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest

from ortbench.core.errors import BENCHMARK_FAILED, DONE
from ortbench.core.stats import Stats
from ortbench.model.modes import COSTS, MODES
from ortbench.model.result import FAILED, OK, UNSUPPORTED, Result
from ortbench.model.result_file import load
from tests import forks, virtual
from tests.conftest import Ran, device_library, modes, ortbench
from tests.refdevice import Config, Trace, counters
from tests.virtual import Clock

pytestmark = pytest.mark.process


@dataclass(frozen=True)
class Strange:
    """An EP that is strange in one respect: knobs of `Config`, arguments of every command but `devices`, those of `load` in place of one
    client, and arguments of `tests.refdevice.build`."""

    knobs: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    load: tuple[str, ...] = ("--concurrency", "1")
    build: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hangs(self) -> bool:
        """Whether it never returns from some call."""
        return self.knobs.get("fault") == "hang"


def _faulty(what: str, at: str, when: str = "1+", **more: Any) -> dict[str, Any]:
    """The knobs of a device that goes wrong in a way, at a place, in the n-th call of it."""
    return {"fault": what, "fault_at": at, "fault_when": when, **more}


def _faults() -> dict[str, Strange]:
    """EPs that go wrong in each way at each place; of three ways to end a process one is tried everywhere. A registration is what
    ONNX Runtime does first, the 2600th run is one that is measured."""
    places = ("registration", "session", "run", "run:50", "run:2600", "copy", "sync", "release")
    found = {}
    for what in ("abort", "segfault", "exit", "error", "hang", "print"):
        for place in ("run",) if what in ("segfault", "exit") else places:
            at, _, number = place.partition(":")
            if (what, at) == ("error", "release") or (what == "print" and number):
                continue  # there is no error to return, and what prints does it each time
            when = "1+" if what == "print" else number or "1"
            found[f"{what}-at-{place.replace(':', '-')}"] = Strange(_faulty(what, at, when))
    return found


_TWO_SESSIONS = ("--concurrency", "1,2", "--sessions", "own")
_SECOND = ("--device", "1")
_NO_MEMORY = _faulty("error", "alloc", devices=2, fault_device=2)
_NO_SESSION = _faulty("error", "session", devices=2, fault_device=1)
STRANGE = {
    "plain": Strange(),
    "host-default": Strange({"host_memory": True}),
    "no-copies": Strange({"copies": "none"}),
    "uploads-only": Strange({"copies": "uploads"}),
    "downloads-only": Strange({"copies": "downloads"}),
    "failing-downloads": Strange({"fail_download": "1+"}),
    "failing-uploads": Strange({"fail_upload": "1+"}),
    "null-default": Strange({"fail_alloc": "1+:default"}),
    "null-host-accessible": Strange({"fail_alloc": "1+:host_accessible"}),
    "aligned-0": Strange({"alignment": 0}),
    "aligned-64": Strange({"alignment": 64}),
    "skewed": Strange({"skew": 4}),  # addresses are odd multiples of 4
    "only-host-accessible": Strange({"default_memory": False}),
    "only-host-accessible-cpu": Strange({"default_memory": False, "cpu": True}),
    "second-device-null": Strange(_NO_MEMORY),
    "second-device-null-used": Strange(_NO_MEMORY, _SECOND),
    "first-device-no-session": Strange(_NO_SESSION),
    "first-device-no-session-unused": Strange(_NO_SESSION, _SECOND),
    "two-eps": Strange({"eps": 2}),
    "two-eps-second": Strange({"eps": 2}, ("--ep", "SecondRefDeviceExecutionProvider")),
    "other-names": Strange({}, ("--ep", "My_EP"), build={"ep": "my_ep"}),
    "unbound-int32": Strange({"unbound_type": 6}),  # which it takes in `run`
    "shapes-change": Strange({"shape_run": "2+"}),  # an output has one item fewer
    "sync-fails": Strange(_faulty("error", "sync")),
    "one-session": Strange(_faulty("error", "session", "2+"), load=_TWO_SESSIONS),
    "one-session-abort": Strange(_faulty("abort", "session", "2"), load=_TWO_SESSIONS),
    "no-devices": Strange({"fault": "error", "fault_at": "device"}),
    **_faults(),
}

COMMANDS = ("run", "devices", "loop", "load", "gate", "code")
COMPUTE_US = 200
TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[16, 8] state, float[16, 8] x, int32[4, 2] i) => (float[16, 8] y, float[16, 8] state_out, int32[4, 2] j)
<float[16, 8] w> {
    y = Relu(x)
    moved = Add(state, x)
    state_out = Sub(moved, w)
    j = Flatten(i)
}"""


class Files(NamedTuple):
    """A model, its inputs and its outputs, of a run and of a loop."""

    model: Path
    inputs: Path
    expected: Path
    loop_expected: Path


STEPS = 3


def make_files(folder: Path) -> Files:
    """A model with a state, a weight and two dtypes, whose outputs are exact in float32."""
    files = Files(*(folder / name for name in ("strange.onnx", "inputs.npz", "expected.npz", "loop.npz")))
    model = onnx.parser.parse_model(TEXT)
    x, weight = (np.arange(128, dtype=np.float32).reshape(16, 8) - shift for shift in (64, 3))
    del model.graph.value_info[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(model, files.model)
    i = np.arange(8, dtype=np.int32).reshape(4, 2)
    np.savez(files.inputs, state=-x, x=x, i=i)
    outputs = [{"y": np.maximum(x, 0), "state_out": -x + n * (x - weight), "j": i} for n in range(1, STEPS + 1)]
    np.savez(files.expected, **outputs[0])  # type: ignore[arg-type]
    steps = {f"step{n}/{name}": value for n, step in enumerate(outputs) for name, value in step.items()}
    np.savez(files.loop_expected, **steps)  # type: ignore[arg-type]
    return files


# What a command is in these processes


def hanging() -> None:
    """`ortbench`, for which ten minutes pass in no time while a worker of its own hangs, which the device's trace tells."""
    from ortbench.__main__ import main
    from ortbench.measure import process

    trace, ahead, last = Path(os.environ["REFDEVICE_TRACE"]), 0.0, time.monotonic()
    hung: list[int] = []

    def monotonic() -> float:
        nonlocal ahead, last
        now = time.monotonic()
        if trace.exists() and trace.stat().st_size > 0:
            if counters(trace)["failure"] != len(hung):
                hung[:] = Trace.read(trace).of("failure")["pid"]
            ahead += (now - last) * 1e5 * any(Path(f"/proc/{pid}").exists() for pid in hung)
        last = now
        return now + ahead

    vars(process)["time"] = SimpleNamespace(**{**vars(time), "monotonic": monotonic})
    vars(process)["_TELL_S"] = 0.2
    main()


def program() -> None:
    """A program that ortbench wrote, in virtual time."""
    virtual.attach(works=True)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


class Mode(NamedTuple):
    """What became of a mode: a status, the reason if it is not ok, and how many samples the result has."""

    status: str
    reason: str | None
    kept: int


@dataclass(frozen=True)
class Cell:
    """What a command said of an EP: what it printed, the modes that it tells of, its result, and what its program did."""

    ran: Ran
    modes: Mapping[str, Mode]
    result: Result | None = None
    program: Ran | None = None

    @property
    def medians(self) -> dict[tuple[str, str], float]:
        """The median of each phase of the modes that are ok, ns, but for what the host takes."""
        cases = self.result.cases if self.result else []
        return {
            (case.mode, phase): stats.median
            for case in cases
            if case.status == OK and not case.point
            for phase, stats in case.metrics.items()
            if isinstance(stats, Stats) and phase not in COSTS
        }


def lines(ep: Strange, command: str, files: Files, library: Path, out: Path) -> list[object]:
    """The command's arguments."""
    given = ("--ep-library", library, *ep.arguments)
    whole = (*given, "--warmup", 1, "--input", files.inputs, "--out", out)
    limits = ("--baseline-set", "intra-op-threads=1", "--max-regression", "50%", "--duration", 1)
    return {
        "run": ["run", files.model, *whole, "--expect", files.expected, "--iterations", 80, "--mode", "all", "--depth", 2],
        "devices": ["devices", "--ep-library", library, "--json", out],
        "loop": ["loop", files.model, *whole, "--expect", files.loop_expected, "--feedback", "state_out=state", "--steps", STEPS,
                 "--iterations", 200],
        "load": ["load", files.model, *whole, "--duration", 0.02, *ep.load],
        "gate": ["gate", "--model", files.model, *whole, "--expect", files.expected, *limits,
                 *modes("cpu-tensors", "device-tensors", "device-resident")],
        "code": ["code", files.model, *given, "--mode", "device-tensors", "--duration", 0.005, "--out", out],
    }[command]  # fmt: skip


def run(ep: Strange, command: str, files: Files, folder: Path) -> Cell:
    """Run a command on an EP; the folder is for what it writes."""
    library, out = device_library(**ep.build), folder / "out"
    knobs, main = {"compute_us": COMPUTE_US, **ep.knobs}, {}
    if ep.hangs:
        knobs |= {"trace": folder / "trace", "trace_records": 100_000}
        main = {forks.MAIN: f"{__name__}:hanging"}
    environment = Config(**knobs).environ()
    ran = ortbench(*lines(ep, command, files, library, out), **environment, **main)
    if command == "devices":
        return Cell(ran, _modes_of_device(ep, json.loads(out.read_text())) if out.exists() else {})
    if command == "code":
        runs = out.exists() and not ep.hangs
        return Cell(
            ran, {}, program=ortbench(out, **environment, **{forks.MAIN: f"{__name__}:program"}) if runs else None
        )
    found = [*out.glob("*/result.json"), *out.glob("*/candidate/result.json")]
    if not found:
        return Cell(ran, {})
    (result,) = map(load, found)
    seen = {
        case.mode: Mode(case.status, case.reason, max(map(len, case.samples.values()), default=0))
        for case in result.at_point()
    }
    return Cell(ran, seen, result)


def _modes_of_device(ep: Strange, listed: Any) -> dict[str, Mode]:
    asked = dict(zip(ep.arguments[::2], ep.arguments[1::2], strict=True))
    library, name = str(device_library(**ep.build)), asked.get("--ep", "").lower()
    entry = next(it for it in listed["eps"] if it["library"] == library and name in it["name"].lower())
    found = entry["devices"][int(asked.get("--device", 0))]["modes"]
    return {mode: Mode("unsupported" if reason else "ok", reason, 0) for mode, reason in found.items()}


# What must be so

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
