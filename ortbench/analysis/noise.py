"""What noise of the machine a result was measured in: its sentence, the rounds that were quiet, and which claims it leaves. Pure.

A block waited where threads of the worker could run and had no CPU. That others caused it is known as long as the worker has no
more threads at work than there are cores; else only where other processes used the CPU at that time.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, TypeVar

from ortbench.analysis.advice import again, command
from ortbench.analysis.intervals import ENDED_BY_TIME, ROUNDS, by_round, duration_s
from ortbench.core.stats import Value
from ortbench.core.units import count, share
from ortbench.model.modes import LATENCY, THROUGHPUT
from ortbench.model.result import Case, Result
from ortbench.model.schema import Certificate, MachineNoise

# The numbers by which the noise of a machine is read, and by which it is said what noise leaves of a claim; each with its source


N = TypeVar("N", int, float)


def _number(value: N, source: str) -> N:
    number: N = field(default=value, metadata={"source": source})
    return number


@dataclass(frozen=True)
class Policy:
    """Shares are of 1; `Policy.__dataclass_fields__` has the source of each number."""

    # What is read
    reading_ns: int = _number(1_000_000_000, "the system counts CPU time in ticks of 10 ms: 1 % of a reading")
    shortest_reading: float = _number(0.5, "of a reading: of less a tick would be more than 2 %")
    most_readings: int = _number(600, "ten minutes of them; of longer measurements one in several is kept")
    most_blocks: int = _number(20_000, "1 MB of a result file, of seven numbers a block")
    most_threads: int = _number(16, "reports/harness-cost.txt: so many take 80 µs a block, 0.4 % of it")
    ran: float = _number(0.01, "of a block: a thread that ran for less was woken, and did no part of the work")
    clock_cores: int = _number(4, "the highest clock is kept, and a worker moves between cores")
    quiet_s: int = _number(2, "two readings in a row: one may fall between two bursts")

    # When a block has waited, and when a machine is busy
    waited: float = _number(
        0.02, "of a block: on two quiet cores runs wait up to 2 % for the system's own work (the page on noise)"
    )
    waited_ns: int = _number(100_000, "as much as the readings of a block take themselves (reports/harness-cost.txt)")
    others: float = _number(
        0.08,
        "of the cores: the page on noise counts noise in 296 of 296 runs beside 10 % or more, and in 0 of 160 quiet ones",
    )
    some: float = _number(
        0.02, "of the cores: twice what a quiet system does itself; others who use less make no block wait"
    )
    waiting_blocks: float = _number(0.1, "of all blocks: the same count as of `others`")
    fewest_blocks: int = _number(2, "one block that waits is chance")
    waiting_time: float = _number(
        0.08, "of all blocks: a load of more threads than cores waits 5 % for its own threads (the page on noise)"
    )
    stolen: float = _number(
        0.05,
        "of the cores: chosen below `others`, as a guest sees only a part of what it lost; not counted on a machine",
    )
    stopped: float = _number(0.02, "of the time: a group is stopped for whole periods of 100 ms, one in 5 s")

    # What can be claimed on a busy machine
    chance: float = _number(0.025, "one end of a 95 % interval, as of all claims")
    beside_cpu: float = _number(
        1.25, "for caches, memory bandwidth and clocks: chosen; no conclusion of reports/busy.md was wrong with it"
    )
    least_kept: float = _number(0.01, "of its time, of what has next to none: keeps a quotient finite")
    alike: float = _number(1.1, "the end of an interval of no difference: chosen, twice the usual margin of 5 %")
    most_hit: float = _number(0.4, "of samples: below a half, so that samples without a wait have the median")
    clear: float = _number(
        1.1, "how much better one is beside samples that waited: chosen, with the counts of the page on noise"
    )


POLICY = Policy()


WHO = "ps -eo pcpu,pid,comm --sort=-pcpu | head"  # shows who uses the CPU


class Summary(NamedTuple):
    """Shares of the cores that the worker may use, means over the measurement; None where the system does not tell."""

    cores: float  # of them
    others: float | None  # that other processes used
    stolen: float  # that the hypervisor took
    stopped: float  # of whose time a limit of the control group stopped the worker
    blocks: int  # of which it is known
    waited: int  # of them that waited for a CPU
    waits: float  # the part of the time of all of them that these waited
    gpu_processes: int  # others on the GPU, at most


def summary(noise: MachineNoise) -> Summary:
    readings, cores = noise["readings"], noise["cores"]
    took = sum(it["took_ns"] for it in readings)
    used = sum(it["others"] * it["took_ns"] for it in readings)
    stolen = sum(it.get("stolen", 0.0) * it["took_ns"] for it in readings)
    stopped = sum(it.get("throttled_ns", 0) for it in readings)
    waited = list(filter(wait_predicate(noise), noise["blocks"]))
    time = sum(it[2] for it in noise["blocks"])
    return Summary(
        _usable_cores(noise),
        _share_of_usable(used / took, noise) if took else None,
        stolen / took / cores if took else 0.0,
        stopped / took / cores if took else 0.0,
        len(noise["blocks"]),
        len(waited),
        sum(min(it[2], it[3]) for it in waited) / time if time else 0.0,
        max((it.get("gpu_processes", 0) for it in readings), default=0),
    )


def _usable_cores(noise: MachineNoise) -> float:
    """How many cores' worth of time the worker may take."""
    return min(noise["cores"], noise.get("limit", noise["cores"]))


