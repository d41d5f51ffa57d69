"""What a profiled session says, exactly; that Nsight's export is read right; what the schedule of a session is."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from ortbench.core.errors import BenchmarkFailed
from ortbench.features.profile import measure as nsys
from ortbench.features.profile import report as report_profile
from ortbench.features.profile.analysis import DOWN, UP, Copies, Profile, Range, Recording
from ortbench.model.modes import CPU, DEVICE
from ortbench.model.result import Result
from tests.nsys.export import Export
from tests.results import broken, measured, result_of, steady

MS = 1_000_000


def session() -> Result:
    return result_of(
        measured(CPU, latency=steady([4 * MS])),
        measured(DEVICE, h2d=steady([1 * MS]), inference=steady([2 * MS]), latency=steady([4 * MS])),
        broken("host-accessible", "unsupported", "no such memory"),
    )


def recording(**ranges: Range) -> Recording:
    """A recording with the ranges of `session`, some of them changed: ``device__h2d=Range(…)``."""
    plain = {"cpu/latency": 4, "device/h2d": 1, "device/inference": 2, "device/latency": 4}
    named = {name.replace("/", "-tensors/"): took for name, took in plain.items()}
    found = {name: Range(name, (took * MS,) * 3, (), 0, 0) for name, took in named.items()}
    found |= {key.replace("__", "-tensors/"): value for key, value in ranges.items()}
    copies = (Copies(UP, "Pageable", 6, 6_000_000, 6 * MS), Copies(DOWN, None, 3, 3000, 3000))
    return Recording("2026.1", "report.nsys-rep", "NVIDIA H200", found, copies, 9, 18 * MS)


_COPIES = (Copies(UP, "Pageable", 3, 3_000_000, 3 * MS), Copies(DOWN, "Pageable", 3, 300, 1 * MS))
CPU_LATENCY = Range("cpu-tensors/latency", (4 * MS,) * 3, _COPIES, 3, 6 * MS)


def test_what_the_gpu_did_stands_beside_what_was_measured() -> None:
    made = Profile(session(), recording(cpu__latency=CPU_LATENCY))
    table = report_profile.phase_table(made)
    assert [it.name for it in table.columns] == ["phase", "samples", "ortbench", "range", "H2D", "D2H", "kernels"]
    assert table.rows[0] == ("cpu-tensors/latency", "3", "4.00", "4.00", "1.00 (1.00 MB)", "0.333 (100 B)", "2.00")
    assert table.rows[1] == ("device-tensors/h2d", "3", "1.00", "1.00", "–", "–", "–")
    agree, copies = report_profile.nsight_says(made)
    assert agree.startswith("Nsight's ranges and ortbench's samples agree: at most 0.0% apart")
    assert (
        "33% of an inference with cpu-tensors, by the GPU's clock: Host-to-Device 1.00 ms (1.00 MB in 1 copy" in copies
    )


def test_ranges_that_do_not_fit_the_samples_are_named() -> None:
    for samples_ms, words in (
        ((2, 1, 1), "Nsight's ranges and ortbench's samples differ: at most 33.3% apart in sum (device-tensors/h2d)."),
        ((1,), "Nsight Systems has fewer ranges than ortbench has samples of device-tensors/h2d."),
    ):
        found = Range("device-tensors/h2d", tuple(ms * MS for ms in samples_ms), (), 0, 0)
        assert report_profile.nsight_says(Profile(session(), recording(device__h2d=found)))[0] == words


def read(export: Export, folder: Path) -> Recording:
    return nsys.read_export(export.write(folder / "report.sqlite"), "2026.1", folder / "report")


def test_gpu_work_belongs_to_the_ranges_in_which_it_was_launched(tmp_path: Path) -> None:
    """That of a step is of its loop, too."""
    export, name, step = Export(), "cpu-tensors/loop", "cpu-tensors/step"
    for domain, ranged, start, end in (
        ("ortbench", "cpu-tensors", 0, 100), ("ortbench", name, 10, 40), ("ortbench", name, 50, 90), ("another", name, 0, 100),
        ("ortbench", step, 11, 30),
    ):  # fmt: skip
        export.push_pop(domain, ranged, start, end)
    export.copy(launched=12, start=13, end=20, size=1000, kind=UP, source="Pageable", target="Device")
    export.copy(launched=15, start=44, end=49, size=10, kind=DOWN, source="Device", target="Pinned")
    export.copy(launched=45, start=51, end=55, size=7, kind=UP, source="Pinned", target="Device")  # between the ranges
    export.kernel(launched=60, start=61, end=81)
    export.kernel(launched=95, start=96, end=97)  # after them, still inside the block
    export.kernel(launched=62, start=63, end=64, process=2)  # another process
    found = read(export, tmp_path)
    inside = (Copies(UP, "Pageable", 1, 1000, 7), Copies(DOWN, "Pinned", 1, 10, 5))
    assert found.ranges == {name: Range(name, (30, 40), inside, 1, 20), step: Range(step, (19,), inside, 0, 0)}
    assert (found.gpu, found.kernels, found.kernels_ns) == ("A GPU", 3, 22)
    assert found.copies == (*inside, Copies(UP, "Pinned", 1, 7, 4))
    assert found.report == str(tmp_path / "report.nsys-rep")


def test_what_is_no_export_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE NVTX_EVENTS (other INTEGER)")
    connection.close()
    (tmp_path / "cut.sqlite").write_bytes(b"SQLite format 3" * 99)
    for exported in (path, tmp_path / "cut.sqlite"):
        with pytest.raises(BenchmarkFailed, match="is not an export that this version can read"):
            nsys.read_export(exported, "2026.1", tmp_path / "report")
