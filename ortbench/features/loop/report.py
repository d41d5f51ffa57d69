"""The tables of a loop and its steps, and what a report says of one."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core import units
from ortbench.core.safe_text import first_of, shorten
from ortbench.features.loop.analysis import generation_of, growth_ns, is_first_apart
from ortbench.features.loop.model import COPIED_BY_STEPS, KIND, Loop
from ortbench.model.modes import LATENCY, STEP
from ortbench.model.result import Case, Result
from ortbench.report import phrases
from ortbench.report.case_table import Own, sparkline
from ortbench.report.model import NOTHING, Kind, maybe
from ortbench.report.phrases import PAIRS, shape_text
from ortbench.report.records import csv_text

# What the table of a loop that generates shows by other names.
_NOT_OF_TOKENS = ("loop.p95", "loop.p99", "step", "step.p95", "step.p99", "first_step", "last_step", "step_throughput")


def own_columns(result: Result) -> dict[str, Own]:
    """What the table of a loop shows that is not, or not only, a figure of the catalogue."""
    first = is_first_apart(result)
    every = [ns for case in result.cases if case.stats(LATENCY) is not None for ns in _curve(case, result)]
    span = (min(every, default=0), max(every, default=0))
    per = "token" if generation_of(result) else STEP

    def column(what: str, key: str) -> Own:
        return Own(lambda case: _copied_per_step(case, key, first), header=f"{what}/{per}")

    return {
        **(dict.fromkeys(_NOT_OF_TOKENS, Own(lambda _: NOTHING)) if generation_of(result) else {}),
        "step_growth": Own(lambda case: maybe(growth_ns(case), units.difference)),
        "by step": Own(lambda case: sparkline(_curve(case, result), span), Kind.WORD),
        "state/step": column("state", "state"),
        "copied/step": column("copied", STEP),
    }


def _curve(case: Case, result: Result) -> Sequence[int]:
    """The steps that a curve is of: without the first one where that has a shape of its own."""
    steps = case.steps_ns or []
    return steps[1:] if is_first_apart(result) else steps


def _copied_per_step(case: Case, key: str, first: bool) -> str:
    """What a step copies both ways; without the `first` one where that has a shape of its own."""
    ways = [case.step_copies(it) for it in COPIED_BY_STEPS if it.startswith(f"{key}_")]
    known = [it for it in ways if it is not None]
    if len(known) < 2:
        return NOTHING
    directions = [[value] if isinstance(value, int) else value for value in known]
    count = max(map(len, directions))
    both = [
        sum(direction[number % len(direction)] for direction in directions)
        for number in range(first and count > 1, count)
    ]
    least, most = (units.size(it) if it else "0" for it in (min(both), max(both)))
    return least if least == most else f"{least} to {most}"


def steps_csv(result: Result) -> str:
    """The medians of the steps of a loop as CSV: a row a step, numbered from 0, and a column a mode that has them, in ns."""
    timed = {case.mode: case.steps_ns for case in result.cases if case.steps_ns}
    count = max(map(len, timed.values()), default=0)
    rows = [{STEP: number, **{mode: ns[number] for mode, ns in timed.items()}} for number in range(count)]
    return csv_text([STEP, *timed], rows)


FILES = {"steps.csv": steps_csv}


ON_DEVICE = "the state stays on the device"
_OF_TOKENS = ("TTFT", "ITL", "paced", "paced p99", "prefill tokens/s", "decode tokens/s", "speedup")


def screen_columns(result: Result) -> tuple[str, ...]:
    return _OF_TOKENS if generation_of(result) else KIND.view().screen


def inputs_line(result: Result) -> str:
    """The inputs and their shapes; of those of a KV cache how many there are."""
    if generation_of(result) is None:
        return phrases.inputs_line(result)
    inputs, cache = result.model["inputs"], {into for _, into in result.part["feedback"]}
    shown = [f"{shorten(it['name'])}: {shape_text(it)}" for it in inputs if it["name"] not in cache]
    of_cache = [shape_text(it) for it in inputs if it["name"] in cache]
    if of_cache:
        shape = of_cache[0] if len(set(of_cache)) == 1 else "of several shapes"
        shown.append(f"{units.count(len(of_cache), 'input')} of the KV cache: {shape}")
    return f"last step: {', '.join(shown)}"


def own_line(result: Result) -> str:
    """A loop: how many steps, and what is fed back."""
    loop: Loop = result.part
    pairs = [f"{shorten(out)} → {shorten(into)}" for out, into in loop["feedback"]]
    fed = first_of(pairs, PAIRS)
    if (made := loop.get("generation")) is not None:
        batch = f" in each of {made['batch']} sequences" if made["batch"] > 1 else ""
        forced = {0: "argmax on the host", made["tokens"] - 1: "forced tokens"}.get(
            made["forced"], f"{made['forced']} forced tokens, then argmax on the host"
        )
        prompt = "prompt from a file" if made["from_file"] else "random prompt"
        cache = "growing cache" if loop["grows"] else "cache of fixed length"
        names = f"named by {made['said_by']}" if made["said_by"] else "found by the model's names"
        if eps := made.get("eps"):
            names += f"; EP by {made['said_by']}" if made.get("ep_used") else f"; its EP {', '.join(eps)} is not used"
        context = made.get("context", 0)
        depth, behind = (
            (f" @ d{context}", f" behind {units.count(context, 'token')} in the cache") if context else ("", "")
        )
        return (
            f"generation: {units.count(made['prompt'], 'prompt token')} (pp{made['prompt']}{depth}){behind}, "
            f"{units.count(made['tokens'], 'generated token')} (tg{made['tokens']}{depth}){batch}; {prompt}, {forced}; no tokenizing, no sampling; {cache}: {fed} ({names})"
        )
    first = "" if not loop["first"] else f", the first with {', '.join(f'{k}={v}' for k, v in loop['first'].items())}"
    grows = "; the state grows" if loop["grows"] else ""
    return f"loop of {units.count(loop['steps'], 'step')}{first}: {fed}{grows}"


def heading(result: Result) -> str:
    loop: Loop = result.part
    made = generation_of(result)
    if made is None:
        return f"{units.count(loop['steps'], 'step')}, {first_of([' → '.join(it) for it in loop['feedback']], 1)}"
    depth = f" at depth {made['context']}" if made.get("context") else ""
    batch = f", batch {made['batch']}" if made["batch"] > 1 else ""
    return f"prompt {made['prompt']}, {units.count(made['tokens'], 'token')} generated{depth}{batch}"