def _share_of_usable(others: float, noise: MachineNoise) -> float:
    """Which share of what the worker may use others take, who use so many cores: with a limit they have the rest first."""
    mine = _usable_cores(noise)
    return min(1.0, max(0.0, others - (noise["cores"] - mine)) / mine)


def wait_predicate(noise: MachineNoise) -> Callable[[Sequence[int]], bool]:
    """What says of a block whether it waited for a CPU because of others."""
    starts = [it["at_ns"] for it in noise["readings"]]

    def has_waited(block: Sequence[int]) -> bool:
        _, start_ns, took_ns, waited_ns, _, threads, _ = block
        if waited_ns < max(POLICY.waited_ns, POLICY.waited * took_ns):
            return False
        if threads <= noise["cores"] or not starts:
            return True
        first = max(0, bisect_right(starts, start_ns) - 1)
        beside = noise["readings"][first : bisect_right(starts, start_ns + took_ns)] or noise["readings"][-1:]
        return any(_share_of_usable(it["others"], noise) >= POLICY.some for it in beside)

    return has_waited


def busy_reasons(noise: MachineNoise) -> list[str]:
    """What made the machine a busy one, the first that matters most: ``stopped`` by a CPU limit, ``others`` used the CPU, ``stolen`` by the
    hypervisor, blocks that ``waited``, the ``gpu`` was used; none of a quiet one."""
    found = summary(noise)
    others = found.others or 0.0
    is_explained = found.others is None or others + found.stolen >= POLICY.some
    taken = [
        why
        for why, is_so in (
            ("stopped", found.stopped >= POLICY.stopped),
            ("others", found.others is not None and others >= POLICY.others),
            ("stolen", found.stolen >= POLICY.stolen),
        )
        if is_so
    ]
    matters = found.waits >= POLICY.waiting_time or bool(taken)
    if found.waited >= max(POLICY.fewest_blocks, POLICY.waiting_blocks * found.blocks) and matters and is_explained:
        taken.append("waited")
    return [*taken, *(["gpu"] if found.gpu_processes else [])]


def used_by_others(noise: MachineNoise) -> str:
    """How much of the cores that the worker may use others used."""
    found = summary(noise)
    return f"other processes used {share(found.others or 0.0)} of {count(found.cores, 'core')}"


def is_busy(result: Result) -> bool:
    return result.noise is not None and bool(busy_reasons(result.noise))


def certificates(results: Sequence[Result]) -> list[Certificate]:
    """The certificates that the machine of all results had; none where there are several machines, one result has none, or was measured
    on a busy machine that was quiet when it was certified."""
    found = [it.environment.get("certificate") for it in results]
    held = [it for it, result in zip(found, results, strict=True) if it is not None and it["busy"] >= is_busy(result)]
    hosts = {it.environment.get("host_id") for it in results}
    return held if len(hosts) == 1 and len(held) == len(results) else []


