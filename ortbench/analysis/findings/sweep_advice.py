"""What there is to say of a sweep, from the result alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.findings.finding import Finding, Weight, merged
from ortbench.analysis.findings.node_advice import are
from ortbench.analysis.findings.phrases import NOTHING, times, within
from ortbench.analysis.findings.program import again
from ortbench.analysis.findings.speedups import condition
from ortbench.analysis.noise import cannot_tell, is_busy, made_by_noise, quieter
from ortbench.analysis.sweep import ITEMS, cases_of, differing_dims, has_a_cost, is_noisy, keeps, ties, why_not_told
from ortbench.core.safe_text import listed
from ortbench.core.units import change, count, duration, rate, ratio
from ortbench.model.modes import CPU, LATENCY, is_rate, mode_of
from ortbench.model.result import Result
from ortbench.model.schema import BestShape, Switching
from ortbench.model.slo import slo_of

_LONGER = 4  # times as long as a sweep in which noise hides the best shape
_OFTEN = 2.0  # so many times a later inference must the first one of a shape take to be worth a word


def sweep_findings(result: Result) -> list[Finding]:
    """The best shapes, what switching costs, what first inferences take. Empty when nothing was measured."""
    return [*_best(result), *_unknown(result), *_switching(result), *_first_inferences(result)]


def best_shapes(result: Result) -> list[tuple[str, BestShape]]:
    """The modes in which most items are done, with their best shapes, where noise leaves these: first of those that take new inputs
    in each inference, then, where it does more, of those whose tensors stay on the device."""
    of_modes = {} if result.best is None else result.best["modes"]
    known = [
        (mode, it)
        for mode, it in of_modes.items()
        if it is not None and it["by"] == ITEMS and not is_noisy(result, mode)
    ]
    found: list[tuple[str, BestShape]] = []
    for on_device in (False, True):
        there = [(mode, it) for mode, it in known if mode_of(mode).on_device is on_device]
        best = max(there, key=lambda it: _items_per_s(it[1]), default=None)
        if best is not None and (not found or _items_per_s(best[1]) > _items_per_s(found[0][1])):
            found.append(best)
    return found


def sweep_headline(result: Result) -> str:
    if best := best_shapes(result):
        kept = f" with {slo}" if (slo := _slo(result)) else ""
        said = [f"{rate(_items_per_s(it))} with {mode} at {it['shape']}{condition(result, mode)}" for mode, it in best]
        return f"Most items/s{kept}: {', '.join(said)}"
    for mode, one in (result.best or {"modes": {}})["modes"].items():
        if one is not None and one["by"] == ITEMS:  # of which noise leaves no best one
            return cannot_tell("which shape has the most items/s")
        if one is not None:
            return f"{one['shape']} is the largest shape that meets {_slo(result)}, with {mode}"
    if costly := _costly(result):
        most = max(costly, key=lambda it: it["ratio"])
        return f"Switching shapes makes an inference {times(most['ratio'])} as long with {most['mode']}"
    ran = sum(any(case.median(LATENCY) for case in result.at_point(it.point)) for it in result.shapes)
    return f"{count(ran, 'shape')} in one session" if ran else NOTHING


def _slo(result: Result) -> str:
    slo = slo_of(result.sweep)
    return "" if slo is None else str(slo)


def _items_per_s(found: BestShape) -> float:
    return found["items_per_s"] or 0.0


def _best(result: Result) -> list[Finding]:
    best = result.best
    if best is None:
        return []
    slo, first = _slo(result), [mode for mode, _ in best_shapes(result)]
    order = sorted(best["modes"], key=lambda it: first.index(it) if it in first else len(first))
    found, missed, noisy = [], [], []
    most: dict[str, list[str]] = {}
    for mode in order:
        it = best["modes"][mode]
        weight = Weight.ANSWER if mode in first or not first else Weight.COST
        needs = condition(result, mode)
        if it is None:
            if slo and not is_rate(mode, LATENCY):
                missed.append((mode, _none_meets(result, mode)))
        elif it["by"] != ITEMS:
            found.append(
                Finding(f"{it['shape']} is the largest shape that meets {slo} with {mode}{needs}", weight=weight)
            )
        elif is_noisy(result, mode):
            noisy.append((mode, f"{it['shape']} with {mode} ({rate(_items_per_s(it))})"))
        else:
            figures = f"{mode} {rate(_items_per_s(it))}{within(it['ci95'], rate)}{_tied(result, mode)}{needs}"
            most.setdefault(it["shape"], []).append(figures)
    kept = f" of those that meet {slo}" if slo else ""
    open_ = any(ties(result, mode)[1] for mode in best["modes"] if not is_noisy(result, mode))
    found += [
        Finding(
            f"{shape} has the most items/s{kept}{_at_the_end(result, shape)}", "; ".join(said),
            _longer(result) if open_ else _larger(result, shape), Weight.ANSWER,
        )
        for shape, said in most.items()
    ]  # fmt: skip
    if noisy and result.noise is not None:
        doubted = [mode for mode, _ in noisy]
        what = cannot_tell(f"which shape has the most items/s with {listed(doubted)}")
        made = made_by_noise(result.noise, [case for mode in doubted for _, case in cases_of(result, mode)])
        evidence = f"by the figures {', '.join(text for _, text in noisy)}; {made}"
        found.append(Finding(what, evidence, _longer(result), Weight.ANSWER, "unclear"))
    for modes, _, (what, next_) in merged(missed):
        found.append(Finding(what.format(modes=modes), next=next_, weight=Weight.ANSWER, tone="bad"))
    return found


def _has_most(result: Result, name: str) -> bool:
    """Whether a shape has the most items of several."""
    counts = {it.name: it.items["count"] for it in result.shapes if it.items is not None}
    return len(set(counts.values())) > 1 and counts.get(name) == max(counts.values())


def _at_the_end(result: Result, name: str) -> str:
    """That the best shape has the most items of several, so that more may do better."""
    return " and is the largest that was tried, so a larger one may have more" if _has_most(result, name) else ""


def _larger(result: Result, name: str) -> str:
    """The command that tries larger shapes where the best one has the most items, and they differ by one `--dim` alone."""
    dims, options = differing_dims(result.shapes), [word.partition("=")[0] for word in result.command]
    if not _has_most(result, name) or len(dims) != 1 or options.count("--dim") != 1:
        return ""
    size = next(it.shape[dims[0]] for it in result.shapes if it.name == name)
    return again(result, "--dim", f"{dims[0]}={size},{2 * size},{4 * size}")


def _tied(result: Result, mode: str) -> str:
    """The shapes that may be as good as the best one of a mode."""
    alike, unknown = ties(result, mode)
    said = f", {listed(alike)} as good" if alike else ""
    return f"{said}, cannot tell whether {listed(unknown)} {are(len(unknown))} worse" if unknown else said


def _longer(result: Result) -> str:
    """What tells more of a busy machine where waiting for a quiet one did not help: more rounds, of which some may be quiet."""
    stopped = result.stopped
    if quieter(result) or stopped is None or stopped["reason"] != "duration":
        return ""
    return again(result, "--duration", f"{_LONGER * stopped['value']:g}s")


def _none_meets(result: Result, mode: str) -> tuple[str, str]:
    slo = slo_of(result.sweep)
    assert slo is not None
    if None not in [keeps(case, slo) for _, case in cases_of(result, mode)]:
        return f"No shape meets {slo} with {{modes}}", ""
    return f"Whether a shape meets {slo} with {{modes}} cannot be told", why_not_told(slo)


def _unknown(result: Result) -> list[Finding]:
    """Which shapes an SLO says nothing of, where others meet it; that items are not known."""
    slo, found = slo_of(result.sweep), []
    if slo is not None and result.best is not None:
        said = []
        for mode, best in result.best["modes"].items():
            open_ = [
                shape.name
                for shape, case in cases_of(result, mode)
                if case.stats(LATENCY) is not None and not is_rate(mode, LATENCY) and keeps(case, slo) is None
            ]
            if open_ and best is not None:
                said.append((mode, ", ".join(open_)))
        for modes, _, shapes in merged(said):
            what = f"Whether {shapes} with {modes} meets {slo} cannot be told"
            found.append(Finding(what, next=why_not_told(slo), weight=Weight.COST, tone="unclear"))
    if differing_dims(result.shapes) and not any(it.items for it in result.shapes):
        next_ = "add --items DIM, the dimension that counts them, or --items N"
        found.append(Finding("No shape is called the best: the items of an inference are not known", next=next_))
    return found


def _switching(result: Result) -> list[Finding]:
    costs = _switched(_costly(result))
    unknown = [it for it in result.switching or [] if has_a_cost(it) is None]
    if unknown:
        ratios = ", ".join(
            f"{times(it['ratio'])} as long with {it['mode']}{within(it['ci95'], ratio)}" for it in unknown
        )
        what = "What switching shapes costs cannot be told: it is hidden by the noise of one process, in which it is measured; ratios of another can differ by a tenth or more"
        costs.append(Finding(what, f"an inference takes {ratios}", weight=Weight.COST, tone="unclear"))
    free = [it for it in result.switching or [] if has_a_cost(it) is False]
    if not free:
        return costs
    ratios = ", ".join(f"{it['mode']} {times(it['ratio'])}{within(it['ci95'], change)}" for it in free)
    what = "Switching shapes has no measurable cost"
    evidence = f"an inference of another shape than the last, compared with one shape: {ratios}; in one process, and in another one such ratios can differ by a tenth"
    return [*costs, Finding(what, evidence, weight=Weight.DETAIL)]


def _costly(result: Result) -> list[Switching]:
    return [it for it in result.switching or [] if has_a_cost(it)]


def _switched(costly: Sequence[Switching]) -> list[Finding]:
    """What switching costs, of several modes in one finding."""
    said = []
    for it in costly:
        worst = max(it["shapes"], key=lambda shape: shape["ratio"])
        most = f", most with {worst['shape']} ({times(worst['ratio'])})" if len(it["shapes"]) > 1 else ""
        said.append(
            (
                it["mode"],
                f"{times(it['ratio'])} as long{within(it['ci95'], ratio)}",
                f"{duration(it['cost_ns'])} more{most}",
            )
        )
    if len(said) == 1:
        ((mode, longer, more),) = said
        return [Finding(f"Switching shapes makes an inference {longer} with {mode}", more, _next(costly))]
    of_modes = "; ".join(f"{mode} {longer}, {more}" for mode, longer, more in said)
    return [Finding("Switching shapes makes an inference longer", of_modes, _next(costly))] if said else []


def _next(costly: Sequence[Switching]) -> str:
    """What avoids switching, where it costs as much as an inference or more: shapes that have run before cost it too."""
    return "pad inputs to one shape, or use a session for each shape" if _is_dear(costly) else ""


def _is_dear(costly: Sequence[Switching]) -> bool:
    return any(it["ratio"] >= _OFTEN for it in costly)


def _first_inferences(result: Result) -> list[Finding]:
    slow = [
        (shape.name, shape.first_inference_ns, later)
        for shape, case in cases_of(result, CPU)
        if shape.first_inference_ns and (later := case.median(LATENCY))
    ]
    slow = slow[1:]  # the first one warms the session itself up
    if not slow or is_busy(result):  # one inference of each tells nothing beside other processes
        return []
    name, first, later = max(slow, key=lambda it: it[1] / it[2])
    if first < _OFTEN * later:
        return []
    what = (
        f"After the first shape, the first inference of each takes up to {times(first / later)} as long as later ones"
    )
    next_ = "" if _is_dear(_costly(result)) else "run each shape once at start-up"
    return [Finding(what, f"{duration(first)} with {name}, in {CPU}", next_)]
