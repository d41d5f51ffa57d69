"""On a busy machine busy is said first and nothing is concluded that a quiet one does not say; on a quiet one nobody speaks of a busy one.

In virtual time: runs of the reference device, whose copies and inferences take times of the run's own seed, once on a quiet machine and
once on a busy one: others use 0.4 to 1.8 of 2 cores, a worker waits for 5 to 50 % of a block, and the host is held up for 3 ms on average
at random moments. A conclusion is a fact that names something faster, slower, best or met; the quiet run of the same seed is the truth.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from pathlib import Path

import onnx
import pytest

from ortbench.facts.run import facts_of
from ortbench.facts.sentences import sentence_of
from ortbench.model.result import Result
from ortbench.model.result_file import load
from tests import refdevice, virtual
from tests.conftest import ROOT
from tests.forks import server
from tests.virtual import Clock
from tests.virtual.machine import VARIABLE

pytestmark = [pytest.mark.process, pytest.mark.wide]
COUNT = 2
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


def carry_out(folder: Path, kind: str, seed: int, is_busy: bool) -> Result:
    """A run of a command in virtual time, in a folder."""
    clock_library, clock = virtual.build(folder), Clock(folder / "clock")
    library, at = refdevice.build(folder, clock=clock_library), random.Random(f"{kind} {seed}")
    onnx.save(onnx.parser.parse_model(_MODEL), folder / "batched.onnx")
    knobs = {
        "compute_us": at.randrange(100, 1500), "upload_latency_us": at.choice([0, 10, 200]), "download_latency_us": at.choice([0, 10, 200]),
    }  # fmt: skip
    options = [word for name, value in knobs.items() for word in ("--ep-option", f"{name}={value}")]
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    environment = {"PATH": os.defpath, "HOME": str(folder), virtual.VARIABLE: str(clock.path)}
    pauses = {}
    if is_busy:
        noise = {"others": [at.uniform(0.4, 1.8)], "waits": {"all": at.uniform(0.05, 0.5)}}
        environment[VARIABLE] = json.dumps(noise)
        often, moment = at.uniform(30, 300), 0.0
        while (moment := moment + at.expovariate(1 / often) + 1) < _READINGS:
            pauses[int(moment)] = round(at.expovariate(1 / 3e6))
    clock.restart(pauses)
    words = [*KINDS[kind], "--ep-library", str(library), *options, "--quiet", "--out", str(out)]
    forked = server(clock_library, Path(sys.executable).absolute())
    code, _, err = forked.run(words, folder, environment, _TIMEOUT_S)
    assert code == 0, err.decode()
    (path,) = out.rglob("result.json")
    return load(path)


@pytest.mark.parametrize("kind", KINDS)
def test_facts_of_busy_and_quiet_machines(kind: str, tmp_path: Path) -> None:
    for seed in range(COUNT):
        quiet, busy = (facts_of(carry_out(tmp_path, kind, seed, is_busy)) for is_busy in (False, True))
        assert [it for it in quiet if it.code == "busy-machine"] == []
        assert busy[0].code == "busy-machine"
        truths = {(*it.key, it.mode) for it in quiet}
        conclusions = {(*it.key, it.mode) for it in busy if sentence_of(it).tone in ("good", "bad")}
        assert conclusions - truths == set(), seed
