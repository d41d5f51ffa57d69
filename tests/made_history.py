"""Scripted histories: results of many days whose medians are as they are told to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from ortbench.analysis.history import Run, run_of
from ortbench.result import Result, save
from tests.results import MS, measured, result_of, steady

FIRST = datetime(2026, 10, 1, 2, tzinfo=UTC)
OLD, NEW = "1.30.0", "1.31.1"  # ONNX Runtimes, before and after a step


def noise(count: int, scale: float = 0.01, seed: int = 1) -> list[float]:
    """Factors about 1, as nights differ."""
    return [float(it) for it in np.random.default_rng(seed).lognormal(0, scale, count)]


def stepped(count: int, at: int, factor: float, seed: int = 1) -> list[float]:
    """Factors about 1, and from night `at` on about `factor`."""
    return [it * (factor if number >= at else 1) for number, it in enumerate(noise(count, seed=seed))]


def night(number: int, cpu: float, device: float | None = None, **changed: Any) -> Result:
    """The result of a night: `cpu` takes so many times 4 ms, `device`, if it is there, so many times 3 ms."""
    cases = [measured("cpu", total=steady(round(4 * MS * cpu * part) for part in (0.99, 1, 1.01) * 3))]
    if device is not None:
        cases.append(measured("device", total=steady(round(3 * MS * device * part) for part in (0.99, 1, 1.01) * 3)))
    made = result_of(*cases, environment__git_commit=f"{number:07x}{'0' * 33}", **changed)
    made.created = (FIRST + timedelta(days=number)).isoformat(timespec="seconds")
    return made


def nights(cpu: Sequence[float], device: Sequence[float] | None = None, upgraded: int | None = None) -> list[Result]:
    """The results of as many nights, with another ONNX Runtime from night `upgraded` on."""
    version: Callable[[int], str] = lambda number: OLD if upgraded is None or number < upgraded else NEW  # noqa: E731
    return [
        night(number, factor, None if device is None else device[number], environment__onnxruntime=version(number))
        for number, factor in enumerate(cpu)
    ]


def runs(results: Sequence[Result]) -> list[Run]:
    """As a history has them."""
    return [run_of(result, f"reports/{number:02}/result.json") for number, result in enumerate(results)]


def save_nights(results: Sequence[Result], folder: Path) -> None:
    """Each in a folder of its own."""
    for number, result in enumerate(results):
        place = folder / f"night-{number:02}"
        place.mkdir(parents=True)
        save(result, place / "result.json")
