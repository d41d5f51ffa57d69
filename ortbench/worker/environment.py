"""What the worker is doing, told to the process that waits for its answer: if the worker crashes or hangs, that one can say in
what. A line that says it goes out before the answer's line. Commands of pip in what it says are for the environment that it
runs in, which may not be ortbench's own.

And the installed packages that bring the module ``onnxruntime``. It is found here without being loaded.

Every run looks, so it is done by the names in one folder: what reads the metadata of every package takes far longer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ortbench.core.errors import CANNOT_ANSWER, one_line
from ortbench.core.processes import with_pip_of

if TYPE_CHECKING:
    from ortbench.core.eps import Distribution
    from ortbench.model.schema import Warned


_channel: IO[str] | None = None


def send_on(channel: IO[str]) -> None:
    """Tell it in lines on the channel of the answers. Before that, and where there is no such process, nothing is told."""
    global _channel
    _channel = channel


@contextmanager
def announce(doing: str, limit_s: float | None = None, trial: str | None = None) -> Iterator[None]:
    _send({"doing": doing, "limit_s": limit_s, "trial": trial})
    try:
        yield
    finally:
        _send(None)


def _send(about: dict[str, str | float | None] | None) -> None:
    if _channel is not None:
        send_line(_channel, {"about": about})


def send_line(channel: IO[str], message: dict[str, Any]) -> None:
    """Send a message. A worker that cannot has nobody to work for, and ends: what it was doing must not take the error for its own."""
    line = json.dumps(message) + "\n"
    try:
        channel.write(line)
        channel.flush()
    except OSError as error:
        print(f"the worker cannot answer: {one_line(error)}", file=sys.stderr, flush=True)
        os._exit(CANNOT_ANSWER)


_python: str | None = None


def set_interpreter(python: str | None = None) -> None:
    global _python
    _python = python


def with_its_pip(text: str) -> str:
    return text if _python is None else with_pip_of(text, _python)


_FILE = b"onnxruntime/__init__.py,"  # as RECORD lists it


def installed_version(package: str) -> str | None:
    """The version of an installed package, or None; it is not loaded for that."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def package_warnings() -> list[Warned]:
    """That packages have overwritten files of each other in the module that is loaded here, if so."""
    folder = module_folder()
    found = [] if folder is None else find_distributions(folder)
    if len(found) < 2:
        return []
    from ortbench.core.eps import OVERWRITTEN, overwritten  # seldom needed, and every run would wait for it

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
