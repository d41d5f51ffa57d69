"""Which EPs are installed, by the names of files alone: a quick look, which loads nothing and says nothing of devices."""

from __future__ import annotations

import sys
from pathlib import Path

from ortbench.core.ep_names import PACKAGES, SHORT_NAMES
from ortbench.core.ep_packages import everywhere

# What an onnxruntime package has of an EP, by the EP's short name.
_BUNDLED = {
    "cuda": "*onnxruntime_providers_cuda.*",
    "tensorrt": "*onnxruntime_providers_tensorrt.*",
    "nv-tensorrt-rtx": "*onnxruntime_providers_nv_tensorrt_rtx.*",
    "openvino": "*onnxruntime_providers_openvino.*",
    "migraphx": "*onnxruntime_providers_migraphx.*",
    "qnn": "*onnxruntime_providers_qnn.*",
    "dml": "DirectML.dll",
}


def installed_eps(path: tuple[str, ...] | None = None) -> list[str]:
    """Short names of EPs, and the packages of plugin EPs of this Python, or in some folders, that have none."""
    folders = [Path(folder) for folder in (sys.path if path is None else path) if folder]
    capi = next((it for folder in folders if (it := folder / "onnxruntime" / "capi").is_dir()), None)
    bundled = [] if capi is None else [name for name, pattern in _BUNDLED.items() if any(capi.glob(pattern))]
    plugins = sorted(it.distribution.replace("_", "-") for it in everywhere(path))
    short = {PACKAGES[ep]: name for name, ep in SHORT_NAMES.items() if ep in PACKAGES}
    return list(dict.fromkeys(["cpu", *bundled, *(short.get(name, name) for name in plugins)]))
