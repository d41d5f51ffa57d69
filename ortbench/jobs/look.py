"""What `ortbench devices` and `ortbench inspect` do: ask a worker, and show its answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ortbench.errors import BenchmarkFailed, Unsupported
from ortbench.jobs.writing import write_json
from ortbench.measure.process import Client
from ortbench.plan import Inputs, Target

_DEVICES_S, _MODEL_S = 120.0, 600.0  # the longest wait for an answer


def devices(library: str | None, json_out: str | None) -> None:
    """Show the installed EPs and their devices, those of a library that is no package included.

    Raises:
        BenchmarkFailed: ONNX Runtime does not load.
    """
    found = _ask(_DEVICES_S, "devices", library=library)
    if write_json(found, json_out):
        return
    from ortbench.report.terminal.listing import print_devices

    print_devices(found)


def inspect(model: str, target: Target | None, inputs: Inputs, json_out: str | None) -> None:
    """Show what a model takes, gives and consists of; with a target also where its nodes would run.

    Raises:
        BadInput, BenchmarkFailed: it cannot be read, or opened on that EP.
    """
    found = _ask(
        _MODEL_S, "inspect", model=model, target=None if target is None else asdict(target), inputs=asdict(inputs)
    )
    if write_json(found, json_out):
        return
    from ortbench.report.terminal.listing import print_model

    print_model(found)


def _ask(timeout_s: float, do: str, **arguments: Any) -> Any:
    with Client(timeout_s) as client:
        try:
            return client.ask(do, **arguments)
        except Unsupported as error:
            raise BenchmarkFailed(str(error)) from None
