"""The I/O modes: their names, what can be timed of each, and what they have in common."""

from __future__ import annotations

CPU, DEVICE, RESIDENT, HOST_ACCESSIBLE = "cpu", "device", "device-resident", "host-accessible"


CPU_PINNED, DEVICE_PINNED = "cpu-pinned", "device-pinned"


PIPELINED = "pipelined"


ASYNC = "device-resident-async"  # as device-resident, with one wait for many runs


USUAL_MODES = (CPU, DEVICE, RESIDENT, HOST_ACCESSIBLE)  # what is measured where nothing is asked for


# As cpu and device, the host's side in memory that the device reaches itself.
PINNED_MODES = (CPU_PINNED, DEVICE_PINNED)


RATE_MODES = (PIPELINED, ASYNC)  # whose calls are of several inferences


OPTIONAL_MODES = (*PINNED_MODES, *RATE_MODES)


MODES = (*USUAL_MODES, *OPTIONAL_MODES)


DYNAMIC_MODES = (DEVICE, RESIDENT, DEVICE_PINNED)  # whose outputs can be left for ORT to allocate


EXTERNAL_MODES = (DEVICE, RESIDENT)  # whose inputs can be in memory of another library


CAPTURED_MODES = (DEVICE, RESIDENT, DEVICE_PINNED, ASYNC)  # whose addresses are fixed and on the device


CPU_TENSOR_MODES = (CPU, CPU_PINNED)  # what their runs copy is known by difference only


# What can be timed of each mode: inside a run with CPU tensors the phases cannot be told apart.
PHASES = {
    CPU: ("total",),
    DEVICE: ("upload", "inference", "download", "total"),
    RESIDENT: ("inference", "total"),
    HOST_ACCESSIBLE: ("inference", "total"),
    CPU_PINNED: ("total",),
    DEVICE_PINNED: ("upload", "inference", "download", "total"),
    PIPELINED: ("upload", "inference", "download", "total"),
    ASYNC: ("total",),
}


def is_rate(mode: str, phase: str) -> bool:
    """Whether a time says how often an inference is done, and not how long one takes."""
    return mode in RATE_MODES and phase == "total"


TOTAL = "total"  # the phase of whole inferences, which every mode has
