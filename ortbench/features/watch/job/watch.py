"""What `ortbench watch` does: run a program with the recorder, wait for its end, and say what the records come to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ortbench.core import __version__, features, signals
from ortbench.core.errors import BadInput
from ortbench.core.files import temporary_folder, write_or_note
from ortbench.core.parts import text
from ortbench.core.processes import given_variables
from ortbench.core.safe_text import complain
from ortbench.features.watch import shim
from ortbench.jobs import check_wanted, publish, write
from ortbench.measure import noise
from ortbench.model.result_file import new_folder
from ortbench.plan.plan import OutputOptions
from ortbench.plan.plan_builder import with_time

if TYPE_CHECKING:
    from ortbench.facts import Fact
    from ortbench.features.watch.analysis import Watched, WatchedSession
    from ortbench.report.model import Report

# Of these the program gets those that only this process has had; a terminal sends Ctrl-C to both.
_HANDED_ON = [getattr(signal, it) for it in ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2") if hasattr(signal, it)]
_GRACE_S = 10.0  # from the signal that ends the program to the one that it cannot refuse


def watch(
    command: Sequence[str],
    duration_s: float | None,
    with_replay: bool | None,
    keep_bytes: int,
    library: str | None,
    wait_s: float,
    wanted: OutputOptions,
) -> int:
    """Run a program and report what ONNX Runtime costs in it; the program's exit code, or 128 and the signal that ended it."""
    check_wanted(wanted)
    with temporary_folder() as temporary:
        records = Path(temporary) / "records"
        records.mkdir()
        (Path(temporary) / "shim").mkdir()
        shutil.copyfile(shim.__file__, Path(temporary) / "shim" / "sitecustomize.py")
        began, throttled = time.perf_counter_ns(), throttled_ns()
        ended = threading.Event()
        live = threading.Thread(target=_show_live, args=(records, ended))
        if sys.stderr.isatty() and not wanted.quiet:
            live.start()
        try:
            environment = _environment(Path(temporary) / "shim", records, keep_bytes, bool(wanted.files))
            code, cpu_ns = _run(command, environment, duration_s)
        finally:
            ended.set()
        wall_ns = time.perf_counter_ns() - began
        if live.ident is not None:
            live.join()
        program = read_program(records, command, code, wall_ns, cpu_ns, throttled)

        from ortbench.features.watch.report import nothing_seen

        if why := nothing_seen(program):
            complain(f"nothing could be seen: {why}")
            return code
        signals.defer_signals()  # from here on there is a folder, and soon something in it
        folder = new_folder(wanted.out, with_time("watch", _name_of(command)))
        data, report = conclude(program, with_replay, records, folder, library, wanted.quiet, wait_s, str(folder))
        content = text(data)
        write_or_note(folder / "result.json", content)
        from ortbench.report.records import markdown

        write_or_note(folder / "table.md", markdown(report))
        with redirect_stdout(sys.stderr):
            publish(wanted, [report], lambda: content)
            for flag, path in wanted.files.items():
                trace = _trace(path, program, records, data["created"])
                if write(path, trace, f"--{flag}") and not wanted.quiet:
                    print(features.writers()[flag].message.format(path=path))
    return code


def _trace(path: str, program: Watched, records: Path, created: str) -> str | bytes:
    from ortbench.features.trace.report import as_file
    from ortbench.features.watch.report import program_trace

    files = [records / f"{it['file']}.calls" for it in program.processes]
    contents = [it.read_bytes() if it.exists() else b"" for it in files]
    # The end of a file whose process was killed may lack.
    calls = [array("Q", content[: len(content) - len(content) % (8 * shim.TRACED)]) for content in contents]
    return as_file(program_trace(program, calls, created), path)


def read_program(
    records: Path, command: Sequence[str], code: int, wall_ns: int, cpu_ns: int, throttled_before_ns: int
) -> Watched:
    from ortbench.features.watch.analysis import Watched, merge_sessions

    processes, source = read_records(records), noise.system()
    return Watched(
        [*command], code, wall_ns, cpu_ns, source.cores, source.limit, throttled_ns() - throttled_before_ns,
        (records / shim.SEEN).exists(), processes, merge_sessions(processes),
    )  # fmt: skip


def conclude(
    program: Watched,
    with_replay: bool | None,
    records: Path,
    folder: Path,
    library: str | None,
    quiet: bool,
    wait_s: float,
    saved_in: str,
) -> tuple[dict[str, Any], Report]:
    """Measure again what is wanted of a program; what its ``result.json`` has, and its report."""
    from ortbench.features.watch.facts import watch_facts, worth_changing
    from ortbench.features.watch.report import build

    code_line = replay_sessions(program, with_replay, records, folder, library, quiet, wait_s)
    facts = watch_facts(program)
    return _as_data(program, facts), build(program, worth_changing(facts), saved_in, code_line)


