"""What is done on a machine of the cluster: files are unpacked, and a case is carried out in a process of its own.

That process is not Ray's: it has the machine's own variables and priority, and ends with the process that started it, so that
nothing is measured any more for a suite that was stopped or a task that was lost.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ortbench.core.errors import BadInput, BenchmarkFailed, one_line
from ortbench.core.interpreters import is_interpreter, packages
from ortbench.jobs.cluster.orders import Done, Order
from ortbench.jobs.cluster.parcels import Parcel, moved
from ortbench.jobs.fingerprint import Here
from ortbench.jobs.suite_folder import CASE_FILE
from ortbench.measure.process import nameless_file
from ortbench.model.schema import Gpu, Node

_CASES, _FILES = "cases", "files"
_GRACE_S = 10.0  # that a case which is to end has for its workers
_OF_TASKS = ("OMP_NUM_THREADS", "RAY_")  # what Ray sets for its tasks: threads that a plain run would not be limited to
Fetch = Callable[[Any], bytes]


def facts(base: str, pythons: Sequence[str]) -> dict[str, Any]:
    """What is on this machine: ``packages``, and those of the interpreters that it has, by ``pythons``.

    Args:
        base: the folder that paths are relative to.
        pythons: to look for.
    """
    found = {}
    for python in pythons:
        with contextlib.suppress(BadInput):
            path = os.path.join(base, python)
            is_interpreter(path, "--python")
            found[python] = packages(path)
    return {"packages": list(Here().packages), "pythons": found}


def scratch(suite: str, place: str) -> Path:
    """The folder that a suite has on a machine; several of them can be on one computer, as in tests."""
    return Path(tempfile.gettempdir()) / f"ortbench-{suite}-{place[:12]}"


def carry_out(order: Order, fetch: Fetch, cards: Sequence[str]) -> Done:
    """Carry a case out on this machine.

    Args:
        order: the case.
        fetch: gives a part of a file's content.
        cards: that Ray has given it.

    Raises:
        BenchmarkFailed: its process ended without a result.
        OSError: its files cannot be written.
    """
    here = scratch(order.suite, order.place.id)
    for parcel in order.parcels:
        _unpack(parcel, here / _FILES, order.parts, fetch)
    (here / _CASES).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=here / _CASES, ignore_cleanup_errors=True) as name:
        remarks = _in_its_process(order, here / _FILES, Path(name), cards)
        folder = Path(name) / order.work.id
        files = {str(it.relative_to(folder).as_posix()): it.read_bytes() for it in folder.rglob("*") if it.is_file()}
    if CASE_FILE not in files:
        raise BenchmarkFailed(f"{order.place.name} has no room for the result: {'; '.join(remarks) or 'it is lost'}")
    return Done(order.work.id, files, remarks)


def _unpack(parcel: Parcel, files: Path, parts: dict[str, list[Any]], fetch: Fetch) -> None:
    """Write a parcel's files, unless they are there."""
    folder = files / parcel.id
    if folder.exists():
        return
    files.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=files))
    for piece in parcel.pieces:
        path = unfinished / piece.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for part in parts[piece.sha256]:
                file.write(fetch(part))
    try:
        unfinished.rename(folder)
    except OSError:
        if not folder.exists():  # else another case has been quicker
            raise
        shutil.rmtree(unfinished, ignore_errors=True)


def _in_its_process(order: Order, files: Path, folder: Path, cards: Sequence[str]) -> list[str]:
    """Carry a case out, in a folder that will have the one of the case; what could not be written."""
    places = {parcel.path: parcel.place(files) for parcel in order.parcels}
    job = moved(
        order.work.job,
        lambda path: places.get(path) or os.path.join(order.joining.base, path),
        lambda path: os.path.join(order.joining.base, path),
    )
    words = nameless_file()
    process = subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if not key.startswith(_OF_TASKS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=words,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with words, process.stdout:
        try:
            given = (replace(order, work=replace(order.work, job=job), parcels=(), parts={}), list(cards), _niceness())
            with contextlib.suppress(BrokenPipeError):  # its last words say why
                pickle.dump(given, process.stdin)
                process.stdin.flush()
            said = process.stdout.read()  # up to its end
            code = process.wait()
        finally:
            _end(process)
        if code:
            words.seek(0)
            last = (words.read().decode(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            raise BenchmarkFailed(f"its process on {order.place.name} ended with {code}: {one_line(last, 200)}")
    return said.decode().splitlines()


def _niceness() -> int | None:
    """That of Ray on this machine, which gives its tasks a lower priority; None where there is no such thing."""
    if sys.platform == "win32" or "RAY_RAYLET_PID" not in os.environ:
        return None
    with contextlib.suppress(OSError):
        return os.getpriority(os.PRIO_PROCESS, int(os.environ["RAY_RAYLET_PID"]))
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have a case's process end, which waits for its standard input to."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S + 5)
    process.kill()
    process.wait()


def tidy(suite: str, place: str) -> None:
    """Remove what a suite has left on this machine."""
    shutil.rmtree(scratch(suite, place), ignore_errors=True)


# In the case's own process


def main() -> None:
    """Carry out the case that standard input gives, in the current folder."""
    from ortbench.core import signals
    from ortbench.core.files import not_written
    from ortbench.jobs import cases
    from ortbench.measure.environment import measured_for_a_cluster
    from ortbench.measure.gpus import nvidia_gpus

    signals.install()
    order, cards, niceness = pickle.load(sys.stdin.buffer)
    with contextlib.suppress(OSError):  # who may not have a higher one keeps what Ray gives tasks
        if sys.platform != "win32" and niceness is not None:
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    node = _node(order, cards, nvidia_gpus() if cards else [])
    measured_for_a_cluster(node, order.joining.commit)
    job, record = order.work.job, replace(order.work.record, node=node)
    done = cases.carry_out(job, record, Path(job.case.id), quiet=True)
    sys.stdout.write("".join(f"{line}\n" for line in not_written()))
    sys.stdout.flush()
    raise SystemExit(signals.finish(0 if done is not None else 1))


def _end_with_parent() -> None:
    os.read(sys.stdin.fileno(), 1)  # not by Python's file, which a thread may not hold when the process ends
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE_S)
    os._exit(128 + signal.SIGTERM)


def _node(order: Order, cards: Sequence[str], gpus: Sequence[Gpu]) -> Node:
    place = order.place
    mine = [gpus[int(card)] for card in cards if card.isdecimal() and int(card) < len(gpus)]
    return {
        "name": place.name,
        "address": place.address,
        "card": ", ".join(dict.fromkeys(it["name"] for it in mine if "name" in it)) or None,
        "driver": next((it["driver"] for it in mine if "driver" in it), None),
        "resources": order.resources,
    }


if __name__ == "__main__":
    main()
