"""Live gates for real, and what others would have said: on a quiet machine and under a load that comes and goes.

    pip install pytest-benchmark
    python -m tests.benchmarks.gate_live quiet 30
    python -m tests.benchmarks.gate_live loaded 30
    python -m tests.benchmarks.gate_live table > reports/gate/live.md

A pass runs every gate once, one after the other, each a process of its own as in CI:

- `ortbench gate --model … --baseline-model …`, a CPU model of about 5 ms with 0, 5 or 10 % more layers, mode `cpu-tensors`;
- `ortbench gate --ep-option … --baseline-set ep-option=…`, the reference device with 5 ms and 0, 5 or 10 % more compute
  time, mode `device-resident`;
- pytest-benchmark's ``--benchmark-compare-fail=median:…`` with the CPU models, held against what it saved in the pass
  before, as a CI job is held against an earlier one.

From the samples of the first kind come two more verdicts: a stored number, the median of the baseline's first 60 runs
of the pass before, and `ortbench gate RESULT --baseline BASE` on the results of these two passes. Every verdict is a line
of ``reports/gate/live-quiet.jsonl`` or ``live-loaded.jsonl``.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.gate.gates.baseline import check_stored
from ortbench.features.gate.gates.checks import overall
from ortbench.features.gate.plan import Limits
from ortbench.model.result import Result
from ortbench.model.result_file import load
from tests.benchmarks.gate_replay import KINDS, STORED_RUNS, Kind
from tests.benchmarks.gate_trace import FOLDER
from tests.benchmarks.load import Load
from tests.benchmarks.workload import chain
from tests.refdevice import build
from tests.truth import relu_model

WORDS = {0: PASSED, 3: FAILED, 4: UNCLEAR}
CHAIN, DEVICE = "live, CPU model", "live, reference device"
STORED, STORED_GATE, PYTEST = "stored number", "--baseline file", "pytest-benchmark"
COMPUTE_US = 5000

BENCHMARK = """
import os
import numpy
import onnxruntime

def test_model(benchmark):
    session = onnxruntime.InferenceSession(os.environ["BENCH_MODEL"], providers=["CPUExecutionProvider"])
    feeds = {"x": numpy.random.default_rng(0).standard_normal(session.get_inputs()[0].shape, numpy.float32)}
    benchmark(session.run, None, feeds)
