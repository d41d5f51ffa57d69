"""What a terminal shows while something is measured, moment by moment; and what is none."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from ortbench.report.progress import LiveProgress
from tests.conftest import MODELS, ROOT, command, ortbench
from tests.report.test_terminal import ASKS, in_a_terminal

ROWS = [("cpu-tensors", "4.20 ms (95% CI 4.18–4.25)"), ("device-resident", "76.0 µs")]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(text: str) -> list[str]:
    """The lines that are on a terminal after all that was written to it."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
        if part == "\n":
            row += 1
            lines += [""] * (row - len(lines) + 1)
        elif part.endswith("A") and part.startswith("\x1b"):
            row = max(0, row - int(part[2:-1] or 1))
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part[0] not in "\x1b\r":
            lines[row] = part if lines[row] == "" else lines[row] + part
    return [line.rstrip() for line in lines if line.strip()]


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error from now on; a fixture would be undone by pytest's own capture."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"TERM": "xterm", "COLUMNS": "60", "LINES": "6"}.items():
        monkeypatch.setenv(name, value)
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    return made


def test_lines_are_drawn_with_the_bar_and_not_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    times, seen = iter([0.3, 0.4, 0.6, 0.7, 1.0]), []
    now = 0.0
    with LiveProgress(lambda: now) as progress:
        for rows in (None, ROWS[:1], ROWS, [ROWS[1]], None):
            now = next(times)
            if rows is not None:
                progress.estimates(rows)
            progress.show_time_left(9.0)
            seen.append(shown(terminal.getvalue())[1:])
    both = ["cpu-tensors      4.20 ms (95% CI 4.18–4.25)", "device-resident  76.0 µs"]
    assert seen == [[], [], both, both, ["device-resident  76.0 µs"]]
    assert shown(terminal.getvalue()) == []
    assert "\x1b[?25h" in terminal.getvalue()  # the cursor is there again


def test_no_more_lines_than_the_terminal_has_and_none_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_of(monkeypatch)
    now = 0.0
    with LiveProgress(lambda: now) as progress:
        progress.estimates([(f"mode {number}", "x" * 80) for number in range(9)])
        now = 1.0
        progress.show_time_left(1.0)
        lines = shown(terminal.getvalue())[1:]
        assert [line[:7].strip() for line in lines] == ["mode 0", "mode 1", "and 7 m"]
        assert max(map(len, lines)) <= 60


LONG = ("run", MODELS / "tiny.onnx", "--ep", "cpu", "--mode", "cpu-tensors", "--warmup", 1, "--duration")


@pytest.mark.process
@pytest.mark.parametrize("quiet", [(), ("--quiet",)])
def test_the_line_is_at_the_start_and_quiet_says_nothing(quiet: tuple[str, ...], tmp_path: Path) -> None:
    ran = ortbench(*LONG, 30, "--precision", "30%", *quiet, "--out", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    found = re.fullmatch(r"ortbench: measuring takes about (\d+) s at most", ran.forecast)
    assert bool(found) is not bool(quiet)
    assert found is None or int(found[1]) >= 30  # and what the machine takes besides


@pytest.mark.process
def test_a_terminal_shows_estimates_and_is_clean_after_ctrl_c(tmp_path: Path) -> None:
    line = command(*LONG, 120, "--precision", "0", "--out", tmp_path / "out")
    environment = {name: value for name, value in os.environ.items() if name not in ASKS} | {"TERM": "xterm"}
    codes: list[int] = []

    def write(number: int) -> None:
        process = subprocess.Popen(
            line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=number, env=environment, start_new_session=True
        )
        until = time.monotonic() + 300
        stored = tmp_path / "out"
        while not list(stored.glob("*/result.json")) and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(1.5)  # some looks
        process.send_signal(signal.SIGINT)
        codes.append(process.wait(300))

    text = in_a_terminal(write, 80)
    assert codes == [130]
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert re.search(r"cpu-tensors  [\d.]+ (ns|µs|ms) \(95% CI [\d.]+–[\d.]+\)", plain)
    assert not any("left" in it or "95% CI" in it for it in shown(text))
    assert text.rindex("\x1b[?25h") > text.rindex("95% CI")
