"""A session made for a timeline: by itself, or as Nsight Systems records it. What `ortbench profile` goes through."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ortbench.errors import INTERRUPTED, BenchmarkFailed
from ortbench.jobs.writing import say_failures, write
from ortbench.plan import Plan

if TYPE_CHECKING:
    from ortbench.analysis.nsight import Profile, Recording
    from ortbench.result import Result
    from ortbench.wanted import Wanted

SESSION = "profile.json"
TOO_OLD = (
    "the profiler that is attached takes no ranges from the nvtx package, so nothing was recorded; Nsight Systems may be "
    "older than what the package needs"
)


def profile(plan: Plan, attach_only: bool, wanted: Wanted) -> int:
    """Run a session, under Nsight Systems where it is installed, save and show what came of it.

    Args:
        plan: checked; its loop is in order.
        attach_only: do not start nsys.
        wanted: where the session's own folder is made, a file for it as JSON, and whether nothing is printed.

    Returns:
        The exit code.

    Raises:
        BadInput, BenchmarkFailed: before anything could be measured.
    """
    from ortbench.measure import nsys

    out, quiet = wanted.out, wanted.quiet
    found = None if attach_only else nsys.find()
    remarks: list[str] = []
    if found is None:
        made, folder, interrupted = _session(plan, out, quiet)
        remarks = _remarks(made.session, attach_only)
    else:
        made, folder, interrupted = *_recorded(plan, found, out, quiet, remarks), False
    _save(made, folder, wanted.json)
    if not quiet and wanted.json != "-":
        from ortbench.report.profile import build
        from ortbench.report.terminal.print import print_report

        print_report(build(made, str(folder), remarks))
    return INTERRUPTED if interrupted else say_failures(made.session)


def _session(plan: Plan, out: Path, quiet: bool) -> tuple[Profile, Path, bool]:
    """The session by itself; its folder holds no result, because a result is what other commands compare."""
    from ortbench.jobs.launch import launch

    def folder() -> Path:
        from ortbench.measure.folder import new_folder, profile_name

        return new_folder(out, profile_name(plan))

    launched = launch([plan], folder, quiet=quiet)

    from ortbench.analysis.nsight import Profile

    (session,), (path,) = launched.results, launched.folders
    for name in ("result.json", "table.md", "table.csv"):
        (path / name).unlink()
    return Profile(session, None), path, launched.interrupted


def _recorded(plan: Plan, nsys: str, out: Path, quiet: bool, remarks: list[str]) -> tuple[Profile, Path]:
    """The same command again under Nsight Systems, which records its session, and what both found."""
    from ortbench.analysis.nsight import Profile
    from ortbench.measure import nsys as measure_nsys
    from ortbench.measure.folder import new_folder, profile_name

    version = measure_nsys.version(nsys)
    folder = new_folder(out, profile_name(plan))
    if not quiet:
        print(f"profiling under Nsight Systems {version} …", file=sys.stderr)
    inner, report = folder / "session", folder / "report"
    again = [*sys.argv[1:], "--attach-only", "--quiet", "--out", str(inner), "--json", str(folder / SESSION)]
    try:
        measure_nsys.record(nsys, report, [sys.executable, "-m", "ortbench", *again])
    except BenchmarkFailed as error:
        if not (folder / SESSION).exists():
            raise
        remarks.append(str(error))
    finally:
        shutil.rmtree(inner, ignore_errors=True)
    session = _load_session(folder / SESSION)
    session.command = list(plan.command)
    if not session.setup.get("profiler_listens"):
        remarks[:] = [TOO_OLD]
    return Profile(session, _read_recording(nsys, version, report, remarks)), folder


def _read_recording(nsys: str, version: str, report: Path, remarks: list[str]) -> Recording | None:
    """What Nsight Systems recorded; None with a remark where it cannot be read, since the session is still worth having."""
    from ortbench.measure.nsys import summarise
    from ortbench.measure.nsys_export import read

    if remarks:
        return None
    try:
        return read(summarise(nsys, report), version, report)
    except BenchmarkFailed as error:
        remarks.append(f"what Nsight Systems recorded could not be read: {error}")
        return None


def _load_session(path: Path) -> Result:
    from ortbench.result import from_dict

    return from_dict(json.loads(path.read_text(encoding="utf-8"))["session"])


def _remarks(session: Result, attach_only: bool) -> list[str]:
    """What a user who wanted a timeline should know."""
    from ortbench.measure.nsys import RECORD, WHERE_TO_GET_IT
    from ortbench.profiler import is_profiled

    if not attach_only:
        return [
            "nsys is not on the PATH, so nothing was recorded: Nsight Systems is at "
            f"{WHERE_TO_GET_IT}; without it, ortbench run --trace makes a timeline"
        ]
    if session.setup.get("profiler_listens"):
        return []
    if is_profiled():
        return [TOO_OLD]
    return [f"no profiler is attached; start it as: nsys profile {' '.join(RECORD)} {' '.join(session.command)}"]


def _save(made: Profile, folder: Path, json_out: str | None) -> None:
    from ortbench.analysis.nsight import profile_json
    from ortbench.files import write_atomically
    from ortbench.report.markdown import markdown
    from ortbench.report.profile import build

    text = profile_json(made)
    write_atomically(folder / SESSION, text)
    write_atomically(folder / "table.md", markdown(build(made)))
    if json_out is not None:
        write(json_out, text, "--json")
