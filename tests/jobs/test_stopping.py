"""Ctrl-C, SIGTERM, SIGHUP, SIGKILL and a closed pipe at sure moments: what was measured is saved, nothing goes on running."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.signals import NOTHING_MEASURED
from tests.conftest import MODELS, ROOT, Ran, command, ortbench, whole
from tests.jobs import stopped_at

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc, which is Linux's"),
]

TINY = MODELS / "tiny.onnx"
INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
START = 'exec "$@"'


def stopped(number: int, what: str, times: int, folder: Path, *arguments: object, shell: str | None = None) -> Ran:
    """Run `ortbench` to its end, which gets a signal when something (see `stopped_at`) has happened so many times before; nothing
    of it may be left running. It is a fork, or what a shell starts, whose words are its own."""
    note = folder / "sent"
    note.unlink(missing_ok=True)
    words = [number, what, times, note, *whole(arguments)]
    if shell is None:
        ran = ortbench(*words, cwd=folder, ORTBENCH_TESTS_MAIN=stopped_at.__name__ + ":main")
    else:
        line = ["sh", "-c", shell, "sh", sys.executable, "-m", stopped_at.__name__, *map(str, words)]
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=1800)
        ran = Ran(done.returncode, done.stdout, done.stderr)
    assert note.exists(), (what, times, ran)
    assert_nothing_runs(folder)
    return ran


def assert_nothing_runs(folder: Path) -> None:
    """Hold that no process is there that runs in a folder, or is about to be gone."""
    deadline = time.monotonic() + 600
    while running := [process for process in Path("/proc").glob("[0-9]*") if runs_in(process, folder)]:
        assert time.monotonic() < deadline, running
        time.sleep(0.02)


def runs_in(process: Path, folder: Path) -> bool:
    try:
        return Path(os.readlink(process / "cwd")) == folder
    except OSError:
        return False


def assert_whole(out: Path) -> None:
    """Hold that every file of a folder is whole, and none is a left-over."""
    for path in out.rglob("*"):
        assert path.suffix != ".tmp"
        if path.suffix == ".json":
            json.loads(path.read_text())


def the_result(out: Path) -> dict[str, Any]:
    (path,) = out.glob("*/result.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def run_line(out: Path, *more: object) -> list[object]:
    return ["run", TINY, "--ep", "cpu", "--warmup", 1, "--verbose", "--out", out, *more]


@pytest.mark.parametrize(
    ("number", "times", "arguments"),
    [
        (INT, 0, ["--help"]),
        (TERM, 10, ["compare", ROOT / "reports/copy_bound-refdevice", ROOT / "reports/copy_bound-refdevice"]),
        (HUP, 30, ["devices"]),
    ],
)
def test_commands_that_measure_nothing(number: int, times: int, arguments: list[object], tmp_path: Path) -> None:
    ran = stopped(number, "import", times, tmp_path, *arguments, shell=START)
    assert (ran.code, ran.err) == (128 + number, f"{NOTHING_MEASURED}\n")


@pytest.mark.parametrize("what", ["os.fork", "os.mkdir"])
def test_while_a_worker_and_the_folder_are_made(what: str, tmp_path: Path) -> None:
    ran = stopped(INT, what, 0, tmp_path, *run_line(tmp_path / "out", "--iterations", 1))
    assert (ran.code, ran.out, ran.err) == (130, "", f"{NOTHING_MEASURED}\n")
    assert not list(tmp_path.glob("out/*"))


STAGES = [
    (INT, "preparing cpu-tensors"),
    (TERM, "preparing device-resident"),
    (HUP, "checking device-resident"),
    (INT, "close-up of cpu-tensors"),
    (TERM, "profiling nodes"),
]


@pytest.mark.parametrize(("number", "stage"), STAGES)
def test_in_every_stage(number: int, stage: str, tmp_path: Path) -> None:
    out, trace = tmp_path / "out", tmp_path / "t.json"
    line = run_line(out, "--iterations", 2, "--measure-nodes", "--trace", trace)
    ran = stopped(number, f"stage {stage}", 0, tmp_path, *line)
    assert ran.code == 128 + number
    assert len(ran.err.splitlines()) <= 1, ran.err
    assert "Saved in" in ran.out
    assert_whole(out)
    assert json.loads(trace.read_text())
    # What comes after the last check adds nothing to what was measured.
    left, complete = the_result(out), stage.startswith(("close-up", "profiling"))
    assert (left["stopped"] == {"reason": "interrupted"}) != complete
    assert all(case["status"] == ("ok" if case["samples"] else "not_measured") for case in left["cases"])


def test_while_modes_are_weighed(tmp_path: Path) -> None:
    """Of three the first is weighed; nothing that was measured before is touched."""
    modes = [word for mode in ("cpu-tensors", "device-tensors", "device-resident") for word in ("--mode", mode)]
    line = run_line(tmp_path / "out", *modes, "--iterations", 2, "--measure-memory")
    ran = stopped(INT, "asked arenas", 1, tmp_path, *line)
    assert (ran.code, ran.err) == (130, "")
    assert_whole(tmp_path / "out")
    result = the_result(tmp_path / "out")
    assert result["stopped"] == {"reason": "iterations", "value": 2, "per": "mode"}
    assert [len(case["samples"]["latency"]) for case in result["cases"]] == [2, 2, 2]
    assert [case["memory"]["failed"] for case in result["cases"]] == [None, "it was interrupted", "it was interrupted"]
    assert result["cases"][0]["metrics"]["host_memory"]["value"] > 0
    assert "memory of device-tensors could not be measured: it was interrupted" in ran.out


@pytest.mark.parametrize("number", [INT, TERM, HUP])
def test_what_was_measured_is_saved_and_shown(number: int, tmp_path: Path) -> None:
    line = run_line(tmp_path / "out", "--duration", 60, "--precision", "0.0001%")
    ran = stopped(number, "block", 20, tmp_path, *line)
    assert (ran.code, ran.err) == (128 + number, "")
    assert "Saved in" in ran.out
    result = the_result(tmp_path / "out")
    assert result["stopped"] == {"reason": "interrupted"}
    assert result["took_ns"] > 0
    assert re.search(r"; ended after [\d.]+ m?s: interrupted$", ran.out, re.MULTILINE)
    assert sum(len(taken) for case in result["cases"] for taken in case["samples"].values())
    assert len(list(tmp_path.glob("out/*/table.md"))) == 1


@pytest.mark.parametrize("times", [0, 3, 6])
def test_while_files_are_written(times: int, tmp_path: Path) -> None:
    out, exports = tmp_path / "out", tmp_path / "exports"
    exports.mkdir()
    names = {"--json": "r.json", "--junit": "j.xml", "--html": "p.html", "--trace": "t.json"}
    words = [word for option, name in names.items() for word in (option, exports / name)]
    ran = stopped(INT, "os.rename", times, tmp_path, *run_line(out, "--iterations", 2, *words))
    assert ran.code == 130
    assert ran.err == ""
    assert "Saved in" in ran.out
    assert_whole(tmp_path)
    assert {path.name for path in exports.iterdir()} == set(names.values())
    assert {path.name for path in out.glob("*/[!.]*")} == {"result.json", "table.md", "table.csv"}


def test_a_program_that_is_done_stays_done(tmp_path: Path) -> None:
    script = "import atexit, os\natexit.register(lambda: os.kill(os.getpid(), 2))\nfrom ortbench.__main__ import main\nmain()"
    line = [sys.executable, "-c", script, *map(str, run_line(tmp_path, "--iterations", 1))]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Saved in" in done.stdout


_ENDS = """import atexit
from ortbench import __main__ as program
def main():
    atexit.register(print, "inside", end=" ")
    raise SystemExit(3)
