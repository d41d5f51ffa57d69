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
from tests.versions import environment

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


@pytest.mark.process
def test_a_worker_is_given_the_package_and_nothing_that_lies_beside_it(tmp_path: Path) -> None:
    site, package = tmp_path / "site", Path(ortbench.__file__).resolve().parent
    script = site / "ortbench" / Path(SCRIPT).relative_to(package)
    script.parent.mkdir(parents=True)
    shutil.copy(SCRIPT, script)
    (site / "ortbench" / "worker" / "__init__.py").write_text(_WORKER)
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


OLDEST = (3, 10)


def test_workers_are_written_in_what_the_oldest_python_reads() -> None:
    files = [*(ROOT / "ortbench" / "worker").rglob("*.py"), *(ROOT / "ortbench" / "features").rglob("worker*/**/*.py")]
    assert len(files) > 20
    for path in files:
        ast.parse(path.read_text(), feature_version=OLDEST)


_IMPORT_ALL = """
import importlib, sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
package = Path(sys.argv[1])
spec = spec_from_file_location("ortbench", package / "__init__.py")
sys.modules["ortbench"] = module_from_spec(spec)
spec.loader.exec_module(sys.modules["ortbench"])
for path in sorted((package / "worker").rglob("*.py")):
    if path.stem not in ("__main__", "__init__"):
        try:
            importlib.import_module(".".join(path.relative_to(package.parent).with_suffix("").parts))
        except ModuleNotFoundError as error:
            if error.name != "onnx":  # which modules need that change models, and are loaded for nothing else
                raise
print("%d.%d" % sys.version_info[:2], end="")
"""


@pytest.mark.wide
def test_the_oldest_python_loads_all_of_a_workers_modules() -> None:
    python = environment("python3.10") / "bin" / "python"
    installed = Path(SCRIPT).parents[1]
    line = [str(python), "-c", _IMPORT_ALL, str(installed)]
    done = subprocess.run(line, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("3.10", "")
