"""Which lines of the package each test of the default tier carries out, in whichever of its processes: what mutants.py asks for.

    python tests/benchmarks/lines.py --python PYTHON --database DATABASE --times JUNIT_XML

PYTHON has this tree and coverage.py installed. The contexts of coverage.py's database are node ids of tests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
_AT_START = (  # a line of a .pth file
    'import os, sys, importlib.util as util; spec = "LINES_OF_TESTS" in os.environ and util.spec_from_file_location("lines_hook", {path!r}); '
    "hook = spec and util.module_from_spec(spec); spec and (sys.modules.update(lines_hook=hook), spec.loader.exec_module(hook))\n"
)


def main() -> None:
    """Run the tests, and put what their processes noted into one database."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("python", "database", "times"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    chosen = parser.parse_args()
    ask = [chosen.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = Path(subprocess.run(ask, check=True, capture_output=True, text=True).stdout.strip())
    at_start = site / "ortbench_lines.pth"
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LINES_OF_TESTS": folder}
        line = [
            chosen.python,
            "-m",
            "pytest",
            "-p",
            "lines_hook",
            "-p",
            "no:cacheprovider",
            f"--junitxml={chosen.times}",
        ]
        try:
            at_start.write_text(_AT_START.format(path=str(HERE / "lines_hook.py")))
            subprocess.run(line, cwd=HERE.parent.parent, env=environment, check=False)
        finally:
            at_start.unlink()
        files = [it for it in Path(folder).iterdir() if it.stat().st_size > _EMPTY]
        subprocess.run(
            [chosen.python, "-m", "coverage", "combine", f"--data-file={chosen.database}", *files], check=True
        )


_EMPTY = 12 << 10  # bytes of a database without a table that says its version, which a process left that was killed

if __name__ == "__main__":
    main()
