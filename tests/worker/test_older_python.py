"""A worker's modules in the oldest Python that they may be read by; see `ortbench.worker.__main__`."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from ortbench.core.processes import SCRIPT
from tests.conftest import ROOT
from tests.versions import environment

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
