"""What `ortbench inspect` does: ask a worker, and show what follows from its answer."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from ortbench.analysis.advice import loop_command
from ortbench.analysis.feedback_pairs import suggest_loop
from ortbench.features.inspect.model import Inspected
from ortbench.jobs import write_json
from ortbench.measure.process import ask_once
from ortbench.plan.next_command import CarriedOut
from ortbench.plan.plan import Plan

_LIMIT_S = 600.0  # the longest wait for an answer


def show_model(plan: Plan, placed: bool, json_out: str | None, verbose: bool) -> None:
    """Show what a model takes, gives and consists of, and what looks like the state of a loop; where it is `placed`, also
    where the target would run its nodes. `BadInput` or `BenchmarkFailed` where it cannot be read, or opened on that EP."""
    found = inspect_model(plan, placed)
    if write_json(found, json_out):
        return
    from ortbench.features.inspect.report import print_model

    print_model(found, verbose)


def inspect_model(plan: Plan, placed: bool) -> Inspected:
    """What `inspect` shows; raises as it does."""
    target = plan.target
    asked = {
        "target": asdict(target) if placed else None,
        "inputs": asdict(plan.inputs),
        "custom_ops": target.custom_ops,
    }
    found: Inspected = ask_once(_LIMIT_S, target.python, "inspect", model=plan.model, **asked)
    done = CarriedOut(plan.command, plan.called or plan.model, found["inputs"])
    found["loop"] = suggest_loop(found["inputs"], found["outputs"], partial(loop_command, done))
    return found
