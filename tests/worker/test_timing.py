"""Timing a block: exact samples by a scripted clock, and the NVTX ranges around the same calls."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from ortbench.core.processes import DOMAIN
from ortbench.model.modes import LATENCY, STEP
from ortbench.worker import timing
from ortbench.worker.timing import HostTime, Ranges, TimedCall, cpu_ns, time_block

INFERENCE_NS, RANGE_NS, MS = 10_000, 7, 1_000_000
TIMES_NS = {"latency": INFERENCE_NS, "h2d": 100, "inference": INFERENCE_NS, "d2h": 1_000}
BINDING, OPTIONS = object(), object()


class Script:
    """A clock that only the scripted calls advance, and what happened in which order.

    The n-th call of a phase takes n ns more than the first.
    """

    def __init__(self) -> None:
        self.now = 0
        self.log: list[str] = []
        self.collecting: list[bool] = []
        self._calls: dict[str, int] = {}

    def clock(self) -> int:
        self.log.append("clock")
        return self.now

    def work(self, what: str, ns: int) -> None:
        self.log.append(what)
        self.collecting.append(gc.isenabled())
        self.now += ns + self._calls.get(what, 0)
        self._calls[what] = self._calls.get(what, 0) + 1


class ScriptedMode:
    """A mode whose calls take a known time."""

    name, call_name, per_call = "device-tensors", LATENCY, 1
    part_names: tuple[str, ...] = (STEP,)
    bytes_in: int | None = 0
    bytes_out: int | None = 0

    def __init__(self, script: Script) -> None:
        self._script = script
        self.arguments: list[tuple[Any, Any]] = []

    def phases(self) -> dict[str, TimedCall]:
        return {phase: (self._call(phase, ns), BINDING, OPTIONS) for phase, ns in TIMES_NS.items()}

    def _call(self, phase: str, ns: int) -> Callable[[Any, Any], object]:
        def call(binding: Any, options: Any) -> None:
            self.arguments.append((binding, options))
            self._script.work(phase, ns)

        return call


class ScriptedDomain:
    """What nvtx gives for a domain's name while a tool listens; its ranges take time that no sample may hold."""

    def __init__(self, script: Script) -> None:
        self._script = script

    def get_event_attributes(self, **attributes: Any) -> SimpleNamespace:
        return SimpleNamespace(**attributes)

    def push_range(self, attributes: SimpleNamespace) -> None:
        self._script.log.append(f"push {attributes.message}")
        self._script.now += RANGE_NS

    def pop_range(self) -> None:
        self._script.log.append("pop")
        self._script.now += RANGE_NS


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture(autouse=True)
def domain(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, ScriptedDomain(script))


def use(monkeypatch: pytest.MonkeyPatch, domain: object, enabled: bool = True) -> None:
    """Have nvtx give this domain."""
    domains = {DOMAIN: domain}
    scripted = SimpleNamespace(Domain=ScriptedDomain, get_domain=domains.__getitem__, enabled=lambda: enabled)
    monkeypatch.setitem(sys.modules, "nvtx", scripted)
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "a tool")


@pytest.mark.parametrize("phase", ["h2d", "inference", "d2h"])
def test_a_phase_has_blocks_of_its_own(script: Script, phase: str) -> None:
    mode, starts, first = ScriptedMode(script), list[int](), TIMES_NS[phase]
    assert time_block(mode, Ranges(mode), phase, 2, 1, script.clock, starts=starts) == [first + 1, first + 2]
    sample = [f"push device-tensors/{phase}", "clock", phase, "clock", "pop"]
    assert script.log == [phase, "push device-tensors", *sample, *sample, "pop"]
    assert starts == [first + 2 * RANGE_NS, first + 2 * RANGE_NS + first + 1 + 2 * RANGE_NS]
    assert mode.arguments == [(BINDING, OPTIONS)] * 3


def test_what_a_run_returns_is_freed_in_the_call_after_it(script: Script) -> None:
    """As a program does that keeps its outputs until it has the next ones; the last are freed behind the block."""

    class Output:
        def __del__(self) -> None:
            script.work("freed", 500)

    class Returning(ScriptedMode):
        def phases(self) -> dict[str, TimedCall]:
            def call(binding: Any, options: Any) -> Output:
                script.work("latency", INFERENCE_NS)
                return Output()

            return {"latency": (call, None, None)}

    mode = Returning(script)
    samples = time_block(mode, Ranges(mode), LATENCY, 2, 0, script.clock)
    assert samples == [10_000, 10_001 + 500]
    begin, end = ["push device-tensors/latency", "clock", "latency"], ["clock", "pop"]
    assert script.log == ["push device-tensors", *begin, *end, *begin, "freed", *end, "pop", "freed"]


@pytest.fixture(params=[True, False], ids=["gc on", "gc off"])
def collecting(request: pytest.FixtureRequest) -> Iterator[bool]:
    was_on = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was_on else gc.disable)()


@pytest.mark.parametrize("phase", [LATENCY, "h2d"])
def test_no_garbage_is_collected_inside(script: Script, phase: str, collecting: bool) -> None:
    mode = ScriptedMode(script)
    time_block(mode, Ranges(mode), phase, 3, 1, script.clock)
    assert script.collecting == [False] * 4
    assert gc.isenabled() is collecting


class Broken(ScriptedMode):
    """A mode whose third call fails."""

    def _call(self, phase: str, ns: int) -> Callable[[Any, Any], object]:
        def call(binding: Any, options: Any) -> None:
            self.arguments.append((binding, options))
            if len(self.arguments) == 3:
                raise RuntimeError("the EP failed")

        return call


