"""Results whose every block is written down, for tests of what is said about results."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

from ortbench.modes import HOST_ACCESSIBLE, RESIDENT
from ortbench.result import FAILED, Case, Result
from ortbench.stats import summarise

Blocks = dict[int, list[int]]  # round → samples, ns


def steady(medians: Iterable[int], first: int = 0) -> Blocks:
    """Blocks of three samples that are all the same, in consecutive rounds."""
    return {number: [value] * 3 for number, value in enumerate(medians, first)}


def measured(mode: str, **phases: Blocks) -> Case:
    """A mode that is ok."""
    case = Case(mode)
    for phase, blocks in phases.items():
        case.samples_ns[phase] = [sample for samples in blocks.values() for sample in samples]
        case.blocks[phase] = [[number, len(samples), 0] for number, samples in blocks.items()]
        case.phases[phase] = summarise(case.samples_ns[phase])
    if mode in (RESIDENT, HOST_ACCESSIBLE):
        case.phases["inference"] = case.phases["total"]
    return case


def broken(mode: str, status: str = FAILED, reason: str | None = "it broke", **phases: Blocks) -> Case:
    """A mode that is not ok, with what was measured of it before."""
    case = measured(mode, **phases)
    case.status, case.reason = status, reason
    return case


def result_of(*cases: Case, run_id: str | None = None, **changed: Any) -> Result:
    """A result of a GPU.

    Args:
        cases: its modes.
        run_id: of the run.
        changed: instead of what is here: ``environment__cpu__model="other"``.
    """
    result = Result(
        tool={"name": "ortbench", "version": "0"},
        created="2026-01-01T00:00:00Z",
        command=["ortbench"],
        environment={
            "onnxruntime": "1.28.0",
            "python": "3.12.0",
            "os": "Linux",
            "cpu": {"model": "Some CPU", "cores": 8, "usable_cores": 4},
            "gpus": [{"name": "Some GPU"}],
        },
        model={
            "path": "m.onnx",
            "sha256": "a" * 64,
            "inputs": [{"name": "x", "shape": [1, 3]}, {"name": "y", "shape": []}],
            "outputs": [],
        },
        target={
            "ep": "SomeExecutionProvider",
            "ep_version": "1.0",
            "device": {"type": "GPU", "vendor": "Some", "vendor_id": 1, "device_id": 2, "index": 0},
            "memory": {"kind": "ep-device", "default": "Mem (DEFAULT)", "host_accessible": None},
            "fence": None,
            "ep_options": {},
            "session_config": {},
            "threads": None,
            "opt_level": "all",
        },
        placement={"nodes": {"SomeExecutionProvider": 3}, "memcpy_nodes": 0, "cpu_operators": {}},
        setup={"run_id": run_id},
        cases=list(cases),
    )
    for path, value in changed.items():
        part, *keys, last = path.split("__")
        inner: dict[str, Any] = getattr(result, part)
        for key in keys:
            inner = inner[key]
        inner[last] = deepcopy(value)
    return result
