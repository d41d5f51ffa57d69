"""EPs of one name that several packages bring: which of them that name stands for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.characters import listed

CODE = "ep-name-shared"


def sentence(ep: str, packages: Sequence[str]) -> str:
    """Which package's an EP is by its name, and how to ask for the others.

    Args:
        ep: the full name.
        packages: that bring it, at least two; its name stands for the first one's.
    """
    others = " or ".join(f"--ep {package}" for package in packages[1:])
    what = "the other" if len(packages) == 2 else "another"
    return f"{ep} is in {listed(packages)}: by that name --ep takes the one of {packages[0]}, and {others} {what}"
