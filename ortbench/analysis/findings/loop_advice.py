"""What the figures of a loop mean, from the result alone."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ortbench.analysis.comparing.pairs import without_interval
from ortbench.analysis.findings.phrases import NO_DIFFERENCE, NOTHING, is_told, quickest, times_as_fast
from ortbench.analysis.steps_and_stages import growth_ns, is_first_apart, law
from ortbench.core.units import duration, rate, ratio, share, size
from ortbench.model.modes import CPU, LATENCY, SHARED, mode_of
from ortbench.model.result import OK, Case, Result
from ortbench.model.schema import Loop

_ENOUGH_STEPS = 3  # so many tell whether steps get longer

RESIDENT = mode_of(CPU).without_copies  # in which the state stays on the device


def loop_sentences(result: Result, loop: Loop) -> list[str]:
    return [
        *_on_host(result), *_kept(result, loop), *_beside_state(result), *_growth(result, loop), *_first(result, loop),
        *_shared(result),
    ]  # fmt: skip


def loop_headline(result: Result) -> str:
    cpu, resident = result.case(CPU), result.case(RESIDENT)
    found = quickest(result)
    if found is None:
        return NOTHING
    if result.target["memory"]["kind"] == "host":
        return f"{result.target['ep']} computes in host memory: no state crosses to a device"
    if cpu is not None and resident is not None and resident.speedup is not None and resident.speedup.ci95:
        if not is_told(resident.speedup.ci95):
            return "Whether state on the device makes a loop faster cannot be told from noise"
        times = resident.speedup.value
        kept = "" if times > 1 else "not "
        return f"A loop is {kept}faster with its state on the device: {ratio(times)} times as fast"
    return f"{rate(found[0].value('step_throughput') or 0)} steps a second with {found[0].mode}"


def _on_host(result: Result) -> list[str]:
    if result.target["memory"]["kind"] != "host":
        return []
    return [
        f"{result.target['ep']} computes in host memory: no state crosses to a device. The other modes are IO binding, so the "
        "differences show the cost of calls and of allocating outputs, not of a transfer."
    ]


def _kept(result: Result, loop: Loop) -> list[str]:
    """What keeping the state on the device brings."""
    cpu, resident = result.case(CPU), result.case(RESIDENT)
    if cpu is None or resident is None or resident.speedup is None or result.target["memory"]["kind"] == "host":
        return []
    before = cpu.median(LATENCY)
    if before is None:
        return []
    times, interval = resident.speedup.value, resident.speedup.ci95
    said = f"{RESIDENT} is {times_as_fast(resident.speedup, CPU)}"
    if interval is None:
        return [f"{said}; {without_interval(result)}."]
    if not is_told(interval):
        return [f"{said}: {NO_DIFFERENCE}"]
    if times <= 1:
        return [f"{said}: keeping the state on the device does not pay here."]
    part = 1 - 1 / times
    saved = before * part / loop["steps"]
    moved = state_bytes(cpu)
    average = " on average" if loop["grows"] else ""
    what = "" if not moved else f": {size(moved)} of state a step{average}, in and out together, stay where they are"
    return [f"{said}{what}. That saves ≈{duration(saved)} a step, ≈{share(part)} of it."]


def _beside_state(result: Result) -> list[str]:
    """What is copied in a step though the state stays, and how it could stay too."""
    resident = result.case(RESIDENT)
    if resident is None or result.target["memory"]["kind"] == "host" or not resident.steps_ns:
        return []
    there, back = _mean(resident.step_copies("step_h2d")), _mean(resident.step_copies("step_d2h"))
    ways = [f"{size(count)} {way}" for count, way in ((there, "in"), (back, "out")) if count]
    options = [option for option, count in (("--resident IN", there), ("--keep OUT", back)) if count]
    if not ways:
        return []
    what = {
        "--resident IN": "an input that is the same in all steps",
        "--keep OUT": "an output that the host needs after the last step only",
    }
    hint = " and ".join(f"{option} ({what[option]})" for option in options)
    leave = "leaves" if len(options) == 1 else "leave"
    return [f"A step of {RESIDENT} still copies {' and '.join(ways)} that are no state: {hint} {leave} them there."]


def state_bytes(case: Case) -> float | None:
    """What is copied both ways in a step because of the state, on average, bytes; None where not known."""
    means = [_mean(value) for value in (case.step_copies("state_h2d"), case.step_copies("state_d2h"))]
    known = [value for value in means if value is not None]
    return sum(known) if len(known) == len(means) else None


def _mean(value: int | Sequence[int] | None) -> float | None:
    return value if value is None or isinstance(value, int) else sum(value) / len(value)


def _growth(result: Result, loop: Loop) -> list[str]:
    """By how much a step takes longer with each step, where the state grows, and with which modes it does not."""
    if not loop["grows"]:
        return []
    apart, found, steady = is_first_apart(result), [], []
    for case in result.cases:
        if case.status != OK or not case.steps_ns or len(case.steps_ns) - apart < _ENOUGH_STEPS:
            continue
        each = growth_ns(case)
        if each is not None and each > 0:
            found.append(f"{duration(each)} with {case.mode}")
        else:
            steady.append(case.mode)
    if not found:
        return []
    cpu = result.case(CPU)
    state = None if cpu is None else cpu.step_copies("state_h2d")
    line = law(state, False) if isinstance(state, list) else None
    why = "" if line is None or not line[1] else f", as the state grows by {size(line[1])}"
    rest = f"; with {' and '.join(steady)} no growth can be told from noise" if steady else ""
    return [f"Each step takes longer than the one before it{why}: by {', '.join(found)}{rest}."]


def _first(result: Result, loop: Loop) -> list[str]:
    """What the first step takes where it has a shape of its own, beside the median of the later ones."""
    first = loop["first"]
    timed = [(case.mode, case.steps_ns) for case in result.cases if case.status == OK and case.steps_ns]
    if not first or not timed:
        return []
    said = ", ".join(f"{name}={size}" for name, size in first.items())
    times = [f"{duration(ns[0])}{_later(ns[1:])} with {mode}" for mode, ns in timed]
    return [f"The first step ({said}) takes {', '.join(times)}."]


def _later(ns: Sequence[int]) -> str:
    return f" (a later one {duration(median(ns))})" if ns else ""


def _shared(result: Result) -> list[str]:
    """What one buffer for past and present brings over two in turns; nothing where the intervals of both have times in common."""
    case, other = result.case(SHARED.name), result.case(mode_of(SHARED.name).like)
    one, two = (None if it is None else it.stats(LATENCY) for it in (case, other))
    if one is None or two is None:
        return []
    said = f"One buffer for past and present ({SHARED.name}) instead of two in turns ({RESIDENT}):"
    if one.ci95[0] <= two.ci95[1] and two.ci95[0] <= one.ci95[1]:
        return [f"{said} {NO_DIFFERENCE}"]
    return [f"{said} {ratio(two.median / max(one.median, 1))} times as fast."]
