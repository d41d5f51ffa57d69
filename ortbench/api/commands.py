"""The commands as functions. Made from where options are declared: ``python -m tests.api_commands > ortbench/api/commands.py``.

A parameter is an option of the command of the same name and means what it means there; None leaves the default. They are written
out because editors take what a parameter means from the docstring of its function: of a TypedDict in its place they would know
names and types alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ortbench.api import calls

if TYPE_CHECKING:
    from ortbench.api.results import Bandwidth, Comparison, Result, Verdict
    from ortbench.api.values import Arrays, Model, Place, Tell, Texts
    from ortbench.model.protocol import Inspected, Listed
    from ortbench.model.result import Result as StoredResult


def run(
    model: Model,
    *,
    ep: str | None = None,
    ep_library: Place | None = None,
    device: int | None = None,
    ep_option: Mapping[str, str | float] | None = None,
    session_config: Mapping[str, str | float] | None = None,
    threads: int | None = None,
    opt_level: str | None = None,
    require_placement: bool = False,
    dynamic_outputs: bool = False,
    external: str | None = None,
    cuda_graph: bool = False,
    stream: str | None = None,
    engine_cache: Place | None = None,
    run_config: Mapping[str, str | float] | None = None,
    python: Place | None = None,
    modes: Texts | None = None,
    depth: int | None = None,
    pinned: bool = False,
    async_runs: bool = False,
    input: Place | Arrays | None = None,
    expect: Place | Arrays | None = None,
    shape: Mapping[str, str | Sequence[int]] | None = None,
    dim: Mapping[str, int | str] | None = None,
    length: Mapping[str, int] | None = None,
    range: Mapping[str, Sequence[float]] | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    warmup: int | None = None,
    duration: float | None = None,
    iterations: int | None = None,
    precision: float | str | None = None,
    timeout: float | None = None,
    nodes: bool = False,
    measure_copies: bool = False,
    spin: bool = False,
    memory: bool = False,
    energy: bool = False,
    lock_clocks: int | str | None = None,
    record_env: Texts | None = None,
    name: str | None = None,
    note: str | None = None,
    items: int | str | None = None,
    out: Place | None = None,
    bandwidth: Place | None = None,
    progress: Tell | None = None,
) -> Result:
    """Measure a model in its I/O modes: what copies and inference cost.

    Args:
        model: the path of an .onnx or .ort file, the file's bytes, or an `onnx.ModelProto`.
        ep: Execution provider: auto (the first with a GPU or NPU, else cpu), cpu, cuda, tensorrt, nv-tensorrt-rtx,
            webgpu, openvino, qnn, migraphx, dml, a full name, an installed plugin package, the path of a plugin EP's
            library, or what ONNX Runtime is to choose by: prefer-gpu, prefer-npu, prefer-cpu, max-performance,
            max-efficiency, min-overall-power. Default: auto.
        ep_library: A plugin EP's library, where it is no package.
        device: Which of the EP's devices ('ortbench devices' lists them). Default: its first GPU or NPU.
        ep_option: An option of the EP. As {"key": "value"}.
        session_config: An entry of the session's configuration. As {"key": "value"}.
        threads: Threads within an operator. Default: ONNX Runtime's.
        opt_level: Graph optimisation: disable, basic, extended, layout, all. Default: all.
        require_placement: Fail if nodes stay on the CPU.
        dynamic_outputs: Bind outputs without a shape: ONNX Runtime allocates them in each run.
        external: Bind inputs in another library's memory: numpy, torch, cupy.
        cuda_graph: Capture runs as a graph and replay it (CUDA, TensorRT, WebGPU).
        stream: Run kernels on a stream made by ort or cuda-python (CUDA, TensorRT).
        engine_cache: Where TensorRT EPs keep their engines between sessions.
        run_config: An entry of ONNX Runtime's run options, in every run. As {"key": "value"}.
        python: The interpreter (or its environment's folder) whose ONNX Runtime is measured. Default: ortbench's
            own.
        modes: cpu-tensors, device-tensors, device-resident, host-accessible, cpu-tensors-pinned,
            device-tensors-pinned, pipelined, device-resident-async. Default: all but cpu-tensors-pinned,
            device-tensors-pinned, pipelined, device-resident-async.
        depth: Adds mode pipelined with N inferences in flight. Default: 3.
        pinned: Adds cpu-tensors-pinned and device-tensors-pinned: the host's side in the EP's pinned memory.
        async_runs: Adds device-resident-async: many runs and one wait, for throughput.
        input: Inputs: an .npz (keys are names) or a folder of input_0.pb, ... Or arrays by name.
        expect: Expected outputs: an .npz or a folder of output_0.pb, ... Or arrays by name.
        shape: An input's shape. As {"name": "1x3"} or {"name": [1, 3]}.
        dim: A symbolic dimension's size, else 1. As {"name": 8} or {"name": "other+1"}.
        length: Tensors in an input that is a sequence. As {"name": 8}.
        range: Range of a random input. As {"name": [0, 1]}.
        seed: Seed of random inputs and of the order of blocks. Default: 0.
        rtol: Relative tolerance when outputs are compared. Default: by dtype.
        atol: Absolute tolerance when outputs are compared. Default: by dtype.
        warmup: Runs of each mode before measuring. Default: 0.5 s.
        duration: Longest measurement, per mode. Default: 5.
        iterations: Measure exactly N runs of each mode.
        precision: Stop when each median is known this well (95 %); 0 never does. As "1%" or 0.01. Default: 1%.
        timeout: Longest wait for one answer of the worker. Default: 600.
        nodes: Then profile some runs: time by operator and EP, copies inside the graph.
        measure_copies: Then have NVIDIA's CUPTI measure the copies inside some runs.
        spin: Then measure once more with threads that do not spin: what that takes of the CPU.
        memory: Then measure what each mode takes of the device's and of the host's memory.
        energy: Then run each mode for some seconds beside the device's energy counter: joules a run.
        lock_clocks: Lock the NVIDIA GPU's clocks meanwhile; it takes the right to. As "base" or 1200.
        record_env: Record environment variables that an EP reads, such as 'SOMEEP_*'.
        name: What to call the run: its folder, and it in every report and comparison.
        note: Kept in the result, and shown in its heading.
        items: Items of a run, for items/s: a number, or the dimension that has it. As 8 or "batch". Default: the
            dimension batch, batch_size or N.
        out: The folder in which a folder of its own is made for what is measured; by default nothing is written.
        bandwidth: A sweep of 'ortbench bandwidth' to hold the copies against. Default: the newest in `out` that
            fits; none without `out`.
        progress: called with a `Progress` now and then, from this thread; what it raises ends the call.

    Returns:
        what was measured, all modes with all samples; a mode that could not be measured says why, and raises nothing.

    Raises:
        BadInput, BenchmarkFailed, NotSaved, Interrupted: as their own docstrings say.
    """
    return calls.run(model, locals())


def loop(
    model: Model,
    *,
    ep: str | None = None,
    ep_library: Place | None = None,
    device: int | None = None,
    ep_option: Mapping[str, str | float] | None = None,
    session_config: Mapping[str, str | float] | None = None,
    threads: int | None = None,
    opt_level: str | None = None,
    require_placement: bool = False,
    stream: str | None = None,
    engine_cache: Place | None = None,
    run_config: Mapping[str, str | float] | None = None,
    python: Place | None = None,
    modes: Texts | None = None,
    feedback: Texts | None = None,
    steps: int | None = None,
    first_dim: Mapping[str, int | str] | None = None,
    fill: Mapping[str, str | float] | None = None,
    share_buffers: bool = False,
    keep: Texts | None = None,
    resident: Texts | None = None,
    input: Place | Arrays | None = None,
    expect: Place | Arrays | None = None,
    shape: Mapping[str, str | Sequence[int]] | None = None,
    dim: Mapping[str, int | str] | None = None,
    range: Mapping[str, Sequence[float]] | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    warmup: int | None = None,
    duration: float | None = None,
    iterations: int | None = None,
    precision: float | str | None = None,
    timeout: float | None = None,
    spin: bool = False,
    memory: bool = False,
    energy: bool = False,
    lock_clocks: int | str | None = None,
    record_env: Texts | None = None,
    name: str | None = None,
    note: str | None = None,
    out: Place | None = None,
    progress: Tell | None = None,
) -> Result:
    """Measure a model whose outputs are inputs of its next step: what the copies of its state cost.

    Args:
        model: the path of an .onnx or .ort file, the file's bytes, or an `onnx.ModelProto`.
        ep: Execution provider: auto (the first with a GPU or NPU, else cpu), cpu, cuda, tensorrt, nv-tensorrt-rtx,
            webgpu, openvino, qnn, migraphx, dml, a full name, an installed plugin package, the path of a plugin EP's
            library, or what ONNX Runtime is to choose by: prefer-gpu, prefer-npu, prefer-cpu, max-performance,
            max-efficiency, min-overall-power. Default: auto.
        ep_library: A plugin EP's library, where it is no package.
        device: Which of the EP's devices ('ortbench devices' lists them). Default: its first GPU or NPU.
        ep_option: An option of the EP. As {"key": "value"}.
        session_config: An entry of the session's configuration. As {"key": "value"}.
        threads: Threads within an operator. Default: ONNX Runtime's.
        opt_level: Graph optimisation: disable, basic, extended, layout, all. Default: all.
        require_placement: Fail if nodes stay on the CPU.
        stream: Run kernels on a stream made by ort or cuda-python (CUDA, TensorRT).
        engine_cache: Where TensorRT EPs keep their engines between sessions.
        run_config: An entry of ONNX Runtime's run options, in every run. As {"key": "value"}.
        python: The interpreter (or its environment's folder) whose ONNX Runtime is measured. Default: ortbench's
            own.
        modes: cpu-tensors, device-resident, host-accessible, shared. Default: all but shared.
        feedback: An output that is an input of the next step; * stands for the same text in both. As "out=in" or a
            list.
        steps: Steps of a loop. Default: 16.
        first_dim: A dimension's size in the first step, as of a prompt. As {"name": 8} or {"name": "other+1"}.
        fill: An input's values: a number, or a sum of dimensions, step and index. As {"key": "value"}.
        share_buffers: Adds mode shared: past and present state are one buffer.
        keep: An output that stays on the device, and is read after the last step only.
        resident: An input that is copied to the device once.
        input: Inputs: an .npz (keys are names) or a folder of input_0.pb, ... Or arrays by name.
        expect: Expected outputs: an .npz or a folder of output_0.pb, ... Or arrays by name.
        shape: An input's shape. As {"name": "1x3"} or {"name": [1, 3]}.
        dim: A symbolic dimension's size, else 1. As {"name": 8} or {"name": "other+1"}.
        range: Range of a random input. As {"name": [0, 1]}.
        seed: Seed of random inputs and of the order of blocks. Default: 0.
        rtol: Relative tolerance when outputs are compared. Default: by dtype.
        atol: Absolute tolerance when outputs are compared. Default: by dtype.
        warmup: Runs of each mode before measuring. Default: 0.5 s.
        duration: Longest measurement, per mode. Default: 5.
        iterations: Measure exactly N loops of each mode.
        precision: Stop when each median is known this well (95 %); 0 never does. As "1%" or 0.01. Default: 1%.
        timeout: Longest wait for one answer of the worker. Default: 600.
        spin: Then measure once more with threads that do not spin: what that takes of the CPU.
        memory: Then measure what each mode takes of the device's and of the host's memory.
        energy: Then run each mode for some seconds beside the device's energy counter: joules a run.
        lock_clocks: Lock the NVIDIA GPU's clocks meanwhile; it takes the right to. As "base" or 1200.
        record_env: Record environment variables that an EP reads, such as 'SOMEEP_*'.
        name: What to call the run: its folder, and it in every report and comparison.
        note: Kept in the result, and shown in its heading.
        out: The folder in which a folder of its own is made for what is measured; by default nothing is written.
        progress: called with a `Progress` now and then, from this thread; what it raises ends the call.

    Returns:
        what was measured, all modes with all samples; a mode that could not be measured says why, and raises nothing.

    Raises:
        BadInput, BenchmarkFailed, NotSaved, Interrupted: as their own docstrings say.
    """
    return calls.run(model, locals(), "loop")


def chain(
    file: Place,
    *,
    python: Place | None = None,
    modes: Texts | None = None,
    expect: Place | Arrays | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    warmup: int | None = None,
    duration: float | None = None,
    iterations: int | None = None,
    precision: float | str | None = None,
    timeout: float | None = None,
    memory: bool = False,
    energy: bool = False,
    lock_clocks: int | str | None = None,
    record_env: Texts | None = None,
    name: str | None = None,
    note: str | None = None,
    out: Place | None = None,
    progress: Tell | None = None,
) -> Result:
    """Measure models one behind the other: what it costs that each hands on through the host.

    Stages and links are in a TOML file.

    Args:
        file: the path of the chain, a TOML file.
        python: The interpreter (or its environment's folder) whose ONNX Runtime is measured. Default: ortbench's
            own.
        modes: cpu-tensors, device-resident. Default: both.
        expect: Expected outputs: an .npz with keys STAGE/NAME. Or arrays by name.
        seed: Seed of random inputs and of the order of blocks. Default: 0.
        rtol: Relative tolerance when outputs are compared. Default: by dtype.
        atol: Absolute tolerance when outputs are compared. Default: by dtype.
        warmup: Chains of each mode before measuring. Default: 0.5 s.
        duration: Longest measurement, per mode. Default: 5.
        iterations: Measure exactly N chains of each mode.
        precision: Stop when each median is known this well (95 %); 0 never does. As "1%" or 0.01. Default: 1%.
        timeout: Longest wait for one answer of the worker. Default: 600.
        memory: Then measure what each mode takes of the device's and of the host's memory.
        energy: Then run each mode for some seconds beside the device's energy counter: joules a run.
        lock_clocks: Lock the NVIDIA GPU's clocks meanwhile; it takes the right to. As "base" or 1200.
        record_env: Record environment variables that an EP reads, such as 'SOMEEP_*'.
        name: What to call the run: its folder, and it in every report and comparison.
        note: Kept in the result, and shown in its heading.
        out: The folder in which a folder of its own is made for what is measured; by default nothing is written.
        progress: called with a `Progress` now and then, from this thread; what it raises ends the call.

    Returns:
        what was measured, all modes with all samples; a mode that could not be measured says why, and raises nothing.

    Raises:
        BadInput, BenchmarkFailed, NotSaved, Interrupted: as their own docstrings say.
    """
    return calls.chain(file, locals())


def load(
    model: Model,
    *,
    ep: str | None = None,
    ep_library: Place | None = None,
    device: int | None = None,
    ep_option: Mapping[str, str | float] | None = None,
    session_config: Mapping[str, str | float] | None = None,
    threads: int | None = None,
    opt_level: str | None = None,
    require_placement: bool = False,
    stream: str | None = None,
    engine_cache: Place | None = None,
    run_config: Mapping[str, str | float] | None = None,
    python: Place | None = None,
    modes: Texts | None = None,
    pinned: bool = False,
    input: Place | Arrays | None = None,
    expect: Place | Arrays | None = None,
    shape: Mapping[str, str | Sequence[int]] | None = None,
    dim: Mapping[str, int | str] | None = None,
    length: Mapping[str, int] | None = None,
    range: Mapping[str, Sequence[float]] | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    warmup: int | None = None,
    timeout: float | None = None,
    lock_clocks: int | str | None = None,
    record_env: Texts | None = None,
    name: str | None = None,
    note: str | None = None,
    concurrency: int | str | Sequence[int] | None = None,
    rate: float | str | Sequence[float] | None = None,
    arrivals: Place | None = None,
    sessions: str | None = None,
    slo: str | None = None,
    callers: int | None = None,
    duration: float | None = None,
    out: Place | None = None,
    progress: Tell | None = None,
) -> Result:
    """Measure a model under load: several callers at a time, or requests that are due at a rate.

    Args:
        model: the path of an .onnx or .ort file, the file's bytes, or an `onnx.ModelProto`.
        ep: Execution provider: auto (the first with a GPU or NPU, else cpu), cpu, cuda, tensorrt, nv-tensorrt-rtx,
            webgpu, openvino, qnn, migraphx, dml, a full name, an installed plugin package, the path of a plugin EP's
            library, or what ONNX Runtime is to choose by: prefer-gpu, prefer-npu, prefer-cpu, max-performance,
            max-efficiency, min-overall-power. Default: auto.
        ep_library: A plugin EP's library, where it is no package.
        device: Which of the EP's devices ('ortbench devices' lists them). Default: its first GPU or NPU.
        ep_option: An option of the EP. As {"key": "value"}.
        session_config: An entry of the session's configuration. As {"key": "value"}.
        threads: Threads within an operator. Default: ONNX Runtime's.
        opt_level: Graph optimisation: disable, basic, extended, layout, all. Default: all.
        require_placement: Fail if nodes stay on the CPU.
        stream: Run kernels on a stream made by ort or cuda-python (CUDA, TensorRT).
        engine_cache: Where TensorRT EPs keep their engines between sessions.
        run_config: An entry of ONNX Runtime's run options, in every run. As {"key": "value"}.
        python: The interpreter (or its environment's folder) whose ONNX Runtime is measured. Default: ortbench's
            own.
        modes: cpu-tensors, device-tensors, device-resident, host-accessible, cpu-tensors-pinned,
            device-tensors-pinned. Default: all but cpu-tensors-pinned, device-tensors-pinned, pipelined,
            device-resident-async.
        pinned: Adds cpu-tensors-pinned and device-tensors-pinned: the host's side in the EP's pinned memory.
        input: Inputs: an .npz (keys are names) or a folder of input_0.pb, ... Or arrays by name.
        expect: Expected outputs: an .npz or a folder of output_0.pb, ... Or arrays by name.
        shape: An input's shape. As {"name": "1x3"} or {"name": [1, 3]}.
        dim: A symbolic dimension's size, else 1. As {"name": 8} or {"name": "other+1"}.
        length: Tensors in an input that is a sequence. As {"name": 8}.
        range: Range of a random input. As {"name": [0, 1]}.
        seed: Seed of random inputs and of the order of blocks. Default: 0.
        rtol: Relative tolerance when outputs are compared. Default: by dtype.
        atol: Absolute tolerance when outputs are compared. Default: by dtype.
        warmup: Runs of each mode before measuring. Default: 0.5 s.
        timeout: Longest wait for one answer of the worker. Default: 600.
        lock_clocks: Lock the NVIDIA GPU's clocks meanwhile; it takes the right to. As "base" or 1200.
        record_env: Record environment variables that an EP reads, such as 'SOMEEP_*'.
        name: What to call the run: its folder, and it in every report and comparison.
        note: Kept in the result, and shown in its heading.
        concurrency: Callers that each start the next inference when the last is done. Default: 1,2,4,8, at most
            twice the cores, without `rate`.
        rate: Requests a second, due whether others are done or not; auto: the most that keeps `slo`.
        arrivals: When requests are due: poisson, uniform, or a file of timestamps in seconds. Default: poisson.
        sessions: What callers have: shared (one session for all), own (one each), process (a process each).
            Default: shared.
        slo: What latency may be at most, such as p99=20ms; of mean, p50, p95, p99, max.
        callers: Callers that serve the requests of `rate`. Default: 1.
        duration: Time of one level. Default: 2, of a file of arrivals without `rate` all of it.
        out: The folder in which a folder of its own is made for what is measured; by default nothing is written.
        progress: called with a `Progress` now and then, from this thread; what it raises ends the call.

    Returns:
        what was measured, with `levels`; a level that failed says why, and raises nothing.

    Raises:
        BadInput, BenchmarkFailed, NotSaved, Interrupted: as their own docstrings say.
    """
    return calls.load(model, locals())


def sweep(
    model: Model,
    *,
    ep: str | None = None,
    ep_library: Place | None = None,
    device: int | None = None,
    ep_option: Mapping[str, str | float] | None = None,
    session_config: Mapping[str, str | float] | None = None,
    threads: int | None = None,
    opt_level: str | None = None,
    require_placement: bool = False,
    dynamic_outputs: bool = False,
    external: str | None = None,
    cuda_graph: bool = False,
    stream: str | None = None,
    engine_cache: Place | None = None,
    run_config: Mapping[str, str | float] | None = None,
    python: Place | None = None,
    modes: Texts | None = None,
    depth: int | None = None,
    pinned: bool = False,
    async_runs: bool = False,
    shape: Mapping[str, str | Sequence[int] | Sequence[Sequence[int] | str]] | None = None,
    dim: Mapping[str, int | str | Sequence[int | str]] | None = None,
    length: Mapping[str, int | str | Sequence[int | str]] | None = None,
    range: Mapping[str, Sequence[float]] | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    warmup: int | None = None,
    duration: float | None = None,
    iterations: int | None = None,
    precision: float | str | None = None,
    timeout: float | None = None,
    spin: bool = False,
    memory: bool = False,
    energy: bool = False,
    lock_clocks: int | str | None = None,
    record_env: Texts | None = None,
    name: str | None = None,
    note: str | None = None,
    items: int | str | None = None,
    data: Place | Sequence[Place | Arrays] | None = None,
    slo: str | None = None,
    out: Place | None = None,
    progress: Tell | None = None,
) -> Result:
    """Measure a model over shapes in one session: which size is best, and what switching shapes costs.

    Args:
        model: the path of an .onnx or .ort file, the file's bytes, or an `onnx.ModelProto`.
        ep: Execution provider: auto (the first with a GPU or NPU, else cpu), cpu, cuda, tensorrt, nv-tensorrt-rtx,
            webgpu, openvino, qnn, migraphx, dml, a full name, an installed plugin package, the path of a plugin EP's
            library, or what ONNX Runtime is to choose by: prefer-gpu, prefer-npu, prefer-cpu, max-performance,
            max-efficiency, min-overall-power. Default: auto.
        ep_library: A plugin EP's library, where it is no package.
        device: Which of the EP's devices ('ortbench devices' lists them). Default: its first GPU or NPU.
        ep_option: An option of the EP. As {"key": "value"}.
        session_config: An entry of the session's configuration. As {"key": "value"}.
        threads: Threads within an operator. Default: ONNX Runtime's.
        opt_level: Graph optimisation: disable, basic, extended, layout, all. Default: all.
        require_placement: Fail if nodes stay on the CPU.
        dynamic_outputs: Bind outputs without a shape: ONNX Runtime allocates them in each run.
        external: Bind inputs in another library's memory: numpy, torch, cupy.
        cuda_graph: Capture runs as a graph and replay it (CUDA, TensorRT, WebGPU).
        stream: Run kernels on a stream made by ort or cuda-python (CUDA, TensorRT).
        engine_cache: Where TensorRT EPs keep their engines between sessions.
        run_config: An entry of ONNX Runtime's run options, in every run. As {"key": "value"}.
        python: The interpreter (or its environment's folder) whose ONNX Runtime is measured. Default: ortbench's
            own.
        modes: cpu-tensors, device-tensors, device-resident, host-accessible, cpu-tensors-pinned,
            device-tensors-pinned, pipelined, device-resident-async. Default: all but cpu-tensors-pinned,
            device-tensors-pinned, pipelined, device-resident-async.
        depth: Adds mode pipelined with N inferences in flight. Default: 3.
        pinned: Adds cpu-tensors-pinned and device-tensors-pinned: the host's side in the EP's pinned memory.
        async_runs: Adds device-resident-async: many runs and one wait, for throughput.
        shape: An input's shape. A list (NAME:1x3,8x3): each is a shape. As {"name": "1x3"} or {"name": [1, 3]}.
            Several are shapes of their own: {"name": [[1, 3], [8, 3]]} or {"name": "1x3,8x3"}.
        dim: A symbolic dimension's size, else 1. A list (NAME=1,8 or 1..8): each is a shape. As {"name": 8} or
            {"name": "other+1"}. Several are shapes of their own: {"name": [1, 8]} or {"name": "1..8"}.
        length: Tensors in an input that is a sequence. A list (NAME=1,8 or 1..8): each is a shape. As {"name": 8}.
            Several are shapes of their own: {"name": [1, 8]} or {"name": "1..8"}.
        range: Range of a random input. As {"name": [0, 1]}.
        seed: Seed of random inputs and of the order of blocks. Default: 0.
        rtol: Relative tolerance when outputs are compared. Default: by dtype.
        atol: Absolute tolerance when outputs are compared. Default: by dtype.
        warmup: Runs of each mode before measuring. Default: 0.5 s.
        duration: Longest measurement, per shape and mode. Default: 2.
        iterations: Measure exactly N runs of each shape and mode.
        precision: Stop when each median is known this well (95 %); 0 never does. As "1%" or 0.01. Default: 1%.
        timeout: Longest wait for one answer of the worker. Default: 600.
        spin: Then measure once more with threads that do not spin: what that takes of the CPU.
        memory: Then measure what each mode takes of the device's and of the host's memory.
        energy: Then run each mode for some seconds beside the device's energy counter: joules a run.
        lock_clocks: Lock the NVIDIA GPU's clocks meanwhile; it takes the right to. As "base" or 1200.
        record_env: Record environment variables that an EP reads, such as 'SOMEEP_*'.
        name: What to call the run: its folder, and it in every report and comparison.
        note: Kept in the result, and shown in its heading.
        items: Items of a run, for items/s: a number, or the dimension that has it. As 8 or "batch". Default: the
            dimension batch, batch_size or N.
        data: Real inputs in turns: an .npz, or a folder of input_0.pb, ..., or of such. Or arrays by name.
        slo: What the best shape has to keep: p99=20ms, latency=5ms.
        out: The folder in which a folder of its own is made for what is measured; by default nothing is written.
        progress: called with a `Progress` now and then, from this thread; what it raises ends the call.

    Returns:
        what was measured, with `shapes`, cases at the point of each, and `best`; a shape that could not be measured
        says why, and raises nothing.

    Raises:
        BadInput, BenchmarkFailed, NotSaved, Interrupted: as their own docstrings say.
    """
    return calls.sweep(model, locals())


def gate(
    result: Result | StoredResult | Place | None = None,
    *,
    model: Model | None = None,
    chain: Place | None = None,
    load: bool = False,
    max_regression: float | str | None = None,
    metric: Texts | None = None,
    min_speedup: Mapping[str, float] | None = None,
    max_copy_share: float | str | None = None,
    max_cpu_nodes: int | None = None,
    max_device_memory: int | str | None = None,
    max_host_memory: int | str | None = None,
    require_mode: Texts | None = None,
    baseline: Result | StoredResult | Place | None = None,
    force: bool = False,
    baseline_model: Model | None = None,
    baseline_chain: Place | None = None,
    baseline_ep: str | None = None,
    baseline_ep_library: Place | None = None,
    baseline_device: int | str | None = None,
    baseline_ep_option: Mapping[str, str | float] | None = None,
    baseline_session_config: Mapping[str, str | float] | None = None,
    baseline_threads: int | str | None = None,
    baseline_opt_level: str | None = None,
    baseline_require_placement: bool | None = None,
    baseline_dynamic_outputs: bool | None = None,
    baseline_external: str | None = None,
    baseline_cuda_graph: bool | None = None,
    baseline_stream: str | None = None,
    baseline_engine_cache: Place | None = None,
    baseline_run_config: Mapping[str, str | float] | None = None,
    baseline_python: Place | None = None,
    baseline_keep: Texts | None = None,
    baseline_resident: Texts | None = None,
    baseline_input: Place | Arrays | None = None,
    baseline_expect: Place | Arrays | None = None,
    baseline_shape: Mapping[str, str | Sequence[int]] | None = None,
    baseline_dim: Mapping[str, int | str] | None = None,
    baseline_length: Mapping[str, int] | None = None,
    baseline_range: Mapping[str, Sequence[float]] | None = None,
    baseline_depth: int | str | None = None,
    baseline_items: int | str | None = None,
    ep: str | None = None,
    ep_library: Place | None = None,
    device: int | None = None,
    ep_option: Mapping[str, str | float] | None = None,
    session_config: Mapping[str, str | float] | None = None,
    threads: int | None = None,
    opt_level: str | None = None,
    require_placement: bool = False,
    dynamic_outputs: bool = False,
    external: str | None = None,
    cuda_graph: bool = False,
    stream: str | None = None,
    engine_cache: Place | None = None,
    run_config: Mapping[str, str | float] | None = None,
    python: Place | None = None,
    modes: Texts | None = None,
    depth: int | None = None,
    pinned: bool = False,
    async_runs: bool = False,
    feedback: Texts | None = None,
    steps: int | None = None,
    first_dim: Mapping[str, int | str] | None = None,
    fill: Mapping[str, str | float] | None = None,
    share_buffers: bool = False,
    keep: Texts | None = None,
    resident: Texts | None = None,
    input: Place | Arrays | None = None,
    expect: Place | Arrays | None = None,
    shape: Mapping[str, str | Sequence[int]] | None = None,
    dim: Mapping[str, int | str] | None = None,
    length: Mapping[str, int] | None = None,
    range: Mapping[str, Sequence[float]] | None = None,
    seed: int | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    warmup: int | None = None,
    duration: float | None = None,
    timeout: float | None = None,
    lock_clocks: int | str | None = None,
    record_env: Texts | None = None,
    note: str | None = None,
    items: int | str | None = None,
    concurrency: int | str | Sequence[int] | None = None,
    rate: float | str | Sequence[float] | None = None,
    arrivals: Place | None = None,
    sessions: str | None = None,
    slo: str | None = None,
    callers: int | None = None,
    out: Place | None = None,
    progress: Tell | None = None,
) -> Verdict:
    """Pass or fail, for CI: a model, live, or a stored result.

    Against limits and a baseline. Live, with `model` or `chain`, candidate and baseline are measured in turns until the
    verdict is clear; with `load` under load.

    Args:
        result: a result, or its file or folder; without it the gate is live.
        model: Live: the candidate's model. Or its bytes, or an `onnx.ModelProto`.
        chain: Live: the candidate's chain, in the place of `model`.
        load: Live: put a load on it, as 'ortbench load' does.
        max_regression: How much slower it may be. As "1%" or 0.01. Default: with a baseline 5%.
        metric: What must not be worse, such as device-tensors.latency.p95 or throughput@concurrency=4. Default:
            latency; of a load throughput of clients, latency.p99 at a rate.
        min_speedup: A mode must be X times as fast as cpu-tensors. As {"mode": 1.5}.
        max_copy_share: Share of a run with CPU tensors that is copies. As "1%" or 0.01.
        max_cpu_nodes: Nodes that may stay on the CPU.
        max_device_memory: What a mode may take of the device's memory, such as 2GB. As "2GB" or a number of bytes.
        max_host_memory: What a mode may take of the host's memory, such as 512MiB. As "2GB" or a number of bytes.
        require_mode: A mode that must work.
        baseline: The stored result it is held against.
        force: Compare what is not comparable, and say what differs.
        baseline_model: Live: the model it is held against. Or its bytes, or an `onnx.ModelProto`.
        baseline_chain: Live: the chain it is held against.
        baseline_ep: Live: `ep` of the baseline, '' for auto.
        baseline_ep_library: Live: `ep_library` of the baseline, '' for none.
        baseline_device: Live: `device` of the baseline, '' for its first GPU or NPU.
        baseline_ep_option: Live: `ep_option` of the baseline, {} for none. As {"key": "value"}.
        baseline_session_config: Live: `session_config` of the baseline, {} for none. As {"key": "value"}.
        baseline_threads: Live: `threads` of the baseline, '' for ONNX Runtime's.
        baseline_opt_level: Live: `opt_level` of the baseline, '' for all.
        baseline_require_placement: Live: `require_placement` of the baseline.
        baseline_dynamic_outputs: Live: `dynamic_outputs` of the baseline.
        baseline_external: Live: `external` of the baseline, '' for none.
        baseline_cuda_graph: Live: `cuda_graph` of the baseline.
        baseline_stream: Live: `stream` of the baseline, '' for none.
        baseline_engine_cache: Live: `engine_cache` of the baseline, '' for none.
        baseline_run_config: Live: `run_config` of the baseline, {} for none. As {"key": "value"}.
        baseline_python: Live: `python` of the baseline, '' for ortbench's own.
        baseline_keep: Live: `keep` of the baseline, '' for none.
        baseline_resident: Live: `resident` of the baseline, '' for none.
        baseline_input: Live: `input` of the baseline, '' for none. Or arrays by name.
        baseline_expect: Live: `expect` of the baseline, '' for none. Or arrays by name.
        baseline_shape: Live: `shape` of the baseline, {} for none. As {"name": "1x3"} or {"name": [1, 3]}.
        baseline_dim: Live: `dim` of the baseline, {} for none. As {"name": 8} or {"name": "other+1"}.
        baseline_length: Live: `length` of the baseline, {} for none. As {"name": 8}.
        baseline_range: Live: `range` of the baseline, {} for none. As {"name": [0, 1]}.
        baseline_depth: Live: `depth` of the baseline, '' for 3.
        baseline_items: Live: `items` of the baseline, '' for the dimension batch, batch_size or N.
        ep: Execution provider: auto (the first with a GPU or NPU, else cpu), cpu, cuda, tensorrt, nv-tensorrt-rtx,
            webgpu, openvino, qnn, migraphx, dml, a full name, an installed plugin package, the path of a plugin EP's
            library, or what ONNX Runtime is to choose by: prefer-gpu, prefer-npu, prefer-cpu, max-performance,
            max-efficiency, min-overall-power. Default: auto.
        ep_library: A plugin EP's library, where it is no package.
        device: Which of the EP's devices ('ortbench devices' lists them). Default: its first GPU or NPU.
        ep_option: An option of the EP. As {"key": "value"}.
        session_config: An entry of the session's configuration. As {"key": "value"}.
        threads: Threads within an operator. Default: ONNX Runtime's.
        opt_level: Graph optimisation: disable, basic, extended, layout, all. Default: all.
        require_placement: Fail if nodes stay on the CPU.
        dynamic_outputs: Bind outputs without a shape: ONNX Runtime allocates them in each run.
        external: Bind inputs in another library's memory: numpy, torch, cupy.
        cuda_graph: Capture runs as a graph and replay it (CUDA, TensorRT, WebGPU).
        stream: Run kernels on a stream made by ort or cuda-python (CUDA, TensorRT).
        engine_cache: Where TensorRT EPs keep their engines between sessions.
        run_config: An entry of ONNX Runtime's run options, in every run. As {"key": "value"}.
        python: The interpreter (or its environment's folder) whose ONNX Runtime is measured. Default: ortbench's
            own.
        modes: cpu-tensors, device-tensors, device-resident, host-accessible, cpu-tensors-pinned,
            device-tensors-pinned, pipelined, device-resident-async. Default: all but cpu-tensors-pinned,
            device-tensors-pinned, pipelined, device-resident-async.
        depth: Adds mode pipelined with N inferences in flight. Default: 3.
        pinned: Adds cpu-tensors-pinned and device-tensors-pinned: the host's side in the EP's pinned memory.
        async_runs: Adds device-resident-async: many runs and one wait, for throughput.
        feedback: An output that is an input of the next step; * stands for the same text in both. As "out=in" or a
            list.
        steps: Steps of a loop. Default: 16.
        first_dim: A dimension's size in the first step, as of a prompt. As {"name": 8} or {"name": "other+1"}.
        fill: An input's values: a number, or a sum of dimensions, step and index. As {"key": "value"}.
        share_buffers: Adds mode shared: past and present state are one buffer.
        keep: An output that stays on the device, and is read after the last step only.
        resident: An input that is copied to the device once.
        input: Inputs: an .npz (keys are names) or a folder of input_0.pb, ... Or arrays by name.
        expect: Expected outputs: an .npz or a folder of output_0.pb, ... Or arrays by name.
        shape: An input's shape. As {"name": "1x3"} or {"name": [1, 3]}.
        dim: A symbolic dimension's size, else 1. As {"name": 8} or {"name": "other+1"}.
        length: Tensors in an input that is a sequence. As {"name": 8}.
        range: Range of a random input. As {"name": [0, 1]}.
        seed: Seed of random inputs and of the order of blocks. Default: 0.
        rtol: Relative tolerance when outputs are compared. Default: by dtype.
        atol: Absolute tolerance when outputs are compared. Default: by dtype.
        warmup: Runs of each mode before measuring. Default: 0.5 s.
        duration: Live: longest measurement of each mode or level, both sides. Default: 60.
        timeout: Longest wait for one answer of the worker. Default: 600.
        lock_clocks: Lock the NVIDIA GPU's clocks meanwhile; it takes the right to. As "base" or 1200.
        record_env: Record environment variables that an EP reads, such as 'SOMEEP_*'.
        note: Kept in the result, and shown in its heading.
        items: Items of a run, for items/s: a number, or the dimension that has it. As 8 or "batch". Default: the
            dimension batch, batch_size or N.
        concurrency: Callers that each start the next inference when the last is done. Default: 1,2,4,8, at most
            twice the cores, without `rate`.
        rate: Requests a second, due whether others are done or not; auto: the most that keeps `slo`.
        arrivals: When requests are due: poisson, uniform, or a file of timestamps in seconds. Default: poisson.
        sessions: What callers have: shared (one session for all), own (one each), process (a process each).
            Default: shared.
        slo: Of a load: what latency may be at most at every rate, such as p99=20ms; of a sweep: what some shape
            must keep.
        callers: Callers that serve the requests of `rate`. Default: 1.
        out: The folder in which a folder of its own is made for what is measured; by default nothing is written.
        progress: called with a `Progress` now and then, from this thread; what it raises ends the call.

    Returns:
        the verdict; a regression, or that it cannot tell, raises nothing.

    Raises:
        BadInput, BenchmarkFailed, NotComparable, NotSaved, Interrupted: as their own docstrings say.
    """
    return calls.gate(result, locals())


def compare(
    results: Sequence[Result | StoredResult | Place] | Place,
    *,
    metric: Texts | None = None,
    same: float | str | None = None,
    force: bool = False,
    modes: Texts | None = None,
) -> Comparison:
    """Hold results against each other: which differences are real.

    Args:
        results: two or more in all; a folder may hold several.
        metric: A metric, such as h2d, latency.p99 or throughput@concurrency=4. Default: those that matter.
        same: Up to which difference two are called the same. As "1%" or 0.01. Default: 2%.
        force: Compare what is not comparable, and say what differs.
        modes: cpu-tensors, device-tensors, device-resident, host-accessible, cpu-tensors-pinned,
            device-tensors-pinned, pipelined, device-resident-async. Default: all.

    Returns:
        which differences are real.

    Raises:
        BadInput, NotComparable: as their own docstrings say.
    """
    return calls.compare(results, locals())


def bandwidth(
    *,
    ep: str | None = None,
    ep_library: Place | None = None,
    device: int | None = None,
    python: Place | None = None,
    timeout: float | None = None,
    min_size: str | None = None,
    max_size: str | None = None,
    duration: float | None = None,
    iterations: int | None = None,
    seed: int | None = None,
    out: Place | None = None,
    progress: Tell | None = None,
) -> Bandwidth:
    """Measure how fast an EP's device is copied to and from, over sizes.

    Args:
        ep: Execution provider: auto (the first with a GPU or NPU, else cpu), cpu, cuda, tensorrt, nv-tensorrt-rtx,
            webgpu, openvino, qnn, migraphx, dml, a full name, an installed plugin package, the path of a plugin EP's
            library, or what ONNX Runtime is to choose by: prefer-gpu, prefer-npu, prefer-cpu, max-performance,
            max-efficiency, min-overall-power. Default: auto.
        ep_library: A plugin EP's library, where it is no package.
        device: Which of the EP's devices ('ortbench devices' lists them). Default: its first GPU or NPU.
        python: The interpreter (or its environment's folder) whose ONNX Runtime is measured. Default: ortbench's
            own.
        timeout: Longest wait for one answer of the worker. Default: 600.
        min_size: The smallest copy: 4kB, 64KiB, 4096. Default: 4kB.
        max_size: The largest copy, as far as memory allows. Default: 256MB.
        duration: Longest measurement, all sizes together. Default: 20.
        iterations: Measure exactly N copies of each size instead.
        seed: Seed of the data and of the order of blocks. Default: 0.
        out: The folder in which a folder of its own is made for what is measured; by default nothing is written.
        progress: called with a `Progress` now and then, from this thread; what it raises ends the call.

    Returns:
        rates over sizes.

    Raises:
        BadInput, BenchmarkFailed, NotSaved, Interrupted: as their own docstrings say.
    """
    return calls.bandwidth(locals())


def devices(
    *,
    ep_library: Place | None = None,
    python: Place | None = None,
    check: Place | None = None,
) -> Listed:
    """List the installed execution providers and their devices.

    Of each its memory, its streams and the modes it can do, or why it does not load.

    Args:
        ep_library: A plugin EP's library, where it is no package.
        python: The interpreter (or its environment's folder) whose ONNX Runtime is measured. Default: ortbench's
            own.
        check: Check that a plugin EP's library keeps its contract: allocate, copy, bind, sync, threads.

    Returns:
        what ``ortbench devices --json`` writes: `eps`, what they run with, what that can do.

    Raises:
        BadInput, BenchmarkFailed, Interrupted: as their own docstrings say.
    """
    return calls.devices(locals())


def inspect(
    model: Model,
    *,
    ep: str | None = None,
    ep_library: Place | None = None,
    device: int | None = None,
    ep_option: Mapping[str, str | float] | None = None,
    session_config: Mapping[str, str | float] | None = None,
    opt_level: str | None = None,
    engine_cache: Place | None = None,
    python: Place | None = None,
    shape: Mapping[str, str | Sequence[int]] | None = None,
    dim: Mapping[str, int | str] | None = None,
    length: Mapping[str, int] | None = None,
) -> Inspected:
    """Say what a model takes, gives and consists of.

    With `ep` also where its nodes would run.

    Args:
        model: the path of an .onnx or .ort file, the file's bytes, or an `onnx.ModelProto`.
        ep: Also place the model on this EP.
        ep_library: A plugin EP's library, where it is no package.
        device: Which of the EP's devices ('ortbench devices' lists them). Default: its first GPU or NPU.
        ep_option: An option of the EP. As {"key": "value"}.
        session_config: An entry of the session's configuration. As {"key": "value"}.
        opt_level: Graph optimisation: disable, basic, extended, layout, all. Default: all.
        engine_cache: Where TensorRT EPs keep their engines between sessions.
        python: The interpreter (or its environment's folder) whose ONNX Runtime is measured. Default: ortbench's
            own.
        shape: An input's shape. As {"name": "1x3"} or {"name": [1, 3]}.
        dim: A symbolic dimension's size, else 1. As {"name": 8} or {"name": "other+1"}.
        length: Tensors in an input that is a sequence. As {"name": 8}.

    Returns:
        what ``ortbench inspect --json`` writes; sizes are bytes.

    Raises:
        BadInput, BenchmarkFailed, Interrupted: as their own docstrings say.
    """
    return calls.inspect(model, locals())
