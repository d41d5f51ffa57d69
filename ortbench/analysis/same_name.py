"""EPs whose names mislead: one that several packages bring, and one that its package calls otherwise. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ortbench.core.safe_text import listed

CODE = "ep-name-shared"
MISNAMED = "ep-misnamed"


def sentence(ep: str, packages: Sequence[str]) -> str:
    """Which package's an EP is by its name, and how to ask for the others.

    Args:
        ep: the full name.
        packages: that bring it, at least two; its name stands for the first one's.
    """
    others = " or ".join(f"--ep {package}" for package in packages[1:])
    what = "the other" if len(packages) == 2 else "another"
    return f"{ep} is in {listed(packages)}: by that name --ep takes the one of {packages[0]}, and {others} {what}"


def misnamed(package: str, said: Sequence[str], true: Sequence[str]) -> str:
    """That a package says that its EPs have other names than they have.

    Args:
        package: that says so.
        said: by it.
        true: as ONNX Runtime has them.
    """
    return f"the package {package} calls its EP {listed(said)}; once registered it is called {listed(true)}"
