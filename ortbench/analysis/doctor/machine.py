"""The processor, memory and NVIDIA's cards: what makes times unsteady. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ortbench.analysis.doctor.finding import BAD, GOOD, KNOW, Finding
from ortbench.core import units
from ortbench.core.safe_text import listed
from ortbench.model.doctor_schema import Card, Cpu, Facts, Noise

_QUIET, _BUSY = 0.1, 0.5  # load for each core that may be used
_SCARCE = 0.1  # of memory
_IDLE = 0.05  # of a card
_SAME, _COARSE = 0.02, 0.10  # differences that a run of `_RUN_S` per mode, the default, can see
_RUN_S = 5.0
_NO_TURBO = "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"  # Intel's; AMD's is cpufreq/boost


def processor(facts: Facts) -> Iterator[Finding]:
    """Cores, clocks, load and memory."""
    cpu = facts["cpu"]
    yield from _cores(cpu)
    yield from _clocks(cpu)
    if cpu["load"] is not None:
        yield _load(cpu["load"], cpu["usable"] or cpu["cores"] or 1)
    memory = facts["memory"]
    text = f"{units.size(memory['available'])} of {units.size(memory['total'])} memory are free"
    if memory["available"] < _SCARCE * memory["total"]:
        yield Finding(
            BAD,
            f"{text}: what does not fit is paged, which takes longest of all",
            "ps -eo rss,pid,comm --sort=-rss | head",
        )
    else:
        yield Finding(GOOD, text)


def _cores(cpu: Cpu) -> Iterator[Finding]:
    cores, usable, limit = cpu["cores"], cpu["usable"], cpu["limit"]
    if usable is not None:
        of = f" of {cores}" if cores is not None and cores > usable else ""
        said = f"{cpu['model']}: this process may run on {usable}{of} core{'' if (cores or usable) == 1 else 's'}"
        yield Finding(KNOW if of else GOOD, said)
    if limit is not None and limit < (usable or cores or math.inf):
        threads = max(1, math.floor(limit))
        text = (
            f"the container may take {units.count(limit, 'core')}' worth of time, and ONNX Runtime starts a thread "
            "for each core: all of them are stopped until the next period when it is spent"
        )
        yield Finding(BAD, text, f"ortbench run MODEL --ep cpu --threads {threads}")
    elif usable is not None:
        yield Finding(GOOD, "no container limits how much of its cores' time it may take")


def _clocks(cpu: Cpu) -> Iterator[Finding]:
    governors = cpu["governors"]
    slow = [name for name in governors if name != "performance"]
    if slow:
        of = [f"{name} ({units.count(governors[name], 'core')})" for name in slow]
        text = f"the frequency governor is {listed(of)}: clocks follow the load, and short runs are timed at low ones"
        yield Finding(BAD, text, "sudo cpupower frequency-set -g performance")
    elif governors:
        yield Finding(GOOD, "the frequency governor is performance")
    if cpu["turbo"] is True:
        text = "turbo is on: clocks depend on temperature and on how many cores work"
        intel = "intel" in cpu["model"].lower()
        yield Finding(KNOW, text, _NO_TURBO if intel else "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost")
    elif cpu["turbo"] is False:
        yield Finding(GOOD, "turbo is off")
    elif not governors:
        yield Finding(
            KNOW,
            "frequency governor and turbo are not told here, as in most virtual machines: clocks may follow the load",
        )


def _load(load: float, cores: int) -> Finding:
    text = f"load average {load:g} over the last minute, for {units.count(cores, 'core')}"
    if load < _QUIET * cores:
        return Finding(GOOD, text)
    if load < _BUSY * cores:
        return Finding(KNOW, f"{text}: something else runs here")
    return Finding(
        BAD, f"{text}: other processes take time from what is measured", "ps -eo pcpu,pid,comm --sort=-pcpu | head"
    )


def cards(facts: Facts) -> Iterator[Finding]:
    """NVIDIA's cards, one after the other."""
    for index, card in enumerate(facts["nvidia"]["cards"]):
        yield from _card(index, card)


