"""A process that is started, what it says of itself, and the file cache that it finds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ortbench.core.errors import BenchmarkFailed
from ortbench.features.start.measure import (
    FOUND,
    PROGRAM,
    drop_from_cache,
    files_of,
    read_into_cache,
    run_program,
    share_cached,
)
from ortbench.features.start.measure.kept_files import KeptFiles
from ortbench.model.modes import LATENCY, START_MEMORY, START_PARTS

TELLS = """
import time
begun = time.perf_counter_ns()
times = [begun + at * 1_000_000 for at in (0, 10, 11, 31, 32, 36, 39)]
with open(__file__.replace("program.py", "found.json"), "w") as file:
    file.write(f'{{"times": {times}, "memory": 5, "cpu": 7, "waits": [1, 2, 3]}}')
"""


@pytest.mark.process
def test_a_start_is_made_of_its_parts(tmp_path: Path) -> None:
    (tmp_path / PROGRAM).write_text(TELLS)
    found = run_program(tmp_path, None, 60)
    parts = [found.samples[part] for part in START_PARTS]
    assert parts[1:] == [10_000_000, 1_000_000, 20_000_000, 1_000_000, 4_000_000]
    assert found.samples[LATENCY] == sum(parts)
    assert parts[0] >= found.launch_ns // 2 > 0  # the process can begin before its parent goes on
    assert (found.samples["start.second_inference"], found.samples[START_MEMORY]) == (3_000_000, 5)
    assert (found.cpu_ns, found.waits) == (7, [1, 2, 3])


@pytest.mark.process
@pytest.mark.parametrize(
    ("program", "timeout_s", "reason"),
    [
        ("raise SystemExit('no such EP')", 60, "a start ended with exit code 1; its last words: no such EP"),
        ("import time; time.sleep(60)", 0.2, "a start took more than 0.2 s and was stopped (--timeout)"),
        ("pass", 60, "a start ended with exit code 0"),
    ],
)
def test_a_start_that_comes_to_nothing_says_why(tmp_path: Path, program: str, timeout_s: float, reason: str) -> None:
    (tmp_path / PROGRAM).write_text(program)
    (tmp_path / FOUND).write_text("{}")  # of the start before
    with pytest.raises(BenchmarkFailed) as failed:
        run_program(tmp_path, None, timeout_s)
    assert str(failed.value) == reason


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system cannot be asked to drop files from its cache")
def test_a_model_is_in_the_file_cache_or_not(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    for file in (model, tmp_path / "m.onnx.data"):
        file.write_bytes(os.urandom(1 << 20))
    (tmp_path / "other.onnx").write_bytes(b"")
    files = files_of(model)
    assert {it.name for it in files} == {"m.onnx", "m.onnx.data"}
    read_into_cache(files)
    assert share_cached(files) == 1.0
    assert drop_from_cache(files)
    left = share_cached(files)
    if left == 1.0:
        pytest.skip("this file system keeps its files in memory")
    assert left is not None
    assert left < 0.05


STARTS: dict[str, tuple[Callable[[Path], object], int, int]] = {  # whether it reads what was there, or changes it
    "reads": (lambda file: file.read_bytes(), 1, 0),
    "writes it as it was": (lambda file: file.write_bytes(file.read_bytes()), 1, 0),
    "does not read": (lambda file: file.stat(), 0, 0),
    "another engine beside it": (lambda file: file.with_suffix(".2").write_text("2"), 0, 1),
    "another engine in its place": (lambda file: file.write_text("2"), 0, 1),
    "removes it": (lambda file: file.unlink(), 0, 1),
}


@pytest.mark.parametrize("name", STARTS)
def test_what_a_start_did_with_a_warm_compile_cache_is_seen(name: str, tmp_path: Path) -> None:
    file = tmp_path / "compiled" / "of a device" / "engine.bin"
    file.parent.mkdir(parents=True)
    file.write_text("1")
    start, reading, changing = STARTS[name]
    kept = KeptFiles(tmp_path / "compiled")
    for _ in range(2 if changing == 0 else 1):
        with kept.watch_start():
            start(file)
    found = kept.describe()
    if found["reading"] is None:
        pytest.skip("this file system does not say when a file was read")
    files = list(file.parent.iterdir())
    assert (found["files"], found["bytes"]) == (len(files), len(files))
    assert (found["reading"], found["changing"]) == (reading * found["starts"], changing * found["starts"])


def test_an_ep_that_keeps_nothing_makes_no_folder(tmp_path: Path) -> None:
    kept = KeptFiles(tmp_path / "compiled")
    with kept.watch_start():
        pass
    assert {**kept.describe(), "reading": 0} == {"files": 0, "bytes": 0, "starts": 1, "reading": 0, "changing": 0}
