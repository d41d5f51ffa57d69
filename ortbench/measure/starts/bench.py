"""Starts of configurations in turns: each block of the schedule is one fresh process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from ortbench.core.errors import OrtbenchError, Unsupported
from ortbench.measure.bench import Bench, Series
from ortbench.measure.configuration import Configuration
from ortbench.measure.folder import temporary_folder
from ortbench.measure.process import freed_path, own_folder
from ortbench.measure.schedule import Block, Schedule
from ortbench.measure.starts.launch import PROGRAM, Start, start
from ortbench.model.modes import LATENCY
from ortbench.model.protocol import HeldOutputs, Opened, Prepared, Program, Samples, Saved
from ortbench.model.result import START
from ortbench.model.schema import Machine
from ortbench.plan.plan import Plan

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

    def open(self, machine: Machine, run_id: str) -> None:
        super().open(machine, run_id)
        self.result.kind, self.result.start = START, {"program": "", "launch_ns": 0}

    def _receive_opened(self, stage: str) -> Opened:
        self._opened = super()._receive_opened(stage)
        return self._opened

    def prepare(self, mode: str) -> None:
        """Write the program, start it once, and compare its outputs with the worker's; the worker ends."""
        super().prepare(mode)
        try:
            if mode in self.modes:
                self._try_out(mode)
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
        source = self._write(plan, self._opened, self._prepared[mode], self.ask("program", mode=mode))
        (self._folder / PROGRAM).write_text(source, encoding="utf-8")
        self.result.start["program"] = source
        with temporary_folder() as folder:
            self.last = self._start(Path(folder))
            held: HeldOutputs = self.ask("hold_outputs", folder=folder)
        if held["differs"] is not None:
            raise Unsupported(f"a fresh process gives other outputs than the worker: {held['differs']}")

    def _start(self, outputs: Path | None = None) -> Start:
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
        return {"samples": [found.samples[LATENCY]], "start_ns": found.begun_ns, "spent_ns": found.spent_ns}

    def judged(self, mode: str, block: Block[Any], answer: Samples) -> dict[str, list[int] | list[float]]:
        assert self.last is not None
        return {phase: [sample] for phase, sample in self.last.samples.items()}

    def finish(self, mode: str) -> None:
        """Nothing: the outputs of the first process were compared."""

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
