"""What there is to say of several results together. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.analysis.speedups import FASTER, NOISY, UNKNOWN, compared, fastest, may_be_faster, takes
from ortbench.core.features import part_of
from ortbench.facts.fact import Fact, Values, latency, share, times
from ortbench.facts.findings import facts_of
from ortbench.facts.run import copy_share
from ortbench.facts.sentences import phrase
from ortbench.facts.shared import condition
from ortbench.model.result import Result

FEW_RESULTS = 6  # of which each mode that is the fastest is named


def headline_of_many(results: Sequence[Result]) -> str:
    """What there is to say first of several results, in a few words."""
    off = [it for result in results for it in facts_of(result) if it.code == "fallback"]
    shares = sorted(copied for result in results if (copied := copy_share(result)))
    values: Values = {"results": len(results), "off": len(off)}
    if off:
        return phrase(Fact("several", "fallback", "", values))
    if not shares:
        return phrase(Fact("several", "side-by-side", "", values))
    values |= {"least": share(shares[0], derived=True), "most": share(shares[-1], derived=True)}
    return phrase(Fact("several", "copies", "", values))


def mode_facts(results: Sequence[Result], names: Sequence[str]) -> list[Fact]:
    """The two speedups of results side by side: the fastest mode of each that takes new inputs in each inference, and what it brings to
    keep tensors on the device; or what their kind has in place of them."""
    if (of_kind := part_of(results[0].kind, "facts", "several_facts")) is not None:
        return [fact for result, name in zip(results, names, strict=True) for fact in of_kind(result, name)]
    found = []
    for result, name in zip(results, names, strict=True):
        for on_device in (False, True):
            best = None if result.axes else fastest(result, on_device)
            if best is None or (on_device and best.claim != FASTER):
                continue
            values: Values = {
                "configuration": name, "speedup": times(best.speedup), "latency": latency(best.case), "takes": takes(result),
                **condition(result, best.mode),
            }  # fmt: skip
            is_open = any(may_be_faster(it.speedup) for it in compared(result, on_device))
            verdict = best.claim if best.claim in (FASTER, NOISY, UNKNOWN) else "open" if is_open else "none"
            found.append(Fact("fastest-mode", verdict, best.mode, values))
    return found
