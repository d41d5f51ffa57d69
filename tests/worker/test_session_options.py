"""Settings of sessions and runs: what a session is made with, entries that do nothing, and inputs in another library's memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

from ortbench.core.errors import BadInput, Unsupported, WrongOutputs
from ortbench.model.modes import MODES, RESIDENT
from ortbench.model.settings import OF_SESSION
from ortbench.plan.target import Inputs, Target
from ortbench.worker import first_run, opening, providers, session, streams
from ortbench.worker.modes import make_mode
from ortbench.worker.opening import RUN, SESSION, sentences
from ortbench.worker.proofs import check_outputs
from ortbench.worker.session import open_model
from ortbench.worker.tensors import host_value
from tests.conftest import MODELS, ONCE, cases, measure, ortbench
from tests.refdevice import Config
from tests.truth import in_fork
from tests.worker import saved

TINY = str(MODELS / "tiny.onnx")
# What a session has by default, and another value of everything.
SETTINGS: dict[str, tuple[Any, Any]] = {
    "intra_op_num_threads": (0, 2),
    "inter_op_num_threads": (0, 3),
    "execution_mode": (ort.ExecutionMode.ORT_SEQUENTIAL, ort.ExecutionMode.ORT_PARALLEL),
    "enable_cpu_mem_arena": (True, False),
    "enable_mem_pattern": (True, False),
    "graph_optimization_level": (
        ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
        ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    ),
}
OTHER = Target(
    ep="cpu", intra_op_threads=2, inter_op_threads=3, execution_mode="parallel", cpu_mem_arena=False, mem_pattern=False,
    opt_level="basic",
)  # fmt: skip
TYPED = "--intra-op-threads 2 --inter-op-threads 3 --execution-mode parallel --no-cpu-mem-arena --no-mem-pattern --opt-level basic"


@pytest.mark.parametrize(("number", "target"), [(0, Target(ep="cpu")), (1, OTHER)])
def test_a_session_is_made_with_them(number: int, target: Target) -> None:
    options = open_model(TINY, target, providers.find(target)).session.get_session_options()
    assert [getattr(options, name) for name in SETTINGS] == [both[number] for both in SETTINGS.values()]
    assert {it.attribute for it in OF_SESSION if it.attribute} == {*SETTINGS, "optimized_model_filepath"}


@pytest.mark.process
def test_an_ep_that_compiles_has_no_graph_to_write(library: Path, tmp_path: Path) -> None:
    ran = ortbench("run", MODELS / "copy_bound.onnx", "--ep-library", library, *ONCE, "--optimized-model", tmp_path / "o.onnx",
                   "--out", tmp_path)  # fmt: skip
    reason = "compiled parts of the graph, which ONNX Runtime then writes to no file; leave it out"
    assert (ran.code, ran.error_line) == (1, f"--optimized-model: RefDeviceExecutionProvider {reason}")


@pytest.mark.process
def test_a_program_sets_them(tmp_path: Path) -> None:
    file = tmp_path / "o.onnx"
    ran = ortbench("code", TINY, "--ep", "cpu", "--mode", "cpu-tensors", *TYPED.split(), "--optimized-model", file)
    assert ran.code == 0, ran.err
    lines = [line.removeprefix("options.") for line in ran.out.splitlines() if line.startswith("options.")]
    values = {name: repr(other) for name, (_, other) in SETTINGS.items()} | {
        "execution_mode": "ort.ExecutionMode.ORT_PARALLEL",
        "graph_optimization_level": "ort.GraphOptimizationLevel.ORT_ENABLE_BASIC",
        "optimized_model_filepath": f'"{file}"',
    }
    assert sorted(lines) == sorted(f"{name} = {value}" for name, value in values.items())
    assert not file.exists()  # that is for the program to do


def test_entries_about_threads_between_operators_do_something_where_there_are_some() -> None:
    for mode, codes in (("sequential", ["session-config-ignored"]), ("parallel", [])):
        target = Target(ep="cpu", execution_mode=mode, session_config={"session.inter_op.allow_spinning": "0"})
        assert [it["code"] for it in opening.option_warnings(target, providers.find(target))] == codes


class Watched:
    """A session, and the entries that each of its runs was given."""

    def __init__(self, session: Any) -> None:
        self.session, self.seen = session, list[list[str | None]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.session, name)

    def run(self, names: Any, feeds: Any, options: Any) -> Any:
        self.watch(options)
        return self.session.run(names, feeds, options)

    def run_with_iobinding(self, binding: Any, options: Any) -> Any:
        self.watch(options)
        return self.session.run_with_iobinding(binding, options)

    def watch(self, options: Any) -> None:
        self.seen.append([])
        for name in ("a.b", "disable_synchronize_execution_providers"):
            try:
                self.seen[-1].append(options.get_run_config_entry(name))
            except Exception:  # there is none
                self.seen[-1].append(None)


def print_entries() -> None:
    """Those of all runs, by mode."""
    target = Target(library=sys.argv[1], run_config={"a.b": "c"})
    model = session.open_model(TINY, target, providers.find(target))
    model.session = watched = Watched(model.session)
    data = first_run.make_data(TINY, model, Inputs())
    found = {"": watched.seen[:]}
    for name in reversed(MODES):  # what a mode adds for itself would be seen in those after it
        del watched.seen[:]
        made = make_mode(name, model, data)
        check_outputs(made, None, None)
        for call, a, b in made.phases().values():
            call(a, b)
        made.wait_idle()
        found[name] = watched.seen[:]
    print(json.dumps(found))


@pytest.mark.process
def test_every_run_of_every_mode_has_it(real_library: Path) -> None:
    found = in_fork(f"{__name__}:print_entries", real_library, **Config(alignment=0).environ())
    assert found.keys() == {"", *MODES}
    for mode, seen in found.items():
        own = "1" if mode == "device-resident-async" else None
        assert {tuple(entries) for entries in seen} == {("c", own)}, mode


SHRINKS = "memory.enable_memory_arena_shrinkage"


NO_ENTRY = "does nothing: it is an attribute of SessionOptions and no entry"
NOT_KNOWN = "probably does nothing: ONNX Runtime 1.31.1 knows no such entry"
SPINNING = f"{NOT_KNOWN}; the nearest that it knows is session.intra_op.allow_spinning"


@pytest.mark.parametrize(
    ("option", "key", "said"),
    [
        (SESSION, "session.intra_op_num_threads", f"{NO_ENTRY}; --intra-op-threads sets it"),
        (SESSION, "intra_op_num_threads", f"{NO_ENTRY}; --intra-op-threads sets it"),
        (SESSION, "session.log_severity_level", f"{NO_ENTRY}; ortbench has no option for it"),
        (SESSION, "session.inter_op.allow_spinning",
         "does nothing: it is about threads between operators, which --execution-mode parallel alone has"),
        (SESSION, SHRINKS, "does nothing: it is an entry of RunOptions, which --run-config sets"),
        (SESSION, "ep.dynamic.workload_type",
         "does nothing: it is set on a session that is open (set_ep_dynamic_options); ortbench has no option for it"),
        (SESSION, "session.intra_op.allow_spining", SPINNING),
        (SESSION, "allow_spinning", SPINNING),
        (SESSION, "session.intra_op_num_thread",
         f"{NOT_KNOWN}; the nearest is session.intra_op_num_threads, which is an attribute of SessionOptions and no entry; "
         "--intra-op-threads sets it"),
        (SESSION, "k", NOT_KNOWN),
        (RUN, "session.disable_prepacking", "does nothing: it is an entry of SessionOptions, which --session-config sets"),
        (RUN, "terminate", "does nothing: it is an attribute of RunOptions and no entry; ortbench has no option for it"),
        # What is documented is not judged.
        *((SESSION, key, None) for key in ("session.intra_op.allow_spinning", "ep.context_enable", "ep.someexecutionprovider.any_key")),
        *((RUN, key, None) for key in (SHRINKS, "qnn.htp_perf_mode")),
    ],
)  # fmt: skip
def test_an_entry_that_does_nothing_is_named_with_what_does_it(option: str, key: str, said: str | None) -> None:
    assert sentences(option, {key: "1"}, (), "1.31.1") == ([] if said is None else [f"{option} {key} {said}"])


def said(result: dict[str, object], code: str) -> list[str]:
    warnings: list[dict[str, str]] = result["warnings"]  # type: ignore[assignment]
    return [it["message"] for it in warnings if it["code"] == code]


@pytest.mark.process
def test_a_run_and_inspect_name_entries_that_do_nothing_and_no_others(tmp_path: Path) -> None:
    entries = (
        "session.intra_op_num_threads=1",
        "session.intra_op.allow_spinning=0",
        "ep.some.key=1",
        "mlas.disable_kleidiai=1",
    )
    typed = [TINY, "--ep", "cpu", *(word for entry in entries for word in ("--session-config", entry))]
    found = measure(*typed, "--mode", "cpu-tensors", *ONCE, "--run-config", "hurga=1", out=tmp_path / "out")
    threads = f"--session-config session.intra_op_num_threads {NO_ENTRY}; --intra-op-threads sets it"
    assert said(found, "session-config-ignored") == [threads]
    assert [text.partition(" probably")[0] for text in said(found, "run-config-ignored")] == ["--run-config hurga"]
    assert said(json.loads(ortbench("inspect", *typed, "--json", "-").out), "session-config-ignored") == [threads]


@pytest.mark.process
def test_an_ep_option_that_is_taken_without_a_word_and_named_nowhere(
    software_gpu: tuple[str, ...], tmp_path: Path
) -> None:
    line = (TINY, "--ep", "webgpu", "--mode", "cpu-tensors", *ONCE, "--ep-option", "nonsense=1")
    found = measure(*line, "--ep-option", "validationMode=disabled", out=tmp_path / "out", prefix=software_gpu)
    why = "WebGpuExecutionProvider took it without a word, and its library does not hold that name"
    assert said(found, "ep-option-ignored") == [f"--ep-option nonsense probably does nothing: {why}"]


def opened(path: Path, body: str, library: str = "numpy") -> tuple[Any, Any, Any]:
    """A model of ONNX's text form on the CPU EP, with device-resident inputs in a library's memory."""
    saved(path, body)
    target = Target(ep="cpu", input_memory=library)
    model = session.open_model(str(path), target, providers.find(target))
    data = first_run.make_data(str(path), model, Inputs())
    return model, data, make_mode(RESIDENT, model, data)


RELU = "g (float[8] x, bool[8] b) => (float[8] y) { z = Relu(x)  c = Cast<to = 1>(b)  y = Mul(z, c) }"


def test_numpy_is_not_copied(tmp_path: Path) -> None:
    _, data, made = opened(tmp_path / "m.onnx", RELU)
    check_outputs(made, None, None)
    assert made.external.same_addresses()
    found = made.check_inputs(made.external.write, None, None)
    assert (found.verified, found.evidence) == (True, "the outputs followed inputs that were written in place")
    assert np.array_equal(made.run_as_bound()[0], data.reference[0])


def test_a_graph_that_is_not_captured_or_does_not_see_its_inputs_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, made = opened(tmp_path / "m.onnx", RELU)
    made.graph_id = 1
    with pytest.raises(Unsupported, match="CPUExecutionProvider captured no graph"):
        made._prove_replay(None, None)
    monkeypatch.setattr(made, "is_replayed", lambda: True)
    assert made._prove_replay(None, None)["verified"]
    monkeypatch.setattr(made, "write_inputs", lambda arrays: None)  # as where a graph reads copies of them
    with pytest.raises(WrongOutputs, match=r"\(a replay after its inputs were written in place\)"):
        made._prove_replay(None, None)
    monkeypatch.setattr(made.external, "write", lambda arrays: None)
    with pytest.raises(WrongOutputs, match=r"\(after inputs were written through numpy\)"):
        made._prove_external(made.external, None, None)


def test_a_copy_is_found_by_address_and_by_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copying(self: streams.ExternalInputs, spec: Any, array: Any) -> Any:
        value = host_value(spec, array.copy())
        self._held[spec.name] = array.copy(), value
        return value

    monkeypatch.setattr(streams.ExternalInputs, "wrap", copying)
    *_, made = opened(tmp_path / "m.onnx", RELU.replace("bool[8] b", "float[8] b").replace("Cast<to = 1>", "Abs"))
    assert not made.external.same_addresses()
    found = made.check_inputs(made.external.write, None, None)
    assert not found.verified
    assert found.wrong is not None


def test_what_cannot_be_told_is_not_claimed(tmp_path: Path) -> None:
    *_, made = opened(tmp_path / "m.onnx", "g (float[1] x) => (float[1] y) { y = Relu(x) }")
    found = made.check_inputs(made.external.write, None, None)
    assert (found.verified, found.wrong) == (False, None)
    assert "nothing would show" in found.evidence


@pytest.mark.process
def test_a_device_cannot_read_numpys_memory(library: Path, tmp_path: Path) -> None:
    line = ("--input-memory", "numpy", "--ep-option", "compute_us=100", *ONCE)
    found = cases(measure(MODELS / "tiny.onnx", "--ep-library", library, *line, out=tmp_path))
    assert {mode for mode, case in found.items() if case["status"] == "ok"} == {"cpu-tensors", "host-accessible"}
    reason = "numpy's arrays are in host memory, and RefDeviceExecutionProvider computes on a device"
    assert {found[mode]["reason"] for mode in ("device-tensors", "device-resident")} == {reason}


def test_cupy_is_for_cuda_alone() -> None:
    with pytest.raises(Unsupported, match=r"^cupy has no memory of the device that CPUExecutionProvider computes on$"):
        streams._cuda_index("cupy", providers.Provider("CPUExecutionProvider"))
    assert streams._cuda_index("cupy", providers.Provider("CUDAExecutionProvider", device_index=1)) == 1
    with pytest.raises(BadInput, match=r"^--input-memory no_such: it cannot be imported here: No module named"):
        streams.check("no_such")
