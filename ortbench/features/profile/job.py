"""A session made for a timeline: by itself, or as Nsight Systems records it. What `ortbench profile` goes through."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

from ortbench.core import files, output, signals
from ortbench.core.errors import INTERRUPTED, BenchmarkFailed, OrtbenchError
from ortbench.core.processes import find_nsys, nsys_version
from ortbench.core.safe_text import complain
from ortbench.features.profile import measure as nsys
from ortbench.features.profile.analysis import Profile, Recording
from ortbench.jobs import publish, say_failures
from ortbench.jobs.run import folder_maker, measure
from ortbench.model.result import Result
from ortbench.plan.plan import OutputOptions, Plan

SESSION = "profile.json"
_NOT_READ = "interrupted: what Nsight Systems recorded was not read"
TOO_OLD = (
    "the profiler that is attached takes no ranges from the nvtx package, so nothing was recorded; Nsight Systems may be "
    "older than what the package needs"
)


def profile(plan: Plan, attach_only: bool, wanted: OutputOptions) -> int:
    """Run a session, under Nsight Systems where it is installed unless it is `attach_only`, save and show what came of it; the
    exit code."""
    out, quiet = wanted.out, wanted.quiet
    found = None if attach_only else find_nsys()
    remarks: list[str] = []
    if found is None:
        made, folder, interrupted = _session(plan, out, quiet)
        remarks = _remarks(made.session, attach_only)
    else:
        made, folder, interrupted = _record_session(plan, found, out, quiet, remarks)

    from ortbench.features.profile.analysis import profile_json
    from ortbench.features.profile.report import build
    from ortbench.report.records import markdown

    text, table = profile_json(made), markdown(build(made))
    files.write_or_note(folder / SESSION, text)
    files.write_or_note(folder / "table.md", table)
    publish(wanted, [build(made, str(folder), remarks)], lambda: text)
    return INTERRUPTED if interrupted else say_failures(made.session)


def _session(plan: Plan, out: Path, quiet: bool) -> tuple[Profile, Path, bool]:
    """The session by itself; its folder holds no result, because a result is what other commands compare."""
    found = measure([plan], folder_maker(out, [plan], "profile"), quiet=quiet)

    from ortbench.features.profile.analysis import Profile

    session, (path,) = found.result, found.folders
    for name in ("result.json", "table.md", "table.csv"):
        (path / name).unlink(missing_ok=True)
        files.forget(path / name)
    return Profile(session, None), path, found.interrupted


def _record_session(plan: Plan, tool: str, out: Path, quiet: bool, remarks: list[str]) -> tuple[Profile, Path, bool]:
    """The session of another process, which Nsight Systems records, and what both found."""
    from ortbench.core.files import temporary_folder
    from ortbench.features.profile.analysis import Profile
    from ortbench.model import file_reading
    from ortbench.model.result_file import from_data, new_folder
    from ortbench.plan.plan_builder import run_name

    version = nsys_version(tool)
    signals.defer_signals()  # from here on there is a folder, and soon something in it
    folder = new_folder(out, run_name([plan], "profile"))
    output.keep_in(folder)
    if not quiet:
        print(f"profiling under Nsight Systems {version} …", file=sys.stderr)
    report, interrupted = folder / "report", False
    with temporary_folder() as inner:  # the session comes from there even if nothing more fits beside the report
        found = Path(inner) / SESSION
        handed = Path(inner) / "plan.pickle"
        handed.write_bytes(pickle.dumps(plan))
        try:
            nsys.record(tool, report, [sys.executable, "-m", __name__, str(handed), inner, str(found)])
        except BenchmarkFailed as error:
            if not found.exists():
                raise
            remarks.append(str(error))
        except KeyboardInterrupt:
            if not found.exists():
                raise
            interrupted = True
            remarks.append(_NOT_READ)
        for file in Path(inner).rglob(output.FILE_NAME):
            output.take(file.open("rb"), "session")
        session = from_data(file_reading.parse(file_reading.content_of(found), str(found))["session"], str(found))
    session.command = list(plan.command)
    begun = nsys.file_of(report, ".nsys-rep")
    is_lacking = begun.stat().st_size == 0 if begun.exists() else session.setup.get("profiler_listens")
    if remarks and not interrupted and is_lacking:
        begun.unlink(missing_ok=True)
        files.note(str(begun), remarks[-1])
    if not session.setup.get("profiler_listens") and not interrupted:
        remarks[:] = [TOO_OLD]
    return Profile(session, _read_recording(tool, version, report, remarks)), folder, interrupted


def _read_recording(tool: str, version: str, report: Path, remarks: list[str]) -> Recording | None:
    """What Nsight Systems recorded; None with a remark where it cannot be read, since the session is still worth having."""
    if remarks:
        return None
    try:
        return nsys.read_export(nsys.summarise(tool, report), version, report)
    except BenchmarkFailed as error:
        remarks.append(f"what Nsight Systems recorded could not be read: {error}")
    except KeyboardInterrupt:
        remarks.append(_NOT_READ)
    return None


def _remarks(session: Result, attach_only: bool) -> list[str]:
    """What a user who wanted a timeline should know."""
    from ortbench.core.processes import is_profiled

    if not attach_only:
        command = session.kind or "run"
        return [
            "nsys is not on the PATH, so nothing was recorded: Nsight Systems is at "
            f"{nsys.WHERE_TO_GET_IT}; without it, ortbench {command} --trace makes a timeline"
        ]
    if session.setup.get("profiler_listens"):
        return []
    if is_profiled():
        return [TOO_OLD]
    return [f"no profiler is attached; start it as: nsys profile {' '.join(nsys.RECORD)} {' '.join(session.command)}"]


def _run_attached() -> int:
    """Run the session of a plan that the process which started Nsight Systems left in a file; its exit code."""
    plan, out, json_out = sys.argv[1:]
    try:
        wanted = OutputOptions(out=Path(out), json=json_out, quiet=True)
        return profile(pickle.loads(Path(plan).read_bytes()), attach_only=True, wanted=wanted)
    except OrtbenchError as error:
        complain(str(error))
        return error.exit_code


if __name__ == "__main__":
    signals.install()
    output.to_the_end(_run_attached)
