"""Builds, configures and reads the reference device.

The device is a plugin execution provider for ONNX Runtime, written in C, whose copy and compute times are known by
definition; ``refdevice.c`` explains how it behaves. This module compiles it, turns a `Config` into the environment that it
reads, and reads the trace it leaves, also from another process and also after a crash.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from tests.compiling import compile_library, variables

EP_NAME = "RefDeviceExecutionProvider"
VENDOR_ID = 0x0B0B

Outputs = Literal["known", "late", "preallocated", "unchecked"]
Honesty = Literal["sync", "async-wait", "async", "async-old-api"]
Copies = Literal["both", "uploads", "downloads", "none"]
Fault = Literal["none", "abort", "segfault", "exit", "error", "hang", "print"]
Place = Literal["registration", "device", "alloc", "session", "run", "copy", "sync", "release"]
HONESTY: tuple[Honesty, ...] = ("sync", "async-wait", "async", "async-old-api")

SOURCES = (
    "refdevice.c", "refdevice_context.h", "refdevice_device.h", "refdevice_events.h", "refdevice_graph.h", "refdevice_ops.h",
    "refdevice_ort.h", "refdevice_threads.h", "../device_basics.h", "../virtual/clock.h",
)  # fmt: skip
_LIBRARIES = ("-lpthread", "-lm")


def build(
    directory: Path,
    name: str = "RefDevice",
    operators: Sequence[str] = (),
    ep: str | None = None,
    version: str | None = None,
    compute_us: int | None = None,
    named_as_registered: bool = False,
    clock: Path | None = None,
) -> Path:
    """Compile the library into `directory` and return its path. Nothing is compiled if the sources are unchanged.

    Args:
        directory: where to.
        name: of the device; with another one it can be in the same session. Its EP is ``<name>ExecutionProvider``, its
            environment variables begin with ``<NAME>_``.
        operators: those it takes; empty for all that it can compute.
        ep: what its EP is called instead.
        version: that its EP says it is of, in place of 1.0.0.
        compute_us: how long an inference lasts unless a knob says otherwise, in microseconds.
        named_as_registered: its EP takes the name that it is registered by, as ONNX Runtime's example does.
        clock: library of `tests.virtual.build`; the device then goes by virtual time.
    """
    here = Path(__file__).parent
    flags = []
    if name != "RefDevice":
        flags += [f'-DDEVICE_NAME="{name}"', f"-DVENDOR_ID={0x0C00 + zlib.crc32(name.encode()) % 256}u"]
    if operators:
        flags.append(f'-DOPERATORS=",{",".join(operators)},"')
    flags += [f'-D{macro}="{text}"' for macro, text in (("EP_NAME", ep), ("EP_VERSION", version)) if text is not None]
    if named_as_registered:
        flags.append("-DNAMED_AS_REGISTERED")
    if compute_us is not None:
        flags.append(f"-DCOMPUTE_NS={compute_us * 1000}")
    sources = [here / source for source in SOURCES]
    libraries = list(_LIBRARIES)
    if clock is not None:
        flags += ["-DVIRTUAL_TIME", "-O1"]  # how fast it is does not count, but how fast it is compiled
        libraries.append(str(clock))
    return compile_library("the reference device", sources, directory, flags, libraries)


@dataclass(frozen=True, kw_only=True)
class Config:
    """All knobs of the device.

    A trigger is a text ``N`` (the Nth time, counted from 1), ``N+`` (from the Nth on) or ``0`` (never), optionally with
    ``:host``, ``:default`` or ``:host_accessible`` behind it, which makes it look only at that memory. For runs that is
    the memory of the run: ``host`` is `session.run` with arrays, ``default`` device tensors, ``host_accessible``
    zero-copy. For copies, ``host`` are those inside a run and ``default`` those asked for outside of one. For
    allocations it is the memory allocated.

    GB/s are 1e9 bytes a second, and 0 means no limit: the copy takes its latency.
    """

    # How long one inference lasts, in microseconds, and as many more for each item of its batch, which is the first dimension of its
    # first input, where its inputs have other shapes than those of the inference before it, and where that began 20 ms before or more.
    compute_us: float = 2000.0
    item_us: float = 0.0
    switch_us: float = 0.0
    idle_us: float = 0.0
    # A copy to DEFAULT memory, or from there, lasts so many microseconds, and its bytes at so many GB/s.
    upload_latency_us: float = 10.0
    upload_gbps: float = 4.0
    download_latency_us: float = 10.0
    download_gbps: float = 4.0
    # What the memory infos say of both memories, which always are page-aligned. They are made when the library is loaded, so this one
    # and those to `copies` are read from the environment alone. ONNX Runtime's Python API cannot bind an output without a shape to
    # memory that has an alignment.
    alignment: int = 4096
    cpu: bool = False  # the device is a CPU, and its memories are a CPU's
    # Without it HOST_ACCESSIBLE memory is all the device has, and copies to and from it last like uploads and downloads. Together with
    # `cpu` that is how OpenVINO's EP looks on an Intel CPU: ONNX Runtime copies no array inside a run; without `cpu` it copies them all.
    default_memory: bool = True
    # Sessions keep their inputs, their outputs and what passes between the device and the CPU in HOST_ACCESSIBLE memory, though there is
    # DEFAULT memory: so says OrtEp::GetDefaultMemoryDevice, which ONNX Runtime asks from 1.27 on. (Of the callback
    # GetMemoryInfoByMemType, of pull request 28514, no release knows, up to 1.32.)
    accessible_io: bool = False
    # DEFAULT memory is plain host memory (name `Cpu`, vendor 0), there is no other, and nothing copies.
    host_memory: bool = False
    devices: int = 1  # how many devices its EP has, 1 or 2
    eps: int = 1  # how many EPs its library brings, 1 or 2: the other is called `Second…`
    skew: int = 0  # how many bytes behind the start of a page the addresses of allocations lie
    copies: Copies = "both"  # to and from DEFAULT memory, that the EP says it can make; none: it has no data transfer
    # Whether the device knows the shapes of outputs before it computes. With late it computes each in memory of its own, asks for memory
    # when the inference is done, and copies it there; with preallocated too, but for those that the caller has bound memory of their
    # shape for, which are computed there (KernelContext_GetPreallocatedOutput, of ONNX Runtime 1.30); with unchecked in bound memory of
    # any shape that they fit into, which is wrong.
    outputs: Outputs = "known"
    honesty: Honesty = "sync"  # when a run returns, and which calls wait for the device; see refdevice.c
    later_runs: int = 0  # from this run of the process on (from 1) no session waits, as with async-old-api; 0 is never
    # HOST_ACCESSIBLE values are copied to private memory and back in every run, at the price of an upload and a download each; without
    # DEFAULT memory so are values in ordinary host memory, which a run with arrays may hand on.
    ha_copies: bool = False
    # A waiting thread sleeps until this many microseconds before the end and spins from there. With a second and more it never sleeps,
    # which costs a core and keeps the host's caches warm: what the host does after a sleep is tens of microseconds slower.
    spin_us: float = 200.0
    # How many things the device does at a time: 3 are one inference, one upload and one download, 2 one inference and one copy, 1 just
    # one of anything; 0 is as many as there are queues.
    engines: int = 0
    # How many inferences the device does at a time where their runs wait for them, at most 8. More than one is for models of one node:
    # what a larger one computes in between is in one place for all.
    servers: int = 1
    submit_us: float = 0.0  # the thread that starts an inference is busy for so long before the device gets it
    # Beside each inference a thread of the host takes so much CPU time; it should last less than that, or it goes on behind it.
    busy_us: float = 0.0
    # Triggers: an upload (weights are some), a download, an allocation, and one of BYTES or BYTES:memory at least that fails;
    fail_upload: str = "0"
    fail_download: str = "0"
    fail_alloc: str = "0"
    fail_alloc_bytes: str = "0"
    abort_run: str = "0"  # a run that calls abort();
    wrong_run: str = "0"  # one whose first output has one wrong value, its first;
    abort_copy: str = "0"  # a copy, whatever its direction, that calls abort();
    wrong_copy: str = "0"  # one whose first byte arrives wrong;
    shape_run: str = "0"  # an inference whose first output has one item fewer than it should, in its first dimension.
    unbound_type: int = 0  # runs fail with bound inputs of this element type of ONNX (6 is int32), and not with arrays
    bfloat16: bool = False  # what each node computes is rounded to bfloat16
    compile_us: float = 0.0  # what compiling nodes that were fused into one takes; what was compiled before takes none
    # Where a session is to keep what it compiles (`ep.context_enable`), at least so many bytes of each fused node become an EPContext
    # node; with 0 the device makes none. It opens such nodes in any case.
    context_bytes: int = 0
    # What goes wrong: it aborts, has a segmentation fault, exits with 3, returns an error (null, for an allocation), never returns, or
    # prints a line to stdout. Where: when its library is registered, its devices are listed, memory is allocated, a session is created,
    # a run begins, a copy is made, OrtEp::Sync is called, or an EP is released (where it aborts, as there are no errors). When: a
    # trigger. And on which device, from 1; 0 is any: of allocations, sessions, runs and synchronizations.
    fault: Fault = "none"
    fault_at: Place = "registration"
    fault_when: str = "1"
    fault_device: int = 0
    # Bytes of host memory that are never freed: of each inference, of each shape that is new to the process, of each session; and file
    # descriptors that are never closed, of each inference: 0.01 is one in a hundred.
    leak_bytes: float = 0.0
    leak_shape_bytes: float = 0.0
    leak_session_bytes: float = 0.0
    leak_handles: float = 0.0
    trace: Path | None = None  # file for the trace; None keeps none
    trace_records: int = 1_000_000  # room in it; more are counted but not kept

    def environ(self, device: str = "RefDevice") -> dict[str, str]:
        """The knobs of a device as environment variables, to be added to those of the process that loads the library."""
        return variables(device.upper(), self)

    def copy_ns(self, kind: str, size: int) -> float:
        """How long a copy of `size` bytes lasts by definition, ns: an upload, a download, or one inside DEFAULT memory."""
        up, down = (self.upload_latency_us, self.upload_gbps), (self.download_latency_us, self.download_gbps)
        latency_us, gbps = {"h2d": up, "d2h": down, "device": (5.0, 8.0)}[kind]
        return latency_us * 1000 + (size / gbps if gbps else 0.0)


KNOBS = tuple(field.name for field in fields(Config))  # in the order of the table in refdevice_device.h


KINDS = dict(
    enumerate(
        ("h2d", "d2h", "device-copy", "host-copy", "same-copy", "inference", "ha-copy", "alloc", "free", "sync-wait",
         "run-end-wait", "run", "failure", "compile"),
        1,
    )
)  # fmt: skip
"""Kinds of events. ``same-copy`` is a copy of a value onto itself, ``host-copy`` one between HOST_ACCESSIBLE and host
memory, ``sync-wait`` a call of OrtEp::Sync, ``run`` the span of a run as the EP sees it, ``compile`` knob `compile_us`."""

MEMORIES = ("none", "host", "default", "host_accessible")

EVENT = np.dtype(
    [("sequence", "<u8"), ("kind", "<u4"), ("queue", "<u4"), ("bytes", "<u8")]
    + [(name, "<i8") for name in ("queued_ns", "start_ns", "planned_end_ns", "end_ns", "work_ns")]
    + [("run", "<u8")]
    + [(name, "<u4") for name in ("memory", "source", "destination", "pid", "failed", "session")]
)
"""One record. Times are those of `time.perf_counter_ns`; `queue` 0 is the default queue; `run` counts from 1 in a
process and is 0 outside of runs; `memory`, `source` and `destination` index `MEMORIES`; `work_ns` is the part of start
to end that was real copying or computing; in a failure, `bytes` indexes `KNOBS`."""

_HEADER = np.dtype(
    [
        ("magic", "S8"),
        ("version", "<u4"),
        ("record_bytes", "<u4"),
        ("capacity", "<u8"),
        ("next", "<u8"),
        ("reserved", "<u8", (4,)),
        ("counters", [("count", "<u8"), ("bytes", "<u8"), ("ns", "<u8")], (32,)),
    ]
)
_HEADER_BYTES = 4096

Events = npt.NDArray[np.void]


@dataclass(frozen=True)
class Trace:
    """What the device did, in the order in which it ended; of all processes that used the same trace file."""

    events: Events

    @classmethod
    def read(cls, path: Path) -> Trace:
        """Read a trace file, at any time: its processes may be alive or dead."""
        with path.open("rb") as file:
            head = _head(file)
            records = file.read(min(int(head["next"]), int(head["capacity"])) * EVENT.itemsize)
        events: Events = np.frombuffer(records, dtype=EVENT)
        return cls(events[events["sequence"] > 0])

    def of(self, *kinds: str, memory: str | None = None) -> Events:
        """The events of these kinds, and of this memory if one is named."""
        numbers = [number for number, name in KINDS.items() if name in kinds]
        if len(numbers) != len(kinds):
            raise ValueError(f"unknown kind among {kinds}")
        chosen: Events = self.events[np.isin(self.events["kind"], numbers)]
        return chosen if memory is None else chosen[chosen["memory"] == MEMORIES.index(memory)]

    def held(self, memory: str, pid: int | None = None) -> tuple[int, int]:
        """The bytes of a memory that are given out at the end of the trace, and at most at a time: of all processes, or of one."""
        events = self.of("alloc", "free", memory=memory)
        events = events[events["failed"] == 0]
        if pid is not None:
            events = events[events["pid"] == pid]
        events = np.sort(events, order="sequence")
        signed = np.where(events["kind"] == 8, events["bytes"], -events["bytes"].astype(np.int64))
        given = np.cumsum(signed.astype(np.int64))
        return (int(given[-1]), int(given.max())) if len(given) else (0, 0)

    def failures(self) -> list[str]:
        """The knobs whose injected failures happened, in order."""
        return [KNOBS[int(event["bytes"])] for event in self.of("failure")]


def _head(file: IO[bytes]) -> Any:
    head = np.frombuffer(file.read(_HEADER_BYTES), dtype=_HEADER, count=1)[0]
    if head["magic"] != b"REFDEVTR" or head["version"] != 1 or head["record_bytes"] != EVENT.itemsize:
        raise ValueError(f"{file.name} is not a trace of this reference device")
    return head


def counters(path: Path) -> dict[str, int]:
    """How often each kind happened since the trace was made, also what found no room in it."""
    with path.open("rb") as file:
        head = _head(file)
    return {name: int(head["counters"][kind]["count"]) for kind, name in KINDS.items()}
