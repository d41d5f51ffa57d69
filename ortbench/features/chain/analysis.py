"""The figures of chains, from the times of their stages and links, and whether two are the same one. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ortbench.analysis.comparing.comparable import Traits, device_identity
from ortbench.analysis.comparing.pairs import by_round
from ortbench.core.safe_text import first_of
from ortbench.core.stats import by_processes, summarise
from ortbench.features.chain.model import Chain, ChainLink, ChainStage
from ortbench.model.modes import LATENCY, STAGE, WHOLE_CHAIN, stage_phase
from ortbench.model.result import Case, Result
from ortbench.model.settings import OF_SESSION, changed


def put_figures(case: Case, chain: Chain) -> None:
    """Put the statistics of each stage into a case that follow from the times of all stages."""
    if (latency := case.stats(LATENCY)) is not None:
        case.metrics[WHOLE_CHAIN] = latency
    samples, names = case.samples.get(STAGE), [stage["name"] for stage in chain["stages"]]
    if samples:
        sizes = [size // len(names) for _, size, _ in case.blocks[STAGE]]
        taken = by_round(case, STAGE)
        for at, name in enumerate(names):
            own = {number: found[at :: len(names)] for number, found in taken.items()}
            stats = summarise(samples[at :: len(names)], sizes)
            case.metrics[stage_phase(name)] = by_processes(stats, own, case.first_rounds)


def crossing_ns(link: ChainLink) -> int | None:
    """What all copies of a link through the host take, each as long as alone; None where not measured, 0 without any."""
    ways = ((link["downloads"], link["d2h_ns"]), (link["uploads"], link["h2d_ns"]))
    times = [count * ns for count, ns in ways if count and ns is not None]
    return sum(times) if len(times) == sum(1 for count, _ in ways if count) else None


def crosses(link: ChainLink) -> bool:
    """Whether a link is copied where it goes through the host."""
    return bool(link["downloads"] or link["uploads"])


# Whether two are the same one

_MOST = 3  # links that a sentence names
_MEASURED = ("session_ns", "first_inference_ns", "d2h_ns", "h2d_ns")


def different_stages(one: Chain, other: Chain) -> list[tuple[str, str, str]]:
    """What makes two chains different ones, in words: stages, their models, what is fed back, links; what it is, and that of each."""
    if (mine := _stages(one)) != (theirs := _stages(other)):
        return [("stages", mine, theirs)]
    found = []
    for a, b in _pairs(one, other):
        if a["sha256"] != b["sha256"]:
            found.append((f"model of {a['name']}", _stage_model(a), _stage_model(b)))
        if a["feedback"] != b["feedback"]:
            found.append((f"feedback of {a['name']}", _fed(a), _fed(b)))
    links, others = _links(one), _links(other)
    if set(links) != set(others):
        only, only_other = (
            [it for it in mine if it not in theirs] for mine, theirs in ((links, others), (others, links))
        )
        found.append(
            ("links that the other has not", first_of(only, _MOST) or "none", first_of(only_other, _MOST) or "none")
        )
    return found


def _stage_eps(chain: Chain) -> dict[str, object]:
    """The EP and the device of each stage, as messages call them."""
    found: dict[str, object] = {}
    for stage in chain["stages"]:
        found[f"EP of {stage['name']}"] = stage["ep"]
        found[f"device of {stage['name']}"] = device_identity(stage["device"])
    return found


def settings_of(one: Chain, other: Chain, versions: bool) -> list[tuple[str, Any, Any]]:
    """Each setting of each stage, in words, with what two chains have of it."""
    found: list[tuple[str, Any, Any]] = []
    for a, b in _pairs(one, other):
        settings = [
            *([("EP version", a["ep_version"], b["ep_version"])] if versions else ()),
            *changed(OF_SESSION, a["settings"], b["settings"]),
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


def _stages(chain: Chain) -> str:
    return ", ".join(
        f"{it['name']} ×{it['repeat']}" if it["repeat"] > 1 or it["feedback"] else it["name"] for it in chain["stages"]
    )


def _stage_model(stage: ChainStage) -> str:
    return f"{stage['model']} ({stage['sha256'][:12]})"


def _fed(stage: ChainStage) -> str:
    return ", ".join(f"{out}={into}" for out, into in stage["feedback"]) or "none"


def _links(chain: Chain) -> list[str]:
    return [f"{link['from']} → {link['to']}" for link in chain["links"]]


def counted(result: Result) -> str:
    return f" of {len(result.part['stages'])} stages"


def identity(result: Result, own: Traits) -> Traits:
    """Stages may each be on another EP."""
    rest = {key: value for key, value in own.items() if key not in ("shapes", "EP", "device")}
    return {"shapes": own["shapes"], **_stage_eps(result.part), **rest}
