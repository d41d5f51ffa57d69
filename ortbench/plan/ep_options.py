"""EP options that say in their name whose they are, as ``ep.cuda.KEY``. Pure.

ONNX Runtime writes an EP's options into the session's configuration as ``ep.<full name in lower case>.KEY``, and CUDA's EP
as a library of its own also reads ``ep.cuda.KEY``; documentation has them so. Here both are the option KEY of that EP.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from ortbench.core.ep_names import SHORT_NAMES
from ortbench.core.errors import BadInput
from ortbench.core.safe_text import listed

if TYPE_CHECKING:
    from ortbench.plan.target import Target

_OPTION = "--ep-option"


def prefixes(ep: str) -> tuple[str, ...]:
    """What the options of an EP, by its full name, may begin with, in small letters: of CUDA's ``ep.cuda.`` and ``ep.cudaexecutionprovider.``."""
    full = ep.lower()
    names = (
        *(short for short, name in SHORT_NAMES.items() if name == ep),
        full.removesuffix("executionprovider"),
        full,
    )
    return tuple(f"ep.{name}." for name in dict.fromkeys(names))


def has_prefix(option: str) -> bool:
    """Whether an option says whose it is."""
    return re.match(r"ep\.[^.]+\..", option, re.IGNORECASE) is not None


def own(options: Mapping[str, str], ep: str, several_eps: bool = False) -> dict[str, str]:
    """The options of an EP, by its full name, each as the EP calls it. With `several_eps` those that say that they are another EP's are
    for that one, which runs beside it. `BadInput`: an option of another EP where there is none, or one in two spellings."""
    found: dict[str, str] = {}
    spelt: dict[str, str] = {}
    for option, value in options.items():
        ours = [prefix for prefix in prefixes(ep) if option.lower().startswith(prefix) and len(option) > len(prefix)]
        if not ours and has_prefix(option):
            if several_eps:
                continue
            reason = f"is an option of another EP than {ep}, which runs here: write {prefixes(ep)[0]}KEY or KEY alone"
            raise BadInput(f"{_OPTION} {option}: {reason}", _OPTION)
        name = option[max(map(len, ours), default=0) :]
        if name in spelt:
            raise BadInput(f"{_OPTION} {spelt[name]} and {option} are the same option of {ep}: give it once", _OPTION)
        found[name], spelt[name] = value, option
    return found


def with_own(target: Target, ep: str) -> Target:
    """A target with the options of the EP that runs alone; see `own`."""
    return replace(target, options=own(target.options, ep, target.several_eps))


def refuse_unclaimed(options: Iterable[str], eps: Collection[str]) -> None:
    """Refuse (`BadInput`) options that are of none of the EPs, by their full names, that run beside each other."""
    begins = tuple(prefix for ep in eps for prefix in prefixes(ep))
    for option in options:
        if has_prefix(option) and not option.lower().startswith(begins):
            reason = f"is an option of none of the EPs that run here: {listed(list(dict.fromkeys(eps)))}"
            raise BadInput(f"{_OPTION} {option}: {reason}", _OPTION)
