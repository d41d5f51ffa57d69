"""`ortbench clean`: what it lists, and that it removes what ortbench made and nothing else."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
from pathlib import Path

import pytest

from ortbench.core.files import MADE_FILE, make_marked, write_atomically
from ortbench.jobs.clean import look
from ortbench.model.result_file import save
from tests.conftest import MODELS, ONCE, ROOT, command, ortbench, ortbench_here
from tests.results import measured, result_of, steady

pytestmark = pytest.mark.process

DAY = 86400
STAMP = "20260101-120000"


def old(folder: Path, days: float) -> Path:
    """The folder as if everything in it had been written so many days ago."""
    import time

    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            os.utime(path, (time.time() - days * DAY,) * 2)
    return folder


def run_in(out: Path, name: str, days: float = 0.0) -> Path:
    """The folder of a run."""
    folder = make_marked(out / name)
    save(result_of(measured("cpu-tensors", latency=steady([1000] * 3))), folder / "result.json")
    (folder / "table.md").write_text("| a |\n")
    (folder / "table.csv").write_text("a\n")
    return old(folder, days)


def suite_in(out: Path, name: str, days: float = 0.0) -> Path:
    """The folder of a suite with a run and a live gate."""
    folder = make_marked(out / name)
    for marked in ("gate--cpu", "gate--cpu/again", "skipped--cpu"):
        make_marked(folder / marked)
    plain = run_in(folder, "tiny--cpu")
    (plain / "case.json").write_text("{}")
    for side in ("candidate", "baseline"):
        run_in(folder / "gate--cpu", side)
        run_in(folder / "gate--cpu" / "again", side)
    (folder / "gate--cpu" / "gate.json").write_text('{"verdict": "passed", "exit_code": 0}')
    for file in ("gate.md", "case.json"):
        (folder / "gate--cpu" / file).write_text("{}")
    (folder / "skipped--cpu" / "case.json").write_text("{}")
    cases = ["tiny--cpu", "gate--cpu", "skipped--cpu"]
    (folder / "suite.json").write_text(json.dumps({"name": name, "file_sha256": "0", "cases": cases}))
    (folder / "summary.md").write_text("")
    (folder / "summary.csv").write_text("")
    return old(folder, days)


def listed(out: str) -> dict[str, list[str]]:
    """By folder what the table says of it."""
    rows = (line.split() for line in out.splitlines())
    return {Path(row[0]).name: row[1:] for row in rows if len(row) > 4 and row[0] not in ("folder", "!", "•")}


def test_what_is_listed_and_removed(tmp_path: Path) -> None:
    out = tmp_path / "reports"
    run_in(out, "a", days=15)
    suite_in(out, "nightly", days=3)
    shutil.copytree(ROOT / "reports" / "bandwidth-refdevice", out / "sweep")
    old(make_marked(out / "sweep"), 0.1)
    ran = ortbench("clean", out, COLUMNS="200")
    assert ran.code == 2
    assert {name: row[:3] for name, row in listed(ran.out).items()} == {
        "a": ["measurement", "2", "w"], "nightly": ["suite", "3", "d"], "sweep": ["bandwidth", "2", "h"],
    }  # fmt: skip
    assert ran.error_line.startswith(
        "nothing was removed, because there is no terminal to ask on: give --yes to remove 3 folders, "
    )
    assert len(list(out.iterdir())) == 3
    ran = ortbench("clean", out, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1].startswith("Removed 3 folders, ")
    assert list(out.iterdir()) == []
    assert "nothing to remove" in ortbench("clean", out, "--yes").out


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--older", "7d"], {"new", "middle"}),
        (["--older", "2w"], {"new", "middle", "old"}),
        (["--older", "12h"], {"new"}),
        (["--keep", "1"], {"new"}),
        (["--keep", "9"], {"new", "middle", "old"}),
        (["--keep", "0"], set()),
        (["--older", "1d", "--keep", "2"], {"new", "middle"}),
        ([], set()),
    ],
)
def test_age_and_number(options: list[str], left: set[str], tmp_path: Path) -> None:
    for name, days in (("new", 0.01), ("middle", 2), ("old", 10)):
        run_in(tmp_path, name, days)
    ran = ortbench("clean", tmp_path, *options, "--yes")
    assert (ran.code, ran.err) == (0, "")
    assert {path.name for path in tmp_path.iterdir()} == left
    assert (f"kept: {len(left)} that" in ran.out) == bool(left)


def test_foreign_files_are_kept_and_said(tmp_path: Path) -> None:
    run = run_in(tmp_path, "a")
    (run / "notes.txt").write_text("mine")
    (run / "report.html").write_text("<p>mine</p>")
    (run / "more").mkdir()
    ran = ortbench("clean", tmp_path, "--yes", COLUMNS="200")
    assert ran.code == 0
    assert f"! {run} stays with what ortbench did not make: more, notes.txt, report.html" in ran.out.splitlines()
    assert {path.name for path in run.iterdir()} == {"more", "notes.txt", "report.html"}
    assert "nothing to remove" in ortbench("clean", tmp_path, "--yes").out
    assert (run / "notes.txt").read_text() == "mine"


def test_what_ortbench_did_not_make_is_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / f"photos-{STAMP}"
    foreign.mkdir()
    (foreign / "1.jpg").write_text("")
    copied, emptied = run_in(tmp_path, "copied"), tmp_path / f"emptied-{STAMP}"
    (copied / MADE_FILE).unlink()
    emptied.mkdir()
    linked = run_in(tmp_path, "linked")
    (linked / MADE_FILE).unlink()
    (tmp_path / "marked").write_text("")
    (linked / MADE_FILE).symlink_to(tmp_path / "marked")
    (tmp_path / "README.md").write_text("")
    before = sorted(tmp_path.rglob("*"))
    ran = ortbench("clean", tmp_path, "--yes", COLUMNS="200")
    assert (ran.code, ran.err) == (0, "")
    assert "nothing to remove" in ran.out
    assert "left alone, not made by ortbench: " in ran.out
    assert sorted(tmp_path.rglob("*")) == before


def test_half_written_folders_of_killed_commands(tmp_path: Path) -> None:
    empty, torn, sides = (tmp_path / f"{name}-{STAMP}" for name in ("empty", "torn", "sides"))
    for folder in (empty, torn, sides, sides / "cpu-tensors", sides / "webgpu"):
        make_marked(folder)
    (torn / "result.jsonab3_x9qz.tmp").write_text("{")
    with_result = run_in(tmp_path, "with-result")
    (with_result / "table.mdab3_x9qz.tmp").write_text("")
    made = look(torn)
    assert made is not None
    assert (made.kind, made.foreign) == ("unfinished", [])
    ran = ortbench("clean", tmp_path, COLUMNS="200")
    assert {name: row[0] for name, row in listed(ran.out).items()} == {
        empty.name: "unfinished", torn.name: "unfinished", sides.name: "unfinished", "with-result": "measurement",
    }  # fmt: skip
    assert ortbench("clean", tmp_path, "--yes").code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_name_of_an_unfinished_file_is_what_atomic_writing_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_marked(tmp_path / f"a-{STAMP}")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    monkeypatch.setattr(os, "unlink", lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(folder / "result.json", "{}")
    monkeypatch.undo()
    (left,) = set(folder.iterdir()) - {folder / MADE_FILE}
    assert left.name != "result.json"
    made = look(folder)
    assert made is not None
    assert (made.kind, made.files) == ("unfinished", [left, folder / MADE_FILE])


def test_an_engine_cache_is_left_alone(tmp_path: Path) -> None:
    engine = tmp_path / "engines" / "model-0123456789ab" / "engine.cache"
    engine.parent.mkdir(parents=True)
    engine.write_text("costly")
    run = run_in(tmp_path, "a")
    inner = run / "cache" / "model-0123456789ab" / "engine.cache"
    inner.parent.mkdir(parents=True)
    inner.write_text("costly")
    ran = ortbench("clean", tmp_path, "--yes", COLUMNS="200")
    assert ran.code == 0
    assert f"left alone, not made by ortbench: {tmp_path / 'engines'}" in ran.out
    assert f"{run} stays with what ortbench did not make: cache" in ran.out
    assert (engine.read_text(), inner.read_text()) == ("costly", "costly")
    assert not (run / "result.json").exists()


def test_links_are_never_followed(tmp_path: Path) -> None:
    elsewhere = run_in(tmp_path / "elsewhere", "a")
    out = tmp_path / "out"
    run = run_in(out, "b")
    (out / "link").symlink_to(elsewhere)
    (run / "table.csv").unlink()
    (run / "table.csv").symlink_to(elsewhere / "table.csv")
    (run / "more").symlink_to(elsewhere)
    ran = ortbench("clean", out, "--yes", COLUMNS="200")
    assert ran.code == 0
    assert "stays with what ortbench did not make: more, table.csv" in ran.out
    assert f"left alone, not made by ortbench: {out / 'link'}" in ran.out
    assert {path.name for path in elsewhere.iterdir()} == {MADE_FILE, "result.json", "table.md", "table.csv"}
    refused = ortbench("clean", out / "link", "--yes")
    assert refused.code == 2
    assert refused.error_line == f"{out / 'link'} is a link, which is not followed: name the folder itself, {elsewhere}"
    assert elsewhere.is_dir()


def test_what_cannot_be_removed_is_a_line_and_the_rest_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked, other = run_in(tmp_path, "locked", days=2), run_in(tmp_path, "other", days=1)
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.parent == locked:
            raise PermissionError(13, "Permission denied", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    ran = ortbench_here("clean", tmp_path, "--yes")
    assert ran.code == 1
    assert ran.error_line == f"{locked} was not removed: Permission denied"
    assert ran.out.splitlines()[-1].startswith("Removed 1 folder, ")
    assert (locked / "result.json").exists()
    assert not other.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no such folder: nowhere"),
        (["nowhere-*"], "no such folder: nowhere-*"),
        (["file"], "file is not a folder"),
        (["--older", "7"], "--older '7': write it as 12h, 7d or 2w"),
        (["--older", "-1d"], "--older '-1d': write it as 12h, 7d or 2w"),
        (["--older", "3m"], "--older '3m': write it as 12h, 7d or 2w"),
        (["--keep", "-1"], "--keep -1: cannot be negative"),
    ],
)
def test_bad_input_is_a_line(arguments: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = ortbench("clean", *arguments, "--yes", cwd=tmp_path)
    assert (ran.code, ran.out, ran.error_line) == (2, "", message)


def test_where_nothing_was_run_there_is_nothing_to_remove(tmp_path: Path) -> None:
    ran = ortbench("clean", cwd=tmp_path)
    assert (ran.code, ran.out, ran.err) == (0, "Nothing to remove: there is no folder reports\n", "")


def test_folders_as_shells_give_them_and_as_they_do_not(tmp_path: Path) -> None:
    out = tmp_path / "reports"
    for name in ("a-1", "a-2", "b-1", "b-2", "c-1"):
        run_in(out, name)
    (out / "README.md").write_text("")
    given = ["reports/a-1", "reports/a-2", "reports/README.md", "reports/a-1"]  # a shell's reports/[aR]*
    ran = ortbench("clean", *given, "--yes", cwd=tmp_path, COLUMNS="200")
    assert (ran.code, ran.err) == (0, "")
    assert "Removed 2 folders" in ran.out
    assert "left alone, not made by ortbench: reports/README.md" in ran.out
    assert ortbench("clean", "reports/b-*", "--yes", cwd=tmp_path).code == 0  # as where no shell replaces it
    assert {path.name for path in out.iterdir()} == {"README.md", "c-1"}
    assert ortbench("clean", "~/reports", "--yes", cwd=ROOT, HOME=str(tmp_path)).code == 0
    assert {path.name for path in out.iterdir()} == {"README.md"}
    run_in(out, "d")
    assert ortbench("clean", "../reports/./d/", "--yes", cwd=out).code == 0
    assert not (out / "d").exists()


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_on_a_terminal_it_asks(answer: str, left: int, tmp_path: Path) -> None:
    run_in(tmp_path, "a")
    ours, its = pty.openpty()
    os.write(ours, answer.encode())
    done = subprocess.run(
        command("clean", tmp_path), stdin=its, stdout=subprocess.PIPE, stderr=its, cwd=ROOT, timeout=600, text=True
    )
    said = ""
    while "[y/N] " not in said and select.select([ours], [], [], 10)[0]:  # a terminal gives what is written in pieces
        said += os.read(ours, 4096).decode()
    os.close(ours)
    os.close(its)
    assert "Remove 1 folder, " in said
    assert "? [y/N] " in said
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("Nothing was removed" if left else "Removed 1 folder")
    assert len(list(tmp_path.iterdir())) == left


def test_what_real_commands_leave_is_gone_and_an_out_folder_is_ignored(library: Path, tmp_path: Path) -> None:
    tiny = MODELS / "tiny.onnx"
    for arguments in (
        ["run", tiny, "--ep", "cpu", "--mode", "cpu-tensors", *ONCE],
        ["run", tiny, "--ep", "cpu", "--ep", library, "--mode", "cpu-tensors", *ONCE],
        ["gate", "--model", tiny, "--baseline-model", tiny, "--ep", "cpu", "--mode", "cpu-tensors", "--max-regression", "900%",
         "--duration", "0.4", "--warmup", 1],
        ["profile", tiny, "--ep", "cpu", "--mode", "cpu-tensors", "--attach-only", "--iterations", 3, "--warmup", 1],
    ):  # fmt: skip
        assert ortbench(*arguments, cwd=tmp_path).code in (0, 4)  # a gate of a moment may not be able to tell
    out = tmp_path / "reports"
    assert (out / ".gitignore").read_text().splitlines()[1:] == ["*"]
    assert (out / ".gitignore").read_text().startswith("# ")
    ran = ortbench("clean", cwd=tmp_path, COLUMNS="200")
    assert ran.code == 2
    assert sorted(row[0] for row in listed(ran.out).values()) == ["gate", "measurement", "measurement", "profile"]
    assert "stays with" not in ran.out
    assert "left alone" not in ran.out
    assert ortbench("clean", "--yes", cwd=tmp_path).code == 0
    assert [path.name for path in out.iterdir()] == [".gitignore"]


def test_a_folder_that_was_there_is_not_ignored_and_one_for_nothing_is_not_made(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    tiny = MODELS / "tiny.onnx"
    assert ortbench("run", tiny, "--ep", "cpu", "--mode", "cpu-tensors", *ONCE, "--out", tmp_path / "there").code == 0
    assert not (tmp_path / "there" / ".gitignore").exists()
    failed = ortbench("run", tiny, "--ep", "nonsense", "--out", tmp_path / "made")
    assert failed.code == 2
    assert not (tmp_path / "made").exists()
