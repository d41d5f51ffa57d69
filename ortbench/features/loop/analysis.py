"""The figures of loops, from the times of their steps. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from functools import lru_cache
from statistics import NormalDist, fmean, median, stdev
from typing import Any, NamedTuple

from ortbench.analysis.advice import command, inspection, pairs_of
from ortbench.analysis.comparable import Traits
from ortbench.analysis.derive import put_pace
from ortbench.analysis.intervals import by_process, by_round, taken_blocks
from ortbench.analysis.items import put_rates
from ortbench.core.stats import FEW, Value, summarise, summarise_blocks, t_quantile
from ortbench.features.loop.model import COPIED_BY_STEPS, SETTINGS, Generation, Loop
from ortbench.model.modes import ENERGY, LATENCY, STEP, WHOLE_LOOP
from ortbench.model.result import Case, Result
from ortbench.model.settings import setting_pairs

_TELLING = 0.02  # so much of a step's time must the loop's growth make up to be told
# Of jumps over depth: the share of a step's time that is one, how many steps it takes to look for them, how many loops, the share
# of these that must show one, and how many steps on either side say its size.
_JUMP, _FEWEST_STEPS, _FEWEST_LOOPS, _MOST_LOOPS, _AROUND = 0.05, 12, 2, 0.75, 16
_FEWEST = 3  # steps on either side of a place where steps jump
_CERTAIN = 3.8  # standard deviations: the greatest of all places of some hundred steps without a jump is less in 99.5 % of cases
_OUTSIDE = NormalDist().inv_cdf(0.975)
_BESIDE = 4  # steps on either side that differ as they were taken


def put_figures(case: Case, loop: Loop) -> None:
    """Put the figures of a loop's case into it that follow from the times of its steps; its latency is there."""
    count, first, generation = loop["steps"], bool(loop["first"]), loop.get("generation")
    latency, samples = case.stats(LATENCY), case.samples.get(STEP)
    if latency is not None:
        case.metrics[WHOLE_LOOP] = latency
        put_rates(case, {"step_throughput": count}, by_round(case, LATENCY))
    if samples:
        case.metrics[STEP] = summarise_blocks(by_round(case, STEP), case.first_rounds)
        case.metrics["first_step"] = summarise(samples[::count])
        case.steps_ns = [round(median(samples[number::count])) for number in range(count)]
        case.set_metric("last_step", case.steps_ns[-1])
        of_each = [[median(own[number::count]) for number in range(count)] for own in by_process(case, STEP)]
        case.set_metric("step_growth", slope_ns(case.steps_ns, first, of_each), derived=True)
        if generation is not None:
            _summarise_tokens(case, generation)
        apart = int(first and count > 1)  # which has a shape of its own
        blocks = taken_blocks(case, STEP)
        put_pace(
            case, {number: [ns for at, ns in enumerate(block) if at % count >= apart] for number, _, block in blocks}
        )
    for key in COPIED_BY_STEPS:
        copied = case.step_copies(key)
        if copied is not None:
            of, way = key.split("_")
            case.metrics[f"{of}_bytes_{way}"] = summarise(copied if isinstance(copied, list) else [copied] * count)


def _summarise_tokens(case: Case, generation: Generation) -> None:
    count, batch = generation["tokens"], generation["batch"]
    loops = {
        number: [block[at : at + count] for at in range(0, len(block), count)]
        for number, _, block in taken_blocks(case, STEP)
    }
    first = {number: [loop[0] for loop in block] for number, block in loops.items()}
    each = {number: [ns for loop in block for ns in loop[1:]] for number, block in loops.items()}
    decoding = {number: [sum(loop[1:]) for loop in block] for number, block in loops.items()}
    case.metrics["time_to_first_token"] = summarise_blocks(first, case.first_rounds)
    case.metrics["inter_token_latency"] = summarise_blocks(each, case.first_rounds)
    put_rates(case, {"prefill_tokens_per_s": batch * generation["prompt"]}, first)
    of_sequence = (count - 1) if batch > 1 else 0
    put_rates(case, {"decode_tokens_per_s": batch * (count - 1), "sequence_tokens_per_s": of_sequence}, decoding)
    drawn, tokens = case.metrics.get(ENERGY), count * batch
    if isinstance(drawn, Value):
        ends = None if drawn.ci95 is None else [joules / tokens for joules in drawn.ci95]
        case.set_metric("token_energy", drawn.value / tokens, ends, derived=True)


