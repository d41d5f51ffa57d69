"""The reference device: an execution provider whose copy and compute times are known by definition."""

from .refdevice import (
    EP_NAME,
    HONESTY,
    KINDS,
    MEMORIES,
    VENDOR_ID,
    Config,
    Events,
    Honesty,
    Trace,
    build,
    counters,
)

__all__ = [
    "EP_NAME",
    "HONESTY",
    "KINDS",
    "MEMORIES",
    "VENDOR_ID",
    "Config",
    "Events",
    "Honesty",
    "Trace",
    "build",
    "counters",
]
