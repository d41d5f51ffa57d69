"""What commands do when a system call fails: each of a command's calls of a kind fails once, in the command or in its workers.

A fault is ``COMMAND-PROCESS-KIND N``: a short command, whose ``parent`` or ``worker`` process has its n-th call fail, for every n that
a run without a fault makes. Whatever fails, there is no traceback, no hang, no orphan and no half-written file; the exit code is
the command's own or says that it failed, and one line says what failed or is lost.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import forks, refdevice, virtual
from tests.benchmarks import faulty
from tests.compiling import compile_library
from tests.conftest import ROOT, lacking, ran_of
from tests.jobs.test_not_written import is_whole

KINDS = {
    "open": (errno.EACCES, errno.EMFILE, errno.EIO),
    "write": (errno.ENOSPC, errno.EIO),
    "rename": (errno.EACCES, errno.EIO),
    "mkdir": (errno.ENOSPC, errno.EACCES),
    "clone": (errno.EAGAIN, errno.ENOMEM),
    "mmap": (errno.ENOMEM,),
    "pipe": (errno.EMFILE,),
    "print": (errno.ENOSPC, errno.EIO),
}  # in the order of faults.c
TINY = "--ep-library DEVICE --iterations 1 --warmup 0"
COMMANDS = {
    "run": f"run tiny.onnx {TINY} --out out --json r.json",
    "gate-live": "gate --model tiny.onnx --baseline-model same.onnx --ep-library DEVICE --mode device-tensors --duration 0.2"
    " --json g.json --junit j.xml",
    "gate-stored": "gate base --baseline base --force --json g.json --junit j.xml",
    "suite": "suite suite.toml --out out --json s.json --junit j.xml",
    "load": "load tiny.onnx --ep-library DEVICE --concurrency 1 --duration 0.01 --mode device-resident --out out --json r.json",
    "report": "report base --html page.html",
}
SUITE = """[defaults]
iterations = 1
warmup = 0
ep = "DEVICE"
[[bench]]
model = "*.onnx"
mode = "device-tensors"
"""
PROCESSES = ("parent", "worker")
_PIDS, _TEXT = 64, 256
_SEEN = struct.Struct(f"{len(KINDS)}qq{_PIDS}q{_TEXT}s")
_HANGS_S = 60.0


class Fault(NamedTuple):
    """The n-th call of a kind fails in a process; none where `nth` is 0."""

    command: str
    process: str = "parent"
    kind: str = "open"
    nth: int = 0
    number: int = 0

    def __str__(self) -> str:
        return f"{self.command}-{self.process}-{self.kind} {self.nth} {errno.errorcode.get(self.number, '')}"


class Outcome(NamedTuple):
    """What a command did: by process how many calls of each kind, the call that failed, if it came to it, and what is wrong."""

    code: int
    out: str
    err: str
    files: frozenset[str]
    calls: dict[str, list[int]]
    failed: str
    problems: list[str]


class Bench:
    """Runs commands with faults, in folders of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: forks.Server | None = None
        self._clock = virtual.build(folder / "built")
        self._device = refdevice.build(folder / "built", clock=self._clock)
        self._preloaded = compile_library("the faults", [Path(__file__).with_name("faults.c")], folder / "built")
        self._given = folder / "given"
        self._given.mkdir()
        for name in ("tiny", "same"):
            shutil.copy(ROOT / "models" / "tiny.onnx", self._given / f"{name}.onnx")
        (self._given / "suite.toml").write_text(SUITE.replace("DEVICE", str(self._device)))
        self._number = 0
        self._whole: dict[str, Outcome] = {}
        self._run(Fault("run"), keep=self._given / "base")

    def close(self) -> None:
        if self._server is not None:
            self._server._close()
        self._server = None

    def whole(self, command: str) -> Outcome:
        """What the command does when nothing fails."""
        if command not in self._whole:
            self._whole[command] = self._run(Fault(command))
        return self._whole[command]

    def faults(self, command: str, process: str, kind: str, most: int | None) -> Iterator[Fault]:
        """Each call of the kind, or at most so many of them, evenly; with `most` one of the kind's errors each."""
        calls, errors = self.whole(command).calls[process][[*KINDS].index(kind)], KINDS[kind]
        numbers: Sequence[int] = range(1, calls + 1)
        if most is not None and calls > most:
            numbers = [1 + round(at * (calls - 1) / max(1, most - 1)) for at in range(most)]
        for nth in numbers:
            for number in errors if most is None else (errors[nth % len(errors)],):
                yield Fault(command, process, kind, nth, number)

    def tried(self, fault: Fault) -> Outcome:
        """What the command does with a fault; its `problems` are empty where all is as it must be."""
        whole, found = self.whole(fault.command), self._run(fault)
        problems = [*found.problems]
        said = sum((_lines(found.err) - _lines(whole.err)).values())
        lost = whole.files - found.files
        if found.code not in {whole.code, 1, 2}:
            problems.append(f"exit code {found.code}")
        if "[Errno" in found.out + found.err:
            problems.append("an error as Python says it")
        if "Traceback" in found.out + found.err or "Exception ignored" in found.err:
            problems.append("a traceback")
        if said > 1:
            problems.append(f"{said} lines more on stderr")
        if said < 1 and (found.code != whole.code or lost):
            problems.append(f"nothing said of exit code {found.code}, lost {sorted(lost)}")
        return found._replace(problems=problems)

    def _run(self, fault: Fault, keep: Path | None = None) -> Outcome:
        self._number += 1
        top = self._folder / f"case-{self._number}"
        place = top / "place"
        shutil.copytree(self._given, place)
        (place / "tmp").mkdir()
        seen = {process: top / process for process in PROCESSES}
        for path in seen.values():
            path.write_bytes(bytes(_SEEN.size))
        clock = virtual.Clock(top / "clock")
        files_seen = {name: str(path) for name, path in seen.items()}
        spec = {"folder": str(place), **fault._asdict(), "kind": [*KINDS].index(fault.kind), "files": files_seen}
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(place), "TMPDIR": str(place / "tmp"), virtual.VARIABLE: str(clock.path),
            "ORTBENCH_TESTS_NOISE": "{}", faulty.SPEC: json.dumps(spec),
            forks.MAIN: f"{faulty.__name__}:in_parent", forks.WORKER: f"{faulty.__name__}:in_worker",
        }  # fmt: skip
        before = {path.name for path in place.iterdir()}
        words = [word.replace("DEVICE", str(self._device)) for word in COMMANDS[fault.command].split()]
        problems: list[str] = []
        try:
            code, out, err = self._forked().run(words, place, environment, _HANGS_S)
        except TimeoutError:
            self.close()
            code, out, err = -1, b"", b""
            problems.append("a hang")
        ran = ran_of(code, out.decode(errors="replace"), err.decode(errors="replace"))
        numbers = {name: _SEEN.unpack(path.read_bytes()) for name, path in seen.items()}
        kinds = len(KINDS)
        pids = [pid for it in numbers.values() for pid in it[kinds + 1 : kinds + 1 + it[kinds]][:_PIDS]]
        if orphans := _alive(pids):
            problems.append(f"{len(orphans)} orphans")
        if keep is not None:
            assert ran.code == 0, ran.err
            shutil.copytree(next(it for it in (place / "out").iterdir() if it.is_dir()), keep)
        files = {path for path in place.rglob("*") if path.is_file() and path.relative_to(place).parts[0] not in before}
        problems += [f"{path.name} is not whole" for path in files if not _is_whole(path)]
        names = frozenset(re.sub(r"-\d{8}-\d{6}", "", str(path.relative_to(place))) for path in files)
        failed = b"".join(it[-1].split(b"\0")[0] for it in numbers.values()).decode(errors="replace")
        calls = {name: [*it[:kinds]] for name, it in numbers.items()}
        if left := [path.name for path in (place / "tmp").glob("*") if str(path) not in failed]:
            problems.append(f"left in the temporary folder: {left}")
        shutil.rmtree(top, ignore_errors=True)
        err_text = ran.err.replace(str(place), "…")
        return Outcome(ran.code, ran.out, err_text, names, calls, failed.replace(str(place), "…"), problems)

    def _forked(self) -> forks.Server:
        if self._server is None:
            os.environ["LD_PRELOAD"] = str(self._preloaded)
            try:
                self._server = forks.Server(self._clock, Path(sys.executable))
            finally:
                del os.environ["LD_PRELOAD"]
        return self._server


