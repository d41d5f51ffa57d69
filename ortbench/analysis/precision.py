"""Outputs that nearly match: how far apart they are, what is likely behind it, and which option accepts or changes it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ortbench.core.eps import CPU_EP
from ortbench.core.units import digits

# Half of a bfloat16's last bit is 0.4 %, and errors add up on the way through a model; what is further off is wrong.
_REDUCED = 0.05
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
    """A difference, relative to the output's largest value, with the tolerance that alone would accept what differs."""
    way = accepting(relative, rtol, atol)
    return f"the largest difference is {_percent(relative)} of the output's largest value; {acceptable(way)}"


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


def lowered(eps: Sequence[str], relative: float | None) -> str | None:
    """The EP of these whose own choice of a lower precision a difference is likely to come from; None where it is larger than that
    explains, or there is the CPU EP alone, which chooses none."""
    if relative is None or relative > _REDUCED:
        return None
    ep = max(eps, key=trust)  # of equals the first
    return None if ep == CPU_EP else ep


def mended(ep: str, accepts: str | None) -> str:
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


def _percent(part: float) -> str:
    return f"{digits(100 * part)} %"


def _rounded_up(number: float) -> str:
    """Two digits, not less than the number."""
    if number <= 0 or not math.isfinite(number):
        return "0"
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return f"{math.ceil(number / unit) * unit:.2g}"
