"""Gates of chains: the whole chain and its stages against a baseline, live and stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ortbench

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
