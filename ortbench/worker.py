"""The worker process: owns one session, sets modes up and times blocks when asked.

`ortbench.bootstrap` runs it. Requests come as JSON lines on standard input, one answer line each goes out on what was
standard output; whatever libraries print there goes to standard error instead. It ends with its input.

Requests (``do``): ``open``, ``save_outputs``, ``hold_outputs``, ``prepare``, ``block``, ``finish``, ``nodes``,
``measure_copies``, ``capture``, ``close_up``, ``profile``, ``release``, ``devices``, ``inspect``, and for bandwidth sweeps, which
have no session, ``bandwidth_open``, ``bandwidth_add``, ``bandwidth_prove``, ``bandwidth_block``, ``bandwidth_finish``. An
answer is ``{"ok": …}`` or ``{"error": message, "exit_code": n}``.

``stages`` in an answer, and whatever else is there for a timeline, are lists of name, start and duration, in ns of
`time.perf_counter_ns`.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any

from ortbench.environment import is_profiled
from ortbench.errors import BenchmarkFailed, OrtbenchError, Unsupported, ort_text
from ortbench.plan import PIPELINED, Loop, is_rate
from ortbench.schedule import TOTAL

WARMUP_NS = 500_000_000
COPY_WARMUP_NS = 20_000_000  # of one size and direction; there are dozens, and copies have no kernels to choose
_MIN_WARMUP, _MAX_WARMUP = 2, 1000
_ONCE_REPEATS = 5
_PROFILED_RUNS = 3

Answer = dict[str, Any]


class Worker:
    """Answers requests about one model on one EP."""

    def __init__(self) -> None:
        self._modes: dict[str, Any] = {}
        self._ranges: dict[str, Any] = {}
        self._capture: Any = None

    def answer(self, request: dict[str, Any]) -> Answer:
        """Carry one request out; every error becomes an answer."""
        handlers: dict[str, Callable[..., Answer]] = {
            "open": self.open,
            "save_outputs": self.save_outputs,
            "hold_outputs": self.hold_outputs,
            "prepare": self.prepare,
            "block": self.block,
            "finish": self.finish,
            "nodes": self.nodes,
            "measure_copies": self.measure_copies,
            "capture": self.capture,
            "close_up": self.close_up,
            "profile": self.profile,
            "release": self.release,
            "devices": self.devices,
            "inspect": self.inspect,
            "bandwidth_open": self.bandwidth_open,
            "bandwidth_add": self.bandwidth_add,
            "bandwidth_prove": self.bandwidth_prove,
            "bandwidth_block": self.bandwidth_block,
            "bandwidth_finish": self.bandwidth_finish,
        }
        arguments = dict(request)
        try:
            return {"ok": handlers[arguments.pop("do")](**arguments)}
        except Unsupported as error:
            return {"unsupported": str(error)}
        except OrtbenchError as error:
            return {"error": str(error), "exit_code": error.exit_code}
        except Exception as error:
            return {"error": ort_text(error), "exit_code": 1}

    def open(self, model: str, target: dict[str, Any], inputs: dict[str, Any]) -> Answer:
        """Load the EP, create the session, make inputs and reference outputs."""
        stages = _Stages()
        from ortbench.plan import inputs_from, target_from
        from ortbench.runtime import enginecache, external, memory, nodes, providers, session

        _quiet_ort()
        self._request = inputs_from(inputs)
        wanted = target_from(target)
        if wanted.external is not None:
            external.check(wanted.external)
        provider = providers.find(wanted)
        stages.done("loading the EP")
        cache = enginecache.Watch(model, wanted)
        self._model = session.open_model(model, wanted, provider)
        self._opened = model, wanted
        stages.done("creating the session")
        where = session.placement(self._model)
        unsupported = None
        try:
            self._data = session.make_data(model, self._model, self._request)
        except Unsupported as error:
            unsupported = str(error)
            self._data = session.Data({}, [], [], {}, 0, False)
        stages.done("inputs and first run")
        engine_cache = cache.found()
        if unsupported is None and where["memcpy_nodes"] is None and where["nodes"] is not None:
            where["memcpy_nodes"] = nodes.count_copies(model, wanted, provider, self._data.arrays)
            stages.done("counting Memcpy nodes in a profiled session")
        return {
            "ep": provider.name,
            "library": providers.library_name(wanted, provider),
            "version": provider.version,
            "notes": [{"code": code, "message": message} for code, message in provider.notes],
            "device": session.describe_device(self._model),
            "memory": memory.describe(provider),
            "placement": where,
            "unsupported": unsupported,
            "inputs": [_tensor(spec, self._data.arrays.get(spec.name), self._data) for spec in self._model.inputs],
            "outputs": [
                _tensor(spec, array, self._data)
                for spec, array in zip_longest(self._model.outputs, self._data.reference)
            ],
            "guessed_dims": self._data.guessed_dims,
            "expected": self._data.expected,
            "session_ns": self._model.session_ns,
            "engine_cache": engine_cache,
            "first_run_ns": self._data.first_run_ns,
            "stages": stages.spans,
            "runtime": _runtime(),
        }

    def save_outputs(self, folder: str) -> Answer:
        """Write the reference outputs for another worker to compare; false where they cannot be written as protobuf."""
        from ortbench.runtime import inputs

        return {"saved": bool(self._data.reference) and inputs.save(Path(folder), self._data.reference, "output")}

    def hold_outputs(self, folder: str) -> Answer:
        """What differs between the reference outputs here and those that another worker saved, in words, or null."""
        from ortbench.runtime import inputs, outputs

        try:
            others = inputs.load(Path(folder), self._model.outputs, "output")
        except OrtbenchError as error:
            return {"differs": str(error)}
        for spec, array in zip(self._model.outputs, self._data.reference, strict=False):
            wrong = outputs.difference(spec.name, array, others[spec.name], self._request.rtol, self._request.atol)
            if wrong is not None:
                return {"differs": wrong}
        return {"differs": None}

    def prepare(self, mode: str, warmup: int | None, depth: int = Loop.depth) -> Answer:
        """Set a mode up, prove its fence, check its outputs, warm it up."""
        from ortbench.runtime import modes, pipeline
        from ortbench.runtime.measure import Ranges

        stages = _Stages()
        if mode == PIPELINED:
            made: modes.Mode = pipeline.make(self._model, self._data, depth)
        else:
            made = modes.make_mode(mode, self._model, self._data)
        stages.done("binding, proving the fence")
        modes.check_outputs(made, self._request.rtol, self._request.atol)
        stages.done("comparing outputs")
        zero_copy = self._zero_copy(made) if isinstance(made, modes.HostAccessibleMode) else None
        if zero_copy is not None:
            stages.done("proving zero-copy")
        external = self._external(made) if isinstance(made, modes.BoundMode) and made.external is not None else None
        if external is not None:
            stages.done("proving that external memory is not copied")
        graph = self._graph(made) if isinstance(made, modes.BoundMode) and made.graph_id is not None else None
        if graph is not None:
            stages.done("proving that a graph is replayed")
        estimates = {}
        for phase, call in made.phases().items():
            estimates[phase] = _warm_up(call, warmup, WARMUP_NS if phase == TOTAL else WARMUP_NS // 5)
            made.rest()
        stages.done("warming up")
        self._modes[mode] = made
        self._ranges[mode] = Ranges(made)
        return {
            "bytes_in": made.bytes_in,
            "bytes_out": made.bytes_out,
            "fence": {
                **made.fence.to_dict(),
                "upload": made.upload_fence and made.upload_fence.to_dict(),
                "download": made.download_fence and made.download_fence.to_dict(),
            },
            "zero_copy": zero_copy,
            "external": external,
            "graph": graph,
            "pipeline": made.describe() if isinstance(made, pipeline.PipelinedMode) else None,
            "runs_per_sample": made.per_call if is_rate(mode, TOTAL) else None,
            "estimates_ns": estimates,
            "stages": stages.spans,
        }

    def _zero_copy(self, made: Any) -> Answer:
        from ortbench.plan import RESIDENT
        from ortbench.runtime import modes
        from ortbench.runtime.memory import device_memory
        from ortbench.runtime.zerocopy import prove_zero_copy

        if self._model.provider.computes_on_host or device_memory(self._model.provider) is None:
            return prove_zero_copy(made, None, self._model.provider.computes_on_host).to_dict()
        resident = self._modes.get(RESIDENT)
        plain = replace(self._model.target, dynamic_outputs=False, external=None, cuda_graph=False)
        if resident is None or plain != self._model.target:  # what is compared must differ in the memory alone
            resident = modes.make_mode(RESIDENT, replace(self._model, target=plain), self._data)
        assert isinstance(resident, modes.ResidentMode)
        return prove_zero_copy(made, resident, on_host=False).to_dict()

    def _external(self, made: Any) -> Answer:
        from ortbench.runtime.inplace import follows

        if not made.external.same_addresses():
            return {**made.external.describe(), "proved": False, "how": "the bound addresses are not the library's"}
        tolerances = self._request.rtol, self._request.atol
        found = follows(made, self._model, self._data, made.external.write, *tolerances)
        if found.wrong is not None:
            raise BenchmarkFailed(f"{found.wrong} (after inputs were written through {self._model.target.external})")
        how = f"the addresses are the library's; {found.how}"
        return {**made.external.describe(), "proved": found.proved, "how": how}

    def _graph(self, made: Any) -> Answer:
        """Whether runs are replays, and replays see what is written to the inputs in place."""
        from ortbench.runtime.inplace import follows

        if not made.is_replayed():
            raise Unsupported(f"{self._model.provider.name} captured no graph: a run writes to whatever is bound")
        tolerances = self._request.rtol, self._request.atol
        found = follows(made, self._model, self._data, made.write_inputs, *tolerances)
        if found.wrong is not None:
            raise BenchmarkFailed(f"{found.wrong} (a replay after its inputs were written in place)")
        return {"id": made.graph_id, "proved": found.proved, "how": found.how}

    def block(self, mode: str, phase: str, n: int, drop: int, timeline: bool = False) -> Answer:
        """Time one block; for a timeline also say when each sample began, and how long its call took.

        Where a call of ``total`` makes several inferences, a sample is the time of one of them.
        """
        from ortbench.runtime.measure import time_block

        made = self._modes[mode]
        starts: list[int] | None = [] if timeline else None
        start = time.perf_counter_ns()
        calls = time_block(made, self._ranges[mode], phase, n, drop, starts=starts)
        made.rest()
        several = made.per_call if phase == TOTAL else 1
        samples = calls if several == 1 else [round(ns / several) for ns in calls]
        answer: Answer = {"samples": samples, "start_ns": start, "spent_ns": time.perf_counter_ns() - start}
        return answer if starts is None else {**answer, "starts_ns": starts, "calls_ns": calls}

    def finish(self, mode: str) -> Answer:
        """After the last block: the outputs as the timed runs left them, and the copies that are made only once."""
        from ortbench.runtime import modes

        made = self._modes[mode]
        wrong = modes.differences(made, self._request.rtol, self._request.atol)
        once = None
        if isinstance(made, modes.ResidentMode):
            once = dict(zip(("upload_ns", "download_ns"), map(_median_time, made.once()), strict=True))
        return {"differs": wrong, "once": once}

    def nodes(
        self, model: str, target: dict[str, Any], inputs: dict[str, Any], runs: int, timeline: bool = False
    ) -> Answer:
        """Profile some runs in a session of their own; see `ortbench.runtime.nodes`. A timeline shows the last of them."""
        from ortbench.plan import inputs_from, target_from
        from ortbench.runtime import nodes

        _quiet_ort()
        found, profile = nodes.profile_nodes(model, target_from(target), inputs_from(inputs), runs)
        return {"found": found, "profile": _recorded(profile.last(_PROFILED_RUNS)) if timeline else None}

    def measure_copies(self, modes: list[str], runs: int) -> Answer:
        """What CUPTI records of some runs of modes that are set up, by mode."""
        from ortbench.runtime.cupti import measure_copies

        return measure_copies([self._modes[mode] for mode in modes], runs)

    def capture(self, on: bool) -> Answer:
        """Begin or end what a profiler is to record."""
        from ortbench.runtime.measure import Capture

        if self._capture is None:
            self._capture = Capture()
        if on:
            self._capture.begin()
        else:
            self._capture.end()
        return {"listening": self._capture.listening}

    def close_up(self, mode: str) -> Answer:
        """Some inferences of a mode, each as its steps."""
        from ortbench.runtime.closeup import close_up

        return {"inferences": close_up(self._modes[mode])}

    def profile(self) -> Answer:
        """Some runs in a session with ONNX Runtime's profiler, and what it recorded of their nodes."""
        from ortbench.runtime.profiling import profile_runs

        path, target = self._opened
        return _recorded(profile_runs(path, target, self._model.provider, self._data.arrays, _PROFILED_RUNS))

    def release(self) -> Answer:
        """End the session, so that its EP saves what it keeps for the next one; nothing can be asked of it after that."""
        import gc

        self._modes.clear()
        self._ranges.clear()
        del self._model, self._data
        gc.collect()
        return {}

    def devices(self, library: str | None = None) -> Answer:
        """Every EP and its devices, those of a library that is not a package included."""
        from ortbench.runtime.devices import list_devices

        _quiet_ort()
        return {"eps": list_devices(library), "runtime": _runtime()}

    def inspect(self, model: str, target: dict[str, Any] | None, inputs: dict[str, Any]) -> Answer:
        """What a model takes, gives and consists of."""
        from ortbench.plan import inputs_from, target_from
        from ortbench.runtime.inspection import inspect_model

        _quiet_ort()
        return inspect_model(model, None if target is None else target_from(target), inputs_from(inputs))

    def bandwidth_open(self, target: dict[str, Any], seed: int) -> Answer:
        """Load the EP for copies alone."""
        from ortbench.plan import target_from
        from ortbench.runtime import memory, providers, session
        from ortbench.runtime.copies import Copies

        _quiet_ort()
        wanted = target_from(target)
        self._copies = Copies(wanted, seed)
        provider = self._copies.provider
        return {
            "ep": provider.name,
            "library": providers.library_name(wanted, provider),
            "version": provider.version,
            "notes": [{"code": code, "message": message} for code, message in provider.notes],
            "device": session.device_of(provider),
            "memory": memory.describe(provider),
            "kinds": self._copies.kinds,
            "runtime": _runtime(),
        }

    def bandwidth_add(self, memory: str, size: int) -> Answer:
        """Allocate copies of a size and make the first ones: what is wrong with their data, or null."""
        return {"differs": self._copies.add(memory, size)}

    def bandwidth_prove(self, memory: str) -> Answer:
        """Prove what ends an upload from a kind of memory; warm the copies of all its sizes up."""
        fence = self._copies.prove(memory)
        estimates = [
            {"direction": direction, "bytes": size, "ns": _warm_up(call, None, COPY_WARMUP_NS)}
            for size, pair in self._copies.pairs(memory).items()
            for direction, call in pair.phases().items()
        ]
        return {"upload": fence.to_dict(), "download": self._copies.download_fence.to_dict(), "estimates": estimates}

    def bandwidth_block(self, direction: str, memory: str, size: int, n: int, drop: int) -> Answer:
        """Time one block of copies."""
        from ortbench.runtime.measure import Ranges, time_block

        pair = self._copies.pairs(memory)[size]
        ranges = Ranges(pair)
        start = time.perf_counter_ns()
        samples = time_block(pair, ranges, direction, n, drop)
        return {"samples": samples, "start_ns": start, "spent_ns": time.perf_counter_ns() - start}

    def bandwidth_finish(self, memory: str, size: int) -> Answer:
        """After the last block: what is wrong with what the timed copies left, or null."""
        return {"differs": self._copies.pairs(memory)[size].leftovers()}


