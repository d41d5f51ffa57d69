"""Syncs on a simulated device: every honest and dishonest way of waiting, on a quiet and a busy host, without real time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import pytest

from ortbench.model.modes import READBACK, RUN, SYNCHRONIZE
from ortbench.worker.sync import Readings, Sync, Syncs, Work, _spin, prove

US, MS = 1_000, 1_000_000


def undisturbed(_number: int) -> int:
    return 0


@dataclass
class Simulator:
    """A device with one queue and the host that drives it, each of whose calls takes time. All times in ns."""

    work: int = MS  # what one launch occupies the device for
    run_leaves: int | None = None  # how many launched runs a launch does not wait for; None: it waits for nothing
    sync_leaves: int | None = None  # the same of `synchronize`
    token_leaves: int | None = 0  # the same of the token
    launch_cost: int = 2 * US
    sync_cost: int = 1 * US
    token_cost: int = 6 * US
    readback_cost: int = 40 * US
    now: int = 0
    ends: list[int] = field(default_factory=list)
    launches: int = 0
    reads: int = 0
    held_up: Callable[[int], int] = undisturbed  # for how long the host is held up behind its nth launch, from 1 on
    held_up_reading: Callable[[int], int] = undisturbed  # the same of what it reads back
    cold: int = 0  # how much longer reading back takes behind a launch than behind another readback
    early: int = 0  # by how much a launch that waits returns too soon
    is_cold: bool = False

    def clock(self) -> int:
        return self.now

    def pause(self, ns: int) -> None:
        self.now += ns

    def _wait(self, leaves: int | None, early: int = 0) -> None:
        if leaves is not None and len(self.ends) > leaves:
            self.now = max(self.now, self.ends[-1 - leaves] - early)

    def launch(self) -> None:
        self.launches += 1
        self.now += self.launch_cost
        self.ends.append(max([self.now, *self.ends[-1:]]) + self.work)
        self._wait(self.run_leaves, self.early)
        self.now += self.held_up(self.launches)
        self.is_cold = True

    def synchronize(self) -> None:
        self.now += self.sync_cost
        self._wait(self.sync_leaves)

    def token(self) -> None:
        self._wait(self.token_leaves)
        self._read(self.token_cost)

    def readback(self) -> None:
        self._wait(0)
        self._read(self.readback_cost)

    def _read(self, cost: int) -> None:
        self.reads += 1
        self.now += cost + self.held_up_reading(self.reads) + self.cold * self.is_cold
        self.is_cold = False

    def prove(self, **other: Any) -> Sync:
        return prove(self.to_prove()._replace(**other))

    def to_prove(self) -> Work:
        candidates = [(RUN, None), (SYNCHRONIZE, self.synchronize)]
        return Work(self.launch, candidates, self.readback, self.token, clock=self.clock, pause=self.pause)

    def stop_waiting(self) -> None:
        self.run_leaves = self.sync_leaves = self.token_leaves = None

    def synced_run_ends_idle(self, sync: Sync) -> bool:
        """Whether the device is idle after a burst of runs, each ended by the sync."""
        for _ in range(3):
            self.launch()
            if sync.wait is not None:
                sync.wait()
            if self.ends[-1] > self.now:
                return False
        return True


WORKS = [5 * US, 50 * US, MS, 30 * MS, 800 * MS]


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize(
    ("waits", "other", "kind", "wait", "cost", "how"),
    [
        ({"run_leaves": 0}, {}, RUN, None, 0, "0.0 µs of work were left"),
        ({"run_leaves": 0, "sync_leaves": 0}, {}, RUN, None, 0, "0.0 µs of work were left"),
        ({"sync_leaves": 0}, {}, SYNCHRONIZE, "synchronize", US, "0.0 µs of work were left"),
        ({}, {}, READBACK, "token", 6 * US, "reading 4 bytes back, which waits for all "),
        # A token that overtakes the work is no witness; without one the outputs are read back.
        ({"token_leaves": None}, {}, READBACK, "readback", 40 * US, "reading the outputs back, which waits for all "),
        ({}, {"token": None}, READBACK, "readback", 40 * US, "reading the outputs back, which waits for all "),
    ],
)
def test_the_cheapest_that_waits_is_the_sync(
    waits: dict[str, Any], other: dict[str, Any], kind: str, wait: str | None, cost: int, how: str, work: int
) -> None:
    device = Simulator(work, **waits)
    sync = device.prove(**other)
    assert (sync.kind, sync.wait, sync.cost_ns) == (kind, wait and getattr(device, wait), cost)
    assert sync.evidence.startswith(how)
    assert device.synced_run_ends_idle(sync)


@pytest.mark.parametrize("left", [13, 25, 49])
def test_a_token_that_overtakes_part_of_a_burst_is_no_witness(left: int) -> None:
    assert Simulator(token_leaves=left, launch_cost=0).prove().evidence.startswith("reading the outputs back")


def all_but_each(nth: int, ns: int) -> Callable[[int], int]:
    """Held up every time, but for each nth."""
    return lambda number: 0 if number % nth == 0 else ns


# A busy host adds what it is held up by to times; on an H100 the first value that is read behind a run takes longer.
@pytest.mark.parametrize(
    ("waits", "works", "kind"),
    [
        *(({"sync_leaves": left}, [20 * US, MS, 30 * MS], READBACK) for left in (1, 2, 100)),
        *(({"run_leaves": 0, "held_up_reading": all_but_each(nth, 200 * US)}, WORKS, RUN) for nth in (2, 5)),
        *(({"sync_leaves": 0, "held_up_reading": all_but_each(nth, 200 * US)}, WORKS, SYNCHRONIZE) for nth in (2, 5)),
        ({"run_leaves": 0, "token_cost": 14 * US, "cold": 30 * US}, [MS, 1_400 * US, 30 * MS], RUN),
        *(({"run_leaves": 0, "sync_leaves": 0, "cold": 30 * US, "early": it * US}, [MS], SYNCHRONIZE) for it in (150, 240)),
    ],
)  # fmt: skip
def test_what_waits_is_taken_and_what_leaves_work_is_refused(
    waits: dict[str, Any], works: list[int], kind: str
) -> None:
    for work in works:
        device, again, syncs = Simulator(work, **waits), Simulator(work, **waits), Syncs()
        sync = device.prove()
        assert sync.kind == kind, work
        assert device.synced_run_ends_idle(sync)
        assert [syncs.prove("run", again.to_prove()).kind for _ in range(3)] == [kind] * 3, work


def test_what_is_left_within_the_tolerance_is_told() -> None:
    """A sync may return a little before the work has ended: 1 % of it, or 20 µs."""
    for work, early in ((MS, 20), (5 * MS, 50)):
        most, less = (Simulator(work, run_leaves=0, launch_cost=0, early=it) for it in (early * US, early * US - 1))
        found = most.prove()
        assert (found.kind, less.prove().kind) == (RUN, RUN)
        assert most.launches == less.launches  # without doubt
        assert found.evidence.startswith(f"{early}.0 µs of work were left after ")
        assert Simulator(work, run_leaves=0, launch_cost=0, early=early * US + 1).prove().kind == SYNCHRONIZE


@pytest.mark.parametrize(
    ("burst", "noise", "least", "most"),
    [(1, 0, 0, 250), (10, 0, 0, 25), (10, 100, 0, 100), (10, 400, 0, 250), (10, 0, 300, 300)],
)
def test_a_token_may_leave_a_quarter_of_a_run_or_the_noise_or_the_least(
    burst: int, noise: int, least: int, most: int
) -> None:
    """Of 1000 ns of work, noise counts up to a quarter."""
    for rest, ordered in ((most, True), (most + 1, False)):
        readings = Readings([[50, 50 + noise, 50 + noise]], [[1000 - rest], [1050]])
        assert readings.is_ordered(burst, least) is ordered


class Sharing(Simulator):
    """A launch behind a readback wakes a thread that takes the host's core till the work is done; those behind it do not."""

    awake = 0  # the number of reads until which the thread is

    def launch(self) -> None:
        super().launch()
        if self.awake != self.reads:
            self.awake = self.reads
            self._wait(0)


