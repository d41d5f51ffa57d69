"""Whether two installed ortbench behave the same: output, files, exit codes and JSON keys, byte for byte.

    python -m tests.benchmarks.same BEFORE/bin/ortbench AFTER/bin/ortbench [--quick] [--only PATTERN] [--startup]

Every scenario of `tests.benchmarks.same_scenarios` is carried out by both, each in an empty folder of the same path. What
a scenario's kind allows for is taken out, the rest must be equal:

- ``stored``: commands on results that are there already. Only the two installs' own paths are allowed for.
- ``scripted``: commands that measure, under `tests.benchmarks.scripted_clock`: figures too are the same to the byte. What
  tells when and where it was (dates, run id, load) is allowed for.
- ``noisy``: commands that measure in earnest. Every number is allowed for, and what is made of them; three attempts.

Prints a line a scenario, a diff where they differ, and a summary; the exit code is 1 if anything differs. The stored
results are made once, by BEFORE, and kept in the folder that ``--corpus`` names.
"""

from __future__ import annotations

import argparse
import gzip
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import unified_diff
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
STORED, SCRIPTED, NOISY = "stored", "scripted", "noisy"
ATTEMPTS = {STORED: 1, SCRIPTED: 1, NOISY: 3}
TIMEOUT_S = 180
LONGEST_DIFF, LONGEST_LINE = 40, 240
Seen = dict[str, str]  # what a scenario left: exit codes, streams and files, by name


@dataclass(frozen=True)
class Scenario:
    """What both installs are to do.

    Attributes:
        name: for ``--only`` and the report.
        commands: argument lists, one after the other; a word with ``*`` is what it matches in the folder.
        kind: what may differ.
        environment: besides the usual.
        width: of the terminal on standard output; None for a pipe.
        prefix: before the command.
        quick: whether it is part of ``--quick``.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    kind: str = STORED
    environment: dict[str, str] = field(default_factory=dict)
    width: int | None = None
    prefix: tuple[str, ...] = ()
    quick: bool = True


# When and where: allowed for wherever something is measured.
_WHEN = [
    (re.compile(r"20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(\+00:00|Z| UTC)?"), "TIME"),
    (re.compile(r"-20\d{6}-\d{6}(-\d+)?(?!\d)"), "-STAMP"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "RUN"),
    (re.compile(r'("(?:start|end)": )\[[\d.,\s]+\]'), r"\1LOAD"),
    (re.compile(r"[\d.]+ at the (start|end)\b"), r"LOAD at the \1"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    (re.compile(r"/tmp/[\w.-]+"), "TEMPORARY"),
]
# Figures, where there are none, what is made of them (sentences, pages), and how many there are. All of these are held
# against each other under the scripted clock.
_FIGURES = [
    (re.compile(r"<!doctype html>.*</html>", re.DOTALL | re.IGNORECASE), "PAGE"),
    (re.compile(r"^ *[•-] .*\n", re.MULTILINE), ""),
    (re.compile(r"[░█▒┅━▏▎▍▌▋▊▉]+|≈{2,}"), " "),
    (re.compile(r"(?<![A-Za-z_#\d])[-+−]?\d+(?:[.,]\d+)*(e[-+]?\d+)?"), "#"),
    (re.compile(r"#[ \u00a0\u202f]?(ns|µs|ms|s)\b"), "# TIME"),
    (re.compile(r"#[ \u00a0\u202f]?[kMG]?B/s\b"), "# RATE"),
    (re.compile(r"\[#(,\s+#)*\]"), "[#]"),
    (re.compile(r"\[#\](,\s*\[#\])*"), "[#]"),
    (re.compile(r"\[\s*\[#\]\s*\]"), "[#]"),
    (re.compile(r'": (?:null|\[#\])'), '": #'),
    (re.compile(r"#–#|–"), "#"),
    (re.compile(r",[#,]+"), ",#,"),
    (re.compile(r"-{2,}:?"), "---"),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r" $", re.MULTILINE), ""),
]


def normalised(text: str, kind: str, places: Iterable[str] = ()) -> str:
    """A text without what its kind of scenario allows for.

    Args:
        text: an output, or a file's text.
        kind: of the scenario.
        places: paths that are an install's own.
    """
    for place in places:
        text = text.replace(place, "INSTALL")
    for pattern, instead in {STORED: [], SCRIPTED: _WHEN, NOISY: [*_WHEN, *_FIGURES]}[kind]:
        text = pattern.sub(instead, text)
    return text


def difference(before: Seen, after: Seen) -> list[str]:
    """The lines of a unified diff of what two installs left; none where it is the same."""
    lines: list[str] = []
    for name in sorted({*before, *after}):
        if name not in before or name not in after:
            lines.append(f"{name}: only {'after' if name in after else 'before'}")
        elif before[name] != after[name]:
            # Split at \n alone: what else ends a line is text here. No text is equal to one that lacks its last line end.
            a, b = (text.split("\n") for text in (before[name], after[name]))
            lines += unified_diff(a, b, f"before {name}", f"after {name}", lineterm="", n=0)
    return lines


class Install:
    """An installed ortbench.

    Args:
        program: its ``ortbench``.
    """

    def __init__(self, program: Path) -> None:
        self.program = program.absolute()
        self.places = (str(self.program.parent.parent),)

    def carry_out(self, scenario: Scenario, folder: Path, environment: dict[str, str]) -> Seen:
        """Carry out a scenario in an empty folder of that path, and say what it left."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "models").symlink_to(ROOT / "models")
        for word in {word for command in scenario.commands for word in command}:
            self._bring(word, folder, Path(environment["CORPUS"]))
        seen: Seen = {}
        for number, words in enumerate(scenario.commands):
            command = [*scenario.prefix, str(self.program), *_matched(words, folder)]
            code, out, err = _run(command, folder, {**environment, **scenario.environment}, scenario.width)
            seen |= {f"{number} code": str(code), f"{number} stdout": out, f"{number} stderr": err}
        seen |= dict(_files(folder))
        clean = {}
        for name, text in seen.items():
            key = normalised(name, SCRIPTED if scenario.kind != STORED else STORED)
            while key in clean:  # two runs within a second have stamps that differ
                key += "+"
            code = name.endswith(" code")  # the one number that is no figure
            clean[key] = text if code else normalised(text, scenario.kind, (*self.places, str(folder)))
        return clean

    @staticmethod
    def _bring(word: str, folder: Path, corpus: Path) -> None:
        """Copy a stored result that a command names, so that it may write beside it."""
        for part in re.findall(r"(?:corpus|reports)/[^\s=*]+", word):
            source = corpus / part.removeprefix("corpus/") if part.startswith("corpus/") else ROOT / part
            target = folder / part
            if source.exists() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)


