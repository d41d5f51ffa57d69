"""``python -m tests.softcuda OUT_DIR`` compiles the CUDA runtime into a folder, for tests/software-cuda, and prints it."""

import sys

from tests.compiling import command
from tests.softcuda import build

sys.exit(command("tests.softcuda", build))
