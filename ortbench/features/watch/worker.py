"""Measures a session of a recorded program again: called as it was there, and with each change that would save something."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ortbench.core.errors import OrtbenchError, Unsupported, one_line, ort_text
from ortbench.plan.target import Target, inputs_from, target_from, with_own
from ortbench.worker import providers
from ortbench.worker.input_arrays import make_arrays
from ortbench.worker.libraries import set_up_onnxruntime
from ortbench.worker.memory import Location
from ortbench.worker.session import Model, open_model
from ortbench.worker.state import State
from ortbench.worker.tensors import Array, TensorSpec, host_value, index_sizes

Change = Mapping[str, Any]
Call = Callable[[], object]
_ROUNDS = 12  # the fewest whose medians have an interval are six
_CALM_S = 0.06  # for which threads of a pool spin behind a call


def watch_replay(
    state: State,
    model: str,
    target: dict[str, Any],
    inputs: dict[str, Any],
    outputs: list[str],
    changes: list[Change],
    gap_ns: int,
    work_ns: int,
    budget_s: float,
) -> dict[str, Any]:
    """What a call takes, in wall and CPU time, in each round as it was and with each change; why a change cannot be made."""
    set_up_onnxruntime()
    wanted = target_from(target)
    provider = providers.find(wanted)
    wanted = with_own(wanted, provider.name)
    as_it_was = _open(model, wanted, provider, {})
    request = inputs_from(inputs)
    sizes = {} if request.path else index_sizes(model, as_it_was.inputs)
    arrays = make_arrays(as_it_was.inputs, request, sizes)[0]
    calls: list[Call | None] = [partial(as_it_was.session.run, outputs or None, arrays)]
    failed: list[str] = []
    for change in changes:
        opens = "threads" in change or "config" in change
        try:
            other = _open(model, wanted, provider, change) if opens else as_it_was
            calls.append(_changed_call(other, arrays, outputs or other.output_names, change))
            failed.append("")
        except Exception as error:
            calls.append(None)
            failed.append(one_line(error) if isinstance(error, OrtbenchError) else ort_text(error))
    calm_s = _CALM_S if any("config" in it or "threads" in it for it in changes) else 0.0
    return {
        "rounds": _measure([it for it in calls if it is not None], gap_ns, work_ns, budget_s, calm_s),
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
    calls: Sequence[Call], gap_ns: int, work_ns: int, budget_s: float, calm_s: float
) -> list[list[tuple[float, float]]]:
    """Blocks of calls in turns, the order other in each round, at the program's pace."""
    first: list[int] = []
    for call in calls:
        call()  # what is done once
        start = time.perf_counter_ns()
        call()
        first.append(time.perf_counter_ns() - start)
    paced_ns = gap_ns if gap_ns >= 1_000_000 else 0  # shorter sleeps take longer than they say
    each_s = budget_s / _ROUNDS / len(calls) - calm_s
    counts = [max(1, min(1000, int(each_s * 1e9 / (it + paced_ns)))) for it in first]
    rounds = []
    for turn in range(_ROUNDS):
        block: list[tuple[float, float]] = [(0.0, 0.0)] * len(calls)
        for place in range(len(calls)):
            number = (place + turn) % len(calls)
            if calm_s:
                time.sleep(calm_s)
            block[number] = _time_block(calls[number], counts[number], paced_ns, work_ns)
        rounds.append(block)
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


def _changed_call(model: Model, arrays: Mapping[str, Array], names: Sequence[str], change: Change) -> Call:
    """A call as a program would make it after the change. Raises `Unsupported`: the change cannot be made here."""
    if set(change) <= {"threads", "config", "dropped"}:
        return partial(model.session.run, [it for it in names if it not in change.get("dropped", ())], arrays)
    return _BoundCall(model, arrays, names, change).call


class _BoundCall:
    """With IO binding: some values stay on the device, the others go by the host in each call."""

    def __init__(self, model: Model, arrays: Mapping[str, Array], names: Sequence[str], change: Change) -> None:
        self._session = model.session
        self._binding = self._session.io_binding()
        inputs = {spec.name: (spec, place) for spec, place in zip(model.inputs, model.locations.inputs, strict=True)}
        outputs = {spec.name: (spec, place) for spec, place in zip(model.outputs, model.locations.outputs, strict=True)}
        shapes = dict(zip(names, (it.shape for it in self._session.run(list(names), arrays)), strict=True))
        states = [tuple(it) for it in change.get("states", ())]
        resident = [*change.get("resident", ()), *(name for _, name in states)]
        values = {name: _on_device(*inputs[name], arrays[name]) for name in resident}
        self._sent = {name: array for name, array in arrays.items() if name not in values}
        for name, value in values.items():
            self._binding.bind_ortvalue_input(name, value)
        self._states: list[list[Any]] = []
        for output, name in states:
            if shapes[output] != arrays[name].shape:
                raise Unsupported(f"{output} has another shape than {name}: ortbench loop measures such states")
            self._states.append([output, name, _on_device(*outputs[output], arrays[name]), values[name]])
        for name in change.get("kept", ()):
            spec, place = outputs[name]
            self._binding.bind_ortvalue_output(name, _memory_of(spec, place).allocate(spec, shapes[name]))
        left = {*change.get("kept", ()), *(output for output, _ in states)}
        self._read = [name for name in names if name not in left]
        self._places = [number + len(change.get("kept", ())) for number in range(len(self._read))]

    def call(self) -> list[Any]:
        binding = self._binding
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
        if not self._read:
            binding.synchronize_outputs()
            return []
        found = binding.get_outputs()
        return [found[place].numpy() for place in self._places]


def _memory_of(spec: TensorSpec, place: Location) -> Any:
    if place.is_host_only:
        raise Unsupported(f"{spec.name} is wanted in host memory by this session, so nothing is copied for it")
    if place.own is None:
        raise Unsupported(f"ONNX Runtime offers no memory of the device that {spec.name} is wanted on")
    return place.own


def _on_device(spec: TensorSpec, place: Location, array: Array) -> Any:
    memory = _memory_of(spec, place)
    if memory.kind == "host":
        return host_value(spec, array)
    value = memory.allocate(spec, array.shape)
    memory.upload([spec], [array], [value])()
    return value
