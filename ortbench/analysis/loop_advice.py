"""What the figures of a loop mean, from the result alone."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.loops import is_first_apart, law, slope_ns, steps_per_s
from ortbench.modes import CPU, SHARED, TOTAL, mode_of
from ortbench.result import OK, Case, Result
from ortbench.units import duration, rate, ratio, share, size

_TELLING = 0.02  # so much of a step's time must the loop's growth make up to be told

RESIDENT = mode_of(CPU).without_copies  # in which the state stays on the device


def loop_sentences(result: Result) -> list[str]:
    """What a person can act on, most important first; of a result with a loop."""
    return [*_on_host(result), *_kept(result), *_growth(result), *_first(result), *_shared(result)]


def loop_headline(result: Result) -> str:
    """What there is to say first, in a few words."""
    cpu, resident = result.case(CPU), result.case(RESIDENT)
    assert result.loop is not None
    count = result.loop["steps"]
    if cpu is not None and resident is not None and resident.vs_cpu is not None:
        times = ratio(resident.vs_cpu["ratio"])
        return f"A step is {times} times as fast with its state on the device"
    measured = [case for case in result.cases if case.status == OK and case.median(TOTAL)]
    if not measured:
        return "Nothing was measured"
    fastest = min(measured, key=lambda case: case.median(TOTAL) or 0)
    return f"{rate(steps_per_s(fastest, count) or 0)} steps a second with {fastest.mode}"


def _on_host(result: Result) -> list[str]:
    if result.target["memory"]["kind"] != "host":
        return []
    return [
        f"{result.target['ep']} computes in host memory: no state crosses to a device. The other modes are IO binding, so the "
        "differences show the cost of calls and of allocating outputs, not of a transfer."
    ]


def _kept(result: Result) -> list[str]:
    """What keeping the state on the device brings."""
    cpu, resident = result.case(CPU), result.case(RESIDENT)
    if cpu is None or resident is None or resident.vs_cpu is None or result.target["memory"]["kind"] == "host":
        return []
    before = cpu.median(TOTAL)
    assert result.loop is not None
    if before is None:
        return []
    times, interval = resident.vs_cpu["ratio"], resident.vs_cpu["ci95"]
    said = f"{RESIDENT} is {ratio(times)} times as fast as {CPU}"
    said += "" if interval is None else f" (95 %: {ratio(interval[0])} to {ratio(interval[1])})"
    if interval is not None and interval[0] <= 1 <= interval[1]:
        return [f"{said}: no difference can be told from noise."]
    if times <= 1:
        return [f"{said}."]
    part = 1 - 1 / times
    saved = before * part / result.loop["steps"]
    moved = state_bytes(cpu)
    what = "" if moved is None else f": {size(moved)} of state a step (mean) stay where they are"
    return [f"{said}{what}, which saves {duration(saved)} a step, {share(part)} of it."]


def state_bytes(case: Case) -> float | None:
    """What is copied both ways in a step because of the state, on average, bytes; None where not known."""
    means = [_mean(value) for value in (case.state_bytes_in, case.state_bytes_out)]
    known = [value for value in means if value is not None]
    return sum(known) if len(known) == len(means) else None


def _mean(value: int | Sequence[int] | None) -> float | None:
    return value if value is None or isinstance(value, int) else sum(value) / len(value)


def _growth(result: Result) -> list[str]:
    """By how much a step takes longer with each step, where it does."""
    assert result.loop is not None
    found = []
    for case in result.cases:
        if case.status != OK or not case.steps_ns:
            continue
        each = slope_ns(case.steps_ns, is_first_apart(result))
        if each is not None and each * len(case.steps_ns) > _TELLING * case.steps_ns[-1]:
            found.append(f"{duration(each)} with {case.mode}")
    if not found or not result.loop["grows"]:
        return []
    cpu = result.case(CPU)
    line = None if cpu is None or not isinstance(cpu.state_bytes_in, list) else law(cpu.state_bytes_in, False)
    why = "" if line is None or not line[1] else f", as the state grows by {size(line[1])}"
    return [f"Each step takes longer than the one before it{why}: by {', '.join(found)}."]


def _first(result: Result) -> list[str]:
    assert result.loop is not None
    first = result.loop["first"]
    if not first:
        return []
    said = ", ".join(f"{name}={size}" for name, size in first.items())
    times = [
        f"{duration(case.steps_ns[0])} with {case.mode}" for case in result.cases if case.status == OK and case.steps_ns
    ]
    return [f"The first step ({said}) takes {', '.join(times)}."] if times else []


def _shared(result: Result) -> list[str]:
    case, other = result.case(SHARED.name), result.case(mode_of(SHARED.name).like)
    one, two = (None if it is None else it.median(TOTAL) for it in (case, other))
    if one is None or two is None:
        return []
    return [f"One buffer for past and present: {ratio(two / max(one, 1))} times as fast as two in turns ({RESIDENT})."]
