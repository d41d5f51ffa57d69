"""Ray itself: the only module that imports it, in the process beside the command and on every machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import (
    GetTimeoutError,
    NodeDiedError,
    RayError,
    RayTaskError,
    TaskCancelledError,
    TaskUnschedulableError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ortbench.core.errors import BenchmarkFailed, OrtbenchError, one_line
from ortbench.core.version import __version__
from ortbench.jobs.cluster import machine
from ortbench.jobs.cluster.machines import (
    CPU,
    GPU,
    Amounts,
    Done,
    Joining,
    Order,
    Place,
    TaskLost,
    Unusable,
    name_of,
    place_of,
)

_PART = 64 << 20  # bytes of a file that are put into Ray's object store at a time
_REACH_S = 10.0
_ANSWER_S = 90.0  # how long a machine may take to say what it has; its first process has to start
_TIDY_S = 10.0


# Who gives out cases tries again, elsewhere; a process that has measured is not used again.
@ray.remote(max_retries=0, max_calls=1)
def _carry_out(order: Order) -> Done:
    cards = ray.get_runtime_context().get_accelerator_ids().get(GPU, [])
    return machine.carry_out(order, ray.get, [str(card) for card in cards])


def _look_function() -> Callable[..., dict[str, Any]]:
    """A function that needs no ortbench on the machine: one inside another goes there as it is, not by its name."""

    def look(wanted: str, base: str, pythons: tuple[str, ...]) -> dict[str, Any]:
        try:
            from ortbench.core.version import __version__ as version
        except ImportError:
            return {"version": None}
        if version != wanted:
            return {"version": version}
        from ortbench.jobs.cluster.machine import facts

        return {"version": version, **facts(base, pythons)}

    return look


def _on(machine_id: str) -> NodeAffinitySchedulingStrategy:
    return NodeAffinitySchedulingStrategy(machine_id, soft=False)


class Rays:
    """A Ray cluster, by its address as it was typed; `Unusable` where there is none."""

    def __init__(self, address: str) -> None:
        if ":" in address:
            host, port = address.rpartition("/")[2].rsplit(":", 1)
            try:
                socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
            except (OSError, ValueError) as error:  # Ray would try it again and again, for minutes
                raise Unusable(f"cannot be reached: {one_line(error)}") from None
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except Exception as error:
            raise Unusable(one_line(error)) from None
        self._look = ray.remote(num_cpus=0, max_retries=0)(_look_function())
        self._tidy = ray.remote(num_cpus=0, max_retries=0)(machine.tidy)

    def machines(self) -> dict[str, dict[str, Any]]:
        """What Ray says of each machine that is there and has a CPU for tasks, by its id."""
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
        return {it["NodeID"]: it for it in nodes if it["Alive"] and it["Resources"].get(CPU, 0) >= 1}

    def look_at(self, machines: dict[str, dict[str, Any]], joining: Joining) -> dict[str, Place | Unusable]:
        """What is on machines, of which Ray says this, or why one cannot be used, by their ids."""
        asked = {}
        for id_ in machines:
            look = self._look.options(scheduling_strategy=_on(id_))
            asked[id_] = look.remote(__version__, joining.base, joining.pythons)
        found: dict[str, Place | Unusable] = {}
        for id_, answer in asked.items():
            try:
                found[id_] = place_of(machines[id_], ray.get(answer, timeout=_ANSWER_S), __version__)
            except Unusable as error:
                found[id_] = error
            except (GetTimeoutError, RayError) as error:
                found[id_] = Unusable(f"{name_of(machines[id_])} does not answer ({type(error).__name__})")
        return found

    def put(self, path: str) -> list[Any]:
        """Put a file's content into Ray's object store, from which a machine takes it once; the names of its parts. `OSError`
        where it cannot be read, or the store has no room for it."""
        try:
            with Path(path).open("rb") as file:
                return [ray.put(part) for part in iter(lambda: file.read(_PART), b"")]
        except RayError as error:
            raise OSError(f"Ray's object store does not take {path}: {type(error).__name__}") from None

    def start(self, order: Order, taken: Amounts) -> Any:
        named = {name: amount for name, amount in taken.items() if name not in (CPU, GPU)}
        return _carry_out.options(
            name=f"ortbench {order.work.id}",
            num_cpus=taken[CPU],
            num_gpus=taken.get(GPU, 0),
            resources=named,
            scheduling_strategy=_on(order.place.id),
        ).remote(order)

    def ended(self, tasks: Iterable[Any], wait_s: float) -> list[Any]:
        ready, _ = ray.wait([*tasks], num_returns=1, timeout=wait_s)
        return ready

    def outcome(self, task: Any) -> Done:
        """What came of a task that has ended: `BenchmarkFailed` where that is nothing, and would be elsewhere; or `TaskLost`."""
        try:
            done: Done = ray.get(task)
        except RayTaskError as error:
            cause = error.cause
            text = str(cause) if isinstance(cause, OrtbenchError) else f"{type(cause).__name__}: {cause}"
            raise BenchmarkFailed(one_line(text)) from None
        except TaskCancelledError:
            raise BenchmarkFailed("was cancelled by somebody else") from None
        except RayError as error:
            gone = isinstance(error, (NodeDiedError, TaskUnschedulableError))
            raise TaskLost(type(error).__name__, gone) from None
        return done

    def end(self, tasks: Iterable[Any], suite: str, machines: Sequence[str]) -> None:
        """Cancel tasks, remove what the suite has left on machines, and leave the cluster."""
        with suppress(RayError):
            for task in tasks:
                ray.cancel(task, force=True)
            tidying = [self._tidy.options(scheduling_strategy=_on(it)).remote(suite, it) for it in machines]
            if tidying:
                ray.wait(tidying, num_returns=len(tidying), timeout=_TIDY_S)
        ray.shutdown()
