"""Packages that bring the same module ``onnxruntime``, so that one has overwritten files of another. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a worker loads this, and none of what else is known of a machine
    from ortbench.model.doctor_schema import Distribution

CODE = "packages-overwritten"


class Overwritten(NamedTuple):
    """What is wrong in a sentence, and the two commands that mend it."""

    sentence: str
    commands: tuple[str, str]

    @property
    def message(self) -> str:
        """All of it in one line."""
        return f"{self.sentence}; mend it with: {' && '.join(self.commands)}"


def overwritten(distributions: Sequence[Distribution], python: str = "") -> Overwritten | None:
    """What is to be said of packages in one folder; None where there are not two.

    Args:
        distributions: of one folder.
        python: the interpreter that they are for; "" for whichever ``pip`` is.
    """
    if len(distributions) < 2:
        return None
    names = sorted(it["name"] for it in distributions)
    # Who has another package beside the plain one wanted what only that one has.
    kept = next((it for it in sorted(distributions, key=lambda it: it["name"]) if it["name"] != "onnxruntime"), None)
    assert kept is not None, "a folder holds one package of a name"
    pip = f"{python} -m pip" if python else "pip"
    said = ", ".join(f"{it['name']} {it['version']}" for it in sorted(distributions, key=lambda it: it["name"]))
    return Overwritten(
        f"{said} bring the same module onnxruntime, and the one installed last has overwritten files of the other"
        f"{'s' if len(names) > 2 else ''}",
        (f"{pip} uninstall -y {' '.join(names)}", f"{pip} install {kept['name']}=={kept['version']}"),
    )


def in_folder(distributions: Sequence[Distribution], folder: str | None) -> list[Distribution]:
    """Those in the folder that a module was found in."""
    return [
        it for it in distributions if folder is not None and os.path.normpath(it["folder"]) == os.path.normpath(folder)
    ]
