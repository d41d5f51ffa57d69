"""Nsight Systems: starts it around a session, and has it summarise what it recorded.

The options are those of ``nsys profile`` and ``nsys stats`` in NVIDIA's *Nsight Systems User Guide*.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ortbench.core import signals
from ortbench.core.errors import BAD_INPUT, BadInput, BenchmarkFailed, one_line
from ortbench.core.files import write_or_note
from ortbench.core.profiler import CAPTURE, DOMAIN
from ortbench.measure.process import nameless_file

WHERE_TO_GET_IT = "https://developer.nvidia.com/nsight-systems"
RECORD = (
    "--trace=cuda,nvtx",
    "--cuda-memory-usage=true",
    "--sample=none",
    "--cpuctxsw=none",
    "--capture-range=nvtx",
    f"--nvtx-capture={CAPTURE}@{DOMAIN}",
    # "stop" ends the recording only; the default would end the session too.
    "--capture-range-end=stop",
)
STATS = ("nvtx_sum", "cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "cuda_gpu_kern_sum")
_STATS_TIMEOUT_S = 600
_SAVING_S = 30.0  # how long a session that is interrupted may take to save what it measured


def find() -> str | None:
    """The path of ``nsys``, or None."""
    return shutil.which("nsys")


def version(nsys: str) -> str:
    """The version that ``nsys --version`` tells, without its build.

    Raises:
        BenchmarkFailed: it does not start.
    """
    said = _run([nsys, "--version"], 60).strip()
    return said.rpartition(" ")[2].partition("-")[0] or "of unknown version"


def record(nsys: str, report: Path, command: Sequence[str]) -> None:
    """Run a command under Nsight Systems; what both print goes to ``nsys.log`` beside the report.

    Args:
        nsys: its path.
        report: where the report goes, without its suffix.
        command: must push the capture range.

    Raises:
        BadInput, BenchmarkFailed: the command failed (in its own words), or there is no report.
        Stopped: the program is to end; the command was told so, and had time to save what it has.
    """
    log = report.with_name("nsys.log")
    with nameless_file() as file:
        try:
            code = _attend([nsys, "profile", *RECORD, f"--output={report}", *command], file.fileno())
        finally:
            file.seek(0)
            text = file.read()
            write_or_note(log, text)
    said = text.decode(errors="replace").splitlines()
    if code != 0:
        own = [text.removeprefix("ortbench: ") for text in said if text.startswith("ortbench: ")]
        if own:
            raise (BadInput if code == BAD_INPUT else BenchmarkFailed)(own[-1])
        words = one_line(said[-1] if said else "no output", 200)
        raise BenchmarkFailed(f"nsys ended with exit code {code}: {words} (see {log})")
    if not file_of(report, ".nsys-rep").exists():
        raise BenchmarkFailed(f"Nsight Systems wrote no report; what it said is in {log}")


def _attend(line: Sequence[str], output: int) -> int:
    """Run a command and those that it starts, and end all of them if the program is to end; its exit code."""
    process = subprocess.Popen(
        line, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        with signals.awaited():
            return process.wait()
    except KeyboardInterrupt:
        _tell(process, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SAVING_S)
        raise
    finally:
        if process.poll() is None:
            _tell(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            process.wait()


def _tell(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and those that it started, where there are groups of processes."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
    else:
        process.terminate()


def summarise(nsys: str, report: Path) -> Path:
    """Run ``nsys stats``: tables as CSV beside the report, and its export to SQLite, whose path is returned.

    Raises:
        BenchmarkFailed: it fails.
    """
    line = [nsys, "stats", "--force-export=true", "--format=csv", f"--report={','.join(STATS)}", f"--output={report}"]
    said = _run([*line, str(file_of(report, ".nsys-rep"))], _STATS_TIMEOUT_S)
    for name in STATS:  # it leaves an empty file where nothing was recorded
        table = file_of(report, f"_{name}.csv")
        if table.exists() and table.stat().st_size == 0:
            table.unlink()
    database = file_of(report, ".sqlite")
    if not database.exists():
        raise BenchmarkFailed(f"nsys stats made no export: {one_line(said, 200)}")
    return database


def file_of(report: Path, suffix: str) -> Path:
    """A file beside a report, whose path has no suffix."""
    return report.with_name(report.name + suffix)


def _run(line: Sequence[str], timeout_s: float) -> str:
    """A tool's output.

    Raises:
        BenchmarkFailed: it fails or does not end.
    """
    try:
        with signals.awaited():
            done = subprocess.run(line, capture_output=True, text=True, errors="replace", timeout=timeout_s)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchmarkFailed(f"{line[0]} cannot be run: {one_line(str(error))}") from None
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
        raise BenchmarkFailed(
            f"{' '.join(line[:2])} ended with exit code {done.returncode}: {one_line(words[-1], 200)}"
        )
    return done.stdout
