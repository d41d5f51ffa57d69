"""Ray itself: in a process beside the command, since Ray prints much and ends its process where it loses its cluster, and in the task
of each case."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import ray

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, one_line
from ortbench.core.files import not_written, temporary_folder
from ortbench.core.version import __version__
from ortbench.jobs import cases
from ortbench.jobs.cluster.orders import CPU, GPU, Amounts, Done, Order, amounts_for, files_of, fits, moved, paths_of
from ortbench.jobs.suite_folder import CASE_FILE
from ortbench.measure.environment import measured_for_a_cluster
from ortbench.measure.gpus import nvidia_gpus
from ortbench.model.schema import Node

_REACH_S, _TICK_S = 10.0, 0.5
_OF_TASKS = ("OMP_NUM_THREADS", "RAY_")  # what Ray sets for its tasks: threads that a plain run would not be limited to


@ray.remote(max_retries=3, max_calls=1)  # a process that has measured is not used again
def carry_out(order: Order, *contents: Any) -> Done:
    """Carry a case out on the machine that Ray chose, with the contents of its files."""
    node = _node(order)
    if order.version != __version__:
        raise BenchmarkFailed(f"{node['name']} has ortbench {__version__}, and here is {order.version}")
    _become_plain()
    measured_for_a_cluster(node, order.commit)
    with temporary_folder() as name:
        here, left, places = Path(name), iter(contents), {}
        for number, (path, names) in enumerate(order.files.items()):
            places[path] = str(here / str(number) / Path(path).name)
            for file in (here / str(number) / it for it in names):
                file.parent.mkdir(parents=True, exist_ok=True)
                next(left).tofile(file)

        def base(path: str) -> str:
            return os.path.join(order.base, path)

        job = moved(order.job, lambda path: places.get(path) or base(path), base)
        folder = here / job.case.id
        cases.carry_out(job, replace(order.record, node=node), folder, quiet=True)
        files = {it.relative_to(folder).as_posix(): it.read_bytes() for it in folder.rglob("*") if it.is_file()}
    if CASE_FILE not in files:
        raise BenchmarkFailed(f"{node['name']} has no room for the result: {'; '.join(not_written()) or 'it is lost'}")
    return Done(files, not_written())


def _become_plain() -> None:
    """Take back what Ray does to its tasks and a plain run has not: its variables, and a priority lower than Ray's own."""
    raylet = os.environ.get("RAY_RAYLET_PID")
    for name in [name for name in os.environ if name.startswith(_OF_TASKS)]:
        del os.environ[name]
    if sys.platform != "win32" and raylet is not None:
        with contextlib.suppress(OSError):  # who may not have a higher one keeps what Ray gives tasks
            os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, int(raylet)))


def _node(order: Order) -> Node:
    context = ray.get_runtime_context()
    machine = next(it for it in ray.nodes() if it["NodeID"] == context.get_node_id())  # type: ignore[no-untyped-call]
    address, named = machine["NodeManagerAddress"], machine.get("NodeName")
    cards = [str(card) for card in context.get_accelerator_ids().get(GPU, [])]
    gpus = nvidia_gpus() if cards else []
    mine = [gpus[int(card)] for card in cards if card.isdecimal() and int(card) < len(gpus)]
    return {
        "name": named if named and named != address else machine.get("NodeManagerHostname") or address,
        "address": address,
        "card": ", ".join(dict.fromkeys(it["name"] for it in mine if "name" in it)) or None,
        "driver": next((it["driver"] for it in mine if "driver" in it), None),
        "resources": order.job.demand.resources,
    }


# Beside the command


def main() -> None:
    """Carry out what standard input says, in pickles: the cluster's address and the orders; what becomes of each case goes to standard
    output, until all are done or standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what Ray prints is not an answer
    address, orders = pickle.load(sys.stdin.buffer)

    def tell(*answer: Any) -> None:
        pickle.dump(answer, answers)
        answers.flush()

    # Machines look for modules in the current folder first, which may have some that are called like their packages.
    with contextlib.suppress(BrokenPipeError), tempfile.TemporaryDirectory() as nowhere, contextlib.chdir(nowhere):
        try:
            _connect(address)
        except Exception as error:
            tell(one_line(error))
            return
        tell("")
        _serve(orders, tell)


def _connect(address: str) -> None:
    if ":" in address:
        host, port = address.rpartition("/")[2].rsplit(":", 1)
        try:
            socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
        except (OSError, ValueError) as error:  # Ray would try it again and again, for minutes
            raise OSError(f"cannot be reached: {one_line(error)}") from None
    ray.init(address=address, log_to_driver=False, configure_logging=False)


def _serve(orders: list[Order], tell: Callable[..., None]) -> None:
    stored: dict[str, Any] = {}  # by their paths the files that are in Ray's object store, each once
    running: dict[Any, tuple[Order, Amounts]] = {}
    try:
        while (orders or running) and not select.select([sys.stdin], [], [], 0)[0]:
            nodes = ray.nodes()  # type: ignore[no-untyped-call]
            machines = [it["Resources"] for it in nodes if it["Alive"] and it["Resources"].get(CPU, 0) >= 1]
            for task, (_, taken) in [*running.items()]:
                if not any(fits(taken, it) for it in machines):  # its machine is lost
                    ray.cancel(task, force=True)
                    orders.append(running.pop(task)[0])
            for order in orders:
                demand = order.job.demand
                amounts = amounts_for(demand, machines)
                if amounts is None:
                    tell("failed", order.job.case.id, f"no machine of the cluster has {demand}")
                    continue
                try:
                    running[_start(order, amounts, stored)] = order, amounts
                except (OSError, ray.exceptions.RayError) as error:
                    tell("failed", order.job.case.id, one_line(f"{type(error).__name__}: {error}"))
            orders = []
            for task in ray.wait([*running], timeout=_TICK_S)[0] if running else ():
                tell(*_outcome(task, running.pop(task)[0].job.case.id))
    finally:
        for task in running:
            ray.cancel(task, force=True)
        ray.shutdown()


def _start(order: Order, taken: Amounts, stored: dict[str, Any]) -> Any:
    files = {path: files_of(Path(order.base, path)) for path in paths_of(order.job, order.base)}
    sources = [str(it) for of_path in files.values() for it in of_path.values()]
    for source in sources:
        stored[source] = stored.get(source) or ray.put(np.fromfile(source, np.uint8))
    order = order._replace(files={path: tuple(of_path) for path, of_path in files.items()})
    named = {name: amount for name, amount in taken.items() if name not in (CPU, GPU)}
    options = {"num_cpus": taken[CPU], "num_gpus": taken.get(GPU, 0), "resources": named}
    return carry_out.options(name=f"ortbench {order.job.case.id}", **options).remote(
        order, *(stored[it] for it in sources)
    )


def _outcome(task: Any, case: str) -> tuple[str, str, Any]:
    try:
        return "done", case, ray.get(task)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        text = str(cause) if isinstance(cause, OrtbenchError) else f"{type(cause).__name__}: {cause}"
        return "failed", case, one_line(text)
    except ray.exceptions.RayError as error:
        return "failed", case, f"was lost with each machine that it was given to ({type(error).__name__})"
