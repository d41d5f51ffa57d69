"""A worker that dies or hangs: one line, what was measured is kept, the other modes go on."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortbench.__main__ import main
from ortbench.measure import process
from ortbench.measure.configuration import Configuration
from ortbench.measure.process import Client, WorkerLost
from tests.conftest import MODELS
from tests.conftest import measure as measured

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the worker through /proc, which is Linux's"),
]


def measure_and(disturb: Callable[[Client], None]) -> None:
    """ortbench, which does something to its worker when some blocks of every mode are measured."""
    block, blocks = Configuration.block, 0

    def blocked(side: Configuration, *given: Any) -> Any:
        nonlocal blocks
        blocks += 1
        if blocks == 15:
            disturb(side.worker)
        return block(side, *given)

    Configuration.block = blocked  # type: ignore[assignment, method-assign]
    main()


def kill() -> None:
    measure_and(lambda worker: os.kill(worker.pid, signal.SIGKILL))


def freeze() -> None:
    def hang(worker: Client) -> None:
        worker.timeout_s = 0.3
        worker.pause()

    measure_and(hang)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("kill", "the worker was ended by SIGKILL"),
        ("freeze", "the worker gave no answer for 0.3 s and was stopped (--timeout)"),
    ],
)
def test_a_lost_worker_costs_one_mode_and_the_others_go_on(how: str, said: str, tmp_path: Path) -> None:
    prefix = ("env", f"ORTBENCH_TESTS_MAIN={__name__}:{how}")
    line = (MODELS / "tiny.onnx", "--ep", "cpu", "--iterations", 3000, "--warmup", 10)
    result = measured(*line, out=tmp_path, prefix=prefix, code=1)
    (failed,) = [case for case in result["cases"] if case["status"] == "failed"]
    assert failed["reason"] == said
    assert 0 < len(failed["samples"]["latency"]) < 3000  # what it had measured is kept
    assert [len(case["samples"]["latency"]) for case in result["cases"] if case["status"] == "ok"] == [3000] * 3


@pytest.fixture
def worker_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Client]:
    """Makes a client whose worker is a shell script."""
    program = tmp_path / "worker"
    monkeypatch.setattr(sys, "executable", str(program))

    def client(script: str) -> Client:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return Client(timeout_s=300)

    return client


def test_the_obituary_names_the_signal_and_the_last_words(worker_script: Callable[[str], Client]) -> None:
    words = r"^the worker was ended by SIGABRT; its last words: terminate called$"
    with (
        worker_script("echo first >&2; echo 'terminate called' >&2; kill -ABRT $$") as client,
        pytest.raises(WorkerLost, match=words),
    ):
        client.ask("devices")


def test_the_last_words_are_no_colours(worker_script: Callable[[str], Client]) -> None:
    words = r"^the worker ended with exit code 3; its last words: why it ended$"
    script = r"printf '\033[0;93mwhy it ended\n\033[m\n' >&2; exit 3"
    with worker_script(script) as client, pytest.raises(WorkerLost, match=words):
        client.ask("devices")


def test_a_worker_that_just_ends(worker_script: Callable[[str], Client]) -> None:
    with worker_script("exit 3") as client, pytest.raises(WorkerLost, match=r"^the worker ended with exit code 3$"):
        client.ask("devices")


@pytest.mark.wide
def test_a_worker_is_waited_for_as_long_as_is_allowed_and_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_TELL_S", 0.1)
    told: list[float] = []
    with Client(timeout_s=1800) as client:
        assert client.ask("devices")["eps"]
        pid = client.pid

        def tell() -> None:
            told.append(time.monotonic())
            if len(told) == 3:
                client.resume()

        client.while_waiting = tell
        client.pause()
        begun = time.monotonic()
        client.ask("devices")
        assert told[2] - begun >= 0.3
        client.pause()
        client.timeout_s = 0.2
        with pytest.raises(WorkerLost, match=r"no answer for 0\.2 s"):
            client.ask("devices")
    assert not Path(f"/proc/{pid}").exists()
