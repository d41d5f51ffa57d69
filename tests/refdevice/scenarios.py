"""What the tests of the reference device do with ONNX Runtime, each scenario in a process of its own.

`main` registers the library, runs one scenario and prints its findings as a line of JSON. A process each, because a library
can be registered only once, reads its knobs when it is loaded, and is sometimes told to die. The scenarios only report; the
tests judge.
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from tests import virtual

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
        self.relu = one_node("Relu", {"x": ["N"]}, ["N"])

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


def one_node(
    op: str,
    inputs: dict[str, list[int | str]],
    output: list[int | str],
    weights: dict[str, npt.NDArray[Any]] | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    weights = weights or {}
    node = helper.make_node(op, [*inputs, *weights], ["y"], **attributes)
    return model_of([node], inputs, {"y": output}, weights)


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    outputs: dict[str, list[int | str]],
    weights: dict[str, npt.NDArray[Any]] | None = None,
) -> onnx.ModelProto:
    def infos(values: dict[str, list[int | str]]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in values.items()]

    constants = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def operator_models() -> dict[str, onnx.ModelProto]:
    """A model for every operator and for its variants."""

    def weight(*shape: int) -> FLOATS:
        return numbers(int(np.prod(shape)), seed=len(shape)).reshape(shape)

    limits = {"low": np.array(-0.5, np.float32), "high": np.array(0.5, np.float32)}
    image: dict[str, list[int | str]] = {"x": [2, 4, 9, 8]}
    two: dict[str, list[int | str]] = {"a": [2, 3, 4], "b": [3, 1]}
    models = {op: one_node(op, {"x": [3, 5]}, [3, 5]) for op in ("Relu", "Sigmoid", "Tanh")}
    models |= {f"{op}, broadcast": one_node(op, two, [2, 3, 4]) for op in ("Add", "Sub", "Mul")}
    models |= {
        "Add, same shape": one_node("Add", {"a": [3, 4], "b": [3, 4]}, [3, 4]),
        "Sub, scalar": one_node("Sub", {"a": [], "b": [4]}, [4]),
        "Clip": one_node("Clip", {"x": [4, 5]}, [4, 5], limits),
        "Clip, no maximum": one_node("Clip", {"x": [4, 5]}, [4, 5], {"low": limits["low"]}),
        "MatMul": one_node("MatMul", {"x": [5, 7]}, [5, 3], {"w": weight(7, 3)}),
        "MatMul, batches": one_node("MatMul", {"a": [2, 1, 3, 4], "b": [5, 4, 2]}, [2, 5, 3, 2]),
        "Gemm": one_node("Gemm", {"x": [3, 4]}, [3, 5], {"w": weight(4, 5), "c": weight(5)}),
        "Gemm, transposed": one_node(
            "Gemm",
            {"x": [4, 3]},
            [3, 5],
            {"w": weight(5, 4), "c": weight(3, 1)},
            transA=1,
            transB=1,
            alpha=0.5,
            beta=2.0,
        ),
        "Softmax": one_node("Softmax", {"x": [2, 3, 4]}, [2, 3, 4]),
        "Softmax, axis 1": one_node("Softmax", {"x": [2, 3, 4]}, [2, 3, 4], axis=1),
        "Conv": one_node("Conv", image, [2, 3, 7, 6], {"w": weight(3, 4, 3, 3)}),
        "Conv, all attributes": one_node(
            "Conv",
            image,
            [2, 6, 4, 4],
            {"w": weight(6, 2, 3, 2), "b": weight(6)},
            pads=[1, 0, 1, 1],
            strides=[2, 2],
            dilations=[2, 1],
            group=2,
        ),
        "GlobalAveragePool": one_node("GlobalAveragePool", image, [2, 4, 1, 1]),
        "Flatten": followed_by_relu("Flatten", {"x": [2, 3, 4]}, [6, 4], {}, axis=2),
        "Reshape": followed_by_relu("Reshape", {"x": [2, 3, 4]}, [2, 12], {"shape": np.array([0, -1], np.int64)}),
        "Concat": one_node("Concat", {"a": [2, 3, 4], "b": [2, 1, 4], "c": [2, 2, 4]}, [2, 6, 4], axis=1),
        "Concat, last axis": one_node("Concat", {"a": [3, 4], "b": [3, 2]}, [3, 6], axis=-1),
        "Concat, nothing": one_node("Concat", {"a": [2, 0, 4], "b": [2, 1, 4]}, [2, 1, 4], axis=1),
        "network": small_network(),
        "Erf in the middle": partly_supported(),
        "Erf alone": one_node("Erf", {"x": [3]}, [3]),
    }
    return models


def followed_by_relu(
    op: str,
    inputs: dict[str, list[int | str]],
    output: list[int | str],
    weights: dict[str, npt.NDArray[Any]],
    **attributes: Any,
) -> onnx.ModelProto:
    nodes = [helper.make_node(op, [*inputs, *weights], ["m"], **attributes), helper.make_node("Relu", ["m"], ["y"])]
    return model_of(nodes, inputs, {"y": output}, weights)


def small_network() -> onnx.ModelProto:
    """Convolution, pooling and two dense layers, with an output from the middle."""
    nodes = [
        helper.make_node("Conv", ["x", "k", "kb"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["middle"]),
        helper.make_node("GlobalAveragePool", ["middle"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["a"]),
        helper.make_node("Softmax", ["a"], ["y"]),
    ]
    shapes = {"k": (6, 3, 3, 3), "kb": (6,), "w": (6, 10), "b": (10,)}
    weights = {name: numbers(int(np.prod(shape))).reshape(shape) for name, shape in shapes.items()}
    return model_of(nodes, {"x": ["N", 3, 12, 12]}, {"y": ["N", 10], "middle": ["N", 6, 12, 12]}, weights)


def partly_supported() -> onnx.ModelProto:
    """One operator in the middle that the device does not know."""
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"]),
        helper.make_node("Erf", ["a"], ["e"]),
        helper.make_node("Mul", ["e", "a"], ["m"]),
        helper.make_node("Tanh", ["m"], ["y"]),
    ]
    return model_of(nodes, {"x": [3, 5]}, {"y": [3, 5]}, {"b": numbers(5)})


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
    for name, model in operator_models().items():
        feeds = feeds_of(model)
        session = bench.session(model, compute_us=0)
        expected = ReferenceEvaluator(model).run(None, feeds)
        wrong = [float(np.abs(got - want).max()) for got, want in zip(session.run(None, feeds), expected, strict=True)]
        found[name] = {"error": max(wrong), "on_cpu": nodes_on_cpu(session)}
    return found


def growth(bench: Bench, kind: str, when: str) -> Findings:
    """A loop in which what one run gives is what the next is given, with an entry more each time; nothing at first."""
    folder = Path(__file__).resolve().parents[2] / "models"
    wanted = np.load(folder / "growing_on_device.loop.npz")
    session = bench.session(onnx.load(folder / "growing_on_device.onnx"), honesty=when)
    array, right = np.zeros((1, 2, 0, 16), np.float32), []
    past, kept = bench.empty(array.shape, kind), []
    for step in range(6):
        feed, names = wanted[f"step{step}/in/x"], ("present", "y")
        expected = [wanted[f"step{step}/{name}"] for name in names]
        outputs = [bench.empty(value.shape, kind) for value in expected]
        binding = session.io_binding()
        binding.bind_ortvalue_input("past", past)
        binding.bind_ortvalue_input("x", bench.filled(feed, kind))
        for name, value in zip(names, outputs, strict=True):
            binding.bind_ortvalue_output(name, value)
        session.run_with_iobinding(binding)
        kept.append((outputs, expected))
        past = outputs[0]
        array, y = session.run(None, {"past": array, "x": feed})
        right.append(bool(np.allclose(array, expected[0], 1e-5) and np.allclose(y, expected[1], 1e-5)))
    binding.synchronize_outputs()
    for outputs, expected in kept:
        pairs = zip(outputs, expected, strict=True)
        right += [bool(np.allclose(value.numpy(), want, 1e-5)) for value, want in pairs]
    return {"right": right, "on_cpu": nodes_on_cpu(session)}


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


def open_stream(bench: Bench) -> Findings:
    """Ends with work still queued on a stream and on the default queue."""
    x = bench.filled(numbers(1000), "default")
    session = bench.session(honesty="async")
    session.run_with_iobinding(bench.bound(session, x, bench.empty(1000, "default")))
    source, target, stream = host(numbers(1000)), bench.empty(1000, "default"), bench.device.create_sync_stream()
    copy(source, target, stream)
    KEPT.extend((source, target, stream))
    return {}


KEPT: list[Any] = []


def failures(bench: Bench) -> Findings:
    """What failed copies and allocations look like, and that the device goes on afterwards."""
    x = numbers(16)
    source, target = host(x), bench.empty(16, "default")

    def upload() -> None:
        copy(source, target)

    def error_in(step: Callable[[], object], **options: Any) -> list[bool]:
        session = bench.session(**options)
        SESSION[0] = session
        return ["told to fail" in (error_of(step) or "") for _ in range(4)]

    def run() -> None:
        SESSION[0].run(None, {"x": x})

    found: Findings = {
        "upload 2": error_in(upload, fail_upload="2:default"),
        "upload 3+ of runs": error_in(run, fail_upload="3+:host"),
        "download 1": error_in(lambda: target.numpy(), fail_upload="0", fail_download="1"),
        "download 2 of runs": error_in(run, fail_download="2:host"),
    }
    SESSION[0] = bench.session(fail_download="0", fail_alloc="2:default")
    found["alloc in runs"] = ["has no memory" in (error_of(run) or "") for _ in range(3)]
    bench.session(fail_alloc="1:host_accessible")
    found["pointers"] = [bench.empty(4, kind).data_ptr() != 0 for kind in ("default", "host_accessible") * 2]
    bench.session(fail_alloc="0", fail_alloc_bytes="8192:host_accessible")
    found["large"] = [
        bench.empty(size, kind).data_ptr() != 0
        for size, kind in ((2047, "host_accessible"), (2048, "host_accessible"), (2048, "default"))
    ]
    upload()
    found["after"] = bool(np.array_equal(target.numpy(), x))
    return found


SESSION: list[Any] = [None]


def wrong_copies(bench: Bench) -> Findings:
    """Two round trips, up from HOST_ACCESSIBLE memory and down to the host's: how many values each brought back wrong."""
    x = numbers(1000)
    source, target, back = bench.empty(1000, "host_accessible"), bench.empty(1000, "default"), np.empty_like(x)
    source.numpy()[...] = x
    found = []
    for _ in range(2):
        copy(source, target)
        copy(target, host(back))
        found.append(int(np.count_nonzero(back != x)))
    return {"wrong": found}


