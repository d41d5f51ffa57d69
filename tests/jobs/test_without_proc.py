"""A machine that tells little of itself: without what Linux says in /proc, or with less in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import MODELS, lacking, ortbench

pytestmark = [pytest.mark.process, pytest.mark.wide]
TINY = MODELS / "tiny.onnx"
WITHOUT = {
    "meminfo": "mount --bind /dev/null /proc/meminfo",
    "proc": "mount -t tmpfs nothing /proc",
}


@pytest.mark.parametrize("how", WITHOUT)
def test_commands_do_without(how: str, tmp_path: Path) -> None:
    prefix = ("unshare", "-Urm", "sh", "-c", f'{WITHOUT[how]} && exec "$@"', "sh")
    if shutil.which("unshare") is None or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        lacking("a mount namespace of one's own")
    out = ("--out", tmp_path)
    for line in (
        ("doctor", "--no-noise"),
        ("run", TINY, "--ep", "cpu", "--intra-op-threads", "1,2", "--iterations", 2, *out),
        ("soak", TINY, "--ep", "cpu", "--iterations", 9, *out),
        ("run", TINY, "--ep", "cpu", "--iterations", 2, "--measure-memory", *out),
        ("bandwidth", "--ep", "cpu", "--max-size", "8kB", "--iterations", 1, *out),
    ):
        ran = ortbench(*line, prefix=prefix)
        assert "Traceback" not in ran.err
        assert ran.code == 0 or (line[0] in ("bandwidth", "soak") and ran.error_line), ran
