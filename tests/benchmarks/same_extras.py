"""What `tests.benchmarks.same` shows besides its scenarios: the options that ``--help`` lists, and times to start."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from statistics import median

from ortbench.stats import paired_ratio
from tests.benchmarks.same import ROOT, Install

COMMANDS = ("run", "report", "profile", "compare", "gate", "suite", "merge", "bandwidth", "devices", "inspect")
_OPTION = re.compile(r"^\W*?((?:-\w, )?--[a-z-]+)", re.MULTILINE)
# What is timed: the folder's `models` are those of the repository.
A, B = (str(ROOT / "reports" / name) for name in ("copy_bound-cpu", "copy_bound-refdevice"))
STARTS = {
    "--help": ("--help",),
    "run, one iteration": ("run", str(ROOT / "models" / "tiny.onnx"), "--ep", "cpu", "--iterations", "1", "--warmup", "1"),
    "compare": ("compare", A, B, "--force"),
    "gate on a stored result": ("gate", B, "--max-cpu-nodes", "0"),
}  # fmt: skip


def options(text: str) -> dict[str, str]:
    """The help text of each option, however it is laid out.

    Args:
        text: of ``--help``.
    """
    found = {}
    parts = _OPTION.split(re.sub(r"[│╭╮╰╯─]", " ", text))
    for option, rest in zip(parts[1::2], parts[2::2], strict=True):
        paragraph = re.split(r"\n\s*\n|\n(?=\S)", rest)[0]
        found[option] = re.sub(r"- (?=\w)", "-", " ".join(paragraph.split()))  # a line may end within a word
    return found


def help_texts(before: Install, after: Install, environment: dict[str, str], folder: Path) -> None:
    """Print how the options of all commands differ; for information, because their order and layout may."""
    for command in COMMANDS:
        a, b = (
            options(
                subprocess.run(
                    [side.program, command, "--help"], cwd=folder, env=environment, capture_output=True, text=True
                ).stdout
            )
            for side in (before, after)
        )
        changed = [name for name in {**a, **b} if a.get(name) != b.get(name)]
        print(f"help of {command}: {f'{len(changed)} of ' if changed else ''}{len({**a, **b})} options", end="")
        print(" differ:" if changed else ", the same")
        for name in changed:
            print(f"    {name}\n      before: {a.get(name, '–')}\n      after:  {b.get(name, '–')}")


def startup(before: Install, after: Install, environment: dict[str, str], folder: Path, repeats: int) -> None:
    """Print how long some commands take in all, both installs in alternation; the first turn does not count."""
    print("| command | before, ms | after, ms | after / before | 95 % |\n|---|--:|--:|--:|--:|")
    for name, arguments in STARTS.items():
        times: tuple[list[float], list[float]] = [], []
        for turn in range(repeats + 1):
            # Who goes first changes from turn to turn.
            for side in (0, 1) if turn % 2 else (1, 0):
                start = time.perf_counter_ns()
                subprocess.run(
                    [(before, after)[side].program, *arguments], cwd=folder, env=environment, capture_output=True
                )
                if turn:
                    times[side].append(time.perf_counter_ns() - start)
        found = paired_ratio(times[1], times[0])
        interval = "–" if found.ci95 is None else "{:.3f}–{:.3f}".format(*found.ci95)
        medians = " | ".join(f"{median(side) / 1e6:.0f}" for side in times)
        print(f"| {name} | {medians} | {found.ratio:.3f} | {interval} |", flush=True)