def quiet_options(result: Result) -> tuple[str, ...]:
    """What a command that measures again on a busy machine has besides; nothing where it waited, or the machine was quiet."""
    has_waited = any(word.partition("=")[0] == "--wait-quiet" for word in result.command)
    return ("--wait-quiet", "60s") if is_busy(result) and not has_waited else ()


def more_rounds(result: Result, number: int, together: int = 1) -> str:
    """The command that gives so many rounds: without a number of inferences, with a duration that does, on a busy machine of quiet ones,
    with no precision that ends it, or of its kind in place of a gate. Several that took turns share the time."""
    reason = None if result.stopped is None else result.stopped["reason"]
    if reason == "iterations":
        return again(result, without=["iterations"])
    if reason == "verdict":
        return command(result, result.kind)
    if reason not in ENDED_BY_TIME:
        return again(result, "--precision", "0")
    return again(result, "--duration", f"{duration_s(result, number, together)}s", *quiet_options(result))


def rounds(noise: MachineNoise) -> dict[int, bool]:
    """Every round, and whether it was quiet: no block of it waited."""
    waited = wait_predicate(noise)
    found: dict[int, bool] = {}
    for block in noise["blocks"]:
        found[block[0]] = found.get(block[0], True) and not waited(block)
    return found


def figures_of(case: Case) -> dict[int, float]:
    """The figure of each block, by its round: the median latency, of a closed load point its throughput."""
    if case.load_blocks is not None:
        from ortbench.analysis.load_points import block_figures  # of load alone

        return block_figures(case, THROUGHPUT)
    return {number: median(samples) for number, samples in by_round(case, LATENCY).items()}


def supports_speedup(result: Result, base: Case, case: Case, speedup: Value | None) -> bool:
    """Whether noise leaves the claim that a speedup's interval makes: that a case is faster than another, slower, or no different;
    on a busy machine none without an interval, and no "no different" of a wide one."""
    if speedup is not None and speedup.ci95 is None:
        return result.noise is None or not busy_reasons(result.noise)
    low, high = (1.0, 1.0) if speedup is None or speedup.ci95 is None else speedup.ci95
    if low > 1:
        return supports_better(result, case, base, low)
    if 0 < high < 1:
        return supports_better(result, base, case, 1 / high)
    return max(high, 1 / low if low > 0 else math.inf) <= POLICY.alike or not is_busy(result)


def supports_better(
    result: Result, better: Case, worse: Case, least: float, items: tuple[float, float] = (1, 1)
) -> bool:
    """Whether noise leaves the claim that one case is better than another, `least` times for certain by all rounds; by the time for
    an item where inferences have so many `items`.

    On a quiet machine every claim. On a busy one either the worse one would be worse without all that it waited, and whatever others
    take besides the CPU; or the quiet rounds alone say so too, by a sign test.
    """
    noise, (mine_of, theirs_of) = result.noise, items
    if noise is None or not busy_reasons(noise):
        return True
    own = _own_blocks(noise, worse)
    beside = least / _slowdown_of_one_thread(noise, own) * _share_without_waits(worse, own)
    if beside > POLICY.clear or least > _largest_ratio(noise, own):
        return True
    known = rounds(noise)
    mine, theirs = ({at: it for at, it in figures_of(case).items() if known.get(at)} for case in (better, worse))
    times = [theirs[at] / theirs_of / (mine[at] / mine_of) for at in mine.keys() & theirs.keys() if mine[at]]
    return _is_significant([it > 1 if better.load_blocks is None else it < 1 for it in times])


def is_beyond_noise(result: Result, cases: Iterable[Case], least: float, of_time: bool) -> bool:
    """Whether noise leaves the claim that a figure differs `least` times for certain, of which no block by itself says anything: on a busy
    machine of what takes time where it is more than waits can have made, of CPU time where it is more than what others take besides."""
    noise = result.noise
    if noise is None or not busy_reasons(noise):
        return True
    if not of_time:
        return least > POLICY.beside_cpu
    return least > max(_largest_ratio(noise, _own_blocks(noise, it)) for it in cases)


