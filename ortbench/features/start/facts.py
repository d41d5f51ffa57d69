"""The facts of starts: where the time to the first answer goes, and what the first inference takes besides. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ortbench.analysis.advice import Weight, again
from ortbench.facts import Fact, Values, bytes_of, ns, share
from ortbench.facts.sentences import Sentence
from ortbench.features.start.model import Kept
from ortbench.model.metrics import metric
from ortbench.model.modes import CPU, LATENCY, SECOND_INFERENCE, START_PARTS
from ortbench.model.result import OK, Result

_DETAIL, _COST, _GAIN, _ANSWER, _DOUBT = Weight
_LONGER = 2  # times as long as the second inference, from which on the first one is told of


def kind_facts(result: Result) -> Iterator[Fact]:
    for case in result.at_point():
        whole = case.median(LATENCY)
        if case.status != OK or not whole:
            continue
        parts = {part: took for part in START_PARTS if (took := case.median(part)) is not None}
        if parts:
            most = max(parts, key=lambda it: parts[it])
            can_do_less = most == "start.session" and result.target.get("opt_level") == "all"
            tried = again(result, "--opt-level", "all,basic,disable") if can_do_less else ""
            values: Values = {"share": share(parts[most] / whole), "time": ns(parts[most]), "whole": ns(whole)}
            yield Fact("start-part", "longest", case.mode, {**values, "part": metric(most).title}, tried)
        yield from several_facts(result)
        first, second = case.median("start.first_inference"), case.median(SECOND_INFERENCE)
        if first is not None and second and first >= _LONGER * second:
            yield Fact("first-inference", "slow", case.mode, {"first": ns(first), "second": ns(second)})


def several_facts(result: Result, _: str = "") -> list[Fact]:
    """What was compiled before the starts, ahead of them or by an earlier one, and whether the EP takes it; beside others too."""
    if result.part["compile_cache"] == "warm" and (kept := result.part.get("kept")) is not None and kept["files"]:
        return _kept_facts(result.target["ep"], kept)
    if (compiled := result.part.get("compiled")) is None:
        return []
    values: Values = {
        "time": ns(compiled["compile_ns"]), "size": bytes_of(compiled["bytes"]), "ep": result.target["ep"],
        "nodes": compiled["context_nodes"], "rest": compiled["other_nodes"],
    }  # fmt: skip
    return [Fact("compiled-ahead", "partly" if compiled["other_nodes"] else "used", CPU, values)]


def _kept_facts(ep: str, kept: Kept) -> list[Fact]:
    starts, reading, changing = kept["starts"], kept["reading"], kept["changing"]
    values: Values = {"starts": starts, "ep": ep, "size": bytes_of(kept["bytes"])}
    if changing:
        return [Fact("compile-cache", "changed", CPU, {**values, "changing": changing})]
    if reading is None:
        return []
    return [Fact("compile-cache", "used" if reading == starts else "not-read", CPU, {**values, "reading": reading})]


# fmt: off
SENTENCES = {
    ("start-part", "longest"): Sentence("Longest part of a start: {part}, {share} of the time to ready ({time} of {whole}).", "session: --optimized-model or --engine-cache; first inference: warm up before traffic comes; else keep the process alive", _ANSWER, "", "start", figure=("One start", "whole")),
    ("compiled-ahead", "used"): Sentence("Compiled ahead of time in {time}, {size}: {ep} opens {nodes:EPContext node} and has no other nodes to compile.", "write these files with onnxruntime.ModelCompiler (graph_optimization_level: that of the session) and ship them", _ANSWER, "", "start"),
    ("compiled-ahead", "partly"): Sentence("Compiled ahead of time in {time}, {size}: {ep} opens {nodes:EPContext node}; not compiled ahead: {rest:other node}.", "see why the EP leaves these out (its log)", _ANSWER, "bad", "start"),
    ("compile-cache", "used"): Sentence("Warm compile cache: {reading} of {starts:start} read what {ep} kept ({size}), none changed it.", "keep such a folder in production too", _ANSWER, "", "start"),
    ("compile-cache", "changed"): Sentence("Warm compile cache: {changing} of {starts:start} changed what {ep} kept ({size}): it probably compiles again.", "see why the EP does not take its cache (its log)", _ANSWER, "bad", "start"),
    ("compile-cache", "not-read"): Sentence("Warm compile cache: {reading} of {starts:start} read what {ep} kept ({size}).", "see why the EP does not take its cache (its log)", _ANSWER, "bad", "start"),
    ("first-inference", "slow"): Sentence("The first inference takes {first}, the second {second}.", "warm up before traffic comes", _GAIN, "", "start"),
}