def slope_ns(steps_ns: Sequence[int], first: bool, processes: Sequence[Sequence[float]] = ()) -> float | None:
    """By how much a step takes longer than the one before it, ns: the least-squares line through the medians of the steps.

    None with fewer than three steps, and where the slope cannot be told from none (two-sided t test, 95 %): by how far the medians lie
    from the line, and of three `processes` or more by the slopes of their medians.
    """
    # An eighth, in which caches get warm, tells nothing of growth, nor does a `first` step of a shape of its own.
    begin = max(first, len(steps_ns) // 8)
    if len(steps_ns) - begin < 3:
        return None
    each, error = _line(steps_ns[begin:])
    if abs(each) <= t_quantile(len(steps_ns) - begin - 2) * error:
        return None
    slopes = [_line(it[begin:])[0] for it in processes]
    n = len(slopes)
    return each if n < FEW or abs(fmean(slopes)) > t_quantile(n - 1) * stdev(slopes) / math.sqrt(n) else None


def _line(values: Sequence[float]) -> tuple[float, float]:
    """The slope of the least-squares line through three values or more, and its standard error."""
    n = len(values)
    middle, mean = (n - 1) / 2, sum(values) / n
    spread = sum((number - middle) ** 2 for number in range(n))
    each = sum((number - middle) * (value - mean) for number, value in enumerate(values)) / spread
    left = sum((value - mean - each * (number - middle)) ** 2 for number, value in enumerate(values))
    return each, math.sqrt(left / (n - 2) / spread)


def growth_ns(case: Case) -> float | None:
    """The growth per step that is worth telling: None where steps get shorter, which is their warming up, and where all together make
    up less than 2 % of the last one."""
    each, medians = case.value("step_growth"), case.steps_ns
    return each if each is not None and medians and each * len(medians) > _TELLING * medians[-1] else None


class Shift(NamedTuple):
    """How many times as great figures are, and the 95 % interval of it; None where there are too few for one."""

    ratio: float
    ci95: tuple[float, float] | None

    @property
    def is_jump(self) -> bool:
        """Whether there is a difference for certain, and a great one."""
        is_certain = self.ci95 is not None and (self.ci95[0] > 1 or self.ci95[1] < 1)
        return is_certain and max(self.ratio, 1 / self.ratio) > 1 + _JUMP


def shift(before: Sequence[float], after: Sequence[float]) -> Shift:
    """From one group of positive figures to another: Hodges' and Lehmann's estimate, and the interval of Mann and Whitney's test
    (Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, 3rd ed., 4.2 and 4.3)."""
    ratios, n, m = sorted(y / x for x in before for y in after), len(before), len(after)
    left_out = math.floor(n * m / 2 - _OUTSIDE * math.sqrt(n * m * (n + m + 1) / 12)) - 1
    return Shift(median(ratios), None if left_out < 0 else (ratios[left_out], ratios[-1 - left_out]))


class Jump(NamedTuple):
    """Where the steps of a loop take longer or shorter at once."""

    step: int  # the first one of the new level, from 0
    before: float  # what it would take, ns
    after: float  # what it takes
    size: Shift  # how many times as long
    each: float  # by how much a step around it takes longer than the one before, ns

    def is_shown_by(self, ratio: float) -> bool:
        """Whether steps that take so many times as long behind it differ that way too, by half as much at least."""
        return max(ratio, 1 / ratio) > 1 + _JUMP / 2 and (ratio > 1) == (self.size.ratio > 1)


def jumps(case: Case, first: bool) -> list[Jump]:
    """The change points of the steps' medians over depth, without their slope, that most loops show by themselves."""
    medians = tuple(case.steps_ns or ())[first:]
    samples, count = case.samples.get(STEP, []), len(medians) + first
    loops = [samples[at + first : at + count] for at in range(0, len(samples), max(count, 1))]
    if len(medians) < _FEWEST_STEPS or len(loops) < _FEWEST_LOOPS:
        return []
    most = _MOST_LOOPS * len(loops)
    found = [it for it in _jumps(medians) if sum(it.is_shown_by(_ratio(loop, it)) for loop in loops) >= most]
    return [it._replace(step=it.step + first) for it in found]


def rounds_that_jump(case: Case, first: bool, jump: Jump) -> dict[int, bool]:
    """Of each round whether its loops change the same way at the place of a jump."""
    count, here = len(case.steps_ns or ()), jump._replace(step=jump.step - first)
    found = {}
    for number, _, samples in taken_blocks(case, STEP):
        ratio = median(_ratio(samples[at + first : at + count], here) for at in range(0, len(samples), count))
        found[number] = (ratio > 1) == (jump.size.ratio > 1)
    return found


@lru_cache(maxsize=64)
def _jumps(medians: tuple[int, ...]) -> list[Jump]:
    n, positions = len(medians), list[int]()
    flat = _without_slope(medians, (n - 1) / 2, _slope(medians, max(1, n // 6)))
    stretches = [(0, n)]
    while stretches:
        begin, end = stretches.pop()
        if (at := _split(flat[begin:end])) is not None:
            stretches += [(begin, begin + at), (begin + at, end)]
            if _jump(medians, begin, begin + at, end).size.is_jump:
                positions.append(begin + at)
    positions.sort()
    found = [_jump(medians, *it) for it in zip([0, *positions], positions, [*positions[1:], n], strict=False)]
    # What bends is no jump, nor is what the slope of a few steps makes one.
    return [it for it in found if it.size.is_jump and _is_seen(medians, it)]


def _split(values: Sequence[float]) -> int | None:
    """The place where what is before differs most from what follows, by Mann's and Whitney's statistic; None where nothing does."""
    n, order = len(values), sorted(values)
    most = math.sqrt(0.75 * n * n / (n + 1))  # where all of the one half are greater than all of the other
    greatest, position, ranks = min(_CERTAIN, 0.95 * most), None, 0.0
    for at, value in enumerate(values, 1):
        ranks += (bisect_left(order, value) + bisect_right(order, value) + 1) / 2
        if _FEWEST <= at <= n - _FEWEST:
            deviation = abs(ranks - at * (n + 1) / 2) / math.sqrt(at * (n - at) * (n + 1) / 12)
            if deviation > greatest:
                greatest, position = deviation, at
    return None if position is None else _exact(values, position)


def _exact(values: Sequence[float], position: int) -> int:
    """The place near by that leaves most figures on the side whose level they are nearer to."""
    before, after = median(values[max(0, position - _AROUND) : position]), median(values[position : position + _AROUND])
    begin = position - _FEWEST
    is_new = [abs(it - after) < abs(it - before) for it in values[begin : position + _FEWEST]]
    exact = begin + max(range(len(is_new) + 1), key=lambda it: is_new[it:].count(True) + is_new[:it].count(False))
    return min(max(exact, _FEWEST), len(values) - _FEWEST)


def _is_seen(medians: tuple[int, ...], jump: Jump) -> bool:
    """Whether the steps right beside the place differ that way too, as they were taken."""
    before, after = medians[max(0, jump.step - _BESIDE) : jump.step], medians[jump.step : jump.step + _BESIDE]
    return len(before) == len(after) == _BESIDE and jump.is_shown_by(median(after) / max(median(before), 1))


def _jump(medians: Sequence[int], begin: int, at: int, end: int) -> Jump:
    """What is between the steps on either side of a place, by the slope that they have."""
    before, after = medians[max(begin, at - _AROUND) : at], medians[at : min(end, at + _AROUND)]
    each = sum(_slope(part, max(1, len(part) // 2)) for part in (before, after)) / 2
    old, new = _without_slope(before, len(before), each), _without_slope(after, 0, each)
    return Jump(at, median(old), median(new), shift(old, new), each)


def _slope(values: Sequence[float], apart: int) -> float:
    """By how much each takes longer than the one before it; few jumps change nothing of it."""
    return median((after - before) / apart for before, after in zip(values, values[apart:], strict=False))


def _without_slope(values: Sequence[float], at: float, each: float) -> list[float]:
    """What steps would take at a place."""
    return [max(value - each * (number - at), 1.0) for number, value in enumerate(values)]


def _ratio(loop: Sequence[float], jump: Jump) -> float:
    """How many times as long one loop's steps take from a place on as before it, without their slope."""
    before, after = loop[max(0, jump.step - _AROUND) : jump.step], loop[jump.step : jump.step + _AROUND]
    return median(_without_slope(after, 0, jump.each)) / median(_without_slope(before, len(before), jump.each))


def depth_of(made: Generation, step: int) -> int:
    """How many tokens the cache holds before a step of a loop that generates."""
    return made.get("context", 0) + (made["prompt"] + step - 1 if step else 0)


def is_first_apart(result: Result) -> bool:
    return result.kind == "loop" and bool(result.part["first"])


# Whether two are the same one, and commands to copy


def generation_of(result: Result) -> Generation | None:
    """Of a loop that generates, what it is given and gives; else None."""
    found: Generation | None = result.part.get("generation")
    return found


def count_text(result: Result) -> str:
    return f" of {result.part['steps']} steps"


def identity(result: Result, own: Traits) -> Traits:
    loop: Loop = result.part
    fed = [f"{out}={into}" for out, into in loop["feedback"]]
    return {"steps": loop["steps"], "feedback": fed, "first step": loop["first"], **own}


def changes(one: Result, other: Result) -> list[tuple[str, Any, Any]]:
    return setting_pairs(SETTINGS, one.part, other.part)


def essence(loop: Loop) -> Loop:
    """What a loop is, without what was measured of it."""
    return loop


def can_be_written(result: Result) -> bool:
    return generation_of(result) is None


def options_of_work(result: Result) -> Iterator[str]:
    """What makes it a loop; nothing of what generates, which finds that by itself."""
    loop: Loop = result.part
    if "generation" in loop:
        return
    for out, into in loop["feedback"]:
        yield from ("--feedback", f"{out}={into}")
    yield from ("--steps", str(loop["steps"]))
    yield from pairs_of("first-dim", loop["first"] or {})
    yield from pairs_of("fill", loop["fill"])
    for flag, names in (("keep", loop["keep"]), ("resident", loop["resident"])):
        for name in names:
            yield from (f"--{flag}", name)


def both_steps(result: Result, step: int) -> str:
    """The command that times the nodes of a step of a loop and of the one before, each alone; nothing where no state grows along a
    dimension with a name."""
    loop: Loop = result.part
    inputs = {it["name"]: it for it in result.model["inputs"]}
    sized = [pair for it in inputs.values() for pair in zip(it["model_shape"], it["shape"] or (), strict=False)]
    for (_, name), (before, after) in zip(loop["feedback"], loop["state_shapes"], strict=False):
        state = inputs.get(name)
        axes = () if state is None else zip(state["model_shape"], state["shape"] or (), before, after, strict=False)
        for symbol, last, begun, ended in axes:  # `last`: in the last step
            if isinstance(symbol, str) and symbol.isidentifier() and begun != ended > last:
                each = ended - last
                here = last - (loop["steps"] - 1 - step) * each
                dims = {
                    dim: f"{symbol}+{each}" if size == ended else size  # a mask is as long as the state then is
                    for dim, size in sized
                    if isinstance(dim, str) and dim.isidentifier() and size != 1
                }
                dims[symbol] = f"{here - each},{here}"
                return command(result, "run", *pairs_of("dim", dims), "--measure-nodes")
    return ""


def inside(result: Result) -> str:
    """The command that times the nodes of the last step of a loop, beside those of the one before where its state grows; where neither
    its sizes nor the model say what a step takes, the one that shows which nodes are where."""
    if any(isinstance(dim, str) for it in result.model["inputs"] for dim in it["model_shape"]):
        return both_steps(result, result.part["steps"] - 1) or inspection(result)
    return command(result, "run", "--measure-nodes")
