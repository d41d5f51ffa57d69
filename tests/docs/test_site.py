"""The site that Sphinx makes of the pages: no warning, each page of docs/ once in its contents, and a search of its own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import ROOT, lacking
from tests.docs.test_commands import SET_UP

pytestmark = pytest.mark.process


@pytest.mark.wide
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    missing = [name for name in ("sphinx", "myst_parser", "furo") if find_spec(name) is None]
    if missing:
        lacking(f"{', '.join(missing)} not installed: pip install '.[docs]'")
    (line,) = (line for line in SET_UP if "sphinx-build" in line)
    *options, out = shlex.split(line.partition("sphinx-build ")[2])
    assert out == "build/site"
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, tmp_path], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    contents = re.findall(r'<li class="toctree-l1"><a class="reference internal" href="docs/([\w-]+)\.html"', first)
    assert sorted(contents) == sorted({path.stem for path in (ROOT / "docs").glob("*.md")} - {"README"})
    assert not re.search(r"<(?:script|link)[^>]+(?:src|href)=\"(?:https?:)?//", first)  # it is read offline
    assert '"docs/sweeps"' in (tmp_path / "searchindex.js").read_text(encoding="utf-8")
