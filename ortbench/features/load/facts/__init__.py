"""The facts of loads by clients and by rate, and their sentences: the peak, the knee, mixes, the GIL, idle machines, saturation, an SLO."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from operator import itemgetter

from ortbench.analysis.advice import Weight, again, how_to_write
from ortbench.analysis.derive import STILL, may_spin
from ortbench.analysis.intervals import ABOVE, verdict_of
from ortbench.analysis.load_points import LEAST, block_figures, by_name, interval, is_full, latency_of, rate_of
from ortbench.analysis.noise import is_busy, quiet_options, supports_within
from ortbench.analysis.speedups import FASTER, NOISY, UNKNOWN, may_be_faster
from ortbench.core.safe_text import join_words
from ortbench.core.stats import FEW, Value, of_processes
from ortbench.core.units import rate_asked
from ortbench.facts import Fact, Quantity, Values, condition, ns, per_s, share, threads_and_cores, times
from ortbench.facts.run import MORE_PROCESSES
from ortbench.facts.sentences import LONGER, PROGRAM, WAIT, Sentence
from ortbench.features.load.analysis import (
    CONCURRENCY,
    RATE,
    bend_of,
    best_of,
    claim_over,
    has_rates,
    is_open,
    lack_of_requests,
    load_point_of,
    measured_cases,
    meets,
    meets_slo,
    modes_of,
    searched_rates,
    share_of_peak,
    slo_cases,
    slo_limits,
    slo_text,
    tail_of,
    times_longer,
    times_over,
    undecided_statistics,
)
from ortbench.features.load.facts import padding
from ortbench.features.load.model import PROCESS, SHARED, SloRate
from ortbench.model.modes import (
    CPU,
    CPU_CORES,
    GENERATOR_LAG,
    GIL_WAIT,
    LATE_SHARE,
    LATENCY,
    SERVICE_TIME,
    THROUGHPUT,
    UTILISATION,
    mode_of,
)
from ortbench.model.result import Case, Result

point_bests = padding.point_bests
_GIL_MATTERS = 0.03  # share of the clients' time, above which it is told that they wait for it
_STRETCHED = 1.1  # how many times as long as back to back an inference must take to be told
_LATE = 0.001  # from which share of late requests on they are told
_GROWN = 1.05  # by which factor latency must grow beyond the knee to be told
_MOST_TIMES = 30.0  # as long to measure is worth a line; beyond that a figure is as good as its limit
_TRIES = 4  # that a search has for one rate, for certain


def kind_facts(result: Result) -> Iterator[Fact]:
    yield from slo_facts(result)
    yield from _pools(result)
    yield from _peak(result)
    for mode in modes_of(result):
        yield from _knee(result, mode)
    for mode in modes_of(result):
        yield from padding.mixing_facts(result, mode)
        yield from _gil(result, mode)
        yield from _saturation(result, mode)
    yield from padding.switching_facts(result)
    yield from _paced_inference(result)
    yield from _late(result)
    yield from _spinning(result)


def _cases_with(cases: Sequence[Case], metric: str) -> list[tuple[float, Case]]:
    """The load points that have a metric, each with its figure."""
    return [(found, case) for case in cases if (found := case.value(metric)) is not None]


def _pools(result: Result) -> Iterator[Fact]:
    """More threads than cores, of all sessions together, where each has no more of its own."""
    threads, cores = threads_and_cores(result)
    served = max((load_point_of(it).value for it in measured_cases(result, CONCURRENCY)), default=0.0)
    sessions = 1 if result.part["sessions"] == SHARED else int(max(served, has_rates(result) * result.part["workers"]))
    if 1 < threads <= cores < sessions * threads:
        values: Values = {"threads": sessions * threads, "sessions": sessions, "cores": Quantity(cores, "1")}
        fewer = again(result, "--intra-op-threads", str(max(1, int(cores / sessions))))
        yield Fact("threads", "of-sessions", "", values, fewer)


def _rate(case: Case) -> Quantity:
    return per_s(rate_of(case), interval(case, THROUGHPUT))


def _peak(result: Result) -> Iterator[Fact]:
    """Which mode completes most compared with `cpu-tensors`, of both groups; that itself where none completes more."""
    best_points = {mode: best_of(measured_cases(result, CONCURRENCY, mode)) for mode in modes_of(result)}
    found = {mode: case for mode, case in best_points.items() if case is not None}
    if not found:
        return
    base = CPU if CPU in found else next(iter(found))
    values: Values = {
        "base": base,
        "base_rate": _rate(found[base]),
        "base_where": load_point_of(found[base]).phrase,
    }
    if len(found) == 1:
        yield Fact("peak", "alone", base, values, "", found[base].point)
        return
    claims = {mode: claim_over(result, found[base], it) for mode, it in found.items() if mode != base}
    best: float = 0
    for on_device in (False, True):
        group = [mode for mode, it in claims.items() if it == FASTER and mode_of(mode).on_device is on_device]
        mode = max(group, key=lambda it: rate_of(found[it]), default=None)
        if mode is not None and rate_of(found[mode]) > best:
            best = rate_of(found[mode])
            more: Values = {
                "rate": _rate(found[mode]),
                "where": load_point_of(found[mode]).phrase,
                "speedup": times(times_over(found[base], found[mode])),
                **condition(result, mode),
            }
            program = how_to_write(result, mode)
            yield Fact("peak", "more", mode, {**values, **more}, program, found[mode].point)
    if not best:
        told = {*claims.values()}
        may_be_more = UNKNOWN in told or any(
            may_be_faster(times_over(found[base], case)) for mode, case in found.items() if mode != base
        )
        verdict = "noise" if NOISY in told else "open" if may_be_more else "none-more"
        yield Fact("peak", verdict, base, values, "", found[base].point)


def _knee(result: Result, mode: str) -> Iterator[Fact]:
    """How many clients are worth it, and what becomes of latency beyond."""
    cases = measured_cases(result, CONCURRENCY, mode)
    bend = bend_of(cases)
    if bend is None:
        return
    last = cases[-1]
    values: Values = {
        "clients": int(load_point_of(bend).value), "share": share(share_of_peak(cases, bend)), "rate": _rate(bend),
    }  # fmt: skip
    if is_open(result, cases, bend):
        if not is_busy(result):  # which is said already
            yield Fact("knee", "open", mode, values, again(result, "--processes", str(MORE_PROCESSES)), bend.point)
        return
    if bend is last:
        tried = ",".join(f"{load_point_of(last).value * scale:g}" for scale in (1, 2, 4))
        more: Values = {
            "more": share(rate_of(last) / max(map(rate_of, cases[:-1])) - 1),
            "fewer": int(load_point_of(cases[-2]).value),
        }
        yield Fact("knee", "beyond", mode, {**values, **more}, again(result, "--concurrency", tried), last.point)
        return
    stat = tail_of(bend, last)
    there, then = by_name(latency_of(bend), stat), by_name(latency_of(last), stat)
    values |= {"stat": stat, "latency": ns(there), "last_latency": ns(then), "last": int(load_point_of(last).value)}
    yield Fact("knee", "latency" if then > there * _GROWN else "flat", mode, values, "", bend.point)


def _gil(result: Result, mode: str) -> Iterator[Fact]:
    """How much of the clients' time went into waiting for the GIL, at the load point where it is most."""
    cases = [*measured_cases(result, CONCURRENCY, mode), *measured_cases(result, RATE, mode)]
    waited, case = max(_cases_with(cases, GIL_WAIT), key=itemgetter(0), default=(0.0, None))
    if case is not None and waited > _GIL_MATTERS:
        is_apart = result.part["sessions"] == PROCESS
        after = "" if is_apart else again(result, "--sessions", PROCESS)
        values: Values = {"share": share(waited), "where": load_point_of(case).phrase}
        yield Fact("gil", "waits", mode, values, after, case.point)


