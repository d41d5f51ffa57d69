"""Files that cannot be written: what was measured is shown all the same, one line says which and why, no file is half."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.conftest import MODELS, ONCE, ROOT, Ran, command, ortbench
from tests.small_disk import PAGE, SmallDisk, small_disk

pytestmark = pytest.mark.process

TINY = MODELS / "tiny.onnx"
FULL = "No space left on device"
RESULT = ROOT / "reports" / "copy_bound-refdevice"
A_LOT = 64 * PAGE  # samples that no small disk holds


@pytest.fixture
def disk(tmp_path: Path) -> SmallDisk:
    return small_disk(tmp_path)


def not_written(ran: Ran, why: str = FULL) -> set[str]:
    """The names of the files of which the command says that they were not written, which must be all that it says."""
    assert ran.code == 1, ran
    reason = ran.error_line.partition(" not written: ")[2]
    assert reason == why
    listed = ran.error_line.partition(" not written: ")[0].removesuffix(" were").removesuffix(" was")
    names = listed.replace(" (an earlier state of it is there)", "").split(", ")
    return {Path(name.split()[-1]).name for name in names}


EXPORTS = {
    "r.json": "--json", "j.xml": "--junit", "a.json": "--action-json", "p.html": "--html", "t.json": "--trace", "b.json": "--bmf",
}  # fmt: skip


TABLES = {"result.json", "table.md", "table.csv"}


def exports(place: Path, *names: str) -> list[object]:
    return [word for name in names for word in (EXPORTS[name], place / name)]


def test_a_run_writes_what_there_is_room_for(disk: SmallDisk) -> None:
    line = ("run", TINY, "--ep", "cpu", *ONCE, "--out", disk.place)
    # Nothing, or, in this order: result (5 or 6 pages), Markdown (1 or 2), CSV and JUnit (1 each); more than the rest is the page.
    for room, names, left in ((0, [*EXPORTS], set()), (12 * PAGE, ["j.xml", "p.html"], {*TABLES, "j.xml"})):
        ran = disk.run(room, *line, *exports(disk.place, *names))
        assert "device-resident" in ran.out
        assert not_written(ran) == {*TABLES, *names} - left
        assert disk.files() == left


PAGE_OF_A_RESULT = ("report", RESULT, "--html", "-")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_standard_output_is_whole_or_one_line_says_that_it_is_not(unbuffered: str, disk: SmallDisk) -> None:
    spaces = "-m" if os.geteuid() == 0 else "-Urm"
    in_small = f'mount -t tmpfs -o size={PAGE} none "$0" && "$@" > "$0/out"'
    of_disk = ("unshare", spaces, "sh", "-c", in_small, str(disk.place))
    # A disk takes whole pages, a limit any number of bytes: what is written last is written in part.
    of_limit = ("sh", "-c", 'prlimit --fsize=999 "$@" > "$0"', str(disk.place.parent / "out"))
    for line, prefix, reason in (
        (PAGE_OF_A_RESULT, of_disk, FULL),
        (("compare", RESULT, RESULT), of_limit, "File too large"),
    ):
        ran = ortbench(*line, prefix=prefix, PYTHONUNBUFFERED=unbuffered)
        assert (ran.code, ran.error_line) == (1, f"standard output was not written: {reason}")


def test_a_pipe_that_does_not_block_and_is_full_for_a_while() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PAGE)
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


def test_a_folder_that_becomes_read_only_is_removed_or_is_full(disk: SmallDisk) -> None:
    line = ("run", TINY, "--ep", "cpu", "--warmup", 1, "--out", disk.place)
    # The disk is filled up but for two small files when a state of a large result has been kept.
    fills = f"cat /dev/zero >> $0/filler; truncate -s -{2 * PAGE} $0/filler"
    for words, meanwhile, why, left in (
        (("--mode", "cpu-tensors", "--iterations", 9000), fills, FULL, TABLES),
        (("--iterations", 9), "mount -o remount,bind,ro $0", "Read-only file system", {"result.json"}),
        (("--iterations", 9), "rm -r $0/tiny*", "No such file or directory", set()),
    ):
        ran = disk.run(64 * A_LOT, *line, *words, meanwhile=meanwhile)
        assert "cpu-tensors" in ran.out
        assert ("result.json (an earlier state of it is there)" in ran.err) == bool(left)
        assert not_written(ran, why) == ({"result.json"} if why == FULL else TABLES)
        assert disk.files() == left
