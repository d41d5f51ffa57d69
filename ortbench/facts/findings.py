"""All facts of a result, by its kind, and what people see of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ortbench.analysis.advice import Finding
from ortbench.core.features import part_of
from ortbench.facts import common
from ortbench.facts.fact import Fact, record
from ortbench.facts.run import run_facts
from ortbench.facts.sentences import in_order, phrase, sentence_of
from ortbench.model.modes import LATENCY
from ortbench.model.result import RUN, Result

Rule = Callable[[Result], Iterator[Fact]]

_EACH: tuple[Rule, ...] = (common.noise_facts, common.doubt_facts, common.placement_facts, common.node_facts)


def _kind_rules(kind: str) -> tuple[Rule, ...]:
    """The rules of a kind's own figures."""
    of_feature = part_of(kind, "facts", "kind_facts")
    return (of_feature,) if of_feature else (run_facts, common.host_facts) if kind == RUN else ()


def put_findings(result: Result) -> None:
    """Put the facts of a result into it, as its file has them."""
    result.findings = [record(it) for it in facts_of(result)] if _kind_rules(result.kind) else None


def facts_of(result: Result) -> list[Fact]:
    """What a result says, the weightiest first; of one in which nothing was measured what is known all the same."""
    rules: tuple[Rule, ...] = (common.engine_facts, common.node_facts)
    if any(case.median(LATENCY) is not None for case in result.cases):
        rules = (*_EACH, *_kind_rules(result.kind), common.engine_facts)
    return in_order([fact for rule in rules for fact in rule(result)])


def headline(result: Result) -> str:
    """What there is to say first: the sentence of the weightiest fact."""
    facts = [it for it in facts_of(result) if it.code != "busy-machine"]
    if facts:
        return phrase(facts[0])
    return "No finding" if any(case.metrics for case in result.cases) else "Nothing was measured"


def placement_of(result: Result) -> list[Fact]:
    """Where nodes are and what Memcpy nodes copy, of a result beside others."""
    fallbacks = (it for it in common.node_facts(result) if it.code == "cpu-fallback")
    return in_order([*common.placement_facts(result), *fallbacks])


def repeated_warnings(facts: Sequence[Fact]) -> set[str]:
    """The codes of warnings of which facts say as much."""
    return {sentence_of(it).warning for it in facts}


def findings_of(facts: Sequence[Fact]) -> list[Finding]:
    """Facts with their sentences, for reports."""
    return [Finding(phrase(it), it.next, sentence_of(it).weight, sentence_of(it).tone) for it in facts]
