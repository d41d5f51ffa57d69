"""`ortbench watch` runs programs as they are: what they print, how they end, and what is recorded of all their processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ortbench.features.trace.report import trace_json
from ortbench.features.watch import report
from ortbench.features.watch.analysis import Watched as WatchedProgram
from ortbench.features.watch.shim import TRACED
from tests import nvtx, traceformat
from tests.conftest import MODELS, ortbench
from tests.versions import VARIABLE

pytestmark = pytest.mark.process

WATCH = [sys.executable, "-m", "ortbench", "watch"]
OPEN = f"""
import sys, os, time, numpy as np, onnxruntime as ort
def session(**more): return ort.InferenceSession({str(MODELS / "tiny.onnx")!r}, providers=["CPUExecutionProvider"], **more)
feed = {{"x": np.arange(16, dtype=np.float32)}}
"""


class Watched:
    """A program that watch ran."""

    def __init__(
        self, folder: Path, program: str, *words: str, python: tuple[str, ...] = (), stdin: str = "",
        env: dict[str, str] | None = None, options: tuple[str, ...] = ()
    ):  # fmt: skip
        (folder / "program.py").write_text(program)
        environment = {**os.environ, **(env or {})}
        self._given: dict[str, Any] = {"cwd": folder, "capture_output": True, "text": True, "env": environment}
        line = [*WATCH, "--out", "out", *options, "--", sys.executable, *python, "program.py", *words]
        self.ran = subprocess.run(line, input=stdin, timeout=60, **self._given)
        self.folders = [it.parent for it in (folder / "out").glob("*/result.json")]
        self.result: dict[str, Any] = json.loads((self.folders[0] / "result.json").read_text()) if self.folders else {}

    def alone(self) -> subprocess.CompletedProcess[str]:
        """The program as it runs without."""
        return subprocess.run([sys.executable, "program.py"], **self._given)

    @property
    def sessions(self) -> list[dict[str, Any]]:
        return list(self.result["sessions"])


def test_a_program_has_its_own_output_input_and_exit_code(tmp_path: Path) -> None:
    program = "s = session()\nfor _ in range(10): s.run(None, feed)\nprint(sys.stdin.read() + sys.argv[1]); sys.exit(7)"
    watched = Watched(tmp_path, OPEN + program, "--json", stdin="in ")
    assert (watched.ran.returncode, watched.ran.stdout) == (7, "in --json\n")
    assert (watched.sessions[0]["counts"]["calls"], watched.sessions[0]["counts"]["opened"]) == (10, 1)
    assert "tiny.onnx" in watched.ran.stderr
    assert not list(tmp_path.glob("ortbench*"))
    (folder,) = watched.folders
    for words in (["report", folder], ["compare", folder, folder], ["gate", folder, "--max-cpu-nodes", 0]):
        ran = ortbench(*words)
        assert (ran.code, "is a recorded program" in ran.error_line) == (2, True)


FAMILY = """
import multiprocessing as mp
def work(n):
    s = session()
    for _ in range(n): s.run(None, feed)
if __name__ == "__main__":
    s = session(); s.run(None, feed)
    pid = os.fork()
    if not pid:
        for _ in range(5): s.run(None, feed)
        os._exit(0)
    os.waitpid(pid, 0)
    for method in ("fork", "spawn"):
        child = mp.get_context(method).Process(target=work, args=(20,)); child.start(); child.join()
"""


def test_children_by_fork_and_spawn_are_recorded_with_sessions_that_were_open_before(tmp_path: Path) -> None:
    watched = Watched(tmp_path, OPEN + FAMILY)
    assert watched.ran.returncode == 0, watched.ran.stderr
    assert sum(it["counts"]["calls"] for it in watched.sessions) == 46
    assert "opened-often" not in [it["verdict"] for it in watched.result["findings"]]


def test_a_killed_program_loses_a_second_at_most(tmp_path: Path) -> None:
    program = """
class Slow:
    def __del__(self): time.sleep(.02)
s = session()
for _ in range(20): s.run(None, feed)
time.sleep(.6)
for _ in range(2):
    other = session()
    other._sess = [other._sess, Slow()]
    del other
