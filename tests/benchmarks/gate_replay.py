"""Judges the gate's rule on recorded noise: thousands of gates replayed from the traces of `tests.benchmarks.gate_trace`.

    python -m tests.benchmarks.gate_replay > reports/gate/replay.md

Every gate starts at a random round of a trace and is fed block by block, exactly as a live gate is. Beside it, from the
same trace: a stored number (the median of 60 runs, held against that of 60 runs taken 10 s to 5 min earlier), and
`ortbench gate --baseline` on two runs of 5 s, as far apart, with the noise that each recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ortbench.analysis.comparison import compare_series
from ortbench.facts.sentences import FAILED, PASSED, UNCLEAR
from ortbench.features.gate.gates import RatioTest, SequentialTests, regression_tests
from ortbench.features.gate.plan import Limits
from tests.benchmarks.gate_trace import FOLDER, LANES
from tests.results import measured, series_of

GATES = 2000
BUDGET_S = 60.0  # what `ortbench gate` gives a mode, both sides
STORED_RUNS = 60
STORED_S = 5.0
APART_S = (10.0, 300.0)


@dataclass(frozen=True)
class Kind:
    """A gate: how much slower the candidate is, in percent, and the limit."""

    name: str
    candidate: int
    limit: float
    wanted: str

    def lanes(self, number: int) -> tuple[int, int]:
        """The lanes of a trace for candidate and baseline; both that are the baseline take turns."""
        baselines = [lane for lane, extra in enumerate(LANES) if extra == 0]
        if self.candidate == 0:
            return (baselines[number % 2], baselines[1 - number % 2])
        return LANES.index(self.candidate), baselines[number % 2]


KINDS = (
    Kind("itself, limit 5 %", 0, 0.05, PASSED),
    Kind("10 % more work, limit 5 %", 10, 0.05, FAILED),
    Kind("5 % more work, limit 2 %", 5, 0.02, FAILED),
)


@dataclass
class Trace:
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
    (ratio_test,) = ratio_tests(kind)
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


def ratio_tests(kind: Kind) -> list[RatioTest]:
    """What the command line makes of ``--max-regression``."""
    return regression_tests(Limits(max_regression=kind.limit), ["cpu-tensors"])


def stored_number(trace: Trace, kind: Kind, number: int, start_s: float, apart_s: float) -> Verdict:
    """A stored median and a threshold: what most gates are."""
    candidate, baseline = kind.lanes(number)
    runs = STORED_RUNS // trace.samples.shape[2]
    medians = []
    for lane, begin in ((baseline, start_s), (candidate, start_s + apart_s)):
        at = trace.after(begin)
        medians.append(median(trace.samples[at : at + runs, lane].ravel().tolist()))
    return (FAILED if medians[1] > medians[0] * (1 + kind.limit) else PASSED), 0.0


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


def spread(trace: Trace) -> dict[str, Any]:
    """How noisy a trace is, for its description."""
    runs = np.median(trace.samples, axis=2)
    logs = np.log(runs[:, 1] / runs[:, 0])
    return {
        "rounds": len(runs),
        "minutes": float(trace.start_s.max()) / 60,
        "medians_ms": [round(float(x) / 1e6, 2) for x in np.median(runs, axis=0)],
        "p10_p90_of_a_block": [round(float(x) / 1e6, 2) for x in np.quantile(runs[:, 0], [0.1, 0.9])],
        "quartiles_of_a_pair": [round(float(x), 4) for x in np.quantile(np.exp(logs), [0.25, 0.75])],
        "p5_p95_of_a_pair": [round(float(x), 3) for x in np.quantile(np.exp(logs), [0.05, 0.95])],
    }


def main() -> None:
    """Print the report."""
    print("# Gates replayed from recorded noise\n")
    traces = {noise: Trace.read(FOLDER / f"noise-{noise}.npz") for noise in ("quiet", "loaded", "full")}
    for noise, trace in traces.items():
        print(f"- {noise}: {', '.join(f'{key} {value}' for key, value in spread(trace).items())}")
    print("\n| noise | candidate | gate | gates | passed | failed | cannot tell | median / p95 s to verdict |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for noise, trace in traces.items():
        for kind in KINDS:
            print(line(noise, kind, "live", replay(trace, kind, live, False, GATES)), flush=True)
            if noise == "full":  # too short for two runs that are minutes apart
                continue
            print(line(noise, kind, "stored number", replay(trace, kind, stored_number, True, GATES)), flush=True)
            print(line(noise, kind, "--baseline file", replay(trace, kind, stored_gate, True, GATES)), flush=True)


if __name__ == "__main__":
    main()
