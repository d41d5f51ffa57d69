"""Outputs that nearly match: how far apart they are, what is likely behind it, and what accepts or changes it."""

from __future__ import annotations

import numpy as np

from ortbench.analysis.outputs import how_far, likely_cause
from ortbench.worker.proofs import TOLERANCES, difference, distance
from tests.expect import there

CPU, OPENVINO, CUDA = "CPUExecutionProvider", "OpenVINOExecutionProvider", "CUDAExecutionProvider"


def test_a_small_difference_is_likely_to_be_of_precision() -> None:
    said = likely_cause([CPU, OPENVINO], 0.009)
    assert said.startswith(
        "; a likely cause is that an EP computes in reduced precision (OpenVINOExecutionProvider may"
    )
    assert """--ep-option 'load_config={"CPU":{"INFERENCE_PRECISION_HINT":"f32"}}' changes that)""" in said
    assert "--ep-option use_tf32=0" in likely_cause([CUDA], 0.009)
    assert likely_cause([CPU, "Some"], 0.009) == "; a likely cause is that an EP computes in reduced precision"
    for relative in [None, 0.06, 1.0, float("inf")]:
        assert likely_cause([CPU, OPENVINO], relative) == ""
    assert likely_cause([CPU], 0.009) == ""


def test_how_far() -> None:
    said = "the largest difference is 0.882 % of the output's largest value; if that is acceptable, pass --rtol 0.016"
    assert how_far(0.00882, 0.01501, 0.02) == said
    said = "the largest difference is 0.0588 % of the output's largest value; if that is acceptable, pass --atol 0.0049"
    assert how_far(0.000588, 0.21, 0.00481) == said


def test_the_tolerance_that_is_named_accepts_what_differs() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        wanted = random.standard_normal(1000).astype(np.float32)
        got = (wanted * (1 + 0.02 * random.standard_normal(1000))).astype(np.float32)
        found = there(distance(got, wanted))
        named = float(how_far(1.0, found.rtol, found.atol).partition("--rtol ")[2].partition(" ")[0])
        assert difference("y", got, wanted) is not None
        assert difference("y", got, wanted, rtol=named) is None
        assert difference("y", got, wanted, rtol=named * 0.5) is not None


def test_what_has_no_distance() -> None:
    one = np.ones(3, np.float32)
    assert distance(one, np.ones(4, np.float32)) is None
    assert distance(one.astype(np.int32), one.astype(np.int32)) is None
    assert distance(np.array([np.nan, 1, 1], np.float32), one) is None
    assert distance(one, np.zeros(3, np.float32)) is None
    assert TOLERANCES["float32"] == (1e-3, 1e-5)  # beside which rtol is counted
