"""The installed packages that bring the module ``onnxruntime``. It is found here without being loaded.

Every run looks, so it is done by the names in one folder: what reads the metadata of every package takes far longer.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ortbench.model.protocol import Distribution
    from ortbench.model.schema import Warned

_FILE = b"onnxruntime/__init__.py,"  # as RECORD lists it


def version(package: str) -> str | None:
    """The version of an installed package, or None; it is not loaded for that."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def warnings() -> list[Warned]:
    """That packages have overwritten files of each other in the module that is loaded here, if so."""
    folder = module_folder()
    found = [] if folder is None else find_distributions(folder)
    if len(found) < 2:
        return []
    from ortbench.analysis.eps import OVERWRITTEN, overwritten  # seldom needed, and every run would wait for it
    from ortbench.worker.messages import with_its_pip

    clash = overwritten(found)
    return [] if clash is None else [{"code": OVERWRITTEN, "message": with_its_pip(clash.message)}]


def module_folder() -> str | None:
    """The folder in which the module lies, such as ``…/site-packages``; None where there is none."""
    path = getattr(sys.modules.get("onnxruntime"), "__file__", None)
    if path is None:
        spec = find_spec("onnxruntime") if "onnxruntime" not in sys.modules else None
        path = None if spec is None else spec.origin
    return None if path is None else os.path.normpath(Path(path).absolute().parent.parent)


def find_distributions(folder: str) -> list[Distribution]:
    """The packages in a folder whose files are the module's; by the lists of files that pip keeps."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(it.name for it in entries if it.name.startswith(("onnxruntime", "ort_")))
    except OSError:  # a zip file, or a folder that is not there
        return []
    found: list[Distribution] = []
    for name in names:
        if not name.endswith(".dist-info") or name.startswith("onnxruntime_ep_"):
            continue
        try:
            record = Path(folder, name, "RECORD").read_bytes()
        except OSError:
            continue
        if record.startswith(_FILE) or b"\n" + _FILE in record:
            package, _, version = name.removesuffix(".dist-info").partition("-")
            found.append({"name": package.replace("_", "-"), "version": version, "folder": folder})
    return found
