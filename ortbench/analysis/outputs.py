"""Outputs of a result beside those of others: how far they moved, and whether a lower precision makes the figures doubtful. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ortbench.analysis.precision import lowered, mended
from ortbench.model.metrics import metric
from ortbench.model.protocol import OutputComparison
from ortbench.model.result import Result
from ortbench.model.schema import Doubt, OutputDistance, OutputsCompared

EXPECTED = "--expect"  # what outputs are compared with that are no other configuration's
MEASURES = ("max_error", "mean_error", "sqnr", "cosine", "top1")  # of an `OutputDistance`, with metrics ``outputs.KEY``


def told(against: str, held: OutputComparison, eps: Sequence[str]) -> OutputsCompared:
    """A comparison for a result; `eps` are those whose choice of a lower precision may explain a difference, if any."""
    ep = lowered(eps, held["relative"]) if held["differs"] is not None and eps else None
    doubt: Doubt | None = None if ep is None else {"ep": ep, "mends": mended(ep, held["accepts"])}
    return {"against": against, "differs": held["differs"], "doubt": doubt, "distances": held["distances"]}


def put(result: Result, found: OutputsCompared) -> None:
    result.outputs = [*(result.outputs or ()), found]


def joined_outputs(several: Sequence[tuple[str, Result]]) -> list[OutputsCompared] | None:
    """What results of parts were compared with as comparisons of the whole: of each part its outputs, with its name."""
    found: dict[str, OutputsCompared] = {}
    for name, result in several:
        for it in result.outputs or ():
            mine: list[OutputDistance] = [{**one, "name": f"{one['name']} at {name}"} for one in it["distances"]]
            whole = found.setdefault(it["against"], {**it, "distances": []})
            whole["differs"], whole["doubt"] = whole["differs"] or it["differs"], whole["doubt"] or it["doubt"]
            whole["distances"] += mine
    return [*found.values()] or None


def doubt(result: Result) -> Doubt | None:
    """What makes the figures of a result doubtful; None where nothing does."""
    return next((it["doubt"] for it in result.outputs or () if it["doubt"] is not None), None)


def called(result: Result, name: str) -> str:
    return name if doubt(result) is None else f"{name} (doubtful)"


def told_of(it: OutputsCompared) -> str:
    """What outputs were compared with."""
    return "the expected ones" if it["against"] == EXPECTED else f"those of {it['against']}"


def worst(distances: Sequence[OutputDistance]) -> dict[str, float]:
    """Of each measure the worst of all outputs, by the direction that its metric has; those that no output has are left out.

    An output without an error has an infinite SQNR, one that is an error alone one of minus infinity.
    """
    found: dict[str, float] = {}
    for key in MEASURES:
        values = [value for it in distances if (value := _measure(it, key)) is not None]
        if values:
            found[key] = max(values) if metric(f"outputs.{key}").better == "lower" else min(values)
    return found


def _measure(it: OutputDistance, key: str) -> float | None:
    if key == "sqnr" and it["sqnr"] is None and it["max_error"] is not None:
        return math.inf if it["max_error"] == 0 else -math.inf
    value: float | None = it[key]  # type: ignore[literal-required]
    return value


def moved(it: OutputsCompared) -> Iterator[OutputDistance]:
    """The outputs that are not the same to the last bit, those that moved most first."""
    found = [one for one in it["distances"] if one["max_error"] != 0 and any(one[key] is not None for key in MEASURES)]  # type: ignore[literal-required]
    yield from sorted(found, key=lambda one: _measure(one, "sqnr") or 0.0)
