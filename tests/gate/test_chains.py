"""Gates of chains: the whole chain and its stages against a baseline, live and stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ortbench.core.errors import BadInput
from ortbench.facts.checks import FAILED, PASSED
from ortbench.features.chain.toml import plan_of
from ortbench.features.gate.gates.checks import check_alone
from ortbench.features.gate.plan import Limits
from ortbench.measure.configuration import Configuration
from ortbench.measure.schedule import Block, Series
from ortbench.model.result_file import save
from tests.conftest import ortbench
from tests.results import STAYING, chain

MODES = ("cpu-tensors", "device-resident")


def test_a_configuration_gives_each_stage_to_the_test(tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_text("a")
    file = tmp_path / "chain.toml"
    file.write_text('[[stage]]\nname = "text"\nmodel = "a.onnx"\n[[stage]]\nname = "image"\nmodel = "a.onnx"\n')
    side = Configuration(plan_of(file, {}, {}))
    timed: Any = {"samples": [30, 70], "start_ns": 0, "spent_ns": 100, "steps": [10, 20, 30, 40]}
    assert side.samples_for_verdict(Block(0, Series(0, "cpu-tensors"), "latency", 2, 0), timed) == {
        "latency": [30, 70], "stage": [10, 20, 30, 40], "stage.text": [10, 30], "stage.image": [20, 40],
    }  # fmt: skip


def test_limits_of_a_chain_alone() -> None:
    asked = Limits(
        min_speedup={"device-resident": 1.5}, max_cpu_nodes=0, require_modes=("device-resident", "device-tensors")
    )
    assert {check.name: check.verdict for check in check_alone(chain(STAYING, rounds=24), asked)} == {
        "mode device-resident": PASSED, "mode device-tensors": FAILED, "cpu nodes": PASSED, "device-resident speedup": PASSED,
    }  # fmt: skip
    with pytest.raises(BadInput, match=r"^--max-copy-share is of single inferences; of a chain say --min-speedup"):
        check_alone(chain(STAYING), Limits(max_copy_share=0.1))


@pytest.mark.process
def test_a_stored_gate_of_a_chain_and_its_files(tmp_path: Path) -> None:
    save(chain(STAYING, rounds=24), tmp_path / "old.json")
    save(chain(STAYING, resident_ms=(2, 5), rounds=24), tmp_path / "new.json")
    metrics = ("--metric", "device-resident.stage.text", "--metric", "cpu-tensors.chain")
    more = ("--junit", tmp_path / "junit.xml", "--json", tmp_path / "gate.json")
    ran = ortbench("gate", tmp_path / "new.json", "--baseline", tmp_path / "old.json", *metrics, *more)
    assert (ran.code, ran.err) == (3, "")
    assert "✗ device-resident stage.text median: 2.00 ms against 1.00 ms, ratio 2.000" in ran.out
    assert "✓ cpu-tensors chain median: 10.0 ms against 10.0 ms, ratio 1.000" in ran.out
    assert ran.out.count("chain of 2 stages and 1 link: text, image ×4") == 1
    xml = (tmp_path / "junit.xml").read_text()
    assert 'testcase name="device-resident stage.text median"' in xml
    assert 'time="0.002000"' in xml
    assert "median of 72 chains of 2 stages" in xml
    assert json.loads((tmp_path / "gate.json").read_text())["verdict"] == "failed"


FILE = '[[stage]]\nname = "text"\nmodel = "a.onnx"\n'


@pytest.mark.process
def test_what_a_live_gate_of_a_chain_has_not(tmp_path: Path) -> None:
    for options, message in [
        (["--baseline-set", "ep=cpu"], "--baseline-set ep is of one model: give the baseline's chain a file of its own, "
         "--baseline-chain FILE"),
        (["--max-cpu-nodes", "0", "--ep", "cpu"], "--ep is not for a chain, whose file says how each stage runs"),
        (["--max-cpu-nodes", "0", "--depth", "2"], "--depth is not for a chain, whose file says how each stage runs"),
        (["--max-cpu-nodes", "0", "--feedback", "a=b"], "--feedback is not for a chain, whose file says how each stage runs"),
        (["--max-cpu-nodes", "0", "--model", "m.onnx"], "--model and --chain exclude each other: name one candidate"),
        (["--require-mode", "device-tensors"], "--mode 'device-tensors': is no mode of a chain; choose from cpu-tensors, device-resident"),
        (["--max-copy-share", "1%"], "--max-copy-share is of single inferences; of a chain say --min-speedup "
         "device-resident=X"),
        (["--baseline-chain", "none.toml"], "cannot read none.toml: No such file or directory"),
        (["--baseline-python", "none"], "--baseline-python: no such interpreter: none"),
    ]:  # fmt: skip
        (tmp_path / "a.onnx").write_text("a")
        file = tmp_path / "chain.toml"
        file.write_text(FILE)
        ran = ortbench("gate", "--chain", file, "--out", tmp_path / "out", *options)
        assert (ran.code, ran.out) == (2, "")
        assert ran.error_line.startswith(message)
        assert not (tmp_path / "out").exists()
