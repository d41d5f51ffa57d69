"""The folder tests as a package, on a search path that has nothing else of this source tree: see tests/installed.py."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[3] / "tests")]