def _card(index: int, card: Card) -> Iterator[Finding]:
    name = f"GPU {index}"
    if "error" in card:
        yield Finding(BAD, f"{name} does not answer: {card['error']}", "nvidia-smi")
        return
    clocks = []
    if "sm_mhz" in card and "sm_mhz_max" in card:
        clocks.append(f"SM clock {card['sm_mhz']} of {card['sm_mhz_max']} MHz")
    if "memory_mhz" in card and "memory_mhz_max" in card:
        clocks.append(f"memory clock {card['memory_mhz']} of {card['memory_mhz_max']} MHz")
    said = f"{name}: {', '.join([card.get('name', 'NVIDIA'), *clocks])}"
    highest = card.get("sm_mhz_max")
    if not clocks or highest is None:
        yield Finding(GOOD, said)
    else:
        text = f"{said} now; clocks follow the work and the temperature unless they are locked"
        yield Finding(KNOW, text, f"sudo nvidia-smi -i {index} -lgc {highest},{highest}")
    if card.get("persistence") is False:
        text = f"{name}: persistence mode is off, so that the driver is loaded anew when nothing uses the card"
        yield Finding(BAD, text, f"sudo nvidia-smi -i {index} -pm 1")
    elif card.get("persistence"):
        yield Finding(GOOD, f"{name}: persistence mode is on")
    yield from _power(index, card)
    yield from _company(index, card)


def _power(index: int, card: Card) -> Iterator[Finding]:
    limit, usual = card.get("power_limit_w"), card.get("power_default_w")
    if limit is not None and usual is not None and limit < usual:
        text = f"GPU {index}: its power is limited to {limit:.0f} W of {usual:.0f} W"
        yield Finding(KNOW, text, f"sudo nvidia-smi -i {index} -pl {usual:.0f}")
    slowed = card.get("slowed_by")
    if slowed:
        yield Finding(
            BAD, f"GPU {index}: it is slowed down now by {listed(slowed)}", f"nvidia-smi -i {index} -q -d PERFORMANCE"
        )
    elif slowed is not None:
        yield Finding(GOOD, f"GPU {index}: nothing slows it down now")


def _company(index: int, card: Card) -> Iterator[Finding]:
    """Who else uses the card."""
    processes, busy = card.get("processes"), card.get("busy")
    if processes:
        said = []
        for it in processes:
            memory = "" if it["memory_bytes"] is None else f", {units.size(it['memory_bytes'])}"
            said.append(f"{it['name'] or 'process'} ({it['pid']}{memory})")
        text = f"GPU {index}: {len(said)} other process{'' if len(said) == 1 else 'es'} on it: {listed(said)}"
        yield Finding(BAD, text, f"nvidia-smi -i {index}")
    elif busy is not None and busy > _IDLE:
        yield Finding(
            BAD, f"GPU {index}: it is busy {units.share(busy)} of the time with somebody else's work", "nvidia-smi"
        )
    elif processes is not None:
        yield Finding(GOOD, f"GPU {index}: no other process is on it")


def noise(facts: Facts) -> Iterator[Finding]:
    """What a run could not see here."""
    found = facts["noise"]
    if found is not None:
        yield _noise(found)


def _noise(found: Noise) -> Finding:
    if found["problem"] is not None:
        return Finding(BAD, f"a small model does not run on the CPU: {found['problem']}")
    seen = visible(found)
    if seen is None:
        return Finding(
            BAD, f"in {found['seconds']:g} s there were too few blocks to tell: this machine is very slow or busy"
        )
    apart = f"two identical lanes were {units.share(abs(found['ratio'] - 1), 1)} apart over {found['pairs']} pairs of blocks"
    text = f"{apart}: a run of {_RUN_S:g} s per mode sees differences from about {units.share(seen, 1)} on"
    if seen <= _SAME:
        return Finding(GOOD, text)
    if seen <= _COARSE:
        return Finding(KNOW, text)
    return Finding(BAD, f"{text}: measure when nothing else runs", "ps -eo pcpu,pid,comm --sort=-pcpu | head")


def visible(found: Noise) -> float | None:
    """The smallest difference that a run of `_RUN_S` could see, as a share; None where there are too few pairs.

    Half of the interval of the ratio, which shrinks with the square root of the time; what two identical lanes were apart
    does not go away with time, as it comes with the process.
    """
    interval = found.get("ci95")
    if interval is None:
        return None
    half = (interval[1] - interval[0]) / 2 * math.sqrt(found["seconds"] / _RUN_S)
    # Within its interval the distance is chance, and shrinks with it.
    known = 0.0 if interval[0] <= 1 <= interval[1] else abs(found["ratio"] - 1)
    return max(half, known)
