"""Virtual environments as pip leaves them, with every package in one folder, made of what is installed here."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import ortbench

INSTALLED = Path(ortbench.__file__).parent


@dataclass(frozen=True)
class Environment:
    """Its interpreter, and the folder of its packages."""

    python: Path
    site: Path


def without_ortbench(folder: Path) -> Environment:
    """Make a new one that has all other packages."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    done = subprocess.run([python, "-c", code], env=plain(), capture_output=True, text=True, check=True)
    site = Path(done.stdout.strip())
    for place in map(Path, sys.path):
        if place.name in ("site-packages", "dist-packages"):
            for found in place.iterdir():
                if not found.match("*ortbench*") and not (site / found.name).exists():
                    (site / found.name).symlink_to(found)
    return Environment(python, site)


NEEDED = ("onnxruntime", "onnxruntime.*", "onnxruntime_gpu*", "numpy*", "google", "protobuf*", "flatbuffers*")


def with_onnxruntime_alone(folder: Path) -> Environment:
    """Make a new one that has onnxruntime and what it brings, and nothing else."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    site = next((folder / "lib").glob("python*/site-packages"))
    wanted = (*NEEDED, "packaging*", "onnxruntime-*.dist-info")
    for found in (it for place in map(Path, sys.path) if place.is_dir() for it in place.iterdir()):
        if any(map(found.match, wanted)) and not (site / found.name).exists():
            (site / found.name).symlink_to(found)
    return Environment(python, site)


def plain() -> dict[str, str]:
    """The variables of this process without those that tell Python where to look, as a user has them."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
