"""Calls from Python: what they measure, and what they do not do besides."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
import pytest

import ortbench
from ortbench.api import calls
from ortbench.core.errors import BenchmarkFailed, OrtbenchError
from ortbench.core.files import not_written, note
from ortbench.features.loop.plan import Steps
from ortbench.jobs import Measured
from ortbench.jobs import run as run_job
from ortbench.model.result_file import load
from ortbench.plan.plan import Observer, Plan
from tests.conftest import MODELS
from tests.conftest import ortbench as command
from tests.results import MS, measured, result_of, steady

TINY = MODELS / "tiny.onnx"
Scripted = Callable[..., list[Plan]]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Has calls measure nothing: what comes of them is given; the plans that they made are in the list."""
    plans: list[Plan] = []

    def script(interrupted: bool = False, failure: OrtbenchError | None = None, stops: bool = False) -> list[Plan]:
        def measure(asked: Sequence[Plan], out: Path | None, *_: object, observer: Observer) -> Measured:
            plans.extend(asked)
            observer.stage("measuring")
            observer.show_time_left(2.5)
            if stops:
                raise KeyboardInterrupt
            if out is not None:
                note(str(out / "result.json"), "the disk is full")
            result = result_of(measured("cpu-tensors", latency=steady([MS] * 9)))
            failed = [] if failure is None else [("cpu-tensors", failure)]
            return Measured([result], [] if out is None else [out], interrupted, not_opened=failed)

        monkeypatch.setattr(run_job, "measure_plans", measure)
        return plans

    return script


def test_loops_and_chains_are_those_of_their_commands(scripted: Scripted, tmp_path: Path) -> None:
    plans = scripted()
    ortbench.loop(MODELS / "recurrent_cell.onnx", feedback="hidden_out=hidden", steps=4)
    shutil.copy(TINY, tmp_path)
    (tmp_path / "chain.toml").write_text('[[stage]]\nname = "a"\nmodel = "tiny.onnx"\n')
    ortbench.chain(tmp_path / "chain.toml", iterations=2)
    loop, chain = plans
    assert isinstance(loop.part, Steps)
    assert (loop.part.feedback, loop.part.count) == ((("hidden_out", "hidden"),), 4)
    assert [stage.name for stage in chain.stages] == ["a"]
    assert (chain.loop.iterations, chain.command[:3]) == (2, ("ortbench", "chain", str(tmp_path / "chain.toml")))


def test_what_was_measured_is_not_lost_with_a_file_or_by_ctrl_c(scripted: Scripted, tmp_path: Path) -> None:
    scripted()
    with pytest.raises(ortbench.NotSaved, match=r"result.json was not written: the disk is full") as unsaved:
        ortbench.run(TINY, out=tmp_path)
    assert unsaved.value.result.case("cpu-tensors").median("latency") == MS
    assert not_written() == []  # nothing is left for whoever comes next
    scripted(interrupted=True)
    with pytest.raises(ortbench.Interrupted) as interrupted:
        ortbench.run(TINY)
    assert isinstance(interrupted.value, KeyboardInterrupt)
    assert interrupted.value.results[0].case("cpu-tensors").median("latency") == MS
    scripted(stops=True)
    with pytest.raises(ortbench.Interrupted) as early:
        ortbench.run(TINY)
    assert early.value.results == []
    scripted(failure=BenchmarkFailed("it does not load"))  # of one configuration
    with pytest.raises(ortbench.BenchmarkFailed, match="it does not load"):
        ortbench.run(TINY)


def test_measurements_take_turns() -> None:
    order: list[str] = []
    began = threading.Event()

    def second() -> None:
        began.set()
        with calls.measuring(None):
            order.append("second")

    other = threading.Thread(target=second)
    with calls.measuring(None):
        other.start()
        assert began.wait(60)
        with calls.measuring(None):  # a callback may call
            order.append("first")
    other.join(60)
    assert order == ["first", "second"]


# Calls that measure, each carried out by a fork in a folder of its own, which its words are about

ONCE: dict[str, Any] = {"ep": "cpu", "modes": "cpu-tensors", "iterations": 3, "warmup": 1}


