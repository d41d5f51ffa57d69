"""Carries a suite out: one case after the other, each into a folder of its own, and puts shards together.

A suite's folder holds ``suite.json`` (which suite, and the ids of all its cases), ``summary.md``, ``summary.csv``, and for
each case a folder named by its id: what the run or the live gate leaves, and ``case.json``, which is written last. A case
whose ``case.json`` has the fingerprint that it would have now is done.
"""

from __future__ import annotations

import glob
import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from ortbench import __version__
from ortbench.characters import plain_name
from ortbench.errors import BENCHMARK_FAILED, NOT_COMPARABLE, BadInput, NotComparable, OrtbenchError, one_line
from ortbench.files import sha256, write_atomically
from ortbench.gate.limits import PASSED, UNCLEAR, Check, Limits
from ortbench.gate.verdict import Verdict
from ortbench.jobs.gate import gate_live, gate_stored
from ortbench.jobs.run import launch
from ortbench.plan import Plan
from ortbench.report.suite import csv, markdown
from ortbench.result import OK, Result, load, read_json
from ortbench.suite.cases import SuiteCase
from ortbench.suite.record import BROKEN, INCOMPARABLE, MISSING, SKIPPED, Record, figures, record_from

CASE_FILE, SUITE_FILE = "case.json", "suite.json"
_RESULTS = ("result.json", "candidate/result.json")  # of a run, of a live gate with a baseline


@dataclass(frozen=True)
class Job:
    """What is to be done for a case.

    Attributes:
        case: of the suite.
        plans: of the candidate and, in a live gate, the baseline; none where the case is skipped.
        limits: what the candidate must keep to; empty ones without a gate.
        force: compare what is not comparable.
        baseline: this case's folder of an earlier suite, or None.
    """

    case: SuiteCase
    plans: tuple[Plan, ...] = ()
    limits: Limits = field(default_factory=Limits)
    force: bool = False
    baseline: Path | None = None


# What a case's figures depend on


def fingerprint(job: Job) -> str:
    """SHA-256 over everything that a case's outcome depends on, as far as it is known before.

    That is its plans and limits, the content of the files they name (not where those lie), and the versions of ortbench,
    ONNX Runtime and its EP packages; not those of another interpreter that a baseline runs in.

    Raises:
        OSError: a file cannot be read.
    """
    eps = {f"{plan.target.ep} " for plan in job.plans}  # an EP can go by the name of its package
    data = {
        "ortbench": __version__,
        "packages": [package for package in _packages() if package.startswith(("onnxruntime", *eps))],
        "plans": [_essence(plan) for plan in job.plans],
        "limits": asdict(job.limits),
        "force": job.force,
        "baseline": job.baseline
        and [_content(str(path)) for name in _RESULTS if (path := job.baseline / name).exists()],
    }
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


@cache
def _packages() -> list[str]:
    """Name and version of every installed package."""
    return sorted(f"{package.metadata['Name']} {package.version}" for package in metadata.distributions())


def _essence(plan: Plan) -> dict[str, Any]:
    """A plan with the content of files instead of their paths; where engines are kept enters no figure of a mode."""
    target = replace(plan.target, library=_content(plan.target.library), engine_cache=None)
    inputs = replace(plan.inputs, path=_content(plan.inputs.path), expect=_content(plan.inputs.expect))
    return asdict(replace(plan, model=_content(plan.model) or "", target=target, inputs=inputs, command=()))


@cache
def _content(path: str | None) -> str | None:
    """Names and hashes of a folder's files, or of a file and those beside it that go on from its name.

    A model's external weights are usually called so: ``model.onnx.data``, ``model.onnx_data``.
    """
    if path is None:
        return None
    place = Path(path)
    found = place.rglob("*") if place.is_dir() else place.parent.glob(glob.escape(place.name) + "*")
    return " ".join(f"{file.name} {sha256(file)}" for file in sorted(found) if file.is_file())


# One case after the other


def run(
    jobs: Sequence[Job], out: Path, fresh: bool, quiet: bool, tell: Callable[[Record, bool], None]
) -> tuple[list[Record], bool]:
    """Carry jobs out, except what is done already; whatever one comes to, the others go on.

    Args:
        jobs: in their order.
        out: the suite's folder, which is there.
        fresh: do again what is done.
        quiet: show no progress inside a case.
        tell: called with the record of each case as it ends, and whether it was done before.

    Returns:
        The records, and whether Ctrl-C ended it.

    Raises:
        BadInput: the folder cannot be written.
    """
    records: list[Record] = []
    try:
        for job in jobs:
            record, was_done = _carry_out(job, out / job.case.id, fresh, quiet)
            if record is None:
                return records, True
            records.append(record)
            tell(record, was_done)
    except KeyboardInterrupt:
        return records, True
    return records, False


