"""Is what `ortbench tune` finds as good as the best of all combinations, and in what part of the time?

    python -m tests.benchmarks.tuning --model tiny --model image_classifier --ep cpu --out reports/tune.json

Of each model on each EP `ortbench tune` searches as a user has it; then every configuration of the same grid is measured as `ortbench run`
does, 5 s each, 15 at a time in turns beside ONNX Runtime's defaults, so that drift hits all alike. The least of hundreds of medians is
partly luck: so the best of both, and the defaults, are measured side by side five times more, each with fresh workers, and the ratios
printed are the medians of those. Prints a line for each model and EP; asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from ortbench.analysis.comparison import compare_series
from ortbench.analysis.noise import summary
from ortbench.analysis.series import Key, series_at
from ortbench.core.errors import OrtbenchError
from ortbench.features.tune import job as tune
from ortbench.features.tune.analysis import Search
from ortbench.features.tune.model import FIRST, Configuration
from ortbench.features.tune.plan import INTERACTING, Space, TuneOptions, name_of, space_of
from ortbench.jobs.publishing import Measured
from ortbench.jobs.run import measure
from ortbench.measure.environment import usable_cores
from ortbench.model.metrics import figure
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.result_file import load
from ortbench.plan.plan import OutputOptions

ROOT = Path(__file__).resolve().parents[2]
_KEY = Key(CPU, (), figure(LATENCY))
_TOGETHER = 15  # beside the defaults
_AGAIN_S, _AGAIN = 4.0, 5


def side_by_side(model: str, space: Space, of: Sequence[Configuration], duration_s: float) -> Measured:
    """Configurations in turns, for so long each."""
    plans = [space.plan(model, it, ()) for it in of]
    plans = [replace(it, loop=replace(it.loop, duration_s=duration_s, precision=None)) for it in plans]
    return measure(plans, None, [name_of(it) for it in of], quiet=True)


def against_first(found: Measured) -> dict[str, tuple[float, float | None, float | None]]:
    """The latency of each configuration divided by that of the first, and where that lies."""
    base = series_at(found.results[0], _KEY)
    ratios = {}
    for name, result in zip(found.names, found.results, strict=True):
        it = series_at(result, _KEY)
        if base is not None and it is not None and (ratio := compare_series(base, it)) is not None:
            ratios[name] = (ratio.ratio, ratio.low, ratio.high)
    return ratios


def of_all(
    ratios: Sequence[dict[str, tuple[float, float | None, float | None]]], name: str
) -> tuple[float, float, float]:
    """The median of a configuration's ratios to the best, the least and the greatest; 1 of the best itself."""
    found = [it.get(name, (1.0, 1.0, 1.0))[0] for it in ratios]
    return median(found), min(found), max(found)


def tuned(model: str, given: dict[str, Any], max_time_s: float) -> tuple[Configuration, float]:
    """What the command finds best for latency, and how long it takes, s."""
    space = space_of(given, usable_cores() or 1)
    with tempfile.TemporaryDirectory() as folder:
        out = OutputOptions(out=Path(folder), quiet=True)
        began = time.monotonic()
        tune.tune(model, given, TuneOptions(max_time_s=max_time_s), ("ortbench", "tune"), out)
        took = time.monotonic() - began
        (file,) = Path(folder).glob("*/tune.json")
        stored = json.loads(file.read_text())
        medians = {path.parent.name: load(path).median(CPU, LATENCY) for path in file.parent.rglob("result.json")}
    print(f"  tune took {took:.0f} s; medians of its last measurement, ns: {medians}", flush=True)
    best = next((it["configuration"] for it in stored["best"] if it["goal"] == "latency"), None)
    search = Search(space.names, space.is_idle, space.joined_settings, INTERACTING)
    return next(it for it in search.every() if name_of(it) == (best or "default")), took


def exhaustive(model: str, space: Space, duration_s: float) -> tuple[dict[Configuration, float], float]:
    """The latency of every configuration against the defaults, and how long that takes, s."""
    every = [it for it in Search(space.names, space.is_idle).every() if it != FIRST]
    known: dict[Configuration, float] = {FIRST: 1.0}
    began = time.monotonic()
    for at in range(0, len(every), _TOGETHER):
        some = [FIRST, *every[at : at + _TOGETHER]]
        ratios = against_first(side_by_side(model, space, some, duration_s))
        known |= {it: ratios[name_of(it)][0] for it in some if name_of(it) in ratios}
        print(f"  {len(known)} of {len(every) + 1} configurations in {time.monotonic() - began:.0f} s", flush=True)
    return known, time.monotonic() - began


def compared(model: str, ep: str, max_time_s: float, duration_s: float, fixed: Sequence[str]) -> dict[str, Any]:
    given: dict[str, Any] = {"ep": ep, **dict.fromkeys(fixed, True)}
    space = space_of(given, usable_cores() or 1)
    found, took = tuned(model, given, max_time_s)
    every, took_all = exhaustive(model, space, duration_s)
    best = min(every, key=lambda it: every[it])
    pair = list(dict.fromkeys([best, found, FIRST]))
    again = [side_by_side(model, space, pair, _AGAIN_S) for _ in range(_AGAIN)]
    ratios = [against_first(it) for it in again]
    noise = again[-1].results[0].noise
    row = {
        "model": Path(model).stem,
        "ep": ep,
        "fixed": list(fixed),
        "configurations": len(every),
        "tune_s": round(took, 1),
        "each_s": duration_s,
        "exhaustive_s": round(took_all, 1),
        "share_of_time": round(took / took_all, 4),
        "found": name_of(found),
        "best": name_of(best),
        "found_to_best": of_all(ratios, name_of(found)),
        "default_to_best": of_all(ratios, "default"),
        "others_used": None if noise is None else summary(noise).others,
    }
    print(json.dumps(row), flush=True)
    return row


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", help="of models/, without .onnx")
    parser.add_argument("--ep", action="append")
    parser.add_argument("--max-time", type=float, default=300.0)
    parser.add_argument(
        "--fix", action="append", default=[], help="a setting that stays on, such as cpu-mem-arena: fewer combinations"
    )
    parser.add_argument(
        "--duration", type=float, default=5.0, help="of each configuration of the grid, s; that of `ortbench run`"
    )
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args(arguments)
    rows = []
    for name in asked.model or ["image_classifier", "copy_bound", "tiny", "decoder"]:
        for ep in asked.ep or ["cpu"]:
            try:
                model = os.path.relpath(ROOT / "models" / f"{name}.onnx")
                rows.append(compared(model, ep, asked.max_time, asked.duration, asked.fix))
            except OrtbenchError as error:
                print(f"{name} on {ep}: {error}", flush=True)
            if asked.out is not None:
                asked.out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