def test_an_error_leaves_no_range_open_and_garbage_is_collected_again(script: Script, collecting: bool) -> None:
    mode = Broken(script)
    with pytest.raises(RuntimeError, match="the EP failed"):
        time_block(mode, Ranges(mode), LATENCY, 5, 1, script.clock)
    assert gc.isenabled() is collecting
    begin = ["push device-tensors/latency", "clock"]
    assert script.log == ["push device-tensors", *begin, "clock", "pop", *begin, "pop", "pop"]


@pytest.mark.parametrize(
    ("count", "budget_ns", "earlier", "runs", "estimate"),
    [
        (4, 0, (), 4, 4 * MS),  # of the later half the median
        (0, 0, (), 0, None),
        (None, 0, (), 4, 4 * MS),  # until 10 ms tell how long one takes
        (None, 30 * MS, (), 8, 7 * MS),
        (None, 0, (9 * MS,), 1, 1 * MS),
        (None, 0, (20 * MS, 20 * MS), 0, 20 * MS),
        (None, 1_000_000 * MS, (), 1000, 751 * MS),  # as many at most
    ],
)
def test_a_warm_up_fills_its_budget_and_estimates_a_run(
    count: int | None, budget_ns: int, earlier: tuple[int, ...], runs: int, estimate: float | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Of calls that take 1 ms, 2 ms and so on."""
    durations = itertools.count(MS, MS)
    monkeypatch.setattr(timing, "time_call", lambda *_: next(durations))
    assert timing.warm_up((lambda _a, _b: None, None, None), count, budget_ns, earlier) == estimate
    assert next(durations) == (runs + 1) * MS


@pytest.mark.parametrize("why", ["no tool listens", "NVTX_DISABLE", "no nvtx"])
def test_samples_are_the_same_without_ranges(script: Script, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "no nvtx":
        monkeypatch.setitem(sys.modules, "nvtx", None)
    else:
        use(monkeypatch, object() if why == "no tool listens" else ScriptedDomain(script), why != "NVTX_DISABLE")
    mode = ScriptedMode(script)
    ranges = Ranges(mode)
    assert not ranges.listening
    with ranges.block(LATENCY), ranges.part(0):
        assert not ranges.is_in_block
    assert time_block(mode, ranges, LATENCY, 2, 1, script.clock) == [10_001, 10_002]
    assert script.log == ["latency", "clock", "latency", "clock", "clock", "latency", "clock"]


def test_when_a_call_returns_is_taken_beside_its_sample(script: Script) -> None:
    """An inference here is a call that returns after 300 ns and a sync that takes the rest."""

    def launch(binding: Any, options: Any) -> None:
        assert (binding, options) == (BINDING, OPTIONS)
        script.work("launch", 300)

    mode, host = ScriptedMode(script), HostTime(((launch, BINDING, OPTIONS), lambda: script.work("wait", 9_700)))
    samples = time_block(mode, Ranges(mode), "inference", 2, 1, script.clock, host=host)
    assert (samples, host.enqueues) == ([10_002, 10_004], [301, 302])
    sample = ["push device-tensors/inference", "clock", "launch", "clock", "wait", "clock", "pop"]
    assert script.log == ["launch", "wait", "push device-tensors", *sample, *sample, "pop"]


def test_the_cpu_time_of_a_block_is_that_of_what_it_records(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads count, and neither what is dropped nor what comes behind."""
    monkeypatch.setattr(timing, "cpu_ns", lambda: (3 * script.now, script.now // 2))
    monkeypatch.setattr(timing, "perf_counter_ns", lambda: script.now)
    monkeypatch.setattr(timing, "system_counts", lambda: {"page_faults": script.now})
    mode, host = ScriptedMode(script), HostTime()
    samples = time_block(mode, Ranges(mode), LATENCY, 2, 2, script.clock, host=host)
    wall = sum(samples) + 4 * RANGE_NS  # the ranges around the samples are time too, and so are they CPU time
    before = 10_000 + 10_001 + RANGE_NS
    system = (before + wall) // 2 - before // 2
    assert host.cpu == {"user_ns": 3 * wall, "system_ns": system, "wall_ns": wall}
    assert host.counts == {"page_faults": wall}


def test_cpu_time_is_read_as_the_system_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    spent: Any = SimpleNamespace(ru_utime=1.25, ru_stime=0.5)
    monkeypatch.setattr(resource, "getrusage", lambda who: spent if who == resource.RUSAGE_SELF else None)
    assert cpu_ns() == (1_250_000_000, 500_000_000)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(os, "times", lambda: SimpleNamespace(user=2.0, system=0.25))
    assert cpu_ns() == (2_000_000_000, 250_000_000)


def test_paced_calls_begin_when_they_are_due_or_late_behind_the_one_before(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Due each 20 µs; the third takes 35 µs, so that the one behind it begins late."""

    def sleep(seconds: float) -> None:
        script.now += round(seconds * 1e9)

    def call(took: int) -> Callable[[], object]:
        return lambda: sleep(took / 1e6)

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter_ns=script.clock, sleep=sleep))
    calls = [call(it) for it in (10, 10, 35, 10)]
    paced = timing.time_paced((lambda: None, calls[:1]), [(lambda: None, calls)], 20_000)
    begun = 20_000
    assert paced.starts == [begun, begun + 20_000, begun + 40_000, begun + 75_000]
    assert (paced.samples, paced.missed) == ([10_000, 10_000, 35_000, 10_000], 1)
