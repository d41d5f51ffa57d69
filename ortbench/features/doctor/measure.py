"""Gathers the facts of `ortbench doctor`, here and from a worker; measures the noise of this machine, which is how far apart
two series are that do the same. What is not there is left out."""

from __future__ import annotations

import contextlib
import platform
from importlib import metadata
from pathlib import Path
from typing import Any, cast

from ortbench.analysis.intervals import by_round
from ortbench.analysis.noise import join_noise
from ortbench.core.errors import BenchmarkFailed, OrtbenchError, one_line
from ortbench.core.files import temporary_folder
from ortbench.core.processes import find_nsys, nsys_version
from ortbench.core.stats import figure_of, ratio_of
from ortbench.features.doctor.model import Card, CardProcess, Cpu, Facts, Installed, Noise, Nvidia, Profiler
from ortbench.measure.configuration import Configuration
from ortbench.measure.driver import Driver
from ortbench.measure.environment import (
    core_limit,
    cpu_model,
    environment,
    governors,
    is_on_the_bus,
    machine_memory,
    read_text,
    usable_cores,
)
from ortbench.measure.gpus import Calls, clocks, held_by, opened_nvml, read_value, read_values
from ortbench.measure.noise import noise_for
from ortbench.measure.process import Client
from ortbench.measure.rounds import Rounds
from ortbench.model.certificate import read_certificate, stale_reasons
from ortbench.model.modes import CPU, LATENCY
from ortbench.model.protocol import Packages
from ortbench.model.result import OK, Result
from ortbench.plan.plan import Loop, Observer, Plan
from ortbench.plan.target import Target

_ANSWER_S = 120.0  # the longest wait for one


def facts(python: str | None = None) -> Facts:
    """All but the noise, which is None, of this machine and of the ONNX Runtime of an interpreter; `BenchmarkFailed` where no
    worker can be started."""
    processor = cpu()
    installed: Installed | None = None
    problem = None
    with Client(_ANSWER_S, python) as client:
        packages: Packages = client.ask("packages")
        try:
            installed = client.ask("examine")
        except OrtbenchError as error:
            problem = str(error)
    version = f"Python {platform.python_version()}"
    if python is not None:
        version = python if installed is None else f"Python {installed['runtime']['python']} of {python}"
    found: Facts = {
        "system": f"{platform.platform()}, {version}",
        "packages": packages,
        "installed": installed,
        "problem": problem,
        "cpu": processor,
        "memory": machine_memory(),
        "nvidia": nvidia(),
        "profiler": profiler(),
        "noise": None,
    }
    kept = read_certificate()
    if kept is not None and installed is not None:
        found["certificate"] = kept["certificate"]
        found["stale"] = stale_reasons(kept, {**environment(), **installed["runtime"]})
    return found


def profiler() -> Profiler:
    found: Profiler = {"nsys": None, "nvtx": None, "problem": None}
    with contextlib.suppress(metadata.PackageNotFoundError):
        found["nvtx"] = metadata.version("nvtx")
    path = find_nsys()
    if path is not None:
        try:
            found["nsys"] = nsys_version(path)
        except BenchmarkFailed as error:
            found["problem"] = str(error)
    return found


def cpu(root: Path = Path("/")) -> Cpu:
    """The processor; of its clocks and limits what Linux tells."""
    import psutil

    return {
        "model": cpu_model(),
        "cores": psutil.cpu_count(),
        "usable": usable_cores(),
        "limit": core_limit(root),
        "governors": governors(root),
        "turbo": turbo(root),
        "last_second": noise_for(1.0),
    }


def turbo(root: Path) -> bool | None:
    """Whether clocks may go beyond the nominal one; None where nobody says."""
    frequency = root / "sys/devices/system/cpu"
    switched_off = read_text(frequency / "intel_pstate" / "no_turbo")
    if switched_off is not None:
        return switched_off == "0"
    boost = read_text(frequency / "cpufreq" / "boost")
    return None if boost is None else boost == "1"