class Fitful(Simulator):
    """Keeps up with the host now and then: in the fastest trial nothing is left, in the others most of the work."""

    def launch(self) -> None:
        self.work = 300 * US if self.reads % 9 < 6 else 0
        super().launch()


class Uneven(Simulator):
    """Work that takes longer some times than others."""

    def launch(self) -> None:
        self.work = MS + self.launches % 7 * 30 * US
        super().launch()


# As a software GPU does with a tiny model, whose reading back takes now 14 µs, now 32.
KEEPING_UP: Any = {
    "launch_cost": 10 * US,
    "readback_cost": 14 * US,
    "held_up_reading": lambda nth: 18 * US * (nth % 7 > 0),
}
ALONE: Any = {"candidates": [(RUN, None)], "token": None}


@pytest.mark.parametrize(
    ("device", "kind", "other"),
    [
        # The host is held up behind most launches.
        *((Simulator(work, sync_leaves=0, held_up=all_but_each(nth, 3 * work)), SYNCHRONIZE, {}) for nth in (3, 5, 9) for work in (50 * US, MS, 5 * MS)),
        *((Simulator(work, held_up=all_but_each(nth, 3 * work)), READBACK, {}) for nth in (3, 5, 9) for work in (50 * US, MS, 5 * MS)),
        # Launching takes as long as the work, so that nothing is left, but for a moment now and then.
        (Simulator(5 * US, held_up=lambda number: 0 if number % 2000 >= 1700 else 4 * US), READBACK, {}),
        *((Sharing(work), READBACK, {}) for work in (50 * US, 300 * US, MS)),
        *((Sharing(work, sync_leaves=0), SYNCHRONIZE, {}) for work in (50 * US, 300 * US, MS)),
        *((Simulator(work, **KEEPING_UP), READBACK, ALONE) for work in (8 * US, 10 * US, 10_500, 12 * US)),
        (Fitful(), READBACK, ALONE),
        *((Uneven(run_leaves=0), RUN, {}), (Uneven(sync_leaves=0), SYNCHRONIZE, {}), (Uneven(), READBACK, {})),
    ],
)  # fmt: skip
def test_what_does_not_wait_is_refused_on_strange_devices(device: Simulator, kind: str, other: Any) -> None:
    assert device.prove(**other).kind == kind


