"""Strange execution providers: builds of the reference device that are unlike any EP that ortbench was written on.

``python -m tests.strange FOLDER`` writes what every command says of every one of them as a page, FOLDER/README.md.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx

from tests import installed  # noqa: F401 - before anything of ortbench is

# isort: split
from ortbench.result import Result, load
from tests import forks, virtual
from tests.conftest import Ran, device_library, ortbench
from tests.refdevice import Config, failures_so_far


@dataclass(frozen=True)
class Strange:
    """An EP that is strange in one respect.

    Attributes:
        name: of it in tables.
        what: is strange about it.
        knobs: of `Config`.
        arguments: which every command but `devices` is given.
        further: arguments by command.
        build: arguments of `tests.refdevice.build`.
    """

    name: str
    what: str
    knobs: Mapping[str, Any] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    further: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
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
        "run:400": "the 400th run",
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
            if what == "error" and at == "release":
                continue  # there is none to return
            when = "1+" if what == "print" else number or "1"
            knobs = {"fault": what, "fault_at": at, "fault_when": when}
            found.append(Strange(f"{what}-at-{key.replace(':', '-')}", f"{verb} at {place}.", knobs))
    return found


_TWO_SESSIONS = {"run": ("--nodes",), "load": ("--sessions", "own")}
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
        Strange(
            "null-host-accessible", "Its allocator of HOST_ACCESSIBLE memory returns null.",
            {"fail_alloc": "1+:host_accessible"},
        ),
        Strange("aligned-0", "Its memories have no alignment.", {"alignment": 0}),
        Strange("aligned-64", "Its memories are aligned to 64 bytes.", {"alignment": 64}),
        Strange("skewed", "Addresses of its memory are odd multiples of 4.", {"skew": 4}),
        Strange("only-host-accessible", "It has HOST_ACCESSIBLE memory alone.", {"default_memory": False}),
        Strange("only-host-accessible-cpu", "The same, on a CPU.", {"default_memory": False, "cpu": True}),
        Strange(
            "second-device-null", "Of two devices the second has no memory to give.",
            {"devices": 2, "fault": "error", "fault_at": "alloc", "fault_when": "1+", "fault_device": 2},
        ),
        Strange(
            "second-device-null-used", "The same, on the second.",
            {"devices": 2, "fault": "error", "fault_at": "alloc", "fault_when": "1+", "fault_device": 2},
            ("--device", "1"),
        ),
        Strange(
            "first-device-no-session", "Of two devices the first can create no session.",
            {"devices": 2, "fault": "error", "fault_at": "session", "fault_when": "1+", "fault_device": 1},
        ),
        Strange(
            "first-device-no-session-unused", "The same, on the second.",
            {"devices": 2, "fault": "error", "fault_at": "session", "fault_when": "1+", "fault_device": 1},
            ("--device", "1"),
        ),
        Strange("two-eps", "Its library brings two EPs.", {"eps": 2}),
        Strange("two-eps-second", "The same, the second by name.", {"eps": 2}, ("--ep", "SecondRefDeviceExecutionProvider")),
        Strange("other-names", "Its EP is called `my_ep`.", build={"ep": "my_ep"}),
        Strange("unbound-int32", "It takes int32 tensors in `run`, and not bound.", {"unbound_type": 6}),
        Strange("shapes-change", "From the second run on an output has one item fewer.", {"shape_run": "2+"}),
        Strange("sync-fails", "All synchronizations return an error.",
                {"fault": "error", "fault_at": "sync", "fault_when": "1+", "honesty": "async"}),
        Strange("one-session", "A second session in a process is an error.",
                {"fault": "error", "fault_at": "session", "fault_when": "2+"}, further=_TWO_SESSIONS),
        Strange("one-session-abort", "A second session in a process aborts it.",
                {"fault": "abort", "fault_at": "session", "fault_when": "2"}, further=_TWO_SESSIONS),
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


@dataclass(frozen=True)
class Files:
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
    outputs = [dict(y=np.maximum(x, 0), state_out=-x + steps * (x - weight), j=i) for steps in range(1, STEPS + 1)]
    np.savez(files.expected, **outputs[0])
    np.savez(
        files.loop_expected,
        **{f"step{n}/{name}": value for n, step in enumerate(outputs) for name, value in step.items()},
    )
    return files


# What a command is in these processes


def hanging() -> None:
    """`ortbench`, for which ten minutes pass in no time as soon as the device hangs, which its trace tells."""
    from ortbench.__main__ import main
    from ortbench.measure import process

    trace, begun = Path(sys.argv.pop()), 0.0

    def monotonic() -> float:
        nonlocal begun
        now = time.monotonic()
        if not begun and failures_so_far(trace):
            begun = now
        return now + (now - begun) * 1e5 if begun else now

    vars(process)["time"] = SimpleNamespace(**{**vars(time), "monotonic": monotonic})
    vars(process)["_TELL_S"] = 0.05
    main()


def program() -> None:
    """A program that ortbench wrote, in virtual time."""
    virtual.attach(works=True)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


@dataclass(frozen=True)
class Mode:
    """What became of a mode: a status, the reason if it is not ok, and how many samples the result has."""

    status: str
    reason: str | None
    kept: int


@dataclass(frozen=True)
class Cell:
    """What a command said of an EP.

    Attributes:
        ran: what it printed and its exit code.
        modes: that it tells of.
        result: that it wrote, if it does.
        program: what the program it wrote did.
    """

    ran: Ran
    modes: Mapping[str, Mode]
    result: Result | None = None
    program: Ran | None = None


def lines(ep: Strange, command: str, files: Files, library: Path, out: Path) -> list[object]:
    """The command's arguments."""
    model, given = (
        files.model,
        ("--ep-library", library, *ep.arguments, "--input", files.inputs, "--out", out, "--warmup", 1),
    )
    found: dict[str, list[object]] = {
        "run": ["run", model, *given, "--expect", files.expected, "--iterations", 12, "--pinned", "--depth", 2, "--async-runs"],
        "devices": ["devices", "--ep-library", library, "--json", out],
        "loop": ["loop", model, *given, "--expect", files.loop_expected, "--feedback", "state_out=state", "--steps", STEPS,
                 "--iterations", 6],
        "load": ["load", model, *given, "--concurrency", 1, "--duration", 0.02],
        "gate": ["gate", "--model", model, *given, "--expect", files.expected, "--max-regression", "50%",
                 "--baseline-threads", 1, "--duration", 1,
                 "--mode", "cpu", "--mode", "device", "--mode", "device-resident"],
        "code": ["code", model, *given[:-4], "--mode", "device", "--duration", 0.005, "--out", out],
    }  # fmt: skip
    return [*found[command], *ep.further.get(command, ())]


