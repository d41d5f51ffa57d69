"""What the figures of starts mean, and of sessions for which an EP builds an engine, from the result alone."""

from __future__ import annotations

from ortbench.analysis.engines import BUILDERS
from ortbench.analysis.findings.finding import Finding, Weight
from ortbench.analysis.findings.phrases import NOTHING, quickest
from ortbench.analysis.findings.program import again
from ortbench.core.units import duration, share
from ortbench.model.metrics import METRICS
from ortbench.model.modes import LATENCY, SECOND_INFERENCE, START_PARTS
from ortbench.model.result import OK, Case, Result
from ortbench.model.schema import Start

_TELLING = 0.1  # of the time to ready, from which on a part is named
_DOES = {
    "import": "Importing onnxruntime and NumPy",
    "session": "Creating the session",
    "interpreter": "Starting the interpreter",
}
_NEXT = {"import": "keep the process alive, or start it before it is needed"}
_LONGER = 2  # times as long as the second inference, from which on the first one is told of
_SESSION = METRICS["start.session"].title


def start_findings(result: Result, start: Start) -> list[Finding]:
    """Where the time to the first answer goes, what the first inference takes besides, and what of it is ortbench's own."""
    cases = [case for case in result.at_point() if case.status == OK and case.median(LATENCY) is not None]
    return [it for case in cases for it in (_parts(result, case), _first(case), _launch(start)) if it is not None]


def start_headline(result: Result) -> str:
    found = quickest(result)
    return NOTHING if found is None else f"Ready {duration(found[1])} after the start of the process"


def _parts(result: Result, case: Case) -> Finding | None:
    """The longest part, and what else is worth a word."""
    whole, medians = case.median(LATENCY), [(case.median(part), METRICS[part].title) for part in START_PARTS]
    found = sorted(((ns, title) for ns, title in medians if ns is not None), reverse=True)
    if not whole or not found:
        return None
    (most, longest), *rest = found
    beside = [f"{title} takes {duration(ns)}" for ns, title in rest if ns >= _TELLING * whole]
    is_session = longest == _SESSION and result.target.get("opt_level") == "all"
    tried = again(result, "--opt-level", "all,basic,disable") if is_session else _NEXT.get(longest, "")
    what = f"{_DOES.get(longest, longest)} takes {share(most / whole)} of the time to ready ({duration(most)} of {duration(whole)})"
    return Finding("; ".join(filter(None, (what, ", ".join(beside)))), "", tried, Weight.ANSWER)


def _first(case: Case) -> Finding | None:
    first, second = case.median("start.first_inference"), case.median(SECOND_INFERENCE)
    if first is None or not second or first < _LONGER * second:
        return None
    return Finding(f"The first inference takes {duration(first)}, the second {duration(second)}", weight=Weight.COST)


def _launch(start: Start) -> Finding | None:
    if not start["launch_ns"]:
        return None
    what = f"Creating the process takes {duration(start['launch_ns'])}, a part of interpreter"
    return Finding(what, weight=Weight.DETAIL)


def engine_findings(result: Result) -> list[Finding]:
    """How long the engine took; empty for EPs that build none."""
    if result.target["ep"] not in BUILDERS:
        return []
    took, first = (duration(result.setup[key]) for key in ("session_ns", "first_inference_ns"))
    cache, evidence = result.setup.get("engine_cache"), f"the first inference took {first}"
    if cache is None:
        return [
            Finding(f"The engine was built in {took}", evidence, again(result, "--engine-cache", "DIR"), Weight.COST)
        ]
    if cache["warm"]:
        return [Finding(f"The engine was loaded from the cache in {took}", evidence, weight=Weight.DETAIL)]
    evidence = f"cold cache, {evidence}; the next session loads it"
    return [Finding(f"The engine was built in {took}", evidence, weight=Weight.DETAIL)]
