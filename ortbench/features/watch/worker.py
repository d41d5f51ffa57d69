"""Measures a session of a recorded program again: called as it was there, and with each change that would save something."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ortbench.core.eps import NVIDIA_EPS
from ortbench.core.errors import OrtbenchError, Unsupported, one_line, ort_text
from ortbench.features.watch.analysis import FEWEST
from ortbench.plan.target import Target, inputs_from, target_from, with_own
from ortbench.worker import State, providers
from ortbench.worker.input_arrays import make_arrays
from ortbench.worker.libraries import set_up_onnxruntime
from ortbench.worker.memory import Location
from ortbench.worker.mode_base import shared_memory
from ortbench.worker.modes import bind_as_device_memory
from ortbench.worker.session import Model, open_model
from ortbench.worker.tensors import Array, TensorSpec, host_value, host_view, index_sizes

Change = Mapping[str, Any]
Call = Callable[[], object]
_ROUNDS = 12
_CALM_S = 0.06  # for which threads of a pool spin behind a call


def watch_replay(
    state: State,
    model: str,
    target: dict[str, Any],
    inputs: dict[str, Any],
    outputs: list[str],
    shapes: dict[str, list[int]],
    own: Change,
    changes: list[Change],
    gap_ns: int,
    work_ns: int,
    budget_s: float,
    is_limited: bool,
) -> dict[str, Any]:
    """What a call takes, in wall and CPU time, in each round as it was (`own`: with a binding) and with each change; why a change cannot
    be made. Inputs that were kept of other shapes are repeated or cut to `shapes`."""
    until_ns = time.perf_counter_ns() + round(budget_s * 1e9)
    set_up_onnxruntime()
    wanted = target_from(target)
    provider = providers.find(wanted)
    wanted = with_own(wanted, provider.name)
    as_it_was = _open(model, wanted, provider, {})
    request = inputs_from(inputs)
    sizes = {} if request.path else index_sizes(model, as_it_was.inputs)
    arrays = make_arrays(as_it_was.inputs, request, sizes)[0]
    arrays |= {
        name: np.resize(arrays[name], shape)
        for name, shape in shapes.items()
        if name in arrays and arrays[name].shape != tuple(shape)
    }
    names = outputs or as_it_was.output_names
    outputs_of = dict(zip(names, as_it_was.session.run(names, arrays), strict=True))
    calls: list[Call | None] = [_make_call(as_it_was, arrays, outputs_of, own, {})]
    failed: list[str] = []
    for change in changes:
        opens = "threads" in change or "config" in change
        try:
            other = _open(model, wanted, provider, change) if opens else as_it_was
            call = _make_call(other, arrays, outputs_of, own, change)
            call()  # what is done once, or cannot be done
            calls.append(call)
            failed.append("")
        except Exception as error:
            calls.append(None)
            failed.append(one_line(error) if isinstance(error, OrtbenchError) else ort_text(error))
    calm_s = _CALM_S if any("config" in it or "threads" in it for it in changes) else 0.0
    return {
        "rounds": _measure([it for it in calls if it is not None], gap_ns, work_ns, until_ns, is_limited, calm_s),
        "failed": failed,
    }


def _open(path: str, target: Target, provider: Any, change: Change) -> Model:
    changed = replace(
        target,
        intra_op_threads=change.get("threads", target.intra_op_threads),
        session_config={**target.session_config, **change.get("config", {})},
    )
    return open_model(path, changed, provider)


def _measure(
    calls: Sequence[Call], gap_ns: int, work_ns: int, until_ns: int, is_limited: bool, calm_s: float
) -> list[list[tuple[float, float]]]:
    """Blocks of calls in turns, the order other in each round, at the program's pace; fewer where the time is up, and none where it is limited
    and up before enough could be measured."""
    took: list[float] = []
    for call in calls:
        start = time.perf_counter_ns()
        call()
        took.append(time.perf_counter_ns() - start)
    paced_ns = gap_ns if gap_ns >= 1_000_000 else 0  # shorter sleeps take longer than they say
    rounds: list[list[tuple[float, float]]] = []
    while len(rounds) < _ROUNDS and (len(rounds) < FEWEST or time.perf_counter_ns() < until_ns):
        left_ns = (until_ns - time.perf_counter_ns()) / (_ROUNDS - len(rounds)) / len(calls) - calm_s * 1e9
        block: list[tuple[float, float]] = [(0.0, 0.0)] * len(calls)
        for turn in range(len(calls)):
            if is_limited and len(rounds) < FEWEST and time.perf_counter_ns() > until_ns:
                return []
            number = (turn + len(rounds)) % len(calls)
            if calm_s:
                time.sleep(calm_s)
            count = max(1, min(1000, int(left_ns / (took[number] + paced_ns))))
            block[number] = _time_block(calls[number], count, paced_ns, work_ns)
        rounds.append(block)
        took = [it for it, _ in block]
    return rounds


def _time_block(call: Call, count: int, gap_ns: int, work_ns: int) -> tuple[float, float]:
    spent, used = 0, time.process_time_ns()
    for _ in range(count):
        start = time.perf_counter_ns()
        call()
        end = time.perf_counter_ns()
        spent += end - start
        if gap_ns:
            worked = time.thread_time_ns() + work_ns
            while time.thread_time_ns() < worked:
                pass
            time.sleep(max(0.0, (gap_ns - (time.perf_counter_ns() - end)) / 1e9))
    return spent / count, (time.process_time_ns() - used) / count


def _make_call(
    model: Model, arrays: Mapping[str, Array], outputs: Mapping[str, Array], own: Change, change: Change
) -> Call:
    """A call as a program would make it after the change. Raises `Unsupported`: the change cannot be made here."""
    outputs = {name: it for name, it in outputs.items() if name not in change.get("dropped", ())}
    if own or change.keys() - {"threads", "config", "dropped"}:
        return _BoundCall(model, arrays, outputs, own, change).call
    return partial(model.session.run, [*outputs], arrays)


class _BoundCall:
    """With IO binding: some values stay on the device or in memory that the host reaches too, the others go by the host in each call."""

    def __init__(
        self, model: Model, arrays: Mapping[str, Array], results: Mapping[str, Array], own: Change, change: Change
    ) -> None:
        self._session, self._provider = model.session, model.provider
        self._binding = self._session.io_binding()
        inputs, outputs = (
            {spec.name: (spec, location) for spec, location in zip(specs, locations, strict=True)}
            for specs, locations in ((model.inputs, model.locations.inputs), (model.outputs, model.locations.outputs))
        )
        shapes = {name: getattr(it, "shape", ()) for name, it in results.items()}
        states = dict(change.get("states", ()))
        grown = {output for output, name in states.items() if shapes[output] != arrays[name].shape}
        bound = [name for name in own.get("resident", ()) if not inputs[name][1].is_host_only]
        values = {
            name: _on_device(*inputs[name], arrays[name])
            for name in {*bound, *change.get("resident", ()), *states.values()}
        }
        for name, value in values.items():
            self._binding.bind_ortvalue_input(name, value)
        self._sent = {name: array for name, array in arrays.items() if name not in values}
        self._states = [
            [output, name, _on_device(*outputs[output], arrays[name]), values[name]]
            for output, name in states.items()
            if output not in grown
        ]
        kept = {*own.get("kept", ()), *change.get("kept", ()), *grown}
        copied = {*own.get("copied", ())} - kept - {*states}
        self._read = [name for name in results if name not in kept | copied | {*states}]
        self._written: list[tuple[Array, Array]] = []  # memory that the host reaches too, and what it writes there
        shared: dict[str, Any] = {}  # outputs that it reads there
        if change.get("zero_copy"):
            for name in [it for it in self._sent if not inputs[it][1].is_on_host]:
                spec, location = inputs[name]
                value = shared_memory(spec, location).allocate(spec, arrays[name].shape)
                self._binding.bind_ortvalue_input(name, value)
                self._written.append((host_view(spec, value), self._sent.pop(name)))
            for name in [it for it in (*self._read, *copied) if not outputs[it][1].is_on_host]:
                spec, location = outputs[name]
                shared[name] = shared_memory(spec, location).allocate(spec, shapes[name])
            self._read = [it for it in self._read if it not in shared]
            copied -= shared.keys()
        here = {name: _memory_of(*outputs[name]).allocate(outputs[name][0], shapes[name]) for name in kept | copied}
        for name, value in {**here, **shared}.items():
            if name in shared and self._provider.name in NVIDIA_EPS:
                bind_as_device_memory(self._binding, self._provider, name, outputs[name][0], value)
            else:
                self._binding.bind_ortvalue_output(name, value)
        self._copied = [here[name] for name in copied]
        self._shared = [host_view(outputs[name][0], value) for name, value in shared.items()]
        self._owners = shared
        self._indices = [number + len(here) + len(shared) for number in range(len(self._read))]

    def call(self) -> list[Any]:
        binding = self._binding
        for view, array in self._written:
            np.copyto(view, array)
        for name, array in self._sent.items():
            binding.bind_cpu_input(name, array)
        for name in self._read:
            binding.bind_output(name)
        for state in self._states:
            output, name, free, now = state
            binding.bind_ortvalue_input(name, now)
            binding.bind_ortvalue_output(output, free)
            state[2:] = now, free
        self._session.run_with_iobinding(binding)
        if not self._read and not self._copied:
            binding.synchronize_outputs()
            return self._shared
        found = binding.get_outputs() if self._read else []
        return [*(found[index].numpy() for index in self._indices), *(it.numpy() for it in self._copied), *self._shared]


def _memory_of(spec: TensorSpec, location: Location) -> Any:
    if location.is_host_only:
        raise Unsupported(f"{spec.name} is wanted in host memory by this session, so nothing is copied for it")
    if location.own is None:
        raise Unsupported(f"ONNX Runtime offers no memory of the device that {spec.name} is wanted on")
    return location.own


def _on_device(spec: TensorSpec, location: Location, array: Array) -> Any:
    memory = _memory_of(spec, location)
    if memory.kind == "host":
        return host_value(spec, array)
    value = memory.allocate(spec, array.shape)
    memory.upload([spec], [array], [value])()
    return value
