"""What the facts of busy and of quiet machines are, in virtual time: is busy said, and is anything concluded that noise made?

    python -m tests.benchmarks.busy [--runs 20] > reports/busy.md

Of each kind so many runs of the reference device, whose copies and inferences take times of the run's own seed, once on a quiet machine and
once on a busy one: others use 0.4 to 1.8 of 2 cores, a worker waits for 5 to 50 % of a block, and the host is held up for 3 ms on average
at random moments. A conclusion is a fact that names something faster, slower, best or met; the quiet run of the same seed is the truth.
All of it comes out the same each time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import onnx

from ortbench.facts.common import Fact
from ortbench.facts.run import facts_of
from ortbench.facts.sentences import sentence_of
from ortbench.model.result import Result
from ortbench.model.result_file import load
from tests import refdevice, virtual
from tests.forks import server
from tests.virtual import Clock
from tests.virtual.machine import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
_FEW = ("--iterations", "300", "--warmup", "1")
KINDS: dict[str, tuple[str, ...]] = {
    "run": ("run", "batched.onnx", "--dim", "batch=4", *_FEW),
    "loop": ("loop", str(ROOT / "models" / "recurrent_cell.onnx"), "--feedback", "hidden_out=hidden", "--steps", "6", *_FEW),
    "sweep": ("sweep", "batched.onnx", "--dim", "batch=1,4,16", "--mode", "cpu-tensors", "--mode", "device-resident", *_FEW),
    "load": ("load", "batched.onnx", "--dim", "batch=4", "--mode", "cpu-tensors", "--mode", "device-resident",
             "--concurrency", "1", "--duration", "0.3"),
}  # fmt: skip
_MODEL = '<ir_version: 8, opset_import: ["" : 17]> g (float[batch, 2000] x) => (float[batch, 2000] y) { y = Relu(x) }'
_TIMEOUT_S = 300.0
_READINGS = 60_000  # of the clock, more than a run has


class Counts(NamedTuple):
    """Of the runs of a kind on one of both machines."""

    runs: int
    said_first: int  # busy is the first fact
    said: int  # busy, or quiet rounds, at all
    conclusions: int
    wrong: list[str]  # of them, which the quiet run of the same seed does not have


class Runs:
    """Runs commands in virtual time, in a folder."""

    def __init__(self, folder: Path) -> None:
        clock = virtual.build(folder)
        self._library, self._server = (
            refdevice.build(folder, clock=clock),
            server(clock, Path(sys.executable).absolute()),
        )
        self._folder, self._clock = folder, Clock(folder / "clock")
        onnx.save(onnx.parser.parse_model(_MODEL), folder / "batched.onnx")

    def carry_out(self, kind: str, seed: int, is_busy: bool) -> Result:
        at = random.Random(f"{kind} {seed}")
        knobs = {
            "compute_us": at.randrange(100, 1500), "upload_latency_us": at.choice([0, 10, 200]), "download_latency_us": at.choice([0, 10, 200]),
        }  # fmt: skip
        options = [word for name, value in knobs.items() for word in ("--ep-option", f"{name}={value}")]
        out = self._folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        environment = {"PATH": os.defpath, "HOME": str(self._folder), virtual.VARIABLE: str(self._clock.path)}
        pauses = {}
        if is_busy:
            noise = {"others": [at.uniform(0.4, 1.8)], "waits": {"all": at.uniform(0.05, 0.5)}}
            environment[VARIABLE] = json.dumps(noise)
            often = at.uniform(30, 300)
            moment = 0.0
            while (moment := moment + at.expovariate(1 / often) + 1) < _READINGS:
                pauses[int(moment)] = round(at.expovariate(1 / 3e6))
        self._clock.restart(pauses)
        words = [*KINDS[kind], "--ep-library", str(self._library), *options, "--quiet", "--out", str(out)]
        code, _, err = self._server.run(words, self._folder, environment, _TIMEOUT_S)
        assert code == 0, err.decode()
        (path,) = out.rglob("result.json")
        return load(path)


def is_conclusion(fact: Fact) -> bool:
    return sentence_of(fact).tone in ("good", "bad")


def counted(runs: Runs, kind: str, seeds: range) -> tuple[Counts, Counts]:
    """The counts of quiet runs and of busy ones."""
    found: dict[bool, list[list[Fact]]] = {False: [], True: []}
    for seed in seeds:
        for is_busy in (False, True):
            found[is_busy].append(facts_of(runs.carry_out(kind, seed, is_busy)))
    truths = [{(*it.key, it.mode) for it in facts} for facts in found[False]]
    counts = []
    for all_facts in found.values():
        claims = [(seed, it) for seed, facts in enumerate(all_facts) for it in facts if is_conclusion(it)]
        wrong = [
            f"{it.code} {it.verdict} {it.mode} (seed {seed})"
            for seed, it in claims
            if (*it.key, it.mode) not in truths[seed]
        ]
        busy = [[it.code == "busy-machine" for it in facts] for facts in all_facts]
        counts.append(
            Counts(len(all_facts), sum(bool(it and it[0]) for it in busy), sum(map(any, busy)), len(claims), wrong)
        )
    quiet, loaded = counts
    return quiet, loaded


def lines(count: int, folder: Path) -> Iterator[str]:
    yield "# Facts of busy machines"
    yield ""
    yield f"Of each kind {count} runs on a quiet machine and {count} on a busy one, in virtual time: `python -m tests.benchmarks.busy`, which says how."
    yield "A conclusion names something faster, slower, best or met; one is wrong where the quiet run of the same seed does not have it."
    yield ""
    yield "| kind | machine | runs | busy is said first | busy is said | conclusions | wrong |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    runs, wrong = Runs(folder), []
    for kind in KINDS:
        for name, it in zip(("quiet", "busy"), counted(runs, kind, range(count)), strict=True):
            yield f"| {kind} | {name} | {it.runs} | {it.said_first} | {it.said} | {it.conclusions} | {len(it.wrong)} |"
            wrong += it.wrong
    if wrong:
        yield ""
        yield f"Wrong: {'; '.join(wrong)}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    with tempfile.TemporaryDirectory(prefix="busy-") as name:
        print("\n".join(lines(parser.parse_args().runs, Path(name))))


if __name__ == "__main__":
    main()
