"""What ONNX Runtime, EPs and drivers print in workers: a file beside the result has it, the screen one line of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ortbench.core import files, output
from ortbench.measure.process import Client, WorkerLost
from tests.conftest import MODELS, ONCE, SCREEN, ortbench
from tests.refdevice import Config
from tests.worker import saved

TINY = MODELS / "tiny.onnx"
CPU = ("--ep", "cpu", "--mode", "cpu-tensors", *ONCE)
FIRST = "2 warnings in stderr.txt: Removing initializer 'spare'. It is not use…"
UNUSED = "g (float[2] x) => (float[2] y) <float[1] unused = {1}, float[1] spare = {2}> { y = Relu(x) }"


@pytest.fixture(scope="module")
def unused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of which ONNX Runtime removes two initializers, with a warning each."""
    return saved(tmp_path_factory.mktemp("unused") / "unused.onnx", UNUSED)


def kept(out: Path) -> list[str]:
    return sorted(str(it.relative_to(out)) for it in out.rglob(output.FILE_NAME))


# What is a warning


@pytest.mark.pure
@pytest.mark.parametrize(
    ("line", "first"),
    [
        ("\x1b[0;93m2026-11-28 23:11:38.44 [W:onnxruntime:, graph.cc:5777 Clean] Removing it\x1b[m", "Removing it"),
        ("2026-11-28 23:11:38.44 [E:onnxruntime:log.id, env.cc:254 ThreadMain] affinity", "affinity"),
        ("[I:onnxruntime:, session.cc:1 Init] this is no warning", None),
        ("[TRT] ERROR: no engine", "[TRT] ERROR: no engine"),
        ("the device is open", None),
        ("[W:onnxruntime:Default, device_discovery.cc:1 Find] GPU device discovery failed: no file", None),
        ("[W:onnxruntime:, transformer_memcpy.cc:1 Apply] 2 Memcpy nodes are added to the graph g for CUDA", None),
        ("[E:onnxruntime:, executor.cc:1 Run] Non-zero status code returned while running Add node", None),
    ],
)  # fmt: skip
def test_what_counts_as_a_warning(line: str, first: str | None) -> None:
    output.begin()
    output.count_warnings([output.plain(line.encode())])
    assert output.warning(where_shown=True) == (None if first is None else f"1 warning printed: {first}")


def test_a_file_has_it_and_the_screen_a_line(unused: Path, tmp_path: Path) -> None:
    ran = ortbench("run", unused, *CPU, "--intra-op-threads", "1,2", "--out", tmp_path, **{SCREEN: ""})
    assert (ran.code, ran.error_line) == (0, FIRST)
    assert len(ran.err.rstrip()) <= 80
    (path,) = kept(tmp_path)
    assert path.count("/") == 1  # one of the whole command
    text = (tmp_path / path).read_text()
    assert "] Removing initializer 'unused'. It is not used by any node" in text
    assert "\x1b" not in text
    assert next(it for it in text.splitlines() if it.startswith("# process ")).endswith(": intra-op-threads=1")


def test_what_saves_no_result_says_it_and_quiet_commands_do_not(unused: Path, tmp_path: Path) -> None:
    ran = ortbench("inspect", unused, "--ep", "cpu", cwd=tmp_path)
    assert ran.error_line == "2 warnings printed: Removing initializer 'spare'. It is not used by a…"
    ran = ortbench("run", unused, *CPU, "--out", tmp_path, "-q")
    assert (ran.code, ran.err, len(kept(tmp_path))) == (0, "", 1)
    (tmp_path / "bad.onnx").write_text("no model")
    for model, code in ((TINY, 0), ("bad.onnx", 2)):
        ran = ortbench("run", model, *CPU, "--out", tmp_path / "nothing", cwd=tmp_path)
        assert (ran.code, kept(tmp_path / "nothing")) == (code, [])


def test_a_case_has_its_own_and_the_suite_one_line(unused: Path, tmp_path: Path) -> None:
    modes = "mode = 'cpu-tensors'\niterations = 1\nwarmup = 1"
    cases = f"[[bench]]\nmodel = '{unused}'\n{modes}\n[[bench]]\nmodel = '{TINY}'\n{modes}"
    (tmp_path / "s.toml").write_text(f"[suite]\nname = 's'\n[defaults]\nep = 'cpu'\n{cases}\n")
    ran = ortbench("suite", "s.toml", "--out", "out", cwd=tmp_path)
    assert ran.code == 0
    assert ran.err.splitlines()[2:] == [f"ortbench: {FIRST}"]
    assert kept(tmp_path / "out") == ["unused--cpu/stderr.txt"]


def test_all_that_a_lost_worker_printed_is_kept(library: Path, unused: Path, tmp_path: Path) -> None:
    knobs = Config(fault="abort", fault_at="run", fault_when="1").environ()
    ran = ortbench("run", unused, "--ep-library", library, *ONCE, "--out", "out", cwd=tmp_path, **knobs)
    assert ran.code == 1
    (path,) = kept(tmp_path / "out")
    lost, warning = ran.err.splitlines()
    assert "the worker was ended by SIGABRT" in lost
    assert warning.startswith(f"ortbench: 2 warnings in out/{path}: Removing init")


@pytest.mark.pure
def test_a_file_that_cannot_be_written_is_noted(tmp_path: Path) -> None:
    output.begin()
    output.keep_in(tmp_path / "gone")
    with (tmp_path / "printed").open("w+b") as printed:
        printed.write(b"[TRT] ERROR: no engine")
        output.take(printed, "process 1: candidate")
    assert files.not_written() == [f"{tmp_path}/gone/stderr.txt was not written: No such file or directory"]
    assert output.warning(where_shown=True) == "1 warning printed: [TRT] ERROR: no engine"


CHATTY = """#!/bin/sh
yes 'a line of a driver that prints and prints' | head -c SIZE >&2; echo >&2
read line; echo '{"ok": 1}'; read line; echo why it ended >&2; exit 3
"""


@pytest.mark.skipif(os.name == "nt", reason="the worker is a shell script")
def test_what_a_process_prints_is_cut_while_it_runs_and_what_comes_after_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "worker"
    program.write_text(CHATTY.replace("SIZE", str(output.LARGEST + 4_000_000)))
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    output.begin()
    output.keep_in(tmp_path)
    with Client(timeout_s=300) as client:
        assert client.ask("devices") == 1
        with pytest.raises(WorkerLost, match="words: why it ended"):
            client.ask("devices")
        assert os.fstat(client._worker.stderr.fileno()).st_size < output.LARGEST + 1_100_000
    content = (tmp_path / output.FILE_NAME).read_bytes()
    assert len(content) < output.LARGEST + 100
    assert content.endswith(b"# cut: more than 10 MB were printed\n")