def run(ep: Strange, command: str, files: Files, folder: Path) -> Cell:
    """Run a command on an EP.

    Args:
        ep: to run it on.
        command: of `COMMANDS`.
        files: of `make_files`.
        folder: for what it writes.
    """
    library, out, trace = device_library(**ep.build), folder / "out", folder / "trace"
    environment = Config(compute_us=COMPUTE_US, trace=trace, trace_records=20_000, **ep.knobs).environ()
    line = lines(ep, command, files, library, out)
    if ep.hangs:
        ran = ortbench(*line, trace, **environment, **{forks.MAIN: f"{__name__}:hanging"})
    else:
        ran = ortbench(*line, **environment)
    return _SEEN[command](ep, ran, out, environment)


def _seen_cases(ep: Strange, ran: Ran, out: Path, environment: Mapping[str, str]) -> Cell:
    found = [*out.glob("*/result.json"), *out.glob("*/candidate/result.json")]
    if not found:
        return Cell(ran, {})
    (result,) = map(load, found)
    modes = {
        case.mode: Mode(case.status, case.reason, max(map(len, case.samples_ns.values()), default=0))
        for case in result.cases
    }
    return Cell(ran, modes, result)


def _seen_devices(ep: Strange, ran: Ran, out: Path, environment: Mapping[str, str]) -> Cell:
    if not out.exists():
        return Cell(ran, {})
    number = int(ep.arguments[1]) if "--device" in ep.arguments else 0
    name = ep.arguments[1] if "--ep" in ep.arguments else ep.build.get("ep", "RefDeviceExecutionProvider")
    (entry,) = [it for it in json.loads(out.read_text())["eps"] if it["name"] == name]
    if entry["problem"]:
        return Cell(ran, {"": Mode("failed", entry["problem"], 0)})
    device = entry["devices"][number]
    return Cell(
        ran,
        {mode: Mode("unsupported" if reason else "ok", reason, 0) for mode, reason in device["modes"].items()},
    )


def _seen_program(ep: Strange, ran: Ran, out: Path, environment: Mapping[str, str]) -> Cell:
    if not out.exists() or ep.hangs:
        return Cell(ran, {})
    return Cell(ran, {}, program=ortbench(out, **environment, **{forks.MAIN: f"{__name__}:program"}))


_SEEN: dict[str, Callable[[Strange, Ran, Path, Mapping[str, str]], Cell]] = {
    "run": _seen_cases,
    "devices": _seen_devices,
    "loop": _seen_cases,
    "load": _seen_cases,
    "gate": _seen_cases,
    "code": _seen_program,
}
