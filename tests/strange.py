"""Strange execution providers: builds of the reference device that are unlike any EP that ortbench was written on.

``python -m tests.strange FOLDER`` writes what every command says of every one of them as a page, FOLDER/README.md.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import onnx

from tests import installed  # noqa: F401 - before anything of ortbench is

# isort: split
from ortbench.core.stats import Stats
from ortbench.model.modes import COSTS
from ortbench.model.result import FAILED, OK, Result
from ortbench.model.result_file import load
from tests import forks, virtual
from tests.conftest import Ran, device_library, modes, ortbench
from tests.refdevice import Config, Trace, counters


@dataclass(frozen=True)
class Strange:
    """An EP that is strange in one respect: its name in tables, what is strange, knobs of `Config`, arguments of every command
    but `devices`, those of `load` in place of one client, and arguments of `tests.refdevice.build`."""

    name: str
    what: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    load: tuple[str, ...] = ("--concurrency", "1")
    build: Mapping[str, Any] = field(default_factory=dict)

    @property
    def hangs(self) -> bool:
        """Whether it never returns from some call."""
        return self.knobs.get("fault") == "hang"


def _faults() -> list[Strange]:
    """EPs that go wrong in each way at each place."""
    places = {
        "registration": "registration",
        "session": "session creation",
        "run": "the first run",
        "run:50": "the 50th run",
        "run:2600": "a run that is measured",
        "copy": "the first copy",
        "sync": "the first synchronization",
        "release": "its release",
    }
    verbs = {
        "abort": "It aborts",
        "segfault": "It has a segmentation fault",
        "exit": "It ends the process with exit(3)",
        "error": "It returns an error",
        "hang": "It never returns",
        "print": "It prints to stdout",
    }
    found = []
    for what, verb in verbs.items():
        for key, place in places.items():
            at, _, number = key.partition(":")
            if (what, at) == ("error", "release") or (what == "print" and number):
                continue  # there is no error to return, and what prints does it each time
            when = "1+" if what == "print" else number or "1"
            knobs = {"fault": what, "fault_at": at, "fault_when": when}
            found.append(Strange(f"{what}-at-{key.replace(':', '-')}", f"{verb} at {place}.", knobs))
    return found


_TWO_SESSIONS = ("--concurrency", "1,2", "--sessions", "own")
_SECOND = ("--device", "1")
_NO_MEMORY = {"devices": 2, "fault": "error", "fault_at": "alloc", "fault_when": "1+", "fault_device": 2}
_NO_SESSION = {"devices": 2, "fault": "error", "fault_at": "session", "fault_when": "1+", "fault_device": 1}
STRANGE = {
    it.name: it
    for it in (
        Strange("plain", "Nothing: the reference device as it is."),
        Strange("host-default", "DEFAULT memory is plain host memory, and it copies nothing.", {"host_memory": True}),
        Strange("no-copies", "DEFAULT memory is a device's, and it copies nothing.", {"copies": "none"}),
        Strange("uploads-only", "It says that it copies to the device only.", {"copies": "uploads"}),
        Strange("downloads-only", "It says that it copies from the device only.", {"copies": "downloads"}),
        Strange("failing-downloads", "All its downloads fail.", {"fail_download": "1+"}),
        Strange("failing-uploads", "All its uploads fail.", {"fail_upload": "1+"}),
        Strange("null-default", "Its allocator of DEFAULT memory returns null.", {"fail_alloc": "1+:default"}),
        Strange("null-host-accessible", "Its allocator of HOST_ACCESSIBLE memory returns null.", {"fail_alloc": "1+:host_accessible"}),
        Strange("aligned-0", "Its memories have no alignment.", {"alignment": 0}),
        Strange("aligned-64", "Its memories are aligned to 64 bytes.", {"alignment": 64}),
        Strange("skewed", "Addresses of its memory are odd multiples of 4.", {"skew": 4}),
        Strange("only-host-accessible", "It has HOST_ACCESSIBLE memory alone.", {"default_memory": False}),
        Strange("only-host-accessible-cpu", "The same, on a CPU.", {"default_memory": False, "cpu": True}),
        Strange("second-device-null", "Of two devices the second has no memory to give.", _NO_MEMORY),
        Strange("second-device-null-used", "The same, on the second.", _NO_MEMORY, _SECOND),
        Strange("first-device-no-session", "Of two devices the first can create no session.", _NO_SESSION),
        Strange("first-device-no-session-unused", "The same, on the second.", _NO_SESSION, _SECOND),
        Strange("two-eps", "Its library brings two EPs.", {"eps": 2}),
        Strange("two-eps-second", "The same, the second by name.", {"eps": 2}, ("--ep", "SecondRefDeviceExecutionProvider")),
        Strange("other-names", "Its EP is called `my_ep`, and its library `librefdevice`.", {}, ("--ep", "My_EP"), build={"ep": "my_ep"}),
        Strange("unbound-int32", "It takes int32 tensors in `run`, and not bound.", {"unbound_type": 6}),
        Strange("shapes-change", "From the second run on an output has one item fewer.", {"shape_run": "2+"}),
        Strange("sync-fails", "All synchronizations return an error.", {"fault": "error", "fault_at": "sync", "fault_when": "1+"}),
        Strange("one-session", "A second session in a process is an error.",
                {"fault": "error", "fault_at": "session", "fault_when": "2+"}, load=_TWO_SESSIONS),
        Strange("one-session-abort", "A second session in a process aborts it.",
                {"fault": "abort", "fault_at": "session", "fault_when": "2"}, load=_TWO_SESSIONS),
        Strange("no-devices", "It fails when it is asked for its devices.", {"fault": "error", "fault_at": "device"}),
        *_faults(),
    )
}  # fmt: skip

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
        main = {forks.MAIN: "tests.strange:hanging"}
    environment = Config(**knobs).environ()
    ran = ortbench(*lines(ep, command, files, library, out), **environment, **main)
    if command == "devices":
        return Cell(ran, _modes_of_device(ep, json.loads(out.read_text())) if out.exists() else {})
    if command == "code":
        runs = out.exists() and not ep.hangs
        return Cell(
            ran, {}, program=ortbench(out, **environment, **{forks.MAIN: "tests.strange:program"}) if runs else None
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


# The page

_PAGE = """# Strange execution providers

