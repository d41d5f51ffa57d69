"""The facts of requests of several sizes: what a mix does to the tail, which way to pad takes least time, what switching shapes costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ortbench.analysis.advice import Weight
from ortbench.analysis.intervals import at_most
from ortbench.analysis.load_points import latency_of
from ortbench.analysis.noise import is_busy
from ortbench.analysis.series import Key
from ortbench.core.stats import Value
from ortbench.facts import Fact, Quantity, Values, ns, share, times
from ortbench.facts.comparison import Best, best_at
from ortbench.facts.sentences import LONGER, WAIT, Sentence
from ortbench.features.load.analysis import CONCURRENCY, RATE, WORTH, load_cases, load_point_of, measured_cases
from ortbench.model.metrics import Figure
from ortbench.model.modes import ALL_SHAPES, LATENCY, MIXING, SWITCHING_COST
from ortbench.model.result import Case, Result

_GAIN, _ANSWER = Weight.GAIN, Weight.ANSWER
_LONGER = 1.05  # by which factor a mix must make the p99 longer to be told


def mixing_facts(result: Result, mode: str) -> Iterator[Fact]:
    """What a mix of shapes does to the p99, of all shapes or of one, where it surely does most; that it does nothing only where no interval
    leaves more open."""
    cases = [*measured_cases(result, CONCURRENCY, mode), *measured_cases(result, RATE, mode)]
    names = (ALL_SHAPES, *result.part.get("shapes", ()))
    ratios = [(case.metrics.get(f"{MIXING}.{name}"), name, case) for case in cases for name in names]
    known = [(ratio, name, case) for ratio, name, case in ratios if isinstance(ratio, Value)]
    if not known:
        return
    told = [at_most(it.ci95, _LONGER) for it, *_ in known]
    longer = [one for one, said in zip(known, told, strict=True) if said is False]
    overall = [it for it in longer if it[1] == ALL_SHAPES]
    found, name, case = max(
        overall or longer or known, key=lambda it: it[0].value if longer else (it[0].ci95 or (0, it[0].value))[1]
    )
    values: Values = {"ratio": times(found), "where": load_point_of(case).phrase, "shape": name}
    without = "open" if None in told else "none"
    verdict = "longer" if overall else "longer-for-shape" if longer else without
    yield Fact("mixing", verdict, mode, values, "", case.point)


def point_bests(results: Sequence[Result], names: Sequence[str]) -> list[Best]:
    """Which of several orders is the best at each load point; nothing of configurations that pad no requests."""
    if any("padding" not in it.part for it in results):
        return []
    found = []
    for case in load_cases(results[0]):
        stat, what = ("mean", "mean latency") if CONCURRENCY in case.point else ("p99", "p99 latency")
        key = Key(case.mode, tuple(case.point.items()), Figure(LATENCY, stat))
        if (best := best_at(results, names, key, what)) is not None:
            padding = results[best.number or 0].part["padding"]
            of: Values = {**best.fact.values, "where": load_point_of(case).phrase, "padding": share(padding)}
            verdict = "none-tied" if best.fact.verdict == "none" and best.fact.values["ties"] else best.fact.verdict
            found.append(best._replace(fact=Fact("best-order", verdict, case.mode, of, point=case.point)))
    costs = [fact for result, name in zip(results, names, strict=True) for fact in switching_facts(result, name)]
    most = max(
        costs, key=lambda it: cost.value if isinstance(cost := it.values["share"], Quantity) else 0, default=None
    )
    return found if most is None else [*found, Best("switching", most.mode, None, most)]


def switching_facts(result: Result, name: str = "") -> Iterator[Fact]:
    """What switching shapes costs in each mode, where that is surely worth a word and most; of one of several with its `name`."""
    most: dict[str, tuple[float, Value, Case]] = {}
    for case in measured_cases(result, CONCURRENCY):
        cost, mean = case.metrics.get(SWITCHING_COST), max(latency_of(case).mean, 1)
        if not isinstance(cost, Value) or cost.ci95 is None or is_busy(result):
            continue
        if cost.ci95[0] > max(WORTH, most.get(case.mode, (0.0,))[0]) * mean:
            most[case.mode] = cost.value / mean, cost, case
    for mode, (of_time, cost, case) in most.items():
        values: Values = {
            "cost": ns(cost.value, cost.ci95),
            "share": share(of_time),
            "where": load_point_of(case).phrase,
        }
        verdict, named = ("costs-one", {"configuration": name}) if name else ("costs", {})
        yield Fact("mix-switching", verdict, mode, {**values, **named}, point=case.point)


_AS_THEY_ARE, _PAD = "run requests as they are", "pad requests to these sizes"
# fmt: off
SENTENCES = {
    ("mixing", "longer"): Sentence("Mixed shapes make the p99 of {mode} {ratio:ci} as long {where}.", "group requests by shape, or pad", _ANSWER, "", "load"),
    ("mixing", "longer-for-shape"): Sentence("Mixed shapes make the p99 of {mode} with {shape} {ratio:ci} as long {where}.", "group requests by shape, or pad", _ANSWER, "", "load"),
    ("mixing", "none"): Sentence("Mixed shapes do not make the p99 of {mode} longer: {ratio:ci} at most, {where}.", "nothing", _ANSWER, "", "load"),
    ("mixing", "open"): Sentence("Cannot tell whether mixed shapes make the p99 of {mode} longer: {ratio:ci} {where}.", LONGER, _ANSWER, "unclear", "load"),
    ("best-order", "better"): Sentence("{configuration} has the lowest {what} {where}: {value}, with {padding} padding; {other} takes {ratio:ci} as long.", _PAD, _ANSWER, "good", "mixed-sizes"),
    ("best-order", "better-tied"): Sentence("{configuration} has a lower {what} {where} than {other}: {value}, with {padding} padding; {other} takes {ratio:ci} as long; the same: {ties}.", _PAD, _ANSWER, "good", "mixed-sizes"),
    ("best-order", "better-open"): Sentence("{configuration} has a lower {what} {where} than {other}: {value}, with {padding} padding; {other} takes {ratio:ci} as long; maybe as low: {ties}.", _PAD, _ANSWER, "good", "mixed-sizes"),
    ("best-order", "same"): Sentence("The {what} {where} is the same within {margin} in all orders: {value}.", _AS_THEY_ARE, _ANSWER, "", "mixed-sizes"),
    ("best-order", "none"): Sentence("No order has a lower {what} {where} than {configuration}, {value} with {padding} padding: {configuration} takes at most {most} as long.", "keep the first", _ANSWER, "good", "mixed-sizes"),
    ("best-order", "none-tied"): Sentence("No order has a lower {what} {where} than {configuration}, {value} with {padding} padding; the same: {ties}.", "keep the first", _ANSWER, "", "mixed-sizes"),
    ("best-order", "open"): Sentence("Cannot tell whether {other} has a lower {what} {where} than {configuration}: {ratio:ci}.", LONGER, _ANSWER, "unclear", "mixed-sizes"),
    ("best-order", "noise"): Sentence("The machine was too busy to tell whether {other} has a lower {what} {where} than {configuration}.", WAIT, _ANSWER, "unclear", "noise"),
    ("mix-switching", "costs"): Sentence("Switching shapes costs {cost:ci} a request with {mode} {where}, {share} of its time.", "pad to fewer sizes, or keep a session for each", _GAIN, "", "mixed-sizes"),
    ("mix-switching", "costs-one"): Sentence("Switching shapes costs {configuration} {cost:ci} a request {where}, {share} of its time.", "pad to fewer sizes, or keep a session for each", _GAIN, "", "mixed-sizes"),
}
