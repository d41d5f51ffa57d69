"""The facts of a search for the best settings: what is best under load and what that costs, and what there was no time for. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ortbench.analysis.advice import Weight, command
from ortbench.analysis.comparison import compare_series
from ortbench.analysis.intervals import ABOVE
from ortbench.analysis.series import Key, Series, series_at
from ortbench.core.stats import Value
from ortbench.facts import Fact, Values, ns, share, times
from ortbench.facts.comparison import Best, best_at
from ortbench.facts.sentences import Sentence
from ortbench.features.load.analysis import load_cases, meets_by_figures, meets_slo, slo_text
from ortbench.features.load.model import OWN, PROCESS, SHARED, LoadSetup
from ortbench.features.load.plan import POISSON
from ortbench.model.kinds import RATE
from ortbench.model.metrics import Figure, figure
from ortbench.model.modes import CPU_TIME, LATENCY
from ortbench.model.result import Result
from ortbench.plan.next_command import session_lines

P99_FIGURE, LATENCY_FIGURE, CPU_FIGURE = figure("latency.p99"), figure(LATENCY), figure(CPU_TIME)
_NEAR = 1.05  # times the least CPU time, up to which the p99 decides
_LONGER_S = 30  # for which the command that shows what was found measures
_COST, _ANSWER = Weight.COST, Weight.ANSWER


def search_facts(
    untried: Sequence[str], *, is_compared: bool, has_memory: bool, one_process: str, next_: str
) -> list[Fact]:
    """What a search did not come to, the last with the command that has time for it.

    Args:
        untried: configurations.
        is_compared: whether a configuration was measured beside the first one.
        has_memory: whether memory was measured.
        one_process: the option that left no time for several processes; empty where there were several.
    """
    found = []
    if untried:
        verdict = "untried" if is_compared else "no-conclusion"
        found.append(Fact("search", verdict, "", {"configurations": list(untried)}))
    if not has_memory:
        found.append(Fact("search", "no-memory"))
    if one_process:
        found.append(Fact("search", "one-process", "", {"option": one_process}))
    return [*found[:-1], *(it._replace(next=next_) for it in found[-1:])]


def _key(result: Result) -> Key:
    """The load point of a search, with its p99."""
    (case,) = load_cases(result)
    return Key(case.mode, tuple(case.point.items()), P99_FIGURE)


def load_series(result: Result, of: Figure) -> Series | None:
    """A figure of the load point of a search; None where it has none."""
    return series_at(result, _key(result)._replace(figure=of))


def load_answers(results: Sequence[Result], names: Sequence[str], slo: Mapping[str, int]) -> list[Best]:
    """What is lowest in p99, and what takes the least CPU time within an SLO with what that costs."""
    key = _key(results[0])
    found = [] if (of_p99 := best_at(results, names, key, "p99")) is None else [of_p99]
    within = [number for number, result in enumerate(results) if _is_within(result, slo)]
    if slo and not within:
        fact = Fact("least-cpu", "none-within", key.mode, {"slo": slo_text(slo)})
        return [*found, Best("CPU time", key.mode, None, fact)]
    cpu = {it: one.value for it in within if (one := load_series(results[it], CPU_FIGURE)) is not None}
    # Of those that take about the least CPU time the one with the lowest p99.
    near = [it for it, value in cpu.items() if value <= _NEAR * min(cpu.values())]
    number = min(near, key=lambda it: getattr(load_series(results[it], P99_FIGURE), "value", math.inf), default=None)
    price = None if number is None else _price(results, names, number, slo, is_first_within=0 in within)
    if price is not None:
        of_cpu: Best | None = Best("CPU time", key.mode, number, price)
    else:  # nothing takes less CPU time than the first for certain
        some = [results[it] for it in within]
        of_cpu = best_at(some, [names[it] for it in within], key._replace(figure=CPU_FIGURE), "CPU time")
    found += [] if of_cpu is None else [of_cpu]
    shown = next((it.number for it in reversed(found) if it.number is not None), 0)
    return [*found[:-1], *(it._replace(fact=it.fact._replace(next=_show(results[shown]))) for it in found[-1:])]


def _is_within(result: Result, slo: Mapping[str, int]) -> bool:
    """Whether a load point meets an SLO, by its figures where more requests would have to tell."""
    (case,) = load_cases(result)
    met = meets_slo(case, slo) if slo else None
    return meets_by_figures(case, slo) if met is None else met


def _price(
    results: Sequence[Result], names: Sequence[str], number: int, slo: Mapping[str, int], *, is_first_within: bool
) -> Fact | None:
    """What a configuration saves of the CPU time of the first one, and how its p99 compares with the lowest; None where it does not for
    certain, unless the first violates the SLO."""
    cpu, base = (load_series(results[it], CPU_FIGURE) for it in (number, 0))
    of_p99 = {it: one for it, result in enumerate(results) if (one := load_series(result, P99_FIGURE)) is not None}
    if cpu is None or base is None or number not in of_p99 or not number:
        return None
    saves = compare_series(cpu, base)
    is_less = saves is not None and saves.verdict() == ABOVE
    if is_first_within and not is_less:
        return None
    # By its figures it does, but too few requests or noise may leave it open.
    does = "meets" if meets_slo(cpu.case, slo) else "may meet"
    values: Values = {
        "configuration": names[number], "cpu_time": ns(cpu.value), "saved": share(1 - cpu.value / base.value), "other": names[0],
        "p99": ns(of_p99[number].value), "slo": f" that {does} {slo_text(slo)}" if slo else "",
    }  # fmt: skip
    if not is_less:
        return Fact("least-cpu", "meets", cpu.key.mode, values)
    lowest = min(of_p99, key=lambda it: of_p99[it].value)
    if lowest == number:
        return Fact("least-cpu", "lowest", cpu.key.mode, values)
    found = compare_series(of_p99[lowest], of_p99[number])
    ratio = of_p99[number].value / of_p99[lowest].value if found is None else found.ratio
    values |= {"ratio": times(Value(ratio, None if found is None else found.ends)), "lowest": names[lowest]}
    return Fact("least-cpu", "saves", cpu.key.mode, values)


def _show(result: Result) -> str:
    """The command that measures a configuration at length."""
    setup: LoadSetup = result.part
    (case,) = load_cases(result)
    ((kind, value),) = case.point.items()
    words = [f"--{kind}", f"{value:g}"]
    words += ["--sessions", setup["sessions"]] if setup["sessions"] != SHARED else []
    if kind == RATE.name:
        words += ["--workers", str(setup["workers"])] if setup["workers"] > 1 else []
        words += ["--arrivals", str(setup["arrivals"])] if setup["arrivals"] != POISSON else []
    if setup["slo"]:
        words += ["--slo", ",".join(f"{stat}={limit / 1e6:g}ms" for stat, limit in setup["slo"].items())]
    return command(result, "load", *words, "--duration", f"{_LONGER_S}s")


def serving_lines(result: Result) -> list[str]:
    """Statements of Python that set a configuration: of its session, and of what serves its requests."""
    setup: LoadSetup = result.part
    (case,) = load_cases(result)
    count = setup["workers"] if RATE.name in case.point else int(*case.point.values())
    return [*session_lines(result.target)[0], *_workers(count, setup["sessions"])]


def _workers(count: int, sessions: str) -> Iterator[str]:
    if count == 1:
        return
    opened = "ort.InferenceSession(model, options)"
    if sessions == PROCESS:
        yield f"workers = concurrent.futures.ProcessPoolExecutor({count}, initializer=open_session)  # a session each"
        return
    yield f"sessions = [{opened} for _ in range({count})]  # one a worker" if sessions == OWN else f"session = {opened}"
    yield f"workers = concurrent.futures.ThreadPoolExecutor({count})"


# fmt: off
SENTENCES = {
    ("least-cpu", "saves"): Sentence("{configuration} takes the least CPU time{slo}: {cpu_time} a request, {saved} less than {other}; p99 {p99}, {ratio:ci} the lowest.", "set what is printed below", _ANSWER, "good", "tune"),
    ("least-cpu", "lowest"): Sentence("{configuration} takes the least CPU time{slo}: {cpu_time} a request, {saved} less than {other}; p99 {p99}, the lowest too.", "set what is printed below", _ANSWER, "good", "tune"),
    ("least-cpu", "meets"): Sentence("{configuration} takes the least CPU time{slo}: {cpu_time} a request; p99 {p99}.", "set what is printed below", _ANSWER, "good", "tune"),
    ("least-cpu", "none-within"): Sentence("No configuration that is left meets {slo}.", "fewer requests, a faster model or EP", _ANSWER, "bad", "tune"),
    ("load-settings", "python"): Sentence("{configuration} in Python (options: onnxruntime.SessionOptions): {statements:apart}.", "paste it into the program", _ANSWER, "", "tune"),
    ("search", "untried"): Sentence("Time was up (--max-time) before these were tried: {configurations}.", "give more time: --max-time", _COST, "unclear", "tune"),
    ("search", "no-conclusion"): Sentence("No conclusion: time was up (--max-time) before another configuration than the first was compared: {configurations}.", "give more time: --max-time", _ANSWER, "unclear", "tune"),
    ("search", "no-memory"): Sentence("Time was up (--max-time) before memory was measured.", "give more time: --max-time", _COST, "unclear", "tune"),
    ("search", "one-process"): Sentence("All figures are of one process: {option} leaves no time for several, whose figures can differ by more than the intervals.", "give more time with that option", _COST, "unclear", "tune"),
}
