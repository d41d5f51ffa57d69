"""How a worker starts: with ortbench's own modules, and nothing else of the place that they lie in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ortbench
from ortbench.core.processes import SCRIPT

pytestmark = pytest.mark.process

_WORKER = """
import json, sys
from importlib.util import find_spec
import ortbench.core.errors
import profile  # of the standard library, whose name a module of ortbench may have
print(json.dumps({
    "path": sys.path, "package": ortbench.__file__, "errors": ortbench.core.errors.__file__, "profile": profile.__file__,
    "sibling": find_spec("a_sibling") is not None,
}))
def answer_requests():
    pass
"""


def test_a_worker_is_given_the_package_and_nothing_that_lies_beside_it(tmp_path: Path) -> None:
    site, package = tmp_path / "site", Path(ortbench.__file__).resolve().parent
    script = site / "ortbench" / Path(SCRIPT).relative_to(package)
    script.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    (site / "ortbench" / "worker" / "__init__.py").touch()
    (site / "ortbench" / "worker" / "state.py").write_text(_WORKER)
    (site / "ortbench" / "core").mkdir()
    for name in ("ortbench/__init__.py", "ortbench/core/errors.py", "ortbench/profile.py", "a_sibling.py"):
        (site / name).touch()
    own = tmp_path / "own"  # the user's PYTHONPATH, with another ortbench in it
    (own / "ortbench").mkdir(parents=True)
    (own / "ortbench" / "__init__.py").touch()
    environment = {**os.environ, "PYTHONPATH": str(own), "PYTHONSAFEPATH": ""}
    line = [sys.executable, str(script)]
    ran = subprocess.run(line, cwd=site, env=environment, capture_output=True, text=True, check=True)
    found = json.loads(ran.stdout)
    assert str(own) in found["path"]
    assert not {"", str(site), str(script.parent)} & {*found["path"]}
    assert found["package"] == str(site / "ortbench" / "__init__.py")
    assert found["errors"] == str(site / "ortbench" / "core" / "errors.py")
    assert str(tmp_path) not in found["profile"]
    assert found["sibling"] is False
