"""What people see: that everything fits any width and encoding, with colour only where colour belongs."""

from __future__ import annotations

import io
import os
import re
import shlex
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from ortbench.core.errors import REGRESSION
from ortbench.facts import Fact
from ortbench.facts.sentences import FAILED as CHECK_FAILED
from ortbench.facts.sentences import PASSED, UNCLEAR, Check
from ortbench.features.gate import report as gate
from ortbench.features.gate.gates.checks import Verdict
from ortbench.features.suite import report as suite
from ortbench.features.suite.job import record
from ortbench.model.result import FAILED, Result
from ortbench.model.result_file import load
from ortbench.report import comparison, run
from ortbench.report.model import Report, Table
from ortbench.report.run import screen as default_screen
from ortbench.report.terminal import Screen, print_report, wrap
from tests.conftest import ROOT, command, lacking
from tests.odd import ODD
from tests.results import (
    MS,
    broken,
    case,
    island,
    measured,
    memcpy_node,
    nvidia_result,
    profiled,
    result_of,
    steady,
    tensor,
)

REPORT = ROOT / "reports" / "copy_bound-refdevice"
WIDTHS = (40, 80, 120, None)  # None: into a pipe
ASKS = ("COLUMNS", "NO_COLOR", "FORCE_COLOR")  # variables
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def screen(
    show: Callable[..., None], *arguments: Any, width: int | None = None, encoding: str = "utf-8", **environment: str
) -> list[str]:
    """The lines that a function prints, in so many columns or, without, as into a pipe."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ASKS:
            patch.delenv(name, raising=False)
        if width is not None:
            patch.setenv("COLUMNS", str(width))
        for name, value in environment.items():
            patch.setenv(name, value)
        out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        with redirect_stdout(out):
            show(*arguments)
        out.seek(0)
        return out.read().splitlines()


def shown(build: Callable[..., Report], *arguments: Any, width: int | None = None) -> list[str]:
    """The lines of a report."""
    return screen(print_report, build(*arguments), width=width)


def squeezed(lines: Sequence[str]) -> str:
    return "".join("".join(lines).split())


def test_the_first_example_of_the_readme_is_what_is_printed() -> None:
    folder = "reports/copy_bound-cuda-h100"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = readme.partition("```text\n$ ortbench run")[2].partition("\n```")[0].partition("\n")[2]
    assert example.splitlines() == shown(default_screen, load(ROOT / folder / "result.json"), folder, width=80)


def three() -> list[Result]:
    """Results of one run, of which the second is slower."""
    return [
        result_of(measured("cpu-tensors", latency=steady([round(MS * factor)] * 32)), run_id="one")
        for factor in (1, 1.2, 1)
    ]


LONG = [f"copy_bound-webgpu-2026112{day}-150558-the-name-of-a-run-that-somebody-gave-it" for day in range(3)]


FIGURES: dict[str, Any] = {"cpu_ns": 4_120, "fastest": "device-resident", "fastest_ns": 987, "speedup": 4.1743}


def suite_case(name: str, outcome: str = record.MEASURED, **changed: Any) -> record.Record:
    return record.Record(name, "tiny", "cpu-tensors", "", "f", outcome, **{**FIGURES, "faster": "faster", **changed})


def test_a_summary_claims_no_mode_that_is_not_measurably_faster() -> None:
    for ratio, fastest, faster in (
        ((1.01, 1.0, 1.015), "cpu-tensors", "none"),
        ((1.01, 0.9, 1.1), "cpu-tensors", "cannot tell"),
        ((1.2, 1.1, 1.3), "host-accessible", "faster"),
    ):
        cpu = case("cpu-tensors", ratio=(1.0, 1.0, 1.0), latency=MS)
        found = record.figures(nvidia_result(cpu, case("host-accessible", ratio=ratio, latency=MS - 1)))
        assert (found["fastest"], found["faster"]) == (fastest, faster)
        (row,) = suite.case_table([suite_case("a", fastest=fastest, speedup=1.0, faster=faster)]).rows
        assert ("1.00×" in row, faster in row) == (faster == "faster", faster != "faster")


# Everything, in any width and encoding


def extreme() -> Result:
    """Long and wide names, figures far apart, and every kind of remark."""
    made = ODD["far-apart"]()
    reason = "it was not as it should have been, " * 5
    made.cases.append(broken("host-accessible", FAILED, reason, latency=steady([5 * MS])))
    made.target["ep"] = "A" * 70 + "ExecutionProvider"
    made.model["path"] = "/home/模型/" + "ein_sehr_langer_ordner/" * 8 + "模" * 50 + ".onnx"
    made.model["inputs"] = [tensor(f"入力{number}", [1, 3, 1080, 1920]) for number in range(12)]
    made.warn("long", "nodes stay on the CPU: " + ", ".join(f"Operator{number}" for number in range(30)))
    return made


CASE = "a_model_with_a_rather_long_name--CUDAExecutionProvider--batch-128-sequence-4096" + "x" * 60
CHECKS = [
    Check(verdict, verdict, "latency median, candidate to baseline") for verdict in (PASSED, UNCLEAR, CHECK_FAILED)
]
CHANGE = Fact("gate-change", "one", "", {"changes": ["EP options: none → " + "a=b, " * 30]})
CASES = [suite_case("tiny--cpu"), suite_case(CASE, "benchmark failed", reason="it " * 60, exit_code=1)]
WITH_NODES = replace(extreme(), nodes=profiled(memcpy=[memcpy_node(CASE, "from host")], islands=[island(CASE)]))
SCREENS = {
    "run": run.build(extreme(), "/tmp/" + "folder/" * 20),
    "nodes": run.build(WITH_NODES, "reports/some"),
    "compare": comparison.build([extreme(), extreme()], LONG[:2], 0.02, False),
    "trend": comparison.build(three(), LONG, 0.02, True),
    "gate": gate.build_gate(Verdict([extreme(), extreme()], CHECKS, [CHANGE])),
    "suite": suite.build("nightly", CASES, "reports/" + "nightly/" * 20),
}


@pytest.mark.parametrize(
    ("width", "encoding"), [*((it, "utf-8") for it in WIDTHS), (80, "ascii"), (80, "cp437")]
)  # a stream refuses what its encoding lacks
@pytest.mark.parametrize("name", SCREENS)
def test_nothing_is_wider_than_the_screen_or_cut_off(name: str, width: int | None, encoding: str) -> None:
    lines = screen(print_report, SCREENS[name], width=width, encoding=encoding)
    assert all(cell_len(line) <= (width or 10_000) for line in lines)
    # What is shortened on purpose, the names of nodes, lacks its beginning; Rich would cut the end off.
    assert not any(line != line.rstrip() or re.search(r"\S…", line) or "\x1b" in line for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("name", "table", "names"),
    [
        ("run", run.mode_table(extreme()), [extreme().model["path"], *(it["message"] for it in extreme().warnings)]),
        ("trend", comparison.tables(three(), LONG, 0.02, True)[0].with_names, LONG),
        ("suite", suite.case_table(CASES), ["it " * 60]),
    ],
    ids=["run", "trend", "suite"],
)
def test_every_figure_and_name_is_there_at_any_width(
    name: str, table: Table, names: list[str], width: int | None
) -> None:
    lines = screen(print_report, SCREENS[name], width=width)
    figures = {word for row in table.rows for text in row[1:] for word in text.split()} - {*names}
    assert figures <= {word for line in lines for word in line.split()}
    assert all(squeezed([it]) in squeezed(lines) for it in names)


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("", 10, [""]),
        ("one two three", 7, ["one two", "three"]),
        ("takes 4.20 ms or", 11, ["takes", "4.20 ms or"]),
        ("less (95% CI 159 µs to 512 µs), or", 26, ["less (95% CI", "159 µs to 512 µs), or"]),
        ("+196 to +223", 7, ["+196 to", "+223"]),  # a line has no room for it
        ("see /one/two/three.onnx", 10, ["see /one/", "two/three.", "onnx"]),
        ("abcdefghijkl", 5, ["abcde", "fghij", "kl"]),
        ("模型模型", 5, ["模型", "模型"]),
    ],
)
def test_wrapped(text: str, width: int, expected: list[str]) -> None:
    assert wrap(text, width) == expected


@pytest.mark.parametrize("width", [60, 80])
def test_a_shell_reads_a_command_of_several_lines_as_it_was(width: int) -> None:
    """With quotes too: no line ends within them."""
    text = "ortbench loop m.onnx --feedback 'present.*=past key.*' --fill a=1 --dim 'b=c + d'"
    lines = screen(lambda: Screen().command(text, label="  Next: "), width=width)
    assert all(cell_len(line) <= width for line in lines)
    assert len(lines) > 1
    read = "\n".join([lines[0].removeprefix("  Next: "), *lines[1:]])
    assert shlex.split(read.replace(" \\\n", " ")) == shlex.split(text)


# Colour


def in_a_terminal(write: Callable[[int], None], columns: int) -> str:
    """What is written to a terminal, by its number, escape codes and all."""
    if os.name != "posix":
        lacking("no pseudo-terminals")
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    written: list[bytes] = []

    def read() -> None:
        try:
            while block := os.read(ours, 65536):
                written.append(block)
        except OSError:  # how Linux says that the last writer has gone
            pass

    reader = threading.Thread(target=read)
    reader.start()
    write(theirs)
    os.close(theirs)
    reader.join()
    os.close(ours)
    return b"".join(written).decode().replace("\r\n", "\n")


GATED = gate.build_gate(Verdict([load(REPORT / "result.json")] * 2, [Check("a", PASSED, "fine " * 30)]))


@pytest.mark.parametrize(
    ("environment", "columns", "has_colours", "widest"),
    [
        ({}, 80, True, range(70, 81)),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, 100, False, range(81, 101)),
        ({"NO_COLOR": ""}, 80, True, range(70, 81)),  # which has to say something
    ],
)
def test_a_terminal_has_its_own_width_and_colours_for_those_who_want_them(
    environment: dict[str, str], columns: int, has_colours: bool, widest: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(number: int) -> None:
        with os.fdopen(os.dup(number), "w", encoding="utf-8") as out:
            monkeypatch.setattr(sys, "__stdout__", out)
            monkeypatch.setattr(sys, "stdout", out)
            print_report(GATED)
            monkeypatch.undo()

    for name in ASKS:
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    text = in_a_terminal(write, columns)
    assert ("\x1b[32m✓" in text, "\x1b" in text) == (has_colours, has_colours)
    plain = ESCAPE.sub("", text)
    assert "\x1b" not in plain
    assert max(map(cell_len, plain.splitlines())) in widest


def test_a_pipe_is_plain_and_force_color_gives_it_colours() -> None:
    plain, coloured = screen(print_report, GATED), screen(print_report, GATED, FORCE_COLOR="1", TERM="xterm")
    assert not any("\x1b" in line for line in plain)
    assert any("\x1b[32m✓" in line for line in coloured)
    assert [ESCAPE.sub("", line) for line in coloured] == plain


@pytest.mark.process
def test_a_report_that_nobody_reads_changes_no_exit_code() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    line = command("gate", REPORT, "--min-speedup", "device-resident=99")
    done = subprocess.run(line, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (REGRESSION, b"")