def _lines(text: str) -> Counter[str]:
    """Those of standard error, without times, and without modes that nothing is said of but that another configuration lost them."""
    lines = [re.sub(r"(, | \()took [^)]*\)?", "", line) for line in text.splitlines()]
    return Counter(line for line in lines if not line.endswith("because it failed in another configuration"))


def _is_whole(path: Path) -> bool:
    try:
        return path.suffix in (".npz", ".txt", "") or (path.suffix != ".tmp" and is_whole(path))
    except ValueError:
        return False


def _alive(pids: Sequence[int], patience_s: float = 3.0) -> list[int]:
    """Those of processes that do not end."""

    def runs(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    until = time.monotonic() + patience_s
    while (left := [pid for pid in pids if runs(pid)]) and time.monotonic() < until:
        time.sleep(0.02)
    return left


_MOST = None if os.environ.get("ORTBENCH_TESTS_ALL_FAULTS") else 3  # calls of a kind in a process


@pytest.mark.process
@pytest.mark.wide
@pytest.mark.parametrize("command", list(COMMANDS))
def test_no_call_that_fails_is_passed_over_or_shown_as_a_traceback(command: str, tmp_path: Path) -> None:
    if not forks.POSSIBLE:
        lacking("faults want Linux and a C compiler")
    bench = Bench(tmp_path)
    try:
        faults = [it for process in PROCESSES for kind in KINDS for it in bench.faults(command, process, kind, _MOST)]
        found = {str(it): (outcome.problems, outcome.err) for it in faults if (outcome := bench.tried(it)).problems}
    finally:
        bench.close()
    assert faults
    assert found == {}
