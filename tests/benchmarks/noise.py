"""Under busy processes that begin and end at random moments: is noise said where there was some, and are claims right?

    python -m tests.benchmarks.noise --runs 40 --out reports/noise.json

Of each of run, loop, load and sweep so many runs with no, one and two busy processes a core. What others took is counted here,
from the busy processes' own clocks between a run's first block and its last; a machine that does nothing else is taken for granted.
Claims ("faster", "best") are compared with those of one long run on the quiet machine. Prints a line for each kind; asserts
nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import onnx

from ortbench.analysis.comparing.claims import is_faster
from ortbench.analysis.comparing.verdict import quotient
from ortbench.analysis.noise import busy_reasons, supports_better
from ortbench.analysis.point_blocks import interval, rate_of
from ortbench.features.load.analysis.points import best_case, measured_cases
from ortbench.features.sweep.analysis import is_noisy
from ortbench.model.modes import CPU, THROUGHPUT
from ortbench.model.result import Result
from ortbench.model.result_file import load

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "models"
KINDS = {
    "run": ("image_classifier.onnx", ()),
    "loop": ("recurrent_cell.onnx", ("--feedback", "hidden_out=hidden")),
    "load": ("image_classifier.onnx", ("--mode", "cpu-tensors", "--mode", "device-resident", "--concurrency", "1,2")),
    "sweep": ("", ("--dim", "batch=1,8,32", "--mode", "cpu-tensors")),
}
MEANT = 0.1  # of the processors, from which on noise must be said
_EVERY_S = 0.02  # how often the busy processes' clocks are read
_BUSY = "while True: pass"


class Busy:
    """So many busy processes, which begin and end at random moments; a context manager.

    Attributes:
        used: moments of `time.perf_counter_ns`, and the CPU time of all of them until then, ns.
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count, self._random = count, random.Random(seed)
        self._end = threading.Event()
        self.used: list[tuple[int, int]] = []
        self._threads = [threading.Thread(target=self._come_and_go) for _ in range(count)]
        self._watch = threading.Thread(target=self._read)
        self._pids: dict[int, int] = {}

    def __enter__(self) -> Busy:
        for thread in (*self._threads, self._watch):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in (*self._threads, self._watch):
            thread.join()

    def _come_and_go(self) -> None:
        while not self._end.wait(self._random.expovariate(1)):
            process = subprocess.Popen([sys.executable, "-S", "-c", _BUSY])
            self._pids[process.pid] = 0
            self._end.wait(self._random.expovariate(1 / 2))
            process.kill()
            process.wait()

    def _read(self) -> None:
        while not self._end.wait(_EVERY_S):
            for pid in list(self._pids):
                try:
                    self._pids[pid] = time.clock_gettime_ns(~pid << 3 | 2)
                except OSError:  # it has ended; what it used is known
                    continue
            self.used.append((time.perf_counter_ns(), sum(self._pids.values())))

    def share(self, begin: int, end: int) -> float:
        """Which share of the processors they used between two moments."""
        at = [moment for moment, _ in self.used]
        if not at or end <= begin:
            return 0.0
        first, last = (min(len(at) - 1, bisect_left(at, moment)) for moment in (begin, end))
        return (self.used[last][1] - self.used[first][1]) / (end - begin) / (os.cpu_count() or 1)


class Ran(NamedTuple):
    """A run beside busy processes."""

    kind: str
    a_core: int  # busy processes
    others: float  # that they used, of the processors
    said: str | None
    claims: list[str]