def _paced_inference(result: Result) -> Iterator[Fact]:
    """How much longer an inference takes at the lowest rate than back to back; not where chance or noise of the machine may have made it.

    At the lowest rate requests meet each other least, so what is left is a device and a CPU that went to sleep.
    """
    for mode in modes_of(result):
        cases, alone = measured_cases(result, RATE, mode), result.case(mode)
        before = None if alone is None else alone.stats(LATENCY)
        after = cases[0].stats(SERVICE_TIME) if cases else None
        if alone is None or before is None or after is None or after.median < _STRETCHED * before.median:
            continue
        ends = after.ci95[0] / max(before.ci95[1], 1), after.ci95[1] / max(before.ci95[0], 1)
        if verdict_of(ends) == ABOVE and supports_within(result, cases[0], ends[0], {}):
            values: Values = {
                "where": load_point_of(cases[0]).phrase, "time": ns(after.median), "back_to_back": ns(before.median),
                "ratio": times(Value(after.median / max(before.median, 1), ends)),
            }  # fmt: skip
            yield Fact("paced", "slower", mode, values, "", cases[0].point)


def _saturation(result: Result, mode: str) -> Iterator[Fact]:
    """The rates that saturate the workers, from the highest down: at a rate below one that is served it is the machine's doing."""
    cases = [*takewhile(is_full, reversed(measured_cases(result, RATE, mode)))][::-1]
    if cases:
        verdict = "busy" if is_busy(result) else "saturated"
        yield Fact("saturated", verdict, mode, {"where": points_text(cases)}, "", cases[0].point)


