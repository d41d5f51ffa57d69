"""Outputs beside those of others: how far apart they are, what is likely behind it, and which are bound without a shape. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ortbench.core.eps import CPU_EP
from ortbench.core.safe_text import join_words
from ortbench.core.units import digits
from ortbench.model.metrics import metric

if TYPE_CHECKING:  # a worker loads this, and none of what else is known of a result
    from ortbench.model.protocol import OutputComparison
    from ortbench.model.result import Result
    from ortbench.model.schema import Doubt, OutputDistance, OutputsCompared, Tensor


# Half of a bfloat16's last bit is 0.4 %, and errors add up on the way through a model; what is further off is wrong.
_REDUCED = 0.05
# Of the output's largest value: no tolerance that accepts more says anything. Two models of one function seldom have such a cosine.
_UNRELATED, _UNRELATED_COSINE = 0.5, 0.9
_SMALL = 0.02  # a relative tolerance that still says something of each value
# What computes in another precision, and the option that has it compute in float32.
# https://onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html#use_tf32
# OpenVINO takes bfloat16 where the CPU has it:
# https://docs.openvino.ai/2025/openvino-workflow/running-inference/optimize-inference/precision-control.html
_WAYS = {
    "CUDAExecutionProvider": ("TF32", "--ep-option use_tf32=0"),
    "OpenVINOExecutionProvider": (
        "bfloat16 or float16",
        """--ep-option 'load_config={"CPU":{"INFERENCE_PRECISION_HINT":"f32"}}'""",
    ),
}


def how_far(relative: float, rtol: float, atol: float) -> str:
    """A difference, relative to the output's largest value, with the tolerance that alone would accept what differs, if any sensible one
    does."""
    way = "" if relative > _UNRELATED else f"; {acceptable(accepting(relative, rtol, atol))}"
    return f"{digits(100 * relative)} % of the output's largest value{way}"


def are_unrelated(held: OutputComparison) -> bool:
    """Whether outputs differ so much that their models compute different functions."""
    is_far = held["relative"] is not None and held["relative"] > _UNRELATED
    return is_far and worst(held["distances"]).get("cosine", 1.0) < _UNRELATED_COSINE


def acceptable(way: str) -> str:
    """What to do about a difference that nothing has accepted yet."""
    return f"if that is acceptable, pass {way}"


def accepting(relative: float, rtol: float, atol: float) -> str:
    """The tolerance that alone would accept what differs."""
    # Values near 0 are a large part off where others are not: a relative tolerance for them would accept nearly anything.
    return f"--rtol {_rounded_up(rtol)}" if rtol <= max(_SMALL, 2 * relative) else f"--atol {_rounded_up(atol)}"


def trust(ep: str) -> int:
    """How far an EP is taken to compute in the precision of the model: the CPU EP first, those that choose a lower one last."""
    return 0 if ep == CPU_EP else 2 if _way(ep) else 1


def lowering_ep(eps: Sequence[str], relative: float | None) -> str | None:
    """The EP of these whose own choice of a lower precision a difference is likely to come from; None where it is larger than that
    explains, or there is the CPU EP alone, which chooses none."""
    if relative is None or relative > _REDUCED:
        return None
    ep = max(eps, key=trust)  # of equals the first
    return None if ep == CPU_EP else ep


def remedy(ep: str, accepts: str | None) -> str:
    """What has an EP compute in float32, or else what to pass where the difference is acceptable."""
    way = _way(ep)
    return f"{way[1]} has {ep} compute in float32" if way else acceptable(accepts or "--rtol")


def likely_cause(eps: Sequence[str], relative: float | None) -> str:
    """What is likely behind outputs that nearly match, and what changes it; empty where nothing is, or it is not known."""
    if relative is None or relative > _REDUCED or all(ep == CPU_EP for ep in eps):  # which chooses no other precision
        return ""
    known = [(ep, *found) for ep in eps if (found := _way(ep))]
    ways = [f"{ep} may compute float32 as {what}, {way} changes that" for ep, what, way in known]
    return "; a likely cause is that an EP computes in reduced precision" + "".join(f" ({way})" for way in ways)


def _way(ep: str) -> tuple[str, str] | None:
    return _WAYS.get(ep.partition(".")[0])


def _rounded_up(number: float) -> str:
    """Two digits, not less than the number."""
    if number <= 0 or not math.isfinite(number):
        return "0"
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return f"{math.ceil(number / unit) * unit:.2g}"


# Outputs of a result beside those of others


EXPECTED = "--expect"  # what outputs are compared with that are no other configuration's
MEASURES = ("max_error", "mean_error", "sqnr", "cosine", "top1")  # of an `OutputDistance`, with metrics ``outputs.KEY``


def comparison_record(against: str, held: OutputComparison, eps: Sequence[str]) -> OutputsCompared:
    """A comparison for a result; `eps` are those whose choice of a lower precision may explain a difference, if any."""
    ep = lowering_ep(eps, held["relative"]) if held["differs"] is not None and eps else None
    doubt: Doubt | None = None if ep is None else {"ep": ep, "mends": remedy(ep, held["accepts"])}
    return {"against": against, "differs": held["differs"], "doubt": doubt, "distances": held["distances"]}


def add_comparison(result: Result, found: OutputsCompared) -> None:
    result.outputs = [*(result.outputs or ()), found]


def joined_outputs(several: Sequence[tuple[str, Result]]) -> list[OutputsCompared] | None:
    """What results of parts were compared with as comparisons of the whole: of each part its outputs, with its name."""
    found: dict[str, OutputsCompared] = {}
    for name, result in several:
        for part in result.outputs or ():
            mine: list[OutputDistance] = [{**one, "name": f"{one['name']} at {name}"} for one in part["distances"]]
            whole = found.setdefault(part["against"], {**part, "distances": []})
            whole["differs"], whole["doubt"] = whole["differs"] or part["differs"], whole["doubt"] or part["doubt"]
            whole["distances"] += mine
    return [*found.values()] or None


def doubt(result: Result) -> Doubt | None:
    """What makes the figures of a result doubtful; None where nothing does."""
    return next((it["doubt"] for it in result.outputs or () if it["doubt"] is not None), None)


def mark_doubtful(result: Result, name: str) -> str:
    return name if doubt(result) is None else f"{name} (doubtful)"


def reference_of(comparison: OutputsCompared) -> str:
    return "the expected ones" if comparison["against"] == EXPECTED else f"those of {comparison['against']}"


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


def is_synthetic(result: Result) -> bool:
    """Whether inputs were made up, of which there is one set, which does not tell how often the largest score agrees."""
    return any(tensor.get("range") is not None for tensor in result.model["inputs"])


def _measure(distance: OutputDistance, key: str) -> float | None:
    if key == "sqnr" and distance["sqnr"] is None and distance["max_error"] is not None:
        return math.inf if distance["max_error"] == 0 else -math.inf
    value: float | None = distance[key]  # type: ignore[literal-required]
    return value


def moved_outputs(comparison: OutputsCompared) -> Iterator[OutputDistance]:
    """The outputs that are not the same to the last bit, those that moved most first."""
    distances = [it for it in comparison["distances"] if it["max_error"] != 0]
    found = [one for one in distances if any(one[key] is not None for key in MEASURES)]  # type: ignore[literal-required]
    yield from sorted(found, key=lambda one: _measure(one, "sqnr") or 0.0)


# Why, in `unshaped` of an output, and what is said of it.
DECLARED, VALUES, INPUT = "declared", "values", "input"
WHY = {
    VALUES: "its size depends on the values of the inputs",
    INPUT: "an input that the model passes through",
    DECLARED: "not the shape that the model declares",
}

_MOST = 3  # outputs that are named


def reasons_without_shape(outputs: Sequence[Tensor]) -> list[str]:
    """Why some of the outputs are, a clause a reason with those that it is of."""
    found = []
    for why, said in WHY.items():
        if names := [it["name"] for it in outputs if it.get("unshaped") == why]:
            more = [f"{len(names) - _MOST} more"] if len(names) > _MOST else []
            found.append(f"{join_words([*names[:_MOST], *more])} ({said})")
    return found
