"""The figures of chains, from the times of their stages and links, and whether two are the same one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ortbench.analysis.comparable import Traits, device_identity
from ortbench.analysis.intervals import by_round
from ortbench.core.safe_text import first_of
from ortbench.core.stats import summarise_blocks
from ortbench.features.chain.model import Chain, ChainLink, ChainStage
from ortbench.model.modes import LATENCY, STAGE, WHOLE_CHAIN, stage_phase
from ortbench.model.result import Case, Result
from ortbench.model.settings import OF_SESSION, setting_pairs


def put_figures(case: Case, chain: Chain) -> None:
    """Put the statistics of each stage into a case that follow from the times of all stages."""
    if (latency := case.stats(LATENCY)) is not None:
        case.metrics[WHOLE_CHAIN] = latency
    taken, names = by_round(case, STAGE), [stage["name"] for stage in chain["stages"]]
    for at, name in enumerate(names if taken else ()):
        own = {number: found[at :: len(names)] for number, found in taken.items()}
        case.metrics[stage_phase(name)] = summarise_blocks(own, case.first_rounds)


def crossing_ns(link: ChainLink) -> int | None:
    """What all copies of a link through the host take, each as long as alone; None where not measured, or without any."""
    ways = ((link["downloads"], link["d2h_ns"]), (link["uploads"], link["h2d_ns"]))
    times = [count * ns for count, ns in ways if count and ns is not None]
    return sum(times) if times and len(times) == sum(1 for count, _ in ways if count) else None


def crosses(link: ChainLink) -> bool:
    """Whether a link is copied where it goes through the host."""
    return bool(link["downloads"] or link["uploads"])


_MOST = 3  # links that a sentence names
_MEASURED = ("session_ns", "first_inference_ns", "d2h_ns", "h2d_ns")


def different_stages(one: Chain, other: Chain) -> list[tuple[str, str, str]]:
    """What makes two chains different ones, in words: stages, their models, what is fed back, links; what it is, and that of each."""
    mine, theirs = (", ".join(map(stage_text, it["stages"])) for it in (one, other))
    if mine != theirs:
        return [("stages", mine, theirs)]
    found = []
    for a, b in _pairs(one, other):
        if a["sha256"] != b["sha256"]:
            mine, theirs = (f"{it['model']} ({it['sha256'][:12]})" for it in (a, b))
            found.append((f"model of {a['name']}", mine, theirs))
        if a["feedback"] != b["feedback"]:
            mine, theirs = (", ".join(f"{out}={into}" for out, into in it["feedback"]) or "none" for it in (a, b))
            found.append((f"feedback of {a['name']}", mine, theirs))
    links, others = ([f"{link['from']} → {link['to']}" for link in it["links"]] for it in (one, other))
    if set(links) != set(others):
        only = ([it for it in own if it not in rest] for own, rest in ((links, others), (others, links)))
        mine, theirs = (first_of(it, _MOST) or "none" for it in only)
        found.append(("links that the other has not", mine, theirs))
    return found


def settings_of(one: Chain, other: Chain, versions: bool) -> list[tuple[str, Any, Any]]:
    """Each setting of each stage, in words, with what two chains have of it."""
    found: list[tuple[str, Any, Any]] = []
    for a, b in _pairs(one, other):
        settings = [
            *([("EP version", a["ep_version"], b["ep_version"])] if versions else ()),
            *setting_pairs(OF_SESSION, a["settings"], b["settings"]),
            ("kept on the device", a["keep"], b["keep"]),
        ]
        found += [(f"{a['name']}: {what}", mine, theirs) for what, mine, theirs in settings]
    return found


def essence(chain: Chain) -> list[dict[str, Any]]:
    """What a chain is, without what was measured of it."""
    return [
        {key: value for key, value in part.items() if key not in _MEASURED}
        for part in (*chain["stages"], *chain["links"])
    ]


def _pairs(one: Chain, other: Chain) -> Iterator[tuple[ChainStage, ChainStage]]:
    others = {stage["name"]: stage for stage in other["stages"]}
    return ((stage, others[stage["name"]]) for stage in one["stages"] if stage["name"] in others)


def stage_text(stage: ChainStage) -> str:
    """Its name, with how often a loop runs."""
    return f"{stage['name']} ×{stage['repeat']}" if stage["repeat"] > 1 else stage["name"]


def count_text(result: Result) -> str:
    return f" of {len(result.part['stages'])} stages"


def identity(result: Result, own: Traits) -> Traits:
    """Stages may each be on another EP."""
    rest = {key: value for key, value in own.items() if key not in ("shapes", "EP", "device")}
    eps: Traits = {}
    for stage in result.part["stages"]:
        eps[f"EP of {stage['name']}"] = stage["ep"]
        eps[f"device of {stage['name']}"] = device_identity(stage["device"])
    return {"shapes": own["shapes"], **eps, **rest}
