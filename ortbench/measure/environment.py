"""What a figure depends on besides the model: machine, drivers, clocks, load, source revision."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from ortbench.core import signals
from ortbench.core.errors import BadInput, BenchmarkFailed, Unsupported
from ortbench.core.processes import output_of, start_process
from ortbench.measure.gpus import card_of, nvidia_gpus, opened_nvml
from ortbench.model.protocol import Memory
from ortbench.model.result import Result
from ortbench.model.schema import NVIDIA, Cpu, Machine, Node, is_on_nvidia

_node: Node | None = None
_commit: str | None = None


def set_cluster_node(node: Node, commit: str | None) -> None:
    """From now on results of this process name the machine of a cluster, and the commit of the folder that its suite is in."""
    global _node, _commit
    _node, _commit = node, commit


def environment() -> Machine:
    """The machine and the state it is in; what the worker knows (ONNX Runtime, Python) is added to it."""
    machine: Machine = {
        "os": platform.platform(),
        "machine": platform.machine(),
        "host_id": host_id(),
        "cpu": _cpu(),
        "governors": governors(),
        "gpus": nvidia_gpus(),
        "load_average": {"start": load_average(), "end": None},
        "git_commit": git_commit() if _node is None else _commit,
    }
    if _node is not None:
        machine["node"] = _node
    return machine


def _cpu() -> Cpu:
    cpu: Cpu = {"model": cpu_model(), "cores": os.cpu_count(), "usable_cores": usable_cores()}
    for key, value in (("physical_cores", physical_cores()), ("core_limit", core_limit())):
        if value is not None:
            cpu[key] = value  # type: ignore[literal-required]
    return cpu


def host_id() -> str:
    """What tells this machine, or this container, from others of the same hardware: a hash, so that results do not name it."""
    return sha256(f"{platform.node()} {read_text(Path('/etc/machine-id')) or ''}".encode()).hexdigest()[:16]


def cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def usable_cores() -> int | None:
    """Cores this process may run on, which in a container can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    import psutil  # Windows has affinities, macOS none

    with contextlib.suppress(OSError, psutil.Error):
        if (affinity := getattr(psutil.Process(), "cpu_affinity", None)) is not None:
            return len(affinity())
    return os.cpu_count()


def physical_cores(root: Path = Path("/")) -> int | None:
    """Cores of the machine, those with several hardware threads once; None where the system does not tell."""
    files = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    return len({read_text(file) for file in files} - {None}) or None


def governors(root: Path = Path("/")) -> dict[str, int]:
    """How many cores each frequency governor has; empty where there is none, as on most virtual machines."""
    counts: Counter[str] = Counter()
    for file in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            counts[file.read_text().strip()] += 1
    return dict(sorted(counts.items()))


_GROUPS = Path("sys/fs/cgroup")


