"""The reference device: an execution provider whose copy and compute times are known by definition."""

from .refdevice import (
    EP_NAME,
    EVENT,
    HONESTY,
    KINDS,
    KNOBS,
    MEMORIES,
    VENDOR_ID,
    Config,
    Counter,
    Events,
    Honesty,
    Trace,
    build,
    duration_ns,
    failures_so_far,
    late_ns,
)

__all__ = [
    "EP_NAME",
    "EVENT",
    "HONESTY",
    "KINDS",
    "KNOBS",
    "MEMORIES",
    "VENDOR_ID",
    "Config",
    "Counter",
    "Events",
    "Honesty",
    "Trace",
    "build",
    "duration_ns",
    "failures_so_far",
    "late_ns",
]
