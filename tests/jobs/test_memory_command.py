"""`--measure-memory`, to the byte: of the reference device, of the CPU EP's arena, and of a software GPU by NVML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import softcuda
from tests.conftest import cases, measure, modes
from tests.expect import there
from tests.jobs.test_chain_command import BETWEEN, BYTES, STAGES, defaults, run
from tests.refdevice import Config, Trace
from tests.truth import relu_model, run_on_device
from tests.worker import saved

QUICK = ("--iterations", 2, "--warmup", 1, "--measure-memory")
SIZE = 1 << 16  # of the one input and of the one output
TOKEN = 4  # a value that is read back, as a wait
TRIAL = 64  # bytes, of the trial of a memory
EP = "RefDeviceExecutionProvider"


def by_worker(trace: Trace, memory: str) -> list[tuple[int, int]]:
    """What each process held of a memory when it ended, and at most, in the order in which they began."""
    return [trace.held(memory, int(pid)) for pid in dict.fromkeys(trace.events["pid"])]


def figure(case: dict[str, Any], metric: str) -> float:
    found: float = case["metrics"][metric]["value"]
    return found


def test_every_figure_of_the_reference_device_is_what_it_gave_out(library: Path, tmp_path: Path) -> None:
    config = Config(compute_us=100, trace=tmp_path / "trace")
    model = relu_model(tmp_path / "relu.onnx", SIZE)
    # Of each mode: bound, what the session's allocator held at most, pinned.
    wanted = {
        "cpu-tensors": (0, 2 * SIZE, 0),
        "device-resident": (2 * SIZE + TOKEN, 0, 0),
        "host-accessible": (TOKEN, 0, 2 * SIZE),
        "pipelined": (2 * (2 * SIZE + 2 * TOKEN), 0, 3 * 2 * SIZE + 4 * TOKEN),
    }
    code, result, out, err = run_on_device(library, model, config, tmp_path, *modes(*wanted), "--depth", 2, *QUICK)
    assert code == 0, err
    # The first worker measured; then each mode has one that does nothing else, and one that is profiled.
    default, shared = (by_worker(Trace.read(tmp_path / "trace"), it)[1::2] for it in ("default", "host_accessible"))
    for (mode, (bound, held, pinned)), (_, most), (_, most_shared) in zip(wanted.items(), default, shared, strict=True):
        case = there(result.case(mode))
        memory = there(case.own["memory"])
        assert memory["failed"] is None
        assert memory["device"] == "what ortbench bound and what the EP's arena held"
        assert memory["arenas"] == [{"ep": EP, "held": held, "in_use": held}]
        figures = ("device_memory", "device_memory_bound", "device_memory_process", "pinned_memory")
        assert [case.value(metric) for metric in figures] == [bound + held, bound, None, pinned]
        assert (most, most_shared) == (max(bound + held, TRIAL), max(pinned, TRIAL))
        before, session, peak = (case.value(f"host_memory{part}") or 0 for part in ("_before", "_session", ""))
        assert 0 < before < session <= peak
    rows = map(str.split, out.partition("Resource usage: memory")[2].splitlines())
    assert ["pipelined", "262", "kB"] in [row[:3] for row in rows]


def test_a_chain_is_the_sum_of_its_stages(library: Path, tmp_path: Path) -> None:
    """With cpu each session has its tensors while it runs, which is one after the other; with device-resident all are there."""
    config = Config(compute_us=100, trace=tmp_path / "trace")
    result, _ = run(tmp_path, defaults(library) + STAGES + BETWEEN, *QUICK, **config.environ())
    tensors = {"first": 2, "middle": 4, "last": 3}
    _, (_, of_cpu), _, (_, of_resident), _ = by_worker(Trace.read(tmp_path / "trace"), "default")
    assert of_cpu == max(tensors.values()) * BYTES
    assert [case.value("device_memory") for case in result.cases] == [sum(tensors.values()) * BYTES, of_resident]
    how = there(result.cases[0].own["memory"])["arenas_how"]
    assert how.endswith("; the sum of what each stage's had at most, which need not be at the same time")


def test_the_cpus_arena_holds_the_tensors_of_the_model(tmp_path: Path) -> None:
    """Between two nodes there is one tensor of 1 MiB; with arrays the output is in the arena too."""
    model = saved(tmp_path / "known.onnx", "g (float[262144] x) => (float[262144] y) { t = Exp(x) y = Sin(t) }")
    line = ("--ep", "cpu", *modes("cpu-tensors", "device-resident"), "--measure-nodes", *QUICK)
    found = cases(measure(model, *line, out=tmp_path / "out"))
    # The arena grows by twice as much each time.
    for mode, in_use, held in (("cpu-tensors", 2 << 20, 3 << 20), ("device-resident", 1 << 20, 1 << 20)):
        memory = found[mode]["memory"]
        assert memory["device"] is None
        assert memory["arenas"] == [{"ep": "CPUExecutionProvider", "held": held, "in_use": in_use}]
        nodes = {node["op"]: (node["allocated"], node["output"], node["weights"]) for node in memory["nodes"]}
        assert nodes == {"Exp": (1 << 20, 1 << 20, 0)} | (
            {"Sin": (1 << 20, 1 << 20, 0)} if mode == "cpu-tensors" else {}
        )
        grown = figure(found[mode], "host_memory") - figure(found[mode], "host_memory_session")
        assert grown >= in_use + (2 << 20 if mode != "cpu-tensors" else 1 << 20)


@pytest.mark.parametrize("tells", [True, False])
def test_what_a_card_holds_is_what_nvml_says(software_cuda: tuple[str, ...], tmp_path: Path, tells: bool) -> None:
    config = softcuda.Config(used=tmp_path / "used", processes=tells)
    prefix = (*software_cuda, "env", *(f"{name}={value}" for name, value in config.environ().items()))
    model = relu_model(tmp_path / "relu.onnx", SIZE)
    line = ("--ep", "cuda", *modes("cpu-tensors", "device-resident"), *QUICK)
    found = cases(measure(model, *line, out=tmp_path / "out", prefix=prefix))
    # A worker that ends by itself, before it is killed, as on a busy machine, has given all back by then.
    held = [*softcuda.users(tmp_path / "used").values()]
    for mode, bound, arena in zip(
        ("cpu-tensors", "device-resident"), (0, 2 * SIZE + TOKEN), (2 * SIZE, 0), strict=True
    ):
        memory = found[mode]["memory"]
        of_process = figure(found[mode], "device_memory_process")
        assert figure(found[mode], "device_memory") == of_process
        # One worker holds just that in the end, or held it before.
        held.remove(next(it for it in held if it[0] <= of_process <= it[1]))
        assert figure(found[mode], "device_memory_bound") == bound
        assert memory["arenas"][0]["in_use"] == arena
        less = "NVML: the decrease of free GPU memory, as NVML does not report the process"
        assert memory["device"] == ("NVML, of the worker's process" if tells else less)