def supports_within(result: Result, case: Case, least: float, shown: Mapping[int, bool]) -> bool:
    """Whether noise leaves the claim that some samples of a case are longer than others, `least` times for certain by all rounds, which
    each round by itself shows or not: by the same rule as `supports_better`."""
    noise = result.noise
    if noise is None or not busy_reasons(noise) or least > _largest_ratio(noise, _own_blocks(noise, case)):
        return True
    return _is_significant([shown[number] for number, quiet in rounds(noise).items() if quiet and number in shown])


def slowed_by_waits(result: Result, case: Case, is_median: bool) -> float:
    """How many times as long as on a quiet machine waits for a CPU, and what took it away, can have made a latency, a median or another
    statistic: most of the samples of a median may have had none."""
    noise = result.noise
    if noise is None:
        return 1.0
    own, found = _own_blocks(noise, case), summary(noise)
    took = sum(it[2] for it in own)
    kept = 1 - sum(it[3] for it in own) / took if took else 1.0
    if is_median:
        kept = max(kept, _share_without_waits(case, own))
    return 1 / max(POLICY.least_kept, kept * (1 - found.stolen - found.stopped))


def _largest_ratio(noise: MachineNoise, own: Sequence[Sequence[int]]) -> float:
    """How many times as long noise can have made these blocks at most."""
    kept = 1 - _lost_share(noise, own)
    return _slowdown_of_one_thread(noise, own) * POLICY.beside_cpu / kept if kept > 0 else math.inf


def _is_significant(shown: Sequence[bool]) -> bool:
    """Whether quiet rounds that each show something or not say by a sign test that it is so."""
    return len(shown) >= ROUNDS and _chance_of_wins(len(shown), sum(shown)) <= POLICY.chance


def _chance_of_wins(count: int, wins: int) -> float:
    """How probable it is that so many or more of all rounds would say so if both were alike."""
    if count > 1000:  # the normal approximation is as good
        return 0.5 * math.erfc((wins - 0.5 - count / 2) / math.sqrt(count / 2))
    return sum(math.comb(count, it) for it in range(wins, count + 1)) / 2.0**count


def _own_blocks(noise: MachineNoise, case: Case) -> list[list[int]]:
    """The blocks of a case's latency; all where it is not known which are its own, as of load points."""
    begun = {block[2] for block in case.blocks.get(LATENCY, ())}
    return [it for it in noise["blocks"] if it[1] in begun] or noise["blocks"]


def _lost_share(noise: MachineNoise, own: Sequence[Sequence[int]]) -> float:
    """Which part of its time a thread can have lost at most to others: what it waited in its blocks, or what others took."""
    found = summary(noise)
    took = sum(it[2] for it in own)
    waited = sum(waited_ns / max(1, threads) for _, _, _, waited_ns, _, threads, _ in own) / took if took else 0.0
    return min(1.0, max(waited, (found.others or 0.0) + found.stolen + found.stopped))


def _share_without_waits(case: Case, own: Sequence[Sequence[int]]) -> float:
    """Which part of a case's median its samples without a wait have at least; 0 where most may have waited.

    A wait of the only thread makes one sample longer. Where few have one, the others' median is a quantile of all. Of several threads
    one may have no CPU for many samples, which the others then do: see `_slowdown_of_one_thread`.
    """
    samples = sorted(case.samples.get(LATENCY, ()))
    if not samples:
        return 0.0
    hit = sum(max(0, slices - 1) for *_, slices in own) / len(samples)  # with one each block begins
    if hit >= POLICY.most_hit:
        return 0.0
    return samples[int((len(samples) - 1) * (1 - hit) / 2)] / max(1, samples[len(samples) // 2])


def _slowdown_of_one_thread(noise: MachineNoise, own: Sequence[Sequence[int]]) -> int:
    """How many times as long an inference takes at most that one thread does alone, while the others wait."""
    return max(1, min(max((threads for *_, threads, _ in own), default=1), noise["cores"]))


def join_noise(several: Iterable[MachineNoise | None]) -> MachineNoise | None:
    """The noise of several results of one measurement, whose readings are the same."""
    known = [it for it in several if it is not None]
    if not known:
        return None
    made = known[0].copy()
    made["blocks"] = sorted((block for it in known for block in it["blocks"]), key=lambda block: block[1])
    if any("of" in it for it in known):
        made["of"] = sum(it.get("of", len(it["blocks"])) for it in known)
    return made
