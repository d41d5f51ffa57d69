"""What the processor and the memory of this machine allow now: governor, turbo, load, limits of a container."""

from __future__ import annotations

from pathlib import Path

from ortbench.measure.environment import cpu_model, governors, load_average, usable_cores
from ortbench.model.doctor_schema import Cpu, Memory

_FREQUENCY = Path("sys/devices/system/cpu")
_GROUPS = Path("sys/fs/cgroup")


def cpu(root: Path = Path("/")) -> Cpu:
    """The processor; of its clocks and limits what Linux tells.

    Args:
        root: of the file system that is read.
    """
    import psutil

    load = load_average()
    return {
        "model": cpu_model(),
        "cores": psutil.cpu_count(),
        "usable": usable_cores(),
        "limit": core_limit(root),
        "governors": governors(root),
        "turbo": turbo(root),
        "load": None if load is None else load[0],
    }


def memory() -> Memory:
    """Main memory."""
    import psutil

    found = psutil.virtual_memory()
    return {"total": found.total, "available": found.available}


def turbo(root: Path) -> bool | None:
    """Whether clocks may go beyond the nominal one; None where nobody says."""
    switched_off = _read(root / _FREQUENCY / "intel_pstate" / "no_turbo")
    if switched_off is not None:
        return switched_off == "0"
    boost = _read(root / _FREQUENCY / "cpufreq" / "boost")
    return None if boost is None else boost == "1"


def core_limit(root: Path) -> float | None:
    """How many cores' worth of time this process's control groups may take, the tightest of them; None without a limit.

    Version 2 has one tree of groups, version 1 one for each controller. Inside a container the group that a process says
    it is in may not be visible; its own tree then begins at the root.
    """
    limits = []
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            trees = [_GROUPS, _GROUPS / "unified"]
        elif "cpu" in controllers.split(","):
            trees = [_GROUPS / controllers, _GROUPS / "cpu"]
        else:
            continue
        group = Path(path.lstrip("/"))
        limits += [_limit(root / tree / inner) for tree in trees for inner in (group, *group.parents)]
    return min((limit for limit in limits if limit is not None), default=None)


def _limit(group: Path) -> float | None:
    quota, period = [*(_read(group / "cpu.max") or "").split(), "", ""][:2]
    if not quota:
        quota, period = _read(group / "cpu.cfs_quota_us") or "", _read(group / "cpu.cfs_period_us") or ""
    if not quota.isdigit() or not period.isdigit():  # "max" and -1 are no limit
        return None
    return int(quota) / int(period)


def _read(file: Path) -> str | None:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None
