"""Files that cannot be written: what was measured is shown all the same, one line says which and why, no file is half."""

from __future__ import annotations

import fcntl
import os
import shutil
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
SHORT = ("--iterations", 2, "--warmup", 1)
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
    "r.json": "--json",
    "j.xml": "--junit",
    "a.json": "--action-json",
    "p.html": "--html",
    "t.json": "--trace",
    "b.json": "--bmf",
}


def exports(place: Path, *names: str) -> list[object]:
    return [word for name in names for word in (EXPORTS[name], place / name)]


def test_a_run_with_nothing_left(disk: SmallDisk) -> None:
    ran = disk.run(0, "run", TINY, "--ep", "cpu", *ONCE, "--out", disk.place, *exports(disk.place, *EXPORTS))
    assert "device-resident" in ran.out
    assert not_written(ran) == {"result.json", "table.md", "table.csv", *EXPORTS}
    assert disk.files() == set()


def test_a_run_writes_what_there_is_room_for(disk: SmallDisk) -> None:
    # In this order: result (5 or 6 pages), Markdown (1 or 2), CSV and JUnit (1 each), and more than the rest is the page.
    ran = disk.run(
        12 * PAGE, "run", TINY, "--ep", "cpu", *ONCE, "--out", disk.place, *exports(disk.place, "j.xml", "p.html")
    )
    assert "device-resident" in ran.out
    assert not_written(ran) == {"p.html"}
    assert disk.files() == {"result.json", "table.md", "table.csv", "j.xml"}


def test_what_is_kept_during_a_run_does_not_end_it(disk: SmallDisk) -> None:
    # When a state of the result has been kept, something else takes all of the disk but room for two small files.
    ran = disk.run(
        64 * A_LOT, "run", TINY, "--ep", "cpu", "--mode", "cpu-tensors", "--iterations", 9000, "--warmup", 1, "--out", disk.place,
        meanwhile=f"cat /dev/zero >> $0/filler; truncate -s -{2 * PAGE} $0/filler",
    )  # fmt: skip
    assert "Saved in" in ran.out
    assert "result.json (an earlier state of it is there)" in ran.err
    assert not_written(ran) == {"result.json"}
    assert disk.files() == {"result.json", "table.md", "table.csv"}


@pytest.mark.parametrize(("room", "kept"), [(0, set()), (PAGE, {"table.md"})])
def test_a_live_gate(room: int, kept: set[str], disk: SmallDisk) -> None:
    ran = disk.run(
        room, "gate", "--model", TINY, "--ep", "cpu", "--mode", "cpu-tensors", "--max-cpu-nodes", 99, "--duration", 0.2, "--warmup", 1,
        "--out", disk.place, *exports(disk.place, "r.json", "j.xml"),
    )  # fmt: skip
    assert "passed" in ran.out
    assert (
        not_written(ran) == {"result.json", "table.md", "table.csv", "gate.json", "gate.md", "r.json", "j.xml"} - kept
    )
    assert disk.files() == kept


def a_suite(folder: Path) -> Path:
    file = folder / "bench.toml"
    file.write_text(
        f'[defaults]\nep = "cpu"\nmode = "cpu-tensors"\niterations = 2\nwarmup = 1\n[[bench]]\nmodel = "{TINY}"\n'
    )
    return file


def test_a_suite_and_what_it_did_is_not_done(disk: SmallDisk, tmp_path: Path) -> None:
    words = "suite", a_suite(tmp_path), "--out", disk.place / "s", *exports(disk.place, "r.json", "j.xml", "a.json")
    ran = disk.run(PAGE, *words, "--quiet")
    assert not_written(ran) == {
        *("result.json", "table.md", "table.csv", "case.json"), "summary.md", "summary.csv", "r.json", "j.xml", "a.json"
    }  # fmt: skip
    assert disk.files() == {"suite.json"}
    ran = disk.run(PAGE, *words)
    assert "suite bench, 1 case: 1 measured" in ran.out


def test_the_job_summary_is_whole_or_as_it_was(disk: SmallDisk) -> None:
    ran = disk.run(
        PAGE, "run", TINY, "--ep", "cpu", *ONCE, "--out", disk.place.parent / "out",
        meanwhile="echo before > $0/summary.md",
        GITHUB_STEP_SUMMARY=str(disk.place / "summary.md"),
    )  # fmt: skip
    assert "device-resident" in ran.out
    if ran.code == 0:  # it fits: then all of it is there
        assert (disk.kept / "summary.md").read_text().endswith("\n")
    else:
        assert (disk.kept / "summary.md").read_text() == "before\n"


