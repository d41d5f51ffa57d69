"""Virtual time itself, and noise as data: what pauses of the host do to proofs, to stopping early and to the live gate."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path

import pytest

from ortbench.model.modes import READBACK, RESIDENT, RUN, SYNCHRONIZE
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, providers, session
from ortbench.worker.bound import BoundMode
from ortbench.worker.modes import make_mode
from ortbench.worker.sync import Syncs
from tests import virtual
from tests.conftest import Ran, ortbench
from tests.refdevice import HONESTY, Config, Honesty
from tests.truth import in_fork, relu_model, run_on_device
from tests.virtual import CALL_NS, Clock

pytestmark = pytest.mark.process

US, MS = 1_000, 1_000_000
KINDS = [RUN, SYNCHRONIZE, READBACK]  # of syncs, from the cheapest on
RIGHT = dict(zip(HONESTY, [RUN, RUN, SYNCHRONIZE, READBACK], strict=True))


def busy(seed: int, readings: int, share: float = 0.1) -> dict[int, int]:
    """Pauses of a host that others keep busy: about this share of its readings, in bursts, up to 5 ms each."""
    dice, found, at = random.Random(seed), {}, 0
    while at < readings:
        at += 1 + round(dice.expovariate(share / (1 - share) / 4))
        for _ in range(dice.randrange(1, 8)):
            found[at] = dice.randrange(10 * US, 5 * MS)
            at += 1
    return found


# Virtual time


def test_a_process_that_reads_the_systems_clock_is_refused_at_once(library: Path) -> None:
    ran = ortbench("run", "models/copy_bound.onnx", "--ep", library, PYTHONUNBUFFERED="1")
    assert ran.code == 1
    assert ran.error_line.endswith(": this build of the reference device goes by a clock that is not there")


def read_the_clock() -> None:
    virtual.attach(works=True)
    print(json.dumps([time.perf_counter_ns() - virtual.START_NS for _ in range(5)]))


def test_pauses_land_at_the_numbered_reading(clock: Clock) -> None:
    clock.restart({2: 5 * MS, 4: 7})
    found = in_fork(f"{__name__}:read_the_clock")
    assert found == [
        CALL_NS,
        2 * CALL_NS + 5 * MS,
        3 * CALL_NS + 5 * MS,
        4 * CALL_NS + 5 * MS + 7,
        5 * CALL_NS + 5 * MS + 7,
    ]
    assert (clock.readings, clock.passed_ns) == (5, found[-1])


def run_for_a_minute() -> None:
    """Print what a run of a minute takes until it returns and until it is done, and the threads that it starts."""
    virtual.attach(works=True)
    mode = mode_of(*sys.argv[1:])
    launch, synchronize = mode.run_to_prove().launch, dict(mode.run_to_prove().candidates)[SYNCHRONIZE]
    assert synchronize is not None
    launch()
    synchronize()
    threads = len(os.listdir("/proc/self/task"))
    times = [time.perf_counter_ns()]
    for call in (launch, synchronize):
        call()
        times.append(time.perf_counter_ns())
    print(json.dumps([times[1] - times[0], times[2] - times[0], len(os.listdir("/proc/self/task")) - threads]))


def test_work_in_an_asynchronous_queue_is_only_a_number(library: Path, tmp_path: Path) -> None:
    config = Config(honesty="async", compute_us=60e6)
    found = in_fork(f"{__name__}:run_for_a_minute", library, tmp_path, **config.environ())
    assert found == [2 * CALL_NS, 60_000 * MS + 2 * CALL_NS, 0]


def test_two_runs_are_the_same_to_the_byte(library: Path, clock: Clock, tmp_path: Path) -> None:
    model, found = relu_model(tmp_path / "relu.onnx", 1 << 16), []
    for name in "ab":
        clock.restart(busy(1, 30_000))
        ran = ortbench("run", model, "--ep-library", library, "--seed", 1, "--duration", 0.5, "--out", tmp_path / name, "--json",
                       "-", "--mode", "all", "--depth", 2, **Config(honesty="async").environ())  # fmt: skip
        assert ran.code == 0, ran.err
        result = json.loads(ran.out)
        figures = {key: result[key] for key in ("cases", "target")}
        found.append((figures, clock.passed_ns, clock.readings))
    assert found[0] == found[1]


# What a busy host does


def mode_of(library: str, folder: str) -> BoundMode:
    """A mode of a Relu on the device, used directly."""
    path, target = str(relu_model(Path(folder) / "relu.onnx", 1 << 12)), Target(library=library)
    model = session.open_model(path, target, providers.find(target))
    mode = make_mode(RESIDENT, model, first_run.make_data(path, model, Inputs()))
    assert isinstance(mode, BoundMode)
    return mode


def prove_syncs() -> None:
    """Print the kinds that proofs find, one after the other."""
    virtual.attach(works=True)
    library, folder, count = sys.argv[1:]
    mode, kinds = mode_of(library, folder), list[str]()
    for _ in range(int(count)):
        mode._model.syncs = Syncs()  # as in a session where nothing is known
        kinds.append(mode._prove_run().kind)
    print(json.dumps(kinds))


@pytest.mark.wide
@pytest.mark.parametrize("honesty", HONESTY)
@pytest.mark.parametrize("compute_us", [30, 1000])
@pytest.mark.parametrize("share", [0.3, 0.85])
def test_no_proof_takes_a_sync_that_does_not_wait(
    honesty: Honesty, share: float, compute_us: int, library: Path, clock: Clock, tmp_path: Path
) -> None:
    """Where the host is held up at most of its readings it falls back to a dearer one, else it finds the cheapest."""
    clock.restart(busy(1, 20_000, share))
    config = Config(honesty=honesty, compute_us=compute_us)
    kinds = set(in_fork(f"{__name__}:prove_syncs", library, tmp_path, 10, **config.environ()))
    right = KINDS.index(RIGHT[honesty])
    assert kinds <= set(KINDS[right:])
    assert share > 0.5 or kinds == {KINDS[right]}
    assert share < 0.5 or len(kinds) > 1 or RIGHT[honesty] == READBACK


@pytest.mark.parametrize("copies", [True, False])
def test_zero_copy_is_claimed_only_where_nothing_is_copied(
    copies: bool, library: Path, clock: Clock, tmp_path: Path
) -> None:
    found = []
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        clock.restart(busy(seed, 30_000, 0.3))
        model, line = (
            relu_model(folder / "relu.onnx", 1 << 16),
            ("--iterations", 3, "--warmup", 1, "--mode", "host-accessible"),
        )
        config = Config(honesty=HONESTY[seed], ha_copies=copies, compute_us=100)
        code, result, _, errors = run_on_device(library, model, config, folder, *line)
        assert code == 0, errors
        found.append(result.cases[0].checks["zero_copy"]["verdict"])
    assert found == ["unclear" if copies else "passed"] * 4


def test_a_run_ends_early_beside_noise_too_and_says_the_same(library: Path, clock: Clock, tmp_path: Path) -> None:
    medians, passed = [], []
    for share in (0.0, 0.1):
        folder = tmp_path / str(share)
        folder.mkdir()
        clock.restart(busy(1, 60_000, share) if share else {})
        model, line = (
            relu_model(folder / "relu.onnx", 1 << 16),
            ("--mode", "cpu-tensors", "--mode", "device-resident", "--duration", 20),
        )
        code, result, out, errors = run_on_device(library, model, Config(), folder, *line)
        assert code == 0, errors
        assert "every median known to ±1 %" in out
        medians.append([case.median("latency") for case in result.cases])
        passed.append(clock.passed_ns)
    assert medians[0] == medians[1]
    assert passed[0] < passed[1]


def gate(library: Path, folder: Path, baseline_us: int) -> Ran:
    model = relu_model(folder / "relu.onnx", 1 << 12)
    return ortbench("gate", "--model", model, "--ep-library", library, "--baseline-set", f"ep-option=compute_us={baseline_us}", "--mode",
                    "device-resident", "--max-regression", "5%", "--duration", 4, "--out", folder / "out",
                    **Config().environ())  # fmt: skip


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(4))
def test_the_live_gate_fails_a_slower_build_and_never_the_same(
    seed: int, library: Path, clock: Clock, tmp_path: Path
) -> None:
    codes = {}
    for name, baseline_us in (("same", 2000), ("slower", 1800)):
        (tmp_path / name).mkdir()
        clock.restart(busy(seed, 100_000))
        codes[name] = gate(library, tmp_path / name, baseline_us).code
    assert codes["same"] in (0, 4)  # passes, or cannot tell
    assert codes["slower"] == 3
