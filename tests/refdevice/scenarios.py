"""What the tests of the reference device do with ONNX Runtime, each scenario in a process of its own, which prints its findings
as a line of JSON: a library can be registered only once, reads its knobs when it is loaded, and is sometimes told to die."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnxruntime.capi import _pybind_state as native

from tests import virtual
from tests.refdevice import KINDS, Trace, counters

EP_NAME = "RefDeviceExecutionProvider"
FLOATS = npt.NDArray[np.float32]
Findings = dict[str, Any]

ATTEMPTS = 3  # of what a busy machine may spoil: that something returns before something else ends


class Bench:
    """The device, its memories and one small model: y = relu(x), a vector of any length."""

    def __init__(self, library: Path) -> None:
        ort.register_execution_provider_library("refdevice", str(library))
        self.device = next(device for device in ort.get_ep_devices() if device.ep_name == EP_NAME)
        self.memory = {
            "default": self.device.memory_info(ort.OrtDeviceMemoryType.DEFAULT),
            "host_accessible": self.device.memory_info(ort.OrtDeviceMemoryType.HOST_ACCESSIBLE),
        }
        self.relu = model_of("(float[N] x) => (float[N] y) { y = Relu(x) }")

    def session(self, model: onnx.ModelProto | None = None, **options: Any) -> Any:
        settings = ort.SessionOptions()
        settings.log_severity_level = 4
        settings.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
        settings.add_provider_for_devices([self.device], {name: str(value) for name, value in options.items()})
        return ort.InferenceSession((model or self.relu).SerializeToString(), settings, enable_fallback=0)

    def empty(self, size: int | tuple[int, ...], memory: str) -> Any:
        shape = (size,) if isinstance(size, int) else size
        return ort.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, memory_info=self.memory[memory])

    def filled(self, array: FLOATS, memory: str) -> Any:
        value = self.empty(array.shape, memory)
        copy(host(array), value)
        return value

    def bound(self, session: Any, x: Any, y: Any) -> Any:
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_ortvalue_output("y", y)
        return binding


def host(array: FLOATS) -> Any:
    return ort.OrtValue.ortvalue_from_numpy(array)


def copy(source: Any, target: Any, stream: Any = None) -> None:
    ort.copy_tensors([source], [target], stream)


def numbers(size: int, seed: int = 1) -> FLOATS:
    return np.random.default_rng(seed).standard_normal(size).astype(np.float32)


def relu(x: FLOATS) -> FLOATS:
    return np.maximum(x, np.float32(0))


def error_of(call: Callable[[], object]) -> str | None:
    """The message of what `call` raised, None if it went through."""
    try:
        call()
    except Exception as error:  # ONNX Runtime raises several unrelated types
        return str(error)
    return None


def read_directly(value: Any, size: int) -> FLOATS:
    """What a host sees that takes the value's pointer for memory of its own."""
    pointer = ctypes.cast(value.data_ptr(), ctypes.POINTER(ctypes.c_float))
    return np.ctypeslib.as_array(pointer, (size,)).copy()


# ---- models ----

