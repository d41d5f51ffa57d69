"""The host's own work: until the call returns, and CPU time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortbench import units
from ortbench.analysis.host import cores, cpu_time_ns, spin_share, submit_share
from ortbench.modes import SUBMIT
from ortbench.report.model import DERIVED, KEY, NOTHING, Block, Column, Kind, Paragraph, Table, columns, filled
from ortbench.result import OK, Case, Result

_COLUMNS = (
    Column("mode", Kind.NAME, KEY),
    # Each in its own unit: a call returns in microseconds where a run takes milliseconds.
    *columns(Kind.NUMBER, "submit", "of inference", group=1),
    *columns(Kind.NUMBER, "CPU time", "user", "system", "cores", group=2),
    Column("per step", Kind.NUMBER, 2),
    *columns(Kind.NUMBER, "spinning", "without", "total without", group=3),
)


def host_blocks(result: Result) -> list[Block]:
    """The table with what its columns mean; nothing of a result in which nothing of it was taken."""
    table = host_table(result)
    if not table.rows:
        return []
    shown = {column.name for column in table.columns}
    said = []
    if "submit" in shown:
        said.append("submit: until the call returns, before any fence.")
    if "CPU time" in shown:
        said.append("CPU time: per run, of all threads of the worker together; cores: how many were in use.")
    if "spinning" in shown:
        said.append("spinning: what threads that wait for work take of it; without: of runs that do not.")
    return [table, Paragraph(" ".join(said))]


def host_table(result: Result) -> Table:
    """A row for each mode of which something was taken; only columns that hold something."""
    steps = None if result.loop is None else result.loop["steps"]
    shown = [case for case in result.cases if case.host is not None or case.median(SUBMIT) is not None]
    return filled(Table(_COLUMNS, tuple(_row(case, steps) for case in shown), title="The host's own work"))


def _row(case: Case, steps: int | None) -> tuple[str, ...]:
    submit, part = case.median(SUBMIT), submit_share(case)
    return (
        case.mode if case.status == OK else f"{case.mode} (failed)",
        NOTHING if submit is None else units.duration(submit),
        NOTHING if part is None else units.share(part),
        *_cpu_cells(case, steps),
        *_spin_cells(case),
    )


def _cpu_cells(case: Case, steps: int | None) -> Sequence[str]:
    found = case.host
    if found is None:
        return [NOTHING] * 5
    runs, each = max(1, found["runs"]), cpu_time_ns(found)
    times = map(units.duration, (each, found["user_ns"] / runs, found["system_ns"] / runs))
    return [*times, f"{cores(found):.2f}", NOTHING if steps is None else units.duration(each / steps)]


def _spin_cells(case: Case) -> Sequence[str]:
    part = spin_share(case)
    if part is None or case.spin is None:
        return [NOTHING] * 3
    return [f"{DERIVED}{units.share(part)}", *map(units.duration, (cpu_time_ns(case.spin), case.spin["total_ns"]))]


def host_records(case: Case) -> dict[str, Any]:
    """The figures for other programs: ns of a run, cores in use, and the same without spinning; None where not taken."""
    found: dict[str, Any] = {}
    for before, taken in (("", case.host), ("spin_off_", case.spin)):
        runs = max(1, taken["runs"]) if taken else 1
        found[f"{before}cpu_ns"] = taken and round(cpu_time_ns(taken))
        found[f"{before}user_ns"] = taken and round(taken["user_ns"] / runs)
        found[f"{before}system_ns"] = taken and round(taken["system_ns"] / runs)
        found[f"{before}cores"] = taken and round(cores(taken), 3)
    found["spin_off_total_ns"] = case.spin and case.spin["total_ns"]
    return found
