"""Ctrl-C, SIGTERM, SIGHUP, SIGKILL and a closed pipe at any moment: what was measured is saved, nothing goes on running.

The moments are sure: a program is told to send the signal to itself when it comes to an import, a file, a stage, a block.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ortbench.core.signals import NOTHING_MEASURED
from tests.conftest import MODELS, ROOT, Ran, command, mostly_wide, ortbench, whole
from tests.jobs import stopped_at

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc, which is Linux's"),
]

TINY = MODELS / "tiny.onnx"
INT, TERM, HUP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
START = 'exec "$@"'


def stopped(number: int, what: str, times: int, folder: Path, *arguments: object, shell: str | None = None) -> Ran:
    """Run `ortbench` to its end, which gets a signal at a moment; nothing of it may be left running.

    Args:
        number: the signal.
        what: happens then, see `stopped_at`.
        times: it has happened before.
        folder: for a note that it was sent, and where it runs.
        arguments: of `ortbench`.
        shell: what starts the program as a process of its own, its words being ``$@``; else it is a fork.
    """
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


def run_line(out: Path, *more: object) -> list[object]:
    return ["run", TINY, "--ep", "cpu", "--warmup", 1, "--verbose", "--out", out, *more]


@pytest.mark.parametrize(
    ("number", "times", "arguments"),
    [
        (INT, 0, ["--help"]),
        (TERM, 10, ["compare", ROOT / "reports/copy_bound-refdevice", ROOT / "reports/copy_bound-refdevice"]),
        (HUP, 30, ["devices"]),
        (INT, 30, ["suite", ROOT / "tests/suites/all.toml", "--list"]),
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
    *(f"preparing {mode}" for mode in ("cpu-tensors", "device-tensors", "device-resident")),
    *(f"{stage}{mode}" for stage in ("checking ", "close-up of ") for mode in ("cpu-tensors", "device-resident")),
    "profiling nodes",
]


@pytest.mark.parametrize(("number", "stage"), [((INT, TERM, HUP)[at % 3], stage) for at, stage in enumerate(STAGES)])
def test_in_every_stage(number: int, stage: str, tmp_path: Path) -> None:
    out, trace = tmp_path / "out", tmp_path / "t.json"
    line = run_line(out, "--iterations", 2, "--measure-nodes", "--trace", trace)
    ran = stopped(number, f"stage {stage}", 0, tmp_path, *line)
    assert ran.code == 128 + number
    assert len(ran.err.splitlines()) <= 1, ran.err
    assert "Saved in" in ran.out
    assert_whole(out)
    assert json.loads(trace.read_text())
    (result,) = out.glob("*/result.json")
    # What comes after the last check adds nothing to what was measured.
    complete = stage.startswith(("close-up", "profiling"))
    left = json.loads(result.read_text())
    assert (left["stopped"] == {"reason": "interrupted"}) != complete
    assert all(case["status"] == ("ok" if case["samples"] else "not_measured") for case in left["cases"])


@pytest.mark.parametrize(
    ("number", "what", "times"),
    [(INT, "stage memory of device-tensors", 0), (TERM, "asked memory", 1), (INT, "asked arenas", 1)],
)
def test_while_modes_are_weighed(number: int, what: str, times: int, tmp_path: Path) -> None:
    """Of three the first is weighed; nothing that was measured before is touched."""
    modes = [word for mode in ("cpu-tensors", "device-tensors", "device-resident") for word in ("--mode", mode)]
    line = run_line(tmp_path / "out", *modes, "--iterations", 2, "--measure-memory")
    ran = stopped(number, what, times, tmp_path, *line)
    assert (ran.code, ran.err) == (128 + number, "")
    assert "Saved in" in ran.out
    assert_whole(tmp_path / "out")
    (file,) = tmp_path.glob("out/*/result.json")
    result = json.loads(file.read_text())
    assert result["stopped"] == {"reason": "iterations", "value": 2, "per": "mode"}
    assert [len(case["samples"]["latency"]) for case in result["cases"]] == [2, 2, 2]
    assert [case["memory"]["failed"] for case in result["cases"]] == [None, "it was interrupted", "it was interrupted"]
    assert result["cases"][0]["metrics"]["host_memory"]["value"] > 0
    for text in (ran.out, (file.parent / "table.md").read_text()):
        assert "memory of device-tensors could not be measured: it was interrupted" in text


@pytest.mark.parametrize("number", [INT, TERM, HUP])
def test_what_was_measured_is_saved_and_shown(number: int, tmp_path: Path) -> None:
    ran = stopped(
        number, "block", 20, tmp_path, *run_line(tmp_path / "out", "--duration", 60, "--precision", "0.0001%")
    )
    assert (ran.code, ran.err) == (128 + number, "")
    assert "Saved in" in ran.out
    (file,) = tmp_path.glob("out/*/result.json")
    result = json.loads(file.read_text())
    assert result["stopped"] == {"reason": "interrupted"}
    assert result["took_ns"] > 0
    assert re.search(r"; ended after [\d.]+ m?s: interrupted$", ran.out, re.MULTILINE)
    assert sum(len(taken) for case in result["cases"] for taken in case["samples"].values())
    assert (file.parent / "table.md").exists()


@pytest.mark.parametrize("times", mostly_wide(range(7), 2))
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
def test_a_process_ends_at_once_when_what_it_began_is_done(profiled: dict[str, str], called: str) -> None:
    line = [sys.executable, "-c", _ENDS]
    done = subprocess.run(line, cwd=ROOT, env=os.environ | profiled, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"inside {called}", "")


def test_a_signal_that_is_to_be_ignored_is(tmp_path: Path) -> None:
    line = run_line(tmp_path / "out", "--iterations", 5)
    ran = stopped(HUP, "block", 2, tmp_path, *line, shell='trap "" HUP; exec "$@"')
    assert (ran.code, ran.err) == (0, "")


def test_a_suite_ends_between_its_cases_and_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    models = (TINY, MODELS / "multi_output.onnx")
    benches = "".join(f'[[bench]]\nmodel = "{model}"\niterations = 2\n' for model in models)
    file.write_text(f'[defaults]\nep = "cpu"\nmode = "cpu-tensors"\nwarmup = 1\n{benches}')
    out = tmp_path / "out"
    ran = stopped(TERM, "os.rename", 5, tmp_path, "suite", file, "--out", out, "--quiet", "--junit", tmp_path / "j.xml")
    assert ran.code == 143
    assert ran.err == "ortbench: interrupted after 1 of 2 cases; the same command goes on\n"
    assert_whole(tmp_path)
    assert (out / "summary.md").exists()
    assert ortbench("suite", file, "--out", out).code == 0


# A pipe that closes, and a terminal


@pytest.mark.parametrize("streams", ["stdout", "stdout and stderr"])
def test_a_reader_that_goes_costs_nothing(streams: str, tmp_path: Path) -> None:
    merged = {"stderr": subprocess.STDOUT} if "stderr" in streams else {"stderr": subprocess.PIPE}
    line = command(*run_line(tmp_path, "--mode", "cpu-tensors", "--iterations", 1, "--html", tmp_path / "p.html"))
    with subprocess.Popen(line, cwd=ROOT, stdout=subprocess.PIPE, **merged) as process:  # type: ignore[call-overload]
        process.stdout.close()
        errors = process.stderr.read() if process.stderr else b""
    assert (process.returncode, errors) == (0, b"")
    assert (tmp_path / "p.html").exists()
    assert len(list(tmp_path.glob("*/table.md"))) == 1


@pytest.mark.wide
def test_a_terminal_that_closes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = "import fcntl, os, sys, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\nos.execv(sys.argv[1], sys.argv[1:])"
    terminal, inner = os.openpty()
    line = [sys.executable, "-c", script, *command(*run_line(out, "--duration", 60, "--precision", "0.0001%"))]
    process = subprocess.Popen(line, cwd=tmp_path, stdin=inner, stdout=inner, stderr=inner, start_new_session=True)
    os.close(inner)
    read_until(terminal, lambda: bool(list(out.glob("*/result.json"))))
    os.close(terminal)
    assert process.wait(600) == 129
    (file,) = out.glob("*/result.json")
    assert json.loads(file.read_text())["stopped"] == {"reason": "interrupted"}
    assert (file.parent / "table.md").exists()
    assert_nothing_runs(tmp_path)


def read_until(terminal: int, is_there: Callable[[], bool]) -> None:
    """Read what a program shows, which would wait for its reader, until something is there."""
    deadline = time.monotonic() + 600
    os.set_blocking(terminal, False)
    while not is_there():
        assert time.monotonic() < deadline
        with contextlib.suppress(BlockingIOError):
            os.read(terminal, 1 << 16)
        time.sleep(0.02)


# Processes that are killed, and those that others started


def lines_that_measure(folder: Path, library: Path) -> dict[str, Sequence[object]]:
    """Commands that run for long, by their names."""
    long = ("--duration", 60)
    suite = folder / "long.toml"
    suite.write_text(f'[[bench]]\nmodel = "{TINY}"\nep = "cpu"\nduration = 60\nprecision = "0.0001%"\n')
    return {
        "run": run_line(folder / "out", *long, "--precision", "0.0001%"),
        "gate": ["gate", "--model", TINY, "--ep", "cpu", "--baseline-model", TINY, "--max-regression", "0.0001%",
                 *long, "--out", folder / "out"],
        "suite": ["suite", suite, "--out", folder / "out"],
        "bandwidth": ["bandwidth", "--ep-library", library, "--max-size", "64kB", *long, "--out", folder / "out"],
    }  # fmt: skip


_KEEPS_OFTEN = """
from ortbench.measure import driver
from ortbench.features.gate.gates.baseline import LiveGate
driver._KEEP_EVERY_S = 0.01
# However alike or unlike the two turn out to be here, the gate is not to end before it is killed.
LiveGate.needs_more = lambda self, mode: True
from ortbench.__main__ import main
main()
"""


@pytest.mark.wide
@pytest.mark.parametrize("name", ["run", "gate", "suite", "bandwidth"])
def test_a_killed_command_leaves_whole_files_and_no_process(name: str, real_library: Path, tmp_path: Path) -> None:
    chance = random.Random(name)
    kept = 0
    for attempt in range(4):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        line = [sys.executable, "-c", _KEEPS_OFTEN, *map(str, lines_that_measure(folder, real_library)[name])]
        with subprocess.Popen(line, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 600
            # Once at any moment, else while a result is written again and again.
            while attempt and not saved(folder) and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 1))
            assert process.poll() is None
            process.kill()
        for path in saved(folder):
            json.loads(path.read_text())
        kept += len(saved(folder))
        assert_nothing_runs(folder)
    assert kept >= 3


def saved(folder: Path) -> list[Path]:
    """The result files that a command has left so far."""
    return [path for path in folder.rglob("*.json") if path.name in ("result.json", "bandwidth.json")]