HEAD = '<ir_version: 9, opset_import: ["" : 17]> g '
# An input whose name begins with w is a weight.
OPERATORS = {
    **{op: f"(float[3,5] x) => (float[3,5] y) {{ y = {op}(x) }}" for op in ("Relu", "Sigmoid", "Tanh")},
    **{op: f"(float[2,3,4] a, float[3,1] b) => (float[2,3,4] y) {{ y = {op}(a, b) }}" for op in ("Add", "Sub", "Mul")},
    "Add, same shape": "(float[3,4] a, float[3,4] b) => (float[3,4] y) { y = Add(a, b) }",
    "Sub, scalar": "(float a, float[4] b) => (float[4] y) { y = Sub(a, b) }",
    "Clip": "(float[4,5] x) => (float[4,5] y) <float low = {-0.5}, float high = {0.5}> { y = Clip(x, low, high) }",
    "Clip, no maximum": "(float[4,5] x) => (float[4,5] y) <float low = {-0.5}> { y = Clip(x, low) }",
    "MatMul": "(float[5,7] x, float[7,3] w) => (float[5,3] y) { y = MatMul(x, w) }",
    "MatMul, batches": "(float[2,1,3,4] a, float[5,4,2] b) => (float[2,5,3,2] y) { y = MatMul(a, b) }",
    "Gemm": "(float[3,4] x, float[4,5] w, float[5] wc) => (float[3,5] y) { y = Gemm(x, w, wc) }",
    "Gemm, transposed": "(float[4,3] x, float[5,4] w, float[3,1] wc) => (float[3,5] y) "
    "{ y = Gemm<transA = 1, transB = 1, alpha = 0.5, beta = 2.0>(x, w, wc) }",
    "Softmax": "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }",
    "Softmax, axis 1": "(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis = 1>(x) }",
    "Conv": "(float[2,4,9,8] x, float[3,4,3,3] w) => (float[2,3,7,6] y) { y = Conv(x, w) }",
    "Conv, all attributes": "(float[2,4,9,8] x, float[6,2,3,2] w, float[6] wb) => (float[2,6,4,4] y) "
    "{ y = Conv<pads = [1, 0, 1, 1], strides = [2, 2], dilations = [2, 1], group = 2>(x, w, wb) }",
    "GlobalAveragePool": "(float[2,4,9,8] x) => (float[2,4,1,1] y) { y = GlobalAveragePool(x) }",
    "Flatten": "(float[2,3,4] x) => (float[6,4] y) { m = Flatten<axis = 2>(x)  y = Relu(m) }",
    "Reshape": "(float[2,3,4] x) => (float[2,12] y) <int64[2] shape = {0, -1}> { m = Reshape(x, shape)  y = Relu(m) }",
    "Concat": "(float[2,3,4] a, float[2,1,4] b, float[2,2,4] c) => (float[2,6,4] y) { y = Concat<axis = 1>(a, b, c) }",
    "Concat, last axis": "(float[3,4] a, float[3,2] b) => (float[3,6] y) { y = Concat<axis = -1>(a, b) }",
    "Concat, nothing": "(float[2,0,4] a, float[2,1,4] b) => (float[2,1,4] y) { y = Concat<axis = 1>(a, b) }",
    "an output from the middle": "(float[N,3,12,12] x, float[6,3,3,3] w, float[6] wb) => (float[N,6,1,1] y, float[N,6,12,12] m) "
    "{ c = Conv<pads = [1, 1, 1, 1]>(x, w, wb)  m = Relu(c)  y = GlobalAveragePool(m) }",
    "Erf in the middle": "(float[3,5] x, float[5] w) => (float[3,5] y) { a = Add(x, w)  e = Erf(a)  y = Mul(e, a) }",
    "Erf alone": "(float[3] x) => (float[3] y) { y = Erf(x) }",
}


FALLBACK = "(float[N] x) => (float[N] y) { a = Relu(x)  e = Erf(a)  y = Relu(e) }"
COPIES = ("h2d", "d2h", "device-copy", "host-copy", "same-copy")


