"""What the tests test is what pip installed."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

import ortbench as package
from ortbench.core.processes import SCRIPT
from tests.conftest import ROOT
from tests.environments import INSTALLED


def test_this_process_has_the_installed_package() -> None:
    wheel = distribution("ortbench")
    assert wheel.read_text("WHEEL")
    assert '"editable"' not in (wheel.read_text("direct_url.json") or "")
    assert Path(str(wheel.locate_file("ortbench"))) == INSTALLED
    assert INSTALLED.resolve() != ROOT / "ortbench"
    assert list(package.__path__) == [str(INSTALLED)]
    assert Path(SCRIPT).is_relative_to(INSTALLED.resolve())  # what starts workers
