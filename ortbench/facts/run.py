"""The facts of single inferences: copies, the two speedups, the other modes, how modes were checked. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ortbench.analysis.advice import carried_out, how_to_write, lever, loop_command
from ortbench.analysis.feedback_pairs import suggest_loop
from ortbench.analysis.speedups import (
    COPIED,
    FASTER,
    UNCLEAR,
    UNKNOWN,
    claim,
    claim_between,
    handing_on,
    is_on_host,
    may_be_faster,
    other_work,
    part_saved,
)
from ortbench.core.stats import Value
from ortbench.facts.fact import Fact, Values, latency, ns, per_s, share, times
from ortbench.facts.speedups import speedup_facts
from ortbench.model.modes import (
    COPY_SHARE,
    COPY_TIME,
    CPU,
    HIDDEN_SHARE,
    LATENCY,
    MODES,
    PER_ITEM,
    PIPELINE_SPEEDUP,
    THROUGHPUT,
    mode_of,
)
from ortbench.model.result import OK, Case, Result


def run_facts(result: Result) -> Iterator[Fact]:
    if is_on_host(result):
        yield from _latency(result)
    else:
        yield from _arrays(result)
        yield from copy_facts(result)
    yield from speedup_facts(result)
    yield from _pipeline(result)
    yield from _checks(result)
    yield from _step(result)


def _latency(result: Result) -> Iterator[Fact]:
    """What an inference takes where nothing crosses a link, and the next thing to try."""
    case = result.case(CPU)
    if case is not None and case.status == OK and case.stats(LATENCY) is not None:
        rate = per_s(case.value(THROUGHPUT) or 0)
        yield Fact("latency", "known", CPU, {"latency": latency(case), "rate": rate}, lever(result))


def _arrays(result: Result) -> Iterator[Fact]:
    """Whether ONNX Runtime copies arrays at all, of an EP whose memory the host reaches."""
    found = handing_on(result)
    if found is not None and found.verdict not in (COPIED, UNCLEAR):
        values: Values = {
            "ep": result.target["ep"],
            "with": ns(found.with_arrays),
            "without": ns(found.without),
            "copies": ns(found.copies),
        }
        yield Fact("arrays", "in-place" if found.proved else "passed", CPU, values)


# Copies


def copy_share(result: Result) -> float | None:
    """Which share of the latency of `cpu-tensors` is copies: 0 where they cannot be measured, None where nobody can tell."""
    cpu, resident = _with_and_without_copies(result)
    copied = None if cpu is None or resident is None else cpu.value(COPY_SHARE)
    if copied is None or resident is None or resident.noisy:
        return None
    found = claim(resident.speedup, 0)
    return None if found == UNKNOWN else copied if found == FASTER else 0.0


def copy_facts(result: Result) -> Iterator[Fact]:
    copied = copy_share(result)
    cpu, resident = _with_and_without_copies(result)
    if copied is None or cpu is None or resident is None:
        return
    copies, total = cpu.value(COPY_TIME), cpu.median(LATENCY)
    if not copied and may_be_faster(resident.speedup):
        return  # which the speedups say
    if not copied or copies is None or not total:
        yield Fact("copies", "none", CPU, {"latency": latency(cpu)})
        return
    ends = None if resident.speedup is None else resident.speedup.ci95
    interval = None if ends is None else (total * part_saved(ends[0]), total * part_saved(ends[1]))
    mixed = resident.is_read_back or other_work(result, copies) is not None
    values: Values = {
        "share": share(copies / total, derived=True),
        "copies": ns(copies, interval, derived=True),
        "latency": ns(total),
    }
    yield Fact("copies", "mixed" if mixed else "measured", CPU, values)


def _with_and_without_copies(result: Result) -> tuple[Case | None, Case | None]:
    """The mode that all are compared with, and the one whose latency is this one's without its copies."""
    return result.case(CPU), result.case(MODES[CPU].without_copies)


# Other modes


def _pipeline(result: Result) -> Iterator[Fact]:
    for case in filter(None, (result.case(it.name) for it in MODES.values() if it.figure == PER_ITEM)):
        if case.pipeline is None or case.value(THROUGHPUT) is None:
            continue
        values: Values = {"rate": per_s(case.value(THROUGHPUT) or 0), "depth": case.pipeline["depth"]}
        hidden = case.metrics.get(HIDDEN_SHARE)
        if isinstance(hidden, Value) and hidden.ci95 is not None:
            values["hidden"] = share(hidden.value, derived=True)._replace(ci95=hidden.ci95)
        like, against = result.case(mode_of(case.mode).like), case.metrics.get(PIPELINE_SPEEDUP)
        if like is None or not isinstance(against, Value):
            continue
        verdict = claim_between(result, like, case, against)
        values |= {"speedup": times(against), "base": like.mode}
        yield Fact(
            "pipeline", verdict, case.mode, values, how_to_write(result, case.mode) if verdict == "faster" else ""
        )


# How modes were checked


def _checks(result: Result) -> Iterator[Fact]:
    """What was checked of a mode and could not be verified; what could is in the table of checks."""
    for case in result.cases:
        for name in ("zero_copy", "external", "graph"):
            check = case.checks.get(name)
            if case.status == OK and check is not None and case.median(LATENCY) is not None:
                verdict = "verified" if check["verdict"] == "passed" else "not-verified"
                yield Fact(name.replace("_", "-"), verdict, case.mode, {"how": str(check.get("how"))})


def _step(result: Result) -> Iterator[Fact]:
    """That the model looks like a step of a loop, whose state other commands feed back."""
    found = suggest_loop(result.model["inputs"], result.model["outputs"], partial(loop_command, carried_out(result)))
    if found is not None and found["sure"]:
        feedback = [" → ".join(it) for it in found["patterns"]]
        yield Fact("step-of-a-loop", "likely", "", {"feedback": feedback}, found["command"])