def _spinning(result: Result) -> Iterator[Fact]:
    """That threads spin between requests: at the rate where they keep cores busy most beyond what requests can take themselves."""
    if not may_spin(result):
        return
    found: list[tuple[float, float, Value, Case]] = []
    for case in measured_cases(result, RATE):
        cores, most = case.metrics.get(CPU_CORES), _most_cores(result, case)
        if isinstance(cores, Value) and cores.ci95 is not None and verdict_of(cores.ci95, most, most) == ABOVE:
            found.append((cores.ci95[0] / most, most, cores, case))
    if found:
        _, most, cores, case = max(found, key=itemgetter(0))
        values: Values = {
            "cores": Quantity(cores.value, "1", cores.ci95), "utilisation": share(case.value(UTILISATION) or 0.0), "where": load_point_of(case).phrase,
            "most": Quantity(most, "1"),
        }  # fmt: skip
        after = "" if any(STILL[1] in word for word in result.command) else again(result, *STILL)
        yield Fact("idle-spinning", "burns", case.mode, values, after, case.point)


_WAKING_S = 200e-6  # of CPU time that a request takes at most besides: ortbench wakes up and looks at the clock


def _most_cores(result: Result, case: Case) -> float:
    """How many CPU cores a load can keep busy whose threads sleep between requests: all of them while a worker is busy, and what waking
    up takes."""
    cpu, service, rate = result.environment["cpu"], case.stats(SERVICE_TIME), load_point_of(case).value
    cores = cpu.get("usable_cores") or cpu.get("cores")
    if service is None or cores is None:
        return math.inf
    return min(1.0, rate * service.mean / 1e9) * cores + rate * _WAKING_S


def _late(result: Result) -> Iterator[Fact]:
    """Requests that the generator itself issued late, at the load point where most were."""
    late, case = max(_cases_with(measured_cases(result, RATE), LATE_SHARE), key=itemgetter(0), default=(0.0, None))
    if case is not None and late >= _LATE:
        lag = case.stats(GENERATOR_LAG)
        most = ns(0 if lag is None else lag.max)
        values: Values = {"share": share(late), "lag": most, "where": load_point_of(case).phrase}
        yield Fact("generator", "late", case.mode, values, "", case.point)


# An SLO: up to which rate or how many clients a mode meets it

Asked = Mapping[str, int]


def slo_facts(result: Result) -> Iterator[Fact]:
    asked = slo_limits(result)
    if not asked:
        return
    if found := searched_rates(result):
        order = sorted(found, key=lambda mode: -(found[mode] or {"rate": 0})["rate"])
        for mode in order:
            yield search_fact(result, mode, found[mode], asked)
        return
    for mode in modes_of(result):
        yield from _of_points(result, mode, asked)


def points_text(cases: Sequence[Case]) -> str:
    """Load points of one kind in words: ``at 10, 20 and 30 requests/s``, ``with 1 and 2 clients``."""
    if len(cases) < 2:
        return "".join(load_point_of(case).phrase for case in cases)
    are_rates = RATE in cases[0].point
    values = join_words([rate_asked(load_point_of(case).value) for case in cases])
    return f"at {values} requests/s" if are_rates else f"with {values} clients"


