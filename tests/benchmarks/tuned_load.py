"""How good a search under load is beside all configurations of its space, and how much of their time it takes.

    python -m tests.benchmarks.tuned_load FOLDER MODEL --rate R [--duration S] [--dim N=M]... [--part I/N]

Runs ``ortbench tune`` and, for each configuration of the same space, ``ortbench load``, one after the other, or with ``--part`` a part of
these; what was measured is kept in the folder, and goes on there. When all is there, the best one of either is measured beside the other, and
a line says how many times the p99 of the best of all that of the search is, and which share of the time it took.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortbench.analysis.comparison import compare_series
from ortbench.core.safe_text import plain_name
from ortbench.features.tune.analysis import Search
from ortbench.features.tune.facts import P99_FIGURE, load_series
from ortbench.features.tune.job import available_cores
from ortbench.features.tune.model import Configuration
from ortbench.features.tune.plan import INTERACTING, NEWER_ENTRIES, name_of, space_of
from ortbench.jobs.run import measure
from ortbench.measure.process import ask_once
from ortbench.model.settings import words_of

LONGER = 5  # times as long as all others the two best are measured


def run(*words: object) -> float:
    """How long a command takes, s."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-P", "-m", "ortbench", *map(str, words), "-q"], check=True)
    return time.monotonic() - began


def p99_of(file: Path) -> int:
    """The p99 of the one load point of a result, ns."""
    (case,) = (it for it in json.loads(file.read_text())["cases"] if it["point"])
    return int(case["metrics"]["latency"]["p99"])


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("model")
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--duration", type=float, default=5.0)
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--part", default="1/1")
    asked = parser.parse_args()
    sizes = {name: int(size) for name, size in (it.split("=") for it in asked.dim)}
    given: dict[str, Any] = {"ep": "cpu", "rate": (asked.rate,), "duration": asked.duration, "dim": sizes}
    space = space_of(given, available_cores(), ask_once(60, None, "known_entries", entries=[*NEWER_ENTRIES]))
    search = Search(space.names, space.is_idle, space.joined_settings, INTERACTING, space.has_room, is_loaded=True)
    amount = ("--rate", asked.rate, "--duration", asked.duration)
    line = [asked.model, "--ep", "cpu", *amount, *(f"--dim={it}" for it in asked.dim)]
    asked.folder.mkdir(parents=True, exist_ok=True)
    file = asked.folder / "measured.json"
    done: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    if "tune" not in done:
        seconds = run("tune", *line, "--json", asked.folder / "tune.json", "--out", asked.folder / "tune")
        done["tune"] = seconds
        file.write_text(json.dumps(done))
    part, parts = map(int, asked.part.split("/"))
    every = search.every()
    for number, of in enumerate(every):
        name = name_of(of)
        if number % parts != part - 1 or name in done:
            continue
        out = asked.folder / "load.json"
        flags = {**space.options(of), "session-config": space.options(of).get("session-config", {})}
        keys = [key for key in ("intra-op-threads", "workers", "sessions") if key in flags]
        own = [word for key in keys for word in words_of(key, flags[key])]
        own += [f"--session-config={key}={value}" for key, value in flags["session-config"].items()]
        seconds = run("load", *line, *own, "--json", out, "--out", asked.folder / "loads")
        (case,) = (it for it in json.loads(out.read_text())["cases"] if it["point"])
        found = case["metrics"]
        done[name] = {"s": seconds, "p99": found["latency"]["p99"], "cpu": found["cpu_time"]["mean"]}
        file.write_text(json.dumps(done))
    if not all(name_of(it) in done for it in every):
        print(f"{sum(name_of(it) in done for it in every)} of {len(every)} measured")
        return
    compare(asked, space.plan, done, every)


def compare(asked: Any, plan_of: Any, done: dict[str, Any], every: list[Configuration]) -> None:
    """Measure the best of all beside that of the search, and print how they compare."""
    by_name = {name_of(it): it for it in every}
    folders = {plain_name(name): name for name in by_name}
    p99 = {folders[it.parent.name]: p99_of(it) for it in (asked.folder / "tune").glob("*/*/result.json")}
    best = min((name for name in done if name != "tune"), key=lambda name: done[name]["p99"])
    found = min(p99, key=lambda name: p99[name])
    all_s = sum(it["s"] for name, it in done.items() if name != "tune")
    share = f"in {done['tune']:.0f} of {all_s:.0f} s ({done['tune'] / all_s:.1%}), {len(every)} configurations"
    if found == best:
        print(f"{asked.model}: the same: {best}, {share}")
        return
    plans = [plan_of(asked.model, by_name[name], ()) for name in (best, found)]
    plans = [replace(it, part=replace(it.part, duration_s=LONGER * asked.duration)) for it in plans]
    results = measure(plans, None, [best, found], quiet=True).results
    ratio = compare_series(*(load_series(it, P99_FIGURE) for it in results))  # type: ignore[arg-type]
    print(
        f"{asked.model}: {found} has {ratio and ratio.ratio:.3f} {ratio and ratio.ends} times the p99 of {best}, {share}"
    )


if __name__ == "__main__":
    main()