"""

Line = dict[str, Any]


class Passes:
    """Carries passes out in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._models = {extra: chain(folder / f"chain-{extra}.onnx", extra) for extra in (0, 5, 10)}
        self._relu = relu_model(folder / "relu.onnx", 1 << 16)
        self._library = build(folder / "refdevice")
        self._benchmark = folder / "bench" / "test_model.py"
        self._benchmark.parent.mkdir()
        self._benchmark.write_text(BENCHMARK)
        self._before: dict[str, tuple[Path, Path]] = {}  # folders of candidate and baseline of the pass before
        self._number = 0

    def run(self) -> Iterator[Line]:
        """One pass: every verdict as it comes."""
        self._number += 1
        for kind in KINDS:
            yield from self._chain(kind)
        for kind in KINDS:
            compute = COMPUTE_US * (100 + kind.candidate) // 100
            options = ["--ep-option", f"compute_us={compute}", "--baseline-set", f"ep-option=compute_us={COMPUTE_US}"]
            command = ["--model", self._relu, "--ep", self._library, *options, "--mode", "device-resident"]
            yield self._gate(DEVICE, kind, command)[0]
        yield from self._pytest()

    def _gate(self, name: str, kind: Kind, options: list[object]) -> tuple[Line, Path]:
        out = self._folder / "out" / f"{self._number}-{name}-{kind.candidate}"
        command = [sys.executable, "-m", "ortbench", "gate", *map(str, options), "--max-regression", str(kind.limit)]
        start = time.perf_counter()
        done = subprocess.run([*command, "--out", str(out), "--json", "-"], capture_output=True, text=True)
        seconds = time.perf_counter() - start
        if done.returncode not in WORDS:
            raise SystemExit(f"{command}: exit {done.returncode}: {done.stderr}")
        (check,) = json.loads(done.stdout)["checks"]
        (place,) = out.glob("[!.]*")
        figures = {key: check[key] for key in ("ratio", "low", "high", "rounds")}
        return line(name, kind, WORDS[done.returncode], seconds, **figures), place

    def _chain(self, kind: Kind) -> Iterator[Line]:
        models = ["--model", self._models[kind.candidate], "--baseline-model", self._models[0]]
        live, place = self._gate(CHAIN, kind, [*models, "--ep", "cpu", "--mode", "cpu-tensors"])
        yield live
        now = (place / "candidate" / "result.json", place / "baseline" / "result.json")
        if kind.name in self._before:
            candidate, baseline = load(now[0]), load(self._before[kind.name][1])
            medians = [median(samples(it)[:STORED_RUNS]) for it in (candidate, baseline)]
            yield line(STORED, kind, FAILED if medians[0] > medians[1] * (1 + kind.limit) else PASSED, 0)
            checks = check_stored(candidate, baseline, Limits(max_regression=kind.limit))
            yield line(STORED_GATE, kind, overall(checks), 0, ratio=checks[0].ratio)
        self._before[kind.name] = now

    def _pytest(self) -> Iterator[Line]:
        """The baseline of the pass before against each candidate, then the baseline of this one."""
        if self._number > 1:
            for kind in KINDS:
                fail = f"--benchmark-compare-fail=median:{kind.limit:.0%}"
                start = time.perf_counter()
                regressed = self._run_pytest(kind.candidate, "--benchmark-compare", fail)
                yield line(PYTEST, kind, FAILED if regressed else PASSED, time.perf_counter() - start)
        self._run_pytest(0, f"--benchmark-save=pass{self._number}")

    def _run_pytest(self, extra: int, *options: str) -> bool:
        """Whether pytest-benchmark found a regression; it ends with an exception then."""
        command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(self._benchmark.parent),
                   "-p", "no:cacheprovider", f"--benchmark-storage={self._folder / 'saved'}", *options,
                   str(self._benchmark)]  # fmt: skip
        environment = {**os.environ, "BENCH_MODEL": str(self._models[extra])}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        regressed = "Performance has regressed" in done.stdout + done.stderr
        if done.returncode and not regressed:
            raise SystemExit(done.stdout + done.stderr)
        return regressed


def samples(result: Result) -> Sequence[float]:
    """All runs of mode cpu-tensors, ns."""
    case = result.case("cpu-tensors")
    assert case is not None
    return case.samples["latency"]


def line(gate: str, kind: Kind, verdict: str, seconds: float, **figures: Any) -> Line:
    """One verdict."""
    return {"gate": gate, "kind": kind.name, "verdict": verdict, "seconds": round(seconds, 2), **figures}


def measure(noise: str, passes: int) -> None:
    """Carry passes out and write their verdicts, a line each as they come."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = stack.enter_context((FOLDER / f"live-{noise}.jsonl").open("w"))
        work = Passes(folder)
        if noise == "loaded":
            stack.enter_context(Load(seed=1))
        for found in (found for _ in range(passes) for found in work.run()):
            file.write(json.dumps(found) + "\n")
            file.flush()
            print(noise, found, file=sys.stderr)


def table() -> None:
    """Print the verdicts of both as a table."""
    print("| noise | candidate | gate | gates | passed | failed | cannot tell | median / longest s |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for noise in ("quiet", "loaded"):
        found: dict[tuple[str, str], list[Line]] = defaultdict(list)
        for text in (FOLDER / f"live-{noise}.jsonl").read_text().splitlines():
            one = json.loads(text)
            found[one["kind"], one["gate"]].append(one)
        for kind in KINDS:
            for gate in (CHAIN, DEVICE, STORED, STORED_GATE, PYTEST):
                lines = found[kind.name, gate]
                counts = Counter(one["verdict"] for one in lines)
                times = sorted(one["seconds"] for one in lines)
                took = f"{median(times):.1f} / {times[-1]:.1f}" if times[-1] else "–"
                shares = " | ".join(str(counts[verdict]) for verdict in (PASSED, FAILED, UNCLEAR))
                print(f"| {noise} | {kind.name} | {gate} | {len(lines)} | {shares} | {took} |")


if __name__ == "__main__":
    if sys.argv[1] == "table":
        table()
    else:
        measure(sys.argv[1], int(sys.argv[2]))