atexit.register(print, "at an orderly end")
program.main = main
program.process()"""


@pytest.mark.parametrize(("profiled", "called"), [({}, ""), ({"NVTX_INJECTION64_PATH": "x"}, "at an orderly end\n")])
def test_a_process_ends_at_once_unless_a_profiler_takes_its_data_at_the_end(
    profiled: dict[str, str], called: str
) -> None:
    line = [sys.executable, "-c", _ENDS]
    done = subprocess.run(line, cwd=ROOT, env=os.environ | profiled, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"inside {called}", "")


def test_a_signal_that_is_to_be_ignored_is(tmp_path: Path) -> None:
    line = run_line(tmp_path / "out", "--iterations", 5)
    ran = stopped(HUP, "block", 2, tmp_path, *line, shell='trap "" HUP; exec "$@"')
    assert (ran.code, ran.err) == (0, "")


def test_a_suite_ends_between_its_cases_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    cpu = 'ep = "cpu"\nmode = "cpu-tensors"\nwarmup = 1\niterations = 2\n'
    file.write_text(f'[[bench]]\nmodel = ["{TINY}", "{MODELS}/multi_output.onnx"]\n{cpu}')
    out = tmp_path / "out"
    ran = stopped(TERM, "os.rename", 5, tmp_path, "suite", file, "--out", out, "--quiet", "--junit", tmp_path / "j.xml")
    assert ran.code == 143
    assert ran.err == "ortbench: interrupted after 1 of 2 cases; the same command goes on\n"
    assert_whole(tmp_path)
    assert (out / "summary.md").exists()
    assert ortbench("suite", file, "--out", out).code == 0


@pytest.mark.parametrize("stderr", [subprocess.PIPE, pytest.param(subprocess.STDOUT, marks=pytest.mark.wide)])
def test_a_reader_that_goes_costs_nothing(stderr: int, tmp_path: Path) -> None:
    line = command(*run_line(tmp_path, "--mode", "cpu-tensors", "--iterations", 1, "--html", tmp_path / "p.html"))
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr) as process:
        assert process.stdout is not None
        process.stdout.close()
        errors = process.stderr.read() if process.stderr else b""
    assert (process.returncode, errors) == (0, b"")
    assert (tmp_path / "p.html").exists()
    assert len(list(tmp_path.glob("*/table.md"))) == 1


_KEEPS_OFTEN = """
from ortbench.measure import driver
driver._KEEP_EVERY_S = 0.01
from ortbench.__main__ import main
main()
"""


@pytest.mark.wide
def test_a_terminal_that_closes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = "import fcntl, os, sys, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\nos.execv(sys.argv[1], sys.argv[1:])"
    terminal, inner = os.openpty()
    line = [sys.executable, "-c", script, *command(*run_line(out, "--duration", 60, "--precision", "0.0001%"))]
    process = subprocess.Popen(line, cwd=tmp_path, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
    os.close(inner)
    os.set_blocking(terminal, False)
    while not list(out.glob("*/result.json")):
        with contextlib.suppress(BlockingIOError):  # a program waits for whoever reads what it shows
            os.read(terminal, 1 << 16)
        time.sleep(0.02)
    os.close(terminal)
    assert process.wait(600) == 129
    (file,) = out.glob("*/result.json")
    assert json.loads(file.read_text())["stopped"] == {"reason": "interrupted"}
    assert_nothing_runs(tmp_path)


@pytest.mark.wide
@pytest.mark.parametrize(("wait_s", "threads"), [(0.1, "1"), (0.7, "1,2")])
def test_a_killed_command_leaves_whole_files_and_no_process(wait_s: float, threads: str, tmp_path: Path) -> None:
    """Of two configurations the worker of one is always paused."""
    long = ("--duration", 60, "--precision", "0.0001%")
    words = run_line(tmp_path / "out", *long, "--intra-op-threads", threads)
    line = [sys.executable, "-c", _KEEPS_OFTEN, *map(str, words)]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (files := list(tmp_path.glob("out/**/result.json"))):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(wait_s)  # while the result is written again and again
        process.kill()
    assert json.loads(files[0].read_text())["cases"]
    assert_nothing_runs(tmp_path)