def model_of(text: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(HEAD + text)
    weights = [it for it in model.graph.input if it.name.startswith("w")]
    for weight in weights:
        shape = [dim.dim_value for dim in weight.type.tensor_type.shape.dim]
        array = numbers(int(np.prod(shape)), seed=len(shape)).reshape(shape)
        model.graph.initializer.append(numpy_helper.from_array(array, weight.name))
        model.graph.input.remove(weight)
    return model


def feeds_of(model: onnx.ModelProto) -> dict[str, FLOATS]:
    feeds = {}
    for seed, value in enumerate(model.graph.input):
        shape = [2 if dim.dim_param else dim.dim_value for dim in value.type.tensor_type.shape.dim]
        feeds[value.name] = numbers(int(np.prod(shape)), seed).reshape(shape)
    return feeds


# ---- scenarios ----


def device(bench: Bench) -> Findings:
    found = bench.device
    return {
        "vendor": found.ep_vendor,
        "version": found.ep_metadata.get("version"),
        "type": found.device.type.name,
        "vendor_id": found.device.vendor_id,
        "virtual": found.device.metadata.get("is_virtual"),
        "memory": sorted(name for name, info in bench.memory.items() if info is not None),
    }


def memory(bench: Bench) -> Findings:
    size = 100_000
    data = numbers(size)
    default, accessible = bench.filled(data, "default"), bench.filled(data, "host_accessible")
    seen = read_directly(default, size)
    ctypes.memset(default.data_ptr(), 0, 4 * size)
    view = accessible.numpy()
    view[0] = 42
    return {
        "equal_elements_seen": int(np.count_nonzero(seen == data)),
        "survives_host_writes": bool(np.array_equal(default.numpy(), data)),
        "page_aligned": accessible.data_ptr() % 4096 == 0,
        "view_is_the_memory": read_directly(accessible, 1)[0] == 42 and view.ctypes.data == accessible.data_ptr(),
        "new_block_is_nan": bool(np.isnan(bench.empty(16, "host_accessible").numpy()).all()),
    }


def copies(bench: Bench) -> Findings:
    """All pairs of memories, round trips from and to host memory."""
    right = {}
    for size in (1, 1000, 500_000):
        data = numbers(size)
        for first in ("default", "host_accessible"):
            for second in ("default", "host_accessible"):
                target, back = bench.empty(size, second), host(np.zeros(size, np.float32))
                copy(bench.filled(data, first), target)
                copy(target, back)
                right[f"{size} {first} to {second}"] = bool(np.array_equal(back.numpy(), data))
    small = bench.empty(1, "default")
    return {"right": right, "too_large": error_of(lambda: copy(host(numbers(2)), small))}


def operators(bench: Bench) -> Findings:
    from onnx.reference import ReferenceEvaluator

    found = {}
    for name, text in OPERATORS.items():
        model = model_of(text)
        feeds = feeds_of(model)
        session = bench.session(model, compute_us=0)
        expected = ReferenceEvaluator(model).run(None, feeds)
        wrong = [float(np.abs(got - want).max()) for got, want in zip(session.run(None, feeds), expected, strict=True)]
        found[name] = {"error": max(wrong), "on_cpu": nodes_on_cpu(session)}
    return found


def nodes_on_cpu(session: Any) -> list[str]:
    parts = session.get_provider_graph_assignment_info()
    return sorted(node.op_type for part in parts if part.ep_name != EP_NAME for node in part.get_nodes())


def honesty(bench: Bench) -> Findings:
    """When calls of each I/O mode return, and whether what the host then sees in place is right."""
    x = numbers(50_000)
    session = bench.session()
    unsynchronized = ort.RunOptions()
    unsynchronized.add_run_config_entry("disable_synchronize_execution_providers", "1")
    found: Findings = {"calls": [], "cpu": bool(np.array_equal(session.run(None, {"x": x})[0], relu(x)))}
    for memory_kind in ("default", "host_accessible"):
        y = bench.empty(x.size, memory_kind)
        binding = bench.bound(session, bench.filled(x, memory_kind), y)
        back = host(np.zeros_like(x))
        for options in (None, unsynchronized) * ATTEMPTS:
            call: Findings = {"memory": memory_kind, "wait_disabled": options is not None}
            if memory_kind == "host_accessible":
                y.numpy()[:] = -1
            session.run_with_iobinding(binding, options)
            call["run"] = time.perf_counter_ns()
            if memory_kind == "host_accessible":
                call["seen_right"] = bool(np.array_equal(y.numpy(), relu(x)))
                call["seen"] = time.perf_counter_ns()
            binding.synchronize_outputs()
            call["synchronize"] = time.perf_counter_ns()
            copy(y, back)
            call["copy"] = time.perf_counter_ns()
            call["right"] = bool(np.array_equal(back.numpy(), relu(x)))
            found["calls"].append(call)
    return found


def streams(bench: Bench) -> Findings:
    """Two uploads on one stream and an inference beside them."""
    x = numbers(1000)
    session = bench.session()
    binding = bench.bound(session, bench.filled(x, "default"), bench.empty(x.size, "default"))
    stream = bench.device.create_sync_stream()
    returned, right = [], []
    for seed in range(ATTEMPTS):
        sources = [host(numbers(1000, seed)), host(numbers(1000, seed + 10))]
        targets = [bench.empty(1000, "default"), bench.empty(1000, "default")]
        for source, target in zip(sources, targets, strict=True):
            copy(source, target, stream)
        returned.append(time.perf_counter_ns())
        session.run_with_iobinding(binding)
        pairs = zip(sources, targets, strict=True)
        right += [bool(np.array_equal(target.numpy(), source.numpy())) for source, target in pairs]
    return {"copies_returned": returned, "right": right, "handle": stream.get_handle()}


def three_things(bench: Bench) -> Findings:
    """An inference, an upload and a download, each on a queue of its own, asked for at the same time."""
    size = 4000  # unlike the inference's tensors, by which they are told apart
    session = bench.session(honesty="async")
    binding = bench.bound(session, bench.filled(numbers(1000), "default"), bench.empty(1000, "default"))
    up, down = bench.device.create_sync_stream(), bench.device.create_sync_stream()
    source, target = host(numbers(size)), bench.empty(size, "default")
    full, back = bench.filled(numbers(size), "default"), host(np.zeros(size, np.float32))
    for _ in range(ATTEMPTS):
        session.run_with_iobinding(binding)
        copy(source, target, up)
        copy(full, back, down)
        binding.synchronize_outputs()
    return {"right": [bool(np.array_equal(value.numpy(), numbers(size))) for value in (target, back)]}


def three_runs(bench: Bench) -> Findings:
    """One run of each mode; the second one, or a later one, may be told to end badly."""
    x = numbers(16)
    session = bench.session()
    right = [bool(np.array_equal(session.run(None, {"x": x})[0], relu(x)))]
    for memory_kind in ("default", "host_accessible"):
        y = bench.empty(16, memory_kind)
        session.run_with_iobinding(bench.bound(session, bench.filled(x, memory_kind), y))
        right.append(bool(np.array_equal(y.numpy(), relu(x))))
    return {"right": right}


def crossings(bench: Bench) -> Findings:
    """What ONNX Runtime has copied between the memory of an input or output and the one that the session wants, when it is bound and in
    one run; and around a node on the CPU, with both where the session wants them."""
    other = [device for device in ort.get_ep_devices() if device.ep_name == EP_NAME][1]
    kinds = {"default": ort.OrtDeviceMemoryType.DEFAULT, "host_accessible": ort.OrtDeviceMemoryType.HOST_ACCESSIBLE}
    bench.memory |= {f"other {name}": other.memory_info(kind) for name, kind in kinds.items()}
    memories = ["host", *(name for name, info in bench.memory.items() if info is not None)]
    x, trace = numbers(16), Path(os.environ["REFDEVICE_TRACE"])

    def copied(run: Callable[[], object]) -> str:
        before = counters(trace)
        run()
        after = counters(trace)
        return " ".join(kind for kind in COPIES for _ in range(after[kind].count - before[kind].count))

    def bound(session: Any, source: str, target: str) -> str:
        ins, outs = (host(x.copy()) if it == "host" else bench.filled(x, it) for it in (source, target))
        copies = copied(lambda: session.run_with_iobinding(bench.bound(session, ins, outs)))
        assert np.array_equal(outs.numpy(), session.run(None, {"x": x})[0])
        return copies

    found: Findings = {}
    for home in [name for name in kinds if name in memories]:
        options = {"compute_us": 0, "accessible_io": int(home == "host_accessible")}
        session, fallen = (bench.session(it, **options) for it in (bench.relu, model_of(FALLBACK)))
        found[f"arrays, {home}"] = copied(partial(session.run, None, {"x": x}))
        found[f"inputs to {home}"] = {it: bound(session, it, home) for it in memories}
        found[f"outputs from {home}"] = {it: bound(session, home, it) for it in memories}
        found[f"around a node, {home}"] = bound(fallen, home, home)
    return found


def outputs(bench: Bench) -> Findings:
    """What a run makes the device do for its output, by what is bound for that; and whether the output is right, and where it was bound."""
    x, trace = numbers(16), Path(os.environ["REFDEVICE_TRACE"])
    session = bench.session(compute_us=0)
    info = bench.memory["default"]
    device = native.OrtDevice(native.OrtDevice.gpu(), 0, info.device_vendor_id, info.device_id)
    found: Findings = {}
    for memory in ("default", "host_accessible", "host", None):
        y = None if memory is None else host(np.zeros_like(x)) if memory == "host" else bench.empty(16, memory)
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", bench.filled(x, "default"))
        if y is None:
            binding._iobinding.bind_output("y", device)
        else:
            binding.bind_ortvalue_output("y", y)
        before = len(Trace.read(trace).events)
        session.run_with_iobinding(binding)
        events = Trace.read(trace).of(*COPIES, "alloc", "inference")
        done = " ".join(KINDS[int(it["kind"])] for it in events if it["sequence"] > before)
        (got,) = binding.get_outputs()
        is_right = np.array_equal(got.numpy(), relu(x)) and (y is None or got.data_ptr() == y.data_ptr())
        found[memory or "no shape"] = done if is_right else "wrong"
    larger = bench.bound(session, bench.filled(x, "default"), bench.empty(17, "default"))
    refused = error_of(lambda: session.run_with_iobinding(larger))
    return {**found, "another shape": "taken" if refused is None else "refused"}


def wrong_option(bench: Bench) -> Findings:
    return {
        "name": error_of(lambda: bench.session(compute_ms=1)),
        "value": error_of(lambda: bench.session(honesty="perhaps")),
    }


def main() -> None:
    virtual.attach(works=True)
    library, scenario, *rest = sys.argv[1:]
    found = globals()[scenario](Bench(Path(library)), *rest)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
