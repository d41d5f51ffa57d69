"""What a live gate of a chain has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ortbench_here

HOW = "is not for a chain, whose file says how each stage runs"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--baseline-set ep=cpu", "--baseline-set ep is of one model: give the baseline's chain a file of its own, --baseline-chain FILE"),
        ("--max-cpu-nodes 0 --ep cpu", f"--ep {HOW}"),
        ("--max-cpu-nodes 0 --depth 2", f"--depth {HOW}"),
        ("--max-cpu-nodes 0 --feedback a=b", f"--feedback {HOW}"),
        ("--max-cpu-nodes 0 --model m.onnx", "--model and --chain exclude each other: name one candidate"),
        ("--require-mode device-tensors", "--mode 'device-tensors': is no mode of a chain; choose from cpu-tensors, device-resident"),
        ("--max-copy-share 1%", "--max-copy-share is of single inferences; of a chain say --min-speedup device-resident=X"),
        ("--baseline-chain none.toml", "cannot read none.toml: No such file or directory"),
    ],
)  # fmt: skip
def test_what_a_live_gate_of_a_chain_has_not(options: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_text("a")
    (tmp_path / "chain.toml").write_text('[[stage]]\nname = "text"\nmodel = "a.onnx"\n')
    ran = ortbench_here("gate", "--chain", "chain.toml", "--out", "out", *options.split(), cwd=tmp_path)
    assert (ran.code, ran.out) == (2, "")
    assert ran.error_line.startswith(message)
    assert not (tmp_path / "out").exists()
