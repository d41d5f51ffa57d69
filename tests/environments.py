"""Virtual environments as pip leaves them, with every package in one folder, made of what is installed here."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """Its interpreter, and the folder of its packages."""

    python: Path
    site: Path


def without_ortbench(folder: Path) -> Environment:
    """Make a new one that has all other packages."""
    return _environment(folder, lambda found: not found.match("*ortbench*"))


NEEDED = (
    "onnxruntime", "onnxruntime.*", "onnxruntime_gpu*", "onnxruntime-*.dist-info", "numpy*", "google", "protobuf*", "flatbuffers*", "packaging*",
)  # fmt: skip


def with_onnxruntime_alone(folder: Path) -> Environment:
    """Make a new one that has onnxruntime and what it brings, and nothing else."""
    return _environment(folder, lambda found: any(map(found.match, NEEDED)))


def _environment(folder: Path, is_wanted: Callable[[Path], bool]) -> Environment:
    venv.create(folder, symlinks=True)
    site = next((folder / "lib").glob("python*/site-packages"))
    places = (it for it in map(Path, sys.path) if it.name in ("site-packages", "dist-packages"))
    for found in (it for place in places for it in place.iterdir()):
        if is_wanted(found) and not (site / found.name).exists():
            (site / found.name).symlink_to(found)
    return Environment(folder / "bin" / "python", site)


def plain() -> dict[str, str]:
    """The variables of this process without those that tell Python where to look, as a user has them."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
