"""The values of options as a command reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ortbench.cli.options import declared_for


def typed(given: Mapping[str, Any], command: str = "run") -> dict[str, Any]:
    """The values of options by their long names, from what the command line gives: of repeatable options a list of words."""
    options = {it.flag: it for it in declared_for(command).values()}
    return {flag: options[flag].read(words) for flag, words in given.items()}
