"""What a suite came to: a record for each case, the exit code, and the folder that has them.

The folder holds ``suite.json`` (which suite, and the ids of all its cases), ``summary.md``, ``summary.csv``, and for each case a
folder named by its id: what the run or the live gate leaves, and ``case.json``, which is written last. A case whose
``case.json`` has the fingerprint that it would have now is done.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from ortbench.analysis.derive import DEVICE, HOST, cpu_time_ns, figure
from ortbench.analysis.items import point_as_result
from ortbench.analysis.speedups import (
    FASTER,
    NOISY,
    UNKNOWN,
    claim_of,
    compared_modes,
    fastest,
    keeps_on_host,
    may_be_faster,
)
from ortbench.core.errors import BENCHMARK_FAILED, CANNOT_TELL, DONE, NOT_COMPARABLE, REGRESSION, BadInput
from ortbench.core.features import part_of
from ortbench.core.files import make_folder, make_ignored, note, why_lacking, write_atomically, write_or_note
from ortbench.core.parts import Wrong, keys_of, text, value_text
from ortbench.core.safe_text import plain_name
from ortbench.core.units import seconds, times
from ortbench.facts import doubt_facts, noise_facts
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR, Check, sentence
from ortbench.model import file_reading
from ortbench.model.kinds import RUN, kind_of
from ortbench.model.modes import CPU, ENERGY, ITEM_THROUGHPUT, ITEM_TIME, LATENCY, is_rate, mode_of
from ortbench.model.result import OK, Result, work_of
from ortbench.model.result_file import check_numbers, load, writable
from ortbench.model.schema import Items, Node
from ortbench.plan.plan import REPORTS

SKIPPED, MISSING = "skipped", "missing"
BROKEN, INCOMPARABLE = "benchmark failed", "not comparable"
NONE = "none"  # that is faster
MEASURED = "measured"  # without a gate there is nothing to pass
# The benchmark did what it was asked to, and the gate, if any, has spoken.
CONCLUDED = (PASSED, FAILED, UNCLEAR, MEASURED)
# From the worst to the best: what a whole suite ends with if one of its cases does.
_OUTCOMES = (*CONCLUDED, SKIPPED, MISSING, BROKEN, INCOMPARABLE)
# What is said of a case that has a reason.
_SAID = {
    UNCLEAR: " has no verdict",
    SKIPPED: " was skipped",
    MISSING: " is missing",
    BROKEN: "'s benchmark failed",
    INCOMPARABLE: " is not comparable",
}
_BY_WEIGHT = (BENCHMARK_FAILED, REGRESSION, NOT_COMPARABLE, CANNOT_TELL, DONE)
CASE_FILE, SUITE_FILE = "case.json", "suite.json"
_RESULTS = ("result.json", "candidate/result.json")  # of a run, of a live gate with a baseline


@dataclass(frozen=True)
class Record:
    """What became of one case; `case.json` holds it."""

    id: str  # of the case
    # model, ep, shape: its parts, as the suite calls them
    model: str
    ep: str
    shape: str
    fingerprint: str  # of everything that its figures depend on; empty where nothing was run
    # ``passed``, ``failed`` or ``cannot tell``, as its gate has it, ``measured`` without one; ``not comparable``,
    # ``benchmark failed``, ``skipped`` or ``missing``
    outcome: str
    exit_code: int = DONE  # what `ortbench gate` ends with in such a case
    reason: str | None = None  # why it did not pass, or None
    seconds: float = 0.0  # it took
    checks: list[Check] = field(default_factory=list)  # of its gate
    cpu_ns: float | None = None  # median of mode `cpu-tensors`, ns, or None
    # the mode that figures are of: of those that take new inputs and return outputs in each inference, else of all, one that is measurably
    # faster than `cpu-tensors`, else that one or the first, or None
    fastest: str | None = None
    fastest_ns: float | None = None  # its median, ns, or None
    speedup: float | None = None  # how many times as fast as `cpu-tensors` it is, or None
    faster: str | None = None  # `FASTER`, else `NONE` or `UNCLEAR`; None where there is nothing to compare
    # the same of a mode whose tensors stay on the device, where `fastest` is none of those, or None
    resident: str | None = None
    resident_ns: float | None = None
    resident_speedup: float | None = None
    resident_faster: str | None = None
    in_place: bool = False  # its tensors are in memory that the host reads and writes
    modes: list[str] = field(default_factory=list)  # that were measured
    items: Items | None = None  # how many a run has, and the dimension that says so, or None
    # item_throughput_per_s, item_time_ns: what that mode's median means for them, or None
    item_throughput_per_s: float | None = None
    item_time_ns: float | None = None
    steps: int | None = None  # of a loop, or None
    step_throughput_per_s: float | None = None  # what that mode's median means for them, or None
    cpu_time_ns: int | None = None  # what a run in that mode takes of the CPU, ns, or None
    # device_memory_bytes, host_memory_bytes: what that mode takes of each side's memory, bytes, or None
    device_memory_bytes: int | None = None
    host_memory_bytes: int | None = None
    noise: str | None = None  # what made the machine a busy one, in a sentence, or None
    energy_j: float | None = None  # what a run of that mode draws, J, or None
    # throughput_per_s, clients: of a load, the most inferences/s and with how many clients (`fastest` is their mode), or None
    throughput_per_s: float | None = None
    clients: int | None = None
    knee: int | None = None  # how many clients are worth it in that mode, or None
    slo_rate: float | None = None  # the highest rate that keeps the SLO in any mode, or None
    best_shape: str | None = None  # of a sweep, the shape that gets most items done, of which the figures are, or None
    provider: str | None = None  # the EP's full name, or None where nothing was opened
    node: Node | None = None  # the machine that it was on, where the suite was spread over a cluster, or None
    doubtful: str | None = None  # why its figures are left out of ratios, in a sentence, or None

    def line(self, was_done: bool) -> str:
        """The case in a line, as it is told when it ends or turns out to be done."""
        parts = [] if self.reason else [self.outcome]
        if self.best_shape is not None:
            parts.append(f"best {self.best_shape}")
        if self.faster == FASTER and self.speedup is not None:
            parts.append(f"{self.fastest} {times(self.speedup)} as fast as {CPU}")
        if self.resident_faster == FASTER and self.resident_speedup is not None:
            needs = RUN.on_host_needs if self.in_place else RUN.on_device_needs
            parts.append(f"{self.resident} {times(self.resident_speedup)} if {needs}")
        if self.node is not None:
            parts.append(f"on {self.node['name']}")
        if was_done or self.seconds:
            parts.append("done before" if was_done else f"took {seconds(self.seconds * 1e9)}")
        if self.reason:
            return self.explain_outcome(f" ({', '.join(parts)})" if parts else "")
        return f"{self.id}: {', '.join(parts)}"

    def explain_outcome(self, more: str = "") -> str:
        return f"{self.id}{_SAID.get(self.outcome, f' {self.outcome}')}{more}: {self.reason}"


def record_from(content: bytes, name: str) -> Record:
    """What a case's file holds (else `BadInput`); `name` is what messages call it."""
    return file_reading.decode(content, name, Record, _check)