def batched(path: Path) -> Path:
    """A model of matrix products whose batch is not fixed."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[batch, 256] x, float[256, 256] w) => (float[batch, 256] y)
        { a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) y = Relu(c) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def carry_out(kind: str, seconds: float, folder: Path) -> Result:
    """One run of a kind, and its result."""
    name, options = KINDS[kind]
    model = MODELS / name if name else batched(folder / "batched.onnx")
    out = folder / f"out-{time.perf_counter_ns()}"
    line = [sys.executable, "-m", "ortbench", kind, str(model), "--ep", "cpu", *options]
    subprocess.run([*line, "--duration", str(seconds), "--quiet", "--out", str(out)], check=True)
    (found,) = out.glob("*/result.json")
    return load(found)


def span(result: Result) -> tuple[int, int]:
    """When the first block of a result began and the last one ended."""
    assert result.noise is not None
    blocks = result.noise["blocks"]
    return min(it[1] for it in blocks), max(it[1] + it[2] for it in blocks)


def said(result: Result) -> str:
    return "" if result.noise is None else ", ".join(busy_reasons(result.noise))


def claims(result: Result) -> list[str]:
    """What a report claims to be faster or best."""
    if result.kind == "sweep":
        modes = {} if result.own["best"] is None else result.own["best"]["modes"]
        return [f"best: {it['shape']} with {mode}" for mode, it in modes.items()
                if it is not None and len(it["ties"]) < len(result.shapes) - 1 and not is_noisy(result, mode)]  # fmt: skip
    if result.kind == "load":
        best = best_case(result)
        others = [it for it in measured_cases(result, "concurrency") if best is not None and it.mode != best.mode]
        if best is None or not others:
            return []
        other = max(others, key=rate_of)
        times = quotient(rate_of(best), rate_of(other), interval(best, THROUGHPUT), interval(other, THROUGHPUT))
        is_told = times.ci95 is not None and times.ci95[0] > 1 and supports_better(result, best, other, times.ci95[0])
        return [f"most: {best.mode}"] if is_told else []
    return [f"faster: {case.mode}" for case in result.cases if case.mode != CPU and is_faster(case)]


def contradicted(said: str, quiet: Result) -> bool:
    """Whether a long run on the quiet machine says otherwise, beyond doubt."""
    what, _, rest = said.partition(": ")
    if what == "faster":
        case = quiet.case(rest)
        return case is None or case.speedup is None or case.speedup.ci95 is None or case.speedup.ci95[1] < 1
    if what == "most":
        best = best_case(quiet)
        return best is None or (best.mode != rest and f"most: {best.mode}" in claims(quiet))
    shape, _, mode = rest.partition(" with ")
    found = None if quiet.own["best"] is None else quiet.own["best"]["modes"][mode]
    return found is None or shape not in (found["shape"], *found["ties"])


def runs(kinds: Sequence[str], levels: Sequence[int], count: int, seconds: float, folder: Path) -> Iterator[Ran]:
    seed = 0
    for number in range(count):
        for kind in kinds:
            for a_core in levels:
                seed += 1
                with Busy(a_core * (os.cpu_count() or 1), seed) as busy:
                    result = carry_out(kind, seconds, folder)
                ran = Ran(kind, a_core, busy.share(*span(result)), said(result), claims(result))
                print(
                    f"{number + 1}/{count} {kind} {a_core} a core: others {ran.others:.0%}, {ran.said}, {ran.claims}",
                    file=sys.stderr,
                )
                yield ran


def lines(found: Sequence[Ran], quiet: dict[str, Result]) -> Iterator[str]:
    """What came of it, a line a kind."""
    for kind in dict.fromkeys(it.kind for it in found):
        own = [it for it in found if it.kind == kind]
        noisy, still = [it for it in own if it.others >= MEANT], [it for it in own if it.a_core == 0]
        made = [said for it in own if it.a_core for said in it.claims]
        wrong = [said for said in made if contradicted(said, quiet[kind])]
        yield (
            f"{kind}: said in {sum(it.said is not None for it in noisy)} of {len(noisy)} runs of which others used {MEANT:.0%} or more; "
            f"in {sum(it.said is not None for it in still)} of {len(still)} without busy processes (limit 1 of 40); "
            f"{len(wrong)} of {len(made)} claims contradicted by the quiet run (limit 1%){': ' if wrong else ''}{', '.join(wrong)}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each mode")
    parser.add_argument("--quiet-seconds", type=float, default=20.0, help="of each mode of the long, quiet run")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--levels", default="0,1,2", help="busy processes a core")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    kinds = asked.kinds.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        quiet = {kind: carry_out(kind, asked.quiet_seconds, folder) for kind in kinds}
        for kind, result in quiet.items():
            print(f"{kind}: the long run claims {claims(result)}; {said(result) or 'quiet'}", file=sys.stderr)
        found = list(runs(kinds, list(map(int, asked.levels.split(","))), asked.runs, asked.seconds, folder))
    print("\n".join(lines(found, quiet)))
    if asked.out is not None:
        asked.out.write_text(json.dumps([it._asdict() for it in found], indent=1) + "\n")


if __name__ == "__main__":
    main()