def search_fact(result: Result, mode: str, found: SloRate | None, asked: Asked) -> Fact:
    """The highest rate at which a mode meets an SLO; or that none does, or that the time was too short to tell."""
    values = _asked_values(result, mode, asked)
    cases = measured_cases(result, RATE, mode)
    if found is None:
        unclear = [*takewhile(lambda it: meets_slo(it, asked) is None, cases)]
        if unclear:
            most = max(unclear, key=lambda it: latency_of(it).n)
            values |= _why_open(most, asked)
            return Fact("slo-rate", "open", mode, values, _longer_search(result, most, asked))
        if cases:
            values |= _figures(cases[0], asked)
        return Fact("slo-rate", "noise" if is_busy(result) else "none", mode, values)
    stat = next(iter(asked))
    values |= {
        "rate": Quantity(found["rate"], "requests/s"),
        "requests": found["requests"],
        "workers": result.part["workers"],
        "stat": stat,
        "latency": ns(found["latency"].get(stat, 0)),
    }
    beyond = [it for it in cases if load_point_of(it).value > found["rate"] and meets_slo(it, asked) is None]
    after = _longer_search(result, max(beyond, key=lambda it: latency_of(it).n), asked) if beyond else ""
    is_highest = found["rate"] >= max((load_point_of(it).value for it in cases), default=0.0)
    verdict = "met-highest" if is_highest else "met-at-least"
    if found["violated_from"] is not None:
        verdict, values["violated_from"] = "met", Quantity(found["violated_from"], "requests/s")
    verdict = "met-busy" if is_busy(result) else verdict
    return Fact("slo-rate", verdict, mode, values, after, {RATE: found["rate"]})


def _asked_values(result: Result, mode: str, asked: Asked) -> Values:
    """The SLO, its limits as figures, and what has to hold for a mode that keeps tensors on the device."""
    limits: Values = {f"{stat}_limit": ns(most) for stat, most in asked.items()}
    return {"slo": slo_text(asked), **limits, **condition(result, mode)}


def _of_points(result: Result, mode: str, asked: Asked) -> Iterator[Fact]:
    """Which of the load points that were asked for meet the SLO."""
    told = [(case, meets_slo(case, asked)) for case in slo_cases(result, mode)]
    good, broken = ([case for case, is_met in told if is_met is it] for it in (True, False))
    most = max((load_point_of(it).value for it in good), default=0.0)
    # What meets it with more does so with less.
    unknown = [case for case, is_met in told if is_met is None and load_point_of(case).value > most]
    values = _asked_values(result, mode, asked)
    if good:
        highest = max(good, key=lambda it: load_point_of(it).value)
        yield Fact("slo", "met", mode, {**values, "where": load_point_of(highest).text}, "", highest.point)
    if broken:
        violated = "violated" if len(broken) == 1 else "violated-at-several"
        verdict = "busy" if is_busy(result) else "saturated" if is_full(broken[0]) else violated
        first = {**values, "where": points_text(broken), **_figures(broken[0], asked)}
        yield Fact("slo", verdict, mode, first, "", broken[0].point)
    if unknown:
        values |= {"where": points_text(unknown), **_why_open(unknown[0], asked)}
        yield Fact("slo", "open", mode, values, _longer(result, asked), unknown[0].point)


def _figures(case: Case, asked: Asked) -> Values:
    """The statistic of an SLO that a load point violates, and where."""
    stat = next((it for it, most in asked.items() if by_name(latency_of(case), it) > most), next(iter(asked)))
    return {"stat": stat, "latency": ns(by_name(latency_of(case), stat)), "first": load_point_of(case).phrase}


def _why_open(case: Case, asked: Asked) -> Values:
    few = undecided_statistics(case, asked)
    if meets(case, asked):
        return {"why": f"each load point takes {FEW} processes"}
    if _differs(case, asked):
        return {"why": "some processes meet it, some do not"}
    return {"why": lack_of_requests(case, few[0]) if few else "too close to the limit"}


def _differs(case: Case, asked: Asked) -> bool:
    """Whether some of the processes of a load point meet an SLO by their figures, and some do not."""
    rounds = [block["round"] for block in case.load_blocks or ()]
    of_each = ([*block_figures(case, stat).values(), most] for stat, most in asked.items())
    return len(of_processes(rounds, case.first_rounds)) >= FEW and any(min(it) < it[-1] < max(it) for it in of_each)


def _longer(result: Result, asked: Asked) -> str:
    """The command that measures for so long that load points tell, of which that is open; nothing where none would in a time that
    is worth it."""
    unknown = [it for mode in modes_of(result) for it in slo_cases(result, mode) if meets_slo(it, asked) is None]
    if all(meets(it, asked) for it in unknown):
        return again(result, "--processes", str(FEW))
    return _with_duration(result, [result.part["duration_s"] * many for it in unknown if (many := _many(it, asked))])


def _longer_search(result: Result, case: Case, asked: Asked) -> str:
    """The same of a search: so long that a few tries tell of a rate."""
    seconds = latency_of(case).n / load_point_of(case).value * (_many(case, asked) or 1.0) / _TRIES
    return _with_duration(result, [max(2 * result.part["duration_s"], seconds)])


