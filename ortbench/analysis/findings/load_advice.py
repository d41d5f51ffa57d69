"""What the figures of a load mean. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations, takewhile
from operator import itemgetter

from ortbench.analysis.comparing.claims import FASTER, NOISY, Claim, claim_between
from ortbench.analysis.findings.finding import Finding, Weight, merged
from ortbench.analysis.findings.node_advice import are
from ortbench.analysis.findings.phrases import NOTHING, times, within
from ortbench.analysis.findings.program import again, how_to_write
from ortbench.analysis.findings.slo_advice import busy_doubt, of_groups, points, slo_answer, slo_findings, slo_of_rates
from ortbench.analysis.findings.speedups import MORE_PROCESSES, claims_text, condition
from ortbench.analysis.loads.levels import (
    CONCURRENCY,
    FULL,
    RATE,
    asked_of,
    at,
    by_name,
    has_rates,
    interval,
    is_full,
    is_of_few,
    knee_is_open,
    knee_of,
    latency_of,
    measured,
    modes_of,
    most,
    over,
    quotient,
    rate_of,
    tail_of,
)
from ortbench.analysis.loads.load_levels import LATE_NS, LOCK_MATTERS
from ortbench.analysis.noise import allows_within, cannot_tell, is_busy
from ortbench.core.safe_text import listed
from ortbench.core.stats import Value
from ortbench.core.units import digits, duration, rate, ratio, share
from ortbench.model.modes import (
    ALL_SHAPES,
    APART,
    CPU,
    FAIRNESS,
    GENERATOR_LAG,
    GIL_WAIT,
    LATE_SHARE,
    LATENCY,
    MIXED,
    MIXING,
    SERVICE_TIME,
    SM_CLOCK,
    THROUGHPUT,
    UTILISATION,
    mode_of,
)
from ortbench.model.result import Case, Result
from ortbench.model.schema import PROCESS, Knee

_UNFAIR = 0.95  # of Jain's index: below it some clients are clearly done with fewer inferences
_STRETCHED = 1.1  # how many times as long as back to back an inference must take to be told
_UNEVEN = 1.25  # how many times as long as at another rate it must take to be told
_LOADED = 0.8  # the utilisation of a worker that is not idle
_FALLEN = 0.95  # below which part of the clock back to back one has fallen
_LATE = 0.001  # from which share of late requests on they are told
_GROWN = 1.05  # by which factor latency must grow beyond the knee to be told
_DROPPED = 0.9  # below which part of the peak inferences/s have dropped


def load_findings(result: Result) -> list[Finding]:
    """What the load points mean; nothing where none was measured."""
    modes = modes_of(result)
    of_modes = [find(result, mode) for find in (_mixing, _knee, _gil, _unfair) for mode in modes]
    return [
        *_best(result),
        *slo_findings(result),
        *_beyond(result),
        *_noisy_knees(result),
        *(it for it in of_modes if it is not None),
        *(_uneven(result) or _stretched(result)),
        *_full(result),
        *_late(result),
    ]


def load_headline(result: Result) -> str:
    if answer := slo_answer(result):
        return answer
    if leaders := _leaders(result):
        peaks = _peaks(result)
        said = [f"{rate(rate_of(peaks[mode]))} inferences/s with {mode}{needs}" for mode, needs in leaders]
        best = peaks[leaders[0][0]]
        levels = measured(result, CONCURRENCY, best.mode)
        bend, knee = _bend(levels), knee_of(levels)
        told = bend is not None and bend is not levels[-1] and not _is_noise(result, levels, bend)
        clients = f"{_reach(knee)} of the peak of" if knee is not None and told else f"{at(best).text}:"
        return f"{clients} {', '.join(said)}"
    if of_rates := slo_of_rates(result):
        return of_rates
    opened = [level for level in measured(result, RATE) if not is_full(level)]
    if opened:
        last = max(opened, key=lambda level: at(level).value)
        stat = tail_of(last)
        return f"At {at(last).text} {stat} is {duration(by_name(latency_of(last), stat))} with {last.mode}"
    full = has_rates(result) and measured(result, RATE)
    return "Requests arrive faster than they are served" if full else NOTHING


def _reach(knee: Knee) -> str:
    count = knee["concurrency"]
    return f"{'1 client reaches' if count == 1 else f'{count} clients reach'} {share(knee['share_of_peak'])}"


def _with(levels: Sequence[Case], metric: str) -> list[tuple[float, Case]]:
    """The load points that have a metric, each with its figure."""
    return [(found, level) for level in levels if (found := level.value(metric)) is not None]


# Closed loops


def _peaks(result: Result) -> dict[str, Case]:
    """The load point of closed loops with most inferences/s, by mode."""
    found = {mode: most(measured(result, CONCURRENCY, mode)) for mode in modes_of(result)}
    return {mode: level for mode, level in found.items() if level is not None}


def _base(peaks: Mapping[str, Case]) -> str | None:
    """The mode that others are compared with: `cpu-tensors`, else the first one."""
    return CPU if CPU in peaks else next(iter(peaks), None)


def _leaders(result: Result) -> list[tuple[str, str]]:
    """The modes that complete most, see `_of_groups`, of those that measurably complete more than the one they are compared with;
    that one itself where none of its group does."""
    peaks = _peaks(result)
    base = _base(peaks)
    if base is None:
        return []
    better = {mode: rate_of(it) for mode, it in peaks.items() if _claim(result, peaks[base], it) == FASTER}
    found = of_groups(result, better)
    if not any(mode_of(mode).on_device is mode_of(base).on_device for mode, _ in found):
        found.insert(0, (base, condition(result, base)))
    return found


def _best(result: Result) -> list[Finding]:
    """Which mode completes most compared with `cpu-tensors`, of both groups; that itself where none completes more."""
    peaks = _peaks(result)
    base = _base(peaks)
    if base is None or len(peaks) < 2:
        return []
    of_base = f"{rate(rate_of(peaks[base]))} {at(peaks[base]).phrase}"
    found = []
    for mode, needs in _leaders(result):
        if mode != base:
            speedup = _over(peaks[base], peaks[mode])
            more = f"{times(speedup)} those of {base}{within(speedup.ci95, digits)}{needs}"
            what = f"{mode} completes {rate(rate_of(peaks[mode]))} inferences/s {at(peaks[mode]).phrase}, {more}"
            program = how_to_write(result, mode)
            found.append(Finding(what, f"{base} completes {of_base}", program, Weight.ANSWER, "good"))
    if found:
        return found
    claims = {mode: _claim(result, peaks[base], it) for mode, it in peaks.items() if mode != base}
    if NOISY in claims.values():
        what = cannot_tell("which mode completes the most inferences/s")
        others = (f"{mode} {rate(rate_of(peaks[mode]))} {at(peaks[mode]).phrase}" for mode in claims)
        return [
            Finding(
                what, ", ".join([f"by the figures {base} {of_base}", *others]), weight=Weight.ANSWER, tone="unclear"
            )
        ]
    what = f"No mode completes measurably more inferences/s than {base}, {of_base}"
    return [Finding(what, claims_text(claims.items()), weight=Weight.ANSWER)]


def _over(base: Case, level: Case) -> Value:
    """How many times as many inferences a load point completes as another."""
    found = quotient(rate_of(level), rate_of(base), interval(level, THROUGHPUT), interval(base, THROUGHPUT))
    return Value(found.ratio, found.ci95)


def _claim(result: Result, base: Case, level: Case) -> Claim:
    return claim_between(result, base, level, _over(base, level))


def peak_claim(result: Result, level: Case) -> Claim:
    """What the peak of a mode says against that of the mode that others are compared with, which is itself `FASTER`."""
    peaks = _peaks(result)
    base = _base(peaks)
    return FASTER if base is None or level.mode == base else _claim(result, peaks[base], level)


def _beyond(result: Result) -> list[Finding]:
    """The modes whose most clients still complete more, so that the peak may lie beyond."""
    found: dict[str, tuple[str, str]] = {}
    for mode in modes_of(result):
        levels = measured(result, CONCURRENCY, mode)
        if (bend := _bend(levels)) is not None and bend is levels[-1] and not _is_noise(result, levels, bend):
            more = rate_of(levels[-1]) / max(map(rate_of, levels[:-1])) - 1
            count = at(levels[-1]).value
            tried = ",".join(f"{count * scale:g}" for scale in (1, 2, 4))
            found[mode] = (f"{share(more)} more inferences/s than {at(levels[-2]).value:g} with {mode}", tried)
    return [
        Finding(
            f"The peak may lie beyond {tried.partition(',')[0]} clients with {modes}",
            f"{tried.partition(',')[0]} clients complete {listed([found[mode][0] for mode in found if found[mode][1] == tried])}",
            again(result, "--concurrency", tried),
        )
        for modes, _, tried in merged((mode, tried) for mode, (_, tried) in found.items())
    ]


def _knee(result: Result, mode: str) -> Finding | None:
    """How many clients are worth it, and what becomes of latency beyond."""
    levels = measured(result, CONCURRENCY, mode)
    bend, knee = _bend(levels), knee_of(levels)
    if bend is None or knee is None:
        return None
    last = levels[-1]
    if bend is last or _is_noise(result, levels, bend):  # see `_noisy_knees`
        return None
    stat = tail_of(bend, last)
    there, then, peak = by_name(latency_of(bend), stat), by_name(latency_of(last), stat), max(map(rate_of, levels))
    evidence = "more clients complete no more"
    if then > there * _GROWN:
        evidence = f"more clients add latency, not inferences/s: {stat} {duration(there)} {at(bend).phrase}, {duration(then)} {at(last).phrase}"
    if rate_of(last) < _DROPPED * peak and _claim(result, last, bend) == FASTER:
        evidence += f"; {at(last).phrase} the rate falls to {share(rate_of(last) / peak)} of the peak"
    return Finding(
        f"{_reach(knee)} of the peak of {rate(peak)} inferences/s with {mode}", evidence, weight=Weight.ANSWER
    )


def _noisy_knees(result: Result) -> list[Finding]:
    """The modes of which noise, or processes or blocks that differ, leave open how many clients are worth it."""
    bends = {mode: bend for mode in modes_of(result) if (bend := noisy_knee(result, mode)) is not None}
    figures = {mode: f"{rate(rate_of(bend))} inferences/s {at(bend).phrase}" for mode, bend in bends.items()}
    asked = "how many clients reach the peak with"
    if bends and is_busy(result):
        said = [*figures.values()] if len(bends) == 1 else [f"{mode} {it}" for mode, it in figures.items()]
        what = cannot_tell(f"{asked} {listed([*bends])}")
        return [Finding(what, f"by the figures {', '.join(said)}", weight=Weight.ANSWER, tone="unclear")]
    next_ = again(result, "--processes", f"{MORE_PROCESSES}")
    why = {mode: "Processes" if bend.first_rounds else "Blocks" for mode, bend in bends.items()}
    return [
        Finding(
            f"{why[mode]} differ too much to tell {asked} {mode}",
            f"{figures[mode]}{_beside(result, bend)}",
            next_,
            Weight.ANSWER,
            "unclear",
        )
        for mode, bend in bends.items()
    ]


def _beside(result: Result, bend: Case) -> str:
    """How many times as many inferences other numbers of clients complete, between which figures."""
    others = [it for it in measured(result, CONCURRENCY, bend.mode) if it is not bend]
    known = [(it, ci95) for it in others if (ci95 := over(it, bend).ci95) is not None]
    said = ", ".join(f"{at(it).phrase} {ratio(low)} to {times(high)} as many" for it, (low, high) in known)
    return f"; {said}" if said else ""


def _bend(levels: Sequence[Case]) -> Case | None:
    """The load point of the knee; None where there is none."""
    knee = knee_of(levels)
    return None if knee is None else next(it for it in levels if at(it).value == knee["concurrency"])


def noisy_knee(result: Result, mode: str) -> Case | None:
    """The knee of a mode that noise of the machine may have made, or that intervals leave open, which is then none."""
    levels = measured(result, CONCURRENCY, mode)
    bend = _bend(levels)
    return bend if bend is not None and _is_noise(result, levels, bend) else None


def _is_noise(result: Result, levels: Sequence[Case], bend: Case) -> bool:
    """Whether noise of the machine may have made the knee: it does not complete more for certain than fewer clients do; or intervals leave
    open which it is."""
    before = levels.index(bend) - 1
    if knee_is_open(levels, bend):
        return True
    return before >= 0 and is_busy(result) and _claim(result, levels[before], bend) != FASTER


def _mixing(result: Result, mode: str) -> Finding | None:
    """What a mix of shapes does to the p99, at the load point where it surely does most, and with which shape most."""
    levels = [*measured(result, CONCURRENCY, mode), *measured(result, RATE, mode)]
    told = [(it, level) for level in levels if isinstance(it := level.metrics.get(f"{MIXING}.{ALL_SHAPES}"), Value)]
    if not told:
        return None
    surely = [(it, level) for it, level in told if it.ci95 is not None and it.ci95[0] > 1]
    found, level = max(surely or told, key=lambda it: it[0].value)
    figures = f"{times(found)} that of the same shapes apart {at(level).phrase}{within(found.ci95, digits)}"
    if not surely:
        return Finding("Mixed shapes: no measurably longer p99", f"at most {figures}", weight=Weight.ANSWER)
    ratios = [(value, name) for name in result.part["shapes"] if (value := level.value(f"{MIXING}.{name}")) is not None]
    evidence = ""
    if ratios:
        value, name = max(ratios)
        mix, apart = (level.stats(f"{key}.{name}") for key in (MIXED, APART))
        if mix is not None and apart is not None:
            evidence = f"most with {name}: {duration(mix.p99)} instead of {duration(apart.p99)}, {times(value)}"
    return Finding(f"Mixed shapes: the p99 is {figures}", evidence, weight=Weight.ANSWER)


def _gil(result: Result, mode: str) -> Finding | None:
    """How much of the clients' time went into waiting for the GIL, at the load point where it is most."""
    levels = [*measured(result, CONCURRENCY, mode), *measured(result, RATE, mode)]
    waited, level = max(_with(levels, GIL_WAIT), key=itemgetter(0), default=(0.0, None))
    if level is None or waited <= LOCK_MATTERS:
        return None
    what = f"{mode}: clients waited for the GIL {share(waited)} of the time {at(level).phrase}"
    if result.part["sessions"] == PROCESS:
        return Finding(what)
    evidence = "a process for each client avoids that but can be slower all the same; to compare, measure it too"
    return Finding(what, evidence, again(result, "--sessions", PROCESS))


