"""Files that cannot be written: what was measured is shown all the same, one line says which and why, no file is half."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MODELS, ONCE, ROOT, Ran, command, ortbench

TINY = MODELS / "tiny.onnx"
RESULT = ROOT / "reports" / "copy_bound-refdevice"
PAGE_OF_A_RESULT = ("report", RESULT, "--html", "-")
PIPE = 4096  # bytes, of the smallest
TABLES = {"result.json", "table.md", "table.csv"}
EXPORTS = {
    "r.json": "--json", "j.xml": "--junit", "a.json": "--action-json", "p.html": "--html", "b.json": "--bmf",
}  # fmt: skip
_LAST_TAG = {".html": "</html>", ".xml": "</testsuites>", ".svg": "</svg>"}
BYTES = "ORTBENCH_TESTS_BYTES"  # that a file can have
GONE = "ORTBENCH_TESTS_GONE"  # a folder that is removed


def is_whole(path: Path) -> bool:
    """Whether a file is what its name says, from its beginning to its end."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        json.loads(text)
        return True
    if path.suffix in _LAST_TAG:
        return text.rstrip().endswith(_LAST_TAG[path.suffix])
    return path.suffix in (".md", ".csv") and text.endswith("\n")


def with_small_files() -> None:
    """ortbench where files have so many bytes at most, which keeps each state of a result."""
    import resource

    from ortbench.__main__ import main
    from ortbench.measure import driver

    driver._KEEP_EVERY_S, driver._KEEP_SHARE = 0.0, 1e9
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(os.environ[BYTES]), resource.RLIM_INFINITY))
    main()


def without_a_folder() -> None:
    """ortbench whose folder is removed when some blocks are measured and a state of the result is kept."""
    from ortbench.__main__ import main
    from ortbench.measure import driver
    from ortbench.measure.configuration import Configuration

    driver._KEEP_EVERY_S, driver._KEEP_SHARE = 0.0, 1e9
    block, blocks = Configuration.block, []

    def timed(*given: Any) -> Any:
        blocks.append(given)
        if len(blocks) == 3:
            shutil.rmtree(os.environ[GONE])
        return block(*given)

    Configuration.block = timed  # type: ignore[assignment, method-assign]
    main()


def run(most: int, place: Path, *arguments: object) -> tuple[Ran, set[str], set[str]]:
    """A run whose files have so many bytes at most; the names of files of which it says that they were not written, which must be all
    that it says; and the names of those that it left, all of which must be whole."""
    line = ("run", TINY, "--ep", "cpu", *arguments, "--out", place / "out")
    ran = ortbench(*line, **{BYTES: str(most)}, ORTBENCH_TESTS_MAIN=f"{__name__}:with_small_files")
    listed, _, why = ran.error_line.partition(" not written: ")
    assert (ran.code, why) == (1, "File too large")
    names = re.sub(r" (were|was)$| \(an earlier state of it is there\)", "", listed).split(", ")
    files = [path for path in place.rglob("*") if path.is_file() and path.name[0] != "."]
    assert all(map(is_whole, files))
    return ran, {Path(name.split()[-1]).name for name in names}, {path.name for path in files}


def test_a_run_writes_what_there_is_room_for(tmp_path: Path) -> None:
    for most, names, left in (
        (100, [*EXPORTS], set()),
        (40_000, ["j.xml", "p.html"], {*TABLES, "j.xml"}),
    ):
        place = tmp_path / str(most)
        place.mkdir()
        exports = [word for name in names for word in (EXPORTS[name], place / name)]
        ran, lost, files = run(most, place, *ONCE, *exports)
        assert "device-resident" in ran.out
        assert (lost, files) == ({*TABLES, *names} - left, left)


def test_the_last_state_that_could_be_kept_stays(tmp_path: Path) -> None:
    ran, lost, files = run(60_000, tmp_path, "--mode", "cpu-tensors", "--iterations", 9000, "--warmup", 1)
    assert ("cpu-tensors" in ran.out, "result.json (an earlier state of it is there)" in ran.err) == (True, True)
    assert (lost, files) == ({"result.json"}, TABLES)


def test_a_folder_that_is_removed_meanwhile(tmp_path: Path) -> None:
    out = tmp_path / "out"
    line = ("run", TINY, "--ep", "cpu", "--iterations", 9, "--out", out)
    ran = ortbench(*line, **{GONE: str(out)}, ORTBENCH_TESTS_MAIN=f"{__name__}:without_a_folder")
    assert (ran.code, "cpu-tensors" in ran.out, "Traceback" in ran.err) == (1, True, False)
    assert {Path(it.strip(",")).name for it in ran.error_line.split()} >= TABLES
    assert ran.error_line.endswith("not written: No such file or directory")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_is_whole_or_one_line_says_that_it_is_not(unbuffered: str, tmp_path: Path) -> None:
    """What is written last is written in part."""
    prefix = ("sh", "-c", 'prlimit --fsize=999 "$@" > "$0"', str(tmp_path / "out"))
    ran = ortbench("compare", RESULT, RESULT, prefix=prefix, PYTHONUNBUFFERED=unbuffered)
    assert (ran.code, ran.error_line) == (1, "standard output was not written: File too large")


def test_a_pipe_that_does_not_block_and_is_full_for_a_while() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE)
    os.write(writing, bytes(size))
    with subprocess.Popen(command(*PAGE_OF_A_RESULT), stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        time.sleep(1)  # most of its start; whatever it has written by then, it cannot have written all
        assert process.poll() is None
        with os.fdopen(reading, "rb") as pipe:
            printed = pipe.read()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait()) == (b"", 0)
    assert printed[size:].decode() == ortbench(*PAGE_OF_A_RESULT).out


@pytest.mark.parametrize("line", [("--version",), ("run", TINY, "--ep", "cpu", *ONCE)])
def test_a_closed_standard_output(line: tuple[object, ...], tmp_path: Path) -> None:
    more = ("--out", tmp_path) if TINY in line else ()
    ran = ortbench(*line, *more, prefix=("sh", "-c", '"$@" >&-', "sh"))
    assert (ran.code, ran.out, "Traceback" in ran.err) == (0, "", False)
    assert len(list(tmp_path.glob("*/table.md"))) == bool(more)