def _many(case: Case, asked: Asked) -> float | None:
    """How many times as many requests would tell; None where a figure is as good as its limit. How many independent ones requests are
    worth is known badly: of a few one of four is taken at least, and where enough count for too few twice as many tell at the least."""
    found, few = times_longer(case, asked), undecided_statistics(case, asked)
    if few:
        least = max(LEAST[stat] for stat in few) / latency_of(case).n
        return min(found, 4 * least) if least > 1 else max(found, 2.0)
    return found if found <= _MOST_TIMES else None


def _with_duration(result: Result, seconds: Sequence[float]) -> str:
    is_replayed = result.part["file"] is not None  # as long as the file is
    if is_replayed or not seconds:
        return ""
    return again(result, "--duration", f"{math.ceil(max(seconds))}s", *quiet_options(result))


_DETAIL, _COST, _GAIN, _ANSWER, _DOUBT = Weight

# fmt: off
SENTENCES = {
    ("threads", "of-sessions"): Sentence("{threads} threads of {sessions:session} share {cores:core}.", "set --intra-op-threads to the cores of a session", _COST, "unclear", "load"),
    **padding.SENTENCES,
    ("idle-spinning", "burns"): Sentence("Threads of ONNX Runtime spin between requests: {cores} cores busy at {utilisation} utilisation {where}.", "session.intra_op.allow_spinning=0, or --intra-op-threads 1", _GAIN, "bad", "resources"),
    ("slo-rate", "met"): Sentence("{mode:if} meets {slo} up to {rate} with {workers:worker}: {stat} {latency}. Violated from {violated_from} on.", "send no more to one such process", _ANSWER, "good", "load", figure=("Highest rate", "rate")),
    ("slo-rate", "met-busy"): Sentence("{mode:if} meets {slo} up to {rate} at least with {workers:worker}: {stat} {latency}. The busy machine may have ended the search.", WAIT, _ANSWER, "unclear", "load", figure=("Highest rate, at least", "rate")),
    ("slo-rate", "met-highest"): Sentence("{mode:if} meets {slo} up to {rate} with {workers:worker}, about its throughput back to back: {stat} {latency}.", "send no more to one such process", _ANSWER, "good", "load", figure=("Highest rate", "rate")),
    ("slo-rate", "met-at-least"): Sentence("{mode:if} meets {slo} up to {rate} at least with {workers:worker}: {stat} {latency}.", LONGER, _ANSWER, "good", "load", figure=("Highest rate, at least", "rate")),
    ("slo-rate", "none"): Sentence("{mode} meets {slo} at no rate that was tried: {stat} {latency} {first}.", "more workers, a faster mode or EP", _ANSWER, "bad", "load"),
    ("slo-rate", "noise"): Sentence("{mode} meets {slo} at no rate that was tried; the busy machine may be the reason.", WAIT, _ANSWER, "unclear", "load"),
    ("slo-rate", "open"): Sentence("Cannot tell whether {mode} meets {slo} at any rate: {why}.", LONGER, _ANSWER, "unclear", "load"),
    ("slo", "met"): Sentence("{mode:if} meets {slo} with up to {where}.", "allow no more", _ANSWER, "good", "load"),
    ("slo", "violated"): Sentence("{mode} violates {slo} {where}: {stat} {latency}.", "fewer clients or requests, more workers, a faster mode", _ANSWER, "bad", "load"),
    ("slo", "violated-at-several"): Sentence("{mode} violates {slo} {where}: {stat} {latency} {first}.", "fewer clients or requests, more workers, a faster mode", _ANSWER, "bad", "load"),
    ("slo", "saturated"): Sentence("{mode} violates {slo} {where}: the workers are saturated.", "fewer requests, more workers, a faster mode", _ANSWER, "bad", "load"),
    ("slo", "busy"): Sentence("{mode} violates {slo} {where}; the busy machine may be the reason.", WAIT, _ANSWER, "unclear", "load"),
    ("slo", "open"): Sentence("Cannot tell whether {mode} meets {slo} {where}: {why}.", LONGER, _ANSWER, "unclear", "load"),
    ("peak", "alone"): Sentence("{mode} completes {base_rate:ci} {base_where}.", "nothing", _COST, "", "load", figure=("Most inferences/s", "base_rate")),
    ("peak", "more"): Sentence("{mode:if} completes {rate} {where}, {speedup:ci} those of {base}.", PROGRAM, _ANSWER, "good", "load", figure=("Most inferences/s", "rate")),
    ("peak", "none-more"): Sentence("No mode completes more inferences than {base}: {base_rate} {base_where}.", "keep session.run", _ANSWER, "", "load", figure=("Most inferences/s", "base_rate")),
    ("peak", "open"): Sentence("Cannot tell whether a mode completes more inferences than {base}: {base_rate} {base_where}.", LONGER, _ANSWER, "unclear", "load", figure=("Most inferences/s", "base_rate")),
    ("peak", "noise"): Sentence("The machine was too busy to tell which mode completes the most inferences.", WAIT, _ANSWER, "unclear", "noise"),
    ("knee", "latency"): Sentence("{clients:client} reach {share} of the peak with {mode}: more clients add latency ({stat} {latency} to {last_latency} with {last}).", "use no more clients per session", _ANSWER, "", "load", figure=("Knee", "clients")),
    ("knee", "flat"): Sentence("{clients:client} reach {share} of the peak with {mode}: more clients complete no more.", "use no more clients per session", _ANSWER, "", "load", figure=("Knee", "clients")),
    ("knee", "beyond"): Sentence("The peak of {mode} may lie beyond {clients:client}: they complete {more} more than {fewer}.", "try more clients", _ANSWER, "", "load"),
    ("knee", "open"): Sentence("Cannot tell how many clients reach the peak with {mode}: intervals overlap.", "more processes or a longer --duration", _ANSWER, "unclear", "load"),
    ("gil", "waits"): Sentence("Clients of {mode} wait for the GIL {share} of the time {where}.", "a process for each client: --sessions process", _GAIN, "", "load"),
    ("paced", "slower"): Sentence("An inference of {mode} takes {ratio} as long {where} as back to back: {time}, {back_to_back}.", "clocks fall and threads sleep between requests: --lock-clocks, or spin", _GAIN, "", "load"),
    ("saturated", "saturated"): Sentence("{mode} is saturated {where}: queue delay depends on how long the load lasts.", "fewer requests, more workers", _GAIN, "", "load"),
    ("saturated", "busy"): Sentence("{mode} is saturated {where}; the busy machine may be the reason.", WAIT, _GAIN, "unclear", "load"),
    ("generator", "late"): Sentence("The generator issued {share} of the requests late {where}, by up to {lag}.", "fewer workers, or more cores", _GAIN, "unclear", "load", warning="late-requests"),
    ("check-speedup", "known"): Sentence("throughput of {what} to that of cpu-tensors: ratio {ratio} ({ratio:to}), must be at least {limit}.", "see the load's report", _ANSWER, "", "load"),
    ("check-speedup", "few-blocks"): Sentence("throughput of {what} to that of cpu-tensors: ratio {ratio} (fewer than {needed:block}, so no interval; a longer --duration gives more), must be at least {limit}.", LONGER, _ANSWER, "unclear", "load"),
    ("check-slo", "queue"): Sentence("{stat} of {what}: requests come as fast as they are served or faster, so the queue grows as long as they come; must be at most {limit}.", "fewer requests, more workers", _ANSWER, "bad", "load"),
    ("check-slo", "old"): Sentence("{stat} of {what}: {value} (the result is of an older ortbench; measure again), must be at most {limit}.", "measure again", _ANSWER, "unclear", "load"),
    ("check-slo", "few-requests"): Sentence("{stat} of {what}: {value} ({why}; a longer --duration gives more), must be at most {limit}.", LONGER, _ANSWER, "unclear", "load"),
    ("check-slo", "largest"): Sentence("{stat} of {what}: {value}, must be at most {limit}.", "see the load's report", _ANSWER, "", "load"),
    ("check-slo", "met"): Sentence("{stat} of {what}: {value} (at most {high} with 95% confidence), must be at most {limit}.", "nothing", _ANSWER, "good", "load"),
    ("check-slo", "violated"): Sentence("{stat} of {what}: {value} (at least {low} with 95% confidence), must be at most {limit}.", "fewer requests, a faster mode", _ANSWER, "bad", "load"),
    ("check-slo", "open"): Sentence("{stat} of {what}: {value} ({low} to {high} with 95% confidence; a longer --duration narrows it), must be at most {limit}.", LONGER, _ANSWER, "unclear", "load"),
    ("check-slo", "open-below"): Sentence("{stat} of {what}: {value} (at most {high} with 95% confidence; a longer --duration narrows it), must be at most {limit}.", LONGER, _ANSWER, "unclear", "load"),
}
