"""`ortbench gate`, live on the reference device, whose times are what they are set to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ortbench.facts.sentences import UNCLEAR, Check
from ortbench.features.gate.gates.checks import Verdict
from tests.conftest import Ran, modes, ortbench
from tests.results import result_of
from tests.truth import relu_model


def live(library: Path, folder: Path, *options: object) -> Ran:
    model, device = relu_model(folder / "m.onnx", 1 << 16), ("--ep", library, "--ep-option", "compute_us=3000")
    same = ("--baseline-set", "ep-option=compute_us=3000", "--max-regression", "15%", "--warmup", 2, "--no-why")
    return ortbench("gate", "--model", model, *device, *same, "--out", folder / "out", *options)


def test_modes_that_only_a_limit_needs_are_not_compared(library: Path, tmp_path: Path) -> None:
    limit = (*modes("device-tensors"), "--min-speedup", "device-resident=0.5")
    assert live(library, tmp_path, *limit).code == 0
    (gate,) = tmp_path.glob("out/*/gate.json")
    names = [check["name"] for check in json.loads(gate.read_text())["checks"]]
    assert names == ["device-tensors latency median", "device-resident speedup"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("wrong_run=1+", "differ"),
        ("abort_run=60:default", "candidate: device-resident failed: the worker was ended by SIGABRT"),
    ],
)
def test_a_side_that_fails_is_no_verdict(fault: str, said: str, library: Path, tmp_path: Path) -> None:
    ran = live(library, tmp_path, "--ep-option", fault, *modes("device-resident"))
    assert (ran.code, said in ran.err) == (1, True)


def test_a_regression_that_cannot_be_measured_again_cannot_be_told() -> None:
    unclear = Verdict([result_of(), result_of()], [Check("a", UNCLEAR, "")], not_confirmed="m.onnx was changed")
    assert unclear.sentence == "cannot tell, the regression could not be measured again: m.onnx was changed"
