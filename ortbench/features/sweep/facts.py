"""The facts of sweeps: the best shape, shapes and an SLO, what switching shapes costs, first inferences of shapes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ortbench.analysis.advice import Weight, again
from ortbench.analysis.items import cases_of, differing_dims
from ortbench.analysis.noise import is_busy, quiet_options
from ortbench.facts import Fact, Quantity, Values, condition, ns, per_s, times
from ortbench.facts.sentences import LONGER, WAIT, Sentence
from ortbench.features.sweep.analysis import (
    ITEMS,
    best_by_mode,
    best_by_other_sizes,
    has_a_cost,
    how_known,
    is_noisy,
    meets_slo,
    slo_of,
    ties,
    why_not_told,
)
from ortbench.features.sweep.model import BestShape
from ortbench.model.modes import CPU, LATENCY, is_rate, mode_of
from ortbench.model.result import Result

_DETAIL, _COST, _GAIN, _ANSWER, _DOUBT = Weight
_TIMES_LONGER = 4  # times as long as a sweep in which noise hides the best shape
_OFTEN = 2.0  # so many times a later inference must the first one of a shape take to be worth a word


def kind_facts(result: Result) -> Iterator[Fact]:
    yield from _best(result)
    yield from _switching(result)
    yield from _first_inferences(result)


def _leading_modes(result: Result) -> list[str]:
    """The modes in which most items are done, where noise leaves these: first of those that take new inputs in each inference, then,
    where it does more, of those whose tensors stay on the device."""
    rates = {
        mode: best["items_per_s"] or 0
        for mode, best in best_by_mode(result).items()
        if best is not None and best["by"] == ITEMS and not is_noisy(result, mode)
    }
    found: list[str] = []
    for on_device in (False, True):
        group = [mode for mode in rates if mode_of(mode).on_device is on_device]
        first = max(group, key=lambda mode: rates[mode], default=None)
        if first is not None and (not found or rates[first] > rates[found[0]]):
            found.append(first)
    return found


def _best(result: Result) -> Iterator[Fact]:
    slo = slo_of(result)
    text = "" if slo is None else str(slo)
    first = _leading_modes(result)
    modes = best_by_mode(result)
    for mode in dict.fromkeys([*first, *modes]):
        best = modes[mode]
        if best is None:
            if slo is not None and not is_rate(mode, LATENCY):
                is_known = None not in [meets_slo(case, slo) for _, case in cases_of(result, mode)]
                after = "" if is_known else _longer(result)
                values: Values = {"slo": text, **({} if is_known else {"why": why_not_told(slo)})}
                yield Fact("slo-shape", "none" if is_known else "open", mode, values, after)
        elif best["by"] != ITEMS:
            yield Fact("slo-shape", "largest", mode, {"slo": text, "shape": best["shape"]}, "", _point(result, best))
        elif is_noisy(result, mode):
            yield Fact("best-shape", "noise", mode, {"shape": best["shape"]}, _longer(result))
        elif mode in first:
            yield _best_shape(result, mode, best)
            if by_size := best_by_other_sizes(result, mode):
                sizes = [f"{_or([it['shape'], *it['ties']], size)} at {size}" for size, it in by_size.items()]
                yield Fact("best-shape", "by-size", mode, {"sizes": sizes, **condition(result, mode)})
    if differing_dims(result.shapes) and not any(it.items for it in result.shapes):
        yield Fact("items", "unknown", "", {})


def _or(names: Sequence[str], size: str) -> str:
    """Shapes of a size that is said: ``batch=4 or batch=8``, those that cannot be told apart."""
    return " or ".join(" ".join(word for word in name.split() if word not in size.split()) for name in names)


def _point(result: Result, best: BestShape) -> Mapping[str, int | float | str]:
    return next(it.point for it in result.shapes if it.name == best["shape"])


def _best_shape(result: Result, mode: str, best: BestShape) -> Fact:
    rate = per_s(best["items_per_s"] or 0, best["ci95"], "items")
    values: Values = {"shape": best["shape"], "rate": rate, **condition(result, mode)}
    alike, unknown = ties(result, mode)
    verdict = how_known(result, mode)
    after = _longer(result) if verdict == "open" else ""
    if unknown or alike:
        values["ties"] = unknown or alike
    elif _has_most(result, best["shape"]):
        verdict, after = "largest", _larger(result, best["shape"])
    return Fact("best-shape", verdict, mode, values, after, _point(result, best))


def _has_most(result: Result, name: str) -> bool:
    """Whether a shape has the most items of several."""
    counts = {it.name: it.items["count"] for it in result.shapes if it.items is not None}
    return len(set(counts.values())) > 1 and counts.get(name) == max(counts.values())


def _larger(result: Result, name: str) -> str:
    """The command that tries larger shapes, where they differ by one `--dim` alone."""
    dims, options = differing_dims(result.shapes), [word.partition("=")[0] for word in result.command]
    if len(dims) != 1 or options.count("--dim") != 1:
        return ""
    size = next(it.shape[dims[0]] for it in result.shapes if it.name == name)
    return again(result, "--dim", f"{dims[0]}={size},{2 * size},{4 * size}")


def _longer(result: Result) -> str:
    """What tells more: a quiet machine, else more rounds."""
    stopped = result.stopped
    if waits := quiet_options(result):
        return again(result, *waits)
    if stopped is None or stopped["reason"] != "duration":
        return ""
    return again(result, "--duration", f"{_TIMES_LONGER * stopped['value']:g}s")


def _switching(result: Result) -> Iterator[Fact]:
    for switching in result.own.get("switching") or []:
        worst = max(switching["shapes"], key=lambda shape: shape["ratio"])
        ends = switching["ci95"]
        ratio = Quantity(switching["ratio"], "×", None if ends is None else (ends[0], ends[1]))
        values: Values = {
            "ratio": ratio,
            "cost": ns(switching["cost_ns"]),
            "worst": worst["shape"],
            "worst_ratio": times(worst["ratio"]),
        }
        if has_a_cost(switching):
            yield Fact("switching", "dear" if switching["ratio"] >= _OFTEN else "costs", switching["mode"], values)


def _first_inferences(result: Result) -> Iterator[Fact]:
    """What the first inference of a shape takes beside later ones; nothing on a busy machine, of which one inference tells nothing."""
    slow = [
        (shape.name, shape.first_inference_ns, later)
        for shape, case in cases_of(result, CPU)
        if shape.first_inference_ns and (later := case.median(LATENCY))
    ][1:]  # the first one warms the session itself up
    if slow and not is_busy(result):
        name, first, later = max(slow, key=lambda it: it[1] / it[2])
        if first >= _OFTEN * later:
            values: Values = {"shape": name, "first": ns(first), "later": ns(later), "ratio": times(first / later)}
            yield Fact("first-of-shape", "slow", CPU, values)


# fmt: off
SENTENCES = {
    ("check-slo-shape", "met"): Sentence("SLO of {mode}: {slo} is met; best with {shape}.", "batch to this shape", _ANSWER, "good", "sweeps"),
    ("check-slo-shape", "met-rate"): Sentence("SLO of {mode}: {slo} is met; best with {shape}, {rate}.", "batch to this shape", _ANSWER, "good", "sweeps"),
    ("check-slo-shape", "open"): Sentence("SLO of {mode}: whether a shape meets {slo} cannot be told: {why}; a longer --duration gives more.", LONGER, _ANSWER, "unclear", "sweeps"),
    ("check-slo-shape", "none"): Sentence("SLO of {mode}: no shape meets {slo}.", "smaller shapes, a faster mode or EP", _ANSWER, "bad", "sweeps"),
    ("best-shape", "known"): Sentence("{shape} has the most items/s with {mode:if}: {rate:ci}.", "batch to this shape", _ANSWER, "good", "sweeps", figure=("Best shape", "shape")),
    ("best-shape", "largest"): Sentence("{shape} has the most items/s with {mode:if}: {rate:ci}. A larger one may have more.", "try larger shapes", _ANSWER, "good", "sweeps", figure=("Best shape", "shape")),
    ("best-shape", "tied"): Sentence("No shape alone has the most items/s with {mode:if}: {rate:ci} with {shape}, the same with {ties}.", "take the smallest of them", _ANSWER, "good", "sweeps", figure=("Items/s", "rate")),
    ("best-shape", "by-size"): Sentence("Most items/s with {mode:if}: {sizes:all}.", "batch to the shape of a request's size", _ANSWER, "good", "sweeps"),
    ("best-shape", "open"): Sentence("Cannot tell whether {shape} or {ties} has the most items/s with {mode}: {rate:ci}.", LONGER, _ANSWER, "unclear", "sweeps"),
    ("best-shape", "noise"): Sentence("The machine was too busy to tell which shape has the most items/s with {mode}.", WAIT, _ANSWER, "unclear", "noise"),
    ("slo-shape", "largest"): Sentence("{shape} is the largest shape that meets {slo} with {mode}.", "pad to no more than this shape", _ANSWER, "good", "sweeps"),
    ("slo-shape", "none"): Sentence("No shape meets {slo} with {mode}.", "smaller shapes, a faster mode or EP", _ANSWER, "bad", "sweeps"),
    ("slo-shape", "open"): Sentence("Cannot tell whether a shape meets {slo} with {mode}: {why}.", LONGER, _ANSWER, "unclear", "sweeps"),
    ("items", "unknown"): Sentence("No shape is the best: how many items an inference has is not known.", "--items DIM, the dimension that counts them, or --items N", _GAIN, "", "sweeps"),
    ("switching", "costs"): Sentence("Switching shapes makes an inference {ratio:ci} as long with {mode}, most with {worst} ({worst_ratio}).", "group requests by shape", _GAIN, "", "sweeps", figure=("Switching shapes", "ratio")),
    ("switching", "dear"): Sentence("Switching shapes makes an inference {ratio:ci} as long with {mode}, most with {worst} ({worst_ratio}).", "pad inputs to one shape, or use a session for each shape", _ANSWER, "bad", "sweeps", figure=("Switching shapes", "ratio")),
    ("first-of-shape", "slow"): Sentence("The first inference of a shape takes up to {ratio} as long as later ones: {first} with {shape}.", "run each shape once at start-up", _GAIN, "", "sweeps"),
}
