"""``python -m tests.refdevice OUT_DIR`` compiles the reference device into a folder and prints the library's path."""

import sys

from tests.compiling import command
from tests.refdevice import build

sys.exit(command("tests.refdevice", build))