@pytest.mark.parametrize("seed", range(10))
def test_a_run_that_waits_is_taken_though_what_its_outputs_take_to_read_varies_by_more_than_a_run(seed: int) -> None:
    """100 MB on an H200: a run takes 200 µs, its outputs 6 ms. They must not be read back to end each run."""

    class Large(Simulator):
        varies = random.Random(seed)
        to_pageable = True

        def readback(self) -> None:
            self._wait(0)
            slow = 6 * MS + self.varies.randrange(200 * US) + 100 * US * self.is_cold
            self.now += slow if self.to_pageable else 2 * MS
            self.is_cold = False

        def make_steadier_readback(self) -> Callable[[], None]:
            self.to_pageable = False
            return self.readback

    device = Large(194 * US, run_leaves=0, launch_cost=30 * US, token_cost=14 * US, cold=30 * US)
    for steadier in (None, device.make_steadier_readback):
        found = device.prove(make_steadier_readback=steadier)
        assert found.wait != device.readback, found.evidence
    assert found.kind == RUN


@pytest.mark.parametrize("work", [5 * US, 100 * US])
@pytest.mark.parametrize("late", [5 * MS, 40 * MS])
def test_a_host_that_comes_late_to_all_it_reads_does_not_make_the_burst_short(late: int, work: int) -> None:
    """Else a few runs would be all that a sync is tried behind, because each seems to take long."""

    class Late(Simulator):
        """Late whenever it reads behind one launch, but for the very first, and behind every other burst of them."""

        bursts = read_behind = 0

        def _read(self, cost: int) -> None:
            behind = self.launches - self.read_behind
            self.bursts += behind > 1
            if self.read_behind and (behind == 1 or (behind > 1 and self.bursts % 2)):
                self.now += late
            self.read_behind = self.launches
            super()._read(cost)

    device = Late(work, launch_cost=0)
    assert device.prove().evidence == "reading 4 bytes back, which waits for all 128 queued run(s)"


def test_a_host_spins_for_as_long_as_it_is_asked_to() -> None:
    begun = perf_counter_ns()
    _spin(MS)
    assert perf_counter_ns() - begun >= MS