PRINTED: dict[str, tuple[object, ...]] = {
    "page": ("report", RESULT, "--html", "-"),
    "table": ("compare", RESULT, RESULT),
    "completion": (),
}


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("what", PRINTED)
def test_standard_output_is_whole_or_one_line_says_that_it_is_not(what: str, unbuffered: str, disk: SmallDisk) -> None:
    environment = {"PYTHONUNBUFFERED": unbuffered}
    if what == "completion":
        environment |= {"_ORTBENCH_COMPLETE": "complete_bash", "COMP_WORDS": "ortbench --", "COMP_CWORD": "1"}
    whole = ortbench(*PRINTED[what], **environment)
    assert (whole.code, whole.err) == (0, "")
    size = len(whole.out.encode())
    # A disk takes whole pages, a limit any number of bytes: what is written last is written in part.
    small = f'mount -t tmpfs -o size={PAGE} none "$0" && "$@" > "$0/out"'
    spaces = "-m" if os.geteuid() == 0 else "-Urm"
    of_limit = ("sh", "-c", f'prlimit --fsize={size // 2} "$@" > "$0"', str(disk.place.parent / "out"))
    of_disk = ("unshare", spaces, "sh", "-c", small, str(disk.place))
    for prefix in [of_limit, of_disk][: 1 + (size > PAGE)]:
        ran = ortbench(*PRINTED[what], prefix=prefix, **environment)
        reason = FULL if prefix[0] == "unshare" else "File too large"
        assert (ran.code, ran.error_line) == (1, f"standard output was not written: {reason}")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_that_does_not_block_and_is_full_for_a_while(unbuffered: str) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    size = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PAGE)
    os.write(writing, bytes(size))
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    line = command(*PRINTED["page"])
    with subprocess.Popen(line, stdout=writing, stderr=subprocess.PIPE, env=environment) as process:
        os.close(writing)
        time.sleep(1)  # most of its start; whatever it has written by then, it cannot have written all
        assert process.poll() is None
        with os.fdopen(reading, "rb") as pipe:
            printed = pipe.read()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait()) == (b"", 0)
    assert printed[size:].decode() == ortbench(*PRINTED["page"]).out


@pytest.mark.parametrize("line", [("--version",), ("run", "--help"), ("run", TINY, "--ep", "cpu", *ONCE)])
def test_a_closed_standard_output(line: tuple[object, ...], tmp_path: Path) -> None:
    more = ("--out", tmp_path) if TINY in line else ()
    ran = ortbench(*line, *more, prefix=("sh", "-c", '"$@" >&-', "sh"))
    assert (ran.code, ran.out, "Traceback" in ran.err) == (0, "", False)
    assert len(list(tmp_path.glob("*/table.md"))) == bool(more)


@pytest.mark.parametrize(
    ("meanwhile", "why", "left"),
    [
        ("mount -o remount,bind,ro $0", "Read-only file system", {"result.json"}),
        ("rm -r $0/tiny*", "No such file or directory", set()),
    ],
)
def test_a_folder_that_becomes_read_only_or_is_removed(
    meanwhile: str, why: str, left: set[str], disk: SmallDisk
) -> None:
    line = ("run", TINY, "--ep", "cpu", "--iterations", 9, "--warmup", 1, "--out", disk.place)
    ran = disk.run(64 * A_LOT, *line, meanwhile=meanwhile)
    assert "device-resident" in ran.out
    assert ("result.json (an earlier state of it is there)" in ran.err) == bool(left)
    assert not_written(ran, why) == {"result.json", "table.md", "table.csv"}
    assert disk.files() == left


def test_a_file_too_large_for_the_user(tmp_path: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("no prlimit to set a limit with")
    line = (
        "run",
        TINY,
        "--ep",
        "cpu",
        "--mode",
        "cpu-tensors",
        *ONCE,
        "--out",
        tmp_path,
    )  # one mode: a table of half a page
    ran = ortbench(*line, prefix=("prlimit", f"--fsize={PAGE}"))
    assert not_written(ran, "File too large") == {"result.json"}
    assert {path.name for path in tmp_path.glob("*/[!.]*")} == {"table.md", "table.csv"}
