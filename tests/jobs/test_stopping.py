"""Ctrl-C, SIGTERM, SIGHUP, SIGKILL and a closed pipe at sure moments: what was measured is saved, nothing goes on running."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ortbench.core.signals import NOTHING_MEASURED
from ortbench.features.load.analysis import has_figures, load_cases
from ortbench.model.result_file import load
from tests.conftest import MODELS, ROOT, Ran, command, ortbench, whole
from tests.jobs import stopped_at
from tests.jobs.reports import json_in

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc, which is Linux's")

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
    left, complete = json_in(out), stage.startswith(("close-up", "profiling"))
    assert (left["stopped"] == {"reason": "interrupted"}) != complete
    assert all(case["status"] == ("ok" if case["samples"] else "not_measured") for case in left["cases"])


def test_while_modes_are_weighed(tmp_path: Path) -> None:
    """Of three the first is weighed; nothing that was measured before is touched."""
    modes = [word for mode in ("cpu-tensors", "device-tensors", "device-resident") for word in ("--mode", mode)]
    line = run_line(tmp_path / "out", *modes, "--iterations", 2, "--measure-memory")
    ran = stopped(INT, "asked arenas", 1, tmp_path, *line)
    assert (ran.code, ran.err) == (130, "")
    assert_whole(tmp_path / "out")
    result = json_in(tmp_path / "out")
    assert result["stopped"] == {"reason": "iterations", "value": 2, "per": "mode"}
    assert [len(case["samples"]["latency"]) for case in result["cases"]] == [2, 2, 2]
    assert [case["memory"]["failed"] for case in result["cases"]] == [None, "it was interrupted", "it was interrupted"]
    assert result["cases"][0]["metrics"]["host_memory"]["value"] > 0
    assert "memory of device-tensors could not be measured: it was interrupted" in ran.out


LINES: dict[str, list[object]] = {
    "run": ["run", TINY, "--precision", "0.0001%"],
    "loop": ["loop", MODELS / "recurrent_cell.onnx", "--feedback", "hidden_out=hidden", "--precision", 0],
    "sweep": ["sweep", MODELS / "transformer_ids.onnx", "--dim", "batch=1,2", "--mode", "cpu-tensors", "--precision", 0],
    "load": ["load", TINY, "--mode", "cpu-tensors", "--concurrency", "1,2"],
    "gate": ["gate", "--model", TINY, "--mode", "cpu-tensors", "--baseline-set", "intra-op-threads=1", "--load", "--concurrency", "1,2",
             "--max-regression", "0.01%"],
}  # fmt: skip


@pytest.mark.parametrize(("number", "name"), [*((INT, name) for name in LINES), (TERM, "run"), (HUP, "run")])
def test_what_was_measured_is_saved_and_shown(number: int, name: str, tmp_path: Path) -> None:
    out, is_load = tmp_path / "out", name in ("load", "gate")
    line = (*LINES[name], "--ep", "cpu", "--duration", 60, "--warmup", 1, "--out", out)
    ran = stopped(number, *(("asked load_closed", 5) if is_load else ("block", 20)), tmp_path, *line)
    said = "ortbench: interrupted before the gate was decided\n" if name == "gate" else ""
    assert (ran.code, ran.err) == (128 + number, said)
    results = [load(path) for path in out.rglob("result.json")]
    assert [it.stopped for it in results] == [{"reason": "interrupted"}] * (2 if name == "gate" else 1)
    for result in results:
        assert result.kind == ("load" if is_load else name)
        assert any(map(has_figures, load_cases(result))) or any(it.samples.get("latency") for it in result.cases)
        assert all(it.status == "not_measured" for it in load_cases(result) if not has_figures(it))
        for case in result.cases if name == "loop" else []:
            assert len(case.samples["step"]) == 16 * len(case.samples["latency"])
    if name != "gate":
        assert "Saved in" in ran.out
        assert re.search(r"; ended after [\d.]+ m?s: interrupted$", ran.out, re.MULTILINE)
        assert len(list(out.glob("*/table.md"))) == 1
        assert len(list(out.glob("*/load-samples.npz"))) == is_load


@pytest.mark.parametrize("times", [0, 3, 6])
def test_while_files_are_written(times: int, tmp_path: Path) -> None:
    out, exports = tmp_path / "out", tmp_path / "exports"
    exports.mkdir()
    names = {"--json": "r.json", "--junit": "j.xml", "--html": "p.html", "--trace": "t.json"}
    words = [word for option, name in names.items() for word in (option, exports / name)]
    ran = stopped(INT, "os.rename", times, tmp_path, *run_line(out, "--iterations", 2, *words))
    assert (ran.code, ran.err) == (130, "")
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
def test_a_killed_command_leaves_whole_files_and_no_process(tmp_path: Path) -> None:
    """Of two configurations the worker of one is always paused."""
    long = ("--duration", 60, "--precision", "0.0001%")
    words = run_line(tmp_path / "out", *long, "--intra-op-threads", "1,2")
    line = [sys.executable, "-c", _KEEPS_OFTEN, *map(str, words)]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (files := list(tmp_path.glob("out/**/result.json"))):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(0.7)  # while the result is written again and again
        process.kill()
    assert json.loads(files[0].read_text())["cases"]
    assert_nothing_runs(tmp_path)