def nvidia(nvml: Any = None, root: Path = Path("/")) -> Nvidia:
    with opened_nvml(nvml) as opened:
        if opened is None:
            return {"present": is_on_the_bus(root), "driver": None, "cuda": None, "cards": []}
        cuda = read_value(opened, opened.nvmlSystemGetCudaDriverVersion_v2)
        return {
            "present": True,
            "driver": read_value(opened, opened.nvmlSystemGetDriverVersion),
            "cuda": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
            "cards": [_card(opened, number) for number in range(read_value(opened, opened.nvmlDeviceGetCount) or 0)],
        }


def _card(nvml: Any, number: int) -> Card:
    """What a card tells; what it does not is left out."""
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(number)
    except nvml.NVMLError as error:
        return {"error": one_line(error)}
    asked: Calls = {
        "name": lambda: nvml.nvmlDeviceGetName(handle),
        "persistence": lambda: nvml.nvmlDeviceGetPersistenceMode(handle) == 1,
        **clocks(nvml, handle),
        "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "power_default_w": lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000,
        "busy": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
        "slowed_by": lambda: held_by(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        "processes": lambda: _processes(nvml, handle),
    }
    return cast(Card, read_values(nvml, asked))  # the keys are those of its fields


def _processes(nvml: Any, handle: Any) -> list[CardProcess]:
    """What computes on a card or draws on it; in a container others' may not be told, or not by name."""
    import psutil

    found: dict[int, CardProcess] = {}
    for process in nvml.nvmlDeviceGetComputeRunningProcesses(handle) + nvml.nvmlDeviceGetGraphicsRunningProcesses(
        handle
    ):
        found[process.pid] = {"pid": process.pid, "name": None, "memory_bytes": process.usedGpuMemory}
        with contextlib.suppress(psutil.Error):
            found[process.pid]["name"] = psutil.Process(process.pid).name()
    return [*found.values()]


SECONDS = 2.0  # of each series
_WIDTH, _LAYERS = 256, 8  # about a millisecond of matrix products, on as many threads as ONNX Runtime takes


def noise(observer: Observer | None = None, seconds: float = SECONDS, python: str | None = None) -> Noise | None:
    """Measure a small model twice in turns, each in a worker of its own on the CPU EP; None if that was interrupted."""
    try:
        with temporary_folder() as folder:
            model = Path(folder) / "noise.onnx"
            write_model(model)
            loop = Loop(duration_s=seconds, precision=None, processes=1)
            plan = Plan(str(model), Target(ep="cpu", python=python), modes=(CPU,), loop=loop)
            driver = Driver([Configuration(plan, name=name) for name in ("one", "other")], Rounds, observer)
            results = driver.run()
    except OrtbenchError as error:
        return {"problem": str(error), "seconds": seconds}
    return None if driver.interrupted else apart(results, seconds)


def apart(results: list[Result], seconds: float) -> Noise:
    cases = [case for result in results for case in result.cases]
    failed = next((str(case.reason) for case in cases if case.status != OK), None)
    if failed is not None or len(cases) != 2:
        return {"problem": failed or "one of the two did not open", "seconds": seconds}
    one, other = (by_round(case, LATENCY) for case in cases)
    found = ratio_of(one, other)
    return {
        "problem": None,
        "seconds": seconds,
        "pairs": len(one),
        "median_ns": round(figure_of(one)),
        "ratio": found.ratio,
        "ci95": found.ci95,
        "machine": join_noise(result.noise for result in results),
    }


def write_model(path: Path, layers: int = _LAYERS) -> None:
    """A chain of so many matrix products; each scales what it is given by about 1, so that numbers stay as they are."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = (np.random.default_rng(0).standard_normal((_WIDTH, _WIDTH)) / _WIDTH**0.5).astype(np.float32)
    nodes = [helper.make_node("MatMul", [f"t{n}", "w"], [f"t{n + 1}"]) for n in range(layers)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [_WIDTH, _WIDTH]) for name in ("t0", f"t{layers}")]
    graph = helper.make_graph(nodes, "noise", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)