def _unfair(result: Result, mode: str) -> Finding | None:
    """Clients that are not served alike, at the load point where it is worst."""
    fair, level = min(_with(measured(result, CONCURRENCY, mode), FAIRNESS), key=itemgetter(0), default=(1.0, None))
    if level is None or fair >= _UNFAIR:
        return None
    count = at(level).value
    evidence = (
        f"Jain's fairness index {ratio(fair)}, as if {ratio(fair * count, 1)} of {count:g} had shared the inferences"
    )
    return Finding(
        f"{mode}: clients are not served equally {at(level).phrase}", evidence, weight=Weight.COST, tone="bad"
    )


# Open loops


def _stretched(result: Result) -> list[Finding]:
    """How much longer an inference takes at the lowest rate than back to back, and what the clock does; not where chance or noise of
    the machine may have made it.

    At the lowest rate requests meet each other least, so what is left is a device and a CPU that went to sleep.
    """
    told: dict[str, list[str]] = {}
    unclear: set[str] = set()  # of the rates, where no clock shows the reason
    for mode in modes_of(result):
        levels, alone = measured(result, RATE, mode), result.case(mode)
        before = None if alone is None else alone.stats(LATENCY)
        after = levels[0].stats(SERVICE_TIME) if levels else None
        if alone is None or before is None or after is None or after.median < _STRETCHED * before.median:
            continue
        base, service, least = before.median, after.median, after.ci95[0] / max(before.ci95[1], 1)
        clocks = _clocks(alone.value(SM_CLOCK), levels[0].value(SM_CLOCK))
        if least <= 1 or not (clocks or allows_within(result, levels[0], least, {})):
            continue
        took = (
            f"{duration(service)} instead of {duration(base)}, {ratio(service / max(base, 1), 1)}×, with {mode}{clocks}"
        )
        told.setdefault(at(levels[0]).phrase, []).append(took)
        unclear |= set() if clocks else {at(levels[0]).phrase}
    what = "An inference takes longer {} than back to back"
    return [
        Finding(what.format(rate), "; ".join([*took, *[_IDLE] * (rate in unclear)]), weight=Weight.COST)
        for rate, took in told.items()
    ]


