"""The facts of chains: what keeping links on the device brings, the slowest stage, links that are copied in every mode. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.advice import Weight
from ortbench.facts import Fact, Values, bytes_of, host_facts, latency, ns, share
from ortbench.facts.run import speedup_facts
from ortbench.facts.sentences import Sentence
from ortbench.features.chain.model import Chain
from ortbench.model.modes import LATENCY
from ortbench.model.result import OK, Result

_DETAIL, _COST, _GAIN, _ANSWER, _DOUBT = Weight


def kind_facts(result: Result) -> Iterator[Fact]:
    chain: Chain = result.part
    yield from speedup_facts(result)
    measured = [case for case in result.cases if case.status == OK and len(case.stages) > 1]
    if measured:
        case = min(measured, key=lambda it: it.median(LATENCY) or 0)
        name, stats = max(case.stages.items(), key=lambda item: item[1].median)
        part = share(stats.median / (case.median(LATENCY) or 1))
        values: Values = {"stage": name, "share": part, "time": ns(stats.median), "chain": latency(case)}
        yield Fact("stage", "slowest", case.mode, values)
    for link in chain["links"]:
        if not link["stays"]:
            ends: Values = {"from": link["from"], "to": link["to"]}
            yield Fact("chain-link", "copied", "", {**ends, "bytes": bytes_of(link["bytes"]), "why": str(link["why"])})
    yield from host_facts(result)


SENTENCES = {
    ("stage", "slowest"): Sentence("Stage {stage} takes {share} of the chain with {mode}: {time} of {chain}.", "begin there: another EP, type or settings for it", _GAIN, "", "chains", figure=("Slowest stage", "share")),
    ("chain-link", "copied"): Sentence("{from} → {to} ({bytes}) is copied in every mode: {why}.", "change the stage that the reason names", _COST, "", "chains"),
}  # fmt: skip
