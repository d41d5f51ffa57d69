"""A worker that dies or hangs, and Ctrl-C: one line, what was measured is kept, the other modes go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ortbench.measure.process import Client, WorkerLost
from tests.conftest import MODELS, ROOT, cases

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the worker through /proc, which is Linux's"),
]

Worker = Callable[[int], None]


def worker_of(parent: int) -> int:
    """The process id of the worker that a running `ortbench` has."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    workers = [int(pid) for pid in children if b"bootstrap.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return workers[0]


# The program itself, which keeps what it measured more often than it would.
_KEEPS_OFTEN = """
from ortbench.measure import bench
bench._KEEP_EVERY_S = 0.5
from ortbench.__main__ import main
main()
"""


def run_and_disturb(disturb: Callable[[int], None], out: Path, *arguments: object) -> tuple[int, str, dict[str, Any]]:
    """Start a long run, disturb it once it has measured something of every mode, and give exit code, stderr and result."""
    line = [sys.executable, "-c", _KEEPS_OFTEN, "run", MODELS / "compute_bound.onnx", "--ep", "cpu", "--duration", 60, "--precision", "0.0001%",
            "--warmup", 1, "--out", out, *arguments]  # fmt: skip
    with subprocess.Popen(
        [str(word) for word in line], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 600
        while not has_samples(out):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        disturb(process.pid)
        _, errors = process.communicate(timeout=600)
    (folder,) = out.glob("[!.]*")
    return process.returncode, errors, json.loads((folder / "result.json").read_text())


def has_samples(out: Path) -> bool:
    """Whether the saved result holds whole inferences of every mode."""
    saved = saved_cases(out)
    return bool(saved) and all(last_round(case) >= 0 for case in saved)


def saved_cases(out: Path) -> list[dict[str, Any]]:
    """The cases of the result as it was last saved, if it was."""
    found: list[dict[str, Any]] = [
        case for path in out.glob("*/result.json") for case in json.loads(path.read_text())["cases"]
    ]
    return found


def last_round(case: dict[str, Any]) -> int:
    """The last round of which a case has a block of whole inferences; -1 if it has none."""
    blocks = case["blocks"].get("total")
    return int(blocks[-1][0]) if blocks else -1


def has_gone_on(saved: list[dict[str, Any]]) -> bool:
    """Whether one mode has failed, and all others have been measured after it."""
    lost = [last_round(case) for case in saved if case["status"] == "failed"]
    return len(lost) == 1 and all(last_round(case) > lost[0] for case in saved if case["status"] != "failed")


def test_ctrl_c_keeps_and_prints_what_was_measured(tmp_path: Path) -> None:
    code, _, result = run_and_disturb(lambda pid: os.kill(pid, signal.SIGINT), tmp_path)
    assert code == 130
    assert result["stopped"] == "interrupted"
    for case in result["cases"]:
        assert case["status"] == "ok"
        assert case["phases"]["total"]["n"] == len(case["samples_ns"]["total"]) > 0
    assert (next(tmp_path.iterdir()) / "table.md").exists()


def test_a_killed_worker_costs_one_mode_and_the_others_go_on(tmp_path: Path) -> None:
    def kill_then_stop(pid: int) -> None:
        os.kill(worker_of(pid), signal.SIGKILL)
        deadline = time.monotonic() + 600
        while not has_gone_on(saved_cases(tmp_path)) and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(pid, signal.SIGINT)

    code, errors, result = run_and_disturb(kill_then_stop, tmp_path)
    assert code == 130
    failed = [case for case in result["cases"] if case["status"] == "failed"]
    assert len(failed) == 1
    assert "the worker was ended by SIGKILL" in failed[0]["reason"]
    assert failed[0]["samples_ns"]["total"]  # what it had measured is kept
    assert [case["status"] for case in result["cases"]].count("ok") == 3
    rounds = {mode: [number for number, _, _ in case["blocks"]["total"]] for mode, case in cases(result).items()}
    last_of_failed = rounds.pop(failed[0]["mode"])[-1]
    assert all(numbers[-1] > last_of_failed for numbers in rounds.values())
    assert "Traceback" not in errors


def test_a_worker_that_hangs_is_stopped_after_the_timeout(tmp_path: Path) -> None:
    def freeze(pid: int) -> None:
        os.kill(worker_of(pid), signal.SIGSTOP)

    # Long enough for a slow machine to load ONNX Runtime.
    code, errors, result = run_and_disturb(freeze, tmp_path, "--timeout", 20, "--mode", "cpu")
    assert code == 1
    assert "gave no answer for 20 s and was stopped (--timeout)" in errors
    assert len(errors.splitlines()) == 1
    assert result["cases"][0]["status"] == "failed"
    assert result["cases"][0]["phases"]["total"]["n"] > 0


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


def test_a_worker_that_just_ends(worker_script: Callable[[str], Client]) -> None:
    with worker_script("exit 3") as client, pytest.raises(WorkerLost, match=r"^the worker ended with exit code 3$"):
        client.ask("devices")


def test_the_client_leaves_no_worker_behind() -> None:
    with Client(timeout_s=300) as client:
        assert client.ask("devices")["eps"]
        pid = client.pid
    assert not Path(f"/proc/{pid}").exists()


def test_who_waits_for_long_is_told_so_each_second() -> None:
    told: list[float] = []
    with Client(timeout_s=60) as client:
        client.ask("devices")

        def tell() -> None:
            told.append(time.monotonic())
            if len(told) == 3:
                client.resume()

        client.while_waiting = tell
        client.pause()
        begun = time.monotonic()
        client.ask("devices")
    assert told[2] - begun >= 3


def test_a_limit_of_less_than_a_second_is_kept() -> None:
    with Client(timeout_s=60) as client:
        client.ask("devices")
        client.pause()
        client.timeout_s = 0.2
        with pytest.raises(WorkerLost, match=r"no answer for 0\.2 s"):
            client.ask("devices")
