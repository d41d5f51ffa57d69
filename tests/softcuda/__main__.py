"""``python -m tests.softcuda OUT_DIR`` compiles the CUDA runtime into a folder, for tests/software-cuda, and prints it."""

import sys
from pathlib import Path

from tests.compiling import BuildError

from .softcuda import build


def main(arguments: list[str]) -> int:
    """Compile; return the exit code."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m tests.softcuda OUT_DIR", file=sys.stderr)
        return 2
    try:
        print(build(Path(arguments[0])))
    except (BuildError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
