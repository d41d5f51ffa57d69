"""What there is to say of a sweep in sentences, most important first. Pure."""

from __future__ import annotations

from ortbench.analysis.findings.phrases import NOTHING, within
from ortbench.analysis.sweep import ITEMS, cases_of, differing_dims, has_a_cost, keeps
from ortbench.core.units import count, duration, rate, ratio
from ortbench.model.modes import CPU, LATENCY, is_rate
from ortbench.model.result import Result
from ortbench.model.schema import BestShape, Switching
from ortbench.model.slo import slo_of

_OFTEN = 2.0  # so many times a later run must the first one of a shape take to be worth a word


def sweep_sentences(result: Result) -> list[str]:
    """The best shapes, what switching costs, what first runs take. Empty when nothing was measured."""
    return [*_best(result), *_unknown(result), *_switching(result), *_first_runs(result)]


def sweep_headline(result: Result) -> str:
    best = result.best
    if best is not None and best["mode"] is not None and (found := best["modes"][best["mode"]]) is not None:
        kept = f" with {slo}" if (slo := _slo(result)) else ""
        return f"{found['shape']} gets most done{kept}: {_items(found)} items a second with {best['mode']}"
    for mode, one in (best or {"modes": {}})["modes"].items():
        if one is not None:
            return f"{one['shape']} is the largest with {_slo(result)}, with {mode}"
    costly = [it for it in result.switching or [] if has_a_cost(it)]
    if costly:
        most = max(costly, key=lambda it: it["ratio"])
        return f"Switching shapes makes calls {ratio(most['ratio'])} times as long with {most['mode']}"
    ran = sum(any(case.median(LATENCY) for case in result.at_point(it.point)) for it in result.shapes)
    return f"{count(ran, 'shape')} in one session" if ran else NOTHING


def _slo(result: Result) -> str:
    slo = slo_of(result.sweep)
    return "" if slo is None else str(slo)


def _items(found: BestShape) -> str:
    return rate(found["items_per_s"] or 0.0)


def _best(result: Result) -> list[str]:
    best = result.best
    if best is None:
        return []
    slo, first = _slo(result), best["mode"]
    said = []
    for mode in sorted(best["modes"], key=lambda it: it != first):
        found = best["modes"][mode]
        if found is None:
            if slo and not is_rate(mode, LATENCY):
                said.append(_none_keeps(result, mode))
            continue
        name = found["shape"]
        if found["by"] != ITEMS:
            said.append(f"largest with {slo}: {name} with {mode}")
            continue
        kept = f" of those with {slo}" if slo else ""
        ties = ", ".join(found["ties"])
        tied = f"; no difference can be seen to {ties}" if ties else ""
        word = "best" if mode == first else f"best with {mode}"
        with_mode = f" with {mode}" if mode == first else ""
        said.append(f"{word}{kept}: {name}, {_items(found)} items/s{with_mode}{within(found['ci95'], rate)}{tied}")
    return said


def _none_keeps(result: Result, mode: str) -> str:
    slo = slo_of(result.sweep)
    assert slo is not None
    told = [keeps(case, slo) for _, case in cases_of(result, mode)]
    if None not in told:
        return f"no shape keeps {slo} with {mode}"
    return f"whether a shape keeps {slo} with {mode} cannot be told: it takes {slo.needed} runs; --duration gives more"


def _unknown(result: Result) -> list[str]:
    """Which shapes an SLO says nothing of, where others keep it; that items are not known."""
    slo, said = slo_of(result.sweep), []
    if slo is not None and result.best is not None:
        for mode, found in result.best["modes"].items():
            few = [
                shape.name
                for shape, case in cases_of(result, mode)
                if case.stats(LATENCY) is not None and not is_rate(mode, LATENCY) and keeps(case, slo) is None
            ]
            if few and found is not None:
                said.append(
                    f"{mode}: too few runs of {', '.join(few)} for {slo}: {slo.needed} are needed; --duration gives more"
                )
    if differing_dims(result.shapes) and not any(it.items for it in result.shapes):
        said.append("no shape is the best: nobody says how many items a run has; --items DIM or N does")
    return said


def _switching(result: Result) -> list[str]:
    return [_switched(it) for it in result.switching or []]


def _switched(found: Switching) -> str:
    mode, cost = found["mode"], has_a_cost(found)
    if cost is None:
        many = f"{ratio(found['ratio'])} times as long"
        return f"switching shapes: with {mode} calls take {many} where each has another shape, from too few rounds for an interval"
    if found["ci95"] is not None and not cost:
        low, high = map(ratio, found["ci95"])
        return f"switching shapes costs nothing that can be seen with {mode} ({low}–{high} times as long)"
    assert found["ci95"] is not None
    low, high = map(ratio, found["ci95"])
    worst = max(found["shapes"], key=lambda it: it["ratio"])
    most = f"; most with {worst['shape']}: {ratio(worst['ratio'])} times" if len(found["shapes"]) > 1 else ""
    return (
        f"switching shapes: with {mode} a call takes {ratio(found['ratio'])} times as long (95 %: {low}–{high}) where each has "
        f"another shape, {duration(found['cost_ns'])} more{most}"
    )


def _first_runs(result: Result) -> list[str]:
    slow = [
        (shape.name, shape.first_inference_ns, later)
        for shape, case in cases_of(result, CPU)
        if shape.first_inference_ns and (later := case.median(LATENCY))
    ]
    slow = slow[1:]  # the first one warms the session itself up
    if not slow:
        return []
    name, first, later = max(slow, key=lambda it: it[1] / it[2])
    if first < _OFTEN * later:
        return []
    return [
        f"the first run of a shape takes up to {ratio(first / later, 1)} times as long as later ones "
        f"({name}: {duration(first)}): run each once before it counts"
    ]