def _matched(words: Iterable[str], folder: Path) -> Iterator[str]:
    for word in words:
        found = sorted(str(path.relative_to(folder)) for path in folder.glob(word)) if "*" in word else []
        yield from found or [word]


def _files(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "models" not in path.relative_to(folder).parts[:1]:
            data = path.read_bytes()
            if path.suffix == ".gz":
                data = gzip.decompress(data)
            yield (
                f"{path.relative_to(folder)} {path.stat().st_mode & 0o777:o}",
                data.decode("utf-8", "backslashreplace"),
            )


def _run(command: list[str], folder: Path, environment: dict[str, str], width: int | None) -> tuple[int, str, str]:
    """Run a command to its end, with a terminal or a pipe on standard output: exit code and both outputs."""
    master, slave = pty.openpty() if width is not None else (-1, subprocess.PIPE)
    if width is not None:
        environment = {**environment, "COLUMNS": str(width), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    late = threading.Timer(TIMEOUT_S, lambda: os.killpg(process.pid, signal.SIGKILL))
    late.start()
    shown = bytearray()
    if width is not None:
        os.close(slave)
        reader = threading.Thread(target=_drain, args=(master, shown))
        reader.start()
    out, err = process.communicate()
    late.cancel()
    if width is not None:
        reader.join()
        os.close(master)
    return process.returncode, *((out or shown).decode(errors="backslashreplace") for out in (out, err))  # type: ignore[return-value]


def _drain(master: int, into: bytearray) -> None:
    while True:
        try:
            into += os.read(master, 65536)
        except OSError:  # the other end is closed
            return


def usual_environment(scratch: Path, corpus: Path) -> dict[str, str]:
    """What both installs find in their environment: nothing of this process's but what is named here."""
    clock = scratch / "clock"
    clock.mkdir(exist_ok=True)
    shutil.copyfile(Path(__file__).with_name("scripted_clock.py"), clock / "sitecustomize.py")
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(scratch),
        "MPLCONFIGDIR": str(scratch),
        "LANG": "C.UTF-8",
        "CORPUS": str(corpus),
    }


class Comparison:
    """Carries out scenarios by both installs.

    Args:
        before, after: the installs.
        corpus: stored results.
        scratch: a folder for what they write.
    """

    def __init__(self, before: Install, after: Install, corpus: Path, scratch: Path) -> None:
        self._sides = (before, after)
        self._scratch = scratch
        self._environment = usual_environment(scratch, corpus)

    def differs(self, number: int, scenario: Scenario) -> tuple[list[str], str]:
        """How a scenario differs, and a remark: BEFORE's exit codes, and how many attempts it took."""
        environment = dict(self._environment)
        if scenario.kind == SCRIPTED:
            environment["PYTHONPATH"] = str(self._scratch / "clock")
        folder = self._scratch / f"{number:04}" / "place"
        attempt, lines, before = 0, ["not carried out"], Seen()
        while lines and attempt < ATTEMPTS[scenario.kind]:
            attempt += 1
            before, after = (side.carry_out(scenario, folder, environment) for side in self._sides)
            lines = difference(before, after)
        shutil.rmtree(folder.parent)
        codes = " ".join(text for name, text in before.items() if name.endswith(" code"))
        return lines, f"exit {codes}" + (f", attempt {attempt}" if attempt > 1 else "")

    def show(self, scenarios: list[Scenario], at_once: int) -> int:
        """Carry out and print all; how many differ."""
        begun, different = time.monotonic(), 0
        with ThreadPoolExecutor(at_once) as pool:
            numbers = range(len(scenarios))
            for scenario, (lines, remark) in zip(scenarios, pool.map(self.differs, numbers, scenarios), strict=True):
                different += bool(lines)
                print(f"{'differs' if lines else 'same   '} {scenario.kind:8} {scenario.name} ({remark})", flush=True)
                for line in lines[:LONGEST_DIFF]:
                    print("    " + (line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + " …"))
                if len(lines) > LONGEST_DIFF:
                    print(f"    … and {len(lines) - LONGEST_DIFF} lines more")
        print(f"{len(scenarios)} scenarios, {different} differ; {time.monotonic() - begun:.0f} s")
        return different


def main() -> int:
    """The command; its exit code."""
    from tests.benchmarks import same_extras, same_scenarios

    parser = argparse.ArgumentParser(description="Whether two installed ortbench behave the same.")
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--quick", action="store_true", help="the scenarios that say most, in a few minutes")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="scenarios whose names match; repeatable")
    parser.add_argument("--corpus", type=Path, default=Path(tempfile.gettempdir()) / "ortbench-same", metavar="DIR")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many scenarios at a time")
    parser.add_argument("--list", action="store_true", help="print the scenarios and carry out none")
    parser.add_argument("--startup", action="store_true", help="instead: how long both take to start, in alternation")
    parser.add_argument("--repeats", type=int, default=21, help="of --startup")
    asked = parser.parse_args()
    before, after, corpus = Install(asked.before), Install(asked.after), asked.corpus.resolve()
    with tempfile.TemporaryDirectory(prefix="same-") as folder:
        scratch = Path(folder)
        if asked.startup:
            same_extras.startup(before, after, usual_environment(scratch, corpus), scratch, asked.repeats)
            return 0
        same_scenarios.make_corpus(corpus, before, usual_environment(scratch, corpus), scratch)
        scenarios = [
            scenario
            for scenario in same_scenarios.scenarios(corpus)
            if (scenario.quick or not asked.quick) and any(fnmatch(scenario.name, it) for it in asked.only or ["*"])
        ]
        if asked.list:
            print(*(f"{scenario.kind:8} {scenario.name}" for scenario in scenarios), sep="\n")
            return 0
        different = Comparison(before, after, corpus, scratch).show(scenarios, asked.jobs)
        if not asked.only:
            same_extras.help_texts(before, after, usual_environment(scratch, corpus), scratch)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
