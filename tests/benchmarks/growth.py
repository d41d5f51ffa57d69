"""How often `ortbench soak` is right: on the reference device, which leaks what it is told to, in real processes.

    python -m tests.benchmarks.growth [--runs 60] > reports/growth.md

A run takes some 4 s. For each case: in how many runs the verdict was the true one, the largest error of a rate, and the other verdicts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from ortbench.analysis.growth import GROWS, NONE, STEADY, grown
from tests.conftest import MODELS
from tests.refdevice import build

TINY, SHAPED = MODELS / "tiny.onnx", MODELS / "multi_output.onnx"
MANY = f"batch={','.join(map(str, range(1, 301)))}"


class Leak(NamedTuple):
    """A case: what is told to the device, what the soak is asked for besides, and the truth, by 1,000 inferences."""

    name: str
    options: dict[str, float]
    verdict: str
    rate: float | None = None
    metric: str = "host_growth"
    model: Path = TINY
    more: tuple[str, ...] = ("--iterations", "8000")


LEAKS = [
    Leak("nothing", {}, NONE),
    Leak("300 B an inference", {"leak_bytes": 300}, GROWS, 300e3),
    Leak("4 kB an inference", {"leak_bytes": 4000}, GROWS, 4e6),
    Leak("64 kB an inference", {"leak_bytes": 64_000}, GROWS, 64e6, more=("--iterations", "4000")),
    Leak("20 kB a new shape, of 300", {"leak_shape_bytes": 20_000}, STEADY, model=SHAPED, more=("--iterations", "8000", "--dim", MANY)),
    Leak("1 MB a session, of 2 inferences", {"leak_session_bytes": 1e6}, GROWS, 500e6, more=("--iterations", "100", "--reopen", "2")),
    Leak("stairs of 1 MB, 12 of them", {"leak_bytes": 1e6, "leak_every": 200, "leak_stop": 2500}, STEADY),
    Leak("a handle of 20 inferences", {"leak_handles": 0.05}, GROWS, 50, "handle_growth"),
]  # fmt: skip


def soak(library: Path, leak: Leak, seed: int) -> tuple[str, float]:
    """The verdict, and the slope by 1,000 inferences."""
    options = [word for knob, value in leak.options.items() for word in ("--ep-option", f"{knob}={value:g}")]
    device = ["--ep-library", str(library), "--ep-option", "compute_us=100", *options]
    with tempfile.TemporaryDirectory() as out:
        command = [
            "ortbench",
            "soak",
            str(leak.model),
            *device,
            *leak.more,
            "--seed",
            str(seed),
            "--quiet",
            "--out",
            out,
        ]
        subprocess.run([sys.executable, "-m", *command], check=True, stderr=subprocess.DEVNULL)
        (file,) = Path(out).glob("*/result.json")
        (found,) = (it for it in grown(json.loads(file.read_text())["soak"]) if it.metric == leak.metric)
    return found.verdict, 0.0 if found.growth is None else found.growth.slope


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=60)
    runs = parser.parse_args().runs
    print(f"# Growth\n\n`python -m tests.benchmarks.growth --runs {runs}`\n")
    print("| leak | right | largest error of the rate | other verdicts |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        for leak in LEAKS:
            found = [soak(library, leak, seed) for seed in range(runs)]
            off = [abs(slope / leak.rate - 1) for verdict, slope in found if leak.rate and verdict == leak.verdict]
            others = Counter(verdict for verdict, _ in found if verdict != leak.verdict)
            told = ", ".join(f"{count} {verdict}" for verdict, count in others.items()) or "–"
            most = f"{max(off):.1%}" if off else "–"
            print(f"| {leak.name} | {runs - others.total()} of {runs} | {most} | {told} |", flush=True)


if __name__ == "__main__":
    main()
