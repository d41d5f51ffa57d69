"""Judges the gate's rule on recorded noise: thousands of gates replayed from the traces in reports/gate.

    python -m tests.benchmarks.gate_replay

Every gate starts at a random round of a trace and is fed block by block, exactly as a live gate is. Beside it, from the same trace:
`ortbench gate --baseline` on two runs of 5 s, 10 s to 5 min apart, with the noise that each recorded. Traces (``noise-*.npz``) have
`samples` (rounds, lanes, samples) in tenths of a microsecond, `start_ms` and `spent_us` (rounds, lanes) of blocks in turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ortbench.analysis.comparison import compare_series
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.gate.gates import SequentialTests, regression_tests
from ortbench.features.gate.plan import Limits
from tests.results import measured, series_of

FOLDER = Path(__file__).resolve().parents[2] / "reports" / "gate"
LANES = (0, 0, 5, 10)  # of a trace: per cent of work added
GATES = 2000
BUDGET_S = 60.0  # what `ortbench gate` gives a mode, both sides
STORED_S = 5.0
APART_S = (10.0, 300.0)


class Kind(NamedTuple):
    """A gate: how much slower the candidate is, in percent, and the limit."""

    name: str
    candidate: int
    limit: float

    def lanes(self, number: int) -> tuple[int, int]:
        """The lanes of a trace for candidate and baseline; both that are the baseline take turns."""
        baselines = [lane for lane, extra in enumerate(LANES) if extra == 0]
        if self.candidate == 0:
            return (baselines[number % 2], baselines[1 - number % 2])
        return LANES.index(self.candidate), baselines[number % 2]


KINDS = (
    Kind("itself, limit 5 %", 0, 0.05),
    Kind("10 % more work, limit 5 %", 10, 0.05),
    Kind("5 % more work, limit 2 %", 5, 0.02),
)


class Trace(NamedTuple):
    """Samples in ns (rounds, lanes, samples), starts in s (rounds, lanes) and what each block took in s."""

    samples: NDArray[np.int64]
    start_s: NDArray[np.float64]
    spent_s: NDArray[np.float64]

    @classmethod
    def read(cls, path: Path) -> Trace:
        """Read a recorded trace."""
        with np.load(path) as data:
            return cls(data["samples"].astype(np.int64) * 100, data["start_ms"] / 1e3, data["spent_us"] / 1e6)

    def after(self, seconds: float) -> int:
        """The first round that starts after so many seconds."""
        return int(np.searchsorted(self.start_s.min(axis=1), seconds))


Verdict = tuple[str, float]


def live(trace: Trace, kind: Kind, number: int, start_s: float) -> Verdict:
    """A live gate: verdict, and the seconds its blocks took."""
    candidate, baseline = kind.lanes(number)
    (ratio_test,) = regression_tests(Limits(max_regression=kind.limit), ["cpu-tensors"])
    sequential = SequentialTests([ratio_test])
    spent = 0.0
    for at in range(trace.after(start_s), len(trace.samples)):
        for side, lane in enumerate((candidate, baseline)):
            sequential.add(side, "cpu-tensors", "latency", at, trace.samples[at, lane].tolist())
            spent += float(trace.spent_s[at, lane])
        verdict = sequential.check(ratio_test).verdict
        if verdict != UNCLEAR or spent > BUDGET_S:
            return verdict, spent
    return UNCLEAR, spent


def stored_gate(trace: Trace, kind: Kind, number: int, start_s: float, apart_s: float) -> Verdict:
    """`ortbench gate RESULT --baseline BASE`."""
    candidate, baseline = kind.lanes(number)
    cases = []
    for lane, begin in ((baseline, start_s), (candidate, start_s + apart_s)):
        rounds = range(trace.after(begin), trace.after(begin + STORED_S))
        samples = trace.samples[rounds.start : rounds.stop, lane].tolist()
        cases.append(measured("cpu-tensors", latency=dict(enumerate(samples))))
    before, now = map(series_of, cases)
    found = compare_series(before, now)
    if found is None or found.low is None or found.high is None:
        return UNCLEAR, 0.0
    most = 1 + kind.limit
    return (FAILED if found.low > most else PASSED if found.high < most else UNCLEAR), 0.0


def replay(trace: Trace, kind: Kind, gate: Callable[..., Verdict], apart: bool, gates: int) -> list[Verdict]:
    """Gates at random times of a trace."""
    random = np.random.default_rng(0)
    length = float(trace.start_s.max())
    room = BUDGET_S * 2.5  # a trace holds four lanes: two of them take more than twice as long as in a live gate
    found = []
    for number in range(gates):
        start = float(random.uniform(0, length - (APART_S[1] + STORED_S if apart else room)))
        gap = (float(random.uniform(*APART_S)),) if apart else ()
        found.append(gate(trace, kind, number, start, *gap))
    return found


def line(noise: str, kind: Kind, name: str, found: list[Verdict]) -> str:
    """A row of the table."""
    counts = Counter(verdict for verdict, _ in found)
    shares = " | ".join(f"{counts[verdict] / len(found):.1%}" for verdict in (PASSED, FAILED, UNCLEAR))
    times = sorted(seconds for _, seconds in found)
    took = f"{times[len(times) // 2]:.1f} / {times[len(times) * 95 // 100]:.1f}" if times[-1] else "–"
    return f"| {noise} | {kind.name} | {name} | {len(found)} | {shares} | {took} |"


def main() -> None:
    """Print the report."""
    traces = {noise: Trace.read(FOLDER / f"noise-{noise}.npz") for noise in ("quiet", "loaded", "full")}
    print("| noise | candidate | gate | gates | passed | failed | cannot tell | median / p95 s to verdict |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for noise, trace in traces.items():
        for kind in KINDS:
            print(line(noise, kind, "live", replay(trace, kind, live, False, GATES)), flush=True)
            if noise == "full":  # too short for two runs that are minutes apart
                continue
            print(line(noise, kind, "--baseline file", replay(trace, kind, stored_gate, True, GATES)), flush=True)


if __name__ == "__main__":
    main()
