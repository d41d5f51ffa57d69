"""How often the interval of two runs at different times holds the truth: runs taken while the machine is variously busy.

    python -m tests.benchmarks.stored --minutes 60 FOLDER   # takes runs, and writes what comparisons rest on to reports/stored-runs.json

`tests.benchmarks.coverage` makes the table of them. Each visit runs every configuration, short (one process) and by default (several), in
random order; between visits are 10 to 60 s. The truth between runs of one configuration is 1. `chain10` does 10 % more work than `chain`,
and takes 1.10 times as long in turns, on the quiet machine of reports/gate.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from ortbench.analysis.comparison import Spread, compare_series, spread_of
from ortbench.analysis.series import Key, Series, series_at
from ortbench.model.metrics import LATENCY, figure
from ortbench.model.modes import CPU
from ortbench.model.result_file import load
from tests.benchmarks.workload import chain
from tests.results import measured, result_of

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "reports" / "stored-runs.json"
LENGTHS = {"short": ("--duration", "0.5s"), "default": ()}
TRUTHS = {("chain10", "chain"): 1.1}  # of other pairs 1
PAIRS = 200
REPEATED = 3  # runs of each configuration in a folder
_KEY = Key(CPU, (), figure(LATENCY))


# Taking runs


def take(folder: Path, minutes: float) -> None:
    """Run the configurations until the time is over, each into a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    one = ("--intra-op-threads", "1")
    made = {
        "tiny": (str(ROOT / "models" / "tiny.onnx"),),
        "chain": (str(chain(folder / "chain.onnx")), *one),
        "chain10": (str(chain(folder / "chain10.onnx", 10)), *one),
    }
    chance, end = random.Random(1), time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        visit = [(name, length) for name in made for length in LENGTHS]
        chance.shuffle(visit)
        for name, length in visit:
            line = ("run", *made[name], *LENGTHS[length], "--ep", "cpu", "--mode", CPU, "--quiet")
            subprocess.run(
                [sys.executable, "-m", "ortbench", *line, "--out", folder / f"{name}-{length}"], check=True, cwd=folder
            )
        time.sleep(chance.uniform(10, 60))


def rests_on(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What comparisons of the runs in a folder rest on, by configuration."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(folder.glob("*-*/*/result.json")):
        it = series_at(load(file), _KEY)
        if it is not None and it.parts:
            entry = {"median_ns": round(it.value), "parts_ns": [*map(round, it.parts)], "slowed": round(it.slowdown, 4)}
            found.setdefault(file.parts[-3], []).append(entry)
    return found


def text(runs: dict[str, list[dict[str, Any]]]) -> str:
    """JSON with a line for each run."""
    of_each = (f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, it)) + "\n]" for name, it in runs.items())
    return "{" + ",\n".join(of_each) + "}\n"


# The table


def rows() -> Iterator[tuple[str, int, float, float]]:
    """Of each kind of pair how many there were, how often the interval held the truth, and how wide it was, as a share, in the middle."""
    runs = {name: [_series(it) for it in several] for name, several in json.loads(RUNS.read_text()).items()}
    for length in LENGTHS:
        for name, other in (("tiny", "tiny"), ("chain", "chain"), ("chain10", "chain10"), ("chain10", "chain")):
            ones, others = runs[f"{name}-{length}"], runs[f"{other}-{length}"]
            pairs = [*combinations(ones, 2)] if name == other else [(a, b) for a in ones for b in others]
            random.Random(0).shuffle(pairs)
            what = f"{name} against {'itself' if name == other else other}, {length}"
            yield (what, *_held([(base, one, None) for one, base in pairs[:PAIRS]], TRUTHS.get((name, other), 1.0)))
        chance = random.Random(0)
        of_tiny = runs[f"tiny-{length}"]
        drawn = [chance.sample(of_tiny, 2 * REPEATED) for _ in range(PAIRS)]
        spreads = [
            (it[0], it[-1], spread_of([[run.value for run in part] for part in (it[:REPEATED], it[REPEATED:])], 1))
            for it in drawn
        ]
        yield (f"tiny against itself, {REPEATED} runs of each, {length}", *_held(spreads, 1.0))


def _held(pairs: list[tuple[Series, Series, Spread | None]], truth: float) -> tuple[int, float, float]:
    held, widths = 0, []
    for base, one, spread in pairs:
        found = compare_series(base, one, spread)
        assert found is not None
        assert found.ends is not None
        low, high = found.ends
        held += low <= truth <= high
        widths.append((high / low) ** 0.5 - 1)
    return len(pairs), held / len(pairs), sorted(widths)[len(widths) // 2]


def _series(entry: dict[str, Any]) -> Series:
    """A run as a comparison takes it."""
    case = measured(CPU, latency={0: [1]})
    made = Series(_KEY, case, entry["median_ns"], result_of(case))
    vars(made).update(parts=entry["parts_ns"], slowdown=entry["slowed"], blocks=[])
    return made


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    asked = parser.parse_args()
    if asked.minutes:
        take(asked.folder.resolve(), asked.minutes)
    RUNS.write_text(text(rests_on(asked.folder)))
