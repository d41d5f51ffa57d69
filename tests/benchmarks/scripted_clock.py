"""A clock under which a run of ortbench takes the same times every time, for `tests.benchmarks.same`.

It stands for `time.perf_counter_ns` in every process that finds this file as ``sitecustomize``; `time.monotonic` all but
stands still there. ONNX Runtime computes as ever, but what its calls take is said here, each with some jitter that hangs
on how often that call was made; the CPU is in use all the time. What is measured, and all that follows from it, is then the same to the byte in two runs
of one program, on a busy machine too.
Calls from several threads at once (mode `pipelined`) come in any order, and so do their times.
"""

import importlib.util
import itertools
import math
import resource
import sys
import time
from collections import Counter
from types import ModuleType, SimpleNamespace
from typing import Any

RUNTIME = "onnxruntime.capi._pybind_state"
START_NS, READING_NS, COPY_NS = 10**12, 2_000, 10_000
MOMENT_S = 1e-6  # a reading of `time.monotonic`: next to nothing, so that no limit of a wait is reached early
# What calls take, ns; a copy also takes 1 ns an element.
CALLS_NS = {
    "InferenceSession.initialize_session": 40_000_000,
    "InferenceSession.run": 5_000_000,
    "InferenceSession.run_with_ort_values": 5_000_000,
    "InferenceSession.run_with_iobinding": 3_000_000,
    "SessionIOBinding.synchronize_inputs": 20_000,
    "SessionIOBinding.synchronize_outputs": 20_000,
    "copy_tensors": COPY_NS,
}

_now = START_NS
_made: Counter[str] = Counter()


def _spend(call: str, ns: int) -> None:
    """Let a call take its time, within 3 % of it, and now and then a tenth more."""
    global _now
    _made[call] += 1
    draw = _made[call] * 2_654_435_761 % 2**32  # Knuth's multiplicative hash
    _now += ns + ns * (draw % 61 - 30) // 1000 + (ns // 10 if draw % 37 == 0 else 0)


def _slow(owner: Any, name: str, call: str) -> None:
    original = getattr(owner, name)

    def slowed(*arguments: Any, **named: Any) -> Any:
        elements = sum(math.prod(value.shape()) for value in arguments[0]) if call == "copy_tensors" else 0
        _spend(call, CALLS_NS[call] + elements)
        return original(*arguments, **named)

    setattr(owner, name, slowed)


def reading() -> int:
    """The clock, as `time.perf_counter_ns` is read."""
    _spend("reading", READING_NS)
    return _now


def usage(_: int) -> Any:
    """CPU time, as `resource.getrusage` has it."""
    return SimpleNamespace(ru_utime=_now / 1e9, ru_stime=0.0)


class _WhenLoaded:
    """Slows ONNX Runtime's calls as soon as it is loaded, before anyone can take hold of them."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name != RUNTIME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        loader: Any = spec.loader
        load = loader.exec_module

        def load_and_slow(module: ModuleType) -> None:
            load(module)
            for call in CALLS_NS:
                kind, _, method = call.rpartition(".")
                _slow(getattr(module, kind) if kind else module, method, call)

        loader.exec_module = load_and_slow
        return spec


if __name__ == "sitecustomize":
    time.perf_counter_ns = reading
    resource.getrusage = usage
    time.monotonic = map(MOMENT_S.__mul__, itertools.count(1)).__next__
    sys.meta_path.insert(0, _WhenLoaded())
