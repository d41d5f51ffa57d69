"""The command's side of the process that speaks with Ray: starts it, tells it what to do, hears what became of it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from ortbench.core import signals
from ortbench.core.errors import BadInput, BenchmarkFailed, one_line
from ortbench.jobs.cluster.orders import Finished, Joined, Joining, Refused, Work
from ortbench.jobs.cluster.places import Place
from ortbench.measure.process import nameless_file

OPTION = "--ray"
AUTO = "auto"
_JOIN_S = 180.0  # the longest wait for a cluster; every machine is asked what it has
_END_S = 30.0  # what it has to cancel what is running


def check_address(address: str) -> None:
    """Refuse what cannot be a cluster's address, and a cluster where Ray is not installed.

    Raises:
        BadInput: with the reason.
    """
    if address != AUTO and ":" not in address:
        reason = f"write {AUTO} or a cluster's address, such as 10.0.0.1:6379 or ray://10.0.0.1:10001"
        raise BadInput(f"{OPTION} {address!r}: {reason}", OPTION)
    if importlib.util.find_spec("ray") is None:
        raise BadInput(f"{OPTION}: Ray is not installed; pip install 'ortbench[ray]' brings it", OPTION)


class Crew:
    """The machines of a cluster, by way of the process that speaks with Ray. Use it as a context manager.

    Args:
        joining: which cluster.

    Attributes:
        places: its machines.

    Raises:
        BadInput: there is no such cluster, or it cannot be used.
    """

    def __init__(self, joining: Joining) -> None:
        self._address = joining.address
        self._stderr = nameless_file()
        with signals.held():
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ortbench.jobs.cluster.head"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                start_new_session=True,  # Ctrl-C reaches only this process, which says when to end
            )
            signals.end_with_process(self._process.kill)
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.places = self._join(joining)
        except BaseException:
            self.close()
            raise

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers, contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                self._answers.put(pickle.load(answers))
        self._answers.put(None)  # the end

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _join(self, joining: Joining) -> Sequence[Place]:
        self._send(joining)
        answer = self._receive(_JOIN_S)
        if isinstance(answer, Joined):
            return answer.places
        reason = answer.reason if isinstance(answer, Refused) else f"no answer within {_JOIN_S:g} s"
        raise BadInput(f"{OPTION} {self._address}: {reason}", OPTION)

    def carry_out(self, works: Sequence[Work]) -> Iterator[Any]:
        """Have cases carried out: what becomes of each, as it is told, see `ortbench.jobs.cluster.orders`.

        Raises:
            BenchmarkFailed: the connection with the cluster was lost.
            Stopped: the program is to end.
        """
        self._send(list(works))
        while not isinstance(answer := self._receive(), Finished):
            yield answer

    def _send(self, what: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended, which its answer says
            pickle.dump(what, self._process.stdin)
            self._process.stdin.flush()

    def _receive(self, limit_s: float | None = None) -> Any:
        """The next answer; None where there was none within the limit."""
        try:
            with signals.awaited():
                answer = self._answers.get(timeout=limit_s)
        except queue.Empty:
            return None
        if answer is None:
            raise BenchmarkFailed(f"{OPTION} {self._address}: the connection with the cluster was lost{self._words()}")
        return answer

    def _words(self) -> str:
        """The end of what the process wrote, which is Ray's."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - 4096))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return f"; Ray's last words: {one_line(lines[-1], 200)}" if lines else ""

    def close(self) -> None:
        """End the process; what runs on machines is cancelled."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._process.kill()
        self._process.wait()
        signals.ended(self._process.kill)
        self._reader.join(timeout=5)
        self._stderr.close()