def wrong_outputs(bench: Bench, kind: str) -> Findings:
    """Which modes see a wrong output if only the runs of one memory are wrong, from the second on."""
    x = numbers(16)
    session = bench.session(wrong_run=f"2+:{kind}")
    found = {"host": [int(np.count_nonzero(session.run(None, {"x": x})[0] != relu(x))) for _ in range(3)]}
    for memory_kind in ("default", "host_accessible"):
        y = bench.empty(16, memory_kind)
        binding = bench.bound(session, bench.filled(x, memory_kind), y)
        found[memory_kind] = []
        for _ in range(3):
            session.run_with_iobinding(binding)
            found[memory_kind].append(int(np.count_nonzero(y.numpy() != relu(x))))
    return found


def hidden_copies(bench: Bench, when: str) -> Findings:
    x = numbers(5000)
    session = bench.session(ha_copies=1, honesty=when)
    y = bench.empty(x.size, "host_accessible")
    binding = bench.bound(session, bench.filled(x, "host_accessible"), y)
    for _ in range(2):
        session.run_with_iobinding(binding)
    binding.synchronize_outputs()
    return {"right": bool(np.array_equal(y.numpy(), relu(x)))}


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


def wrong_option(bench: Bench) -> Findings:
    return {
        "name": error_of(lambda: bench.session(compute_ms=1)),
        "value": error_of(lambda: bench.session(honesty="perhaps")),
    }


def own_options(bench: Bench) -> Findings:
    """A session with times of its own and one without, and a copy after each run."""
    x, y = bench.filled(numbers(1000), "default"), bench.empty(1000, "default")
    choices: list[dict[str, Any]] = [{"compute_us": 5500, "upload_latency_us": 3000}, {}]
    for options in choices:
        session = bench.session(**options)
        session.run_with_iobinding(bench.bound(session, x, y))
        copy(host(numbers(1000)), x)
    return {}


def main() -> None:
    virtual.attach(works=True)
    library, scenario, *rest = sys.argv[1:]
    found = globals()[scenario](Bench(Path(library)), *rest)
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