def from_a_thread() -> None:
    """All that can be given in memory, in one run."""
    tempfile.tempdir = str(Path.cwd() / "temporary")
    Path(tempfile.tempdir).mkdir()
    model = onnx.load(TINY)
    with np.load(MODELS / "tiny.inputs.npz") as inputs, np.load(MODELS / "tiny.expected.npz") as expected:
        given = {**ONCE, "modes": ["cpu-tensors", "device-tensors"], "input": dict(inputs), "expect": dict(expected)}
    found: list[ortbench.Result] = []
    thread = threading.Thread(target=lambda: found.append(ortbench.run(model, **given)))
    thread.start()
    thread.join()
    (result,) = found
    assert [(case.status, case.checks["outputs"]["verdict"]) for case in result.cases] == [("ok", "passed")] * 2
    assert len(result.samples().query("mode == 'cpu-tensors' and phase == 'latency'")) == 3
    assert result.model["path"] == f"{model.graph.name}.onnx"
    words = "--ep cpu --mode cpu-tensors --mode device-tensors --input input.npz"
    assert " ".join(result.command).startswith(f"ortbench run {model.graph.name}.onnx {words}")
    assert result.folder is None
    assert [path.name for path in Path.cwd().rglob("*")] == ["temporary"]


def with_what_is_to_be_written() -> None:
    out = Path.cwd()
    result = ortbench.run(TINY.read_bytes(), **ONCE, out=out, name="mine")
    assert result.folder == out / "mine"
    assert sorted(path.name for path in (out / "mine").glob("[!.]*")) == ["result.json", "table.csv", "table.md"]
    assert ortbench.Result.wrap(load(out / "mine" / "result.json")) == result
    verdict = ortbench.gate(model=TINY, max_cpu_nodes=0, modes="cpu-tensors", duration=0.01, warmup=1, out=out)
    assert (verdict.passed, len([*out.glob("gate-*/gate.json")])) == (True, 1)


def of_a_sweep() -> None:
    """Of shapes, and of inputs in memory."""
    model = (MODELS / "transformer_ids.onnx").read_bytes()
    result = ortbench.sweep(model, dim={"batch": [1, 2], "sequence": 4}, **ONCE)
    assert [it.name for it in result.shapes] == ["batch=1", "batch=2"]
    assert "--dim batch=1,2 --dim sequence=4" in " ".join(result.command)
    assert [*Path.cwd().iterdir()] == []
    names = ("input_ids", "token_type_ids", "attention_mask")
    sets = [{name: np.ones((1, length), np.int64) for name in names} for length in (4, 8)]
    real = ortbench.sweep(model, data=sets, out="out", **ONCE)
    assert [it.data for it in real.shapes] == ["data-1", "data-2"]
    assert "--data data-1.npz --data data-2.npz" in " ".join(real.command)
    assert real.folder is not None
    assert ortbench.read(real.folder).shapes == real.shapes


def that_only_look() -> None:
    assert "CPUExecutionProvider" in [ep["name"] for ep in ortbench.devices()["eps"]]
    found = ortbench.inspect(TINY.read_bytes(), ep="cpu")
    assert (found["path"], found["inputs"][0]["shape"], found["ep"]) == ("model.onnx", [16], "CPUExecutionProvider")
    with pytest.raises(ortbench.BadInput, match=r"model.onnx"):
        ortbench.inspect(b"no model")
    with pytest.raises(ortbench.BenchmarkFailed, match="computes in host memory, there is nothing to copy over"):
        ortbench.bandwidth(ep="cpu")


def of_a_sweep_of_copies() -> None:
    told: list[ortbench.Progress] = []
    asked: dict[str, Any] = {"ep_library": sys.argv[1], "max_size": "16kB", "iterations": 1, "out": "."}
    found = ortbench.bandwidth(progress=told.append, **asked)
    assert (set(found.frame()["size"]), found.peak("h2d") is not None) == ({4000, 16000}, True)
    assert found.folder is not None
    assert (found.folder / "bandwidth.json").is_file()
    assert (told[0].stage[:8], told[-1].left_s is not None) == ("loading ", True)


def that_are_interrupted() -> None:
    """Ctrl-C is raised when the workers have ended."""
    pressed: list[ortbench.Progress] = []

    def press(now: ortbench.Progress) -> None:
        if now.stage == "measuring" and not pressed:
            pressed.append(now)
            os.kill(os.getpid(), signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(ortbench.Interrupted) as raised:
        ortbench.run(TINY, ep="cpu", modes="cpu-tensors", duration=600, precision=0, progress=press)
    assert psutil.Process().children(recursive=True) == []
    assert len(raised.value.results) == 1
    assert signal.getsignal(signal.SIGINT) is handler


CALLS = [
    from_a_thread, with_what_is_to_be_written, of_a_sweep, that_only_look, of_a_sweep_of_copies, that_are_interrupted,
]  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.__name__)
def test_calls(call: Callable[[], None], library: Path, tmp_path: Path) -> None:
    """A fork makes the calls, and prints nothing."""
    ran = command(library, cwd=tmp_path, ORTBENCH_TESTS_MAIN=f"{__name__}:{call.__name__}")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
