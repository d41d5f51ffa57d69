"""The tests are of the ortbench that pip installed: that of this source tree is out of reach, for them and what they start.

tests/conftest.py loads this before all else. From then on Python finds `tests` and `models` in tests/importable, and
neither the repository nor the current folder is on its search path, here and in programs that tests start.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "ortbench"


def _elsewhere(path: list[str]) -> list[str]:
    return [folder for folder in path if Path(folder).resolve() != ROOT]


def _files(package: Path) -> dict[Path, bytes]:
    paths = (path for kind in ("py", "j2", "json") for path in package.rglob(f"*.{kind}"))
    return {path.relative_to(package): path.read_bytes() for path in paths}


def _problem() -> str | None:
    """Why tests would say nothing about this source tree as it is when it is installed; None if they do."""
    spec = importlib.util.find_spec("ortbench")
    if spec is None or spec.origin is None:
        return "ortbench is not installed"
    package = Path(spec.origin).resolve().parent
    if package == SOURCE:
        return "ortbench is installed as editable"
    installed, source = _files(package), _files(SOURCE)
    if installed.keys() - source.keys():
        return (
            "what is installed has files that ortbench no longer has, maybe from the folder build, which can be removed"
        )
    if installed != source:
        return "what is installed is another ortbench than that of this folder"
    return None


importable = str(ROOT / "tests" / "importable")
sys.path[:] = [importable, *_elsewhere(sys.path)]
inherited = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
os.environ["PYTHONPATH"] = os.pathsep.join([importable, *_elsewhere(list(inherited))])
os.environ["PYTHONSAFEPATH"] = "1"
if (problem := _problem()) is not None:
    sys.exit(f"{problem}: pip install '.[test]'")
