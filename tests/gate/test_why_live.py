"""Models edited in 18 ways: the edit is the first in the list, and nothing else is ever confirmed; and an older ONNX Runtime that
fuses less."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ortbench.facts.sentences import sentence
from ortbench.features.why.facts import Why, why_facts
from ortbench.features.why.job import why_slower
from ortbench.measure.configuration import Configuration
from ortbench.measure.driver import Driver
from ortbench.measure.rounds import Rounds
from ortbench.plan.plan import Loop, Observer, Plan
from ortbench.plan.target import Target
from tests.conftest import ortbench
from tests.gate.edited import EDITS, Edit, Net
from tests.versions import environment

MISSED = 2  # of the edits, at most


def explained(edit: Edit, folder: Path, seconds: float = 3.0) -> Why:
    """What is said of an edit, on one thread."""
    target = Target(ep="cpu", intra_op_threads=1)
    base = Plan(
        str(edit.base.save(folder / "base.onnx")),
        target,
        modes=("cpu-tensors",),
        loop=Loop(duration_s=seconds, precision=None),
    )
    plans = [replace(base, model=str(edit.own.save(folder / "own.onnx"))), base]
    named = zip(plans, ("candidate", "baseline"), strict=True)
    results = Driver([Configuration(plan, name=name) for plan, name in named], Rounds).run()
    return why_slower(plans, results, (), Observer())


def is_found(why: Why, edit: Edit) -> bool:
    """Whether the first change is the edit."""
    first = why.changes[0]
    ops = {it["op"] for it in (*first.own, *first.base)}
    return bool(ops & edit.ops) and ops <= edit.ops | edit.beside


@pytest.mark.timing
@pytest.mark.process
def test_an_edit_is_the_first_in_the_list_and_nothing_else_is_confirmed(tmp_path: Path) -> None:
    missed, wrong = [], []
    for number, edit in enumerate(EDITS):
        folder = tmp_path / str(number)
        folder.mkdir()
        why = explained(edit, folder)
        told = why.confirmation
        line = f"{edit.name}: {' '.join(map(sentence, why_facts(why)))}"
        print(line)
        if not is_found(why, edit):
            missed.append(line)
            if told is not None and told.verdict == "confirmed":
                wrong.append(line)
    assert wrong == []
    assert len(missed) <= MISSED, "\n".join(missed)


# ONNX Runtime 1.24.4 has nodes of their own for these activations; newer ones fuse HardSwish into a Conv and LeakyRelu into a Gemm.
UNFUSED = Net((1, 16, 64, 64), ["conv 16 3", "HardSwish", "conv 16 3", "HardSwish", "conv 16 3"])
LEAKY = Net((64, 256), ["gemm 2048", "LeakyRelu", "gemm 256", "LeakyRelu"])


def beside_older(net: Net, folder: Path, *pythons: object) -> dict[str, Any]:
    """Why the candidate differs from the baseline, of two interpreters in this order."""
    model = net.save(folder / "model.onnx")
    line = ("gate", "--model", model, "--ep", "cpu", "--mode", "cpu-tensors", "--intra-op-threads", 1, "--why")
    candidate, baseline = pythons
    where = ("--python", candidate, "--baseline-python", baseline, "--duration", 2, "--max-regression", "900%")
    ran = ortbench(*line, *where, "--out", folder / "out", "--json", "-")
    assert ran.code in (0, 4), ran.err
    found: dict[str, Any] = json.loads(ran.out)["why"]
    return found


@pytest.mark.wide
@pytest.mark.process
@pytest.mark.parametrize("is_older", [False, True])
def test_a_fusion_that_an_older_onnx_runtime_has_not_is_named(is_older: bool, tmp_path: Path) -> None:
    older, newer = environment("1.24.4") / "bin" / "python", sys.executable
    pythons = (older, newer) if is_older else (newer, older)
    found = beside_older(LEAKY if is_older else UNFUSED, tmp_path, *pythons)
    changes = [it["text"] for it in found["changes"]]
    if is_older:
        assert any("FusedGemm ×2 (Gemm_0 + LeakyRelu_0, Gemm_1 + LeakyRelu_1)" in it for it in changes)
    else:
        assert changes[0].startswith("Nodes fused differently: ")
        assert "Conv ×2 (Conv_0 + HardSwish_0, Conv_1 + HardSwish_1)" in changes[0]
        assert any(it.startswith("nodes that ONNX Runtime fused into Conv: ") for it in found["others"])
