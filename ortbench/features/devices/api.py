from __future__ import annotations

from typing import Any

from ortbench.api.calls import with_options
from ortbench.api.commands import read_call, until_interrupted
from ortbench.features.devices.job import list_devices
from ortbench.features.devices.model import Listed
from ortbench.features.devices.plan import listing_of


@with_options
def devices(**options: Any) -> Listed:
    """List execution providers, their devices, memory and modes.

    Of each its memory, its streams and the modes it can do, or why it does not load.

    Returns:
        what ``ortbench devices --json`` writes: `eps`, what they run with, what that can do.

    Raises:
        BadInput, BenchmarkFailed, Interrupted: as their own docstrings say.
    """
    with read_call("devices", options) as call, until_interrupted():
        target, library = listing_of(call.given)
        return list_devices(target, library)
