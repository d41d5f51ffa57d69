"""Virtual time itself, and noise as data: what pauses of the host do to proofs, to stopping early and to the live gate."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from ortbench.model.modes import READBACK, RESIDENT, RUN, SYNCHRONIZE
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, providers, session
from ortbench.worker.bound import BoundMode
from ortbench.worker.modes import make_mode
from ortbench.worker.sync import Syncs
from tests import virtual
from tests.conftest import ortbench
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


def prove_syncs() -> None:
    """Print the kinds that proofs find for a Relu on the device, one after the other."""
    virtual.attach(works=True)
    library, folder, count = sys.argv[1:]
    path, target = str(relu_model(Path(folder) / "relu.onnx", 1 << 12)), Target(library=library)
    model = session.open_model(path, target, providers.find(target))
    mode, kinds = make_mode(RESIDENT, model, first_run.make_data(path, model, Inputs())), list[str]()
    assert isinstance(mode, BoundMode)
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
@pytest.mark.parametrize("seed", [0, 3])
def test_zero_copy_is_claimed_only_where_nothing_is_copied(
    copies: bool, seed: int, library: Path, clock: Clock, tmp_path: Path
) -> None:
    clock.restart(busy(seed, 30_000, 0.3))
    model = relu_model(tmp_path / "relu.onnx", 1 << 16)
    config = Config(honesty=HONESTY[seed], ha_copies=copies, compute_us=100)
    line = ("--iterations", 3, "--warmup", 1, "--mode", "host-accessible")
    code, result, _, errors = run_on_device(library, model, config, tmp_path, *line)
    assert code == 0, errors
    assert result.cases[0].checks["zero_copy"]["verdict"] == ("unclear" if copies else "passed")


def test_a_run_ends_early_beside_noise_too_and_its_medians_are_the_same(
    library: Path, clock: Clock, tmp_path: Path
) -> None:
    clock.restart(busy(1, 60_000))
    model, line = relu_model(tmp_path / "relu.onnx", 1 << 16), ("--mode", "device-resident", "--duration", 20)
    code, result, out, errors = run_on_device(library, model, Config(compute_us=500), tmp_path, *line)
    assert code == 0, errors
    assert "every median known to ±1 %" in out
    assert result.cases[0].median("latency") == 500 * US + 2 * CALL_NS


@pytest.mark.wide
@pytest.mark.parametrize(("baseline_us", "codes"), [(2000, (0, 4)), (1800, (3,))])
@pytest.mark.parametrize("seed", range(2))
def test_the_live_gate_fails_a_slower_build_and_never_the_same(
    seed: int, baseline_us: int, codes: tuple[int, ...], library: Path, clock: Clock, tmp_path: Path
) -> None:
    """Of the same it passes, or cannot tell."""
    clock.restart(busy(seed, 100_000))
    model = relu_model(tmp_path / "relu.onnx", 1 << 12)
    ran = ortbench("gate", "--model", model, "--ep-library", library, "--baseline-set", f"ep-option=compute_us={baseline_us}", "--mode",
                   "device-resident", "--max-regression", "5%", "--duration", 4, "--out", tmp_path / "out", **Config().environ())  # fmt: skip
    assert ran.code in codes
