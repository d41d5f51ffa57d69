"""Facts of machines on which nothing is wrong (tests/stored/machines.json), for what `ortbench doctor` says of them, and parts to change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from ortbench.features.doctor.model import Card, Facts
from ortbench.model.protocol import ListedEp

SITE = "/env/site-packages"


def quiet_machine(name: str = "without a card") -> Facts:
    """A machine without a card."""
    text = Path(__file__).with_name("stored").joinpath("machines.json").read_text(encoding="utf-8")
    return cast(Facts, json.loads(text)[name])


def gpu_machine() -> Facts:
    """The same with an NVIDIA card."""
    return quiet_machine("with a card")


def card(**state: Any) -> Card:
    """That card, in another state."""
    return cast(Card, {**gpu_machine()["nvidia"]["cards"][0], **state})


def hardware(kind: str, vendor: str) -> dict[str, Any]:
    """A device of an EP."""
    return {"hardware": {"type": kind, "vendor": vendor, "vendor_id": 1, "device_id": 1, "metadata": {}}}


def ep(name: str, *devices: dict[str, Any], problem: str | None = None, missing: str | None = None) -> ListedEp:
    """An EP that is installed; only what is judged of its devices."""
    nothing = {"library": None, "version": "1.31.1", "package": None}
    return cast(ListedEp, {"name": name, "problem": problem, "missing": missing, "devices": list(devices), **nothing})