def _carry_out(job: Job, folder: Path, fresh: bool, quiet: bool) -> tuple[Record | None, bool]:
    """The record of a job, None if it was interrupted, and whether it was done before."""
    case, began = job.case, time.monotonic()
    record = Record(case.id, case.model_name, case.ep, case.shape, "", SKIPPED, reason=case.skip)
    try:
        if job.plans:
            record = replace(record, fingerprint=fingerprint(job))
            done = None if fresh else _done(folder, record.fingerprint)
            if done is not None:
                return done, True
        _emptied(folder)
        if job.plans:
            verdict = _measured(job, folder, quiet)
            if verdict is None:
                return None, False
            record = replace(record, **_judged(verdict))
    except Exception as error:  # whatever one case comes to must not cost the others
        record = replace(record, **_failed(error))
    if job.plans:
        record = replace(record, seconds=round(time.monotonic() - began, 3))
    with writable(folder):
        folder.mkdir(exist_ok=True)  # a run that came to nothing has taken its folder along
        write_atomically(folder / CASE_FILE, _json(record.to_dict()))
    return record, False


def _done(folder: Path, fingerprint: str) -> Record | None:
    """The record that a case's folder holds, if it is of the same thing and the benchmark did not fail."""
    found = _record(folder)
    if found is None or found.exit_code == BENCHMARK_FAILED or found.fingerprint != fingerprint:
        return None
    return found


def _record(folder: Path) -> Record | None:
    """What a case's folder says of it, or None where it says nothing that can be read."""
    with suppress(BadInput, ValueError, TypeError):
        return record_from(read_json(folder / CASE_FILE, "case"))
    return None


def _emptied(folder: Path) -> Path:
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    return folder


def _measured(job: Job, folder: Path, quiet: bool) -> Verdict | None:
    """Measure, and judge what comes of it; None if it was interrupted."""

    def place() -> Path:
        return folder

    if len(job.plans) > 1:
        return gate_live(job.plans, job.limits, job.force, place, quiet)
    launched = launch(job.plans, place, quiet=quiet)
    if launched.interrupted:
        return None
    stored = None if job.baseline is None else saved_result(job.baseline)
    verdict = gate_stored(launched.results[0], stored, job.limits, job.force)
    if job.baseline is not None and stored is None:
        # Green would say that there was no regression.
        unknown = Check("baseline", UNCLEAR, f"the baseline has no result of this case: {job.baseline}")
        verdict = replace(verdict, checks=[*verdict.checks, unknown])
    return verdict


def _judged(verdict: Verdict) -> dict[str, Any]:
    """A verdict as a `Record` has it."""
    found: dict[str, Any] = {"outcome": verdict.word, "exit_code": verdict.code, "reason": None}
    found["checks"] = [check.to_dict() for check in verdict.checks]
    reasons = verdict.failed or [check.text for check in verdict.checks if check.verdict != PASSED]
    if len(verdict.results) == 1:
        reasons = [line.removeprefix(f"{verdict.names[0]}: ") for line in reasons]
    if reasons:
        found["reason"] = "; ".join(reasons)
    if not any(case.status == OK for case in verdict.results[0].cases) and not verdict.failed:
        reason = "nothing was measured: no mode that was asked for is supported"
        found.update(outcome=BROKEN, exit_code=BENCHMARK_FAILED, reason=reason)
    return {**found, **figures(verdict.results[0])}


def _failed(error: Exception) -> dict[str, Any]:
    """An error as a `Record` has it."""
    if isinstance(error, NotComparable):
        return {"outcome": INCOMPARABLE, "exit_code": NOT_COMPARABLE, "reason": str(error)}
    text = str(error) if isinstance(error, OrtbenchError) else one_line(f"{type(error).__name__}: {error}")
    return {"outcome": BROKEN, "exit_code": BENCHMARK_FAILED, "reason": text}