def _check(record: Record) -> None:
    for key, known in (("outcome", _OUTCOMES), ("exit_code", _BY_WEIGHT)):
        if (value := getattr(record, key)) not in known:
            raise Wrong(f"{value_text(value)} is none of the values that are known", key)
    check_numbers(keys_of(record))


Figures = dict[str, Any]  # the figures of a `Record`, by its attributes' names; empty where nothing was measured


def figures(result: Result) -> Figures:
    where: Figures = {
        "provider": result.target["ep"],
        "node": result.environment.get("node"),
        "modes": [*dict.fromkeys(case.mode for case in result.cases if case.status == OK)],
        "noise": next(map(sentence, noise_facts(result)), None),
        "doubtful": next(map(sentence, doubt_facts(result)), None),
    }
    best_shape = part_of(result.kind, "analysis", "most_items")
    own = part_of(result.kind, "analysis", "suite_figures", _of_times)
    figures = _of_best_shape(result, best_shape(result)) if best_shape else own(result)
    return {**where, **figures}


def _of_times(result: Result) -> Figures:
    timed = [case for case in result.cases if result.case(case.mode) and not is_rate(case.mode, LATENCY)]
    medians = {case.mode: median for case in timed if (median := case.median(LATENCY))}
    if not medians:
        return {}
    is_one_group = kind_of(result.kind).counts_crossings
    kept = [mode for mode in medians if mode_of(mode).on_device and not is_one_group]
    new = [mode for mode in medians if mode not in kept] or kept
    shown, faster = _faster(result, new, None if is_one_group or new is kept else False)
    resident, resident_faster = (None, None) if new is kept or not kept else _faster(result, kept, True)
    found, there = result.case(shown), None if resident is None else result.case(resident)
    assert found is not None  # all that were timed are ok
    spent = cpu_time_ns(found)
    return {
        "cpu_ns": medians.get(CPU),
        "fastest": shown,
        "fastest_ns": medians[shown],
        "speedup": found.speedup.value if found.speedup else None,
        "faster": faster,
        "resident": resident,
        "resident_ns": None if resident is None else medians[resident],
        "resident_speedup": there.speedup.value if there is not None and there.speedup else None,
        "resident_faster": resident_faster,
        "in_place": resident is not None and keeps_on_host(result),
        "items": result.items,
        "item_throughput_per_s": found.value(ITEM_THROUGHPUT),
        "item_time_ns": found.value(ITEM_TIME),
        "steps": work_of(result).steps,
        "energy_j": found.value(ENERGY),
        "step_throughput_per_s": found.value("step_throughput"),
        "cpu_time_ns": None if spent is None else round(spent),
        "device_memory_bytes": figure(found, DEVICE),
        "host_memory_bytes": figure(found, HOST),
    }


