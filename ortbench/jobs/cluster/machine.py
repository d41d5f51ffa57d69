"""What is done on a machine of the cluster: files are unpacked, and a case is carried out, in a process of Ray's that has no
other task and ends with this one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput, BenchmarkFailed
from ortbench.core.files import not_written
from ortbench.core.interpreters import is_interpreter, packages
from ortbench.jobs import cases
from ortbench.jobs.cluster.machines import Done, Order, Parcel, moved
from ortbench.jobs.fingerprint import installed_here
from ortbench.jobs.suite_folder import CASE_FILE
from ortbench.measure.environment import measured_for_a_cluster
from ortbench.measure.gpus import nvidia_gpus
from ortbench.model.schema import Gpu, Node

_CASES, _FILES = "cases", "files"
_OF_TASKS = ("OMP_NUM_THREADS", "RAY_")  # what Ray sets for its tasks: threads that a plain run would not be limited to


def facts(base: str, pythons: Sequence[str]) -> dict[str, Any]:
    """What is on this machine: ``packages``, and those of the interpreters that it has of `pythons`, whose paths are relative to
    the folder `base`."""
    found = {}
    for python in pythons:
        with contextlib.suppress(BadInput):
            path = os.path.join(base, python)
            is_interpreter(path, "--python")
            found[python] = packages(path)
    return {"packages": installed_here(), "pythons": found}


def scratch(suite: str, place: str) -> Path:
    """The folder that a suite has on a machine; several of them can be on one computer, as in tests."""
    return Path(tempfile.gettempdir()) / f"ortbench-{suite}-{place[:12]}"


def tidy(suite: str, place: str) -> None:
    shutil.rmtree(scratch(suite, place), ignore_errors=True)


def carry_out(order: Order, fetch: Callable[[Any], bytes], cards: Sequence[str]) -> Done:
    """Carry a case out on this machine, on the cards that Ray has given it; `fetch` gives a part of a file's content.
    `BenchmarkFailed`: there was no room for the result. `OSError`: there was none for the case's files."""
    here, base, work = scratch(order.suite, order.place.id), order.joining.base, order.work
    for parcel in order.parcels:
        _unpack(parcel, here / _FILES, fetch)
    places = {parcel.path: parcel.place(here / _FILES) for parcel in order.parcels}
    job = moved(
        work.job, lambda path: places.get(path) or os.path.join(base, path), lambda path: os.path.join(base, path)
    )
    _become_plain()
    node = _node(order, cards, nvidia_gpus() if cards else [])
    measured_for_a_cluster(node, order.joining.commit)
    (here / _CASES).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=here / _CASES, ignore_cleanup_errors=True) as name:
        with contextlib.chdir(name):
            cases.carry_out(job, replace(work.record, node=node), Path(work.id), quiet=True)
        remarks, folder = not_written(), Path(name) / work.id
        files = {str(it.relative_to(folder).as_posix()): it.read_bytes() for it in folder.rglob("*") if it.is_file()}
    if CASE_FILE not in files:
        raise BenchmarkFailed(f"{order.place.name} has no room for the result: {'; '.join(remarks) or 'it is lost'}")
    return Done(files, remarks)


def _unpack(parcel: Parcel, files: Path, fetch: Callable[[Any], bytes]) -> None:
    folder = files / parcel.id
    if folder.exists():
        return
    files.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=files))
    for name, parts in parcel.parts.items():
        path = unfinished / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for part in parts:
                file.write(fetch(part))
    try:
        unfinished.rename(folder)
    except OSError:
        if not folder.exists():  # else another case has been quicker
            raise
        shutil.rmtree(unfinished, ignore_errors=True)


def _become_plain() -> None:
    """Take back what Ray does to its tasks and a plain run has not: its variables, and a priority lower than Ray's own."""
    raylet = os.environ.get("RAY_RAYLET_PID")
    for name in [name for name in os.environ if name.startswith(_OF_TASKS)]:
        del os.environ[name]
    if sys.platform != "win32" and raylet is not None:
        with contextlib.suppress(OSError):  # who may not have a higher one keeps what Ray gives tasks
            os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, int(raylet)))


def _node(order: Order, cards: Sequence[str], gpus: Sequence[Gpu]) -> Node:
    place = order.place
    mine = [gpus[int(card)] for card in cards if card.isdecimal() and int(card) < len(gpus)]
    return {
        "name": place.name,
        "address": place.address,
        "card": ", ".join(dict.fromkeys(it["name"] for it in mine if "name" in it)) or None,
        "driver": next((it["driver"] for it in mine if "driver" in it), None),
        "resources": order.work.job.demand.resources,
    }
