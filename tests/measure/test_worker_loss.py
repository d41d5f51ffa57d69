"""A worker that dies or hangs: one line. What was measured is kept, and the other modes go on (tests/worker/test_pipelined.py)."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from ortbench.measure import process
from ortbench.measure.process import Client, WorkerLost
from tests.expect import refusal

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the worker through /proc, which is Linux's"),
]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo first >&2; echo 'terminate called' >&2; kill -ABRT $$", "was ended by SIGABRT; its last words: terminate called"),
        (r"printf '\033[0;93mwhy it ended\n\033[m\n' >&2; exit 3", "ended with exit code 3; its last words: why it ended"),
        ("exit 3", "ended with exit code 3"),
    ],
)  # fmt: skip
def test_the_obituary_says_how_a_worker_ended_and_its_last_words(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without their colours."""
    program = tmp_path / "worker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with Client(timeout_s=300) as client:
        assert refusal(WorkerLost, client.ask, "devices") == f"the worker {said}"


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
