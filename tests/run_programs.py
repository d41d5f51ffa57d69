"""Runs programs one after the other in one process, as users have them: without ortbench. ``python run_programs.py FILE…``"""

from __future__ import annotations

import gc
import importlib.util
import os
import runpy
import sys
from pathlib import Path

import onnxruntime as ort


def main() -> None:
    assert importlib.util.find_spec("ortbench") is None, "ortbench is here"
    register = ort.register_execution_provider_library
    known: set[str] = set()

    def register_once(name: str, library: str) -> None:
        """Register a library that no program before this one has registered."""
        if name not in known:
            known.add(name)
            register(name, library)

    ort.register_execution_provider_library = register_once
    for file in sys.argv[1:]:
        print(f"{Path(file).name}: ", end="")
        runpy.run_path(file, run_name="__main__")
        sys.stdout.flush()
        gc.collect()
    # Some EPs abort when a process ends in order after its sessions were made and let go again and again.
    sys.stdout.flush()
    os._exit(0)


def main_of_a_fork() -> None:
    """The same where ortbench was loaded, by the clock of a test."""
    from tests import virtual

    virtual.attach(works=True)
    for name in [name for name in sys.modules if name.partition(".")[0] == "ortbench"]:
        del sys.modules[name]
    sys.path[:] = [folder for folder in sys.path if not (Path(folder) / "ortbench").exists()]
    main()


if __name__ == "__main__":
    main()
