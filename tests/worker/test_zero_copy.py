"""The verdict on zero-copy: where doubt begins, and what scripted modes are found to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ortbench.worker.memory import Copy
from ortbench.worker.modes import HostAccessibleMode, ResidentMode
from ortbench.worker.proofs import ZeroCopy, judge_difference, judge_run_time, prove_by_copy_times, prove_zero_copy
from ortbench.worker.timing import TimedCall

US, MS = 1_000, 1_000_000


@pytest.mark.parametrize(
    ("extra", "copies", "noise", "proved"),
    [
        (249.9, 1000.0, 0.0, True),
        (250.0, 1000.0, 0.0, False),  # a quarter of what the copies would take
        (-5000.0, 1000.0, 0.0, True),  # faster than device-resident is no reason for doubt
        (249.9, 1000.0, 500.0, True),
        (0.0, 1000.0, 500.1, False),  # a copy of 1000 must stand out twice from the noise
        (-5000.0, 1000.0, 501.0, False),
        (0.0, 0.0, 0.0, False),  # copies that take no time prove nothing
    ],
)
def test_thresholds(extra: float, copies: float, noise: float, proved: bool) -> None:
    assert judge_difference(extra, copies, noise).verified is proved


def test_a_copy_is_named_before_the_noise_where_it_stands_out_of_it() -> None:
    assert "noise" not in judge_difference(9_000.0, 3_000.0, 9_000.0).evidence
    assert "noise" in judge_difference(8_999.0, 3_000.0, 9_000.0).evidence


class Clock:
    """Advanced by the calls of the scripted modes alone."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def taking(self, *durations: int) -> Callable[..., None]:
        """A call that takes these durations in turn, over and over."""
        calls = 0

        def call(*_: Any) -> None:
            nonlocal calls
            self.now += durations[calls % len(durations)]
            calls += 1

        return call


class ScriptedResident(ResidentMode):
    """Runs and copies that take a known time."""

    def __init__(self, run: Callable[..., None], upload: Copy, download: Copy) -> None:
        self._calls = run, upload, download

    def phases(self) -> dict[str, TimedCall]:
        return {"latency": (self._calls[0], None, None)}

    def one_time_copies(self) -> tuple[Copy, Copy]:
        return self._calls[1], self._calls[2]


class ScriptedShared(HostAccessibleMode):
    """Runs that take a known time."""

    def __init__(self, run: Callable[..., None], same: bool = True) -> None:
        self._call, self._same = run, same

    def phases(self) -> dict[str, TimedCall]:
        return {"latency": (self._call, None, None)}

    def same_addresses(self) -> bool:
        return self._same


def prove(shared: tuple[int, ...], resident: tuple[int, ...] = (100 * US,), unit: int = US) -> ZeroCopy:
    """The proof for runs of these durations; an upload takes 30 units, a download 20."""
    clock = Clock()
    theirs = ScriptedResident(clock.taking(*resident), clock.taking(30 * unit), clock.taking(20 * unit))
    return prove_zero_copy(ScriptedShared(clock.taking(*shared)), theirs, False, clock)


@pytest.mark.parametrize(("run", "proved"), [(100 * US, True), (150 * US, False), (112_400, True), (112_500, False)])
def test_runs_as_fast_as_device_resident_prove_it_to_a_quarter_of_the_copies(run: int, proved: bool) -> None:
    found = prove((run,))
    assert (found.verified, found.addresses) == (proved, True)
    assert found.evidence.endswith("copies in and out would take 50.0 µs")


@pytest.mark.parametrize("noisy", ["shared", "resident"])
def test_noise_of_either_mode_is_doubt(noisy: str) -> None:
    """Whole bursts differ by 60 µs a run, more than a copy would show."""
    bursts = (100 * US,) * 22 + (160 * US,) * 210  # a burst is 2 ms of runs of 100 µs
    times = {"shared": (100 * US,), "resident": (100 * US,), noisy: bursts}
    found = prove(times["shared"], times["resident"])
    assert not found.verified
    said = "noise of 60.0 µs; in a short check before the measurement an inference took 0 ns less"
    assert f"would not show in {said}" in found.evidence


@pytest.mark.parametrize(
    ("run", "others", "runs"),
    [
        (MS, (MS,), 4 * (2 + 1) + 1),
        (99 * MS, (99 * MS,), 4),
        (100 * MS, (100 * MS,), 2),
        # Up to an eighth of the copies of 100 ms a difference, or noise, leaves no doubt.
        (62_500 * US, (50 * MS,), 4),
        (62_501 * US, (50 * MS,), 6),
        (50 * MS, (50 * MS, 75 * MS), 4),
        (50 * MS, (50 * MS, 75_002 * US), 5),
    ],
)
def test_the_slower_a_run_the_fewer_are_compared(run: int, others: tuple[int, ...], runs: int) -> None:
    """Of 1 ms each of four bursts has two, and one before it that is not counted."""
    clock = Clock()
    resident = ScriptedResident(clock.taking(*others), clock.taking(others[0]), clock.taking(others[0]))
    taken: list[int] = []

    def call(*_: Any) -> None:
        taken.append(run)
        clock.now += run

    prove_zero_copy(ScriptedShared(call), resident, False, clock)
    assert len(taken) == runs


def test_noise_that_outlasts_the_patience_hides_all_copies() -> None:
    found = prove((100_000 * US, *[120_000 * US] * 20), (100_000 * US,), unit=1000 * US)
    assert (found.verified, "would not show in noise of 50.0 ms" in found.evidence) == (False, True)


@pytest.mark.parametrize("has_resident", [True, False])
def test_other_addresses_are_no_zero_copy(has_resident: bool) -> None:
    clock = Clock()
    resident = ScriptedResident(clock.taking(1), clock.taking(1), clock.taking(1)) if has_resident else None
    wanted = ZeroCopy(False, "the outputs are not at the addresses that were bound", addresses=False)
    assert prove_zero_copy(ScriptedShared(clock.taking(1), same=False), resident, True, clock) == wanted


@pytest.mark.parametrize(
    ("run", "h2d", "d2h", "proved"),
    [
        (99, 100, 100, True),  # too short to hold a copy in either direction
        (100, 100, 100, False),
        (150, 100, 300, False),  # it could hold the upload
        (150, 200, 300, True),
        (150, 10, 300, True),  # an upload that is next to nothing does not matter
        (0, 0, 0, False),
    ],
)
def test_a_run_that_is_shorter_than_a_copy_has_none(run: int, h2d: int, d2h: int, proved: bool) -> None:
    assert judge_run_time(run, h2d, d2h, "used").verified is proved


def test_the_least_of_each_time_counts() -> None:
    clock = Clock()
    copies = clock.taking(*[300 * US] * 5, *[100 * US] * 5), clock.taking(100 * US)  # of what is before and behind
    found = prove_by_copy_times(
        ScriptedShared(clock.taking(500 * US, 90 * US, *[500 * US] * 99)), copies, "seen", clock
    )
    assert found.evidence.startswith("the outputs are at the bound addresses and seen")
    assert "an inference took 90.0 µs, copying in 100 µs, copying out 100 µs" in found.evidence
    other = ScriptedShared(clock.taking(1), same=False)
    assert not prove_by_copy_times(other, copies, "seen", clock).addresses
