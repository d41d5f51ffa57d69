"""How a worker starts: with ortbench's own modules and nothing that lies beside them, in the oldest Python too."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ortbench
from ortbench.core.processes import SCRIPT
from tests.conftest import ROOT

_WORKER = """
import json, sys
from importlib.util import find_spec
import ortbench.core.errors
import profile  # of the standard library, whose name a module of ortbench may have
def answer_requests():
    sibling = find_spec("a_sibling") is not None
    print(json.dumps([sys.path, ortbench.__file__, ortbench.core.errors.__file__, profile.__file__, sibling]))
"""


@pytest.mark.process
def test_a_worker_is_given_the_package_and_nothing_that_lies_beside_it(tmp_path: Path) -> None:
    site, package = tmp_path / "site", Path(ortbench.__file__).resolve().parent
    script = site / "ortbench" / Path(SCRIPT).relative_to(package)
    own = tmp_path / "own"  # the user's PYTHONPATH, with another ortbench in it
    for folder in (script.parent, site / "ortbench" / "core", own / "ortbench"):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(SCRIPT, script)
    names = ("ortbench/__init__.py", "ortbench/core/errors.py", "ortbench/profile.py", "a_sibling.py")
    for place in (*(site / name for name in names), own / "ortbench" / "__init__.py"):
        place.touch()
    (site / "ortbench" / "worker" / "__init__.py").write_text(_WORKER)
    environment = {**os.environ, "PYTHONPATH": str(own), "PYTHONSAFEPATH": ""}
    line = [sys.executable, str(script)]
    ran = subprocess.run(line, cwd=site, env=environment, capture_output=True, text=True, check=True)
    path, *modules, profile, has_sibling = json.loads(ran.stdout)
    assert str(own) in path
    assert not {"", str(site), str(script.parent)} & {*path}
    assert modules == [str(site / name) for name in names[:2]]
    assert (str(tmp_path) in profile, has_sibling) == (False, False)


def test_workers_are_written_in_what_the_oldest_python_reads() -> None:
    """What runs in that one is a worker that says that its ONNX Runtime is too old (tests/jobs/test_versions.py)."""
    files = [*(ROOT / "ortbench" / "worker").rglob("*.py"), *(ROOT / "ortbench" / "features").rglob("worker*/**/*.py")]
    assert len(files) > 20
    for path in files:
        ast.parse(path.read_text(), feature_version=(3, 10))