class _Stages:
    """The parts of a request, one after the other."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, int, int]] = []
        self._begun = time.perf_counter_ns()

    def done(self, name: str) -> None:
        """A part has ended, and the next begins."""
        now = time.perf_counter_ns()
        self.spans.append((name, self._begun, now - self._begun))
        self._begun = now


def _warm_up(call: tuple[Callable[[Any, Any], object], Any, Any], count: int | None, budget_ns: int) -> float | None:
    """Run a phase of a mode `count` times, or for `budget_ns`; returns the median of the later half, ns; None without any."""
    run, a, b = call
    times: list[int] = []
    least, most = (count, count) if count is not None else (_MIN_WARMUP, _MAX_WARMUP)
    spent = 0
    while len(times) < least or (spent < budget_ns and len(times) < most):
        start = time.perf_counter_ns()
        run(a, b)
        times.append(time.perf_counter_ns() - start)
        spent += times[-1]
    if not times:
        return None
    later = sorted(times[len(times) // 2 :])
    return float(later[len(later) // 2])


def _recorded(profile: Any) -> Answer:
    """A profile as a timeline needs it."""
    return {"runs": profile.runs, "nodes": [asdict(event) for event in profile.events]}


def _median_time(call: Callable[[], object]) -> int:
    times = []
    for _ in range(_ONCE_REPEATS):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return sorted(times)[_ONCE_REPEATS // 2]


def _tensor(spec: Any, array: Any, data: Any) -> Answer:
    """An input or output for the result; shape and bytes are null where it is not a tensor that can be held."""
    from ortbench.runtime.tensors import nbytes

    bounds = data.ranges.get(spec.name)
    return {
        "name": spec.name,
        "type": spec.type,
        "model_shape": list(spec.shape),
        "shape": None if array is None else list(array.shape),
        "bytes": None if array is None else nbytes(array),
        "range": None if bounds is None else list(bounds),
    }


def _runtime() -> dict[str, str]:
    import numpy
    import onnxruntime

    return {
        "onnxruntime": onnxruntime.__version__,
        "onnxruntime_build": onnxruntime.get_build_info(),
        "python": platform.python_version(),
        "numpy": numpy.__version__,
    }


def _quiet_ort() -> None:
    """Errors only: ORT's warnings about devices and placement are in the report in words of our own."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer requests until there are no more."""
    worker = Worker()
    for line in requests:
        answers.write(json.dumps(worker.answer(json.loads(line))) + "\n")
        answers.flush()


def _end_with_parent() -> None:
    """Have Linux kill this process when `ortbench` dies: a paused worker would not notice that its input ended."""
    if sys.platform == "linux":
        import ctypes
        import signal

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG


def main() -> None:
    """The process: keeps the answers' channel to itself."""
    _end_with_parent()
    channel = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    with os.fdopen(channel, "w", encoding="utf-8") as answers:
        with suppress(Exception):  # it is said when it is asked for; loading it need not wait for the first request
            from ortbench.runtime import modes  # noqa: F401
        serve(sys.stdin, answers)
        answers.flush()
        # Some EPs abort while they unload, so only what needs an orderly exit gets one: a profiler takes its data then.
        if not is_profiled():
            os._exit(0)


if __name__ == "__main__":
    main()