time.sleep(.6)
os.kill(os.getpid(), 9)
"""
    watched = Watched(tmp_path, OPEN + program, options=("--trace", "trace.json"))
    assert len(traceformat.load(tmp_path / "trace.json")["tiny.onnx, MainThread"]) == 3 + 20 + 22
    counts = watched.sessions[0]["counts"]
    assert (counts["opened"], counts["closed"], counts["close_ns"] >= 2 * 0.02e9) == (3, 2, True)
    assert watched.ran.returncode == 128 + signal.SIGKILL
    assert watched.sessions[0]["counts"]["calls"] == 20


def test_a_signal_reaches_the_program_which_decides(tmp_path: Path) -> None:
    program = """
import signal
s = session(); s.run(None, feed)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
print("ready", flush=True)
time.sleep(30)
"""
    (tmp_path / "program.py").write_text(OPEN + program)
    line = [*WATCH, "--out", "out", "--", sys.executable, "program.py"]
    watching = subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    assert watching.stdout.readline() == "ready\n"
    watching.terminate()
    _, errors = watching.communicate(timeout=30)
    assert (watching.returncode, "tiny.onnx" in errors) == (5, True)


def test_a_sitecustomize_of_its_own_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("import builtins; builtins.customized = __file__")
    program = "import sitecustomize; session().run(None, feed); print(customized, sitecustomize.__file__ == customized, *sys.path[:2])"
    watched = Watched(tmp_path, OPEN + program, env={"PYTHONPATH": str(tmp_path / "own")})
    printed, alone = (it.split() for it in (watched.ran.stdout, watched.alone().stdout))
    assert printed == alone
    assert printed[:2] == [f"{tmp_path}/own/sitecustomize.py", "True"]
    assert watched.sessions


@pytest.mark.parametrize(
    ("python", "program", "reason"),
    [(("-I",), OPEN, "python -I or -E"), ((), "print(1)", "loaded onnxruntime")],
)
def test_what_cannot_be_seen_is_one_line(tmp_path: Path, python: tuple[str, ...], program: str, reason: str) -> None:
    watched = Watched(tmp_path, program, python=python)
    assert (watched.ran.returncode, watched.ran.stderr.count("\n"), watched.folders) == (0, 1, [])
    assert reason in watched.ran.stderr


def test_a_fault_of_the_recorder_never_reaches_the_program(tmp_path: Path) -> None:
    """Here what it knows of sessions is broken from inside of the program."""
    program = """
s = session()
for _ in range(3): s.run(None, feed)
s._ortbench_watch.signatures = None
for _ in range(3): print(len(s.run(None, feed)))
"""
    watched = Watched(tmp_path, OPEN + program)
    assert (watched.ran.returncode, watched.ran.stdout) == (0, "1\n1\n1\n")
    assert "the recorder failed and stopped" in watched.ran.stderr


def test_errors_of_calls_are_the_programs_own(tmp_path: Path) -> None:
    program = """
s = session()
for bad in ({"x": np.zeros(3, np.float32)}, {"nothing": 1}, None, {"x": feed["x"].astype(np.float64)}, []):
    try: s.run(None, bad)
    except Exception as error: print(type(error).__name__)
try: ort.InferenceSession("nowhere.onnx")
except Exception as error: print(type(error).__name__)
"""
    watched = Watched(tmp_path, OPEN + program)
    assert watched.ran.stdout == watched.alone().stdout
    assert "the recorder failed" not in watched.ran.stderr


def test_threads_are_counted_and_calls_at_the_same_time(tmp_path: Path) -> None:
    program = """
import threading
s = session()
def work():
    for _ in range(500): s.run(None, feed)
threads = [threading.Thread(target=work) for _ in range(4)]
[it.start() for it in threads]; [it.join() for it in threads]
"""
    counts = Watched(tmp_path, OPEN + program).sessions[0]["counts"]
    assert (counts["calls"], counts["failed"], counts["alone"] + counts["shared"]) == (2000, 0, 2000)


def test_recording_ends_the_program_after_a_time(tmp_path: Path) -> None:
    """One that goes on until it has made its calls, however slow the machine is."""
    before = "import os, signal\nends = []\nsignal.signal(signal.SIGTERM, lambda *_: ends.append(1))\n"
    program = """
s = session()
for _ in range(5): s.run(None, feed)
while not ends: s.run(None, feed); time.sleep(.01)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGTERM)
"""
    watched = Watched(tmp_path, before + OPEN + program, options=("--duration", "2.5", "--no-replay"))
    assert watched.ran.returncode == 128 + signal.SIGTERM
    assert "tiny.onnx" in watched.ran.stderr


def test_inputs_are_kept_as_far_as_asked(tmp_path: Path) -> None:
    for words, size in (((), 64_000_000), (("--keep-inputs", "3"), 3_000_000), (("--no-replay",), 0)):
        ran = ortbench("watch", *words, "--", "printenv", "ORTBENCH_WATCH_KEEP", cwd=tmp_path)
        assert int(ran.out) == size
    assert ortbench("watch", "--", "nowhere", cwd=tmp_path).code == 2


def test_a_block_of_a_program_is_recorded_again_and_again(tmp_path: Path) -> None:
    program = """
