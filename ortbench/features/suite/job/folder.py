"""A suite's folder: which suite it is, what its cases came to, and how the folders of shards are put together.

It holds ``suite.json`` (which suite, and the ids of all its cases), ``summary.md``, ``summary.csv``, and for each case a
folder named by its id: what the run or the live gate leaves, and ``case.json``, which is written last. A case whose
``case.json`` has the fingerprint that it would have now is done.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict

from ortbench.core.errors import BENCHMARK_FAILED, BadInput
from ortbench.core.files import make_folder, make_ignored, note, why_lacking, write_atomically, write_or_note
from ortbench.core.parts import text
from ortbench.core.safe_text import plain_name
from ortbench.features.suite.job.record import MISSING, Record, record_from
from ortbench.features.suite.report import build, csv
from ortbench.measure.folder import writable
from ortbench.model import door
from ortbench.model.result import Result
from ortbench.model.result_file import load
from ortbench.plan.plan import REPORTS
from ortbench.report.markdown import markdown

CASE_FILE, SUITE_FILE = "case.json", "suite.json"
_RESULTS = ("result.json", "candidate/result.json")  # of a run, of a live gate with a baseline


def claim_folder(out: Path, name: str, file_sha256: str, ids: Sequence[str]) -> None:
    """Make a suite's folder, or take up the one that is there; `BadInput` where it is something else's, in which no folders
    may be emptied, or cannot be written."""
    with writable(out):
        _open_folder(out, name)
        write_atomically(out / SUITE_FILE, text(Suite(name=name, file_sha256=file_sha256, cases=[*ids])))


def _open_folder(out: Path, name: str) -> None:
    if out.parent == REPORTS:
        make_ignored(REPORTS)
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        there = suite_of(out)["name"]
        if there != name:
            raise BadInput(f"--out {out}: holds suite {there!r}, not {name!r}; name another folder")


class Suite(TypedDict):
    """What a suite's folder says of its suite: its name, the digest of its file, and the ids of its cases."""

    name: str
    file_sha256: str
    cases: list[str]


def suite_of(folder: Path) -> Suite:
    """What a suite's folder says of its suite; `BadInput` where it is not the folder of a suite."""
    file = folder / SUITE_FILE
    if not file.is_file():
        raise BadInput(f"{folder} is not the folder of a suite: it has no {SUITE_FILE}")
    return door.shape(door.parse(door.content_of(file), str(file)), str(file), Suite, _check_suite)


def _check_suite(suite: Suite) -> None:
    for number, name in enumerate(suite["cases"]):
        # Cases are folders that are emptied: nothing may name one outside.
        if not name or plain_name(name) != name.lstrip(".") or name in suite["cases"][:number]:
            raise door.Wrong(f"{door.shown(name)} is no name of a case, or of another one too", "cases", number)


def write_summary(out: Path, name: str, records: Sequence[Record]) -> None:
    """Write the summary's files, or note that they could not be written."""
    write_or_note(out / "summary.md", markdown(build(name, records)))
    write_or_note(out / "summary.csv", csv(records))


# One case


def done_record(folder: Path, fingerprint: str, resources: Mapping[str, float]) -> Record | None:
    """The record that a case's folder holds, if it is of the same thing with the same resources of a cluster and the benchmark did not fail."""
    found = record_in(folder)
    if found is None or found.exit_code == BENCHMARK_FAILED or found.fingerprint != fingerprint:
        return None
    return found if (found.node["resources"] if found.node else {}) == resources else None


def record_in(folder: Path) -> Record | None:
    """What a case's folder says of it, or None where it has no record; `BadInput` where that cannot be read."""
    file = folder / CASE_FILE
    return record_from(door.content_of(file), str(file)) if file.is_file() else None


def empty_folder(folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    return make_folder(folder)


def write_record(record: Record, folder: Path) -> None:
    """Write what a case came to, or note that it was not; with this file the folder is done."""
    file = folder / CASE_FILE
    if (why := why_lacking(folder)) is not None:  # without its other files it is not done
        note(str(file), why)
        return
    with suppress(OSError):  # then the file cannot be written either
        folder.mkdir(parents=True, exist_ok=True)  # a run that came to nothing has taken its folder along
    write_or_note(file, text(record))


def load_result(folder: Path) -> Result | None:
    """The result in a case's folder, of the candidate where there are two; None without one."""
    file = next((folder / name for name in _RESULTS if (folder / name).exists()), None)
    return None if file is None else load(file)


# Shards


def join_shards(folders: Sequence[Path], out: Path) -> tuple[str, list[Record], list[str]]:
    """Put the shards of one suite, of which any may have a case, together in a folder: the suite's name, a record for each of its
    cases (`MISSING` where no shard has it), and remarks. Files that could not be written are noted.

    `BadInput` where they are not of one suite, a case was measured differently in two of them, or a folder cannot be made.
    """
    suites = [suite_of(folder) for folder in folders]
    for folder, suite in zip(folders, suites, strict=True):
        for key, what in (("name", "suite"), ("file_sha256", "version of the suite's file"), ("cases", "set of cases")):
            if dict(suite)[key] != dict(suites[0])[key]:
                raise BadInput(f"{folders[0]} and {folder} do not belong together: each is of another {what}")
        if out.resolve() == folder.resolve():
            raise BadInput(f"--out {out}: is one of the folders that are merged")
    name, ids, remarks = suites[0]["name"], suites[0]["cases"], []
    found: dict[str, list[tuple[Path, Record]]] = {}
    for case in ids:
        found[case] = [(it / case, record) for it in folders if (record := record_in(it / case)) is not None]
        for place, record in found[case][1:]:
            first, other = found[case][0]
            if other.fingerprint != record.fingerprint:
                raise BadInput(f"{first} and {place} were not measured on the same thing; merge one of them")
            remarks.append(f"{case} is in several folders: {first} counts, {place} does not")
    with writable(out):
        _open_folder(out, name)
    write_or_note(out / SUITE_FILE, text(suites[0]))
    records = []
    for case in ids:
        if found[case]:
            place, record = found[case][0]
            _copy_case(place, record, out / case)
            records.append(record)
        else:
            records.append(Record(case, "", "", "", "", MISSING, BENCHMARK_FAILED, "no folder has it"))
    return name, records, remarks


def _copy_case(folder: Path, record: Record, place: Path) -> None:
    try:
        empty_folder(place)
        ignored = shutil.ignore_patterns(CASE_FILE)
        shutil.copytree(folder, place, ignore=ignored, copy_function=_copy_file, dirs_exist_ok=True)
    except OSError as error:
        note(str(place), error.strerror or "not every file could be copied")
    write_record(record, place)


def _copy_file(source: str, target: str) -> None:
    write_or_note(Path(target), Path(source).read_bytes())  # whole or not at all
