"""The folder models as a package, on a search path that has nothing else of this source tree: see conftest.py at its top."""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parents[3] / "models")]
