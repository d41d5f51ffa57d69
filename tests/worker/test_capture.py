"""Graph capture: for real on WebGPU, where a replay can be told from a run, and what is refused elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import MODELS, ROOT, cases, measure

QUICK = ["--iterations", 2, "--warmup", 1]
FOLLOWED = "the outputs followed inputs that were written in place"

LOOK = """
import json, sys
import numpy as np
from ortbench.model.modes import RESIDENT, DEVICE
from ortbench.plan.target import Inputs, Target
from ortbench.plan.target import Inputs, Target
from ortbench.worker.modes import make_mode
from ortbench.worker.proofs import check_outputs
from ortbench.worker import first_run, providers, session

path = sys.argv[1]
found = {}
for capture in (True, False):
    target = Target(ep="webgpu", cuda_graph=capture)
    model = session.open_model(path, target, providers.find(target))
    data = first_run.make_data(path, model, Inputs())
    one, two = (make_mode(name, model, data) for name in (RESIDENT, DEVICE))
    replays = [one.is_replayed(), two.is_replayed()]
    kept = one.check_inputs(one.write_inputs, None, None)
    dropped = one.check_inputs(lambda arrays: None, None, None)
    apart = one.graph_id != two.graph_id
    found[str(capture)] = [replays, kept.verified, dropped.wrong is not None, apart]
    check_outputs(one, None, None)
    check_outputs(two, None, None)
print(json.dumps(found))
"""


@pytest.mark.process
def test_replays_are_told_from_runs_and_read_new_inputs(software_gpu: tuple[str, ...]) -> None:
    line = [*software_gpu, sys.executable, "-c", LOOK, str(MODELS / "multi_output.onnx")]
    for _ in range(3):
        done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
        # Once in several hundred times on a busy machine SwiftShader loses a run, and the check of outputs says so.
        if "was not written" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert found["True"] == [[True, True], True, True, True]
    assert found["False"] == [[False, False], True, True, False]


@pytest.mark.process
def test_the_result_names_what_was_captured(software_gpu: tuple[str, ...], tmp_path: Path) -> None:
    arguments = ["--ep", "webgpu", "--cuda-graph", *QUICK]
    result = measure(MODELS / "multi_output.onnx", *arguments, out=tmp_path, prefix=software_gpu)
    found = cases(result)
    assert result["target"]["cuda_graph"] is True
    assert found["cpu-tensors"]["checks"].get("graph") is None
    graphs = [found[mode]["checks"]["graph"] for mode in ("device-tensors", "device-resident")]
    assert [(graph["verdict"], graph["how"]) for graph in graphs] == [("passed", FOLLOWED)] * 2
    assert graphs[0]["id"] != graphs[1]["id"]
    assert all(
        found[mode]["checks"]["outputs"]["verdict"] == "passed"
        for mode in ("cpu-tensors", "device-tensors", "device-resident")
    )