def control_groups(root: Path = Path("/")) -> Iterator[Path]:
    """The folders of this process's control groups of the CPU, each behind those inside of it; some need not be there.

    Version 2 has one tree of groups, version 1 one for each controller. Inside a container the group that a process says
    it is in may not be visible; its own tree then begins at the root.
    """
    for line in (read_text(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            trees = [_GROUPS, _GROUPS / "unified"]
        elif "cpu" in controllers.split(","):
            trees = [_GROUPS / controllers, _GROUPS / "cpu"]
        else:
            continue
        group = Path(path.lstrip("/"))
        yield from (root / tree / inner for tree in trees for inner in (group, *group.parents))


def core_limit(root: Path = Path("/")) -> float | None:
    """How many cores' worth of time this process's control groups may take, the tightest of them; None without a limit."""
    return min((limit for group in control_groups(root) if (limit := _limit(group)) is not None), default=None)


def _limit(group: Path) -> float | None:
    quota, period = [*(read_text(group / "cpu.max") or "").split(), "", ""][:2]
    if not quota:
        quota = read_text(group / "cpu.cfs_quota_us") or ""
        period = read_text(group / "cpu.cfs_period_us") or ""
    if not quota.isdigit() or not period.isdigit():  # "max" and -1 are no limit
        return None
    return int(quota) / int(period)


def read_text(file: Path) -> str | None:
    """The text of a file of the system's; None where there is none that can be read."""
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def machine_memory() -> Memory | None:
    """Main memory; None where the system does not tell."""
    import psutil

    with contextlib.suppress(OSError, LookupError, psutil.Error):
        found = psutil.virtual_memory()
        return {"total": found.total, "available": found.available}
    return None


def free_memory() -> int:
    """Main memory that can be had, bytes; no limit where the system does not tell."""
    found = machine_memory()
    return sys.maxsize if found is None else found["available"]


def load_average() -> list[float] | None:
    """Load averages over 1, 5 and 15 minutes, or None where the system has none."""
    if sys.platform == "win32":
        return None
    try:
        return [round(value, 2) for value in os.getloadavg()]
    except OSError:
        return None


def git_commit() -> str | None:
    """The commit of the current folder, by its name alone; None outside a checkout.

    Whether files differ from it is not asked: git would run what the folder's configuration names, such as ``core.fsmonitor`` and filters.
    """
    with contextlib.suppress(BenchmarkFailed):
        done = output_of(["git", "rev-parse", "--verify", "HEAD"], 10, env={**os.environ, "GIT_NO_LAZY_FETCH": "1"})
        return done.stdout.decode(errors="replace").strip() or None
    return None


_VENDOR = f"0x{NVIDIA:04x}"
_DISPLAY = "0x03"  # PCI's class of display controllers, 3D controllers among them


def has_nvidia_gpu() -> bool:
    """Whether NVIDIA's driver answers, or a card of it is on the bus without."""
    with opened_nvml() as nvml:
        return nvml is not None or is_on_the_bus(Path("/"))


def is_on_the_bus(root: Path) -> bool:
    devices = (root / "sys/bus/pci/devices").glob("*")
    own = (it for it in devices if read_text(it / "vendor") == _VENDOR)
    return any((read_text(it / "class") or "").startswith(_DISPLAY) for it in own)


# ``--lock-clocks``: the clocks of NVIDIA's cards are locked while something is measured, and reset whatever ends it


_OPTION = "--lock-clocks"
_TDP = 0xFFFFFF01  # NVML_CLOCK_LIMIT_ID_TDP: the base clock, which the card holds within its power
_RESET_S = 30.0


@contextmanager
def locked_clocks(results: Sequence[Result], clocks: str | int) -> Iterator[None]:
    """Inside the block the cards of all configurations, whose models are open, have their clocks locked; `BadInput` where there is no
    such card, the user may not, or the card does not take the clock."""
    with ExitStack() as stack:
        for card in _cards(results, clocks):
            guard = _Guard(card, clocks)
            stack.callback(_release, guard, results)
        for result in results:
            result.environment["locked_clocks"] = clocks
        yield


def _cards(results: Sequence[Result], wish: str | int) -> list[int]:
    """The cards that configurations run on; those that run on none are left alone."""
    try:
        with opened_nvml() as nvml:
            on_cards = [result.target for result in results if is_on_nvidia(result.target)]
            return sorted({card_of(target, nvml) for target in on_cards or [results[0].target]})
    except Unsupported as error:
        raise BadInput(f"{_OPTION} {wish}: {error}", _OPTION) from None


def _release(guard: _Guard, results: Sequence[Result]) -> None:
    problem = guard.release()
    for result in results if problem is not None else ():
        cure = f"sudo nvidia-smi -i {guard.card} -rgc resets them"
        result.warn("clocks-not-reset", f"the clocks of GPU {guard.card} stay locked: {problem}; {cure}")


class _Guard:
    """The process that locks a card's clocks and resets them; `BadInput` where they cannot be locked."""

    def __init__(self, card: int, wish: str | int) -> None:
        self.card = card
        low = high = _TDP if isinstance(wish, str) else wish
        line = [sys.executable, "-P", "-m", __name__, str(card), str(low), str(high)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self._process = start_process("the process that locks clocks", line, **pipes)
        answer = self._answer()
        if answer is None or "error" in answer:
            self.release()
            raise BadInput(
                f"{_OPTION} {wish}: {_why_not(card, wish, answer or {'error': 'its process ended'})}", _OPTION
            )

    def _answer(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else None

    def release(self) -> str | None:
        """Have the clocks reset, and wait for it; returns what went wrong."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            code = self._process.wait(_RESET_S)
        except subprocess.TimeoutExpired:
            return f"no answer for {_RESET_S:g} s"
        answer = self._answer()
        return None if code == 0 else str((answer or {}).get("error", "the process that was to reset them was killed"))


def _why_not(card: int, wish: str | int, answer: dict[str, Any]) -> str:
    if answer.get("may", True):
        return f"GPU {card} does not take it: {answer['error']}"
    clocks = "tdp,tdp" if isinstance(wish, str) else f"{wish},{wish}"
    before, after = (f"sudo nvidia-smi -i {card} {it}" for it in (f"-lgc {clocks}", "-rgc"))
    return f"you may not lock the clocks of GPU {card}: run '{before}' before and '{after}' afterwards, without this option"


def main() -> int:
    import pynvml as nvml

    for number in signals.SIGNALS:  # it ends with its input, and never before the clocks are reset
        signal.signal(number, signal.SIG_IGN)
    card, least, most = map(int, sys.argv[1:])
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(card)
        nvml.nvmlDeviceSetGpuLockedClocks(handle, least, most)
    except nvml.NVMLError as error:
        _say(error=str(error), may=error.value != nvml.NVML_ERROR_NO_PERMISSION)
        return 1
    _say()
    sys.stdin.buffer.read()
    try:
        nvml.nvmlDeviceResetGpuLockedClocks(handle)
    except nvml.NVMLError as error:
        _say(error=str(error))
        return 1
    return 0


def _say(**what: object) -> None:
    with contextlib.suppress(OSError):  # nobody is there any more
        os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