import ortbench
s = session(); s.run(None, feed)
for count in (5, 7):
    with ortbench.watch() as watched:
        for _ in range(count): s.run(None, feed)
        try: ortbench.watch().__enter__()
        except ortbench.BadInput as error: print(error)
    s.run(None, feed)
    (it,) = watched.data["sessions"]
    print(it["counts"]["calls"], it["name"], "tiny.onnx" in watched.markdown())
"""
    (tmp_path / "program.py").write_text(OPEN + program)
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, cwd=tmp_path)
    refused = "this process is recorded already: leave one ortbench watch out"
    assert done.stdout.splitlines() == [refused, "5 tiny.onnx True", refused, "7 tiny.onnx True"], done.stderr


def test_calls_are_ranges_for_a_profiler_that_listens(tmp_path: Path, recorder: Path) -> None:
    program = "s = session()\nfor _ in range(3): s.run(None, feed)\ntry: s.run(None, {})\nexcept ValueError: pass"
    watched = Watched(tmp_path, OPEN + program, env=nvtx.environ(recorder, tmp_path / "record"))
    ranges = nvtx.Record.read(tmp_path / "record", "ortbench").ranges
    assert [(it.name, it.inner) for it in ranges] == [("tiny.onnx", [])] * 4
    assert (watched.ran.returncode, watched.sessions[0]["counts"]["failed"]) == (0, 1)


def test_a_trace_has_a_track_for_each_session_and_thread(tmp_path: Path) -> None:
    program = """
import threading
s, other = session(), session(sess_options=ort.SessionOptions())
for _ in range(10): s.run(None, feed)
t = threading.Thread(target=lambda: [other.run(None, feed) for _ in range(5)], name="second"); t.start(); t.join()
if not os.fork():
    for _ in range(7): s.run(None, feed)
    os._exit(0)
