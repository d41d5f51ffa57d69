"""``--energy``: a stretch of each mode of its own, beside which the energy counter of its device is read."""

from __future__ import annotations

import time
from collections.abc import Callable

from ortbench.analysis import energy
from ortbench.analysis.energy import PARTS, Part
from ortbench.core import signals
from ortbench.core.errors import OrtbenchError, Unsupported
from ortbench.measure.gpus import opened_nvml
from ortbench.measure.meters import Meter, meter_for
from ortbench.measure.process import WorkerLost
from ortbench.measure.side import Side
from ortbench.model.modes import LATENCY
from ortbench.model.protocol import Stretched

SHORTEST_S = 2.0  # of a stretch
IDLE_S = 1.0  # of the idle time before and after each
_STEPS = 2 * PARTS  # of the counter, that a stretch holds
_IDLE_STEPS = 4
_LONGEST_S = 30.0  # of a stretch, so that it holds a run for each part; two runs it always holds
_IDLE_LONGEST_S = 10.0


class Recorder:
    """Reads a meter for a while.

    Args:
        meter: to be read.
        clock: ns, the one of the worker.
        sleep: s.
    """

    def __init__(
        self,
        meter: Meter,
        clock: Callable[[], int] = time.perf_counter_ns,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.meter = meter
        self.step_s = meter.poll_s
        self._clock, self._sleep = clock, sleep

    def record(self, seconds: float, steps: int = 0) -> list[tuple[int, float]]:
        """Each time at which the meter was seen to have moved, after it has settled, and where it stood from then on.

        Args:
            seconds: for so long.
            steps: and longer, until it has moved so many times.

        Raises:
            Stopped: see `ortbench.core.signals.heed`.
        """
        settled = self._clock() + round(self.meter.settle_s * 1e9)
        until = settled + round(seconds * 1e9)
        at_most = settled + round(max(seconds, _IDLE_LONGEST_S) * 1e9)
        found: list[tuple[int, float]] = []
        last: float | None = None
        while (now := self._clock()) < until or (len(found) < steps and now < at_most):
            signals.heed()
            joules, at = self.meter.joules(), self._clock()
            if last is not None and joules != last and at >= settled:
                found.append((at, joules))
            last = joules
            self._sleep(self.meter.poll_s)
        return found

    def idle(self) -> list[Part]:
        """Parts of a time without runs, which also shows how often the meter moves."""
        found = self.record(IDLE_S, _IDLE_STEPS)
        if len(found) > 1:
            self.step_s = (found[-1][0] - found[0][0]) / 1e9 / (len(found) - 1)
        return energy.idle_parts(found)

    def stretch_s(self, call_s: float) -> float:
        """How long a stretch must be whose runs take so long, without the time in which the meter settles."""
        return max(SHORTEST_S, _STEPS * self.step_s, min(PARTS * call_s, _LONGEST_S), 2 * call_s)


def measure_energy(side: Side, tell: Callable[[str], None]) -> None:
    """Have a stretch of each mode run, when all figures are there; where there is nothing to read each case says why.

    Args:
        side: whose modes were measured, awake.
        tell: what is going on, in words.
    """
    try:
        with opened_nvml() as nvml:
            recorder = Recorder(meter_for(side.result.target, nvml))
            idle = recorder.idle()
            for mode in list(side.modes):
                tell(f"measuring the energy of {mode} ({side.name})")
                idle = _measure(side, mode, recorder, idle)
    except Unsupported as error:
        _give_up(side, str(error))
    except WorkerLost as error:
        _give_up(side, f"the worker was lost in the stretch: {error}")
    side.keep()


def _give_up(side: Side, reason: str) -> None:
    for mode in side.modes:
        if side.cases[mode].energy is None:
            side.cases[mode].energy = {"unsupported": reason}


def _measure(side: Side, mode: str, recorder: Recorder, before: list[Part]) -> list[Part]:
    """Measure one mode; returns the idle time after it, which is that before the next one."""
    case, meter = side.cases[mode], recorder.meter
    call_s = (case.median(LATENCY) or 0) * case.inferences(LATENCY) / 1e9
    seconds = recorder.stretch_s(call_s)
    readings: list[tuple[int, float]] = []
    side.meanwhile(lambda: readings.extend(recorder.record(seconds)))
    try:
        with side.stage(f"energy of {mode}"):
            answer: Stretched = side.ask("stretch", mode=mode, seconds=meter.settle_s + seconds)
    except WorkerLost:
        raise
    except OrtbenchError as error:
        case.energy = {"unsupported": f"the stretch failed: {error}"}
        return before
    after = recorder.idle()
    ended = [(count, at) for count, at in answer["ended"]]
    energy.put_energy(case, meter.how, meter.of, readings, answer["start_ns"], ended, [*before, *after])
    return after
