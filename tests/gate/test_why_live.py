"""Models edited in 30 ways: the edit is the first in the list, and nothing else is ever confirmed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ortbench.analysis.why.explain import Why, sentence
from ortbench.jobs.why import why_slower
from ortbench.measure.bench import Bench
from ortbench.measure.configuration import Configuration
from ortbench.plan.plan import Loop, Observer, Plan
from ortbench.plan.target import Target
from tests.gate.edited import EDITS, Edit

LEAST = 28  # of the edits that must be found


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
    results = Bench(
        [Configuration(plan, name=name) for plan, name in zip(plans, ("candidate", "baseline"), strict=True)]
    ).run()
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
        line = f"{edit.name}: {sentence(why)}; {told.text if told else 'nothing to confirm'}"
        print(line)
        if not is_found(why, edit):
            missed.append(line)
            if told is not None and told.confirmed:
                wrong.append(line)
    assert len(EDITS) == 30
    assert wrong == []
    assert len(EDITS) - len(missed) >= LEAST, "\n".join(missed)
