"""What `ortbench devices` and `ortbench inspect` do: ask a worker, and show its answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ortbench.analysis.feedback_pairs import suggested
from ortbench.core.errors import BENCHMARK_FAILED, DONE, BenchmarkFailed, Unsupported
from ortbench.jobs.check import FAILED, checked
from ortbench.jobs.publishing import write_json
from ortbench.measure.process import Client
from ortbench.model.protocol import Inspected, Listed
from ortbench.plan.target import Inputs, Target

_DEVICES_S, _MODEL_S = 120.0, 600.0  # the longest wait for an answer


def devices(library: str | None, python: str | None, json_out: str | None, check: str | None) -> int:
    """Show the installed EPs and their devices, with those of a library that is no package, or `check` a library; the exit code.

    Raises:
        BenchmarkFailed: ONNX Runtime does not load, or the library that is to be checked.
    """
    found = listed(library, python, check)
    checks = [it for device in found.get("checks", ()) for it in device]
    code = BENCHMARK_FAILED if any(it["verdict"] == FAILED for it in checks) else DONE
    if write_json(found, json_out):
        return code
    from ortbench.report.terminal.listing import print_checks, print_devices

    print_devices(found) if check is None else print_checks(found)
    return code


def listed(library: str | None, python: str | None, check: str | None = None) -> Listed:
    """What `devices` shows; raises as it does."""
    found: Listed = _ask(_DEVICES_S, python, "devices", library=check or library)
    return found if check is None else checked(check, found, python)


def inspect(model: str, target: Target, placed: bool, inputs: Inputs, json_out: str | None) -> None:
    """Show what a model takes, gives and consists of, and what looks like the state of a loop; where it is `placed`, also where
    the target would run its nodes.

    Raises:
        BadInput, BenchmarkFailed: it cannot be read, or opened on that EP.
    """
    found = inspected(model, target, placed, inputs)
    if write_json(found, json_out):
        return
    from ortbench.report.terminal.listing import print_model

    print_model(found)


def inspected(model: str, target: Target, placed: bool, inputs: Inputs) -> Inspected:
    """What `inspect` shows; raises as it does."""
    wanted = asdict(target) if placed else None
    found: Inspected = _ask(_MODEL_S, target.python, "inspect", model=model, target=wanted, inputs=asdict(inputs))
    found["loop"] = suggested(model, found["inputs"], found["outputs"])
    return found


def _ask(timeout_s: float, python: str | None, do: str, **arguments: Any) -> Any:
    with Client(timeout_s, python) as client:
        try:
            return client.ask(do, **arguments)
        except Unsupported as error:
            raise BenchmarkFailed(str(error)) from None
