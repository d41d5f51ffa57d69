"""Why a candidate is slower: its nodes and the baseline's under ONNX Runtime's profiler, in turns; and the change that makes the
difference taken back in a copy of the candidate, timed in turns with it. All of it comes after the verdict's figures."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from ortbench.analysis.intervals import ratio_of_medians
from ortbench.analysis.node_times import is_compiled
from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.core.files import temporary_folder
from ortbench.core.stats import FEWEST
from ortbench.features.why.analysis import QUANTIZED, Change
from ortbench.features.why.facts import Confirmation, Why, confirmation, explain, float_confirmation
from ortbench.measure.configuration import Configuration
from ortbench.measure.driver import Driver
from ortbench.measure.passes import without_passes
from ortbench.measure.process import Client, ask_once, request_of, worker_for
from ortbench.measure.rounds import Rounds
from ortbench.model.modes import LATENCY
from ortbench.model.result import Result
from ortbench.model.schema import Nodes
from ortbench.plan.plan import Observer, Plan

_ROUNDS = 16
_RUNS = (1, 8)  # of each configuration in a round, beside the one that does not count
_BUDGET_NS = 4_000_000_000  # for the profiled runs of both, about
_LONGEST_S = 12.0  # after which there are no more rounds than an interval needs
_EVENTS = 400_000  # of a profile: ONNX Runtime keeps a million
_CONFIRM_S = 4.0


def profile_in_turns(plans: Sequence[Plan], results: Sequence[Result], observer: Observer) -> None:
    """Profile the nodes of several configurations in turns, each in a session of its own, into their results; `OrtbenchError`
    where one cannot be."""
    slowest = max(max((ns for case in it.cases if (ns := case.median(LATENCY))), default=1) for it in results)
    nodes = max(sum((it.placement["nodes"] or {"": 1}).values()) for it in results)
    most = min(_BUDGET_NS / (2 * max(slowest, 1)), _EVENTS / max(nodes, 1))
    rounds = int(min(_ROUNDS, max(FEWEST, most)))
    runs = int(min(_RUNS[1], max(_RUNS[0], most // rounds - 1)))
    with ExitStack() as stack:
        clients: list[Client] = []
        for plan in plans:
            observer.stage(f"profiling nodes: loading {plan.model}")
            client = stack.enter_context(worker_for(plan))
            clients.append(client)
            with _alone(client):
                client.ask("nodes_begin", **request_of(plan))
        observer.stage("profiling nodes in turns")
        end = time.monotonic() + _LONGEST_S
        for number in range(rounds):
            if number >= FEWEST and time.monotonic() > end:  # the profiler slows some models many times
                break
            for client in clients if number % 2 else clients[::-1]:
                with _alone(client):
                    client.ask("nodes_run", runs=runs)
        for client, plan, result in zip(clients, plans, results, strict=True):
            with temporary_folder() as folder:
                graph = f"{folder}/graph.onnx"
                with _alone(client):
                    found: Nodes = client.ask("nodes_end", graph=graph)
                if "content" not in found and plan.target.python is not None:  # what has ortbench can read models
                    found = ask_once(plan.timeout_s, None, "nodes_read", found=found, model=plan.model, graph=graph)
            result.nodes = found


@contextmanager
def _alone(client: Client) -> Iterator[None]:
    """All others are paused while it works."""
    client.resume()
    try:
        yield
    finally:
        client.pause()


def why_slower(
    plans: Sequence[Plan],
    results: Sequence[Result],
    modes: Sequence[str],
    observer: Observer,
    told: Mapping[str, float] | None = None,
) -> Why:
    """Why the candidate differs from the baseline, of plans and results in this order, in the first of some modes, of some of which a
    gate `told` for certain how many times as long it takes; `BadInput` or `BenchmarkFailed`: nodes cannot be profiled."""
    profile_in_turns(plans, results, observer)
    candidate, baseline = results
    why = explain(baseline, candidate, modes, told)
    if why.loss is not None:
        return replace(why, in_float=_confirm(plans, results, why, why.loss, observer))
    culprit = why.culprit
    if culprit is None or why.ns < 0:
        return why
    return replace(why, confirmation=_confirm(plans, results, why, culprit, observer))


def _confirm(
    plans: Sequence[Plan], results: Sequence[Result], why: Why, culprit: Change, observer: Observer
) -> Confirmation:
    """Time the candidate beside a copy of it in which the change is taken back, or what was quantized is in float."""
    candidate, baseline = plans
    if results[0].model["sha256"] == results[1].model["sha256"]:
        reason = "baseline and candidate are the same model, so no change of it can be undone"
        return Confirmation(f"{reason}; what else changed, below, is the likely reason")
    if any(map(is_compiled, culprit.own)):
        return Confirmation("an EP compiled it together with all else")
    own, base = (
        [name for node in nodes for name in node["of"] or [node["name"]]]
        for nodes in (culprit.mainly or culprit.own, () if culprit.mainly else culprit.base)
    )
    try:
        with temporary_folder() as folder:
            observer.stage("confirming: a copy of the candidate without the change")
            models = {"model": candidate.model, "baseline": baseline.model}
            made: dict[str, str] = ask_once(
                candidate.timeout_s,
                None,
                "revert",
                **models,
                nodes=own,
                base_nodes=base,
                folder=folder,
                is_quantized=culprit.kind == QUANTIZED,
            )
            return _time_copy(plans, made["path"], why, culprit, observer)
    except (BadInput, BenchmarkFailed) as error:
        return Confirmation(str(error))


def _time_copy(plans: Sequence[Plan], copy: str, why: Why, culprit: Change, observer: Observer) -> Confirmation:
    """In turns with the baseline too, because workers differ: a share of the difference is of what these take."""
    candidate, baseline = (_confirming(plan, why.mode) for plan in plans)
    models = {"candidate": candidate, "copy": replace(candidate, model=copy), "baseline": baseline}
    configurations = [Configuration(plan, name=name) for name, plan in models.items()]
    driver = Driver(configurations, Rounds, observer)
    cases = [result.case(why.mode) for result in driver.run()]
    if driver.interrupted:
        return Confirmation("it was interrupted")
    if len(cases) < len(configurations) or cases[0] is None or cases[1] is None:
        failed = next((error for _, error in driver.not_opened), None)
        raise BenchmarkFailed(f"a copy without it does not run: {failed or configurations[1].cases[why.mode].reason}")
    own_ns = cases[0].median(LATENCY)
    found, whole = (
        None if case is None else ratio_of_medians((case, LATENCY), (cases[0], LATENCY)) for case in cases[1:]
    )
    if found is None or whole is None or own_ns is None:
        raise BenchmarkFailed("the copy was not timed beside the candidate")
    saved = None if found.ci95 is None else (own_ns * (1 - found.ci95[1]), own_ns * (1 - found.ci95[0]))
    if culprit is why.loss:
        return float_confirmation(saved, own_ns * (1 - found.ratio), own_ns)
    return confirmation(culprit, saved, own_ns * (1 - found.ratio), own_ns * (1 - whole.ratio), own_ns)


def _confirming(plan: Plan, mode: str) -> Plan:
    loop = replace(plan.loop, duration_s=_CONFIRM_S, precision=None, iterations=None, phases=(LATENCY,), processes=1)
    target = replace(plan.target, optimized_model=None, engine_cache=None)
    return replace(without_passes(plan), modes=(mode,), loop=loop, target=target)
