"""Starts of configurations in turns: each block of the schedule is one fresh process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from statistics import median
from typing import Any, cast

from ortbench.analysis.engines import CACHES, cache_options
from ortbench.core.errors import BadInput, OrtbenchError, Unsupported
from ortbench.core.units import share
from ortbench.measure.bench import Bench, Series
from ortbench.measure.configuration import Configuration
from ortbench.measure.folder import temporary_folder
from ortbench.measure.process import freed_path, own_folder
from ortbench.measure.schedule import Block, Schedule
from ortbench.measure.starts.file_cache import empty, files_of, fill, share_cached
from ortbench.measure.starts.launch import PROGRAM, Start, start
from ortbench.model import schema
from ortbench.model.modes import LATENCY
from ortbench.model.protocol import HeldOutputs, Opened, Prepared, Program, Samples, Saved
from ortbench.model.result import START
from ortbench.model.schema import Machine
from ortbench.plan.options import settings
from ortbench.plan.plan import Plan
from ortbench.plan.start_plan import COLD, WARM, Starts

_COLD = 0.05  # of the model's files, that may be in memory where they are cold
Write = Callable[[Plan, Opened, Prepared, Program], str]  # writes the program that is started


class StartSide(Configuration):
    """One plan. A worker opens the model first, says what a program does and what its outputs must be, and ends before the first
    process that is timed."""

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

    def open(self, machine: Machine, run_id: str) -> None:
        super().open(machine, run_id)
        found = {"program": "", "launch_ns": 0, **settings(self._starts), "cached": None}
        self.result.kind = START
        self.result.start = cast(schema.Start, found)  # the keys of settings are declared with the options

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
        assert self.result.start is not None
        saved: Saved = self.ask("save_inputs", folder=str(self._folder))
        if not saved["saved"]:
            raise Unsupported("an input has a type that numpy has not, and starts read their inputs with numpy alone")
        plan = replace(self.plan, model=freed_path(self.plan))
        self._files = files_of(Path(plan.model))
        program: Program = self.ask("program", mode=mode)
        if self._starts.compile_cache is not None:
            session = program["session"]
            session["options"] |= cache_options(
                session["ep"], str(self._kept), session["options"], "--compile-cache", CACHES
            )
            session["engines"] = str(self._kept)
        source = self._write(plan, self._opened, self._prepared[mode], program)
        (self._folder / PROGRAM).write_text(source, encoding="utf-8")
        self.result.start["program"] = source
        with temporary_folder() as folder:
            self.last = self._start(Path(folder))
            held: HeldOutputs = self.ask("hold_outputs", folder=folder)
        if held["differs"] is not None:
            raise Unsupported(f"a fresh process gives other outputs than the worker: {held['differs']}")

    @property
    def _starts(self) -> Starts:
        assert self.plan.start is not None
        return self.plan.start

    def _start(self, outputs: Path | None = None) -> Start:
        """A process that finds what it is to find: the system has read the model's files, or has dropped them."""
        if self._starts.compile_cache == COLD:
            rmtree(self._kept, ignore_errors=True)
        if self._starts.file_cache == WARM:
            fill(self._files)
        elif not empty(self._files):
            raise Unsupported("--file-cache cold: this system cannot be asked to drop files from its cache")
        if (cached := share_cached(self._files)) is not None:
            self._cached.append(cached)
        return start(self._folder, self.plan.target.python, self.plan.timeout_s, outputs)

    def estimates_ns(self, mode: str) -> dict[str, float | None]:
        return {LATENCY: None if self.last is None else float(self.last.spent_ns)}

    def block(self, mode: str, block: Block[Any]) -> Samples | None:
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
        assert self.result.start is not None
        self.result.start["launch_ns"] = round(median(self._launches))
        self.result.start["cached"] = median(self._cached) if self._cached else None
        return {"samples": [found.samples[LATENCY]], "start_ns": found.begun_ns, "spent_ns": found.spent_ns}

    def judged(self, mode: str, block: Block[Any], answer: Samples) -> dict[str, list[int] | list[float]]:
        assert self.last is not None
        return {phase: [sample] for phase, sample in self.last.samples.items()}

    def finish(self, mode: str) -> None:
        """Say so where caches were not as they were asked for; the outputs of the first process were compared."""
        cached = None if self.result.start is None else self.result.start["cached"]
        if self._starts.file_cache == COLD and (cached is None or cached > _COLD):
            held = "how much" if cached is None else f"{share(cached)}"
            why = "is not known" if cached is None else "was in memory before a start"
            self.result.warn("file-cache-warm", f"--file-cache cold: {held} of the model's files {why}")
        if self._starts.compile_cache is not None and not (self._kept.is_dir() and any(self._kept.iterdir())):
            self.result.warn(
                "nothing-compiled", f"--compile-cache: {self.result.target['ep']} kept nothing of what it compiled"
            )

    def release(self) -> None:
        """Nothing: the worker has ended."""


class _OneByOne(Schedule[Series]):
    """Blocks of one sample: all of a process is one."""

    def _sizes(self) -> dict[tuple[Series, str], int]:
        return {(series, phase): 1 for series, phases in self._estimates.items() for phase in phases}


class StartBench(Bench):
    """Starts of one configuration, or of several in turns."""

    per = "configuration"
    _kind_of_schedule = _OneByOne

    def _timed_by(self, block: Block[Series]) -> tuple[int, Sequence[int]]:
        return block.series.side, []  # no process is there before the block, and none behind it

    def _add(self, block: Block[Series], answer: Samples) -> None:
        super()._add(block, answer)
        side = self._sides[block.series.side]
        assert isinstance(side, StartSide)
        assert side.last is not None
        self._noise.add_process(
            block.series.side, block.round, side.last.begun_ns, side.last.spent_ns, side.last.cpu_ns, side.last.waits
        )
