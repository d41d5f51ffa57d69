"""A start: one process that runs a program, from before it exists to its end, and what it says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ortbench.core import signals
from ortbench.core.errors import BenchmarkFailed
from ortbench.core.interpreters import program, surroundings
from ortbench.core.worker_process import nameless_file
from ortbench.measure.process import last_words
from ortbench.model.modes import LATENCY, SECOND_INFERENCE, START_MEMORY, START_PARTS

PROGRAM, FOUND = "program.py", "found.json"


@dataclass(frozen=True)
class Start:
    """What came of a start; times in ns."""

    begun_ns: int  # right before the system was asked for the process
    launch_ns: int  # until it had made it
    spent_ns: int  # until it had ended
    samples: dict[str, int]  # by phase
    cpu_ns: int  # CPU time of the process
    waits: Sequence[int] | None  # of its first thread: CPU time, time on the run queue, how often it got a CPU


def start(folder: Path, python: str | None, timeout_s: float, outputs: Path | None = None) -> Start:
    """Start the program in a folder once; it leaves its outputs in another folder where one is named; `BenchmarkFailed`: it failed,
    or took too long."""
    line = [sys.executable if python is None else program(python), str(folder / PROGRAM)]
    found = folder / FOUND
    found.unlink(missing_ok=True)
    with nameless_file() as printed:
        with signals.held():
            begun = time.perf_counter_ns()
            process = subprocess.Popen(
                [*line, *([] if outputs is None else [str(outputs)])],
                env=None if python is None else surroundings(),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
            launched = time.perf_counter_ns()
            signals.end_with_process(process.kill)
        try:
            with signals.awaited():
                process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise BenchmarkFailed(f"a start took more than {timeout_s:g} s and was stopped (--timeout)") from None
        finally:
            process.kill()
            process.wait()
            signals.ended(process.kill)
        ended = time.perf_counter_ns()
        if process.returncode or not found.is_file():
            raise BenchmarkFailed(f"a start ended with exit code {process.returncode}{last_words(printed, 'its')}")
    told = json.loads(found.read_text(encoding="utf-8"))
    *parts, second = zip([begun, *told["times"]], told["times"], strict=False)
    samples = {LATENCY: parts[-1][1] - begun}
    samples |= {part: after - before for part, (before, after) in zip(START_PARTS, parts, strict=True)}
    samples[SECOND_INFERENCE] = second[1] - second[0]
    if told["memory"] is not None:
        samples[START_MEMORY] = told["memory"]
    return Start(begun, launched - begun, ended - begun, samples, told["cpu"], told.get("waits"))