def saved_result(folder: Path) -> Result | None:
    """The result in a case's folder, of the candidate where there are two; None without one.

    Raises:
        BadInput, NotComparable: it cannot be read.
    """
    found = [folder / name for name in _RESULTS if (folder / name).exists()]
    return load(found[0]) if found else None


# The suite's folder


@contextmanager
def writable(place: Path) -> Iterator[None]:
    """What cannot be written inside the block is bad input.

    Raises:
        BadInput: with the reason.
    """
    try:
        yield
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"--out {place}: is not a folder") from None
    except OSError as error:
        raise BadInput(f"--out {place}: cannot be written: {error.strerror}") from None


def claim(out: Path, name: str, file_sha256: str, ids: Sequence[str]) -> None:
    """Make a suite's folder, or take up the one that is there.

    Cases are folders in it that are emptied when they are run again, so nothing else's folder will do.

    Raises:
        BadInput: it is something else's, or cannot be written.
    """
    with writable(out):
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            there = _suite(out)["name"]
            if there != name:
                raise BadInput(f"--out {out}: holds suite {there!r}, not {name!r}; name another folder")
        data = {"name": name, "file_sha256": file_sha256, "cases": list(ids)}
        write_atomically(out / SUITE_FILE, _json(data))


def _suite(folder: Path) -> dict[str, Any]:
    """What a suite's folder says of its suite.

    Raises:
        BadInput: it is not the folder of a suite.
    """
    with suppress(BadInput, KeyError, TypeError, AttributeError):
        data = read_json(folder / SUITE_FILE, "suite")
        # Cases are folders that are emptied: nothing may name one outside.
        plain = all(plain_name(name) == name.lstrip(".") for name in data["cases"])
        if plain and {"name", "file_sha256"} <= data.keys():
            return dict(data)
    raise BadInput(f"{folder} is not the folder of a suite: it has no {SUITE_FILE}")


def write_summary(out: Path, name: str, records: Sequence[Record]) -> None:
    """Write the summary's files.

    Raises:
        BadInput: the folder cannot be written.
    """
    with writable(out):
        write_atomically(out / "summary.md", markdown(name, records))
        write_atomically(out / "summary.csv", csv(records))


def merge(folders: Sequence[Path], out: Path) -> tuple[str, list[Record], list[str]]:
    """Put the shards of one suite together in a folder.

    Args:
        folders: of the shards; a case may be in any of them.
        out: the folder to make.

    Returns:
        The suite's name, a record for each of its cases (`MISSING` where no shard has it), and remarks.

    Raises:
        BadInput: they are not of one suite, a case was measured differently in two of them, or a folder cannot be written.
    """
    suites = [_suite(folder) for folder in folders]
    for folder, suite in zip(folders, suites, strict=True):
        for key, what in (("name", "suite"), ("file_sha256", "version of the suite's file"), ("cases", "set of cases")):
            if suite[key] != suites[0][key]:
                raise BadInput(f"{folders[0]} and {folder} do not belong together: each is of another {what}")
        if out.resolve() == folder.resolve():
            raise BadInput(f"--out {out}: is one of the folders that are merged")
    places, remarks = _places(folders, suites[0]["cases"])
    claim(out, suites[0]["name"], suites[0]["file_sha256"], suites[0]["cases"])
    records = []
    for name in suites[0]["cases"]:
        if name not in places:
            records.append(Record(name, "", "", "", "", MISSING, BENCHMARK_FAILED, "no folder has it"))
            continue
        folder, record = places[name]
        with writable(out):
            shutil.copytree(folder, _emptied(out / name), dirs_exist_ok=True)
        records.append(record)
    return suites[0]["name"], records, remarks


def _places(folders: Sequence[Path], ids: Sequence[str]) -> tuple[dict[str, tuple[Path, Record]], list[str]]:
    """For each case its folder and record, and a remark for each one that several folders have.

    Raises:
        BadInput: two folders have it, and not of the same.
    """
    places: dict[str, tuple[Path, Record]] = {}
    remarks = []
    for name in ids:
        for folder in folders:
            record = _record(folder / name)
            if record is None:
                continue
            if name not in places:
                places[name] = folder / name, record
                continue
            first, other = places[name]
            if other.fingerprint != record.fingerprint:
                raise BadInput(f"{first} and {folder / name} were not measured on the same thing; merge one of them")
            remarks.append(f"{name} is in several folders: {first} counts, {folder / name} does not")
    return places, remarks


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
