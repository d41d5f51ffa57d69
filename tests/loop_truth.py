"""ortbench's loops beside bare ones of ONNX Runtime on the reference device, and what the device's trace has of both.

``python -m tests.loop_truth FILE ARGUMENT…`` is ``ortbench ARGUMENT…`` but for its worker, as `tests.bare` is: each block
of loops is followed by as many bare ones, and FILE gets a line of JSON for each, with when its parts began and ended.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from ortbench.measure.schedule import dropped
from ortbench.result import Case, Result
from ortbench.worker import blocks, opening
from ortbench.worker.__main__ import main as work
from tests.bare import Bare, Call, _in_host
from tests.own_worker import be_ortbench
from tests.refdevice import Events, Trace
from tests.truth import COPIES, Check, is_kind, span_ns

STATE_BYTES, X_BYTES = 1 << 20, 1 << 16
FED = ("--feedback", "state_out=state")
_WORKER = "worker"


def loop_model(path: Path) -> Path:
    """State and input of sizes of their own, so that the trace tells which is which; no output that is no state but y."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{STATE_BYTES // 4}] state, float[{X_BYTES // 4}] x) => (float[{STATE_BYTES // 4}] state_out, float[{X_BYTES // 4}] y)
        {{ state_out = Relu(state)  y = Relu(x) }}"""
    onnx.save(onnx.parser.parse_model(text), path)
    return path


class BareLoops(Bare):
    """Bare loops of that model, by mode: what comes before the first step, and a step with an even and an odd number."""

    def loops(self, path: str) -> dict[str, tuple[Call, tuple[Call, Call]]]:
        options = ort.SessionOptions()
        options.add_provider_for_devices([self._device], {})
        session = ort.InferenceSession(path, options, enable_fallback=0)
        state, x = np.ones(STATE_BYTES // 4, np.float32), np.ones(X_BYTES // 4, np.float32)
        held = {"state": state}

        def begin() -> None:
            held["state"] = state

        def step() -> None:
            held["state"], held["y"] = session._sess.run(["state_out", "y"], {"state": held["state"], "x": x}, None)

        return {
            "cpu": (begin, (step, step)),
            "device-resident": self._turns(session, accessible=False),
            "host-accessible": self._turns(session, accessible=True),
            "shared": self._turns(session, accessible=False, one_buffer=True),
        }

    def _turns(self, session: Any, accessible: bool, one_buffer: bool = False) -> tuple[Call, tuple[Call, Call]]:
        states = [self._on_device(STATE_BYTES, accessible) for _ in range(2)]
        states = states[:1] * 2 if one_buffer else states
        x, y = (self._on_device(X_BYTES, accessible) for _ in range(2))
        hosts = {size: np.ones(size // 4, np.float32) for size in (STATE_BYTES, X_BYTES)}
        if accessible:
            first, up = (self._write(value, hosts[size]) for value, size in ((states[0], STATE_BYTES), (x, X_BYTES)))
            down = self._read(y, np.empty(X_BYTES // 4, np.float32))
        else:
            first, up = self.copy(_in_host(STATE_BYTES), states[0]), self.copy(_in_host(X_BYTES), x)
            down = self.copy(y, _in_host(X_BYTES))
        return first, (self._step(session, states, x, y, up, down), self._step(session, states[::-1], x, y, up, down))

    def _step(self, session: Any, states: list[Any], x: Any, y: Any, up: Call, down: Call) -> Call:
        binding = session.io_binding()
        binding.bind_ortvalue_input("state", states[0])
        binding.bind_ortvalue_input("x", x)
        binding.bind_ortvalue_output("state_out", states[1])
        binding.bind_ortvalue_output("y", y)
        bound = binding._iobinding
        run = self._waited_for(lambda: session._sess.run_with_iobinding(bound, None), bound.synchronize_outputs)

        def step(_owners: Any = (binding, states)) -> None:
            up()
            run()
            down()

        return step

    @staticmethod
    def _write(value: Any, array: Any) -> Call:
        view = value.numpy()
        return lambda: np.copyto(view, array)

    @staticmethod
    def _read(value: Any, array: Any) -> Call:
        view = value.numpy()
        return lambda: np.copyto(array, view)


def follow(file: Path) -> None:
    """From now on each block of loops that a worker times is followed by bare ones."""
    open_, block = opening.open, blocks.block
    bare: dict[str, tuple[Call, tuple[Call, Call]]] = {}
    steps: list[int] = []

    def opened(state: Any, model: str, *given: Any, **named: Any) -> Any:
        answer = open_(state, model, *given, **named)
        bare.update(BareLoops().loops(model))
        steps[:] = [answer["loop"]["steps"]]
        return answer

    def timed(state: Any, mode: str, phase: str, n: int, drop: int, timeline: bool = False) -> Any:
        answer = block(state, mode, phase, n, drop, timeline)
        with file.open("a") as lines:
            for number in range(n + drop):
                times = _time(*bare[mode], steps[0])
                if number >= drop:
                    lines.write(json.dumps({"mode": mode, "times": times}) + "\n")
        return answer

    opening.open, blocks.block = opened, timed


def _time(begin: Call, turns: tuple[Call, Call], steps: int) -> list[int]:
    """When a loop began, when its first state was there, and when each step was over."""
    clock = time.perf_counter_ns
    times = [clock()]
    begin()
    times.append(clock())
    for number in range(steps):
        turns[number % 2]()
        times.append(clock())
    return times


def host_times(file: Path, trace: Trace) -> dict[tuple[str | int, ...], int]:
    """What bare steps and loops took beyond what the trace has of them, ns, at the median, by mode and phase, and of each
    step by its number too."""
    events = np.sort(trace.of("inference", "run", "alloc", "free", *COPIES), order="queued_ns")
    beyond: dict[tuple[str | int, ...], list[int]] = {}
    for line in map(json.loads, file.read_text().splitlines()):
        mode, times = line["mode"], line["times"]

        def took(start: int, end: int) -> int:
            first, after = np.searchsorted(events["queued_ns"], [start, end])
            return end - start - span_ns(events[first:after])

        beyond.setdefault((mode, "total"), []).append(took(times[0], times[-1]))
        for number, step in enumerate(pairwise(times[1:])):
            for what in ((mode, "step"), (mode, "step", number)):
                beyond.setdefault(what, []).append(took(*step))
    return {what: round(median(found)) for what, found in beyond.items()}


def steps_in(result: Result, case: Case, trace: Trace) -> list[list[Events]]:
    """What the device did in each step of each recorded loop; what brings the first state is of the first step."""
    assert result.loop is not None
    return runs_in(result, case, trace, result.loop["steps"])


def runs_in(result: Result, case: Case, trace: Trace, count: int) -> list[list[Events]]:
    """What the device did in each run of each recorded sample, which has so many of them; a run begins with what is copied
    for it."""
    found = []
    starts = sorted(at for other in result.cases for _, _, at in other.blocks["total"])
    for _, n, start in case.blocks["total"]:
        stop = next((at for at in starts if at > start), np.iinfo(np.int64).max)
        events = trace.of("inference", "run", "alloc", "free", *COPIES)
        events = events[(events["queued_ns"] >= start) & (events["queued_ns"] < stop)]
        events = events[np.argsort(events["queued_ns"], kind="stable")]
        opening = events["queued_ns"][is_kind(events, "upload", "run")]
        begins, asked = [], start
        for inference in events[is_kind(events, "inference")][: count * (n + dropped(n))]:
            begins.append(int(opening[opening >= asked].min()))
            asked = int(inference["queued_ns"])
        ends = [*begins[1:], min([stop, *(int(at) for at in opening[opening >= asked][:1])])]
        parts = [
            events[(events["queued_ns"] >= a) & (events["queued_ns"] < b)] for a, b in zip(begins, ends, strict=True)
        ]
        loops = [parts[at : at + count] for at in range(0, len(parts), count)]
        found += loops[dropped(n) :]
    return found


def checks(result: Result, trace: Trace, file: Path) -> list[Check]:
    """Of every mode the whole loop, all steps, and each step, with what the trace says they were."""
    host, found = host_times(file, trace), []
    for case in result.cases:
        loops = steps_in(result, case, trace)
        assert len(loops) == len(case.samples_ns["total"])
        assert case.steps_ns is not None
        whole, step = case.median("total"), case.median("step")
        assert whole is not None
        assert step is not None
        steps = [[span_ns(_without_first(case, events)) for events in loop] for loop in loops]
        found.append(
            Check(
                (case.mode, "total"),
                whole,
                round(median(span_ns(np.concatenate(loop)) for loop in loops)),
                host[case.mode, "total"],
            )
        )
        found.append(
            Check(
                (case.mode, "step"), step, round(median(ns for loop in steps for ns in loop)), host[case.mode, "step"]
            )
        )
        for number, ns in enumerate(case.steps_ns):
            found.append(
                Check(
                    (case.mode, "step", number),
                    ns,
                    round(median(loop[number] for loop in steps)),
                    host[case.mode, "step", number],
                )
            )
    return found


def plain_checks(
    result: Result, trace: Trace, counts: Mapping[str, int], first_bytes: int | None = None
) -> list[Check]:
    """Of every mode the whole and each part, a part being so many runs, with what the trace says they were; for runs that take so
    long that the host's own time is nothing beside them.

    Args:
        result: of a loop or a chain.
        trace: of the same run.
        counts: of the runs of each part, by the part's name, in their order.
        first_bytes: of a loop's first state, which nothing else that is copied has.
    """
    found = []
    for case in result.cases:
        samples = runs_in(result, case, trace, sum(counts.values()))
        assert len(samples) == len(case.samples_ns["total"])
        parts = case.samples_ns["step" if result.chain is None else "stage"]
        whole = round(median(span_ns(np.concatenate(runs)) for runs in samples))
        found.append(Check((case.mode, "total"), case.median("total") or 0, whole))
        at = 0
        for number, (name, count) in enumerate(counts.items()):
            of_part = [np.concatenate(runs[at : at + count]) for runs in samples]
            if first_bytes is not None:
                of_part = [_of_step(_without_first(case, events, first_bytes)) for events in of_part]
            true = round(median(map(span_ns, of_part)))
            found.append(Check((case.mode, name), round(median(parts[number :: len(counts)])), true))
            at += count
    return found


def _without_first(case: Case, events: Events, size: int = STATE_BYTES) -> Events:
    """A step without the upload of the first state, which comes before it where the state stays on the device."""
    return events if case.mode == "cpu" else events[~(is_kind(events, "upload") & (events["bytes"] == size))]


def _of_step(events: Events) -> Events:
    """A step without what ONNX Runtime allocates for it before its first copy, or for the next one after its last."""
    lasting = events[is_kind(events, "inference", "run", *COPIES)]
    own: Events = events[
        (events["queued_ns"] >= lasting["queued_ns"].min()) & (events["end_ns"] <= lasting["end_ns"].max())
    ]
    return own


def main(file: str, *arguments: str) -> None:
    """Be ortbench, or the worker of such an ortbench."""
    if arguments == (_WORKER,):
        follow(Path(file))
        work()
        return
    be_ortbench(["-m", "tests.loop_truth", file, _WORKER], list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