def _uneven(result: Result) -> list[Finding]:
    """How much longer an inference takes at one rate than at another, where one worker serves all and that is not idle, as at a lower
    rate: the rate does not make it."""
    setup = result.load
    if setup is None or setup["workers"] != 1:
        return []
    found: list[tuple[float, str]] = []
    for mode in modes_of(result):
        taken = [(took, it) for it in measured(result, RATE, mode) if (took := it.stats(SERVICE_TIME))]
        for (short, quick), (long, slow) in permutations(taken, 2):
            idle = at(slow).value < at(quick).value and (slow.value(UTILISATION) or 0.0) < _LOADED
            if short.ci95[1] < long.ci95[0] and not idle:
                both = f"{duration(long.median)} {at(slow).phrase}, {duration(short.median)} {at(quick).phrase}"
                found.append((long.median / max(short.median, 1), f"{both}, with {mode}"))
    most, said = max(found, default=(0.0, ""))
    if most < _UNEVEN:
        return []
    what = f"The machine's speed changed during the load: an inference took {ratio(most, 1)}× as long at one rate as at another"
    limits = "; an SLO that is met here can be violated at another time" if asked_of(result) else ""
    return [Finding(what, f"{said}{limits}", weight=Weight.COST, tone="unclear")]


_IDLE = "the likely reason is the idle time between requests, in which clocks fall, caches get cold and threads sleep"