def replay_sessions(
    program: Watched, wanted: bool | None, records: Path, folder: Path, library: str | None, quiet: bool, wait_s: float
) -> str:
    """Measure the changes of all sessions where that is wanted, else of a few where it takes little time; the command that writes the
    program of a change, where there is one."""
    if wanted is False:
        return ""
    from ortbench.features.watch.analysis import changes_of
    from ortbench.features.watch.job.replay import BUDGET_S, MOST, code_line, kept_inputs, problem, replay

    line = ""
    changes = [*changes_of(program).items()][: None if wanted else MOST]
    if changes and wait_s:
        noise.wait_until_quiet(wait_s, lambda text: None if quiet else print(text, file=sys.stderr))
    until_ns = None if wanted else time.perf_counter_ns() + round(BUDGET_S * 1e9)
    for number, (name, own) in enumerate(changes, 1):
        session = next(it for it in program.sessions if it.name == name)
        if session.path and not Path(session.path).is_absolute():
            session.path = str(_keep(records / session.path, folder / f"model-{number}.onnx") or "")
        inputs = None
        if not problem(session):
            if not quiet:
                print(f"measuring {name} again …", file=sys.stderr)
            if kept := kept_inputs(session):
                inputs = _keep(records / kept, folder / f"inputs-{number}.npz")
        now = time.perf_counter_ns()
        share = None if until_ns is None else now + (until_ns - now) // (len(changes) + 1 - number)
        replay(session, own, inputs, library, share)
        if not line and session.path and not session.is_on_cpu:
            line = code_line(session, inputs, library)
    return line


def _keep(file: Path, target: Path) -> Path | None:
    """Move a file that the recorder wrote, with its mode."""
    return Path(shutil.move(file, target)) if file.exists() else None


def _name_of(command: Sequence[str]) -> str:
    """What the program is called: behind a Python its script or module."""
    is_python = "python" in Path(command[0]).name
    words = [it for it in command[1:] if not it.startswith("-")] if is_python and "-c" not in command else command
    return Path((*words, "python")[0]).stem[:40] or "program"


def _environment(own: Path, records: Path, keep_bytes: int, is_traced: bool) -> dict[str, str]:
    """That of the program: the recorder stands first on Python's path."""
    given = given_variables()
    path = given.get("PYTHONPATH", "")
    return {
        **given,
        "PYTHONPATH": os.pathsep.join([str(own), *filter(None, [path])]),
        shim.FOLDER: str(records),
        shim.KEEP: str(keep_bytes),
        **({shim.TRACE: "1"} if is_traced else {}),
    }


def _run(command: Sequence[str], environment: dict[str, str], duration_s: float | None) -> tuple[int, int]:
    """Run the program to its end; its exit code, and the CPU time of it and its children."""
    before = os.times()
    try:
        program = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise BadInput(f"{command[0]}: cannot be started: {error.strerror}") from None
    with _handing_on(program):
        try:
            code = program.wait(duration_s)
        except subprocess.TimeoutExpired:
            program.terminate()
            try:
                code = program.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                program.kill()
                code = program.wait()
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return code if code >= 0 else 128 - code, round(used * 1e9)


def _show_live(records: Path, ended: threading.Event) -> None:
    """A line each second of what the records have so far, until the program has ended."""
    from ortbench.features.watch.report import live_line

    began, line = time.perf_counter_ns(), ""
    while not ended.wait(1.0):
        line = live_line(read_records(records), time.perf_counter_ns() - began) or line
        print(f"\r{line}\x1b[K" * bool(line), end="", file=sys.stderr, flush=True)
    print("\r\x1b[K" * bool(line), end="", file=sys.stderr, flush=True)


@contextmanager
def _handing_on(program: subprocess.Popen[bytes]) -> Iterator[None]:
    """Inside the block the program decides what a signal comes to, and this process waits for its end."""

    def hand_on(number: int, _: FrameType | None) -> None:
        with suppress(OSError):
            program.send_signal(number)

    def leave(*_: Any) -> None:
        """The terminal has sent it to the program too."""

    before = {it: signal.signal(it, hand_on) for it in _HANDED_ON if signal.getsignal(it) != signal.SIG_IGN}
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def throttled_ns() -> int:
    """For how long the quota of its container has stopped this process's group."""
    return noise.system().counters(()).throttled_ns or 0


def read_records(folder: Path) -> list[dict[str, Any]]:
    """What the processes of a program recorded, those first that began first; half a file is none."""
    found = []
    for file in folder.glob("*.json"):
        with suppress(ValueError, OSError):
            found.append({**json.loads(file.read_text(encoding="utf-8")), "file": file.stem})
    return sorted(found, key=lambda it: it["began_ns"])


def _as_data(program: Watched, facts: Sequence[Fact]) -> dict[str, Any]:
    from datetime import datetime

    from ortbench.facts import record
    from ortbench.model.result import SCHEMA_VERSION

    own = {key: value for key, value in vars(program).items() if key not in ("processes", "sessions")}
    hidden = ("sessions", "file", "threads")
    processes = [{key: value for key, value in it.items() if key not in hidden} for it in program.processes]
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "watch",
        "tool": {"name": "ortbench", "version": __version__},
        "created": datetime.now().astimezone().isoformat(timespec="seconds"),
        "program": own,
        "processes": processes,
        "sessions": [_session(it) for it in program.sessions],
        "findings": [record(it) for it in facts],
    }


def _session(session: WatchedSession) -> dict[str, Any]:
    own = {**asdict(session), "links": [[*key, count] for key, count in session.links.items()]}
    own["histogram"] = sorted(session.histogram.items())
    own["signatures"] = [{key: value for key, value in it.items() if key != "kept"} for it in session.signatures]
    own["path"] = session.path if Path(session.path).is_absolute() else ""  # else it is gone
    return {
        **own,
        "median_ns": session.percentile(0.5),
        "p99_ns": session.percentile(0.99),
        "bytes_per_call": session.bytes_per_call,
    }
