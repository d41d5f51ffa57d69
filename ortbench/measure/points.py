"""The shapes of a sweep, each a configuration of its own, in one worker with one session."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput, BenchmarkFailed, OrtbenchError
from ortbench.core.files import sha256
from ortbench.measure.describe import describe
from ortbench.measure.process import Client, WorkerLost, open_session, request_of
from ortbench.measure.side import Side
from ortbench.model.protocol import Opened, OpenedSweep
from ortbench.model.result import OK
from ortbench.model.schema import Machine
from ortbench.model.timeline import Timeline
from ortbench.plan.plan import Plan


class SharedWorker:
    """The worker of all shapes, whose plans have the same model and EP; another one after one was lost."""

    def __init__(self, plan: Plan, client: Client) -> None:
        self._plan = plan
        self.client = client
        self.times_lost = 0
        self.released = False
        self._opened: OpenedSweep | OrtbenchError | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the model's file."""
        return sha256(Path(self._plan.model))

    def opened(self) -> OpenedSweep:
        """Wait for the session.

        Raises:
            BadInput, BenchmarkFailed: there is none.
        """
        if self._opened is None:
            try:
                self._opened = self.client.receive()
            except OrtbenchError as error:
                self._opened = error
        if isinstance(self._opened, OrtbenchError):
            raise self._opened
        assert self._opened is not None
        return self._opened

    def restart(self) -> None:
        """A fresh worker after one was lost."""
        self.client.close()
        self.times_lost += 1
        self._opened = None
        self.client = open_session(self._plan)

    def close(self) -> None:
        """End the worker."""
        self.client.close()


class PointSide(Side):
    """A shape of a sweep, which the worker knows by its number."""

    def __init__(
        self, plan: Plan, number: int, shared: SharedWorker, name: str, timeline: Timeline | None = None
    ) -> None:
        super().__init__(plan, shared.client, name=name, timeline=timeline)
        self._number, self._shared = number, shared
        self._lost_before = 0

    @property
    def worker(self) -> Client:
        self._shared.client.while_waiting = self.while_waiting
        return self._shared.client

    def open(self, machine: Machine, run_id: str) -> None:
        """Wait until the shape has run once, and describe it.

        Raises:
            BenchmarkFailed: it cannot be run; what is wrong with its input too, since others may have none such.
        """
        try:
            opened = self._receive_opened("loading")
            describe(self.result, self.plan, machine, self._shared.digest, run_id, opened)
        except BadInput as error:
            raise BenchmarkFailed(str(error)) from error
        except WorkerLost:
            self._shared.restart()
            raise

    def _receive_opened(self, stage: str) -> Opened:
        first = self._number == 0 and not self._shared.times_lost
        with self.stage(stage, self.worker.started_ns if first else None) as parts:
            self._lost_before = self._shared.times_lost
            of_session = self._shared.opened()
            if first:
                started = self.worker.started_ns
                parts.append(("starting the worker with ONNX Runtime", started, of_session["stages"][0][1] - started))
                parts += of_session["stages"]
            inputs = request_of(self.plan)["inputs"]
            answer: Opened = self.worker.ask("open_point", point=self._number, inputs=inputs)
            parts += answer["stages"]
        return answer

    def be_there(self) -> bool:
        """Have a worker that was started since know of this shape; whether there was one."""
        if self._lost_before == self._shared.times_lost:
            return False
        self._set_up_again()
        return True

    def ask(self, do: str, **arguments: Any) -> Any:
        """Ask the worker about this shape; one that was started since is told of it first."""
        if self.be_there():
            mode = arguments.get("mode")
            if do != "prepare" and mode is not None and mode not in self._prepared:
                raise BenchmarkFailed(str(self.cases[mode].reason))
        return self.worker.ask(do, **({} if do == "release" else {"of_point": self._number}), **arguments)

    def restart(self) -> None:
        self._shared.restart()
        self._set_up_again()

    def _set_up_again(self) -> None:
        """Have the worker know this shape, with every mode that is still to be measured; they fail if it cannot."""
        try:
            self._receive_opened("loading again")
        except OrtbenchError as error:
            if isinstance(error, WorkerLost):
                self._shared.restart()
                self._lost_before = self._shared.times_lost
            for mode in list(self._prepared):
                self.fail(mode, f"after the worker was lost the shape could not be run again: {error}")
            return
        for mode in [mode for mode in self.plan.modes if mode in self._prepared and self.cases[mode].status == OK]:
            self.prepare(mode)

    def pause(self) -> None:
        """Nothing: the other shapes are in the same worker, which does nothing unasked."""

    def resume(self) -> None:
        """Nothing, as `pause`."""

    def close(self) -> None:
        """Nothing: who made the worker ends it."""

    def release(self) -> None:
        """End the session in order where its EP keeps something for the next one; the first shape does it for all."""
        if not self._shared.released:
            self._shared.released = True
            super().release()
