"""How much of the host's memory this process has: its resident set, now and at its peak, as the system tells it."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5): sets the peak back to what there is now


def now() -> int | None:
    """Bytes, or None where the system does not tell."""
    return _of_status("VmRSS") if _STATUS.exists() else _of_psutil("rss")


def peak() -> int | None:
    """The most since the process began, or since `restart_peak`, bytes; None where the system does not tell."""
    if _STATUS.exists():
        return _of_status("VmHWM")
    if sys.platform == "win32":
        return _of_psutil("peak_wset")
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def restart_peak() -> bool:
    """Have the peak begin anew; false where that cannot be, so that it is that of the process from its beginning."""
    with suppress(OSError):
        _CLEAR.write_text(_RESET_PEAK)
        return True
    return False


def _of_status(key: str) -> int | None:
    found = re.search(rf"^{key}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    return None if found is None else int(found[1]) * 1024


def _of_psutil(key: str) -> int | None:
    try:
        import psutil  # another environment may lack it
    except ImportError:
        return None
    found: int | None = getattr(psutil.Process().memory_info(), key, None)
    return found