What every command says of EPs that are unlike any that ortbench was written on: builds of the
[reference device](../../docs/testing.md#the-reference-device), each strange in one respect ([tests/strange.py](../../tests/strange.py),
which wrote this page: `python -m tests.strange reports/strange-eps`).

A cell is the exit code and the modes: those that gave right figures, then, by a number, those that did not and why, or the line
of a command that gave nothing; samples are what was measured before a mode failed. `devices` says which modes there are. `run`
was asked for all eight modes, `load` for one client (`one-session`: for two with a session each), `gate` for three modes against
the same EP, `code` for the program of mode `device-tensors`, which then ran, but for EPs that hang.
"""


def page(cells: Mapping[str, Mapping[str, Cell]]) -> str:
    """The matrix as Markdown, by EP and command."""
    reasons: dict[str, str] = {}

    def number(reason: str) -> str:
        return reasons.setdefault(_plain(reason), f"r{len(reasons) + 1}")

    rows = [["EP", "strange", *(f"`{command}`" for command in COMMANDS)], ["---"] * (2 + len(COMMANDS))]
    rows += [[name, STRANGE[name].what, *(_said(row[it], number) for it in COMMANDS)] for name, row in cells.items()]
    said = [f"| {name} | {reason} |" for reason, name in reasons.items()]
    return "\n".join(
        [_PAGE, *(f"| {' | '.join(row)} |" for row in rows), "", "| | what is said |", "|---|---|", *said, ""]
    )


def _said(cell: Cell, number: Callable[[str], str]) -> str:
    parts, found = [str(cell.ran.code)], dict[str, list[str]]()
    failed = {name for name, mode in cell.modes.items() if mode.status == FAILED}
    for name, mode in cell.modes.items():
        why = "" if mode.status == OK else f" ({number(mode.reason or '')}{' failed' * (name in failed)})"
        found.setdefault(why, []).append(f"{name} {mode.kept} samples" if name in failed and mode.kept else name)
    parts += ["all"] if found.keys() == {""} else [", ".join(names) + why for why, names in found.items()]
    if cell.program is not None:
        parts.append("runs" if cell.program.code == 0 else f"its program ends with {cell.program.code}")
    elif not failed:
        parts += [number(line.removeprefix("ortbench: ")) for line in cell.ran.err.splitlines()]
    return "; ".join(parts)


def _plain(reason: str) -> str:
    """A reason without the folders and numbers of one run."""
    for pattern, text in ((r"/\S*/", ""), (r"librefdevice-\w+", "librefdevice"), (r"_\d{9,}_", "_N_")):
        reason = re.sub(pattern, text, reason)
    return reason.replace("|", "\\|")


def main(folder: Path) -> None:
    """Run every command on every EP, and write the page."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        os.environ["ORTBENCH_TESTS_BUILT"] = str(work / "built")
        clock = virtual.Clock(work / "clock")
        os.environ[virtual.VARIABLE] = str(clock.path)
        files = make_files(work)
        cells: dict[str, dict[str, Cell]] = {}
        for ep in STRANGE.values():
            for command in COMMANDS:
                clock.restart()
                (place := work / ep.name / command).mkdir(parents=True)
                cells.setdefault(ep.name, {})[command] = run(ep, command, files, place)
                shutil.rmtree(place)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "README.md").write_text(page(cells))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.strange FOLDER")
    main(Path(sys.argv[1]))