os.wait()
"""
    watched = Watched(tmp_path, OPEN + program, options=("--trace", "trace.json.gz", "--no-replay"))
    assert "Timeline in trace.json.gz" in watched.ran.stderr
    trace = traceformat.load(tmp_path / "trace.json.gz")
    assert trace.other["missing"] == []
    first, child = (
        {track: dict(Counter(it.category for it in trace.tracks[name, track])) for track in tracks}
        for name, tracks in trace.order.items()
    )
    assert first.pop("process") == child.pop("process") == {"process": 1}
    main, second = {"open": 2, "gap": 11, "call": 10}, {"call": 5, "gap": 4}
    assert first == {"tiny.onnx, MainThread": main, "tiny.onnx, second": second}
    assert child == {"tiny.onnx, MainThread": {"call": 7, "gap": 6}}
    call = trace.tracks[next(iter(trace.order)), "tiny.onnx, second"][0]
    assert call.args == {"call": 10, "x": "float32 [16]"}


def test_a_trace_of_many_calls_shows_every_so_manyth(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the recorder keeps them: the more there were, the fewer of the next."""
    monkeypatch.setattr(report, "MOST_TRACED", 500)
    rows: list[int] = []
    for call in range(4000):
        if not call % (1 << len(rows) // TRACED // 500):
            rows += [0, 0, 1, 1000 * call, 1000 * call + 400, call]
    rows += [1, 0, 1, 0, 1, 4000, 0, 1, 1, 0, 1, 4008]  # of a session and a shape that were not written any more
    session = {"number": 0, "model": "m.onnx", "opens": [], "signatures": [{"number": 0, "inputs": []}]}
    process = {"pid": 1, "argv": ["p"], "began_ns": 0, "now_ns": 10**9, "calls": 4000, "threads": {"1": "main"}}
    process["sessions"] = [session]
    program = WatchedProgram(["p"], 0, 10**9, 0, 1, None, 0, True, [process], [])
    trace = traceformat.read(trace_json(report.program_trace(program, [rows], "")))
    assert [it.start for it in trace["m.onnx, main"]] == list(range(0, 4_000_000, 8000))
    assert trace.other["missing"] == ["of 4000 calls 500 are shown, and no gaps"]


@pytest.mark.wide
def test_a_session_with_options_of_a_model_given_as_bytes_is_measured_again_for_a_forked_child(tmp_path: Path) -> None:
    program = """
options = ort.SessionOptions()
options.intra_op_num_threads = 2 * len(os.sched_getaffinity(0)) + 1
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
cpu = ("CPUExecutionProvider", {"arena_extend_strategy": "kSameAsRequested"})
if os.fork() == 0:
    s = ort.InferenceSession(open(sys.argv[1], "rb").read(), options, providers=[cpu])
    feed = {it.name: np.ones(it.shape, np.float32) for it in s.get_inputs()}
    for _ in range(50): s.run(None, feed)
    os._exit(0)
os.wait()
"""
    words = str(MODELS / "compute_bound.onnx")
    (session,) = Watched(tmp_path, OPEN + program, words, options=("--replay",)).sessions
    assert session["about"]["ep_options"] == {"arena_extend_strategy": "kSameAsRequested"}
    assert [it.keys() for it in session["replay"].values()] == [{"call_ns", "ns", "cpu_ns"}], session["replay"]


OF_ALL_KINDS = """
import os, sys, threading, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = 2
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
def session(model): return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
path, several, inputs = sys.argv[1:]
first, second, feed = session(path), session(open(path, "rb").read()), {"x": np.arange(16, dtype=np.float32)}
third, inputs = session(several), dict(np.load(inputs))
for _ in range(10): one = third.run(None, inputs)[0]
del third
for _ in range(20): first.run(output_names=["y"], input_feed=feed); second.run(None, {"x": np.arange(32, dtype=np.float32)[::2]})
binding, value = first.io_binding(), ort.OrtValue.ortvalue_from_numpy(feed["x"])
for _ in range(10):
    binding.bind_cpu_input("x", arr_on_cpu=feed["x"]); binding.bind_output("y", device_type="cpu")
    first.run_with_iobinding(binding); binding.copy_outputs_to_cpu()
    first.run_with_ort_values(None, input_dict_ort_values={"x": value})
thread = threading.Thread(target=lambda: [first.run(None, feed) for _ in range(5)]); thread.start(); thread.join()
if os.fork() == 0:
    for _ in range(5): first.run(None, feed)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("others", [False, pytest.param(True, marks=pytest.mark.wide)])
def test_programs_of_all_pythons_and_versions_are_recorded_alike(others: bool, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(OF_ALL_KINDS)
    folders = [it for it in os.environ.get(VARIABLE, "").split(os.pathsep) if it and others]
    pythons = [python for folder in folders for python in sorted(Path(folder).glob("*/bin/python"))]
    words = [MODELS / "tiny.onnx", MODELS / "multi_output.onnx", MODELS / "multi_output.inputs.npz"]
    for number, python in enumerate(pythons or [sys.executable]):
        ran = ortbench(
            "watch", "--no-replay", "--out", tmp_path / str(number), "--", python, tmp_path / "program.py", *words
        )
        assert ran.code == 0, ran.err
        (file,) = tmp_path.glob(f"{number}/*/result.json")
        result = json.loads(file.read_text())
        assert {it["fault"] for it in result["processes"]} == {""}
        first, second, third = sorted(
            result["sessions"], key=lambda it: it["name"] == "multi_output.onnx" or -it["counts"]["calls"]
        )
        assert [it["counts"]["calls"] for it in (first, second, third)] == [50, 20, 10], python
        assert third["pool"] == 1
        assert first["about"]["entries"] == {"session.intra_op.allow_spinning": "0"}
        binding = {"calls": 10, "binds": 20, "copies": 10}
        assert {key: first["binding"][key] for key in binding} == binding
        assert [row[5] for it in second["signatures"] for row in it["inputs"]] == [False]
        unread = {name: it["unread"] for name, it in third["outputs"].items()}
        assert unread.pop("features") == 0
        assert min(unread.values()) >= 8  # one may have been held up


def test_threads_that_write_the_records_at_once_do_not_meet(tmp_path: Path) -> None:
    program = f"""
import sys, threading, onnxruntime
from ortbench.features.watch import shim
sys.setswitchinterval(1e-6)
shim.start({str(tmp_path)!r}, 0)
def write():
    for _ in range(200): shim._guard(shim._write)()
threads = [threading.Thread(target=write) for _ in range(4)]
for it in threads: it.start()
for it in threads: it.join()
print(shim._s.fault)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "\n"
