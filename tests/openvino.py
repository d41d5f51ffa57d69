"""OpenVINO's EP, which has a device on Intel's CPUs and none on AMD's: whether it has one here."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from functools import cache

EP = "OpenVINOExecutionProvider"
_MODULE = "onnxruntime_ep_openvino"

_PROBE = f"""
import onnxruntime, {_MODULE}
onnxruntime.register_execution_provider_library("probe", {_MODULE}.get_library_path())
raise SystemExit(not any(device.ep_name == "{EP}" for device in onnxruntime.get_ep_devices()))
"""


def installed() -> bool:
    """Whether its package is."""
    return importlib.util.find_spec(_MODULE) is not None


@cache
def problem() -> str | None:
    """Why it cannot run here; None if it can."""
    if not installed():
        return "the package onnxruntime-ep-openvino is not installed"
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "OpenVINO's EP offers no device here"
