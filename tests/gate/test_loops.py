"""Gates of loops: the whole loop and its steps against a baseline, live and stored."""

from __future__ import annotations

import pytest

from ortbench.core.errors import BadInput
from ortbench.facts.checks import FAILED, PASSED
from ortbench.features.gate.gates.baseline import LiveGate
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.plan import Limits
from ortbench.features.loop.model import LoopWork
from tests.results import level, loop_result

MODES = ("cpu-tensors", "device-resident")


def test_limits_of_a_loop_alone() -> None:
    for result in [loop_result(level("cpu-tensors"), level("device-resident"))]:
        message = "^--max-copy-share is of single inferences; of a loop say --min-speedup device-resident=X$"
        with pytest.raises(BadInput, match=message):
            LiveGate(Limits(max_copy_share=0.1), MODES, has_baseline=False, work=LoopWork(4))
        with pytest.raises(BadInput, match=message):
            check_alone(result, Limits(max_copy_share=0.1))
    result = loop_result(level("cpu-tensors", 2.0), level("device-resident"), level("shared", 4.0))
    asked = Limits(
        min_speedup={"device-resident": 1.5, "shared": 1.5},
        max_cpu_nodes=0,
        require_modes=("shared", "host-accessible"),
    )
    assert {check.name: check.verdict for check in check_alone(result, asked)} == {
        "mode shared": PASSED,
        "mode host-accessible": FAILED,
        "cpu nodes": PASSED,
        "device-resident speedup": PASSED,
        "shared speedup": FAILED,
    }


# Stored