def _faster(result: Result, modes: Sequence[str], on_device: bool | None) -> tuple[str, str | None]:
    """The mode of some that figures are of, and whether one is measurably faster than `cpu-tensors`."""
    best = fastest(result, on_device)
    if best is not None and best.claim == FASTER:
        return best.mode, FASTER
    cases = compared_modes(result, on_device)
    is_none = all(claim_of(it) not in (UNKNOWN, NOISY) and not may_be_faster(it.speedup) for it in cases)
    return CPU if CPU in modes else modes[0], None if not cases else NONE if is_none else UNCLEAR


def _of_best_shape(result: Result, name: str | None) -> Figures:
    """Those of the shape that gets most items done, as a run of it would have them."""
    shape = next((it for it in result.shapes if it.name == name), None)
    return {} if shape is None else {**_of_times(point_as_result(result, shape)), "best_shape": name}


def exit_code(records: Sequence[Record]) -> int:
    """The worst of the cases: failed before regression before not comparable before cannot tell before done."""
    return min((record.exit_code for record in records), key=_BY_WEIGHT.index, default=DONE)


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
    return file_reading.decode(file_reading.content_of(file), str(file), Suite, _check_suite)


def _check_suite(suite: Suite) -> None:
    for number, name in enumerate(suite["cases"]):
        # Cases are folders that are emptied: nothing may name one outside.
        if not name or plain_name(name) != name.lstrip(".") or name in suite["cases"][:number]:
            raise Wrong(f"{value_text(name)} is no name of a case, or of another one too", "cases", number)


def done_record(folder: Path, fingerprint: str, resources: Mapping[str, float]) -> Record | None:
    """The record that a case's folder holds, if it is of the same thing with the same resources of a cluster and the benchmark did not fail."""
    found = record_in(folder)
    if found is None or found.exit_code == BENCHMARK_FAILED or found.fingerprint != fingerprint:
        return None
    return found if (found.node["resources"] if found.node else {}) == resources else None


def record_in(folder: Path) -> Record | None:
    """What a case's folder says of it, or None where it has no record; `BadInput` where that cannot be read."""
    file = folder / CASE_FILE
    return record_from(file_reading.content_of(file), str(file)) if file.is_file() else None


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
        for folder, record in found[case][1:]:
            first, other = found[case][0]
            if other.fingerprint != record.fingerprint:
                raise BadInput(f"{first} and {folder} were not measured on the same thing; merge one of them")
            remarks.append(f"{case} is in several folders: {first} counts, {folder} does not")
    with writable(out):
        _open_folder(out, name)
    write_or_note(out / SUITE_FILE, text(suites[0]))
    records = []
    for case in ids:
        if found[case]:
            folder, record = found[case][0]
            _copy_case(folder, record, out / case)
            records.append(record)
        else:
            records.append(Record(case, "", "", "", "", MISSING, BENCHMARK_FAILED, "no folder has it"))
    return name, records, remarks


def _copy_case(folder: Path, record: Record, target: Path) -> None:
    try:
        empty_folder(target)
        ignored = shutil.ignore_patterns(CASE_FILE)
        shutil.copytree(folder, target, ignore=ignored, copy_function=_copy_file, dirs_exist_ok=True)
    except OSError as error:
        note(str(target), error.strerror or "not every file could be copied")
    write_record(record, target)


def _copy_file(source: str, target: str) -> None:
    write_or_note(Path(target), Path(source).read_bytes())  # whole or not at all
