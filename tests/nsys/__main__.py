"""The stand-in's command line: ``python -m tests.nsys``, wrapped in a script called ``nsys``.

``profile`` runs the command with a recorder attached to NVTX, ``stats`` makes the export and the tables out of what was
recorded. GPU work is what the reference device did by its own trace, so that nothing in the export is made up.

Environment: ``NSYS_RECORDER`` (the recorder's library), ``NSYS_LOG`` (a file that gets each command line, as JSON),
``REFDEVICE_TRACE`` (the trace of the device, where there is one), ``NSYS_BREAK`` (``profile`` or ``stats`` fails).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.nsys.export import Export
from tests.nvtx import Record, environ
from tests.refdevice import MEMORIES, Trace

_KINDS = {"h2d": "Host-to-Device", "d2h": "Device-to-Host"}
_MEMORY = {"host": "Pageable", "host_accessible": "Pinned", "default": "Device", "none": "Device"}


def main(arguments: list[str]) -> int:
    """Carry a command line out; returns the exit code."""
    with Path(os.environ["NSYS_LOG"]).open("a") as log:
        log.write(json.dumps(arguments) + "\n")
    if arguments == ["--version"]:
        print("NVIDIA Nsight Systems version 2099.1.1.7-stand-in")
        return 0
    verb, *rest = arguments
    if os.environ.get("NSYS_BREAK") == verb:
        print("the stand-in was told to break")
        return 1
    return profile(rest) if verb == "profile" else stats(rest)


def profile(arguments: list[str]) -> int:
    """Run the command under the recorder; the report is what it recorded."""
    command = arguments[next(at for at, argument in enumerate(arguments) if not argument.startswith("--")) :]
    output = Path(_option(arguments, "output") + ".nsys-rep")
    record = output.with_suffix(".record")
    listener = environ(Path(os.environ["NSYS_RECORDER"]), record) if os.environ.get("NSYS_RECORDER") else {}
    code = subprocess.run(command, env={**os.environ, **listener}).returncode
    if record.exists():
        shutil.move(record, output)
    return code


def stats(arguments: list[str]) -> int:
    """Write the SQLite export beside the report, and a table for each report that was asked for."""
    report, output = Path(arguments[-1]), _option(arguments, "output")
    ranges = [it for outer in _captured(report).ranges for it in outer.walk()]
    export = Export()
    for it in ranges:
        export.push_pop("ortbench", it.name or "", it.start_ns or 0, it.end_ns or 0)
    if os.environ.get("REFDEVICE_TRACE") and ranges:
        first, last = min(it.start_ns or 0 for it in ranges), max(it.end_ns or 0 for it in ranges)
        _gpu_work(export, Trace.read(Path(os.environ["REFDEVICE_TRACE"])), (first, last))
    export.write(report.with_suffix(".sqlite"))
    for name in _option(arguments, "report").split(","):
        Path(f"{output}_{name}.csv").write_text("Time (%),Total Time (ns)\n" if name == "nvtx_sum" else "")
    return 0


def _captured(report: Path) -> Record:
    """What was emitted inside the capture range."""
    lines = report.read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    inside = report.with_suffix(".captured")
    inside.write_text("\n".join(lines[events.index("start") + 1 : events.index("end")]))
    try:
        return Record.read(inside, "ortbench")
    finally:
        inside.unlink()


def _gpu_work(export: Export, trace: Trace, capture: tuple[int, int]) -> None:
    for event in trace.of("h2d", "d2h", "inference"):
        times = int(event["queued_ns"]), int(event["start_ns"]), int(event["end_ns"])
        if not capture[0] <= times[0] <= capture[1]:
            continue
        if event["kind"] == 6:
            export.kernel(*times)
        else:
            source, target = (_MEMORY[MEMORIES[event[key]]] for key in ("source", "destination"))
            kind = _KINDS["h2d" if event["kind"] == 1 else "d2h"]
            export.copy(*times, int(event["bytes"]), kind, source, target)


def _option(arguments: list[str], name: str) -> str:
    return next(it.partition("=")[2] for it in arguments if it.startswith(f"--{name}="))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
