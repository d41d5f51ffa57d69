"""Whether two chains are the same one, and what differs between them besides their figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ortbench.model.schema import Chain, ChainStage
from ortbench.model.settings import OF_SESSION, changed

_MOST = 3  # links that a sentence names
_MEASURED = ("session_ns", "first_inference_ns", "d2h_ns", "h2d_ns")


def different(one: Chain, other: Chain) -> list[tuple[str, str, str]]:
    """What makes two chains different ones, in words: stages, their models, what is fed back, links; what it is, and that of each."""
    if (mine := _stages(one)) != (theirs := _stages(other)):
        return [("stages", mine, theirs)]
    found = []
    for a, b in _pairs(one, other):
        if a["sha256"] != b["sha256"]:
            found.append((f"model of {a['name']}", _model(a), _model(b)))
        if a["feedback"] != b["feedback"]:
            found.append((f"feedback of {a['name']}", _fed(a), _fed(b)))
    links, others = _links(one), _links(other)
    if set(links) != set(others):
        only, only_other = (
            [it for it in mine if it not in theirs] for mine, theirs in ((links, others), (others, links))
        )
        found.append(("links that the other has not", _listed(only), _listed(only_other)))
    return found


def places(chain: Chain) -> dict[str, object]:
    """The EP and the device of each stage, as messages call them."""
    found: dict[str, object] = {}
    for stage in chain["stages"]:
        found[f"EP of {stage['name']}"] = stage["ep"]
        device = stage["device"]
        found[f"device of {stage['name']}"] = {key: device.get(key) for key in ("type", "vendor_id", "device_id")}
    return found


def changes(one: Chain, other: Chain, versions: bool = True) -> list[tuple[str, Any, Any]]:
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
    """The stages that both have."""
    others = {stage["name"]: stage for stage in other["stages"]}
    return ((stage, others[stage["name"]]) for stage in one["stages"] if stage["name"] in others)


def _stages(chain: Chain) -> str:
    return ", ".join(
        f"{it['name']} ×{it['repeat']}" if it["repeat"] > 1 or it["feedback"] else it["name"] for it in chain["stages"]
    )


def _model(stage: ChainStage) -> str:
    return f"{stage['model']} ({stage['sha256'][:12]})"


def _fed(stage: ChainStage) -> str:
    return ", ".join(f"{out}={into}" for out, into in stage["feedback"]) or "none"


def _links(chain: Chain) -> list[str]:
    return [f"{link['from']} → {link['to']}" for link in chain["links"]]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return ", ".join(names[:_MOST]) + more or "none"
