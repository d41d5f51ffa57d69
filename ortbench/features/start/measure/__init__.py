"""Starts of configurations in turns: each block of the schedule is one fresh process."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import Any, cast

from ortbench.core import output, signals
from ortbench.core.eps import CACHES, cache_options
from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError, Unsupported
from ortbench.core.files import temporary_folder
from ortbench.core.processes import (
    NO_TELEMETRY,
    given_variables,
    interpreter_in,
    nameless_file,
    start_process,
    surroundings,
)
from ortbench.core.units import share
from ortbench.features.code.model import Program
from ortbench.features.start.measure.kept_files import KeptFiles
from ortbench.features.start.model import KIND, SETTINGS
from ortbench.features.start.model import Start as StartPart
from ortbench.measure.configuration import Configuration
from ortbench.measure.noise import Meter
from ortbench.measure.process import own_folder
from ortbench.measure.schedule import Block, OneByOne, Series
from ortbench.model.modes import LATENCY, SECOND_INFERENCE, START_MEMORY, START_PARTS
from ortbench.model.protocol import Opened, OutputComparison, Prepared, Samples, Saved
from ortbench.model.schema import Machine
from ortbench.plan.options import settings
from ortbench.plan.plan import Plan

_PAGE = mmap.PAGESIZE


def files_of(model: Path) -> list[Path]:
    """The file of a model, and those beside it that begin with its name, which may be its external weights."""
    with suppress(OSError):
        return [it for it in model.parent.iterdir() if it.is_file() and it.name.startswith(model.stem)]
    return [model]


def drop_from_cache(files: Iterable[Path]) -> bool:
    """Ask the system to drop files from its cache; whether it can be asked. What others have mapped may stay."""
    if sys.platform != "linux":
        return False
    for file in files:
        with suppress(OSError), file.open("rb") as opened:
            with suppress(OSError):  # dropped is only what has been written
                os.fdatasync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def read_into_cache(files: Iterable[Path]) -> None:
    for file in files:
        with suppress(OSError), file.open("rb") as opened:
            while opened.read(1 << 20):
                pass


def share_cached(files: Sequence[Path]) -> float | None:
    """The share of the bytes of files that are in the cache; None where the system does not tell."""
    found = [pages for file in files if (pages := _pages(file)) is not None]
    total = sum(map(len, found))
    if len(found) < len(files) or not total:
        return None
    return sum(page & 1 for pages in found for page in pages) / total


def _pages(file: Path) -> bytes | None:
    if sys.platform != "linux":
        return None
    import numpy as np  # which tells where something is in memory

    with suppress(OSError), file.open("rb") as opened:
        if not (size := os.fstat(opened.fileno()).st_size):
            return b""
        mapped = np.frombuffer(mmap.mmap(opened.fileno(), size, prot=mmap.PROT_READ), np.uint8)
        there = ctypes.create_string_buffer(-(-size // _PAGE))
        at = ctypes.c_void_p(mapped.ctypes.data)
        return None if ctypes.CDLL(None).mincore(at, ctypes.c_size_t(size), there) else there.raw
    return None


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


def run_program(folder: Path, python: str | None, timeout_s: float, outputs: Path | None = None) -> Start:
    """Start the program in a folder once; it leaves its outputs in another folder where one is named; `BenchmarkFailed`: it failed,
    or took too long."""
    line = [
        sys.executable if python is None else interpreter_in(python),
        str(folder / PROGRAM),
        *map(str, filter(None, [outputs])),
    ]
    environment = {**NO_TELEMETRY, **(given_variables() if python is None else surroundings())}
    found = folder / FOUND
    found.unlink(missing_ok=True)
    with nameless_file() as file:
        with signals.hold_signals():
            begun = time.perf_counter_ns()
            process = start_process(
                "a fresh process", line, ends_with_us=True, env=environment, stdout=file, stderr=file
            )
            launched = time.perf_counter_ns()
            signals.end_with_process(process.kill)
        try:
            with signals.stoppable_wait():
                process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise BenchmarkFailed(f"a start took more than {timeout_s:g} s and was stopped (--timeout)") from None
        finally:
            process.kill()
            process.wait()
            signals.unregister_end(process.kill)
            assert process.stdin is not None
            process.stdin.close()
            ended = time.perf_counter_ns()
            words = output.last_words(file)
            output.take(file, f"process {process.pid}: a start")
        if process.returncode or not found.is_file():
            raise BenchmarkFailed(f"a start ended with exit code {process.returncode}{words}")
    told = json.loads(found.read_text(encoding="utf-8"))
    *parts, second = zip([begun, *told["times"]], told["times"], strict=False)
    samples = {LATENCY: parts[-1][1] - begun}
    samples |= {part: after - before for part, (before, after) in zip(START_PARTS, parts, strict=True)}
    samples[SECOND_INFERENCE] = second[1] - second[0]
    if told["memory"] is not None:
        samples[START_MEMORY] = told["memory"]
    return Start(begun, launched - begun, ended - begun, samples, told["cpu"], told.get("waits"))


_IS_COLD, _KEPT, _AHEAD = "cold", ("warm", "cold"), "ahead"  # a cache, as options say
_COLD = 0.05  # of the model's files, that may be in memory where they are cold
Write = Callable[[Plan, Opened, Prepared, Program], str]  # writes the program that is started


class StartConfiguration(Configuration):
    """One plan. A worker opens the model first, says what a program does and what its outputs must be, and ends before the first
    process that is timed."""

    per = "configuration"
    may_renew = False
    schedule = OneByOne[Series]  # all of a process is one sample

    def __init__(self, *arguments: Any, write: Write, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._write = write
        self._folder = Path(own_folder())
        self._opened: Opened | None = None
        self.last: Start | None = None
        self._launches: list[int] = []
        self._cached: list[float] = []
        self._files: list[Path] = []
        self._kept = self._folder / "compiled"  # by the EP, for the next process
        self._kept_files: KeptFiles | None = None  # from the first start on that may find any

    def open(self, machine: Machine, run_id: str) -> None:
        super().open(machine, run_id)
        found = {"program": "", "launch_ns": 0, **settings(self._starts, SETTINGS), "cached": None}
        self.result.kind = KIND.key
        self.result.own[KIND.key] = cast(StartPart, found)  # the keys of settings are declared with the options

    def _receive_opened(self, stage: str) -> Opened:
        self._opened = super()._receive_opened(stage)
        return self._opened

    def prepare(self, mode: str) -> None:
        """Write the program, start it once, and compare its outputs with the worker's; the worker ends."""
        super().prepare(mode)
        try:
            if mode in self.modes:
                self._try_out(mode)
        except BadInput:
            raise
        except OrtbenchError as error:
            self.fail(mode, str(error))
        finally:
            super().close()
            self._client = None

    def _try_out(self, mode: str) -> None:
        assert self._opened is not None
        saved: Saved = self.ask("save_inputs", folder=str(self._folder))
        if not saved["saved"]:
            raise Unsupported("an input has a type that numpy has not, and starts read their inputs with numpy alone")
        self._files = files_of(Path(self.plan.model))
        program: Program = self.ask("program", mode=mode)
        plan = self.plan
        if self._starts.compile_cache == _AHEAD:
            path = self._folder / "ahead.onnx"
            self.result.part["compiled"] = self.ask("compile_ahead", path=str(path))
            self._files, plan = files_of(path), replace(plan, model=str(path))
        elif self._starts.compile_cache in _KEPT:
            session = program["session"]
            session["options"] |= cache_options(
                session["ep"], str(self._kept), session["options"], "--compile-cache", CACHES
            )
            session["engines"] = str(self._kept)
        source = self._write(plan, self._opened, self._prepared[mode], program)
        try:
            (self._folder / PROGRAM).write_text(source, encoding="utf-8")
        except OSError as error:
            raise BenchmarkFailed(f"the program that is started was not written: {error.strerror}") from None
        self.result.part["program"] = source
        with temporary_folder() as folder:
            self.last = self._start(Path(folder))
            held: OutputComparison = self.ask("compare_saved_outputs", folder=folder)
        if self._starts.compile_cache in _KEPT:
            self._kept_files = KeptFiles(self._kept)
        if held["differs"] is not None:
            raise Unsupported(f"a fresh process gives other outputs than the worker: {held['differs']}")

    @property
    def _starts(self) -> Any:  # the options of starts, which a feature declares
        return self.plan.part

    def _start(self, outputs: Path | None = None) -> Start:
        """A process that finds what it is to find: the system has read the model's files, or has dropped them."""
        if self._starts.compile_cache == _IS_COLD:
            rmtree(self._kept, ignore_errors=True)
        if self._starts.file_cache != _IS_COLD:
            read_into_cache(self._files)
        elif not drop_from_cache(self._files):
            raise Unsupported("--file-cache cold: this system cannot be asked to drop files from its cache")
        if (cached := share_cached(self._files)) is not None:
            self._cached.append(cached)
        with self.same_model(), nullcontext() if self._kept_files is None else self._kept_files.watch_start():
            return run_program(self._folder, self.plan.target.python, self.plan.timeout_s, outputs)

    @property
    def pids(self) -> list[int]:
        return []  # no process is there before a block, and none behind it

    def estimates_ns(self, mode: str) -> dict[str, float | None]:
        return {LATENCY: None if self.last is None else float(self.last.spent_ns)}

    def block(self, block: Block[Series]) -> Samples | None:
        mode = block.series.mode
        try:
            found = self.last = self._start()
        except OrtbenchError as error:
            self.fail(mode, str(error))
            return None
        case = self.cases[mode]
        for phase, sample in found.samples.items():
            case.samples.setdefault(phase, []).append(sample)
            case.blocks.setdefault(phase, []).append([block.round, 1, found.begun_ns])
        self._launches.append(found.launch_ns)
        self.result.part["launch_ns"] = round(median(self._launches))
        self.result.part["cached"] = median(self._cached) if self._cached else None
        return {"samples": [found.samples[LATENCY]], "start_ns": found.begun_ns, "spent_ns": found.spent_ns}

    def samples_for_verdict(self, block: Block[Series], answer: Samples) -> dict[str, list[int] | list[float]]:
        assert self.last is not None
        return {phase: [sample] for phase, sample in self.last.samples.items()}

    def finish(self, mode: str, goes_on: bool = False) -> None:
        """Say so where caches were not as they were asked for; the outputs of the first process were compared."""
        cached = None if self.result.part is None else self.result.part["cached"]
        if self._starts.file_cache == _IS_COLD and (cached is None or cached > _COLD):
            held = "how much" if cached is None else f"{share(cached)}"
            why = "is not known" if cached is None else "was in memory before a start"
            self.result.warn("file-cache-warm", f"--file-cache cold: {held} of the model's files {why}")
        if self._kept_files is None:
            return
        self.result.part["kept"] = kept = self._kept_files.describe()
        if not kept["files"]:
            self.result.warn(
                "nothing-compiled", f"--compile-cache: {self.result.target['ep']} kept nothing of what it compiled"
            )

    def release(self) -> None:
        """Nothing: the worker has ended."""

    def add_noise(self, noise: Meter, number: int, round: int) -> None:
        assert self.last is not None
        noise.add_process(number, round, self.last.begun_ns, self.last.spent_ns, self.last.cpu_ns, self.last.waits)