def waiting(kind: str, work: int) -> Simulator:
    """A device on which this sync is the cheapest one that waits."""
    return Simulator(work, run_leaves=0 if kind == RUN else None, sync_leaves=0 if kind != READBACK else None)


@pytest.mark.parametrize("work", [5 * US, 50 * US, MS, 30 * MS, 2_000 * MS])
@pytest.mark.parametrize(
    ("known", "waits"),
    [*((kind, kind) for kind in (RUN, SYNCHRONIZE, READBACK)), (RUN, SYNCHRONIZE), (RUN, READBACK), (SYNCHRONIZE, READBACK)],
)  # fmt: skip
def test_a_known_sync_is_confirmed_with_a_part_of_the_runs_or_another_proved(known: str, waits: str, work: int) -> None:
    syncs, first, other = Syncs(), waiting(known, work), waiting(waits, work)
    syncs.prove("run", first.to_prove())
    sync = syncs.prove("run", other.to_prove())
    assert sync.kind == waits
    if known == waits:
        assert "verified before" in sync.evidence
        assert other.launches <= 0.75 * first.launches
    assert other.synced_run_ends_idle(sync)
    if known != RUN and work > 5 * US:  # a token that overtakes the work here is no witness
        syncs, other = Syncs(), Simulator(work, token_leaves=None)
        syncs.prove("run", waiting(known, work).to_prove())
        assert syncs.prove("run", other.to_prove()).wait == other.readback


def test_two_seconds_of_work_are_proved_with_six_runs_and_confirmed_with_two() -> None:
    syncs, first, other = Syncs(), waiting(SYNCHRONIZE, 2_000 * MS), waiting(SYNCHRONIZE, 2_000 * MS)
    syncs.prove("run", first.to_prove())
    sync = syncs.prove("run", other.to_prove())
    assert (first.launches, other.launches) == (6, 2)
    assert not sync.returns_early()
    assert other.launches == 3


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("kind", [RUN, SYNCHRONIZE, READBACK])
def test_a_sync_that_stops_waiting_is_found_out(kind: str, work: int) -> None:
    device = waiting(kind, work)
    sync = device.prove()
    assert not sync.returns_early()
    device.stop_waiting()
    assert sync.returns_early()


def busy(seed: int, share: float) -> Callable[[int], int]:
    """A host that is held up for 3 to 30 ms in a share of all cases, as by other processes that want its core."""
    chance = random.Random(seed)
    return lambda _: chance.randrange(3 * MS, 30 * MS) if chance.random() < share else 0


@pytest.mark.parametrize("work", WORKS)
def test_a_busy_host_fails_no_sync_that_waits(work: int) -> None:
    """A readback that is held up looks as if work had been left."""
    device = waiting(RUN, work)
    sync = device.prove()
    for seed in range(20):
        device.held_up_reading = busy(seed, 0.3)
        assert not sync.returns_early(), seed


@pytest.mark.parametrize("work", [50 * US, MS, 30 * MS])
def test_a_busy_host_hides_no_sync_that_stopped_waiting(work: int) -> None:
    """A host that is held up behind a launch finds nothing left to wait for."""
    device = waiting(RUN, work)
    sync = device.prove()
    device.stop_waiting()
    launches = max(1, min(20 * MS // work, 128))
    for seed in range(20):
        device.held_up = busy(seed, 0.05 / launches)
        assert sync.returns_early(), seed


def test_a_sync_that_was_refused_is_not_taken_again() -> None:
    device = Simulator(work=MS, run_leaves=0, sync_leaves=0)
    syncs = Syncs()

    def kind() -> str:
        return syncs.prove("run", device.to_prove()).kind

    assert kind() == RUN
    with syncs.excluding("run", [RUN]):  # what returned early elsewhere is not refused for good
        assert kind() == SYNCHRONIZE
    assert (kind(), syncs.refuse("run", RUN), kind()) == (RUN, True, SYNCHRONIZE)
    assert (syncs.refuse("run", RUN), kind()) == (False, SYNCHRONIZE)
    assert (syncs.refuse("run", SYNCHRONIZE), kind(), syncs.refuse("run", READBACK)) == (True, READBACK, False)
