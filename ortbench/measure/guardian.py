"""Locks a card's clocks and resets them when its standard input ends: a process of its own, ``python -m
ortbench.measure.guardian CARD LEAST MOST``.

Its input is a pipe whose other end `ortbench.measure.clocks` holds, so that it ends however that process ends: in order, by an
error, by a signal, or killed. There is one way of resetting, and it is this one. It writes a line of JSON when the clocks are
locked, or why they are not: ``{"error", "may"}``; and another if they could not be reset.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys

RESET, NOT_LOCKED, NOT_RESET = 0, 3, 4  # exit codes


def main() -> int:
    import pynvml as nvml

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # it ends with its input, and never before the clocks are reset
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    card, least, most = map(int, sys.argv[1:])
    try:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(card)
        nvml.nvmlDeviceSetGpuLockedClocks(handle, least, most)
    except nvml.NVMLError as error:
        _say(error=str(error), may=error.value != nvml.NVML_ERROR_NO_PERMISSION)
        return NOT_LOCKED
    _say()
    sys.stdin.buffer.read()
    try:
        nvml.nvmlDeviceResetGpuLockedClocks(handle)
    except nvml.NVMLError as error:
        _say(error=str(error))
        return NOT_RESET
    return RESET


def _say(**what: object) -> None:
    with contextlib.suppress(OSError):  # nobody is there any more
        os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main())