def _clocks(before: float | None, after: float | None) -> str:
    if before is None or after is None or after >= _FALLEN * before:
        return ""
    return f" (the SM clock falls from {before:g} to {after:g} MHz)"


def _full(result: Result) -> list[Finding]:
    """The rates that saturate the workers."""
    # From the highest down: at a rate below one that is served it is the machine's doing, see `_uneven`.
    full = {mode: [*takewhile(is_full, reversed(measured(result, RATE, mode)))][::-1] for mode in modes_of(result)}
    few = any(is_of_few(result, it) for levels in full.values() for it in levels)
    why = f"the workers were busy {share(FULL)} of the time or more, so queue delay depends on how long the load lasts, and no mean is told{busy_doubt(result)}"
    why += "; seen in fewer than three processes" * few
    return [
        Finding(
            f"{modes} {('seem' if many > 1 else 'seems') if few else are(many)} saturated {where}",
            why,
            weight=Weight.COST,
        )
        for modes, many, where in merged((mode, points(levels)) for mode, levels in full.items() if levels)
    ]


def _late(result: Result) -> list[Finding]:
    """Requests that the generator itself issued late, at the load point where most were."""
    late, level = max(_with(measured(result, RATE), LATE_SHARE), key=itemgetter(0), default=(0.0, None))
    if level is None or late < _LATE:
        return []
    lag = level.stats(GENERATOR_LAG)
    by = "" if lag is None else f", by up to {duration(lag.max)},"
    what = f"The generator issued {share(late)} of the requests more than {duration(LATE_NS)} late{by} {at(level).phrase} with {level.mode}"
    return [
        Finding(
            what,
            "latency counts from when they were due, so that delay of the machine is in it",
            weight=Weight.COST,
            tone="unclear",
        )
    ]
