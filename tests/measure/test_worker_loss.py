"""A worker that dies or hangs: one line, what was measured is kept, the other modes go on."""

from __future__ import annotations

import os
import signal
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ortbench.__main__ import main
from ortbench.measure import process
from ortbench.measure.configuration import Configuration
from ortbench.measure.process import Client, WorkerLost
from tests.conftest import MODELS
from tests.conftest import measure as measured
from tests.expect import refusal

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the worker through /proc, which is Linux's"),
]


def kill(worker: Client) -> None:
    os.kill(worker.pid, signal.SIGKILL)


def freeze(worker: Client) -> None:
    worker.timeout_s = 0.3
    worker.pause()


def disturbed_main() -> None:
    """ortbench, which does something to its worker when some blocks of every mode are measured."""
    block, blocks, disturb = Configuration.block, count(1), globals()[os.environ["DISTURB"]]

    def blocked(side: Configuration, *given: Any) -> Any:
        if next(blocks) == 15:
            disturb(side.worker)
        return block(side, *given)

    Configuration.block = blocked  # type: ignore[assignment, method-assign]
    main()


@pytest.mark.wide
@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("kill", "the worker was ended by SIGKILL"),
        ("freeze", "the worker gave no answer for 0.3 s and was stopped (--timeout)"),
    ],
)
def test_a_lost_worker_costs_one_mode_and_the_others_go_on(how: str, said: str, tmp_path: Path) -> None:
    prefix = ("env", f"ORTBENCH_TESTS_MAIN={__name__}:disturbed_main", f"DISTURB={how}")
    line = (MODELS / "tiny.onnx", "--ep", "cpu", "--iterations", 3000, "--warmup", 10)
    result = measured(*line, out=tmp_path, prefix=prefix, code=1)
    (failed,) = [case for case in result["cases"] if case["status"] == "failed"]
    assert failed["reason"] == said
    assert 0 < len(failed["samples"]["latency"]) < 3000  # what it had measured is kept
    assert [len(case["samples"]["latency"]) for case in result["cases"] if case["status"] == "ok"] == [3000] * 3


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            "echo first >&2; echo 'terminate called' >&2; kill -ABRT $$",
            "the worker was ended by SIGABRT; its last words: terminate called",
        ),
        (  # without colours
            r"printf '\033[0;93mwhy it ended\n\033[m\n' >&2; exit 3",
            "the worker ended with exit code 3; its last words: why it ended",
        ),
        ("exit 3", "the worker ended with exit code 3"),
    ],
)
def test_the_obituary_says_how_a_worker_ended_and_its_last_words(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "worker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with Client(timeout_s=300) as client:
        assert refusal(WorkerLost, client.ask, "devices") == said


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
